// SPDX-License-Identifier: MIT
#include "kokkos/evaluation/model_kokkos.h"

#include "kokkos/host_kernels/kernel_cache.h"
#include "kokkos/host_kernels/kernel_library.h"
#include "kokkos/runtime/dense.h"

#include "kokkos/runtime/host_exec.h"
#include "src/evaluation/native_evaluators.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <utility>

namespace equi {

namespace {

// A tile's scratch should stay in a core's second-level cache, but the dense products want a few dozen rows.
constexpr int64_t TILE_BYTES = 800000;
constexpr int MIN_TILE = 16, MAX_TILE = 64;
// `deterministic`: tiles must not depend on the number of threads.
constexpr int DETERMINISTIC_TILE = 32;
// Edges whose weights a network makes at a time: enough rows for the dense products, and their scratch, some tens of kB
// per edge, stays small.
constexpr int NETWORK_EDGES = 256;
constexpr int NETWORK_SENDERS = 4;    // in a gather, for a similar number

}    // namespace

template <class T, class G>
ModelKokkos<T, G>::ModelKokkos(const Model &model, const EvaluatorOptions &options, InstructionSet set)
    : model_(model),
      options_(options),
      set_(set),
      kernels_(&host_kernels<T>(set)),
      plan_(make_evaluation_plan(model, options.deterministic, IS_DUAL<T>, IS_DUAL<T> ? options.kept_directions : 0)),
      edges_(model.lmax_edge, model.cutoff, model.pair_cutoff) {
  start_dense();
  scale_shift_.scale.assign(model.num_species(), 1.0);
  scale_shift_.shift.assign(model.num_species(), 0.0);
  auto layout = [&](int f) -> const FeatureLayout & { return plan_.features[f].layout; };
  bool is_scaled = true;
  for (const Layer &layer : model_.layers) {
    Op op;
    if (const auto *l = std::get_if<Linear>(&layer))
      op = LinearOp<R>(*l, layout(l->input), layout(l->output), model.num_species());
    else if (const auto *c = std::get_if<Convolution>(&layer)) {
      auto convolution =
          std::make_unique<ConvolutionOp<T>>(*c, layout(c->input), layout(c->output), model.num_species(), options);
      convolution->product().select_kernels(set);
      op = std::move(convolution);
    } else if (const auto *g = std::get_if<Gate>(&layer))
      op = GateOp<T>(*g, layout(g->input), layout(g->output));
    else if (const auto *d = std::get_if<DensityNormalization>(&layer))
      op = std::unique_ptr<NormalizationOp>(
          new NormalizationOp{DensityOp<T>(*d, layout(d->input), model.num_species(), options), {}});
    else if (const auto *s = std::get_if<SymmetricContraction>(&layer)) {
      auto contraction =
          std::make_unique<ContractionOp<T>>(*s, layout(s->input), layout(s->output), model.num_species());
      contraction->select_kernel([set](const ContractionSchedule &s) { return find_contraction_kernel<T>(set, s); });
      op = std::move(contraction);
    } else if (const auto *p = std::get_if<PairRepulsion>(&layer))
      repulsions_.push_back({*p, is_scaled});
    else if (const auto *r = std::get_if<Readout>(&layer)) {
      const FeatureBlock &b = layout(r->input).block(r->block);
      op = ReadoutOp{r->input, b.group, b.channel, b.mul, r->network, std::make_unique<Buffer<R>>()};
      std::get<ReadoutOp>(op).network.simplify();
    } else if (const auto *s = std::get_if<ScaleShift>(&layer)) {
      scale_shift_ = *s;
      is_scaled = false;
    }
    ops_.push_back(std::move(op));
  }
  for (size_t f = 0; f < plan_.features.size(); f++) {
    feature_.push_back(std::make_unique<Buffer<R>>());
    adjoint_.push_back(std::make_unique<Buffer<R>>());
  }
  evaluate_fixed_features();
  const int concurrency = HostExec().concurrency();
  for (int t = 0; t < concurrency; t++) threads_.push_back(std::make_unique<Thread>());
}

// f(thread index) once per thread.
template <class T, class G>
template <class F>
void ModelKokkos<T, G>::on_threads(const char *label, const F &f) {
  const int num_threads = static_cast<int>(threads_.size());
  // Threads enlarge their own buffers, for which there may be no memory.
  parallel_with_faults(
      label, Kokkos::RangePolicy<HostExec, Kokkos::Schedule<Kokkos::Static>>(0, num_threads, Kokkos::ChunkSize(1)), f);
}

template <class T, class G>
void ModelKokkos<T, G>::evaluate_fixed_features() {
  const int num_species = model_.num_species();
  std::vector<int> order(num_species), begin(num_species + 1);
  for (int s = 0; s < num_species; s++) order[s] = begin[s] = s;
  begin[num_species] = num_species;
  const SpeciesOrder species{order.data(), begin.data()};
  const Planes all{0, plan_.planes};
  auto rows = [&](int f) { return FeatureRows<R>{feature_[f]->data(), num_species, 0}; };

  for (size_t f = 0; f < plan_.features.size(); f++)
    if (plan_.features[f].storage == Storage::fixed) {
      const size_t size = static_cast<size_t>(num_species) * plan_.features[f].layout.row_size();
      std::fill_n(feature_[f]->reserve(size), size, R(0));
    }
  for (int k : plan_.fixed_layers) {
    if (const auto *e = std::get_if<SpeciesEmbedding>(&model_.layers[k])) {
      const FeatureGroup &group = plan_.features[e->output].layout.group(0);
      R *x = rows(e->output).group(group);
      for (int s = 0; s < num_species; s++)
        for (int u = 0; u < e->weight.cols; u++)
          x[static_cast<int64_t>(s) * group.width() + u] = static_cast<R>(e->weight(s, u));
    } else if (const auto *l = std::get_if<Linear>(&model_.layers[k])) {
      const auto &op = std::get<LinearOp<R>>(ops_[k]);
      AlignedVector<R> scratch(op.scratch_size(num_species));
      op.forward(num_species, rows(l->input), rows(l->output), species, scratch.data(), all);
    } else if (const auto *g = std::get_if<Gate>(&model_.layers[k])) {
      std::get<GateOp<T>>(ops_[k]).forward(*kernels_, num_species, rows(g->input), rows(g->output));
    }
  }
  fixed_result_.resize(model_.layers.size());
  for (const Stage &stage : plan_.stages)
    for (const Step &step : stage.steps) {
      const auto *l = std::get_if<Linear>(&model_.layers[step.layer]);
      if (!l || !step.fixed_input) continue;
      const auto &op = std::get<LinearOp<R>>(ops_[step.layer]);
      AlignedVector<R> scratch(op.scratch_size(num_species));
      AlignedVector<R> &result = fixed_result_[step.layer];
      result.assign(static_cast<size_t>(num_species) * plan_.features[l->output].layout.row_size(), R(0));
      op.forward(num_species, rows(l->input), FeatureRows<R>{result.data(), num_species, 0}, species, scratch.data(),
                 all);
    }
}

template <class T, class G>
std::string ModelKokkos<T, G>::describe() const {
  char text[200];
  const char *names[] = {"single", "mixed", "double"};
  std::snprintf(text, sizeof text, "  precision %s, %s, %s kernels%s\n", names[static_cast<int>(options_.precision)],
                kokkos_backend().c_str(), kernels_->name, options_.deterministic ? ", deterministic" : "");
  std::string lines = text;
  int layer = 0, generic = 0, generic_contractions = 0;
  std::set<std::string> faults;    // of libraries that the user has
  const auto add_fault = [&](const std::string &key) {
    if (std::string fault = kernel_library_fault(set_, key); !fault.empty()) faults.insert(std::move(fault));
  };
  for (const Op &op : ops_)
    if (const auto *c = std::get_if<std::unique_ptr<ConvolutionOp<T>>>(&op)) {
      std::snprintf(text, sizeof text, "  convolution %d: %d paths, ", layer++, (*c)->plan().num_paths);
      lines += text + (*c)->describe() + "\n";
      generic += (*c)->num_generic_units();
      for (const UnitSchedule &unit : (*c)->product().schedules()) add_fault(unit.shape.key());
    } else if (const auto *n = std::get_if<std::unique_ptr<NormalizationOp>>(&op)) {
      lines += "  density normalisation: " + (*n)->density.radial_set().describe() + "\n";
    } else if (const auto *s = std::get_if<std::unique_ptr<ContractionOp<T>>>(&op)) {
      lines += "  symmetric contraction: " + (*s)->describe() + "\n";
      generic_contractions += (*s)->is_generic();
      add_fault((*s)->schedule().key());
    }
  if (options_.radial_exact) generic = 0;
  if (IS_DUAL<T>) generic_contractions = 0;    // there are no others
  if (generic + generic_contractions > 0 && set_ != InstructionSet::generic) {
    std::snprintf(
        text, sizeof text,
        "  %d input blocks and %d contractions have no generated kernels and take slower ones; 'equi compile' "
        "makes them\n",
        generic, generic_contractions);
    lines += text;
    for (const std::string &fault : faults) lines += "  kernel library " + fault + "\n";
    if (const std::string note = kernel_cache().note; !note.empty()) lines += "  kernel cache: " + note + "\n";
  }
  return lines;
}

// ---- neighbourhood
// ----------------------------------------------------------------------------------------------------------

template <class T, class G>
void ModelKokkos<T, G>::set_neighborhood(const Neighborhood &n) {
  neighborhood_ = &n;
  values_are_kept_ = false;
  edges_.set_neighborhood(n);
  receiver_species_.assign(n.row_species.begin(), n.row_species.begin() + n.num_receivers);
  divide_tiles();
  if (!options_.deterministic) build_slabs();
}

// Tiles of similar size, and for each thread a run of them with about the same number of candidates.
template <class T, class G>
void ModelKokkos<T, G>::divide_tiles() {
  const Neighborhood &n = *neighborhood_;
  const int num_threads = static_cast<int>(threads_.size());
  int64_t row_size = 1;
  for (const Stage &s : plan_.stages) row_size = std::max(row_size, s.tile_row_size);
  int tile = static_cast<int>(std::clamp<int64_t>(TILE_BYTES / (row_size * sizeof(R)), MIN_TILE, MAX_TILE));
  if (options_.deterministic)
    tile = DETERMINISTIC_TILE;
  else {
    const int per_thread = (n.num_receivers + num_threads - 1) / num_threads;
    const int tiles = std::max(1, (per_thread + tile - 1) / tile);
    tile = std::max(1, (per_thread + tiles - 1) / tiles);
  }
  tiles_.clear();
  for (int first = 0; first < n.num_receivers; first += tile)
    tiles_.push_back({first, std::min(tile, n.num_receivers - first)});

  // An atom costs something without neighbours too; the constant is the work of its linear layers in units of an edge.
  constexpr double ATOM_COST = 8.0;
  auto cost = [&](const Tile &t) {
    return static_cast<double>(n.first[t.first + t.count] - n.first[t.first]) + ATOM_COST * t.count;
  };
  double total = 0.0, done = 0.0;
  for (const Tile &t : tiles_) total += cost(t);
  int next = 0;
  const int num_tiles = static_cast<int>(tiles_.size());
  for (int t = 0; t < num_threads; t++) {
    threads_[t]->first_tile = next;
    const double target = total * (t + 1) / num_threads;
    while (next < num_tiles && (t == num_threads - 1 || done + 0.5 * cost(tiles_[next]) < target))
      done += cost(tiles_[next++]);
    threads_[t]->last_tile = next;
  }
}

template <class T, class G>
void ModelKokkos<T, G>::build_slabs() {
  const Neighborhood &n = *neighborhood_;
  candidate_slab_row_.resize(n.first[n.num_receivers]);
  on_threads("equi:slab_rows", [&](int t) {
    Thread &thread = *threads_[t];
    thread.slab_rows.clear();
    std::vector<int> local(n.num_rows, -1);
    for (int k = thread.first_tile; k < thread.last_tile; k++)
      for (int64_t c = n.first[tiles_[k].first]; c < n.first[tiles_[k].first + tiles_[k].count]; c++) {
        int &l = local[n.sender_row[c]];
        if (l < 0) {
          l = static_cast<int>(thread.slab_rows.size());
          thread.slab_rows.push_back(n.sender_row[c]);
        }
        candidate_slab_row_[c] = l;
      }
  });
  slab_begin_.assign(n.num_rows + 1, 0);
  for (const auto &thread : threads_)
    for (int row : thread->slab_rows) slab_begin_[row + 1]++;
  for (int r = 0; r < n.num_rows; r++) slab_begin_[r + 1] += slab_begin_[r];
  slab_part_.resize(slab_begin_[n.num_rows]);
  std::vector<int64_t> next(slab_begin_.begin(), slab_begin_.end() - 1);
  for (size_t t = 0; t < threads_.size(); t++)
    for (size_t l = 0; l < threads_[t]->slab_rows.size(); l++)
      slab_part_[next[threads_[t]->slab_rows[l]]++] = {static_cast<int>(t), static_cast<int>(l)};
}

// ---- memory
// -----------------------------------------------------------------------------------------------------------------

template <class T, class G>
template <class Self, class F>
void ModelKokkos<T, G>::for_row_buffers(Self &self, const F &f) {
  const int64_t owned = self.neighborhood_->num_receivers, rows = self.neighborhood_->num_rows;
  const EvaluationPlan &plan = self.plan_;
  for (size_t k = 0; k < plan.features.size(); k++) {
    const FeaturePlan &feature = plan.features[k];
    if (feature.storage == Storage::rows) f(*self.feature_[k], rows * feature.layout.row_size());
    if (feature.storage == Storage::owned) f(*self.feature_[k], owned * feature.layout.row_size());
    if (plan.keeps_values && feature.adjoint_storage != Storage::tile)
      f(*self.adjoint_[k],
        (feature.adjoint_storage == Storage::rows ? rows : owned) * static_cast<int64_t>(feature.layout.row_size()));
  }
  int64_t stage_row_size = 0;
  bool exchanged[2] = {false, false};
  for (size_t s = 0; s < plan.stages.size(); s++) {
    stage_row_size = std::max(stage_row_size, plan.stages[s].stage_row_size);
    if (plan.stages[s].exchanged_input >= 0 && !plan.keeps_values) exchanged[s % 2] = true;
  }
  f(self.stage_scratch_, owned * stage_row_size);
  for (int k = 0; k < 2; k++)
    if (exchanged[k]) f(self.exchanged_adjoint_[k], rows * plan.max_exchanged_row_size);
  f(self.energy_, owned);
  for (auto &op : self.ops_) {
    if (auto *r = std::get_if<ReadoutOp>(&op)) f(*r->adjoint, owned * plan.planes * r->mul);
    if (auto *n = std::get_if<std::unique_ptr<NormalizationOp>>(&op))
      f((*n)->norm, owned * std::max(1, plan.planes - 1));
  }
}

template <class T, class G>
void ModelKokkos<T, G>::reserve() {
  for_row_buffers(*this, [](auto &buffer, int64_t n) { buffer.reserve(n); });
}

template <class T, class G>
void ModelKokkos<T, G>::find_slab_rows() {
  const Neighborhood &n = *neighborhood_;
  int *slab_row = edge_slab_row_.reserve(edges_.size());
  Kokkos::parallel_for("equi:edge_slab", Kokkos::RangePolicy<HostExec>(0, n.num_receivers), [&](int i) {
    for (int64_t c = n.first[i]; c < n.first[i + 1]; c++)
      if (edges_.edge_of_candidate(c) >= 0) slab_row[edges_.edge_of_candidate(c)] = candidate_slab_row_[c];
  });
}

template <class T, class G>
const FeaturePieces<Real<T>> &ModelKokkos<T, G>::pieces(int feature, R *data) {
  pieces_.clear();
  const FeatureLayout &layout = plan_.features[feature].layout;
  for (int g = 0; g < layout.num_groups(); g++)
    pieces_.push_back(
        {data + static_cast<int64_t>(neighborhood_->num_rows) * layout.group(g).offset, layout.group(g).width()});
  return pieces_;
}

template <class T, class G>
FeatureRows<Real<T>> ModelKokkos<T, G>::rows_of(Thread &thread, const Tile &tile, int feature, bool adjoint) {
  const FeaturePlan &plan = plan_.features[feature];
  if (adjoint && plan_.keeps_values) {
    if (plan.adjoint_storage == Storage::tile)
      return {thread.features.data() + tile.count * plan.adjoint_offset, tile.count, 0};
    return {adjoint_[feature]->data(), plan.adjoint_storage == Storage::rows ? neighborhood_->num_rows : num_owned(),
            tile.first};
  }
  switch (plan.storage) {
    case Storage::rows:
      return {adjoint ? exchanged_adjoint(plan.consumer) : feature_[feature]->data(), neighborhood_->num_rows,
              tile.first};
    case Storage::owned:    // the adjoint takes the place of the value
      return {feature_[feature]->data(), num_owned(), tile.first};
    case Storage::stage:
      return {stage_scratch_.data() + num_owned() * plan.offset, num_owned(), tile.first};
    case Storage::tile:
      return {thread.features.data() + tile.count * plan.offset, tile.count, 0};
    case Storage::fixed:
      break;
  }
  return {feature_[feature]->data(), model_.num_species(), 0};
}

template <class T, class G>
SpeciesOrder ModelKokkos<T, G>::sort_by_species(Thread &thread, const Tile &tile) {
  const int num_species = model_.num_species();
  int *begin = thread.order.reserve(num_species + 2 + tile.count), *order = begin + num_species + 2;
  std::fill_n(begin, num_species + 2, 0);
  for (int a = 0; a < tile.count; a++) begin[receiver_species_[tile.first + a] + 2]++;
  for (int s = 0; s < num_species; s++) begin[s + 2] += begin[s + 1];
  for (int a = 0; a < tile.count; a++) order[begin[receiver_species_[tile.first + a] + 1]++] = a;
  return {order, begin};
}

// ---- forward
// ----------------------------------------------------------------------------------------------------------------

template <class T, class G>
const int *ModelKokkos<T, G>::tile_functions(Thread &thread, const RadialSet &set, const Tile &tile) {
  if (set.one_for_all()) return nullptr;
  const int64_t *begin = edges_.begin() + tile.first;
  int *function = thread.function.reserve(begin[tile.count] - begin[0]);
  for (int a = 0; a < tile.count; a++)
    for (int64_t e = begin[a]; e < begin[a + 1]; e++)
      function[e - begin[0]] = set.of_pair(receiver_species_[tile.first + a], edges_.sender_species()[e]);
  return function;
}

template <class T, class G>
DensityEdges<G> ModelKokkos<T, G>::density_edges(Thread &thread, const RadialSet &set, const Tile &tile,
                                                 int direction) {
  const int64_t *begin = edges_.begin() + tile.first;
  return {begin, edges_.distance(direction) + begin[0], tile_functions(thread, set, tile)};
}

template <class T, class G>
SpeciesOrder ModelKokkos<T, G>::contraction_order(Thread &thread, const ContractionOp<T> &op, const Tile &tile) {
  if (op.per_species()) return sort_by_species(thread, tile);
  int *begin = thread.order.reserve(2 + tile.count), *order = begin + 2;
  begin[0] = 0;
  begin[1] = tile.count;
  for (int a = 0; a < tile.count; a++) order[a] = a;
  return {order, begin};
}

// Where tangents alone are computed: which rows of the stage's input have any.
template <class T, class G>
void ModelKokkos<T, G>::find_moving_senders(const Stage &stage) {
  if (!tangents_alone() || stage.exchanged_input < 0) return;
  const FeatureLayout &layout = plan_.features[stage.exchanged_input].layout;
  const FeatureRows<R> x{feature_[stage.exchanged_input]->data(), neighborhood_->num_rows, 0};
  row_moves_.resize(neighborhood_->num_rows);
  Kokkos::parallel_for("equi:moving", Kokkos::RangePolicy<HostExec>(0, neighborhood_->num_rows), [&](int row) {
    bool moves = false;
    for (int g = 0; g < layout.num_groups() && !moves; g++) {
      const FeatureGroup &group = layout.group(g);
      const R *numbers = x.group(group) + static_cast<int64_t>(row) * group.width();
      group.for_numbers(planes_, [&](int first, int count) {
        moves = moves || std::any_of(numbers + first, numbers + first + count, [](R t) { return t != R(0); });
      });
    }
    row_moves_[row] = moves;
  });
}

// f(run) for the runs of a tile's receivers whose weights are made together: the tile itself unless a network makes
// them.
template <class T, class G>
template <class F>
void ModelKokkos<T, G>::for_runs(const ConvolutionOp<T> &op, const Tile &tile, const F &f) {
  if (!op.network()) {
    f(tile);
    return;
  }
  const int64_t *begin = edges_.begin();
  const int end = tile.first + tile.count;
  for (int first = tile.first; first < end;) {
    int last = first + 1;
    while (last < end && begin[last + 1] - begin[first] <= NETWORK_EDGES) last++;
    f(Tile{first, last - first});
    first = last;
  }
}

// What the network of a convolution reads of the edges of a run.
template <class T, class G>
NetworkEdges<T, G> ModelKokkos<T, G>::network_edges(Thread &thread, const Step &step, const Tile &run) {
  const int64_t *begin = edges_.begin() + run.first;
  const int64_t count = begin[run.count] - begin[0];
  int *receiver = thread.receiver_row.reserve(2 * count), *species = receiver + count;
  for (int a = 0; a < run.count; a++)
    for (int64_t e = begin[a]; e < begin[a + 1]; e++) {
      receiver[e - begin[0]] = run.first + a;
      species[e - begin[0]] = receiver_species_[run.first + a];
    }
  const int *sender_species = edges_.sender_species() + begin[0];
  const auto &layer = std::get<Convolution>(model_.layers[step.layer]);
  FeatureRows<R> x = rows_of(thread, run, layer.input, false);
  x.first = 0;
  return {count,
          edges_.distance() + begin[0],
          species,
          sender_species,
          step.fixed_input ? species : receiver,
          step.fixed_input ? sender_species : edges_.sender_row() + begin[0],
          x};
}

// The weights of the edges that a network makes, each a bin of its own.
template <class T, class G>
RadialRows<Real<T>> ModelKokkos<T, G>::network_weights(Thread &thread, const ConvolutionOp<T> &op,
                                                       const NetworkEdges<T, G> &of, int *table_row, T *fraction,
                                                       R *bins_per_length) {
  R *weights = thread.weights.reserve(op.network()->weights_size(of.count));
  op.network()->forward(*kernels_, of, thread.radial.reserve(op.network()->scratch_size(of.count)), weights);
  for (int64_t e = 0; e < of.count; e++) {
    table_row[e] = static_cast<int>(e);
    fraction[e] = T(1);
    bins_per_length[e] = 0;    // the network gives the derivative by the distance
  }
  return {weights, of.count};
}

// The edges of a run with their radial weights. Everything in it lives in the thread's scratch or in edges_.
template <class T, class G>
ConvEdges<T> ModelKokkos<T, G>::run_edges(Thread &thread, const Step &step, const Tile &run, int direction) {
  const ConvolutionOp<T> &op = *std::get<std::unique_ptr<ConvolutionOp<T>>>(ops_[step.layer]);
  const int64_t *begin = edges_.begin() + run.first;
  const int64_t count = begin[run.count] - begin[0];
  int *table_row = thread.table_row.reserve(count);
  T *fraction = thread.fraction.reserve(count);
  R *bins_per_length = thread.bins_per_length.reserve(count);
  const RadialRows<R> radial =
      op.network() ? network_weights(thread, op, network_edges(thread, step, run), table_row, fraction, bins_per_length)
                   : op.radial(edges_.distance(direction) + begin[0], tile_functions(thread, op.radial_set(), run),
                               count, 0, count, thread.radial.reserve(count * op.scratch_per_edge()), table_row,
                               fraction, bins_per_length);
  ConvEdges<T> edges =
      conv_edges(thread, op, run.count, begin, step.fixed_input ? edges_.sender_species() : edges_.sender_row(),
                 edges_.harmonics(direction), radial);
  edges.direction = direction;
  return edges;
}

// Of the edges of a tile, those that do not move, which come first: for the tangents in all directions.
template <class T, class G>
ConvEdges<T> ModelKokkos<T, G>::rigid_edges(Thread &thread, const Tile &tile, const ConvEdges<T> &edges) {
  int64_t *end = thread.gather_begin.reserve(tile.count);
  for (int a = 0; a < tile.count; a++) end[a] = edges.edge_begin[a] + edges_.num_rigid(tile.first + a);
  ConvEdges<T> rigid = edges;
  rigid.rigid_directions = num_directions();
  rigid.edge_end = end;
  return rigid;
}

// Of these, those whose senders have tangents: what the forward pass has tangents from.
template <class T, class G>
ConvEdges<T> ModelKokkos<T, G>::rigid_edges_of_moving_senders(Thread &thread, const Step &step, const Tile &tile,
                                                              const ConvEdges<T> &edges) {
  const int64_t first = edges.edge_begin[0], count = edges.edge_begin[tile.count] - first;
  const int num_y = edges_.num_y();
  int64_t *begin = thread.gather_begin.reserve(tile.count + 1);
  int *row = thread.receiver_row.reserve(count), *table_row = thread.moving_table_row.reserve(count);
  T *y = thread.gather_y.reserve(count * num_y), *fraction = thread.moving_fraction.reserve(count);
  int64_t n = 0;
  begin[0] = 0;
  for (int a = 0; a < tile.count; a++) {
    const int64_t num_rigid = step.fixed_input ? 0 : edges_.num_rigid(tile.first + a);
    for (int64_t e = edges.edge_begin[a]; e < edges.edge_begin[a] + num_rigid; e++) {
      if (!row_moves_[edges.other_row[e]]) continue;
      row[n] = edges.other_row[e];
      table_row[n] = edges.table_row[e - first];
      fraction[n] = edges.fraction[e - first];
      std::copy_n(edges.y + e * num_y, num_y, y + n * num_y);
      n++;
    }
    begin[a + 1] = n;
  }
  ConvEdges<T> moving = edges;
  moving.rigid_directions = num_directions();
  moving.edge_begin = begin;
  moving.other_row = row;
  moving.y = y;
  moving.table_row = table_row;
  moving.fraction = fraction;
  return moving;
}

// f(receiver's number in the tile, edges, number of edges of the tile before them) for the edges that move of each
// receiver that has any, in each direction. Bins and weights are those of `edges`, whatever the direction.
template <class T, class G>
template <class F>
void ModelKokkos<T, G>::for_moving_edges(Thread &thread, const Tile &tile, const ConvEdges<T> &edges, const F &f) {
  for (int a = 0; a < tile.count; a++) {
    const int64_t bounds[2] = {edges.edge_begin[a] + edges_.num_rigid(tile.first + a), edges.edge_begin[a + 1]};
    const int64_t before = bounds[0] - edges.edge_begin[0], count = bounds[1] - bounds[0];
    if (count == 0) continue;
    T *fraction = thread.moving_fraction.reserve(count);
    ConvEdges<T> moving = edges;
    moving.num_atoms = 1;
    moving.edge_begin = bounds;
    moving.table_row += before;
    moving.fraction = fraction;
    moving.bins_per_length += before;
    for (int d = 0; d < num_directions(); d++) {
      for (int64_t e = 0; e < count; e++)
        fraction[e] =
            make_number<T>(value_of(edges.fraction[before + e]),
                           static_cast<R>(tangent_of(edges_.distance(d)[bounds[0] + e])) * moving.bins_per_length[e]);
      moving.y = edges_.harmonics(d);
      moving.direction = d;
      f(a, moving, before);
    }
  }
}

// Edges whose places in the rows of `radial` are the thread's.
template <class T, class G>
ConvEdges<T> ModelKokkos<T, G>::conv_edges(Thread &thread, const ConvolutionOp<T> &op, int count, const int64_t *begin,
                                           const int *other_row, const T *harmonics, const RadialRows<R> &radial) {
  R *weights = op.network() ? thread.weights.data() : nullptr;
  const int64_t plane = radial.rows * op.plan().weights_row;
  return {count,
          begin,
          other_row,
          harmonics,
          radial.table,
          radial.rows,
          thread.table_row.data(),
          thread.fraction.data(),
          thread.bins_per_length.data(),
          op.rows_per_bin(),
          make_pointer<const T>(weights, plane),
          make_pointer<T>(weights, plane)};
}

// What the kernels need for these edges.
template <class T, class G>
char *ModelKokkos<T, G>::kernel_scratch(Thread &thread, const ConvolutionOp<T> &op, const ConvEdges<T> &edges) {
  return thread.kernel.reserve(kernels_->scratch_bytes(op.plan(), edges));
}

// A convolution where the tangents alone are wanted.
template <class T, class G>
void ModelKokkos<T, G>::forward_tangents(Thread &thread, const Step &step, const Tile &tile, FeatureRows<R> x,
                                         FeatureRows<R> y) {
  const ConvolutionOp<T> &op = *std::get<std::unique_ptr<ConvolutionOp<T>>>(ops_[step.layer]);
  const FeatureLayout &layout = plan_.features[std::get<Convolution>(model_.layers[step.layer]).output].layout;
  const ConvEdges<T> edges = run_edges(thread, step, tile),
                     rigid = rigid_edges_of_moving_senders(thread, step, tile, edges);
  if (rigid.edge_begin[tile.count] == 0)
    set_to_zero(y, layout, tile.count, planes_);
  else
    kernels_->forward(op.plan(), rigid, x.data, x.rows, y.data, y.rows, y.first, kernel_scratch(thread, op, rigid));
  // Of a part of the edges the value is none of the sum's.
  const FeatureRows<R> part{thread.row.reserve(layout.row_size()), 1, 0};
  for_moving_edges(thread, tile, edges, [&](int a, const ConvEdges<T> &moving, int64_t) {
    kernels_->forward(op.plan(), moving, x.data, x.rows, part.data, 1, 0, kernel_scratch(thread, op, moving));
    const FeatureRows<R> sum{y.data, y.rows, y.first + a};
    for (int g = 0; g < layout.num_groups(); g++) {
      const R *from = part.group(layout.group(g));
      R *to = sum.group(layout.group(g));
      layout.group(g).for_numbers(plane_of(moving.direction), [&](int begin, int count) {
        for (int k = begin; k < begin + count; k++) to[k] += from[k];
      });
    }
  });
}

template <class T, class G>
void ModelKokkos<T, G>::forward_stage(Thread &thread, const Stage &stage) {
  for (int k = thread.first_tile; k < thread.last_tile; k++) {
    const Tile &tile = tiles_[k];
    thread.features.reserve(tile.count * stage.tile_row_size);
    for (const Step &step : stage.steps) {
      const Layer &layer = model_.layers[step.layer];
      Op &op = ops_[step.layer];
      if (const auto *l = std::get_if<Linear>(&layer)) {
        const auto &linear = std::get<LinearOp<R>>(op);
        const FeatureRows<R> y = rows_of(thread, tile, l->output, false);
        if (!step.fixed_input) {
          const SpeciesOrder species = linear.per_species() ? sort_by_species(thread, tile) : SpeciesOrder{};
          linear.forward(tile.count, rows_of(thread, tile, l->input, false), y, species,
                         thread.linear.reserve(linear.scratch_size(tile.count)), planes_);
          continue;
        }
        const FeatureLayout &layout = plan_.features[l->output].layout;
        if (tangents_alone()) {
          if (!l->accumulate) set_to_zero(y, layout, tile.count, planes_);
          continue;
        }
        const FeatureRows<const R> from{fixed_result_[step.layer].data(), model_.num_species(), 0};
        for (int g = 0; g < layout.num_groups(); g++) {
          const int width = layout.group(g).width();
          for (int a = 0; a < tile.count; a++) {
            const R *f = from.group(layout.group(g)) + static_cast<int64_t>(receiver_species_[tile.first + a]) * width;
            R *to = y.group(layout.group(g)) + static_cast<int64_t>(a) * width;
            for (int c = 0; c < width; c++) to[c] = l->accumulate ? to[c] + f[c] : f[c];
          }
        }
      } else if (const auto *c = std::get_if<Convolution>(&layer)) {
        const ConvolutionOp<T> &convolution = *std::get<std::unique_ptr<ConvolutionOp<T>>>(op);
        const FeatureRows<R> y = rows_of(thread, tile, c->output, false);
        const FeatureRows<R> x = rows_of(thread, tile, c->input, false);
        if (tangents_alone() && convolution.has_rigid_kernels()) {
          forward_tangents(thread, step, tile, x, y);
          continue;
        }
        for_runs(convolution, tile, [&](const Tile &run) {
          for (int d = 0; d < num_directions(); d++) {
            const ConvEdges<T> edges = run_edges(thread, step, run, d);
            kernels_->forward(convolution.plan(), edges, x.data, x.rows, y.data, y.rows,
                              y.first + run.first - tile.first, kernel_scratch(thread, convolution, edges));
          }
        });
      } else if (const auto *g = std::get_if<Gate>(&layer)) {
        for (int d = 0; d < num_directions(); d++)
          std::get<GateOp<T>>(op).forward(*kernels_, tile.count, rows_of(thread, tile, g->input, false),
                                          rows_of(thread, tile, g->output, false), d);
      } else if (const auto *d = std::get_if<DensityNormalization>(&layer)) {
        NormalizationOp &n = *std::get<std::unique_ptr<NormalizationOp>>(op);
        for (int k = 0; k < num_directions(); k++)
          n.density.forward(tile.count, rows_of(thread, tile, d->input, false), rows_of(thread, tile, d->output, false),
                            density_edges(thread, n.density.radial_set(), tile, k),
                            n.norm.data() + k * num_owned() + tile.first, k);
      } else if (const auto *s = std::get_if<SymmetricContraction>(&layer)) {
        const ContractionOp<T> &c = *std::get<std::unique_ptr<ContractionOp<T>>>(op);
        for (int d = 0; d < num_directions(); d++)
          c.forward(*kernels_, rows_of(thread, tile, s->input, false), rows_of(thread, tile, s->output, false),
                    contraction_order(thread, c, tile), thread.kernel.reserve(c.scratch_bytes(*kernels_)), d);
      } else if (std::get_if<Readout>(&layer)) {
        ReadoutOp &r = std::get<ReadoutOp>(op);
        const FeatureGroup &group = plan_.features[r.feature].layout.group(r.group);
        const R *x = rows_of(thread, tile, r.feature, false).group(group) + r.channel;
        constexpr int P = PLANES<T>;
        // In float64: this sum is the energy.
        double *in = reinterpret_cast<double *>(
                   thread.kernel.reserve(sizeof(double) * P * (2 * r.mul + r.network.scratch_size()))),
               *gradient = in + P * r.mul;
        for (int a = 0; a < tile.count; a++)
          for (int d = 0; d < num_directions(); d++) {
            const int i = tile.first + a, plane[2] = {0, 1 + d};
            R *adjoint = r.adjoint->data() + static_cast<int64_t>(i) * plan_.planes * r.mul;
            for (int p = 0; p < P; p++)
              for (int u = 0; u < r.mul; u++)
                in[p * r.mul + u] = x[static_cast<int64_t>(a) * group.width() + plane[p] * group.channels + u];
            const double scale = scale_shift_.scale[receiver_species_[i]];
            const D energy = scale * r.network.template value_and_gradient<D>(in, gradient, gradient + P * r.mul);
            if (d == 0) energy_.data()[i] += energy;
            for (int p = 0; p < P; p++)
              for (int u = 0; u < r.mul; u++)
                adjoint[plane[p] * r.mul + u] = static_cast<R>(scale * gradient[p * r.mul + u]);
          }
      }
    }
  }
}

// ---- backward
// ---------------------------------------------------------------------------------------------------------------

template <class T, class G>
void ModelKokkos<T, G>::backward_convolution(Thread &thread, const Step &step, const Tile &tile) {
  const auto &layer = std::get<Convolution>(model_.layers[step.layer]);
  const ConvolutionOp<T> &op = *std::get<std::unique_ptr<ConvolutionOp<T>>>(ops_[step.layer]);
  const FeatureRows<R> x = rows_of(thread, tile, layer.input, false),
                       out_adj = rows_of(thread, tile, layer.output, true);
  const bool scatter = !step.fixed_input && !options_.deterministic;
  const FeatureRows<R> slab{scatter ? thread.slab.data() : nullptr, static_cast<int64_t>(thread.slab_rows.size()), 0};
  FeatureRows<R> own_adj{nullptr, 0, 0};    // of the receivers, whose features a network may read too
  if (writes_receivers(step)) {
    own_adj = rows_of(thread, tile, layer.input, true);
    const FeatureLayout &layout = plan_.features[layer.input].layout;
    if (step.adjoint == Step::Adjoint::overwrite) set_to_zero(own_adj, layout, tile.count, planes_);
    own_adj.first = 0;
  }
  for_runs(op, tile, [&](const Tile &run) {
    const int64_t begin = edges_.begin()[run.first], count = edges_.begin()[run.first + run.count] - begin;
    const int num_y = op.plan().num_y;
    const int64_t size = count * num_y;
    T *y_adj = thread.y_adj.reserve(num_directions() * size);
    const auto backward = [&](const ConvEdges<T> &part, int64_t out_row, T *part_y_adj) {
      kernels_->backward(op.plan(), part, x.data, x.rows, out_adj.data, out_adj.rows, out_row, part_y_adj, slab.data,
                         slab.rows, edge_slab_row_.data(), kernel_scratch(thread, op, part));
    };
    const int64_t out_row = out_adj.first + run.first - tile.first;
    if (tangents_alone() && op.has_rigid_kernels()) {
      const ConvEdges<T> edges = run_edges(thread, step, run);
      ConvEdges<T> rigid = rigid_edges(thread, run, edges);
      rigid.y_adj_distance = size;
      backward(rigid, out_row, y_adj);
      for_moving_edges(thread, run, edges, [&](int a, const ConvEdges<T> &moving, int64_t before) {
        backward(moving, out_row + a, y_adj + moving.direction * size + before * num_y);
      });
    } else {
      for (int d = 0; d < num_directions(); d++) backward(run_edges(thread, step, run, d), out_row, y_adj + d * size);
    }
    if (op.network()) {
      const NetworkEdges<T, G> of = network_edges(thread, step, run);
      op.network()->backward(*kernels_, of, thread.radial.data(), thread.weights.data(),
                             {y_adj, num_y, own_adj, slab, of.receiver_row, edge_slab_row_.data() + begin});
    }
    for (int d = 0; d < num_directions(); d++) {
      G *adjoint = edges_.adjoint(d) + begin * num_y;
      for (int64_t k = 0; k < size; k++) adjoint[k] += static_cast<G>(y_adj[d * size + k]);
    }
  });
}

// With kept values: layers whose backward pass replaces their input by its adjoint, in one direction, find it where its
// adjoint goes.
template <class T, class G>
void ModelKokkos<T, G>::begin_adjoint_in_place(Thread &thread, const Tile &tile, int feature, int direction) {
  if (!plan_.keeps_values) return;
  const FeatureLayout &layout = plan_.features[feature].layout;
  const FeatureRows<R> x = rows_of(thread, tile, feature, false), x_adj = rows_of(thread, tile, feature, true);
  for (int g = 0; g < layout.num_groups(); g++) {
    const FeatureGroup &group = layout.group(g);
    for (int64_t a = 0; a < tile.count; a++)
      for (const Planes planes : {VALUES, plane_of(direction)})
        group.for_numbers(planes, [&](int first, int count) {
          std::copy_n(x.group(group) + a * group.width() + first, count,
                      x_adj.group(group) + a * group.width() + first);
        });
  }
}

// Whether the backward pass of a convolution writes adjoints of its receivers too, not of senders alone.
template <class T, class G>
bool ModelKokkos<T, G>::writes_receivers(const Step &step) const {
  const EdgeNetwork<T> *network = std::get<std::unique_ptr<ConvolutionOp<T>>>(ops_[step.layer])->network();
  return network && network->reads_receiver() && !step.fixed_input && step.adjoint != Step::Adjoint::none;
}

template <class T, class G>
void ModelKokkos<T, G>::backward_stage(Thread &thread, const Stage &stage) {
  if (stage.exchanged_input >= 0 && !options_.deterministic) {
    const size_t size = thread.slab_rows.size() * plan_.features[stage.exchanged_input].layout.row_size();
    std::fill_n(thread.slab.reserve(size), size, R(0));
  }
  for (int k = thread.first_tile; k < thread.last_tile; k++) {
    const Tile &tile = tiles_[k];
    thread.features.reserve(tile.count * stage.tile_row_size);
    for (auto step = stage.steps.rbegin(); step != stage.steps.rend(); ++step) {
      if (step->adjoint == Step::Adjoint::none) continue;
      const bool add = step->adjoint == Step::Adjoint::add;
      const Layer &layer = model_.layers[step->layer];
      const Op &op = ops_[step->layer];
      if (const auto *l = std::get_if<Linear>(&layer)) {
        const auto &linear = std::get<LinearOp<R>>(op);
        const SpeciesOrder species = linear.per_species() ? sort_by_species(thread, tile) : SpeciesOrder{};
        linear.backward(tile.count, rows_of(thread, tile, l->output, true), rows_of(thread, tile, l->input, true), add,
                        species, thread.linear.reserve(linear.scratch_size(tile.count)), planes_);
      } else if (std::get_if<Convolution>(&layer)) {
        backward_convolution(thread, *step, tile);
      } else if (const auto *g = std::get_if<Gate>(&layer)) {
        for (int d = 0; d < num_directions(); d++) {
          begin_adjoint_in_place(thread, tile, g->input, d);
          std::get<GateOp<T>>(op).backward(*kernels_, tile.count, rows_of(thread, tile, g->output, true),
                                           rows_of(thread, tile, g->input, true), d);
        }
      } else if (const auto *d = std::get_if<DensityNormalization>(&layer)) {
        const NormalizationOp &n = *std::get<std::unique_ptr<NormalizationOp>>(op);
        for (int k = 0; k < num_directions(); k++) {
          const DensityEdges<G> edges = density_edges(thread, n.density.radial_set(), tile, k);
          begin_adjoint_in_place(thread, tile, d->input, k);
          n.density.backward(tile.count, rows_of(thread, tile, d->input, true), rows_of(thread, tile, d->output, true),
                             edges, n.norm.data() + k * num_owned() + tile.first,
                             edges_.adjoint(k) + edges.edge_begin[0] * edges_.num_y(), edges_.num_y(), k);
        }
      } else if (const auto *s = std::get_if<SymmetricContraction>(&layer)) {
        const ContractionOp<T> &c = *std::get<std::unique_ptr<ContractionOp<T>>>(op);
        for (int d = 0; d < num_directions(); d++) {
          begin_adjoint_in_place(thread, tile, s->input, d);
          c.backward(*kernels_, rows_of(thread, tile, s->input, true), rows_of(thread, tile, s->output, true),
                     contraction_order(thread, c, tile), thread.kernel.reserve(c.scratch_bytes(*kernels_)), d);
        }
      } else if (std::get_if<Readout>(&layer)) {
        const ReadoutOp &r = std::get<ReadoutOp>(op);
        const FeatureLayout &layout = plan_.features[r.feature].layout;
        const FeatureRows<R> x_adj = rows_of(thread, tile, r.feature, true);
        if (!add) set_to_zero(x_adj, layout, tile.count, planes_);
        R *xa = x_adj.group(layout.group(r.group)) + r.channel;
        for (int a = 0; a < tile.count; a++)
          for (int p = planes_.begin; p < planes_.end; p++)
            for (int u = 0; u < r.mul; u++)
              xa[static_cast<int64_t>(a) * layout.group(r.group).width() + p * layout.group(r.group).channels + u] +=
                  r.adjoint->data()[(static_cast<int64_t>(tile.first + a) * plan_.planes + p) * r.mul + u];
      }
    }
  }
}

// The adjoint of a stage's exchanged input from the slabs of all threads, in the order of threads.
template <class T, class G>
void ModelKokkos<T, G>::add_slabs(int s) {
  const Stage &stage = plan_.stages[s];
  const FeatureLayout &layout = plan_.features[stage.exchanged_input].layout;
  const Step &step = stage.steps.front();
  const bool add_owned = step.adjoint == Step::Adjoint::add || writes_receivers(step);
  const int64_t rows = neighborhood_->num_rows;
  R *adjoint = exchanged_adjoint(s);
  Kokkos::parallel_for("equi:add_slabs", Kokkos::RangePolicy<HostExec>(0, rows), [&](int64_t row) {
    for (int g = 0; g < layout.num_groups(); g++) {
      const FeatureGroup &group = layout.group(g);
      R *to = adjoint + rows * group.offset + row * group.width();
      bool add = add_owned && row < num_owned();
      for (int64_t p = slab_begin_[row]; p < slab_begin_[row + 1]; p++) {
        const Thread &thread = *threads_[slab_part_[p].thread];
        const R *from = thread.slab.data() + static_cast<int64_t>(thread.slab_rows.size()) * group.offset +
                        static_cast<int64_t>(slab_part_[p].slab_row) * group.width();
        group.for_numbers(planes_, [&](int first, int count) {
          for (int c = first; c < first + count; c++) to[c] = add ? to[c] + from[c] : from[c];
        });
        add = true;
      }
      if (!add) group.for_numbers(planes_, [&](int first, int count) { std::fill_n(to + first, count, R(0)); });
    }
  });
}

// The same by a gather over the transposed edges of each row.
template <class T, class G>
void ModelKokkos<T, G>::gather_senders(int s) {
  const Stage &stage = plan_.stages[s];
  const Step &step = stage.steps.front();
  const auto &layer = std::get<Convolution>(model_.layers[step.layer]);
  const ConvolutionOp<T> &op = *std::get<std::unique_ptr<ConvolutionOp<T>>>(ops_[step.layer]);
  const FeatureLayout &layout = plan_.features[stage.exchanged_input].layout;
  const bool add_owned = step.adjoint == Step::Adjoint::add || writes_receivers(step);
  const int num_rows = neighborhood_->num_rows, num_y = op.plan().num_y,
            num_threads = static_cast<int>(threads_.size());
  const int tile = op.network() ? NETWORK_SENDERS : DETERMINISTIC_TILE;
  const int num_blocks = (num_rows + tile - 1) / tile;
  R *adjoint = exchanged_adjoint(s);
  const int64_t *transposed = edges_.transposed_begin();

  on_threads("equi:gather", [&](int t) {
    Thread &thread = *threads_[t];
    for (int block = num_blocks * t / num_threads; block < num_blocks * (t + 1) / num_threads; block++) {
      const int first = block * tile, count = std::min(tile, num_rows - first);
      const int64_t most = transposed[first + count] - transposed[first];
      int64_t *begin = thread.gather_begin.reserve(count + 1);
      int *receiver = thread.receiver_row.reserve(most);
      // The function of each edge or, for a network, the species of its two atoms and the row of the sender.
      const int64_t stride = op.network() ? most : 0;
      int *function = thread.function.reserve(most + 2 * stride);
      int *receiver_species = function, *sender_species = function + stride, *sender_row = function + 2 * stride;
      G *distance = thread.gather_distance.reserve(most);
      T *y = thread.gather_y.reserve(most * num_y);
      int64_t n = 0;
      begin[0] = 0;
      for (int a = 0; a < count; a++) {
        for (int64_t k = transposed[first + a]; k < transposed[first + a + 1]; k++) {
          const int64_t e = edges_.transposed_edge(k);
          if (e < 0) continue;
          receiver[n] = edges_.transposed_receiver(k);
          distance[n] = edges_.distance()[e];
          const int species_i = receiver_species_[receiver[n]], species_j = neighborhood_->row_species[first + a];
          if (op.network()) {
            receiver_species[n] = species_i;
            sender_species[n] = species_j;
            sender_row[n] = first + a;
          } else {
            function[n] = op.radial_set().of_pair(species_i, species_j);
          }
          std::copy_n(edges_.harmonics() + e * num_y, num_y, y + n * num_y);
          n++;
        }
        begin[a + 1] = n;
      }
      int *table_row = thread.table_row.reserve(n);
      T *fraction = thread.fraction.reserve(n);
      R *bins_per_length = thread.bins_per_length.reserve(n);
      const FeatureRows<R> x{feature_[layer.input]->data(), num_rows, 0};
      const NetworkEdges<T, G> of{n, distance, receiver_species, sender_species, receiver, sender_row, x};
      const RadialRows<R> radial =
          op.network() ? network_weights(thread, op, of, table_row, fraction, bins_per_length)
                       : op.radial(distance, function, n, 0, n, thread.radial.reserve(n * op.scratch_per_edge()),
                                   table_row, fraction, bins_per_length);
      const ConvEdges<T> edges = conv_edges(thread, op, count, begin, receiver, y, radial);
      const size_t size = static_cast<size_t>(count) * layout.row_size();
      R *x_adj = thread.slab.reserve(size);
      std::fill_n(x_adj, size, R(0));    // blocks that start no path keep this
      const R *out_adj = rows_of(thread, {0, num_owned()}, layer.output, true).data;
      kernels_->backward_gather(op.plan(), edges, x.data, x.rows, first, out_adj, num_owned(), x_adj, count, 0,
                                kernel_scratch(thread, op, edges));
      if (op.network() && op.network()->reads_sender()) {
        for (int64_t e = 0; e < n; e++) sender_row[e] -= first;    // in x_adj
        op.network()->backward(
            *kernels_, of, thread.radial.data(), thread.weights.data(),
            {nullptr, 0, FeatureRows<R>{nullptr, 0, 0}, FeatureRows<R>{x_adj, count, 0}, nullptr, sender_row});
      }
      for (int g = 0; g < layout.num_groups(); g++) {
        const FeatureGroup &group = layout.group(g);
        for (int a = 0; a < count; a++) {
          const R *from = x_adj + static_cast<int64_t>(count) * group.offset + static_cast<int64_t>(a) * group.width();
          R *to =
              adjoint + static_cast<int64_t>(num_rows) * group.offset + static_cast<int64_t>(first + a) * group.width();
          const bool add = add_owned && first + a < num_owned();
          for (int c = 0; c < group.width(); c++) to[c] = add ? to[c] + from[c] : from[c];
        }
      }
    }
  });
}

// Energies of pairs, and their derivatives by the distances.
template <class T, class G>
void ModelKokkos<T, G>::add_repulsion() {
  for (const Repulsion &r : repulsions_)
    Kokkos::parallel_for("equi:repulsion", Kokkos::RangePolicy<HostExec>(0, num_owned()), [&](int i) {
      const int species = receiver_species_[i];
      const double scale = r.is_scaled ? scale_shift_.scale[species] : 1.0;
      for (int64_t e = edges_.begin()[i]; e < edges_.begin()[i + 1]; e++)
        for (int d = 0; d < num_directions(); d++) {
          double first, second;
          const G distance = edges_.distance(d)[e];
          const double energy = r.pair.energy(species, edges_.sender_species()[e], value_of(distance), &first, &second);
          const double along = tangent_of(distance);
          if (d == 0) energy_.data()[i] += scale * make_number<D>(energy, first * along);
          edges_.adjoint(d)[e * edges_.num_y()] += static_cast<G>(scale * make_number<D>(first, second * along));
        }
    });
}

// ---- a step
// -----------------------------------------------------------------------------------------------------------------

// An atom with a result that is not finite, -1 if there is none: a receiver by its energy, else the first by what the
// request's arrays hold.
template <class T, class G>
int ModelKokkos<T, G>::find_not_finite(const EvaluationRequest &request) const {
  const auto is_finite = [](const double *numbers, int count) {
    return std::all_of(numbers, numbers + count, [](double number) { return std::isfinite(number); });
  };
  for (int i = 0; i < num_owned(); i++) {
    const D e = energy_.data()[i];
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

template <class T, class G>
EvaluationResult ModelKokkos<T, G>::evaluate(const EvaluationRequest &request, GhostExchange &exchange) {
  EvaluationResult result;
  const bool backward = request.forces || request.force_tangents;
  const bool tangents_alone =
      values_are_kept_ && request.same_positions && !request.forces && !request.virial && !request.atom_virial;
  if (request.num_directions > (tangents_alone ? max_directions() : 1))
    throw std::logic_error("more directions than an evaluation takes at a time");
  planes_ = tangents_alone ? Planes{1, 1 + request.num_directions} : Planes{0, PLANES<T>};
  values_are_kept_ = false;
  edges_.build(request);
  result.num_edges = edges_.size();
  check_memory(memory_estimate(edges_.size()), options_);
  if (!tangents_alone) reserve();
  if (!options_.deterministic) find_slab_rows();
  std::fill_n(energy_.data(), num_owned(), D(0.0));
  add_repulsion();

  const int num_stages = static_cast<int>(plan_.stages.size());
  for (int s = 0; s < num_stages; s++) {
    const Stage &stage = plan_.stages[s];
    if (stage.exchanged_input >= 0)
      exchange.forward(pieces(stage.exchanged_input, feature_[stage.exchanged_input]->data()));
    find_moving_senders(stage);
    on_threads("equi:forward", [&](int t) { forward_stage(*threads_[t], stage); });
  }
  for (int i = 0; i < num_owned(); i++) {
    const double e = value_of(energy_.data()[i]) + scale_shift_.shift[receiver_species_[i]];
    result.energy += e;
    result.energy_tangent += tangent_of(energy_.data()[i]);
    if (request.atom_energy) request.atom_energy[neighborhood_->receiver[i]] += e;
  }

  if (backward) {
    for (int s = num_stages - 1; s >= 0; s--) {
      const Stage &stage = plan_.stages[s];
      on_threads("equi:backward", [&](int t) { backward_stage(*threads_[t], stage); });
      if (stage.exchanged_input < 0) continue;
      if (options_.deterministic)
        gather_senders(s);
      else
        add_slabs(s);
      exchange.reverse(pieces(stage.exchanged_input, exchanged_adjoint(s)));
      // What remote rows had is in the sums now, which must not get the kept values another time.
      if (plan_.keeps_values)
        set_to_zero(FeatureRows<R>{exchanged_adjoint(s), neighborhood_->num_rows, num_owned()},
                    plan_.features[stage.exchanged_input].layout, neighborhood_->num_rows - num_owned(),
                    {0, plan_.planes});
    }
    edges_.finish(request, result);
  }

  check_evaluation(edges_.collision(), result, find_not_finite(request));
  values_are_kept_ = plan_.keeps_values && backward;
  return result;
}

template <class T, class G>
std::size_t ModelKokkos<T, G>::memory_bytes() const {
  std::size_t bytes = edges_.bytes() + stage_scratch_.bytes() + exchanged_adjoint_[0].bytes() +
                      exchanged_adjoint_[1].bytes() + energy_.bytes() + edge_slab_row_.bytes() +
                      candidate_slab_row_.size() * sizeof(int) + slab_part_.size() * sizeof(SlabPart) +
                      slab_begin_.size() * sizeof(int64_t) + receiver_species_.size() * sizeof(int);
  for (const auto &f : feature_) bytes += f->bytes();
  for (const auto &f : adjoint_) bytes += f->bytes();
  for (const Op &op : ops_) {
    if (const auto *c = std::get_if<std::unique_ptr<ConvolutionOp<T>>>(&op)) bytes += (*c)->bytes();
    if (const auto *n = std::get_if<std::unique_ptr<NormalizationOp>>(&op)) bytes += (*n)->norm.bytes();
    if (const auto *s = std::get_if<std::unique_ptr<ContractionOp<T>>>(&op)) bytes += (*s)->bytes();
    if (const auto *r = std::get_if<ReadoutOp>(&op)) bytes += r->adjoint->bytes();
  }
  for (const auto &t : threads_)
    bytes += t->slab.bytes() + t->features.bytes() + t->radial.bytes() + t->y_adj.bytes() + t->linear.bytes() +
             t->kernel.bytes() + t->table_row.bytes() + t->fraction.bytes() + t->bins_per_length.bytes() +
             t->gather_y.bytes() + t->gather_distance.bytes() + t->weights.bytes() + t->receiver_row.bytes() +
             t->function.bytes() + t->row.bytes() + t->moving_table_row.bytes() + t->moving_fraction.bytes() +
             t->slab_rows.size() * sizeof(int);
  return bytes;
}

template <class T, class G>
std::size_t ModelKokkos<T, G>::memory_estimate(int64_t num_edges) const {
  std::size_t bytes = memory_bytes() + edges_.growth(num_edges);
  for_row_buffers(*this, [&](const auto &buffer, int64_t n) { bytes += buffer.growth(n); });
  if (options_.deterministic) return bytes;
  bytes += edge_slab_row_.growth(num_edges);
  for (const auto &thread : threads_)
    bytes += thread->slab.growth(thread->slab_rows.size() * plan_.max_exchanged_row_size);
  return bytes;
}

template class ModelKokkos<float, float>;
template class ModelKokkos<float, double>;
template class ModelKokkos<double, double>;
template class ModelKokkos<Dual<float>, Dual<double>>;
template class ModelKokkos<Dual<double>, Dual<double>>;

std::unique_ptr<Evaluator> make_kokkos_evaluator(const Model &model, const EvaluatorOptions &options) {
  start_kokkos(0, 0);
  const InstructionSet set = best_instruction_set();
  if (options.directional) {
    if (options.precision == Precision::double_)
      return std::make_unique<ModelKokkos<Dual<double>, Dual<double>>>(model, options, set);
    EvaluatorOptions mixed = options;    // also where single is asked for
    mixed.precision = Precision::mixed;
    return std::make_unique<ModelKokkos<Dual<float>, Dual<double>>>(model, mixed, set);
  }
  switch (options.precision) {
    case Precision::single:
      return std::make_unique<ModelKokkos<float, float>>(model, options, set);
    case Precision::mixed:
      return std::make_unique<ModelKokkos<float, double>>(model, options, set);
    case Precision::double_:
      break;
  }
  return std::make_unique<ModelKokkos<double, double>>(model, options, set);
}

}    // namespace equi
