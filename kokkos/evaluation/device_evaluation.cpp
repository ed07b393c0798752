// SPDX-License-Identifier: MIT
// Evaluates a model on a device: batches and memory, stages and exchanges, launches and results.
#include "kokkos/evaluation/device_evaluation.h"

#include "kokkos/geometry/radial_set.h"
#include "kokkos/plan/linear_folds.h"
#include "src/base/owned_memory.h"
#include "src/evaluation/native_evaluators.h"
#include "src/numbers/number_types.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace equi {

namespace {

// Receivers per batch if the device is the host.
constexpr int HOST_BATCH = 256;
// `radial exact` keeps all weights of a batch's edges.
constexpr int EXACT_BATCH = 128;
// A radial network of atoms' features needs some tens of kB for each edge of a batch, as do the rows that edges read
// for energy moments.
constexpr int NETWORK_BATCH = 256;
// The smallest batch that a memory limit leads to, and the fewest batches of a slice before batches become smaller.
// Each slice is a pass over all senders.
constexpr int MIN_BATCH = 64, MIN_SLICE_BATCHES = 4;
// Share of the limit that may be used; the rest is for small arrays whose size is unknown when batches are cut.
constexpr double FILLED = 0.99;
// Edges for which memory is planned, per edge at present: their number varies while a neighbor list is in use.
constexpr double EDGE_RESERVE = 1.03;
// Memory reserved for the recordings of a small system's launches before they are made: some tens of kB for each
// launch.
constexpr std::size_t BYTES_OF_RECORDINGS = DeviceTraits<>::ON_HOST ? 0 : 32 << 20;

int64_t with_reserve(int64_t num_edges) {
  return static_cast<int64_t>(std::ceil(EDGE_RESERVE * num_edges));
}

}    // namespace

template <class T>
EvaluationPlan DeviceEvaluation<T>::plan_for(const Model &model, const EvaluatorOptions &options,
                                             const PlanMemory &saving) {
  return make_evaluation_plan(model, true, IS_DUAL<T>, IS_DUAL<T> ? options.kept_directions : 0,
                              options.energy_moments ? EnergyMoments::DIRECTIONS : 1, saving);
}

template <class T>
DeviceEvaluation<T>::DeviceEvaluation(Model model, const EvaluatorOptions &options)
    : Base(std::move(model), options, plan_for(model, options, {options.lean, false})),
      own_exec_(make_own_instance()),
      dense_(DeviceExec()),
      own_dense_(own_exec_),
      edges_(DeviceExec(), model_.lmax_edge, model_.num_species(), model_.cutoff, model_.pair_cutoff, model_.nearest),
      state_{plan_, features_, edges_, model_.num_species()},
      exec_(state_.exec),
      summary_("equi:summary") {
  if (Base::far_cutoff_ > 0.0)
    state_.far_edges = &far_edges_.emplace(DeviceExec(), 0, model_.num_species(), Base::far_cutoff_, Matrix());
  state_.energy_moments = options.energy_moments;
  assign(exec_, device_shift_, Base::energies_.shift);
  DeviceContext context{{model_, plan_, options_, Base::energies_.scale}, exec_};
  Base::prepare_layers(context);
  divides_edges_ = plan_.keeps_values && std::any_of(Base::sender_layers_.begin(), Base::sender_layers_.end(),
                                                     [](const auto *layer) { return layer->divides_edges(); });
  evaluate_fixed_features();
}

template <class T>
void DeviceEvaluation<T>::evaluate_fixed_features() {
  const int num_species = model_.num_species();
  std::vector<int> species(num_species), begin(num_species + 1);
  std::iota(species.begin(), species.end(), 0);
  std::iota(begin.begin(), begin.end(), 0);
  DeviceBuffer<int> device_species;
  assign(exec_, device_species, species);
  features_.for_fixed_arrays([&](DeviceBuffer<R> &array, int64_t n) { device_zero(exec_, array.reserve(n), n); });
  state_.planes = {0, plan_.planes};
  Batch of_species{state_, 0, num_species, device_species.data(), device_species.data(), begin.data()};
  Base::evaluate_fixed_features(of_species);
  exec_.fence("equi: the local order of species is in use no more");
  check_launches();
}

template <class T>
std::string DeviceEvaluation<T>::describe() const {
  char text[200];
  std::snprintf(text, sizeof text, "  precision %s, device kernels on %s\n", Base::precision_name(),
                DeviceExec::name());
  return text + Base::describe_layers();
}

// ---- neighborhood
template <class T>
void DeviceEvaluation<T>::set_neighborhood(const Neighborhood &n) {
  static_cast<DeviceNeighborList &>(neighborhood_) = {};    // shared memory would stay if the copy grows
  copy_neighborhood(exec_, n, copied_list_);
  const int64_t size = 3 * static_cast<int64_t>(n.num_atoms);
  positions_.reserve(size);
  if (IS_DUAL<T>) direction_.reserve(Base::max_directions() * size);
  host_neighborhood_ = &n;
  set_neighborhood(copied_list_, n.box);
}

template <class T>
void DeviceEvaluation<T>::set_neighborhood(const DeviceNeighborList &list, const PeriodicBox &box) {
  exec_ = DeviceExec();
  box_ = box;
  DeviceNeighborhood &n = neighborhood_;
  static_cast<DeviceNeighborList &>(n) = list;
  if (&list != &copied_list_) {
    copied_list_ = {};
    host_neighborhood_ = nullptr;
  }
  values_are_kept_ = false;
  // A rank without remote rows need not know whether others exchange.
  is_exchanging_ = n.num_rows > n.num_receivers;
  state_.num_rows = n.num_rows;
  state_.num_receivers = n.num_receivers;
  state_.row_species = n.row_species.data();
  // With enough memory for all candidates, sizes do not depend on positions. Otherwise they wait for the positions of
  // an evaluation, because less than half of the candidates are edges.
  is_divided_ = false;
  are_candidates_too_many_ = choose_sizes(nullptr);
  if (!are_candidates_too_many_) divide_into_batches();
}

