// SPDX-License-Identifier: MIT
#include "src/evaluation/native_evaluators.h"

#include "kokkos/evaluation/device_evaluation.h"
#include "kokkos/runtime/device_dense.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace equi {

namespace {

// Receivers per chunk where the device is the host.
constexpr int HOST_CHUNK = 256;
// `radial exact` keeps all weights of a chunk's edges.
constexpr int EXACT_CHUNK = 128;
// A radial network of atoms' features takes some tens of kB for each edge of a chunk.
constexpr int NETWORK_CHUNK = 256;
// The least that a limit of the memory leads to, and the fewest chunks of a slice before chunks become smaller: each
// slice is a pass over all senders.
constexpr int MIN_CHUNK = 64, MIN_SLICE_CHUNKS = 4;
// Of the limit: the rest is for small things that are not known when chunks are cut.
constexpr double FILLED = 0.99;

}    // namespace

template <class Exec, class T, class G>
ModelDevice<Exec, T, G>::ModelDevice(const Model &model, const EvaluatorOptions &options)
    : own_exec_(make_own_instance<Exec>()),
      model_(model),
      options_(options),
      plan_(make_evaluation_plan(model, true, IS_DUAL<T>)),
      edges_(exec_, model.lmax_edge, model.num_species(), model.cutoff, model.pair_cutoff),
      summary_("equi:summary") {
  start_device_dense(exec_);
  scale_shift_.scale.assign(model.num_species(), 1.0);
  scale_shift_.shift.assign(model.num_species(), 0.0);
  auto layout = [&](int f) -> const FeatureLayout & { return plan_.features[f].layout; };
  bool is_scaled = true;    // layers before the scale
  for (const Layer &layer : model_.layers) {
    Op op;
    if (const auto *l = std::get_if<Linear>(&layer)) {
      const LinearOp<R> host(*l, layout(l->input), layout(l->output), model.num_species());
      op = std::make_unique<DeviceLinear<Exec, R>>(exec_, host, model.num_species());
    } else if (const auto *c = std::get_if<Convolution>(&layer)) {
      has_networks_ = has_networks_ || c->radial.reads_features();
      op = std::make_unique<DeviceConvolution<Exec, T>>(exec_, *c, layout(c->input), layout(c->output),
                                                        model.num_species(), options);
    } else if (const auto *g = std::get_if<Gate>(&layer)) {
      op = std::make_unique<DeviceGate<Exec, T>>(GateOp<T>(*g, layout(g->input), layout(g->output)));
    } else if (const auto *d = std::get_if<DensityNormalization>(&layer)) {
      op = std::unique_ptr<NormalizationOp>(new NormalizationOp{
          DeviceDensity<Exec, T>(exec_, DensityOp<T>(*d, layout(d->input), model.num_species(), options)), {}});
    } else if (const auto *s = std::get_if<SymmetricContraction>(&layer)) {
      op = std::make_unique<DeviceContraction<Exec, T>>(
          exec_, ContractionOp<T>(*s, layout(s->input), layout(s->output), model.num_species()));
    } else if (const auto *p = std::get_if<PairRepulsion>(&layer)) {
      repulsions_.push_back({DeviceRepulsion<Exec>(exec_, *p), is_scaled});
    } else if (const auto *r = std::get_if<Readout>(&layer)) {
      const FeatureBlock &b = layout(r->input).block(r->block);
      Network network = r->network;
      network.simplify();
      op = std::unique_ptr<ReadoutOp>(
          new ReadoutOp{DeviceReadout<Exec, T>(exec_, network, layout(r->input).group(b.group), b.channel), {}});
    } else if (const auto *s = std::get_if<ScaleShift>(&layer)) {
      scale_shift_ = *s;
      is_scaled = false;
    }
    ops_.push_back(std::move(op));
  }
  assign(exec_, scale_, scale_shift_.scale);
  assign(exec_, shift_, scale_shift_.shift);
  feature_.resize(plan_.features.size());
  evaluate_fixed_features();
}

