// SPDX-License-Identifier: MIT
// Evaluates a model on CPUs: tiles and threads, stages and exchanges, memory and results.
#include "kokkos/evaluation/host_evaluation.h"

#include "kokkos/kernel_libraries/kernel_cache.h"
#include "kokkos/kernel_libraries/kernel_library.h"
#include "kokkos/plan/linear_folds.h"
#include "kokkos/plan/operation_count.h"
#include "kokkos/runtime/host_exec.h"
#include "src/base/host_resources.h"
#include "src/base/owned_memory.h"
#include "src/evaluation/native_evaluators.h"
#include "src/numbers/number_types.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <set>
#include <stdexcept>

namespace equi {

namespace {

// A tile's scratch should fit a core's second-level cache, but the dense products need a few dozen rows. Larger
// caches are shared by several cores. This is the usual size, used if the system reports none.
int64_t tile_bytes() {
  constexpr double SHARE = 0.8, USUAL = 1 << 20, LEAST = 1 << 19, MOST = 1 << 21;
  static const double cache = second_level_cache();
  return static_cast<int64_t>(SHARE * std::clamp(cache > 0.0 ? cache : USUAL, LEAST, MOST));
}
constexpr int MIN_TILE = 16, MAX_TILE = 64;
// With `deterministic`, tiles must not depend on the number of threads.
constexpr int DETERMINISTIC_TILE = 32;
// Tiles of a thread whose edges are in memory at a time, if not all are: enough to share them evenly.
constexpr int TILES_OF_PART = 16;

}    // namespace

template <class T>
EvaluationPlan HostEvaluation<T>::plan_for(const Model &model, const EvaluatorOptions &options, bool is_lean) {
  PlanMemory memory;
  memory.is_lean = is_lean;
  return make_evaluation_plan(model, options.deterministic, IS_DUAL<T>,
                              // this evaluation does not gather sums of senders over kept tangents alone
                              IS_DUAL<T> && !options.deterministic ? options.kept_directions : 0,
                              options.energy_moments ? EnergyMoments::DIRECTIONS : 1, memory);
}

template <class T>
HostEvaluation<T>::HostEvaluation(Model model, const EvaluatorOptions &options, InstructionSet set)
    : Base(std::move(model), options, plan_for(model, options, options.lean)),
      set_(set),
      edges_(model_.lmax_edge, model_.cutoff, model_.pair_cutoff, model_.nearest, set),
      state_{host_kernels<T>(set), plan_, features_, edges_, model_.num_species(), options.deterministic} {
  if (Base::far_cutoff_ > 0.0)
    state_.far_edges = &far_edges_.emplace(0, Base::far_cutoff_, Matrix(), NearestNeighbors(), set);
  const int concurrency = HostExec().concurrency();
  for (int t = 0; t < concurrency; t++) threads_.push_back(std::make_unique<Thread>());
  HostContext context{{model_, plan_, options_, Base::energies_.scale}, set};
  Base::prepare_layers(context);
  std::vector<int> species(model_.num_species());
  std::iota(species.begin(), species.end(), 0);
  state_.planes = {0, plan_.planes};
  state_.energy_moments = options.energy_moments;
  features_.for_fixed_arrays([](Buffer<R> &array, int64_t n) { std::fill_n(array.reserve(n), n, R(0)); });
  Batch of_species{state_, threads_[0]->scratch, 0, model_.num_species(), species.data()};
  Base::evaluate_fixed_features(of_species);
}

template <class T>
std::string HostEvaluation<T>::describe() const {
  char text[200];
  std::snprintf(text, sizeof text, "  precision %s, %s, %s kernels %s%s\n", Base::precision_name(),
                kokkos_backend().c_str(), state_.kernels.name,
                state_.kernels.split ? "and dense products by amx" : "and dense products",
                options_.deterministic ? ", deterministic" : "");
  std::string lines = text + Base::describe_layers();
  if (const InstructionSet best = best_instruction_set(false); best != best_instruction_set()) {
    std::snprintf(text, sizeof text,
                  "  WARNING: this CPU has %s, for which this build has no kernels; slower ones are taken "
                  "(EQUI_INSTRUCTION_SETS)\n",
                  instruction_set_name(best));
    lines += text;
  }
  // Seconds on one core of a Xeon of the Ice Lake class. On it, kernels made models of a few layers 1.9
  // (contractions) and 3.1 times (convolutions) faster.
  constexpr int PATH_GROUP_TIME = 6, CONTRACTION_TIME = 1;
  constexpr double GAIN = 3.0, USUAL_NEIGHBORS = 50.0, LEAST_SHARE = 0.1;
  KernelReport report;
  std::vector<size_t> generic_layers;
  for (size_t k = 0; k < Base::layers_.size(); k++) {
    const int before = report.num_generic();
    if (Base::layers_[k]) Base::layers_[k]->report_kernels(report);
    if (report.num_generic() > before) generic_layers.push_back(k);
  }
  if (generic_layers.empty() || set_ == InstructionSet::generic) return lines;
  const int seconds = PATH_GROUP_TIME * report.generic_path_groups + CONTRACTION_TIME * report.generic_contractions;
  std::snprintf(text, sizeof text, "  %d input blocks and %d contractions have no generated kernels: 'equi compile ",
                report.generic_path_groups, report.generic_contractions);
  lines += text + model_.file + "' makes them in about " + std::to_string(seconds) + " s";
  // The part of an atom's operations.
  const OperationCount count = count_operations(Base::model_, plan_, AVX512_TARGET);
  double share = 0.0;
  for (const size_t k : generic_layers) share += count.layers[k].per_atom_with(USUAL_NEIGHBORS).both();
  share /= count.total().per_atom_with(USUAL_NEIGHBORS).both();
  std::snprintf(text, sizeof text,
                share < LEAST_SHARE ? ", which saves little: they do %.0f %% of the operations\n"
                                    : ", and steps are then up to %.1f times faster\n",
                share < LEAST_SHARE ? 100.0 * share : 1.0 / (1.0 - share + share / GAIN));
  lines += text;
  std::set<std::string> faults;    // faults of libraries that the user has
  for (const std::string &key : report.keys)
    if (const std::string fault = kernel_library_fault(set_, key); !fault.empty()) faults.insert(fault);
  for (const std::string &fault : faults) lines += "  kernel library " + fault + "\n";
  if (const std::string note = kernel_cache().note; !note.empty()) lines += "  kernel cache: " + note + "\n";
  return lines;
}

// Calls f(thread index) once per thread.
template <class T>
template <class F>
void HostEvaluation<T>::on_threads(const char *label, const F &f) {
  const int num_threads = static_cast<int>(threads_.size());
  // Threads enlarge their own buffers, for which memory may not suffice.
  parallel_with_faults(
      label, Kokkos::RangePolicy<HostExec, Kokkos::Schedule<Kokkos::Static>>(0, num_threads, Kokkos::ChunkSize(1)), f);
}

// ---- neighborhood
template <class T>
void HostEvaluation<T>::set_neighborhood(const Neighborhood &n) {
  neighborhood_ = &n;
  values_are_kept_ = false;
  edges_.set_neighborhood(n);
  if (far_edges_) far_edges_->set_neighborhood(n);
  state_.num_receivers = n.num_receivers;
  state_.num_rows = n.num_rows;
  state_.row_species = n.row_species.data();
  features_.set_rows(n.num_rows, n.num_receivers, n.num_receivers);
  divide_tiles();
  if (has_partials()) build_partials();
}

// Keeps less from now on, because the memory is limited.
template <class T>
void HostEvaluation<T>::become_lean() {
  is_lean_ = true;
  Base::use_plan(plan_for(model_, options_, true));
  divide_tiles();
  if (has_partials()) build_partials();
}

template <class T>
bool HostEvaluation<T>::borrow_edges(const Evaluator &other) {
  const auto *like_this = dynamic_cast<const HostEvaluation *>(&other);
  return like_this && edges_.borrow(like_this->edges_);
}

// Makes tiles of similar size, and gives each thread consecutive tiles with about the same number of candidates.
template <class T>
void HostEvaluation<T>::divide_tiles() {
  const Neighborhood &n = *neighborhood_;
  const int num_threads = static_cast<int>(threads_.size());
  int64_t row_size = 1;
  for (const Stage &s : plan_.stages) row_size = std::max(row_size, s.batch_row_size);
  int tile = options_.deterministic
                 ? DETERMINISTIC_TILE
                 : static_cast<int>(std::clamp<int64_t>(tile_bytes() / (row_size * sizeof(R)), MIN_TILE, MAX_TILE));
  if (options_.batch > 0) tile = std::min(options_.batch, std::max(1, n.num_receivers));
  if (!options_.deterministic) {
    const int per_thread = (n.num_receivers + num_threads - 1) / num_threads;
    const int tiles = std::max(1, (per_thread + tile - 1) / tile);
    tile = std::max(1, (per_thread + tiles - 1) / tiles);
  }
  tiles_.clear();
  for (int first = 0; first < n.num_receivers; first += tile)
    tiles_.push_back({first, std::min(tile, n.num_receivers - first)});

  share_tiles(0, std::min(tiles_of_part(), static_cast<int>(tiles_.size())));
}

template <class T>
void HostEvaluation<T>::share_tiles(int first, int last) {
  const Neighborhood &n = *neighborhood_;
  const int num_threads = static_cast<int>(threads_.size());
  // An atom without neighbors costs time, too. The constant is the work of its linear layers in units of an edge.
  constexpr double ATOM_COST = 8.0;
  auto cost = [&](const Tile &t) {
    return static_cast<double>(n.first[t.first + t.count] - n.first[t.first]) + ATOM_COST * t.count;
  };
  double total = 0.0, done = 0.0;
  for (int k = first; k < last; k++) total += cost(tiles_[k]);
  int next = first;
  for (int t = 0; t < num_threads; t++) {
    threads_[t]->first_tile = next;
    const double target = total * (t + 1) / num_threads;
    while (next < last && (t == num_threads - 1 || done + 0.5 * cost(tiles_[next]) < target))
      done += cost(tiles_[next++]);
    threads_[t]->last_tile = next;
  }
}

template <class T>
bool HostEvaluation<T>::evaluates_in_parts() const {
  return num_stages() == 1 && Base::sender_layers_.empty() && plan_.stages[0].exchanged_input < 0 &&
         plan_.stages[0].balances.empty() && kept_per_edge_ == 0 && !plan_.keeps_values && !edges_.is_shared();
}

template <class T>
int HostEvaluation<T>::tiles_of_part() const {
  const int all = static_cast<int>(tiles_.size());
  return evaluates_in_parts() ? std::min(all, TILES_OF_PART * static_cast<int>(threads_.size())) : all;
}

// The largest number of edges that are in memory at a time.
template <class T>
int64_t HostEvaluation<T>::most_present(const Edges<T> &edges) const {
  const int num_tiles = static_cast<int>(tiles_.size()), of_part = tiles_of_part();
  int64_t most = 0;
  for (int first = 0; first < num_tiles; first += of_part) {
    const Tile &last = tiles_[std::min(first + of_part, num_tiles) - 1];
    most = std::max(most, edges.size(tiles_[first].first, last.first + last.count));
  }
  return most;
}

template <class T>
void HostEvaluation<T>::build_partials() {
  const Neighborhood &n = *neighborhood_;
  candidate_partial_row_.resize(n.first[n.num_receivers]);
  on_threads("equi:partial_rows", [&](int t) {
    Thread &thread = *threads_[t];
    thread.partial_rows.clear();
    std::vector<int> local(n.num_rows, -1);
    for (int k = thread.first_tile; k < thread.last_tile; k++)
      for (int64_t c = n.first[tiles_[k].first]; c < n.first[tiles_[k].first + tiles_[k].count]; c++) {
        int &l = local[n.sender_row[c]];
        if (l < 0) {
          l = static_cast<int>(thread.partial_rows.size());
          thread.partial_rows.push_back(n.sender_row[c]);
        }
        candidate_partial_row_[c] = l;
      }
  });
  partial_begin_.assign(n.num_rows + 1, 0);
  for (const auto &thread : threads_)
    for (int row : thread->partial_rows) partial_begin_[row + 1]++;
  for (int r = 0; r < n.num_rows; r++) partial_begin_[r + 1] += partial_begin_[r];
  partial_source_.resize(partial_begin_[n.num_rows]);
  std::vector<int64_t> next(partial_begin_.begin(), partial_begin_.end() - 1);
  for (size_t t = 0; t < threads_.size(); t++)
    for (size_t l = 0; l < threads_[t]->partial_rows.size(); l++)
      partial_source_[next[threads_[t]->partial_rows[l]]++] = {static_cast<int>(t), static_cast<int>(l)};
}

// ---- stages
template <class T>
void HostEvaluation<T>::find_partial_rows() {
  const Neighborhood &n = *neighborhood_;
  int *partial_row = edge_partial_row_.reserve(edges_.size());
  Kokkos::parallel_for("equi:edge_partial_rows", Kokkos::RangePolicy<HostExec>(0, n.num_receivers), [&](int i) {
    for (int64_t c = n.first[i]; c < n.first[i + 1]; c++)
      if (const int64_t e = edges_.edge_of_candidate(i, c); e >= 0) partial_row[e] = candidate_partial_row_[c];
  });
}

// For passes over tangents only: which rows of the stage's input have any.
template <class T>
void HostEvaluation<T>::find_moving_senders(int s) {
  const Stage &stage = plan_.stages[s];
  if (!state_.tangents_alone() || stage.exchanged_input < 0) return;
  const FeatureLayout &layout = plan_.features[stage.exchanged_input].layout;
  const FeatureRows<R> x{features_.data(stage.exchanged_input), neighborhood_->num_rows, 0};
  state_.row_moves.resize(neighborhood_->num_rows);
  Kokkos::parallel_for("equi:moving", Kokkos::RangePolicy<HostExec>(0, neighborhood_->num_rows), [&](int row) {
    bool moves = false;
    for (int g = 0; g < layout.num_groups() && !moves; g++) {
      const FeatureGroup &group = layout.group(g);
      const R *numbers = x.group(group) + static_cast<int64_t>(row) * group.width();
      group.for_numbers(state_.planes, [&](int first, int count) {
        moves = moves || std::any_of(numbers + first, numbers + first + count, [](R t) { return t != R(0); });
      });
    }
    state_.row_moves[row] = moves;
  });
}

// Sums the partial adjoints of a stage's exchanged input from all threads, in the order of threads.
template <class T>
void HostEvaluation<T>::add_partials(int s) {
  const Stage &stage = plan_.stages[s];
  const FeatureLayout &layout = plan_.features[stage.exchanged_input].layout;
  const bool add_owned = stage.input_adjoint_is_written;
  const int64_t rows = neighborhood_->num_rows;
  R *adjoint = features_.exchanged_adjoint(s);
  Kokkos::parallel_for("equi:add_partials", Kokkos::RangePolicy<HostExec>(0, rows), [&](int64_t row) {
    for (const FeatureGroup &group : layout.groups()) {
      R *to = adjoint + rows * group.offset + row * group.width();
      bool add = add_owned && row < num_owned();
      for (int64_t p = partial_begin_[row]; p < partial_begin_[row + 1]; p++) {
        const Thread &thread = *threads_[partial_source_[p].thread];
        const R *from = thread.partial.data() + static_cast<int64_t>(thread.partial_rows.size()) * group.offset +
                        static_cast<int64_t>(partial_source_[p].partial_row) * group.width();
        group.for_numbers(state_.planes, [&](int first, int count) {
          for (int c = first; c < first + count; c++) to[c] = add ? to[c] + from[c] : from[c];
        });
        add = true;
      }
      if (!add) group.for_numbers(state_.planes, [&](int first, int count) { std::fill_n(to + first, count, R(0)); });
    }
  });
}

// The same with a gather over the transposed edges of each row.
template <class T>
void HostEvaluation<T>::gather_senders(int s) {
  const Stage &stage = plan_.stages[s];
  const FeatureLayout &layout = Base::layout(stage.exchanged_input);
  const int num_rows = neighborhood_->num_rows, num_threads = static_cast<int>(threads_.size());
  R *adjoint = features_.exchanged_adjoint(s);
  bool add_all = false;    // add to the sums of the convolutions before
  Base::for_convolutions(stage, [&](const Step &step, HostSenderLayer<T> &layer) {
    const int size = layer.gather_size(), num_blocks = (num_rows + size - 1) / size;
    on_threads("equi:gather", [&](int t) {
      Thread &thread = *threads_[t];
      for (int block = num_blocks * t / num_threads; block < num_blocks * (t + 1) / num_threads; block++) {
        const int first = block * size, count = std::min(size, num_rows - first);
        Batch senders{state_, thread.scratch, first, count, state_.row_species + first, &step};
        const FeatureRows<R> sums{thread.partial.reserve(static_cast<size_t>(count) * layout.row_size()), count, 0};
        layer.gather(senders, sums);
        const FeatureRows<R> rows{adjoint, num_rows, first};
        for (const FeatureGroup &group : layout.groups()) {
          for (int a = 0; a < count; a++) {
            const R *from = sums.group(group) + static_cast<int64_t>(a) * group.width();
            R *to = rows.group(group) + static_cast<int64_t>(a) * group.width();
            const bool add = add_all || (stage.input_adjoint_is_written && first + a < num_owned());
            for (int c = 0; c < group.width(); c++) to[c] = add ? to[c] + from[c] : from[c];
          }
        }
      }
    });
    add_all = true;
  });
}

template <class T>
template <class F>
void HostEvaluation<T>::for_tiles(Thread &thread, const Stage &stage, const F &f) {
  for (int k = thread.first_tile; k < thread.last_tile; k++) {
    const Tile &tile = tiles_[k];
    thread.scratch.features.reserve(tile.count * stage.batch_row_size);
    Batch batch{state_, thread.scratch, tile.first, tile.count, state_.row_species + tile.first};
    batch.partial = {thread.partial.data(), static_cast<int64_t>(thread.partial_rows.size()), 0};
    f(batch);
  }
}

// and_back: whether the batches of the last stage also go backward, if the plan fuses their passes.
template <class T>
void HostEvaluation<T>::forward(const HostSystem &system, GhostExchange &exchange, bool and_back) {
  for (int s = 0; s < num_stages(); s++) {
    const Stage &stage = plan_.stages[s];
    Base::balance(state_.work(), stage, num_owned(), false, &system, exchange);
    if (stage.exchanged_input >= 0)
      exchange.forward(
          Base::pieces(stage.exchanged_input, features_.data(stage.exchanged_input), neighborhood_->num_rows));
    if (and_back) set_rows_aside(s, false);
    find_moving_senders(s);
    if (and_back && plan_.fuses_last_stage && s == num_stages() - 1) return run_backward(s, true);
    on_threads("equi:forward", [&](int t) {
      for_tiles(*threads_[t], stage, [&](Batch &batch) { Base::forward_layers(batch, stage); });
    });
  }
}

// Runs the batches of a stage backward. with_forward: after their forward pass.
template <class T>
void HostEvaluation<T>::run_backward(int s, bool with_forward) {
  const Stage &stage = plan_.stages[s];
  on_threads("equi:backward", [&](int t) {
    Thread &thread = *threads_[t];
    if (stage.returns_adjoints && !options_.deterministic) {
      const size_t size = thread.partial_rows.size() * Base::layout(stage.exchanged_input).row_size();
      std::fill_n(thread.partial.reserve(size), size, R(0));
    }
    for_tiles(thread, stage, [&](Batch &batch) {
      if (with_forward) Base::forward_layers(batch, stage);
      Base::backward_layers(batch, stage);
    });
  });
}

// Computes a stage's exchanged input once more, if the plan repeats it.
template <class T>
void HostEvaluation<T>::repeat_input(int s) {
  const Stage &stage = plan_.stages[s];
  if (stage.repeated_stage < 0) return;
  on_threads("equi:repeat", [&](int t) {
    for_tiles(*threads_[t], plan_.stages[stage.repeated_stage], [&](Batch &batch) {
      batch.is_backward = true;
      Base::run_forward(batch, stage.repeated_steps);
    });
  });
  set_rows_aside(s, true);
}

// Copies values of remote rows of a stage's exchanged input to where they are kept, or back.
template <class T>
void HostEvaluation<T>::set_rows_aside(int s, bool and_back) {
  features_.for_rows_set_aside(s, [&](FeatureRows<R> rows, FeatureRows<R> aside) {
    for (const FeatureGroup &group : Base::layout(plan_.stages[s].exchanged_input).groups())
      std::copy_n((and_back ? aside : rows).group(group), aside.rows * group.width(),
                  (and_back ? rows : aside).group(group));
  });
}

template <class T>
void HostEvaluation<T>::backward(const HostSystem &system, GhostExchange &exchange) {
  for (int s = num_stages() - 1; s >= 0; s--) {
    const Stage &stage = plan_.stages[s];
    if (s < num_stages() - 1 || !plan_.fuses_last_stage) {
      repeat_input(s);
      run_backward(s, false);
    }
    if (stage.returns_adjoints) return_senders(s, exchange);
    Base::balance(state_.work(), stage, num_owned(), true, &system, exchange);
  }
}

// Sends adjoints of a stage's senders to the ranks that own these atoms.
template <class T>
void HostEvaluation<T>::return_senders(int s, GhostExchange &exchange) {
  const int input = plan_.stages[s].exchanged_input;
  if (options_.deterministic)
    gather_senders(s);
  else
    add_partials(s);
  R *adjoint = features_.exchanged_adjoint(s);
  // Zeroes the remote rows, so that their values are not added twice.
  exchange.reverse(Base::pieces(input, adjoint, neighborhood_->num_rows));
}

// ---- an evaluation
// Returns an atom with a result that is not finite, or -1. A receiver is recognized by its energy; otherwise the
// arrays of the request show the first such atom.
template <class T>
int HostEvaluation<T>::find_not_finite(const EvaluationRequest &request) const {
  const auto is_finite = [](const double *numbers, int count) {
    return std::all_of(numbers, numbers + count, [](double number) { return std::isfinite(number); });
  };
  for (int i = 0; i < num_owned(); i++)
    for (int d = 0; d < state_.num_directions(); d++) {
      const D e = state_.energy_of(d)[i];
      if (!std::isfinite(value_of(e)) || !std::isfinite(tangent_of(e))) return neighborhood_->receiver[i];
    }
  const int num_atoms = neighborhood_->num_atoms;
  int first = num_atoms;
  Kokkos::parallel_reduce(
      "equi:not_finite", Kokkos::RangePolicy<HostExec>(0, num_atoms),
      [&](int a, int &lowest) {
        bool passes = !request.forces || is_finite(request.forces[a], 3);
        passes = passes && (!request.atom_virial || is_finite(request.atom_virial[a], 9));
        for (int d = 0; passes && request.force_tangents && d < request.num_directions; d++)
          passes = is_finite(request.along(d).force_tangents[a], 3);
        if (!passes && a < lowest) lowest = a;
      },
      Kokkos::Min<int>(first));
  return first < num_atoms ? first : -1;
}

template <class T>
void HostEvaluation<T>::add_results_of_receivers(const EvaluationRequest &request, EvaluationResult &result) const {
  for (int i = 0; i < num_owned(); i++) {
    const double e = value_of(state_.energy_of(0)[i]) + Base::energies_.shift[state_.row_species[i]];
    result.energy += e;
    result.energy_tangent += tangent_of(state_.energy_of(0)[i]);
    const int atom = neighborhood_->receiver[i];
    if (request.atom_energy) request.atom_energy[atom] += e;
    for (int c = 0; request.energy_moments && c < 3; c++)
      request.energy_moments[atom][c] += tangent_of(state_.energy_of(1 + c)[i]);
    for (int c = 0; state_.direct_forces && c < 3; c++)
      request.forces[atom][c] += state_.direct_forces[3 * static_cast<int64_t>(i) + c];
    for (int64_t c = 0; state_.observables && c < num_observable_numbers_; c++)
      request.observables[num_observable_numbers_ * atom + c] += state_.observables[num_observable_numbers_ * i + c];
  }
}

// Edge values can be recomputed, so they may use at most this share of the memory limit.
constexpr double KEEPING_SHARE = 0.5;

// Reserves memory for the numbers of edges that the backward pass needs from the forward pass.
template <class T>
void HostEvaluation<T>::keep_edges(bool backward_is_wanted) {
  if (kept_per_edge_ == 0) return;
  double room = std::numeric_limits<double>::infinity();
  if (options_.memory_limit > 0.0) {    // an estimate visits all arrays
    const double others = static_cast<double>(memory_estimate()) - static_cast<double>(bytes_of(kept_));
    room = KEEPING_SHARE * options_.memory_limit - others;
  }
  state_.kept = Base::keep_edges(backward_is_wanted ? edges_.size() : 0, room);
}

template <class T>
EvaluationResult HostEvaluation<T>::evaluate(const EvaluationRequest &request, GhostExchange &exchange) {
  EvaluationResult result;
  if (Base::is_direct_) check_request_of_direct_forces(request);
  const bool backward_is_wanted = !Base::is_direct_ && (request.forces || request.force_tangents);
  Base::check_moments(request.energy_moments, backward_is_wanted || request.virial || request.atom_virial);
  state_.planes = Base::planes_of_step(
      request.same_positions && !request.forces && !request.virial && !request.atom_virial, request.num_directions);
  state_.has_backward = backward_is_wanted;
  values_are_kept_ = false;
  edges_.find(request);
  if (far_edges_) far_edges_->find(request);
  result.num_edges = edges_.size();
  keep_edges(backward_is_wanted);
  if (!is_lean_ && options_.memory_limit > 0.0 && memory_estimate() > options_.memory_limit) become_lean();
  check_memory(memory_estimate(), options_);
  if (!state_.tangents_alone()) Base::reserve_arrays(num_owned());
  const int64_t num_energies = static_cast<int64_t>(state_.num_directions()) * num_owned();
  state_.energy = energy_.reserve(num_energies);
  std::fill_n(state_.energy, num_energies, D(0.0));
  state_.direct_forces =
      Base::is_direct_ && request.forces ? direct_forces_.reserve(3 * static_cast<int64_t>(num_owned())) : nullptr;
  if (request.observables && IS_DUAL<T>) throw std::logic_error("observables have no derivatives along directions");
  const int64_t num_observables = num_observable_numbers_ * num_owned();
  state_.observables = request.observables ? observables_.reserve(num_observables) : nullptr;
  if (state_.observables) std::fill_n(state_.observables, num_observables, 0.0);
  if (request.observable_weights && IS_DUAL<T>) throw std::logic_error("weights of observables have no directions");
  state_.observable_weights = request.observable_weights ? observable_weights_.reserve(num_observables) : nullptr;
  for (int i = 0; state_.observable_weights && i < num_owned(); i++)
    std::copy_n(request.observable_weights + num_observable_numbers_ * neighborhood_->receiver[i],
                num_observable_numbers_, observable_weights_.data() + num_observable_numbers_ * i);
  const HostSystem system{++this->step_, request, *neighborhood_, result};
  const int num_tiles = static_cast<int>(tiles_.size()), of_part = tiles_of_part();
  int first = 0, first_receiver = 0;
  do {    // once at least: other ranks may exchange features with this one
    const int last = std::min(first + of_part, num_tiles);
    const int last_receiver = last < num_tiles ? tiles_[last].first : num_owned();
    edges_.set(request, first_receiver, last_receiver);
    if (far_edges_) far_edges_->set(request, first_receiver, last_receiver);
    share_tiles(first, last);
    if (has_partials()) find_partial_rows();
    state_.edge_partial_row = edge_partial_row_.data();
    forward(system, exchange, backward_is_wanted);
    if (backward_is_wanted) {
      backward(system, exchange);
      edges_.finish_receivers(request);
      if (far_edges_) far_edges_->finish_receivers(request);
    }
    first = last;
    first_receiver = last_receiver;
  } while (first < num_tiles);
  add_results_of_receivers(request, result);
  if (backward_is_wanted) {
    edges_.finish(request, result);
    if (far_edges_) far_edges_->finish(request, result);
  }
  const bool has_all_pairs = Base::has_all_pairs(exchange, num_owned(), far_edges_ ? far_edges_->size() : 0);
  check_evaluation(edges_.collision(), result, find_not_finite(request));
  if (!has_all_pairs) check_all_pairs(false, Base::far_cutoff_);
  check_num_neighbors(this->model_.max_neighbors, num_owned(), neighborhood_->receiver.data(),
                      [&](int i) { return edges_.size(i, i + 1); });
  values_are_kept_ = plan_.keeps_values && backward_is_wanted;
  return result;
}

template <class T>
void HostEvaluation<T>::for_memory(const MemoryPartVisitor &f) const {
  Base::for_memory(f);
  const auto candidates = part_of_memory("candidates for edges", f), edges = part_of_memory("edges", f),
             scratch = part_of_memory("scratch of threads", f);
  edges_.for_memory(candidates, edges);
  if (far_edges_) far_edges_->for_memory(candidates, edges);
  visit_memory(candidates, edge_partial_row_, candidate_partial_row_, partial_source_, partial_begin_);
  visit_memory(scratch, state_);
  for (const auto &thread : threads_) {
    visit_memory(part_of_memory("adjoints of senders, by thread", f), thread->partial);
    visit_memory(candidates, thread->partial_rows);
    visit_memory(scratch, thread->scratch);
  }
  visit_memory(part_of_memory("results of receivers", f), energy_, direct_forces_, observables_, observable_weights_);
}

// Largest number of arrays of a thread's scratch in the estimate of memory.
constexpr int MAX_SCRATCH_ARRAYS = 16;

// For all threads: rows of the widest stage, and the memory of layers for lists of edges. Layers share the buffers.
template <class T>
std::size_t HostEvaluation<T>::additional_scratch_bytes(int64_t num_edges) const {
  int64_t row_size = 0;
  for (const Stage &stage : plan_.stages) row_size = std::max(row_size, stage.batch_row_size);
  std::size_t bytes = 0;
  for (const auto &thread : threads_) {
    // Per array, in a std::array because a warm evaluation allocates nothing.
    struct Growth {
      const void *array;
      std::size_t bytes;
    };
    std::array<Growth, MAX_SCRATCH_ARRAYS> growth{};
    const auto add = [&](ArrayRef array, int64_t n) {
      const auto of_array = std::find_if(growth.begin(), growth.end(),
                                         [&](const Growth &g) { return g.array == array.address() || !g.array; });
      if (of_array == growth.end()) throw std::logic_error("HostEvaluation: more arrays of scratch than expected");
      of_array->array = array.address();
      of_array->bytes = std::max(of_array->bytes, array.additional_bytes(n));
    };
    for (int k = thread->first_tile; k < thread->last_tile; k++)
      add(thread->scratch.features, tiles_[k].count * row_size);
    const bool has_edges = thread->first_tile < thread->last_tile || options_.deterministic;
    for (const auto &layer : Base::layers_)
      if (has_edges && layer) add(thread->scratch.linear, layer->edge_scratch_size(num_edges));
    for (const HostSenderLayer<T> *layer : Base::sender_layers_)
      if (has_edges) layer->for_edge_scratch(state_, thread->scratch, num_edges, add);
    for (const Growth &g : growth) bytes += g.bytes;
  }
  return bytes;
}

template <class T>
std::size_t HostEvaluation<T>::memory_estimate() const {
  const int64_t num_edges = edges_.size();
  std::size_t bytes = this->memory_bytes() + edges_.additional_bytes(num_edges, most_present(edges_)) +
                      (far_edges_ ? far_edges_->additional_bytes(far_edges_->size(), most_present(*far_edges_)) : 0) +
                      Base::additional_array_bytes(num_owned()) + additional_scratch_bytes(num_edges) +
                      energy_.additional_bytes(static_cast<int64_t>(state_.num_directions()) * num_owned()) +
                      (Base::is_direct_ ? direct_forces_.additional_bytes(3 * static_cast<int64_t>(num_owned())) : 0);
  if (neighborhood_) bytes += Base::additional_system_bytes(neighborhood_->box, num_owned());
  if (!has_partials()) return bytes;
  bytes += edge_partial_row_.additional_bytes(num_edges);
  for (const auto &thread : threads_)
    bytes += thread->partial.additional_bytes(thread->partial_rows.size() * plan_.max_exchanged_row_size);
  return bytes;
}

EQUI_INSTANTIATE_NUMBERS(HostEvaluation)

std::unique_ptr<Evaluator> make_host_evaluator(const Model &model, const EvaluatorOptions &options) {
  start_kokkos(0, 0);
  const InstructionSet set =
      options.instruction_set.empty() ? best_instruction_set() : instruction_set_of_name(options.instruction_set);
  return make_for_precision(options, [&](auto t, const EvaluatorOptions &o) -> std::unique_ptr<Evaluator> {
    return std::make_unique<HostEvaluation<decltype(t)>>(o.folds ? fold_linears(model) : model, o, set);
  });
}

}    // namespace equi
