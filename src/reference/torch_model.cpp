// SPDX-License-Identifier: MIT
// The reference evaluation with LibTorch: stages on autograd graphs, and the exchanges between them.
#include "src/reference/torch_model.h"

#include "src/reference/torch_layers.h"
#include "src/reference/torch_open_potential.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <sstream>
#include <utility>

namespace equi {

namespace {

using namespace torch_layers;

// Keys among the numbered features: the atoms' energies, and a sum over edges while it is passed to the layer that
// needs it. Both pass through the stages like features.
constexpr int ENERGY = -1, EDGE_SUM = -2;

// The edges of one evaluation.
struct Edges {
  std::vector<int> receiver_atom, sender_atom;    // [E]
  Tensor sender_row;                              // [E] int64
  EdgeRows rows;
  int64_t size() const { return static_cast<int64_t>(receiver_atom.size()); }
  EdgeRows narrow(int64_t first, int64_t num) const {
    return {rows.vec.narrow(0, first, num), rows.receiver_species.narrow(0, first, num),
            rows.sender_species.narrow(0, first, num), rows.receiver.narrow(0, first, num)};
  }
  // The number of edges of a chunk of a sum that begins with edge `first`.
  int64_t chunk(const SumOverEdges &sum, int64_t first) const {
    int64_t last = std::min(first + sum.chunk, size());
    const int64_t *receiver = rows.receiver.data_ptr<int64_t>();
    while (sum.whole_receivers && last < size() && receiver[last] == receiver[last - 1]) ++last;
    return last - first;
  }
};

// Remembers the first error, which is thrown when no other rank waits for this one.
struct Failure {
  std::string what;
  int atom_i = -1, atom_j = -1;
  double distance = 0.0;

  void record(const std::string &text, int i, int j, double r) {
    if (!what.empty()) return;
    what = text;
    atom_i = i;
    atom_j = j;
    distance = r;
  }
  void throw_if_any() const {
    if (!what.empty()) throw EvaluationError(what, atom_i, atom_j, distance);
  }
};

// pair_cutoff: empty, or the cutoffs of pairs of species, which replace `cutoff`.
Edges find_edges(const Neighborhood &n, const double (*positions)[3], double cutoff, const Matrix &pair_cutoff,
                 const NearestNeighbors &nearest, Failure &failure) {
  Edges edges;
  std::vector<int> receiver_row, sender_row, receiver_species, sender_species;
  std::vector<double> vec, square;    // square: for a receiver's candidates, negative for those that are no edges
  for (int i = 0; i < n.num_receivers; ++i) {
    const int atom_i = n.receiver[i], species_i = n.row_species[i];
    const int64_t first = n.first[i], last = n.first[i + 1];
    square.assign(last - first, -1.0);
    const auto vector_to = [&](int64_t c, double d[3]) {
      for (int k = 0; k < 3; ++k) d[k] = positions[n.sender_atom[c]][k] - positions[atom_i][k];
      return d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    };
    double d[3];
    for (int64_t c = first; c < last; ++c) {
      const double rr = vector_to(c, d), r = std::sqrt(rr);
      // NaN counts as an error too, not as an edge beyond the cutoff.
      if (!(r >= MIN_DISTANCE))
        failure.record(std::isfinite(r) ? "two atoms are on top of each other" : "a position is not finite", atom_i,
                       n.sender_atom[c], r);
      const int species_j = n.row_species[n.sender_row[c]];
      if (r < (pair_cutoff.data.empty() ? cutoff : pair_cutoff(species_i, species_j))) square[c - first] = rr;
    }
    drop_far_neighbors(
        nearest, first, last, [&](int64_t c) { return square[c - first]; },
        [&](int64_t c) { square[c - first] = -1.0; });
    for (int64_t c = first; c < last; ++c) {
      if (square[c - first] < 0.0) continue;
      edges.receiver_atom.push_back(atom_i);
      edges.sender_atom.push_back(n.sender_atom[c]);
      receiver_row.push_back(i);
      sender_row.push_back(n.sender_row[c]);
      receiver_species.push_back(species_i);
      sender_species.push_back(n.row_species[n.sender_row[c]]);
      vector_to(c, d);
      vec.insert(vec.end(), d, d + 3);
    }
  }
  edges.sender_row = to_tensor(sender_row);
  edges.rows = {to_tensor(vec.data(), {edges.size(), 3}, at::kDouble), to_tensor(receiver_species),
                to_tensor(sender_species), to_tensor(receiver_row)};
  return edges;
}

using Features = std::map<int, Tensor>;

// The layers between two records are differentiated as one stage: inputs are leaves, and outputs belong to their graph.
struct Stage {
  Features inputs, outputs;
};

// Work for which autograd would keep too much is not part of a stage's graph. It is evaluated again in the backward
// pass, chunk by chunk. This is a sum over edges or, if `contraction` is not null, a contraction. A channel balance,
// which adds over all ranks, is not part of a graph either.
struct Record {
  const SumOverEdges *sum;
  const TorchContraction *contraction;
  int input, output;      // features; input -1: none
  Tensor x;               // [A, dim] for a sum, [N, dim] for a contraction; undefined without input
  bool exchanged;         // whether x of a sum depends on positions; its adjoint is then exchanged
  Tensor largest = {};    // [N, n], for a sum with exponents
  const TorchChannelBalance *balance = nullptr;
  Tensor balance_sums = {};
  Tensor input_adjoint = {};    // of an Ewald sum, [N, dim]; its energy is in no graph
  const TorchPotential *potential = nullptr;
  Tensor structure_factors = {};    // of all ranks
  Tensor all_atoms = {};            // of all ranks, AllAtoms::rows
  int64_t first = 0;
};

}    // namespace

struct TorchModel::Impl {
  at::ScalarType type;
  double chunk_bytes, cutoff;
  int max_neighbors;
  Matrix pair_cutoff;
  NearestNeighbors nearest;
  double far_cutoff = 0.0;    // cutoff of the far edges of a layer (LayerTraits); 0: none
  bool needs_all_pairs = false;
  bool has_direct_forces = false;
  int64_t num_observable_numbers = 0;
  std::vector<TorchLayer> layers;
  std::vector<int64_t> feature_dims;
  const Neighborhood *neighborhood = nullptr;
  Tensor species;    // [A] int64
  int64_t last_num_edges = 0;

