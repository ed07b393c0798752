// SPDX-License-Identifier: MIT
#include "kokkos/layers/operation_count.h"

#include <algorithm>

namespace equi {

LayerOperations OperationCount::total() const {
  LayerOperations sum;
  for (const LayerOperations &layer : layers) {
    sum.per_atom = sum.per_atom + layer.per_atom;
    sum.per_edge = sum.per_edge + layer.per_edge;
  }
  return sum;
}

Operations path_group_operations(const PathGroupSchedule &schedule, int channels, int rows_per_bin, int outputs) {
  return 2.0 * channels *
         Operations{static_cast<double>(schedule.forward_products(rows_per_bin, outputs)),
                    static_cast<double>(schedule.backward_products(rows_per_bin, outputs))};
}

Operations contraction_operations(const ContractionSchedule &schedule, int channels) {
  return 2.0 * channels *
         Operations{static_cast<double>(schedule.forward_products()),
                    static_cast<double>(schedule.backward_products())};
}

namespace {

// All matrices once in each direction, and activations between them.
Operations network_operations(const Network &network) {
  Operations n;
  for (size_t k = 0; k < network.weights.size(); ++k) {
    const Matrix &w = network.weights[k];
    const double products = product_operations(1, w.rows, w.cols);
    n = n + Operations{products + (network.has_bias(k) ? w.cols : 0), products};
    if (k + 1 < network.weights.size() && network.activation != Activation::identity)
      n = n + w.cols * Operations{2.0, 2.0};    // the activation and its scale, the derivative and its product
    if (k < network.norms.size() && !network.norms[k].weight.empty()) n = n + w.cols * Operations{7.0, 8.0};
  }
  return n;
}

class Counter {
 public:
  Counter(const Model &model, const KernelTarget &target, int rows_per_bin)
      : model_(model), target_(target), rows_per_bin_(rows_per_bin) {}
  // What the backward pass does with the adjoint of the input.
  const Step *step = nullptr;

  LayerOperations operator()(const SpeciesEmbedding &) const { return {}; }
  LayerOperations operator()(const ScaleShift &) const { return {{2.0, 0.0}, {}}; }

  LayerOperations operator()(const Linear &l) const {
    const Irreps &out = model_.features[l.output];
    // A row of its species is copied or added.
    if (step->fixed_input) return {{l.accumulate ? static_cast<double>(out.dim()) : 0.0, 0.0}, {}};
    Operations n;
    for (const LinearBlock &block : l.blocks) {
      const Matrix &w = block.weight.front();
      const double products = product_operations(2 * out[block.out].irrep.l + 1, w.rows, w.cols);
      n = n + Operations{products, products};
    }
    for (const std::vector<double> &bias : l.bias) n.forward += static_cast<double>(bias.size());
    return {n, {}};
  }

  LayerOperations operator()(const Convolution &c) const {
    Operations n;
    const bool has_network = c.radial.reads_features();
    for (const ProductPathGroup &group : path_groups_of(c.product)) {
      const PathGroupSchedule schedule = make_path_group_schedule(group.shape, target_);
      const int out = c.product.paths[group.paths[0]].out;
      n = n + path_group_operations(schedule, c.product.irreps_in[group.block].mul, has_network ? 1 : rows_per_bin_,
                                    group.shape.is_uvw() ? c.product.irreps_out[out].mul : 0);
    }
    if (has_network) n = n + network_operations(c.radial.network);
    // The activation, the column's constant and the cutoff function; backward the adjoint of the latter, too.
    if (has_network && c.radial.output == RadialFunction::Output::activated)
      n = n + c.radial.num_outputs() * Operations{4.0, 6.0};
    return {{}, n};
  }