template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::evaluate_fixed_features() {
  const int num_species = model_.num_species();
  std::vector<int> order(num_species), begin(num_species + 1);
  for (int s = 0; s < num_species; s++) order[s] = begin[s] = s;
  begin[num_species] = num_species;
  DeviceBuffer<Exec, int> device_order;
  assign(exec_, device_order, order);
  const DeviceSpeciesOrder species{device_order.data(), begin.data()};
  auto rows = [&](int f) { return FeatureRows<R>{feature_[f].data(), num_species, 0}; };

  for (size_t f = 0; f < plan_.features.size(); f++)
    if (plan_.features[f].storage == Storage::fixed) {
      const int64_t size = static_cast<int64_t>(num_species) * plan_.features[f].layout.row_size();
      device_zero(exec_, feature_[f].reserve(size), size);
    }
  for (int k : plan_.fixed_layers) {
    if (const auto *e = std::get_if<SpeciesEmbedding>(&model_.layers[k])) {
      const FeatureGroup &group = plan_.features[e->output].layout.group(0);
      std::vector<R> x(static_cast<size_t>(num_species) * group.width(), R(0));
      for (int s = 0; s < num_species; s++)
        for (int u = 0; u < e->weight.cols; u++)
          x[static_cast<size_t>(s) * group.width() + u] = static_cast<R>(e->weight(s, u));
      copy_to_device(exec_, rows(e->output).group(group), x.data(), static_cast<int64_t>(x.size()));
    } else if (const auto *l = std::get_if<Linear>(&model_.layers[k])) {
      std::get<std::unique_ptr<DeviceLinear<Exec, R>>>(ops_[k])->forward(exec_, num_species, rows(l->input),
                                                                         rows(l->output), species);
    } else if (const auto *g = std::get_if<Gate>(&model_.layers[k])) {
      std::get<std::unique_ptr<DeviceGate<Exec, T>>>(ops_[k])->forward(exec_, num_species, rows(g->input),
                                                                       rows(g->output));
    }
  }
  fixed_result_.resize(model_.layers.size());
  for (const Stage &stage : plan_.stages)
    for (const Step &step : stage.steps) {
      const auto *l = std::get_if<Linear>(&model_.layers[step.layer]);
      if (!l || !step.fixed_input) continue;
      const int64_t size = static_cast<int64_t>(num_species) * plan_.features[l->output].layout.row_size();
      R *result = fixed_result_[step.layer].reserve(size);
      device_zero(exec_, result, size);
      std::get<std::unique_ptr<DeviceLinear<Exec, R>>>(ops_[step.layer])
          ->forward(exec_, num_species, rows(l->input), FeatureRows<R>{result, num_species, 0}, species);
    }
  exec_.fence("equi: the local order of species is in use no more");
}

template <class Exec, class T, class G>
std::string ModelDevice<Exec, T, G>::describe() const {
  char text[200];
  const char *names[] = {"single", "mixed", "double"};
  std::snprintf(text, sizeof text, "  precision %s, device kernels on %s\n",
                names[static_cast<int>(options_.precision)], Exec::name());
  std::string lines = text;
  int layer = 0;
  for (const Op &op : ops_)
    if (const auto *c = std::get_if<std::unique_ptr<DeviceConvolution<Exec, T>>>(&op)) {
      std::snprintf(text, sizeof text, "  convolution %d: %d paths, ", layer++, (*c)->host().plan().num_paths);
      lines += text + (*c)->host().describe() + "\n";
    } else if (const auto *n = std::get_if<std::unique_ptr<NormalizationOp>>(&op)) {
      lines += "  density normalisation: " + (*n)->density.host().radial_set().describe() + "\n";
    } else if (const auto *s = std::get_if<std::unique_ptr<DeviceContraction<Exec, T>>>(&op)) {
      lines += "  symmetric contraction: " + (*s)->host().describe() + "\n";
    }
  return lines;
}

// ---- neighbourhood
// ----------------------------------------------------------------------------------------------------------

template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::set_neighborhood(const Neighborhood &n) {
  copy_neighborhood(exec_, n, copied_neighborhood_);
  positions_.reserve(3 * static_cast<int64_t>(n.num_atoms));
  set_neighborhood(copied_neighborhood_);
}

template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::set_neighborhood(DeviceNeighborhood<Exec> &n) {
  exec_ = Exec();
  neighborhood_ = &n;
  is_exchanging_ = n.num_rows > n.num_receivers;    // at most a rank without remote rows learns more from the exchange
  chunk_size_ = options_.radial_exact ? EXACT_CHUNK : DeviceTraits<Exec>::ON_HOST ? HOST_CHUNK : DEVICE_CHUNK;
  if (has_networks_) chunk_size_ = std::min(chunk_size_, NETWORK_CHUNK);
  slice_size_ = std::max(1, n.num_receivers);
  const auto estimate = [&] { return static_cast<double>(memory_estimate(n.num_candidates)); };
  while (options_.memory_limit > 0.0 && estimate() > FILLED * options_.memory_limit) {
    const int whole = slice_size_, least = MIN_SLICE_CHUNKS * chunk_size_;
    if (whole > least) {
      const double before = estimate();
      slice_size_ = std::max(least, whole / 2);
      if (estimate() < before) continue;
      slice_size_ = whole;    // the lists of senders by slices take more than is saved
    }
    if (chunk_size_ <= MIN_CHUNK) break;    // an evaluation will tell
    chunk_size_ /= 2;
  }
  transpose_neighborhood(exec_, slice_size_, n);

  std::vector<int> receiver_cuts{0};
  std::vector<int64_t> sender_cuts{0};
  // Chunks of [first, last); place: of row 0 among the cuts.
  const auto divide = [&](std::vector<Chunk> &chunks, auto &cuts, int slice, int64_t place, int first, int last) {
    for (int count; first < last; first += count) {
      count = std::min(chunk_size_, last - first);
      chunks.push_back({slice, static_cast<int>(chunks.size()), first, count, {}});
      cuts.push_back(place + first + count);
    }
  };
  chunks_.clear();
  sender_chunks_.clear();
  for (int slice = 0; slice < n.num_slices; slice++) {
    const int first = slice * slice_size_, last = std::min(n.num_receivers, first + slice_size_),
              middle = std::clamp(n.num_interior, first, last);
    divide(chunks_, receiver_cuts, slice, 0, first, middle);
    divide(chunks_, receiver_cuts, slice, 0, middle, last);
    const int64_t place = static_cast<int64_t>(slice) * n.num_rows;
    divide(sender_chunks_, sender_cuts, slice, place, 0, n.num_receivers);
    divide(sender_chunks_, sender_cuts, slice, place, n.num_receivers, n.num_rows);
  }
  // Without counting, each launch over edges covers all candidates: for a chunk or two only. Exact radial functions are
  // evaluated on the host.
  const bool is_small = n.num_receivers <= chunk_size_ && n.num_slices == 1 &&
                        (options_.memory_limit <= 0.0 || estimate() <= FILLED * options_.memory_limit);
  edges_.set_neighborhood(exec_, n, receiver_cuts, sender_cuts, !options_.graphs || options_.radial_exact || !is_small);
  recorder_.forget();
  sort_chunks_by_species();
}