  // State of one evaluation, local to evaluate(), so no graph outlives it.
  struct Run;
};

// The forward pass stores stages and records; the backward pass consumes them from the end.
struct TorchModel::Impl::Run {
  const Impl &model;
  GhostExchange &exchange;
  const Edges &near_edges, &far_edges;
  bool want_gradient;
  int64_t num_owned, num_rows;

  Features live;                    // features that depend only on species have A rows, others N
  std::map<int, bool> geometric;    // whether the feature depends on positions
  Stage stage;
  std::vector<Stage> stages;
  std::vector<Record> records;
  Tensor direct_forces;         // [N, 3] float64, for a model that has them
  Tensor observables;           // [N, numbers] float64, for a model that has them
  Tensor observable_weights;    // the same shape, if the request has any
  // Results of sums over wave vectors, in float64, which belong to no edge.
  const EvaluationRequest *request = nullptr;
  Tensor ewald_energy;       // [N]
  Tensor system_gradient;    // [N, 3] dE/dr
  Tensor system_strain;      // [N, 3, 3] derivatives of energies by a strain

  Run(const Impl &model, GhostExchange &exchange, const Edges &near_edges, const Edges &far_edges, bool want_gradient)
      : model(model),
        exchange(exchange),
        near_edges(near_edges),
        far_edges(far_edges),
        want_gradient(want_gradient),
        num_owned(model.neighborhood->num_receivers),
        num_rows(model.neighborhood->num_rows) {
    write(ENERGY, at::zeros({num_owned}, at::kDouble), true);    // all receivers have a row from the start
    observables = at::zeros({num_owned, model.num_observable_numbers}, at::kDouble);
  }

  void take_observable_weights() {
    if (!request->observable_weights) return;
    observable_weights = at::zeros_like(observables);
    double *to = observable_weights.data_ptr<double>();
    const int64_t width = model.num_observable_numbers;
    for (const int i : model.neighborhood->receiver)
      to = std::copy_n(request->observable_weights + width * i, width, to);
  }

  Tensor read(int feature) const {
    const auto it = live.find(feature);
    if (it == live.end()) throw std::invalid_argument("TorchModel: a layer reads a feature before it is written");
    return it->second;
  }

  void write(int feature, const Tensor &t, bool from_positions) {
    live[feature] = t;
    geometric[feature] = from_positions;
  }

  Tensor &energy() { return live[ENERGY]; }    // [N] float64

  void begin_stage() {
    stage = {};
    for (auto &[f, t] : live) {
      if (!geometric.at(f)) continue;
      t = t.detach();
      if (!want_gradient) continue;
      t.requires_grad_(true);
      stage.inputs[f] = t;
    }
  }

  void end_stage() {
    for (const auto &[f, t] : live)
      if (t.requires_grad()) stage.outputs[f] = t;
    stages.push_back(std::move(stage));
  }

  // Converts adjoints of the outputs of a stage to adjoints of its inputs.
  static void stage_backward(const Stage &s, Features &adjoint) {
    std::vector<Tensor> outputs, cotangents, inputs;
    for (const auto &[f, t] : s.outputs) {
      const auto it = adjoint.find(f);
      if (it == adjoint.end()) continue;
      outputs.push_back(t);
      cotangents.push_back(it->second);
    }
    for (const auto &[f, t] : s.inputs) inputs.push_back(t);
    adjoint.clear();
    if (outputs.empty() || inputs.empty()) return;
    const auto grads =
        torch::autograd::grad(outputs, inputs, cotangents, /*retain_graph=*/false, /*create_graph=*/false,
                              /*allow_unused=*/true);
    size_t k = 0;
    for (const auto &[f, t] : s.inputs) {
      if (grads[k].defined()) adjoint[f] = grads[k];
      ++k;
    }
  }

  void send(GhostExchange &e, Tensor &t, bool reverse) const {
    const int width = static_cast<int>(t.size(1));
    if (t.scalar_type() == at::kDouble) {
      const FeaturePieces<double> rows = {{t.data_ptr<double>(), width}};
      reverse ? e.reverse(rows) : e.forward(rows);
    } else {
      const FeaturePieces<float> rows = {{t.data_ptr<float>(), width}};
      reverse ? e.reverse(rows) : e.forward(rows);
    }
  }

  // The rows of receivers.
  Tensor owned(const Tensor &x) const { return x.narrow(0, 0, num_owned); }

  // Ends the stage with a result that belongs to no graph, and begins the next stage.
  void record(const Record &r, const Tensor &result) {
    records.push_back(r);
    write(r.output, result, true);
    begin_stage();
  }

  const Edges &edges_of(const SumOverEdges &sum) const { return sum.is_far ? far_edges : near_edges; }