template <class T>
auto DeviceEvaluation<T>::count_edges(DeviceEdges<T> &edges, const double *positions) -> EdgesWithinCutoff {
  EdgesWithinCutoff found{edges.count_within_cutoff(exec_, neighborhood_, positions), 0};
  copy_to_host(exec_, &found.number, found.begin + num_owned(), 1);
  return found;
}

template <class T>
void DeviceEvaluation<T>::save_memory(const PlanMemory &saving) {
  if (saving.is_lean == saving_.is_lean && saving.has_slices == saving_.has_slices) return;
  saving_ = saving;
  Base::use_plan(plan_for(model_, options_, saving));
}

template <class T>
bool DeviceEvaluation<T>::choose_sizes(const double *positions) {
  const DeviceNeighborhood &n = neighborhood_;
  const int64_t *begin = n.first.data();
  planned_edges_ = {n.num_candidates, n.num_candidates, 0};
  if (positions) {
    const EdgesWithinCutoff edges = count_edges(edges_, positions);
    begin = edges.begin;
    planned_edges_.all = with_reserve(edges.number);
    if (far_edges_) planned_edges_.far = with_reserve(count_edges(*far_edges_, positions).number);
  }
  batch_size_ = options_.batch > 0 ? options_.batch : DeviceTraits<>::ON_HOST ? HOST_BATCH : DEVICE_BATCH;
  if (options_.radial_exact) batch_size_ = std::min(batch_size_, EXACT_BATCH);
  if (any_layer(model_.layers, &LayerTraits::has_edge_networks) || options_.energy_moments)
    batch_size_ = std::min(batch_size_, NETWORK_BATCH);
  slice_size_ = std::max(1, n.num_receivers);
  batch_size_ = std::min(batch_size_, slice_size_);
  adjoints_per_edge_ = sender_adjoints_per_edge();
  keeps_bins_ = false;
  const auto estimate = [&] {
    const int64_t of_batch = most_in_window(exec_, begin, n.num_receivers, batch_size_);
    planned_edges_.of_batch = positions ? with_reserve(of_batch) : of_batch;
    return static_cast<double>(memory_estimate(planned_edges_.all, planned_edges_.far, planned_edges_.of_batch));
  };
  // Candidates say too little about edges to save memory for them.
  if (!positions) return options_.memory_limit > 0.0 && estimate() > FILLED * options_.memory_limit;
  bool is_changed = false;
  for (; options_.memory_limit > 0.0 && estimate() > FILLED * options_.memory_limit; is_changed = true) {
    if (adjoints_per_edge_ > 0) {
      adjoints_per_edge_ = 0;
      sender_adjoints_ = {};
      continue;
    }
    if (!saving_.is_lean && !plan_.keeps_values) {
      save_memory({true, saving_.has_slices});
      continue;
    }
    const int whole = slice_size_, least = MIN_SLICE_BATCHES * batch_size_;
    if (whole > least && !plan_.keeps_values) {    // which keeps adjoints of all receivers
      const double before = estimate();
      const PlanMemory saving = saving_;
      slice_size_ = std::max(least, whole / 2);
      save_memory({saving.is_lean, true});
      if (estimate() < before) continue;
      slice_size_ = whole;    // the lists of senders by slices use more memory than slices save
      save_memory(saving);
    }
    if (batch_size_ <= MIN_BATCH) break;    // an evaluation will throw if it does not fit
    batch_size_ /= 2;
  }
  return is_changed;
}

template <class T>
void DeviceEvaluation<T>::choose_sizes_for_edges(const double *positions) {
  const auto are_planned = [&](DeviceEdges<T> &edges, int64_t planned, int64_t planned_of_batch) {
    const EdgesWithinCutoff found = count_edges(edges, positions);
    return found.number <= planned && most_in_window(exec_, found.begin, num_owned(), batch_size_) <= planned_of_batch;
  };
  const PlannedEdges &planned = planned_edges_;
  if (is_divided_ && are_planned(edges_, planned.all, planned.of_batch) &&
      (!far_edges_ || are_planned(*far_edges_, planned.far, planned.far)))
    return;
  choose_sizes(positions);
  divide_into_batches();
}

template <class T>
void DeviceEvaluation<T>::divide_into_batches() {
  DeviceNeighborhood &n = neighborhood_;
  transpose_neighborhood(exec_, slice_size_, n);
  const bool can_fuse = std::any_of(Base::sender_layers_.begin(), Base::sender_layers_.end(),
                                    [](const auto *layer) { return layer->can_fuse(); });
  const bool has_reverse = can_fuse && n.num_slices == 1 && is_symmetric(model_.pair_cutoff) &&
                           model_.nearest.count == 0 && has_reverse_candidates(exec_, n);
  state_.num_reversible = has_reverse ? n.num_receivers : 0;

  std::vector<int> receiver_cuts{0};
  std::vector<int64_t> sender_cuts{0};
  // Divides [first, last) into batches of at most this size; position: of row 0 among the cuts.
  const auto divide = [&](std::vector<BatchAtoms> &batches, auto &cuts, int slice, int64_t position, int first,
                          int last, int most) {
    for (int count; first < last; first += count) {
      count = std::min(most, last - first);
      batches.push_back({slice, static_cast<int>(batches.size()), first, count, {}});
      cuts.push_back(position + first + count);
    }
  };
  batches_.clear();
  sender_batches_.clear();
  for (int slice = 0; slice < n.num_slices; slice++) {
    const int first = slice * slice_size_, last = std::min(n.num_receivers, first + slice_size_),
              middle = std::clamp(n.num_interior, first, last);
    divide(batches_, receiver_cuts, slice, 0, first, middle, batch_size_);
    divide(batches_, receiver_cuts, slice, 0, middle, last, batch_size_);
    const int64_t position = static_cast<int64_t>(slice) * n.num_rows;
    divide(sender_batches_, sender_cuts, slice, position, 0, n.num_receivers, batch_size_);
    // The number of edges that point at all remote rows is at most that of a batch of all receivers, however many
    // rows there are.
    divide(sender_batches_, sender_cuts, slice, position, n.num_receivers, n.num_rows,
           n.num_receivers <= batch_size_ ? n.num_rows : batch_size_);
  }
  // Without counting, each launch over edges covers all candidates. This is used only for one or two batches. It is
  // not used for SO(2) convolutions, where products for candidates that are not edges would take longer than the
  // host waits. Nor is it used for exact radial functions, which the host evaluates.
  keeps_bins_ = true;
  const std::size_t recordings = BYTES_OF_RECORDINGS - std::min(BYTES_OF_RECORDINGS, recorder_.bytes());
  const bool is_small =
      n.num_receivers <= std::min(batch_size_, RECORDED_ATOMS) && n.num_slices == 1 && !are_candidates_too_many_ &&
      (options_.memory_limit <= 0.0 ||
       static_cast<double>(memory_estimate(planned_edges_.all, planned_edges_.far, planned_edges_.of_batch) +
                           recordings) <= FILLED * options_.memory_limit);
  const bool has_costly_edges = any_layer(model_.layers, &LayerTraits::has_costly_edges);
  edges_.set_neighborhood(exec_, n, receiver_cuts, sender_cuts,
                          !options_.graphs || options_.radial_exact || has_costly_edges || !is_small);
  keeps_bins_ = !edges_.is_counted();
  if (far_edges_) far_edges_->set_neighborhood(exec_, n, receiver_cuts, sender_cuts, edges_.is_counted());
  recorder_.forget();
  sort_batches_by_species();
  is_divided_ = true;
}