template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::sort_chunks_by_species() {
  const int num_species = model_.num_species(), num_chunks = static_cast<int>(chunks_.size());
  std::vector<int> first_row;
  for (const Chunk &chunk : chunks_) first_row.push_back(chunk.first);
  first_row.push_back(num_owned());
  DeviceBuffer<Exec, int> device_first, device_begin;
  assign(exec_, device_first, first_row);
  std::vector<int> begin(static_cast<size_t>(num_chunks) * (num_species + 1));
  order_by_species(exec_, num_chunks, device_first.data(), neighborhood_->row_species.data(), num_species,
                   device_begin.reserve(begin.size()), species_order_.reserve(num_owned()));
  copy_to_host(exec_, begin.data(), device_begin.data(), begin.size());    // products are sized on the host
  for (int k = 0; k < num_chunks; k++)
    chunks_[k].species_begin.assign(begin.begin() + k * (num_species + 1), begin.begin() + (k + 1) * (num_species + 1));
}

template <class Exec, class T, class G>
DeviceSpeciesOrder ModelDevice<Exec, T, G>::species_order(const Chunk &chunk) const {
  return {species_order_.data() + chunk.first, chunk.species_begin.data()};
}

// ---- memory
// -----------------------------------------------------------------------------------------------------------------

template <class Exec, class T, class G>
template <class Self, class F>
void ModelDevice<Exec, T, G>::for_row_buffers(Self &self, const F &f) {
  const int64_t owned = self.neighborhood_->num_receivers, rows = self.neighborhood_->num_rows;
  const EvaluationPlan &plan = self.plan_;
  for (size_t k = 0; k < plan.features.size(); k++) {
    const FeaturePlan &feature = plan.features[k];
    if (feature.storage == Storage::rows) f(self.feature_[k], rows * feature.layout.row_size());
    if (feature.storage == Storage::owned) f(self.feature_[k], owned * feature.layout.row_size());
  }
  int64_t stage_row_size = 0, chunk_row_size = 0;
  bool exchanged[2] = {false, false};
  for (size_t s = 0; s < plan.stages.size(); s++) {
    stage_row_size = std::max(stage_row_size, plan.stages[s].stage_row_size);
    chunk_row_size = std::max(chunk_row_size, plan.stages[s].tile_row_size);
    if (plan.stages[s].exchanged_input >= 0) exchanged[s % 2] = true;
  }
  f(self.stage_scratch_, std::min<int64_t>(owned, self.slice_size_) * stage_row_size);
  f(self.chunk_features_, std::min<int64_t>(owned, self.chunk_size_) * chunk_row_size);
  for (int k = 0; k < 2; k++)
    if (exchanged[k]) f(self.exchanged_adjoint_[k], rows * plan.max_exchanged_row_size);
  if (self.is_exchanging_) f(self.returned_, rows * plan.max_exchanged_row_size);
  f(self.energy_, owned);
  for (auto &op : self.ops_)
    if (auto *r = std::get_if<std::unique_ptr<ReadoutOp>>(&op))
      f((*r)->adjoint, owned * (*r)->readout.num_inputs());
    else if (auto *n = std::get_if<std::unique_ptr<NormalizationOp>>(&op))
      f((*n)->norm, owned);
}

template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::reserve() {
  for_row_buffers(*this, [](auto &buffer, int64_t n) { buffer.reserve(n); });
}

template <class Exec, class T, class G>
FeatureRows<Real<T>> ModelDevice<Exec, T, G>::rows_of(const Chunk &chunk, int feature, bool adjoint) {
  const FeaturePlan &plan = plan_.features[feature];
  switch (plan.storage) {
    case Storage::rows:
      return {adjoint ? exchanged_adjoint(plan.consumer) : feature_[feature].data(), neighborhood_->num_rows,
              chunk.first};
    case Storage::owned:    // the adjoint takes the place of the value
      return {feature_[feature].data(), num_owned(), chunk.first};
    case Storage::stage:
      return {stage_scratch_.data() + slice_rows() * plan.offset, slice_rows(),
              chunk.first - chunk.slice * slice_size_};
    case Storage::tile:
      return {chunk_features_.data() + chunk.count * plan.offset, chunk.count, 0};
    case Storage::fixed:
      break;
  }
  return {feature_[feature].data(), model_.num_species(), 0};
}