  // The parts of its input x [A, dim] and of the largest exponents that a sum reads for edges first .. first + num - 1.
  EdgeFeatures features(const SumOverEdges &sum, const Tensor &x, const Tensor &largest, int64_t first,
                        int64_t num) const {
    EdgeFeatures gathered;
    const Edges &edges = edges_of(sum);
    if (!x.defined()) return gathered;
    gathered.sender = x.index_select(0, edges.sender_row.narrow(0, first, num));
    const Tensor receiver = edges.rows.receiver.narrow(0, first, num);
    if (sum.reads_receiver) gathered.receiver = x.index_select(0, receiver);
    if (largest.defined()) gathered.largest = largest.index_select(0, receiver);
    return gathered;
  }

  // Stores the sum over the edges of each receiver as feature `output`. input -1: the sum reads no feature.
  void sum_forward(const SumOverEdges &sum, int input, int output) {
    const Edges &edges = edges_of(sum);
    Tensor x;
    bool exchanged = false;
    if (input >= 0) {
      x = read(input).detach();
      exchanged = geometric.at(input);
    }
    end_stage();
    if (exchanged) {
      Tensor all = at::zeros({num_rows, x.size(1)}, x.options());
      owned(all).copy_(x);
      send(exchange, all, false);
      x = all;
    }
    Tensor m = at::zeros({num_owned, sum.columns}, sum.type), largest;
    {
      at::NoGradGuard no_grad;
      // Calls f(features that the sum reads, edges) for each chunk.
      const auto for_chunks = [&](const auto &f) {
        for (int64_t e = 0, n; e < edges.size(); e += n) {
          n = edges.chunk(sum, e);
          f(features(sum, x, largest, e, n), edges.narrow(e, n));
        }
      };
      Tensor most;
      for_chunks([&](const EdgeFeatures &x, const EdgeRows &rows) {
        const Tensor exponents = sum.exponents(x, rows);
        if (!exponents.defined()) return;
        if (!most.defined()) most = at::full({num_owned, exponents.size(1)}, -INFINITY, exponents.options());
        most.index_reduce_(0, rows.receiver, exponents, "amax");
      });
      largest = most;
      for_chunks(
          [&](const EdgeFeatures &x, const EdgeRows &rows) { m.index_add_(0, rows.receiver, sum.terms(x, rows)); });
    }
    record({&sum, nullptr, input, output, x, exchanged, largest}, m);
  }