template <class T>
void DeviceEvaluation<T>::sort_batches_by_species() {
  const int num_species = model_.num_species(), num_batches = static_cast<int>(batches_.size());
  std::vector<int> first_row;
  for (const BatchAtoms &atoms : batches_) first_row.push_back(atoms.first);
  first_row.push_back(num_owned());
  DeviceBuffer<int> device_first, device_begin;
  assign(exec_, device_first, first_row);
  std::vector<int> begin(static_cast<size_t>(num_batches) * (num_species + 1));
  order_by_species(exec_, num_batches, device_first.data(), neighborhood_.row_species.data(), num_species,
                   device_begin.reserve(begin.size()), species_order_.reserve(num_owned()));
  copy_to_host(exec_, begin.data(), device_begin.data(), begin.size());    // the host needs the sizes of products
  for (int k = 0; k < num_batches; k++)
    batches_[k].species_begin.assign(begin.begin() + k * (num_species + 1),
                                     begin.begin() + (k + 1) * (num_species + 1));
}

// ---- memory
template <class T>
void DeviceEvaluation<T>::for_arrays(const ArrayVisitor &f) {
  features_.set_rows(neighborhood_.num_rows, num_owned(), slice_rows());
  Base::for_arrays(num_owned(), f);
}

template <class T>
void DeviceEvaluation<T>::for_arrays_of_step(const ArrayVisitor &f) {
  const int64_t owned = num_owned(), rows = neighborhood_.num_rows, atoms = std::min<int64_t>(owned, batch_size_);
  int64_t batch_row_size = 0, in_place_row_size = 0;
  for (const Stage &stage : plan_.stages) batch_row_size = std::max(batch_row_size, stage.batch_row_size);
  for (const FeaturePlan &feature : plan_.features)
    if (feature.has_own_adjoint) in_place_row_size = std::max<int64_t>(in_place_row_size, feature.layout.row_size());
  f(batch_features_, atoms * batch_row_size);
  f(state_.in_place, atoms * in_place_row_size);
  int64_t scratch_size = 0;
  for (const auto &layer : Base::layers_)
    if (layer) scratch_size = std::max(scratch_size, layer->scratch_size(atoms));
  f(state_.layer_scratch, scratch_size);
  if (is_exchanging_) f(returned_, rows * plan_.max_exchanged_row_size);
  if (plan_.keeps_values) f(aside_, owned * (plan_.max_exchanged_row_size / plan_.planes));
  f(energy_, owned * plan_.max_directions());
  if (!has_system_sum_) return;
  f(system_gradient_, 3 * owned);
  if (with_atom_virial_) f(system_atom_virial_, 6 * owned);
}

template <class T>
int64_t DeviceEvaluation<T>::sender_adjoints_per_edge() {
  int64_t most = 0;
  for (const Stage &stage : plan_.stages) {
    int num_layers = 0;
    Base::for_convolutions(stage, [&](const Step &, DeviceSenderLayer<T> &layer) {
      if (layer.sender_adjoints_per_edge() == 0) return;
      most = std::max(most, layer.sender_adjoints_per_edge());
      num_layers++;
    });
    if (num_layers > 1) return 0;
  }
  return most;
}

template <class T>
DeviceBatch<T> DeviceEvaluation<T>::batch_of(const BatchAtoms &atoms, const Stage &stage) {
  Batch batch{state_,
              atoms.first,
              atoms.count,
              state_.row_species + atoms.first,
              species_order_.data() + atoms.first,
              atoms.species_begin.data()};
  batch.features = batch_features_.data();
  batch.cut = atoms.cut;
  batch.stage_first = atoms.first - atoms.slice * slice_size_;
  batch.exchanged_input = stage.exchanged_input;
  return batch;
}

// ---- stages
// An exchange of rows, with work in the queue that neither reads nor writes them. Earlier work has ended when the
// exchange begins.
template <class T>
template <class Work>
void DeviceEvaluation<T>::exchange_beside(GhostExchange &exchange, int feature, R *data, bool is_reverse,
                                          const Work &work) {
  exec_.fence("equi: features ready for other ranks");
  check_launches();
  if (!options_.overlap) {
    exchange_rows(exchange, feature, data, is_reverse);
    work();
    return;
  }
  queued_.begin();
  if (work())
    queued_.end(exec_);
  else
    queued_.cancel();
  exchange.set_busy([this] { return queued_.is_busy(); });
  exchange_rows(exchange, feature, data, is_reverse);
  exchange.set_busy({});
}