// What the radial network of a convolution reads of a chunk of receivers, or of senders, whose edges count receivers in
// their slice.
template <class Exec, class T, class G>
DeviceNetworkInput<Real<T>> ModelDevice<Exec, T, G>::network_input(const Chunk &chunk, const Step &step,
                                                                   bool of_senders) {
  FeatureRows<R> x = rows_of(chunk, std::get<Convolution>(model_.layers[step.layer]).input, false);
  x.first = 0;
  return {x, step.fixed_input, of_senders, chunk.first, of_senders ? chunk.slice * slice_size_ : 0};
}

// An exchange of rows, with work queued that neither reads nor writes them. What was queued before has ended by then.
template <class Exec, class T, class G>
template <class Work>
void ModelDevice<Exec, T, G>::exchange_beside(GhostExchange &exchange, int feature, R *data, bool is_reverse,
                                              const Work &work) {
  exec_.fence("equi: features ready for other ranks");
  if (!options_.overlap) {
    exchange_rows(exchange, feature, data, is_reverse);
    work();
    return;
  }
  queued_.begin();
  if (work()) queued_.end(exec_);
  exchange.set_busy([this] { return queued_.is_busy(); });
  exchange_rows(exchange, feature, data, is_reverse);
  exchange.set_busy({});
}

// Rows of a feature or of its adjoint to other ranks and back, on the default instance; through host memory where the
// exchange wants it. Complete on return.
template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::exchange_rows(GhostExchange &exchange, int feature, R *data, bool is_reverse) {
  const FeatureLayout &layout = plan_.features[feature].layout;
  const int64_t rows = neighborhood_->num_rows, owned = num_owned();
  const bool is_staged = !DeviceTraits<Exec>::ON_HOST && !exchange.takes_device_rows();
  const Exec copies;
  R *sent = data;
  if (is_staged) {
    staging_.resize(rows * layout.row_size());
    sent = staging_.data();
  }
  FeaturePieces<R> pieces;
  for (int g = 0; g < layout.num_groups(); g++) {
    const FeatureGroup &group = layout.group(g);
    pieces.push_back({sent + rows * group.offset, group.width()});
    // Forward sends owned rows, reverse all.
    if (is_staged)
      copy_to_host(copies, pieces.back().data, data + rows * group.offset, (is_reverse ? rows : owned) * group.width());
  }
  if (is_reverse)
    exchange.reverse(pieces);
  else
    exchange.forward(pieces);
  if (!is_staged) return;
  for (int g = 0; g < layout.num_groups(); g++) {
    const int64_t width = layout.group(g).width(), at = rows * layout.group(g).offset;
    // Forward has changed remote rows; of what reverse has changed only owned rows are read on.
    if (is_reverse)
      copy_to_device(copies, data + at, sent + at, owned * width);
    else
      copy_to_device(copies, data + at + owned * width, sent + at + owned * width, (rows - owned) * width);
  }
}

// ---- forward
// ----------------------------------------------------------------------------------------------------------------

template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::forward_layers(const Chunk &chunk, const Stage &stage) {
  const int *species = neighborhood_->row_species.data() + chunk.first;
  for (const Step &step : stage.steps) {
    const Layer &layer = model_.layers[step.layer];
    Op &op = ops_[step.layer];
    if (const auto *l = std::get_if<Linear>(&layer)) {
      const FeatureRows<R> y = rows_of(chunk, l->output, false);
      if (step.fixed_input)
        copy_species_rows<Exec, R>(exec_, chunk.count, plan_.features[l->output].layout,
                                   {fixed_result_[step.layer].data(), model_.num_species(), 0}, species, y,
                                   l->accumulate);
      else
        std::get<std::unique_ptr<DeviceLinear<Exec, R>>>(op)->forward(
            exec_, chunk.count, rows_of(chunk, l->input, false), y, species_order(chunk));
    } else if (const auto *c = std::get_if<Convolution>(&layer)) {
      const auto &convolution = *std::get<std::unique_ptr<DeviceConvolution<Exec, T>>>(op);
      const DeviceEdgeChunk edges = receivers(chunk, step.fixed_input);
      convolution.prepare(exec_, edges, edges_.distance(), edges_.pair(), edges_.harmonics(), true,
                          network_input(chunk, step, false), scratch_);
      convolution.forward(exec_, edges, rows_of(chunk, c->input, false), rows_of(chunk, c->output, false), scratch_);
    } else if (const auto *g = std::get_if<Gate>(&layer)) {
      std::get<std::unique_ptr<DeviceGate<Exec, T>>>(op)->forward(exec_, chunk.count, rows_of(chunk, g->input, false),
                                                                  rows_of(chunk, g->output, false));
    } else if (const auto *d = std::get_if<DensityNormalization>(&layer)) {
      NormalizationOp &n = *std::get<std::unique_ptr<NormalizationOp>>(op);
      n.density.template forward<G>(exec_, receivers(chunk, false), edges_.distance(), edges_.pair(),
                                    rows_of(chunk, d->input, false), rows_of(chunk, d->output, false),
                                    n.norm.data() + chunk.first);
    } else if (const auto *s = std::get_if<SymmetricContraction>(&layer)) {
      std::get<std::unique_ptr<DeviceContraction<Exec, T>>>(op)->forward(
          exec_, chunk.count, rows_of(chunk, s->input, false), rows_of(chunk, s->output, false), species);
    } else if (const auto *r = std::get_if<Readout>(&layer)) {
      ReadoutOp &readout = *std::get<std::unique_ptr<ReadoutOp>>(op);
      const FeatureRows<R> x = rows_of(chunk, r->input, false);
      readout.readout.forward(
          exec_, chunk.count, x, species, scale_.data(), energy_.data() + chunk.first,
          readout.adjoint.data() + static_cast<int64_t>(chunk.first) * readout.readout.num_inputs());
    }
  }
}