  // vec_adj: adjoints of near and of far edges.
  void sum_backward(const Record &r, const Tensor &m_adj, Features &adjoint, std::array<Tensor, 2> &vec_adj) {
    const Edges &edges = edges_of(*r.sum);
    Tensor x_adj = r.exchanged ? at::zeros_like(r.x) : Tensor();
    for (int64_t e = 0, n; m_adj.defined() && e < edges.size(); e += n) {
      n = edges.chunk(*r.sum, e);
      const Tensor sender = edges.sender_row.narrow(0, e, n);
      EdgeRows rows = edges.narrow(e, n);
      rows.vec = rows.vec.detach().requires_grad_(true);
      std::vector<Tensor> leaves = {rows.vec};
      const EdgeFeatures x = features(*r.sum, r.x, r.largest, e, n);
      for (const Tensor &t : {x.sender, x.receiver})
        if (t.defined()) leaves.push_back(t.requires_grad_(true));
      const auto grads = torch::autograd::grad({r.sum->terms(x, rows)}, leaves, {m_adj.index_select(0, rows.receiver)},
                                               /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
      if (grads[0].defined()) vec_adj[r.sum->is_far].narrow(0, e, n).add_(grads[0]);
      for (size_t k = 1; r.exchanged && k < grads.size(); ++k)
        if (grads[k].defined()) x_adj.index_add_(0, k == 1 ? sender : rows.receiver, grads[k]);
    }
    if (!r.exchanged) return;
    send(exchange, x_adj, true);
    add(adjoint, r.input, owned(x_adj));
  }

  void contraction_forward(const TorchContraction &layer) {
    const bool from_positions = geometric.at(layer.input);
    const Tensor x = read(layer.input).detach();
    if (from_positions) end_stage();
    Tensor y = at::zeros({x.size(0), layer.irreps_out.dim()}, x.options());
    {
      at::NoGradGuard no_grad;
      for (int64_t first = 0; first < x.size(0); first += layer.chunk) {
        const int64_t n = std::min(layer.chunk, x.size(0) - first);
        y.narrow(0, first, n).copy_(layer(x.narrow(0, first, n), model.species.narrow(0, first, n)));
      }
    }
    if (from_positions)
      record({nullptr, &layer, layer.input, layer.output, x, false}, y);
    else
      write(layer.output, y, false);
  }

  void contraction_backward(const Record &r, const Tensor &y_adj, Features &adjoint) {
    if (!y_adj.defined()) return;
    Tensor x_adj = at::zeros_like(r.x);
    for (int64_t first = 0; first < num_owned; first += r.contraction->chunk) {
      const int64_t n = std::min(r.contraction->chunk, num_owned - first);
      const Tensor x = r.x.narrow(0, first, n).detach().requires_grad_(true);
      const auto grads = torch::autograd::grad({(*r.contraction)(x, model.species.narrow(0, first, n))}, {x},
                                               {y_adj.narrow(0, first, n)}, /*retain_graph=*/false,
                                               /*create_graph=*/false, /*allow_unused=*/true);
      if (grads[0].defined()) x_adj.narrow(0, first, n).copy_(grads[0]);
    }
    add(adjoint, r.input, x_adj);
  }

  // Sums over the atoms of all ranks [terms] of rows [N, terms] in float64, and the number of atoms.
  Tensor sums_of(const Tensor &rows) const {
    const Tensor number = at::full({1}, static_cast<double>(num_owned), at::kDouble);
    Tensor sums = at::cat({rows.to(at::kDouble).sum(0), number}).contiguous();
    exchange.sum(sums.data_ptr<double>(), static_cast<int>(sums.size(0)));
    return sums;
  }

  void balance_forward(const TorchChannelBalance &layer) {
    const Tensor x = owned(read(layer.input).detach());
    end_stage();
    Record r{nullptr, nullptr, layer.input, layer.output, x, false};
    r.balance = &layer;
    r.balance_sums = sums_of(layer.terms(x));
    record(r, layer(x, r.balance_sums));
  }

  // Autograd differentiates this rank's part; the adjoint of the sums is added over all ranks.
  void balance_backward(const Record &r, const Tensor &y_adj, Features &adjoint) {
    const Tensor of_y = y_adj.defined() ? y_adj : at::zeros_like(r.x);
    const auto leaves = [&] {
      return std::vector<Tensor>{r.x.detach().requires_grad_(true), r.balance_sums.detach().requires_grad_(true)};
    };
    const std::vector<Tensor> of_result = leaves(), of_terms = leaves();
    const auto grads =
        torch::autograd::grad({(*r.balance)(of_result[0], of_result[1])}, of_result, {of_y}, /*retain_graph=*/false,
                              /*create_graph=*/false, /*allow_unused=*/true);
    const Tensor of_sums = sums_of(grads[1].unsqueeze(0)).narrow(0, 0, grads[1].size(0) - 1);
    const Tensor terms = r.balance->terms(of_terms[0]);
    const auto through_sums =
        torch::autograd::grad({terms}, {of_terms[0]}, {of_sums.to(terms.scalar_type()).expand_as(terms).contiguous()});
    add(adjoint, r.input, grads[0] + through_sums[0]);
  }

  // Autograd differentiates the energy by the structure factors of all ranks, and these by charges and positions of
  // this rank. Energies of atoms are halves of charges times potentials.
  void ewald_forward(const TorchEwald &layer) {
    check_cell(model.neighborhood->box.cell());
    const Tensor x = owned(read(layer.input).detach());
    end_stage();
    std::vector<double> places;
    for (int64_t i = 0; i < num_owned; ++i) {
      const double *r = request->positions[model.neighborhood->receiver[i]];
      places.insert(places.end(), r, r + 3);
    }
    const Tensor cell = to_tensor(model.neighborhood->box.vectors[0].data(), {3, 3}, at::kDouble).clone(),
                 integers = layer.waves.integers(cell), inverse = at::linalg_inv(cell);
    const Tensor positions = to_tensor(places.data(), {num_owned, 3}, at::kDouble).requires_grad_(true);
    const Tensor leaf = x.clone().requires_grad_(true), charges = layer.charges(leaf);
    const Tensor own = layer.structure_factors(charges, at::matmul(positions, inverse), integers);
    Tensor all = own.detach().clone().contiguous();
    exchange.sum(all.data_ptr<double>(), static_cast<int>(all.numel()));
    all.requires_grad_(true);
    const Tensor of_sum =
        torch::autograd::grad({layer.energies(all, integers, cell).sum()}, {all}, {}, /*retain_graph=*/false)[0];
    const double self = layer.function.self();
    const auto grads = torch::autograd::grad({(own * of_sum).sum() - 0.5 * self * charges.square().sum()},
                                             {charges, leaf, positions}, {}, /*retain_graph=*/true);
    ewald_energy = (0.5 * charges * grads[0]).detach();
    add_to(system_gradient, grads[2]);

    // With factors constant, the energy of wave vector k is 2 sum_i e_i(k). The cell (1 + strain) changes each by a
    // relative amount.
    const Tensor strain = at::zeros({3, 3}, at::kDouble).requires_grad_(true);
    const Tensor strained = at::matmul(cell, (at::eye(3, at::kDouble) + strain).t());
    const Tensor phase = 2.0 * M_PI * at::matmul(integers.to(at::kDouble), at::matmul(positions, inverse).t()).detach();
    const Tensor of_atoms =
        0.5 * charges.detach() *
        (of_sum.select(0, 0).unsqueeze(1) * at::cos(phase) + of_sum.select(0, 1).unsqueeze(1) * at::sin(phase));
    const Tensor unit = layer.energies(at::ones({2, integers.size(0)}, at::kDouble), integers, strained);
    const Tensor relative = unit / unit.detach();
    std::vector<Tensor> of_strain;
    for (int64_t i = 0; i < num_owned; ++i)
      of_strain.push_back(torch::autograd::grad({(relative * of_atoms.select(1, i)).sum()}, {strain}, {},
                                                /*retain_graph=*/true)[0]);
    add_to(system_strain, of_strain.empty() ? at::zeros({0, 3, 3}, at::kDouble) : at::stack(of_strain));

    Record r{nullptr, nullptr, layer.input, EDGE_SUM, {}, false};
    r.input_adjoint = grads[1];
    records.push_back(r);
    begin_stage();
  }

  // What a potential depends on besides the features: leaves of a graph.
  struct Places {
    Tensor positions, strain;    // [N, 3] and [3, 3]
    Tensor phase, k, volume;
  };
  Places places(const TorchPotential &layer) const {
    std::vector<double> numbers;
    for (int64_t i = 0; i < num_owned; ++i) {
      const double *r = request->positions[model.neighborhood->receiver[i]];
      numbers.insert(numbers.end(), r, r + 3);
    }
    Places p;
    const Tensor cell = to_tensor(model.neighborhood->box.vectors[0].data(), {3, 3}, at::kDouble).clone(),
                 integers = layer.waves.integers(cell);
    p.positions = to_tensor(numbers.data(), {num_owned, 3}, at::kDouble).clone().requires_grad_(true);
    p.strain = at::zeros({3, 3}, at::kDouble).requires_grad_(true);
    const Tensor strained = at::matmul(cell, (at::eye(3, at::kDouble) + p.strain).t());
    p.phase = TorchWaves::phases(at::matmul(p.positions, at::linalg_inv(cell)), integers);
    p.k = TorchWaves::vectors(integers, strained);
    p.volume = at::abs(at::linalg_det(strained));
    return p;
  }

  // The unwrapped positions and the rows of the atoms of all ranks, in float64. `first`: this rank's first receiver.
  struct AllAtoms {
    Tensor rows;    // [M, 3 + dim]
    int64_t first;
  };
  AllAtoms all_atoms(const Tensor &x) const {
    std::vector<double> numbers;
    for (int64_t i = 0; i < num_owned; ++i) {
      const int atom = model.neighborhood->receiver[i];
      for (int a = 0; a < 3; ++a)
        numbers.push_back(request->positions[atom][a] + (request->image_shifts ? request->image_shifts[atom][a] : 0.0));
    }
    const int64_t width = 3 + x.size(1);
    const Tensor mine =
        at::cat({to_tensor(numbers.data(), {num_owned, 3}, at::kDouble), x.to(at::kDouble)}, 1).contiguous();
    std::vector<double> all;
    const std::size_t place = exchange.gather(mine.data_ptr<double>(), static_cast<std::size_t>(mine.numel()), all);
    const auto count = static_cast<int64_t>(all.size()) / width;
    return {to_tensor(all.data(), {count, width}, at::kDouble).clone(), static_cast<int64_t>(place) / width};
  }

  static bool has_waves(Boundary boundary) { return boundary != Boundary::open; }
  static bool has_more_than_waves(const TorchPotential &layer, Boundary boundary) {
    return boundary != Boundary::periodic || layer.layer.has_field();
  }
  // What receivers feel besides wave vectors, [N, dim]. strains [M, 3, 3] of atoms: half of each pair belongs to either
  // atom, and an equal share of the slab's dipole to each.
  Tensor felt_besides_waves(const TorchPotential &layer, Boundary boundary, const Tensor &rows, int64_t first,
                            const Tensor &strains) const {
    const Potential &l = layer.layer;
    const Tensor positions = rows.narrow(1, 0, 3), multipoles = rows.narrow(1, 3, rows.size(1) - 3),
                 own = multipoles.narrow(0, first, num_owned), center = positions.mean(0);
    Tensor felt = at::zeros({num_owned, model.feature_dims[layer.output]}, at::kDouble);
    if (num_owned == 0) return felt + 0.0 * rows.sum() + 0.0 * strains.sum();
    if (boundary == Boundary::open) {
      const Tensor index = at::arange(rows.size(0)), mine = index.narrow(0, first, num_owned);
      const Tensor is_pair = index.unsqueeze(0).ne(mine.unsqueeze(1)).unsqueeze(2);    // [N, M, 1]
      const Tensor vectors =
          at::where(is_pair, positions.narrow(0, first, num_owned).unsqueeze(1) - positions.unsqueeze(0), 1.0);
      const Tensor strain = 0.5 * (strains.narrow(0, first, num_owned).unsqueeze(1) + strains.unsqueeze(0));
      const Tensor strained = vectors + at::matmul(strain, vectors.unsqueeze(3)).squeeze(3);
      felt = felt + felt_in_open_system(l, layer.open_sum, strained, is_pair.to(at::kDouble), multipoles, own);
    }
    const auto places_of = [&](const Tensor &relative, const Tensor &strain) {
      return relative + at::matmul(strain, relative.unsqueeze(2)).squeeze(2);
    };
    if (boundary == Boundary::slab) {
      const Tensor strain = strains.mean(0), relative = positions - center,
                   all = places_of(relative, strain.expand({rows.size(0), 3, 3}));
      const Tensor box = to_tensor(model.neighborhood->box.vectors[0].data(), {3, 3}, at::kDouble).clone();
      felt =
          felt + felt_of_slab(l, all, multipoles, all.narrow(0, first, num_owned), box + at::matmul(box, strain.t()));
    }
    if (l.has_field()) {
      const Tensor relative = positions - (l.of_field->has_mean_origin ? center : at::zeros_like(center));
      felt =
          felt + felt_in_field(l, places_of(relative.narrow(0, first, num_owned), strains.narrow(0, first, num_owned)));
    }
    return felt;
  }

  void potential_forward(const TorchPotential &layer) {
    if (!layer.layer.open) check_cell(model.neighborhood->box.cell());
    const Boundary boundary = boundary_of(model.neighborhood->box);
    const Tensor x = owned(read(layer.input).detach());
    end_stage();
    Record r{nullptr, nullptr, layer.input, layer.output, x, false};
    r.potential = &layer;
    Tensor y = at::zeros({num_owned, model.feature_dims[layer.output]}, at::kDouble);
    {
      at::NoGradGuard no_grad;
      if (has_waves(boundary)) {
        const Places p = places(layer);
        Tensor all = layer.structure_factors(x, p.phase, p.k).contiguous();
        exchange.sum(all.data_ptr<double>(), static_cast<int>(all.numel()));
        r.structure_factors = all;
        y = layer.felt(x, all, p.phase, p.k, p.volume);
      }
      if (has_more_than_waves(layer, boundary)) {
        const AllAtoms all = all_atoms(x);
        r.all_atoms = all.rows;
        r.first = all.first;
        y = y +
            felt_besides_waves(layer, boundary, all.rows, all.first, at::zeros({all.rows.size(0), 3, 3}, at::kDouble));
      }
    }
    record(r, y.to(x.scalar_type()));
  }

  void potential_backward_besides_waves(const Record &r, const Tensor &seed, Features &adjoint) {
    const TorchPotential &layer = *r.potential;
    const Tensor rows = r.all_atoms.clone().requires_grad_(true),
                 strains = at::zeros({rows.size(0), 3, 3}, at::kDouble).requires_grad_(true);
    const Tensor felt = felt_besides_waves(layer, boundary_of(model.neighborhood->box), rows, r.first, strains);
    auto found = torch::autograd::grad({(felt * seed).sum()}, {rows, strains}, {}, /*retain_graph=*/false,
                                       /*create_graph=*/false, /*allow_unused=*/true);
    const std::vector<Tensor> leaves = {rows, strains};
    for (std::size_t k = 0; k < 2; ++k) {
      found[k] = found[k].defined() ? found[k].contiguous() : at::zeros_like(leaves[k]);
      exchange.sum(found[k].data_ptr<double>(), static_cast<int>(found[k].numel()));
      found[k] = found[k].narrow(0, r.first, num_owned);
    }
    add(adjoint, layer.input, found[0].narrow(1, 3, rows.size(1) - 3));
    add_to(system_gradient, found[0].narrow(1, 0, 3));
    add_to(system_strain, found[1]);
  }

  // Autograd differentiates by the structure factors of all ranks, whose adjoint is added over the ranks, and these by
  // this rank's atoms.
  void potential_backward(const Record &r, const Tensor &y_adj, Features &adjoint) {
    const TorchPotential &layer = *r.potential;
    const Tensor seed =
        (y_adj.defined() ? y_adj : at::zeros({num_owned, model.feature_dims[layer.output]}, r.x.options()))
            .to(at::kDouble);
    const Boundary boundary = boundary_of(model.neighborhood->box);
    if (has_more_than_waves(layer, boundary)) potential_backward_besides_waves(r, seed, adjoint);
    if (!has_waves(boundary)) return;
    const auto gradients = [&](const Tensor &of, const std::vector<Tensor> &by) {
      auto found = torch::autograd::grad({of}, by, {}, /*retain_graph=*/true, /*create_graph=*/false,
                                         /*allow_unused=*/true);
      for (size_t k = 0; k < by.size(); ++k)
        if (!found[k].defined()) found[k] = at::zeros_like(by[k]);
      return found;
    };
    const Places p = places(layer);
    const Tensor x = r.x.clone().requires_grad_(true), all = r.structure_factors.clone().requires_grad_(true);
    const Tensor felt = layer.felt(x, all, p.phase, p.k, p.volume) * seed;
    const auto as_probes = gradients(felt.sum(), {x, all, p.positions});
    Tensor all_adj = as_probes[1].contiguous();
    exchange.sum(all_adj.data_ptr<double>(), static_cast<int>(all_adj.numel()));
    const auto part = [&](int64_t i) {
      const Tensor own = layer.structure_factors(x.narrow(0, i, 1), p.phase.narrow(1, i, 1), p.k);
      return (own * all_adj).sum();
    };
    const auto as_sources = gradients((layer.structure_factors(x, p.phase, p.k) * all_adj).sum(), {x, p.positions});
    add(adjoint, layer.input, as_probes[0] + as_sources[0]);
    add_to(system_gradient, as_probes[2] + as_sources[1]);
    std::vector<Tensor> strains;
    for (int64_t i = 0; i < num_owned; ++i)
      strains.push_back(gradients(felt.select(0, i).sum() + part(i), {p.strain})[0]);
    add_to(system_strain, strains.empty() ? at::zeros({0, 3, 3}, at::kDouble) : at::stack(strains));
  }

  static void add_to(Tensor &sum, const Tensor &t) { sum = sum.defined() ? sum + t : t; }
  static void add(Features &adjoint, int feature, const Tensor &t) {
    const auto it = adjoint.find(feature);
    adjoint[feature] = it == adjoint.end() ? t : it->second + t;
  }

  void record_backward(const Record &r, Features &adjoint, std::array<Tensor, 2> &vec_adj) {
    const auto it = adjoint.find(r.output);
    const Tensor out_adj = it == adjoint.end() ? Tensor() : it->second;
    if (it != adjoint.end()) adjoint.erase(it);
    if (r.input_adjoint.defined())
      add(adjoint, r.input, r.input_adjoint);
    else if (r.potential)
      potential_backward(r, out_adj, adjoint);
    else if (r.balance)
      balance_backward(r, out_adj, adjoint);
    else if (r.contraction)
      contraction_backward(r, out_adj, adjoint);
    else
      sum_backward(r, out_adj, adjoint, vec_adj);
  }

  // A sum over edges that becomes no feature, [N, 1] on the graph of the stage that begins with it. The layer must read
  // its other inputs afterwards.
  Tensor sum_of(const SumOverEdges &sum, int input = -1) {
    sum_forward(sum, input, EDGE_SUM);
    Tensor t = live.at(EDGE_SUM);
    live.erase(EDGE_SUM);
    return t;
  }

  // Energies per receiver [N].
  Tensor forward() {
    begin_stage();
    for (const TorchLayer &layer : model.layers) std::visit([this](const auto &l) { l.evaluate(*this); }, layer);
    end_stage();
    return ewald_energy.defined() ? energy().detach() + ewald_energy : energy().detach();
  }

  // dE/dvec [E, 3] for near and for far edges.
  std::array<Tensor, 2> backward() {
    std::array<Tensor, 2> vec_adj = {at::zeros_like(near_edges.rows.vec), at::zeros_like(far_edges.rows.vec)};
    Features adjoint = {{ENERGY, at::ones({num_owned}, at::kDouble)}};
    live.clear();
    while (!stages.empty()) {
      stage_backward(stages.back(), adjoint);
      stages.pop_back();
      if (records.empty()) continue;
      record_backward(records.back(), adjoint, vec_adj);
      records.pop_back();
    }
    return vec_adj;
  }
};

TorchModel::TorchModel(const Model &model, const EvaluatorOptions &options, double chunk_bytes)
    : impl_(std::make_unique<Impl>()) {
  if (options.precision == Precision::tf32)
    throw std::invalid_argument("precision tf32 is for kernels on GPUs; the reference has mixed and double precision");
  // Weights made in inference mode could not be used with autograd.
  const c10::InferenceMode no_inference_mode(false);
  Impl &m = *impl_;
  m.type = options.precision == Precision::double_ ? at::kDouble : at::kFloat;
  m.chunk_bytes = chunk_bytes;
  m.cutoff = model.cutoff;
  m.max_neighbors = model.max_neighbors;
  m.pair_cutoff = model.pair_cutoff;
  m.nearest = model.nearest;
  m.far_cutoff = far_cutoff(model.layers);
  m.needs_all_pairs = needs_all_pairs(model.layers);
  m.has_direct_forces = has_direct_forces(model.layers);
  m.num_observable_numbers = model.num_observable_numbers();
  for (const Irreps &irreps : model.features) m.feature_dims.push_back(irreps.dim());
  for (const Layer &layer : model.layers) m.layers.push_back(make_torch_layer(layer, {model, m.type, chunk_bytes}));
  for (TorchLayer &layer : m.layers)
    if (auto *ewald = std::get_if<TorchEwald>(&layer))
      ewald->waves.use(options.wave_vectors);
    else if (auto *potential = std::get_if<TorchPotential>(&layer))
      potential->use(options);
}

TorchModel::~TorchModel() = default;

std::string TorchModel::describe() const {
  int64_t chunk = std::numeric_limits<int64_t>::max();
  for (const TorchLayer &layer : impl_->layers)
    if (const Chunked *part = chunked_part(layer); part && part->is_over_edges) chunk = std::min(chunk, part->chunk);
  std::ostringstream out;
  out << "reference evaluation: LibTorch " << TORCH_VERSION << ", autograd, CPU, " << at::get_num_threads()
      << " threads\n"
      << "network in " << (impl_->type == at::kDouble ? "float64" : "float32") << ", geometry and sums in float64\n"
      << "radial functions: exact (network)\n"
      << "edges in chunks of at least " << chunk << ", about " << static_cast<int>(impl_->chunk_bytes / 1e6)
      << " MB of work arrays; features kept for all layers\n";
  return out.str();
}

void TorchModel::set_neighborhood(const Neighborhood &n) {
  const c10::InferenceMode no_inference_mode(false);
  impl_->neighborhood = &n;
  impl_->species = to_tensor(n.row_species);
}

std::size_t TorchModel::exchange_bytes_per_row() const {
  int64_t widest = 0;    // a strictly local model has no features
  for (const int64_t d : impl_->feature_dims) widest = std::max(widest, d);
  return widest * c10::elementSize(impl_->type);
}

std::size_t TorchModel::memory_bytes() const {
  if (!impl_->neighborhood) return 0;
  const double number = static_cast<double>(c10::elementSize(impl_->type));
  const int64_t num_edges = impl_->last_num_edges;
  double rows = 0.0, work = 0.0;
  for (const int64_t d : impl_->feature_dims) rows += 2.0 * number * d;
  for (const TorchLayer &layer : impl_->layers)
    if (const Chunked *part = chunked_part(layer)) {
      const int64_t num = part->is_over_edges ? num_edges : impl_->neighborhood->num_rows;
      work = std::max(work, part->bytes_per_row * std::min(part->chunk, num));
    }
  return static_cast<std::size_t>(rows * impl_->neighborhood->num_rows + work + 80.0 * num_edges);
}

EvaluationResult TorchModel::evaluate(const EvaluationRequest &request, GhostExchange &exchange) {
  if (!impl_->neighborhood) throw std::logic_error("TorchModel: evaluate before set_neighborhood");
  const Neighborhood &n = *impl_->neighborhood;
  // The host program may have switched either of them.
  const c10::InferenceMode no_inference_mode(false);
  const at::AutoGradMode grad_mode(true);

  Failure failure;
  const Edges edges = find_edges(n, request.positions, impl_->cutoff, impl_->pair_cutoff, impl_->nearest, failure);
  Edges far_edges;
  if (impl_->far_cutoff > 0.0)
    far_edges = find_edges(n, request.positions, impl_->far_cutoff, {}, {}, failure);
  else
    far_edges.rows.vec = at::zeros({0, 3}, at::kDouble);
  impl_->last_num_edges = edges.size() + far_edges.size();
  if (impl_->has_direct_forces) check_request_of_direct_forces(request);
  const bool want_gradient = !impl_->has_direct_forces && (request.forces || request.virial || request.atom_virial);
  Impl::Run run(*impl_, exchange, edges, far_edges, want_gradient);
  run.request = &request;
  run.take_observable_weights();
  const Tensor energies = run.forward().contiguous();
  std::array<Tensor, 2> gradient;
  if (want_gradient) gradient = run.backward();
  bool has_all_pairs = true;
  if (impl_->needs_all_pairs) {
    double sums[] = {static_cast<double>(n.num_receivers), static_cast<double>(far_edges.size())};
    exchange.sum(sums, 2);
    has_all_pairs = sums[1] == sums[0] * (sums[0] - 1.0);
  }

  // All exchanges are finished, so now an error may stop this rank.
  EvaluationResult result;
  result.num_edges = edges.size();
  const double *energy = energies.data_ptr<double>();
  for (int i = 0; i < n.num_receivers; ++i) {
    const double *x = request.positions[n.receiver[i]];
    if (!std::isfinite(x[0] + x[1] + x[2])) failure.record("a position is not finite", n.receiver[i], -1, 0.0);
    if (!std::isfinite(energy[i])) failure.record("the energy of an atom is not finite", n.receiver[i], -1, 0.0);
    result.energy += energy[i];
    if (request.atom_energy) request.atom_energy[n.receiver[i]] += energy[i];
  }
  constexpr int AXES[9][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}, {1, 0}, {2, 0}, {2, 1}};
  const auto add_forces = [&](const Edges &pairs, const Tensor &of_vectors) {
    const double *vec = pairs.rows.vec.data_ptr<double>(), *g = of_vectors.data_ptr<double>();
    for (int64_t e = 0; e < pairs.size(); ++e, vec += 3, g += 3) {
      const int i = pairs.receiver_atom[e], j = pairs.sender_atom[e];
      if (!std::isfinite(g[0] + g[1] + g[2]))
        failure.record("a force is not finite", i, j, std::sqrt(vec[0] * vec[0] + vec[1] * vec[1] + vec[2] * vec[2]));
      if (request.forces)
        for (int k = 0; k < 3; ++k) {
          request.forces[i][k] += g[k];
          request.forces[j][k] -= g[k];
        }
      if (request.virial)
        for (int k = 0; k < 6; ++k) {
          const int a = AXES[k][0], b = AXES[k][1];
          result.virial[k] -= 0.5 * (vec[a] * g[b] + vec[b] * g[a]);
        }
      if (request.atom_virial)
        for (int k = 0; k < 9; ++k) {
          const double half = -0.5 * vec[AXES[k][0]] * g[AXES[k][1]];
          request.atom_virial[i][k] += half;
          request.atom_virial[j][k] += half;
        }
    }
  };
  if (impl_->has_direct_forces && request.forces) {
    const Tensor forces = run.direct_forces.contiguous();
    const double *f = forces.data_ptr<double>();
    for (int i = 0; i < n.num_receivers; ++i, f += 3) {
      if (!std::isfinite(f[0] + f[1] + f[2])) failure.record("a force is not finite", n.receiver[i], -1, 0.0);
      for (int k = 0; k < 3; ++k) request.forces[n.receiver[i]][k] += f[k];
    }
  }
  if (request.observables) {
    const Tensor found = run.observables.contiguous();
    const double *o = found.data_ptr<double>();
    const int64_t width = impl_->num_observable_numbers;
    for (int i = 0; i < n.num_receivers; ++i)
      for (int64_t k = 0; k < width; ++k) request.observables[width * n.receiver[i] + k] += *o++;
  }
  if (want_gradient && run.system_gradient.defined()) {
    const Tensor gradient = run.system_gradient.contiguous(), strain = run.system_strain.contiguous();
    const double *g = gradient.data_ptr<double>(), *of_strain = strain.data_ptr<double>();
    for (int i = 0; i < n.num_receivers; ++i, g += 3, of_strain += 9) {
      const auto symmetric = [&](int a, int b) { return 0.5 * (of_strain[3 * a + b] + of_strain[3 * b + a]); };
      for (int k = 0; request.forces && k < 3; ++k) request.forces[n.receiver[i]][k] -= g[k];
      for (int k = 0; request.virial && k < 6; ++k) result.virial[k] -= symmetric(AXES[k][0], AXES[k][1]);
      for (int k = 0; request.atom_virial && k < 9; ++k)
        request.atom_virial[n.receiver[i]][k] -= symmetric(AXES[k][0], AXES[k][1]);
    }
  }
  if (want_gradient) {
    add_forces(edges, gradient[0].contiguous());
    add_forces(far_edges, gradient[1].contiguous());
  }
  failure.throw_if_any();
  check_all_pairs(has_all_pairs, impl_->far_cutoff);
  std::vector<int64_t> num_neighbors(impl_->max_neighbors > 0 ? n.num_receivers : 0);
  for (int64_t e = 0; !num_neighbors.empty() && e < edges.size(); ++e)
    ++num_neighbors[edges.rows.receiver.data_ptr<int64_t>()[e]];
  check_num_neighbors(impl_->max_neighbors, n.num_receivers, n.receiver.data(),
                      [&](int i) { return num_neighbors[i]; });
  return result;
}

}    // namespace equi

extern "C" equi::Evaluator *equi_make_torch_evaluator(const equi::Model *model, const equi::EvaluatorOptions *options,
                                                      char *error, int length) {
  // No exception may leave through a C entry.
  try {
    return new equi::TorchModel(*model, *options);
  } catch (const std::exception &e) {
    if (length > 0) std::snprintf(error, static_cast<size_t>(length), "%s", e.what());
  }
  return nullptr;
}