// Exchanges rows of a feature, or of its adjoint, with other ranks on the default instance; through host memory if
// the exchange requires it. Complete on return.
template <class T>
void DeviceEvaluation<T>::exchange_rows(GhostExchange &exchange, int feature, R *data, bool is_reverse) {
  const FeatureLayout &layout = plan_.features[feature].layout;
  const int64_t rows = neighborhood_.num_rows, owned = num_owned(), border = neighborhood_.num_interior;
  const bool is_staged = !DeviceTraits<>::ON_HOST && !exchange.takes_device_rows();
  const DeviceExec copies;
  R *sent = data;
  if (is_staged) {
    const int64_t size = rows * layout.row_size();
    if (size > static_cast<int64_t>(staging_.size())) {
      staging_ = {};
      staging_ = StagingView(Kokkos::view_alloc(std::string("equi:staging"), Kokkos::WithoutInitializing), size);
    }
    sent = staging_.data();
  }
  const FeaturePieces<R> &pieces = Base::pieces(feature, sent, rows);
  // Calls f(numbers on the host, numbers on the device) for the rows first .. last - 1 of each group. The copies
  // that it queues have ended on return.
  const auto copy_rows = [&](int64_t first, int64_t last, const auto &f) {
    for_groups(layout, last - first, FeatureRows<R>{sent, rows, first}, FeatureRows<R>{data, rows, first},
               [&](R *on_host, R *on_device, int64_t n) {
                 if (n > 0)
                   f(StagingView(on_host, n),
                     Kokkos::View<R *, DeviceExec::memory_space, Kokkos::MemoryUnmanaged>(on_device, n));
               });
    copies.fence("equi: rows in the memory of the other side");
    check_launches();
  };
  // Other ranks read only owned rows of neighbors of their receivers. These are neighbors in turn, so the rows are
  // those of boundary receivers. For other rows they get zeros, which they do not read. For owned rows reverse reads
  // zeros.
  if (is_staged) {
    for (const FeaturePiece<R> &piece : pieces)
      std::fill_n(piece.data, (is_reverse ? owned : border) * piece.width, R(0));
    copy_rows(is_reverse ? owned : border, is_reverse ? rows : owned,
              [&](const auto &host, const auto &device) { Kokkos::deep_copy(copies, host, device); });
  }
  if (is_reverse)
    exchange.reverse(pieces);
  else
    exchange.forward(pieces);
  // Forward has changed remote rows. From the rows that reverse has changed, only owned ones are read later.
  if (is_staged)
    copy_rows(is_reverse ? border : owned, is_reverse ? owned : rows,
              [&](const auto &host, const auto &device) { Kokkos::deep_copy(copies, device, host); });
}

// The interior receivers come first. and_back: whether the batches also go backward.
template <class T>
void DeviceEvaluation<T>::launch_forward(int s, bool interior, bool and_back) {
  const Stage &stage = plan_.stages[s];
  recorder_.run(exec_, [&] {
    if (interior && and_back) begin_adjoint(s);
    if (!interior && state_.has_backward) set_rows_aside(s, false);
    for (const BatchAtoms &atoms : batches_)
      if ((atoms.first < neighborhood_.num_interior) == interior) {
        Batch batch = batch_of(atoms, stage);
        Base::forward_layers(batch, stage);
        if (and_back) Base::backward_layers(batch, stage);
      }
  });
}

// fuses: whether the batches also go backward. With slices they then wait for the backward pass, which gathers after
// each slice.
template <class T>
void DeviceEvaluation<T>::forward_stage(int s, bool fuses, GhostExchange &exchange) {
  const int input = plan_.stages[s].exchanged_input;
  const bool waits = fuses && neighborhood_.num_slices > 1;
  if (input >= 0 && is_exchanging_)
    exchange_beside(exchange, input, features_.data(input), false, [&] {
      if (!waits) launch_forward(s, true, fuses);
      return !waits && neighborhood_.num_interior > 0;
    });
  else if (!waits)
    launch_forward(s, true, fuses);
  if (!waits) launch_forward(s, false, fuses);
}

// Computes a stage's exchanged input once more, if the plan repeats it.
template <class T>
void DeviceEvaluation<T>::repeat_input(int s) {
  const Stage &stage = plan_.stages[s];
  if (stage.repeated_stage < 0) return;
  for (const BatchAtoms &atoms : batches_) {
    Batch batch = batch_of(atoms, plan_.stages[stage.repeated_stage]);
    batch.is_backward = true;
    Base::run_forward(batch, stage.repeated_steps);
  }
  set_rows_aside(s, true);
}

// Copies values of remote rows of a stage's exchanged input to where they are kept, or back.
template <class T>
void DeviceEvaluation<T>::set_rows_aside(int s, bool and_back) {
  features_.for_rows_set_aside(s, [&](FeatureRows<R> rows, FeatureRows<R> aside) {
    const FeatureLayout &layout = plan_.features[plan_.stages[s].exchanged_input].layout;
    copy_planes(exec_, aside.rows, layout, state_.planes, FeatureRows<const R>(and_back ? aside : rows),
                and_back ? rows : aside);
  });
}

// Whether batches write the adjoint of a stage's exchanged input, which they add to, or the gather of a slice precedes
// batches of others.
template <class T>
bool DeviceEvaluation<T>::begins_adjoint_before_batches(const Stage &stage) const {
  return stage.input_adjoint_is_written || neighborhood_.num_slices > 1;
}

// Clears what batches add to.
template <class T>
void DeviceEvaluation<T>::begin_adjoint(int s) {
  const Stage &stage = plan_.stages[s];
  if (stage.exchanged_input >= 0 && !stage.input_adjoint_is_begun && begins_adjoint_before_batches(stage))
    clear_rows(plan_.features[stage.exchanged_input].layout, features_.exchanged_adjoint(s), 0, num_owned());
}

// Adds contributions of a slice's receivers to the adjoint of a stage's exchanged input, for owned or for remote
// rows. It gathers over the edges that point at each row. For owned rows the gather may be one pass with the
// derivatives with respect to edges.
template <class T>
void DeviceEvaluation<T>::gather_senders(int s, int slice, bool remote, R *adjoint) {
  const Stage &stage = plan_.stages[s];
  const int64_t position = static_cast<int64_t>(slice) * neighborhood_.num_rows;
  Base::for_convolutions(stage, [&](const Step &, DeviceSenderLayer<T> &layer) {
    if (!remote && layer.is_fused(state_)) {
      for (const BatchAtoms &atoms : batches_)
        layer.fused(state_, edges_.receivers(atoms.cut, atoms.first, atoms.count, false),
                    {adjoint, neighborhood_.num_rows, atoms.first});
      return;
    }
    for (const BatchAtoms &atoms : sender_batches_)
      if (atoms.slice == slice && (atoms.first >= num_owned()) == remote)
        layer.gather(state_, {atoms.cut, position + atoms.first, atoms.count}, slice * slice_size_,
                     {adjoint, neighborhood_.num_rows, atoms.first});
  });
}