template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::launch_forward(const Stage &stage, bool interior) {
  recorder_.run(exec_, [&] {
    for (const Chunk &chunk : chunks_)
      if ((chunk.first < neighborhood_->num_interior) == interior) forward_layers(chunk, stage);
  });
}

template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::forward_stage(int s, GhostExchange &exchange) {
  const Stage &stage = plan_.stages[s];
  const int input = stage.exchanged_input;
  if (input >= 0 && is_exchanging_)
    exchange_beside(exchange, input, feature_[input].data(), false, [&] {
      launch_forward(stage, true);
      return neighborhood_->num_interior > 0;
    });
  else
    launch_forward(stage, true);
  launch_forward(stage, false);
}

// ---- backward
// ---------------------------------------------------------------------------------------------------------------

template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::backward_layers(const Chunk &chunk, const Stage &stage) {
  for (auto step = stage.steps.rbegin(); step != stage.steps.rend(); ++step) {
    if (step->adjoint == Step::Adjoint::none) continue;
    const Layer &layer = model_.layers[step->layer];
    Op &op = ops_[step->layer];
    // Adjoints of the exchanged input begin with what slices before have gathered.
    const auto adds_to = [&](int input) {
      return step->adjoint == Step::Adjoint::add || input == stage.exchanged_input;
    };
    if (const auto *l = std::get_if<Linear>(&layer)) {
      std::get<std::unique_ptr<DeviceLinear<Exec, R>>>(op)->backward(
          exec_, chunk.count, rows_of(chunk, l->output, true), rows_of(chunk, l->input, true), adds_to(l->input),
          species_order(chunk));
    } else if (const auto *c = std::get_if<Convolution>(&layer)) {
      const auto &convolution = *std::get<std::unique_ptr<DeviceConvolution<Exec, T>>>(op);
      const DeviceEdgeChunk edges = receivers(chunk, step->fixed_input);
      convolution.prepare(exec_, edges, edges_.distance(), edges_.pair(), edges_.harmonics(), false,
                          network_input(chunk, *step, false), scratch_);
      convolution.backward(exec_, edges, rows_of(chunk, c->input, false), rows_of(chunk, c->output, true),
                           edges_.harmonics(), edges_.adjoint(),
                           step->fixed_input ? FeatureRows<R>{nullptr, 0, 0} : rows_of(chunk, c->input, true),
                           scratch_);
    } else if (const auto *g = std::get_if<Gate>(&layer)) {
      std::get<std::unique_ptr<DeviceGate<Exec, T>>>(op)->backward(exec_, chunk.count, rows_of(chunk, g->output, true),
                                                                   rows_of(chunk, g->input, true));
    } else if (const auto *d = std::get_if<DensityNormalization>(&layer)) {
      NormalizationOp &n = *std::get<std::unique_ptr<NormalizationOp>>(op);
      n.density.template backward<G>(exec_, receivers(chunk, false), edges_.distance(), edges_.pair(),
                                     rows_of(chunk, d->input, true), rows_of(chunk, d->output, true),
                                     n.norm.data() + chunk.first, edges_.adjoint(), edges_.num_y());
    } else if (const auto *s = std::get_if<SymmetricContraction>(&layer)) {
      std::get<std::unique_ptr<DeviceContraction<Exec, T>>>(op)->backward(
          exec_, chunk.count, rows_of(chunk, s->input, true), rows_of(chunk, s->output, true),
          neighborhood_->row_species.data() + chunk.first);
    } else if (const auto *r = std::get_if<Readout>(&layer)) {
      const ReadoutOp &readout = *std::get<std::unique_ptr<ReadoutOp>>(op);
      const FeatureLayout &layout = plan_.features[r->input].layout;
      const FeatureRows<R> x_adj = rows_of(chunk, r->input, true);
      if (!adds_to(r->input))
        for (int k = 0; k < layout.num_groups(); k++)
          device_zero(exec_, x_adj.group(layout.group(k)), chunk.count * static_cast<int64_t>(layout.group(k).width()));
      readout.readout.backward(
          exec_, chunk.count, readout.adjoint.data() + static_cast<int64_t>(chunk.first) * readout.readout.num_inputs(),
          x_adj);
    }
  }
}