  // Forward: rotations, radial factors, linears, the cutoff function, the rotation back. Backward: the adjoints of all.
  LayerOperations operator()(const So2Convolution &c) const {
    double rotation = 0.0;    // of one channel
    for (int l = 0; l <= c.lmax; ++l) rotation += 2.0 * (2 * l + 1) * (2 * std::min(l, c.mmax) + 1);
    const int channels_in = model_.features[c.input][0].mul, channels_out = model_.features[c.output][0].mul;
    const double rotations = rotation * (2 * channels_in + channels_out);
    double factors = 0.0, scaled = 0.0;    // numbers of one channel that radial factors and the cutoff function scale
    for (int l = 0; l <= c.lmax; ++l) scaled += 2 * std::min(l, c.mmax) + 1;
    factors = scaled * 2 * channels_in;
    const double cutoff = scaled * channels_out;
    double products = 0.0;
    Operations gates;
    for (const So2Linear &linear : c.linears) {
      for (size_t m = 0; m < linear.weights.size(); ++m) {
        const Matrix &w = linear.weights[m][0];
        products += (m == 0 ? 1 : 4) * product_operations(1, w.rows, w.cols);
      }
      gates.forward += static_cast<double>(linear.bias.size());
      if (linear.has_product()) {    // each term; scalars, gates and what they multiply
        const double terms = static_cast<double>(linear.product.terms.size());
        gates = gates + linear.channels_after() * Operations{4.0 * terms + 4.0, 9.0 * terms + 6.0};
      }
      if (linear.has_points()) {    // to the points and back; backward both once more, and an activation at each
        const Matrix &to = linear.at_points.to_points;
        const double sums = 2.0 * product_operations(1, to.rows, to.cols);
        gates = gates + linear.channels_out * Operations{sums + to.rows, 1.5 * sums + 2.0 * to.rows};
      }
      if (!linear.has_gate) continue;
      gates = gates + linear.channels_out * Operations{1.0, 2.0};    // scalars
      for (int l = 1; l <= c.lmax; ++l) {
        const double d = 2 * std::min(l, c.mmax) + 1;
        gates = gates + linear.channels_out * Operations{1.0 + d, 2.0 + 3.0 * d};
      }
    }
    // Of attention: norms and sums of scores, and the products of messages with weights.
    const double of_scores = c.attention.heads * c.attention.channels;
    if (c.attention.heads > 0) gates = gates + Operations{14.0 * of_scores + cutoff, 40.0 * of_scores + 3.0 * cutoff};
    const Operations radial = network_operations(c.radial.network);
    return {
        {},
        radial + gates +
            Operations{rotations + factors + products + cutoff, rotations + 3.0 * factors + products + 3.0 * cutoff}};
  }

  LayerOperations operator()(const Gate &g) const {
    Operations n;
    for (const GateTerm &term : g.terms) {
      const IrrepBlock &out = model_.features[g.output][term.out];
      const double d = 2 * out.irrep.l + 1;
      // Activation and scale. A gate's adjoint is a sum over components.
      n = n + out.mul * (term.gate_in < 0 ? Operations{2.0, 2.0} : Operations{2.0 + d, 3.0 + 3.0 * d});
    }
    return {n, {}};
  }

  LayerOperations operator()(const DensityNormalization &d) const {
    const double numbers = model_.features[d.input].dim();
    return {{numbers + 3.0, 3.0 * numbers + 2.0}, {2.0 * rows_per_bin_ - 1.0, 2.0 * rows_per_bin_ - 2.0}};
  }

  // Forward: mean, differences, squares, factors. Backward: two sums, and a difference of three terms.
  LayerOperations operator()(const LayerNorm &l) const {
    const double n = static_cast<double>(l.weight.size());
    return {{7.0 * n + 4.0, 8.0 * n + 2.0}, {}};
  }
  // Each way a sum and a difference; of shares also squares, their sums and the adjoints of what is squared.
  LayerOperations operator()(const ChannelBalance &b) const {
    const double n = static_cast<double>(b.target.size());
    return {b.has_shares() ? n * Operations{6.0, 8.0} : n * Operations{2.0, 2.0}, {}};
  }
  // Backward computes the squares again.
  LayerOperations operator()(const NormScale &s) const {
    const Irreps &in = model_.features[s.input];
    const double n = in.dim(), mul = in[0].mul;
    return {{3.0 * n + 3.0 * mul, 7.0 * n + 6.0 * mul}, {}};
  }
  LayerOperations operator()(const SphericalNorm &s) const {
    const Irreps &in = model_.features[s.input];
    const double n = in.dim(), bias = static_cast<double>(s.bias.size());
    Operations of_groups;
    for (const NormGroup &group : s.groups) {
      const double blocks = static_cast<double>(group.blocks.size());
      of_groups = of_groups + Operations{2.0 * blocks + 3.0, 2.0 * blocks + 5.0};
      for (const int b : group.blocks)
        if (group.center && in[b].irrep.l == 0) of_groups = of_groups + in[b].mul * Operations{2.0, 4.0};
    }
    return {of_groups + Operations{4.0 * n + bias, 8.0 * n}, {}};
  }