template <class T>
void DeviceEvaluation<T>::clear_rows(const FeatureLayout &layout, R *data, int64_t first, int64_t last) {
  if (last - first == neighborhood_.num_rows && !state_.tangents_alone()) {    // the groups are adjacent
    static_assert(CHANNEL_PAD % 4 == 0, "rows that are no multiple of four numbers");
    device_fill(exec_, reinterpret_cast<Four<R> *>(data), (last - first) * layout.row_size() / 4, Four<R>{});
    return;
  }
  zero_planes(exec_, last - first, layout, state_.planes, FeatureRows<R>{data, neighborhood_.num_rows, first});
}

// Gathers of duals add to values too. In a pass over tangents only, the values of receivers' rows are those of the
// last evaluation and must stay so.
template <class T>
void DeviceEvaluation<T>::save_or_restore_values(const FeatureLayout &layout, R *adjoint, bool and_back) {
  const FeatureRows<R> rows{adjoint, neighborhood_.num_rows, 0};
  R *aside = aside_.data();
  for (const FeatureGroup &group : layout.groups()) {
    const NumbersOfPlanes numbers(group, VALUES);
    const int64_t n = static_cast<int64_t>(num_owned()) * numbers.per_row;
    R *values = rows.group(group);
    Kokkos::parallel_for(
        "equi:values_aside", DeviceRange(exec_, 0, n), KOKKOS_LAMBDA(int64_t k) {
          if (and_back)
            values[numbers(k)] = aside[k];
          else
            aside[k] = values[numbers(k)];
        });
    aside += n;
  }
}

// is_fused: whether batches go forward and backward at once. Without slices forward_stage() has run them.
template <class T>
void DeviceEvaluation<T>::backward_stage(int s, bool is_fused, GhostExchange &exchange) {
  const Stage &stage = plan_.stages[s];
  const int input = stage.exchanged_input, last = neighborhood_.num_slices - 1;
  const bool is_gathered = stage.returns_adjoints;
  static const FeatureLayout NONE;
  const FeatureLayout &layout = input >= 0 ? plan_.features[input].layout : NONE;
  R *adjoint = input >= 0 ? features_.exchanged_adjoint(s) : nullptr;
  const auto bring_values_back = [&] {
    if (state_.tangents_alone()) recorder_.run(exec_, [&] { save_or_restore_values(layout, adjoint, true); });
  };
  const bool is_done = is_fused && last == 0;
  recorder_.run(exec_, [&] {
    repeat_input(s);
    if (!is_done) begin_adjoint(s);
    if (is_gathered && state_.tangents_alone()) save_or_restore_values(layout, adjoint, false);
    if (is_gathered && is_exchanging_) clear_rows(layout, returned_.data(), 0, neighborhood_.num_rows);
    for (int slice = 0; slice <= last; slice++) {
      for (const BatchAtoms &atoms : batches_)
        if (atoms.slice == slice && !is_done) {
          Batch batch = batch_of(atoms, stage);
          if (is_fused) Base::forward_layers(batch, stage);
          Base::backward_layers(batch, stage);
        }
      if (adjoint && !stage.input_adjoint_is_begun && !begins_adjoint_before_batches(stage))
        clear_rows(layout, adjoint, 0, num_owned());
      if (!is_gathered) continue;
      if (is_exchanging_) gather_senders(s, slice, true, returned_.data());
      if (!is_exchanging_ || slice < last) gather_senders(s, slice, false, adjoint);
    }
  });
  if (!is_gathered) return;
  if (!is_exchanging_) return bring_values_back();
  exchange_beside(exchange, input, returned_.data(), true, [&] {
    recorder_.run(exec_, [&] { gather_senders(s, last, false, adjoint); });
    return num_owned() > 0;
  });
  recorder_.run(exec_, [&] {
    const int64_t rows = neighborhood_.num_rows;
    add_planes(exec_, num_owned(), layout, state_.planes, FeatureRows<const R>{returned_.data(), rows, 0},
               FeatureRows<R>{adjoint, rows, 0});
  });
  bring_values_back();
}

// ---- an evaluation
template <class T>
EvaluationResult DeviceEvaluation<T>::evaluate(const DeviceRequest &request, GhostExchange &exchange) {
  is_exchanging_ = exchange.active();
  const bool backward_is_wanted = request.forces && !Base::is_direct_;
  Base::check_moments(request.energy_moments, backward_is_wanted || request.virial || request.atom_virial);
  state_.planes = Base::planes_of_step(request.same_positions, request.directions.count);
  state_.has_backward = backward_is_wanted;
  values_are_kept_ = false;
  this->step_++;
  if (are_candidates_too_many_ && (!request.same_positions || !is_divided_)) {
    DeviceExec().fence("equi: positions ready for the own instance");
    exec_ = own_exec_;
    choose_sizes_for_edges(request.positions);
    exec_.fence("equi: batches ready for any instance");
  }
  begin_step(request);
  const auto step = [&] {
    recorder_.run(exec_, [&] { launch_edges(request); });
    const DeviceSystem<D> system = system_of(request);
    const int num_stages = static_cast<int>(plan_.stages.size());
    const auto is_fused = [&](int s) { return backward_is_wanted && plan_.fuses_last_stage && s == num_stages - 1; };
    for (int s = 0; s < num_stages; s++) {
      Base::balance(exec_, plan_.stages[s], num_owned(), false, &system, exchange);
      forward_stage(s, is_fused(s), exchange);
    }
    for (int s = num_stages - 1; backward_is_wanted && s >= 0; s--) {
      backward_stage(s, is_fused(s), exchange);
      Base::balance(exec_, plan_.stages[s], num_owned(), true, &system, exchange);
    }
    recorder_.run(exec_, [&] { launch_results(request); });
  };
  if (is_exchanging_ || sums_over_atoms(model_.layers))
    step();    // the host takes part between its parts
  else
    recorder_.run(exec_, step);
  const EvaluationResult result = end_step(request.forces, backward_is_wanted && request.virial, exchange);
  values_are_kept_ = plan_.keeps_values && backward_is_wanted;
  return result;
}