// What the receivers of a slice add to the adjoint of a stage's exchanged input, of owned or of remote rows, by a
// gather over the edges that point at each row.
template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::gather_senders(int s, int slice, bool remote, R *adjoint) {
  const Stage &stage = plan_.stages[s];
  const Step &step = stage.steps.front();
  const auto &layer = std::get<Convolution>(model_.layers[step.layer]);
  const auto &convolution = *std::get<std::unique_ptr<DeviceConvolution<Exec, T>>>(ops_[step.layer]);
  const FeatureRows<const R> out_adj = rows_of({0, 0, 0, 0, {}}, layer.output, true);
  const int64_t place = static_cast<int64_t>(slice) * neighborhood_->num_rows;
  for (const Chunk &chunk : sender_chunks_) {
    if (chunk.slice != slice || (chunk.first >= num_owned()) != remote) continue;
    const DeviceEdgeChunk edges = edges_.senders(chunk.cut, place + chunk.first, chunk.count);
    convolution.prepare(exec_, edges, edges_.distance(), edges_.pair(), edges_.harmonics(), true,
                        network_input(chunk, step, true), scratch_);
    convolution.gather_senders(exec_, edges, rows_of(chunk, layer.input, false), out_adj,
                               {adjoint, neighborhood_->num_rows, chunk.first}, scratch_);
  }
}

template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::clear_rows(const FeatureLayout &layout, R *data, int64_t first, int64_t last) {
  if (last - first == neighborhood_->num_rows) {    // the groups follow one another
    device_zero(exec_, data, (last - first) * layout.row_size());
    return;
  }
  for (int g = 0; g < layout.num_groups(); g++) {
    const int64_t width = layout.group(g).width();
    device_zero(exec_, data + neighborhood_->num_rows * layout.group(g).offset + first * width, (last - first) * width);
  }
}

template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::backward_stage(int s, GhostExchange &exchange) {
  const Stage &stage = plan_.stages[s];
  const int input = stage.exchanged_input, last = neighborhood_->num_slices - 1;
  const bool is_gathered = input >= 0;
  const FeatureLayout &layout = plan_.features[std::max(0, input)].layout;
  R *adjoint = exchanged_adjoint(s);
  recorder_.run(exec_, [&] {
    if (is_gathered) {
      if (!stage.input_adjoint_is_begun) clear_rows(layout, adjoint, 0, num_owned());
      if (is_exchanging_) clear_rows(layout, returned_.data(), 0, neighborhood_->num_rows);
    }
    for (int slice = 0; slice <= last; slice++) {
      for (const Chunk &chunk : chunks_)
        if (chunk.slice == slice) backward_layers(chunk, stage);
      if (!is_gathered) continue;
      if (is_exchanging_) gather_senders(s, slice, true, returned_.data());
      if (!is_exchanging_ || slice < last) gather_senders(s, slice, false, adjoint);
    }
  });
  if (!is_gathered || !is_exchanging_) return;
  exchange_beside(exchange, input, returned_.data(), true, [&] {
    recorder_.run(exec_, [&] { gather_senders(s, last, false, adjoint); });
    return num_owned() > 0;
  });
  recorder_.run(exec_, [&] {
    for (int g = 0; g < layout.num_groups(); g++) {
      const int64_t at = neighborhood_->num_rows * layout.group(g).offset,
                    size = num_owned() * static_cast<int64_t>(layout.group(g).width());
      device_add(exec_, adjoint + at, returned_.data() + at, size);
    }
  });
}

// ---- a step
// -----------------------------------------------------------------------------------------------------------------

template <class Exec, class T, class G>
EvaluationResult ModelDevice<Exec, T, G>::evaluate(const DeviceRequest &request, GhostExchange &exchange) {
  is_exchanging_ = exchange.active();
  begin_step(request);
  const auto step = [&] {
    recorder_.run(exec_, [&] { launch_edges(request); });
    const int num_stages = static_cast<int>(plan_.stages.size());
    for (int s = 0; s < num_stages; s++) forward_stage(s, exchange);
    if (request.forces)
      for (int s = num_stages - 1; s >= 0; s--) backward_stage(s, exchange);
    recorder_.run(exec_, [&] { launch_results(request); });
  };
  if (is_exchanging_)
    step();    // the host takes part between its parts
  else
    recorder_.run(exec_, step);
  return end_step(request.forces, request.forces && request.virial);
}