  // Forward and backward go through the matrices once each, the first and the last of which are applied to components,
  // and backward evaluates the hidden layers again.
  LayerOperations operator()(const GridNetwork &g) const {
    const std::vector<Matrix> &weights = g.network.weights;
    const int points = g.num_points(), in = g.to_points.cols, out = g.from_points.cols;
    const double entry = product_operations(in, weights.front().rows, weights.front().cols) +
                         product_operations(points, in, weights.front().cols);
    const double exit = product_operations(out, weights.back().rows, weights.back().cols) +
                        product_operations(points, out, weights.back().rows);
    Operations between;
    for (size_t k = 0; k + 1 < weights.size(); ++k) {
      const double products = k > 0 ? product_operations(points, weights[k].rows, weights[k].cols) : 0.0,
                   values = static_cast<double>(points) * weights[k].cols,
                   biases = g.network.has_bias(k) ? values : 0.0;
      const double again = k + 2 < weights.size() ? 2.0 * values : 0.0;    // activations of all layers but the last
      between = between + Operations{products + 2.0 * values + biases, 2.0 * products + 2.0 * values + again + biases};
    }
    const double last_bias =
        g.network.has_bias(weights.size() - 1) ? static_cast<double>(out) * weights.back().cols : 0.0;
    return {between + Operations{entry + exit + last_bias, 2.0 * entry + exit}, {}};
  }

  LayerOperations operator()(const NodeProduct &p) const { return polynomial_operations(p.product.polynomials()); }
  LayerOperations operator()(const SymmetricContraction &c) const { return polynomial_operations(c.product); }

  LayerOperations operator()(const Readout &r) const {
    Network network = r.network;
    network.simplify();
    return {network_operations(network), {}};
  }

  LayerOperations operator()(const DirectForces &) const { return {{3.0, 0.0}, {}}; }

  // Per exponential its argument, itself and a multiply-add, and another one of the derivative; the cutoff polynomial.
  LayerOperations operator()(const PairRepulsion &p) const {
    const double n = static_cast<double>(p.coefficients.size());
    return {{}, {4.0 * n + 12.0, 2.0 * n + 12.0}};
  }

  // Of an edge within the layer's own cutoff, of which there are more than of others: products of charges, and the
  // function of the distance.
  LayerOperations operator()(const Coulomb &c) const {
    const double n = static_cast<double>(c.weights.size());
    return {{}, {3.0 * n + 30.0, 2.0 * n + 30.0}};
  }

 private:
  LayerOperations polynomial_operations(const ContractionProduct &product) const {
    return {contraction_operations(make_contraction_schedule(product), product.mul()), {}};
  }

  const Model &model_;
  const KernelTarget &target_;
  const int rows_per_bin_;
};

}    // namespace

OperationCount count_operations(const Model &model, const EvaluationPlan &plan, const KernelTarget &target,
                                int rows_per_bin) {
  OperationCount count;
  count.layers.resize(model.layers.size());
  Counter counter(model, target, rows_per_bin);
  for (const Stage &stage : plan.stages) {
    for (const Step &step : stage.steps) {
      counter.step = &step;
      count.layers[step.layer] = std::visit(counter, model.layers[step.layer]);
    }
    for (const BalanceStep &step : stage.balances)
      count.layers[step.layer] = std::visit(counter, model.layers[step.layer]);
  }
  for (size_t k = 0; k < model.layers.size(); ++k)
    if (const auto *scale = std::get_if<ScaleShift>(&model.layers[k])) count.layers[k] = counter(*scale);
  return count;
}

}    // namespace equi