// Selects the instance that the evaluation runs on, and whether its launches are recorded.
template <class T>
void DeviceEvaluation<T>::begin_step(const DeviceRequest &request) {
  exec_ = DeviceExec();
  if (is_exchanging_ || !edges_.is_counted()) {
    exec_.fence("equi: positions ready for the own instance");
    exec_ = own_exec_;
  }
  if (edges_.is_counted()) return recorder_.begin_plain_step();
  int largest_batch = 0;
  for (const BatchAtoms &atoms : batches_) largest_batch = std::max(largest_batch, atoms.count);
  const int directions = 2 * state_.num_directions() + (state_.tangents_alone() ? 1 : 0);
  int kind = directions;
  for (const bool is_set : {request.forces, request.virial, request.atom_virial, request.box.periodic[0],
                            request.box.periodic[1], request.box.periodic[2]})
    kind = 2 * kind + (is_set ? 1 : 0);
  recorder_.begin_step(kind, {request.positions, request.directions.v},
                       {num_owned(), neighborhood_.num_rows, neighborhood_.num_candidates, largest_batch});
}

// Computes the edges of an evaluation, and what does not go through the layers.
template <class T>
void DeviceEvaluation<T>::launch_edges(const DeviceRequest &request) {
  edges_.build(exec_, request.positions, request.directions, state_.tangents_alone() && divides_edges_,
               options_.energy_moments);
  if (far_edges_) far_edges_->build(exec_, request.positions, request.directions);
  with_atom_virial_ = with_atom_virial_ || request.atom_virial;
  box_ = request.box;
  const std::size_t needed =
      memory_estimate(edges_.capacity(), far_edges_ ? far_edges_->capacity() : 0, edges_.capacity_between_cuts());
  check_memory(needed, options_);
  state_.kept =
      Base::keep_edges(state_.has_backward ? edges_.capacity() : 0,
                       options_.memory_limit > 0.0 ? FILLED * options_.memory_limit - static_cast<double>(needed)
                                                   : std::numeric_limits<double>::infinity());
  const auto reserve = [](ArrayRef array, int64_t n) { array.reserve(n); };
  if (!state_.tangents_alone()) for_arrays(reserve);
  for_arrays_of_step(reserve);
  // In a pass over tangents only, convolutions with tables read parts of the edges.
  state_.has_bins = keeps_bins_ && state_.num_directions() == 1 && !state_.tangents_alone();
  if (state_.has_bins) {
    std::vector<DeviceStepSearch<T>> searches;
    for (auto *layer : Base::sender_layers_) layer->add_search(edges_.capacity(), searches);
    find_bins(exec_, edges_, num_owned(), searches);
  }
  state_.energy = energy_.data();
  state_.sender_adjoints = request.forces && !Base::is_direct_ && adjoints_per_edge_ > 0
                               ? sender_adjoints_.reserve(adjoints_per_edge_ * edges_.capacity())
                               : nullptr;
  state_.direct_forces = Base::is_direct_ && request.forces ? edges_.clear_forces(exec_) : nullptr;
  if (has_system_sum_) clear_system(request);
  for (int d = 0; d < state_.num_directions(); d++)
    fill_by_species(exec_, num_owned(), neighborhood_.row_species.data(), device_shift_.data(), state_.energy_of(d));
}

// What sums over all atoms use and add to.
template <class T>
DeviceSystem<DoubleOf<T>> DeviceEvaluation<T>::system_of(const DeviceRequest &request) const {
  return {this->step_,
          request.box,
          request.cell_direction,
          request.positions,
          request.directions,
          request.image_shifts,
          neighborhood_.receiver.data(),
          request.forces ? system_gradient_.data() : nullptr,
          request.virial ? reinterpret_cast<D *>(summary_.data()->system_virial) : nullptr,
          request.atom_virial ? system_atom_virial_.data() : nullptr};
}

template <class T>
void DeviceEvaluation<T>::clear_system(const DeviceRequest &request) {
  if (request.forces) device_zero(exec_, system_gradient_.data(), 3 * static_cast<int64_t>(num_owned()));
  if (request.virial) device_zero(exec_, summary_.data()->system_virial, 12);
  if (request.atom_virial) device_zero(exec_, system_atom_virial_.data(), 6 * static_cast<int64_t>(num_owned()));
}

// Receivers have the first rows.
template <class T>
void DeviceEvaluation<T>::add_system(const DeviceRequest &request) {
  const D *gradient = system_gradient_.data();
  const double *virial = system_atom_virial_.data();
  double *forces = edges_.row_forces(), *tangents = edges_.row_tangents(), *of_rows = edges_.row_virial();
  Kokkos::parallel_for(
      "equi:system_forces", DeviceRange(exec_, 0, 3 * static_cast<int64_t>(num_owned())), KOKKOS_LAMBDA(int64_t k) {
        forces[k] -= value_of(gradient[k]);
        if (IS_DUAL<D>) tangents[k] -= tangent_of(gradient[k]);
      });
  if (request.atom_virial)
    Kokkos::parallel_for(
        "equi:system_virials", DeviceRange(exec_, 0, 9 * static_cast<int64_t>(num_owned())), KOKKOS_LAMBDA(int64_t k) {
          const int64_t component = k % 9;    // xx, yy, zz, xy, xz, yz, yx, zx, zy
          of_rows[k] += virial[6 * (k / 9) + (component < 6 ? component : component - 3)];
        });
}