// Which instance the step runs on, and whether its launches are recorded.
template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::begin_step(const DeviceRequest &request) {
  exec_ = Exec();
  if (is_exchanging_ || !edges_.is_counted()) {
    exec_.fence("equi: positions ready for the own instance");
    exec_ = own_exec_;
  }
  if (edges_.is_counted()) return recorder_.begin_plain_step();
  int largest_chunk = 0;
  for (const Chunk &chunk : chunks_) largest_chunk = std::max(largest_chunk, chunk.count);
  recorder_.begin_step((request.forces ? 1 : 0) + (request.virial ? 2 : 0) + (request.atom_virial ? 4 : 0),
                       {request.positions, request.direction},
                       {num_owned(), neighborhood_->num_rows, neighborhood_->num_candidates, largest_chunk});
}

// The edges of a step, and what does not go through the layers.
template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::launch_edges(const DeviceRequest &request) {
  edges_.build(exec_, request.positions, request.direction);
  check_memory(memory_estimate(edges_.room()), options_);
  reserve();
  fill_by_species(exec_, num_owned(), neighborhood_->row_species.data(), shift_.data(), energy_.data());
  device_zero(exec_, edges_.adjoint(), edges_.room() * edges_.num_y());
  for (const Repulsion &r : repulsions_)
    r.pair.add(exec_, num_owned(), edges_.begin(), edges_.distance(), edges_.pair(), model_.num_species(),
               r.is_scaled ? scale_.data() : nullptr, energy_.data(), edges_.adjoint(), edges_.num_y());
}

template <class Exec, class T, class G>
void ModelDevice<Exec, T, G>::launch_results(const DeviceRequest &request) {
  StepSummary *summary = summary_.data();
  if (request.forces) {
    edges_.finish(exec_, request.virial, request.atom_virial);
    if (request.virial) edges_.sum_virial(exec_, summary->virial);
    edges_.sum_forces(exec_, summary->forces, summary->tangents);
  }
  sum_.add_up(exec_, num_owned(), PLANES<D>, reinterpret_cast<const double *>(energy_.data()), summary->energy);
  const auto *closest = edges_.closest();
  const int64_t *num_edges = edges_.begin() + num_owned();
  Kokkos::parallel_for(
      "equi:summary", DeviceRange<Exec>(exec_, 0, 1), KOKKOS_LAMBDA(int64_t) {
        summary->distance = closest->val;
        summary->closest = closest->loc;
        summary->num_edges = *num_edges;
      });
}

template <class Exec, class T, class G>
EvaluationResult ModelDevice<Exec, T, G>::end_step(bool with_forces, bool with_virial) {
  recorder_.end_step();
  exec_.fence("equi: results of a step");
  const StepSummary &summary = *summary_.data();
  EvaluationResult result;
  result.num_edges = summary.num_edges;
  result.energy = summary.energy[0];
  if (IS_DUAL<T>) result.energy_tangent = summary.energy[1];
  if (with_virial) {
    for (int k = 0; k < 3; k++) result.virial[k] = summary.virial[k];
    for (int k = 3; k < 6; k++) result.virial[k] = 0.5 * (summary.virial[k] + summary.virial[k + 3]);
  }
  Collision collision;
  if (summary.distance < MIN_DISTANCE) collision = edges_.collision(exec_, summary.closest, summary.distance);
  double sum = result.energy + result.energy_tangent;
  for (int k = 0; with_forces && k < 3; k++) sum += summary.forces[k] + (IS_DUAL<T> ? summary.tangents[k] : 0.0);
  check_evaluation(collision, result, std::isfinite(sum) ? -1 : find_not_finite(with_forces));
  return result;
}

// After a step whose sums are not finite: an atom with an energy or a force that is not, -1 if there is none.
template <class Exec, class T, class G>
int ModelDevice<Exec, T, G>::find_not_finite(bool with_forces) const {
  const int num_rows = neighborhood_->num_rows;
  std::vector<int> row_atom(num_rows);
  copy_to_host(exec_, row_atom.data(), neighborhood_->row_atom.data(), num_rows);
  int atom = -1;
  const auto search = [&](const double *from, int count, int width) {
    std::vector<double> numbers(static_cast<size_t>(count) * width);
    copy_to_host(exec_, numbers.data(), from, static_cast<int64_t>(numbers.size()));
    for (size_t k = 0; atom < 0 && k < numbers.size(); k++)
      if (!std::isfinite(numbers[k])) atom = row_atom[k / width];
  };
  search(reinterpret_cast<const double *>(energy_.data()), num_owned(), PLANES<D>);
  if (with_forces) search(edges_.row_forces(), num_rows, 3);
  if (with_forces && IS_DUAL<T>) search(edges_.row_tangents(), num_rows, 3);
  return atom;
}

template <class Exec, class T, class G>
DeviceResults ModelDevice<Exec, T, G>::results() const {
  double *energy = nullptr;
  if constexpr (!IS_DUAL<T>) energy = energy_.data();
  return {neighborhood_->row_atom.data(), edges_.row_forces(), edges_.row_tangents(), edges_.row_virial(), energy};
}

template <class Exec, class T, class G>
EvaluationResult ModelDevice<Exec, T, G>::evaluate(const EvaluationRequest &request, GhostExchange &exchange) {
  const int64_t size = 3 * static_cast<int64_t>(neighborhood_->num_atoms);
  copy_to_device(Exec(), positions_.data(), reinterpret_cast<const double *>(request.positions), size);
  DeviceRequest on_device{positions_.data(), nullptr, request.forces || request.force_tangents, request.virial,
                          request.atom_virial != nullptr};
  if (IS_DUAL<T> && request.direction) {
    double *direction = direction_.reserve(size);
    copy_to_device(Exec(), direction, reinterpret_cast<const double *>(request.direction), size);
    on_device.direction = direction;
  }
  const EvaluationResult result = evaluate(on_device, exchange);

  const int num_rows = neighborhood_->num_rows;
  host_rows_.resize(num_rows);
  copy_to_host(exec_, host_rows_.data(), neighborhood_->row_atom.data(), num_rows);
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
  if (IS_DUAL<T> && request.force_tangents) add(edges_.row_tangents(), num_rows, 3, 3, *request.force_tangents);
  if (request.forces && request.atom_virial) add(edges_.row_virial(), num_rows, 9, 9, *request.atom_virial);
  if (request.atom_energy)
    add(reinterpret_cast<const double *>(energy_.data()), num_owned(), PLANES<D>, 1, request.atom_energy);
  return result;
}

template <class Exec, class T, class G>
std::size_t ModelDevice<Exec, T, G>::memory_bytes() const {
  std::size_t bytes = edges_.bytes() + stage_scratch_.bytes() + chunk_features_.bytes() +
                      exchanged_adjoint_[0].bytes() + exchanged_adjoint_[1].bytes() + energy_.bytes() + scale_.bytes() +
                      scratch_.bytes() + species_order_.bytes() + (neighborhood_ ? neighborhood_->bytes() : 0) +
                      returned_.bytes() + shift_.bytes() + sum_.bytes() + positions_.bytes() + direction_.bytes() +
                      staging_.capacity() * sizeof(R);
  for (const auto &f : feature_) bytes += f.bytes();
  for (const auto &f : fixed_result_) bytes += f.bytes();
  for (const Op &op : ops_) {
    if (const auto *l = std::get_if<std::unique_ptr<DeviceLinear<Exec, R>>>(&op)) bytes += (*l)->bytes();
    if (const auto *c = std::get_if<std::unique_ptr<DeviceConvolution<Exec, T>>>(&op)) bytes += (*c)->bytes();
    if (const auto *r = std::get_if<std::unique_ptr<ReadoutOp>>(&op))
      bytes += (*r)->adjoint.bytes() + (*r)->readout.bytes();
    if (const auto *n = std::get_if<std::unique_ptr<NormalizationOp>>(&op))
      bytes += (*n)->norm.bytes() + (*n)->density.bytes();
    if (const auto *s = std::get_if<std::unique_ptr<DeviceContraction<Exec, T>>>(&op)) bytes += (*s)->bytes();
  }
  return bytes;
}

template <class Exec, class T, class G>
std::size_t ModelDevice<Exec, T, G>::memory_estimate(int64_t num_edges) const {
  std::size_t bytes = memory_bytes() + edges_.growth(*neighborhood_, slice_size_, num_edges) +
                      neighborhood_->growth(slice_size_) + species_order_.growth(num_owned()),
              scratch = 0;
  for_row_buffers(*this, [&](const auto &buffer, int64_t n) { bytes += buffer.growth(n); });
  const int64_t owned = std::max(1, num_owned()),
                edges_of_chunk = num_edges * std::min<int64_t>(owned, chunk_size_) / owned;
  for (const Op &op : ops_)
    if (const auto *c = std::get_if<std::unique_ptr<DeviceConvolution<Exec, T>>>(&op))
      scratch = std::max(scratch, (*c)->scratch_growth(scratch_, edges_of_chunk));
  return bytes + scratch;
}

using DeviceExec = Kokkos::DefaultExecutionSpace;
template class ModelDevice<DeviceExec, float, float>;
template class ModelDevice<DeviceExec, float, double>;
template class ModelDevice<DeviceExec, double, double>;
template class ModelDevice<DeviceExec, Dual<float>, Dual<double>>;
template class ModelDevice<DeviceExec, Dual<double>, Dual<double>>;

std::unique_ptr<Evaluator> make_device_evaluator(const Model &model, const EvaluatorOptions &options) {
  start_kokkos(0, 0);
  if (options.directional) {
    if (options.precision == Precision::double_)
      return std::make_unique<ModelDevice<DeviceExec, Dual<double>, Dual<double>>>(model, options);
    EvaluatorOptions mixed = options;    // also where single is asked for
    mixed.precision = Precision::mixed;
    return std::make_unique<ModelDevice<DeviceExec, Dual<float>, Dual<double>>>(model, mixed);
  }
  switch (options.precision) {
    case Precision::single:
      return std::make_unique<ModelDevice<DeviceExec, float, float>>(model, options);
    case Precision::mixed:
      return std::make_unique<ModelDevice<DeviceExec, float, double>>(model, options);
    case Precision::double_:
      break;
  }
  return std::make_unique<ModelDevice<DeviceExec, double, double>>(model, options);
}

}    // namespace equi