template <class T>
void DeviceEvaluation<T>::launch_results(const DeviceRequest &request) {
  StepSummary *summary = summary_.data();
  const bool has_derivatives = request.forces && !state_.direct_forces;
  if (has_derivatives) edges_.finish(exec_, request.virial, request.atom_virial);
  if (has_derivatives && far_edges_) {
    far_edges_->finish(exec_, request.virial, request.atom_virial);
    edges_.add(exec_, *far_edges_, request.virial, request.atom_virial);
  }
  if (has_derivatives && has_system_sum_) add_system(request);
  std::vector<DeviceSum::Term> sums{
      {reinterpret_cast<const double *>(energy_.data()), num_owned(), PLANES<D>, summary->energy}};
  if (has_derivatives && request.virial) {
    sums.push_back(edges_.virial_sum(summary->virial));
    if (IS_DUAL<D>) sums.push_back(edges_.virial_tangent_sum(summary->virial_tangent));
  }
  if (request.forces) sums.push_back(edges_.force_sum(summary->forces));
  if (request.forces && IS_DUAL<D>) sums.push_back(edges_.tangent_sum(summary->tangents));
  sum_.add_up(exec_, sums);
  edges_.find_most_neighbors(exec_, model_.max_neighbors);
  const auto *closest = edges_.closest(), *most_neighbors = edges_.most_neighbors();
  const int64_t *num_edges = edges_.begin() + num_owned(),
                *num_far_edges = far_edges_ ? far_edges_->begin() + num_owned() : nullptr;
  Kokkos::parallel_for(
      "equi:summary", DeviceRange(exec_, 0, 1), KOKKOS_LAMBDA(int64_t) {
        summary->distance = closest->val;
        summary->closest = closest->loc;
        summary->num_edges = *num_edges;
        summary->num_far_edges = num_far_edges ? *num_far_edges : 0;
        summary->most_neighbors = most_neighbors->loc;
        summary->most_neighbors_receiver = most_neighbors->val;
      });
}

template <class T>
EvaluationResult DeviceEvaluation<T>::end_step(bool with_forces, bool with_virial, GhostExchange &exchange) {
  recorder_.end_step();
  exec_.fence("equi: results of a step");
  check_launches();
  const StepSummary &summary = *summary_.data();
  EvaluationResult result;
  result.num_edges = summary.num_edges;
  result.energy = summary.energy[0];
  if (IS_DUAL<T>) result.energy_tangent = summary.energy[1];
  const auto symmetrize = [](const double from[9], double to[6]) {
    for (int k = 0; k < 6; k++) to[k] = k < 3 ? from[k] : 0.5 * (from[k] + from[k + 3]);
  };
  if (with_virial) {
    symmetrize(summary.virial, result.virial);
    if (IS_DUAL<T>) symmetrize(summary.virial_tangent, result.virial_tangent);
    for (int k = 0; has_system_sum_ && k < 6; k++) {
      result.virial[k] += summary.system_virial[PLANES<T> * k];
      if (IS_DUAL<T>) result.virial_tangent[k] += summary.system_virial[PLANES<T> * k + 1];
    }
  }
  Collision collision;
  if (summary.distance < MIN_DISTANCE) collision = edges_.collision(exec_, summary.closest, summary.distance);
  double sum = result.energy + result.energy_tangent;
  for (int k = 0; with_forces && k < 3; k++) sum += summary.forces[k] + (IS_DUAL<T> ? summary.tangents[k] : 0.0);
  const bool has_all_pairs = Base::has_all_pairs(exchange, num_owned(), summary.num_far_edges);
  check_evaluation(collision, result, std::isfinite(sum) ? -1 : find_not_finite(with_forces));
  if (!has_all_pairs) check_all_pairs(false, Base::far_cutoff_);
  if (model_.max_neighbors > 0 && summary.most_neighbors_receiver < num_owned()) {
    int atom;
    copy_to_host(exec_, &atom, neighborhood_.receiver.data() + static_cast<int64_t>(summary.most_neighbors_receiver),
                 1);
    check_num_neighbors(model_.max_neighbors, summary.most_neighbors, atom);
  }
  return result;
}

// After an evaluation whose sums are not finite: returns an atom whose energy or force is not finite, or -1.
template <class T>
int DeviceEvaluation<T>::find_not_finite(bool with_forces) const {
  const int num_rows = neighborhood_.num_rows;
  std::vector<int> row_atom(num_rows);
  copy_to_host(exec_, row_atom.data(), neighborhood_.row_atom.data(), num_rows);
  int atom = -1;
  const auto search = [&](const double *from, int count, int width) {
    std::vector<double> numbers(static_cast<size_t>(count) * width);
    copy_to_host(exec_, numbers.data(), from, static_cast<int64_t>(numbers.size()));
    for (size_t k = 0; atom < 0 && k < numbers.size(); k++)
      if (!std::isfinite(numbers[k])) atom = row_atom[k / width];
  };
  for (int d = 0; d < state_.num_directions(); d++)
    search(reinterpret_cast<const double *>(state_.energy_of(d)), num_owned(), PLANES<D>);
  if (with_forces) search(edges_.row_forces(), num_rows, 3);
  for (int d = 0; with_forces && IS_DUAL<T> && d < state_.num_directions(); d++)
    search(edges_.row_tangents() + 3 * static_cast<int64_t>(num_rows) * d, num_rows, 3);
  return atom;
}

template <class T>
DeviceResults DeviceEvaluation<T>::results() const {
  DeviceResults results{neighborhood_.row_atom.data(), edges_.row_forces(), edges_.row_tangents(), edges_.row_virial()};
  if constexpr (IS_DUAL<T>)
    results.energy_duals = energy_.data();
  else
    results.energy = energy_.data();
  return results;
}

template <class T>
EvaluationResult DeviceEvaluation<T>::evaluate(const EvaluationRequest &request, GhostExchange &exchange) {
  if (Base::is_direct_) check_request_of_direct_forces(request);
  if (request.observables || request.observable_weights)
    throw std::logic_error("a device computes no observables and none of their derivatives");
  const int64_t size = 3 * static_cast<int64_t>(neighborhood_.num_atoms);
  copy_to_device(DeviceExec(), positions_.data(), reinterpret_cast<const double *>(request.positions), size);
  DeviceRequest on_device;
  on_device.positions = positions_.data();
  if (request.image_shifts) {
    copy_to_device(DeviceExec(), image_shifts_.reserve(size), reinterpret_cast<const double *>(request.image_shifts),
                   size);
    on_device.image_shifts = image_shifts_.data();
  }
  if (host_neighborhood_) on_device.box = host_neighborhood_->box;
  on_device.cell_direction = request.cell_direction;
  on_device.forces = request.forces || request.force_tangents;
  on_device.virial = request.virial;
  on_device.atom_virial = request.atom_virial != nullptr;
  on_device.energy_moments = request.energy_moments != nullptr;
  on_device.same_positions = request.same_positions && !request.forces && !request.virial && !request.atom_virial;
  on_device.directions.count = request.num_directions;
  on_device.directions.distance = neighborhood_.num_atoms;
  if (IS_DUAL<T> && request.direction) {
    double *directions = direction_.reserve(request.num_directions * size);
    for (int d = 0; d < request.num_directions; d++)
      copy_to_device(DeviceExec(), directions + d * size, reinterpret_cast<const double *>(request.along(d).direction),
                     size);
    on_device.directions.v = directions;
  }
  const EvaluationResult result = evaluate(on_device, exchange);

  const int num_rows = neighborhood_.num_rows;
  host_rows_.resize(num_rows);
  copy_to_host(exec_, host_rows_.data(), neighborhood_.row_atom.data(), num_rows);
  // Adds the first `used` of `width` numbers per row.
  const auto add = [&](const double *from, int count, int width, int used, double *to) {
    host_numbers_.resize(static_cast<size_t>(count) * width);
    copy_to_host(exec_, host_numbers_.data(), from, static_cast<int64_t>(count) * width);
    for (int row = 0; row < count; row++)
      if (host_rows_[row] >= 0)
        for (int k = 0; k < used; k++)
          to[static_cast<int64_t>(host_rows_[row]) * used + k] += host_numbers_[static_cast<size_t>(row) * width + k];
  };
  if (request.forces) add(edges_.row_forces(), num_rows, 3, 3, *request.forces);
  for (int d = 0; IS_DUAL<T> && request.force_tangents && d < request.num_directions; d++)
    add(edges_.row_tangents() + 3 * static_cast<int64_t>(num_rows) * d, num_rows, 3, 3,
        *request.along(d).force_tangents);
  if (request.forces && request.atom_virial) add(edges_.row_virial(), num_rows, 9, 9, *request.atom_virial);
  if (request.energy_moments)
    for_energy_moments(
        results(), num_owned(),
        [&](int row, double energy) {
          if (request.atom_energy) request.atom_energy[host_rows_[row]] += energy;
        },
        [&](int row, int c, double moment) { request.energy_moments[host_rows_[row]][c] += moment; });
  else if (request.atom_energy)
    add(reinterpret_cast<const double *>(energy_.data()), num_owned(), PLANES<D>, 1, request.atom_energy);
  return result;
}

template <class T>
void DeviceEvaluation<T>::for_memory(const MemoryPartVisitor &f) const {
  Base::for_memory(f);
  const auto candidates = part_of_memory("candidates for edges", f), edges = part_of_memory("edges", f),
             in_transit = part_of_memory("adjoints of remote rows in transit", f),
             others = part_of_memory("results, positions and others", f);
  edges_.for_memory(candidates, edges);
  if (far_edges_) far_edges_->for_memory(candidates, edges);
  visit_memory(candidates, neighborhood_);
  visit_memory(part_of_memory("adjoints of senders, by edge", f), sender_adjoints_);
  visit_memory(in_transit, returned_);
  in_transit(staging_.data(), staging_.size() * sizeof(R));
  visit_memory(part_of_memory("scratch of batches", f), batch_features_, state_);
  visit_memory(others, energy_, species_order_, device_shift_, sum_, system_gradient_, system_atom_virial_, aside_,
               positions_, direction_, image_shifts_);
  others(&recorder_, recorder_.bytes());
}

template <class T>
std::size_t DeviceEvaluation<T>::memory_estimate(int64_t num_edges, int64_t num_far_edges, int64_t edges_of_batch) {
  const auto additional_edge_bytes = [&](const DeviceEdges<T> &edges, int64_t number, int directions, bool divides) {
    return edges.additional_bytes(neighborhood_, slice_size_, number, directions, divides, with_atom_virial_);
  };
  std::size_t bytes = this->memory_bytes() - bytes_of(kept_) +
                      additional_edge_bytes(edges_, num_edges, plan_.max_directions(), divides_edges_) +
                      (far_edges_ ? additional_edge_bytes(*far_edges_, num_far_edges, 1, false) : 0) +
                      Base::additional_system_bytes(box_, num_owned()) +
                      sum_of_additional_bytes([&](const auto &f) { neighborhood_.for_arrays(slice_size_, f); }) +
                      species_order_.additional_bytes(num_owned()) +
                      sender_adjoints_.additional_bytes(adjoints_per_edge_ * num_edges),
              scratch = 0;
  const auto add_additional = [&](ArrayRef array, int64_t n) { bytes += array.additional_bytes(n); };
  for_arrays(add_additional);
  for_arrays_of_step(add_additional);
  const int atoms_of_batch = std::min(num_owned(), batch_size_);
  for (const auto &layer : Base::layers_)
    if (layer) layer->for_batch_arrays(atoms_of_batch, edges_of_batch, add_additional);
  for (auto *layer : Base::sender_layers_) {
    if (keeps_bins_) layer->for_bins(num_edges, add_additional);
    scratch = std::max(
        scratch, sum_of_additional_bytes([&](const auto &f) { layer->for_edge_scratch(state_, edges_of_batch, f); }));
  }
  return bytes + scratch;
}

EQUI_INSTANTIATE_NUMBERS(DeviceEvaluation)

std::unique_ptr<Evaluator> make_device_evaluator(const Model &model, const EvaluatorOptions &options) {
  start_kokkos(0, 0);
  return make_for_precision(options, [&](auto t, const EvaluatorOptions &o) -> std::unique_ptr<Evaluator> {
    return std::make_unique<DeviceEvaluation<decltype(t)>>(o.folds ? fold_linears(model) : model, o);
  });
}

}    // namespace equi
