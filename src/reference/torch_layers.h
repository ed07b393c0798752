// SPDX-License-Identifier: MIT
// The layers of doc/model_file.rst as ATen operators on features [rows, dim] in the order of irreps.h. Part of
// torch_model.cpp alone, its only includer, whose Run is what a layer evaluates itself in: it reads features from it
// and writes others.
#ifndef EQUI_TORCH_LAYERS_H
#define EQUI_TORCH_LAYERS_H

#include "src/algebra/coupling.h"
#include "src/model/model.h"
#include "src/reference/torch_functions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace equi {
namespace torch_layers {

// Work on many rows, done in chunks of them whose intermediates take about chunk_bytes.
struct Chunked {
  bool is_over_edges;    // else over atoms
  int64_t chunk = 1;
  double bytes_per_row = 0.0;

  explicit Chunked(bool is_over_edges) : is_over_edges(is_over_edges) {}
  void set_numbers_per_row(double numbers, at::ScalarType type, double chunk_bytes) {
    bytes_per_row = numbers * static_cast<double>(c10::elementSize(type));
    chunk = std::max<int64_t>(1, static_cast<int64_t>(chunk_bytes / bytes_per_row));
  }
};

// Something that each receiver sums over its edges.
struct EdgeSum : Chunked {
  int columns;
  at::ScalarType type;
  bool reads_receiver = false;    // the feature of both atoms, not of the sender alone
  bool is_far = false;            // over the edges within the cutoff of a Coulomb layer

  EdgeSum(int columns, at::ScalarType type) : Chunked(true), columns(columns), type(type) {}
  virtual ~EdgeSum() = default;
  // Terms [E, columns] of edges.
  virtual Tensor terms(const EdgeFeatures &x, const EdgeRows &edges) const = 0;
};

struct TorchConvolution : EdgeSum {
  int input, output;
  TensorProduct product;
  TorchRadial radial;
  std::vector<Tensor> couplings;    // per path [2 l1+1, 2 l2+1, 2 l3+1]

  TorchConvolution(const Convolution &c, at::ScalarType type, double chunk_bytes)
      : EdgeSum(c.product.irreps_out.dim(), type),
        input(c.input),
        output(c.output),
        product(c.product),
        radial(c.radial, type) {
    product.validate();
    reads_receiver = c.radial.receiver_block >= 0;
    if (c.radial.num_outputs() != product.num_weights())
      throw std::invalid_argument("TorchModel: a radial network has " + std::to_string(c.radial.num_outputs()) +
                                  " outputs, its convolution needs " + std::to_string(product.num_weights()));
    double kept = radial.network.kept() + 2.0 * product.irreps_in.dim() + 4.0 * product.irreps_out.dim();
    for (const TensorProductPath &p : product.paths) {
      const int l1 = product.irreps_in[p.in].irrep.l, l3 = product.irreps_out[p.out].irrep.l;
      const std::vector<double> w = coupling(l1, p.l2, l3);
      couplings.push_back(to_tensor(w.data(), {2 * l1 + 1, 2 * p.l2 + 1, 2 * l3 + 1}, type));
      kept += (2.0 * l1 + 1) * (2 * l3 + 1) + product.irreps_in[p.in].mul * std::max(2.0 * l1 + 1, 2.0 * l3 + 1);
    }
    set_numbers_per_row(kept, type, chunk_bytes);
  }

  Tensor terms(const EdgeFeatures &features, const EdgeRows &edges) const override {
    const Tensor &x = features.sender;
    const Tensor r = edges.distance().unsqueeze(1);
    const Tensor y = harmonics(edges.vec / r, product.lmax_edge).to(x.scalar_type());
    const Tensor weights = radial(r, edges, features, product.irreps_in);
    std::vector<Tensor> blocks(product.irreps_out.size());
    for (size_t q = 0; q < product.paths.size(); ++q) {
      const TensorProductPath &p = product.paths[q];
      const Tensor x_block = block_of(x, product.irreps_in, p.in);
      const Tensor y_block = y.narrow(1, p.l2 * p.l2, 2 * p.l2 + 1);
      const int path = static_cast<int>(q);
      Tensor w = weights.narrow(1, product.weight_offset(path), product.num_weights(path));
      const Tensor m = at::einsum("eua,eac->euc", {x_block, at::einsum("abc,eb->eac", {couplings[q], y_block})});
      Tensor term;
      if (p.connection == Connection::uvw) {
        w = w.reshape({w.size(0), product.irreps_in[p.in].mul, product.irreps_out[p.out].mul});
        term = (p.scale * at::einsum("euw,euc->ewc", {w, m})).flatten(1);
      } else {
        term = (p.scale * w.unsqueeze(2) * m).flatten(1);
      }
      blocks[p.out] = blocks[p.out].defined() ? blocks[p.out] + term : term;
    }
    for (int b = 0; b < product.irreps_out.size(); ++b)
      if (!blocks[b].defined()) blocks[b] = at::zeros({x.size(0), product.irreps_out[b].dim()}, x.options());
    if (blocks.empty()) return at::zeros({x.size(0), 0}, x.options());
    return at::cat(blocks, 1);
  }

  void evaluate(auto &run) const { run.sum_forward(*this, input, output); }
};

// Messages in the frames of edges. Autograd differentiates the rotations, which are polynomials in the unit vectors.
struct TorchSo2Convolution : EdgeSum {
  struct Step {
    std::vector<Tensor> same, other;    // of each m; other is undefined for m = 0
    Tensor bias;                        // or undefined
    bool has_gate;
    Activation scalars, gates;
    Tensor to_points, from_points;    // of a product, [points, components l by l]; or undefined
    int64_t channels;                 // of a product: of both factors
  };
  int input, output, lmax, mmax;
  TorchRadial radial;
  Irreps irreps_in, irreps_out;
  std::vector<Tensor> couplings;    // of 1 and l-1 to l, from l = 2 on
  std::vector<Step> steps;
  int heads, scores;    // of attention, if there is any
  Tensor score_weight, score_bias, score_vector;
  double score_epsilon;

  TorchSo2Convolution(const So2Convolution &c, const Model &model, at::ScalarType type, double chunk_bytes)
      : EdgeSum(model.features[c.output].dim(), type),
        input(c.input),
        output(c.output),
        lmax(c.lmax),
        mmax(c.mmax),
        radial(c.radial, type),
        irreps_in(model.features[c.input]),
        irreps_out(model.features[c.output]),
        heads(c.attention.heads),
        scores(c.attention.channels),
        score_epsilon(c.attention.epsilon) {
    reads_receiver = true;
    if (heads > 0) {
      score_weight = to_tensor(c.attention.weight, type);
      score_bias = to_tensor(c.attention.bias, type);
      score_vector = to_tensor(c.attention.vector, type).reshape({heads, scores});
    }
    const double components = (lmax + 1) * (lmax + 1);
    double kept = radial.network.kept() + 12.0 * components * irreps_in[0].mul + 3.0 * irreps_out.dim();
    for (int l = 2; l <= lmax; ++l) {
      couplings.push_back(to_tensor(coupling(1, l - 1, l).data(), {3, 2 * l - 1, 2 * l + 1}, at::kDouble));
      kept += 6.0 * (2 * l + 1) * 3 * (2 * l + 1);
    }
    for (const So2Linear &linear : c.linears) {
      Step step{
          {}, {}, {}, linear.has_gate, linear.scalar_activation, linear.gate_activation, {}, {}, linear.channels_out};
      if (linear.has_product()) {
        step.scalars = linear.product.scalars;
        step.gates = linear.product.gates;
        step.to_points = to_tensor(linear.product.to_points, type);
        step.from_points = to_tensor(linear.product.from_points, type);
        kept += 3.0 * linear.product.to_points.rows * linear.channels_out;
      }
      for (const auto &[same, other] : linear.weights) {
        step.same.push_back(to_tensor(same, type));
        step.other.push_back(other.data.empty() ? Tensor() : to_tensor(other, type));
      }
      if (!linear.bias.empty()) step.bias = to_tensor(linear.bias, type);
      kept += 5.0 * components * linear.channels_out;
      steps.push_back(std::move(step));
    }
    set_numbers_per_row(kept, type, chunk_bytes);
  }

  // D_l of edges [E, 2l+1, 2l+1] for each l, in float64.
  std::vector<Tensor> rotations(const Tensor &unit) const {
    // The axis that the direction has least of, made orthogonal to it, is the x axis of the frame.
    const Tensor axis = at::one_hot(unit.detach().abs().argmin(1), 3).to(at::kDouble);
    Tensor x = axis - (axis * unit).sum(1, /*keepdim=*/true) * unit;
    x = x / x.square().sum(1, /*keepdim=*/true).sqrt();
    std::vector<Tensor> d = {at::ones({unit.size(0), 1, 1}, unit.options()),
                             at::stack({x, unit, at::cross(x, unit, 1)}, 1)};
    for (int l = 2; l <= lmax; ++l) {
      const Tensor &w = couplings[l - 2];
      const Tensor half = at::einsum("abc,eai,ebj->ecij", {w, d[1], d[l - 1]});
      d.push_back((2.0 * l + 1.0) * at::einsum("ecij,ijk->eck", {half, w}));
    }
    return d;
  }

  // What a step with a product makes of the components, and the scores of attention behind its scalars and gates.
  Tensor multiply_functions(const Step &step, std::vector<Tensor> &plus, std::vector<Tensor> &minus) const {
    const int64_t both = step.channels, factor = both / 2, orders = lmax + 1, before = plus[0].size(1) - orders * both;
    const Tensor first = plus[0].narrow(1, 0, before), components = plus[0].narrow(1, before, orders * both);
    // All components, l by l, as [E, components, channels of both factors].
    std::vector<Tensor> all;
    for (int l = 0; l <= lmax; ++l)
      for (int m = -std::min(l, mmax); m <= std::min(l, mmax); ++m) {
        const int a = std::abs(m);
        all.push_back((m == 0 ? components : m < 0 ? minus[a] : plus[a]).narrow(1, (l - a) * both, both));
      }
    const Tensor at_points = at::einsum("pk,ekc->epc", {step.to_points, at::stack(all, 1)});
    const Tensor product = at::einsum(
        "pk,epc->ekc", {step.from_points, at_points.narrow(2, 0, factor) * at_points.narrow(2, factor, factor)});
    const Tensor gated = activate(step.gates, first.narrow(1, both, factor)).unsqueeze(1) * product;
    const Tensor scalars = activate(step.scalars, first.narrow(1, 0, factor)) * first.narrow(1, factor, factor);
    for (int m = 0; m <= mmax; ++m) {
      std::vector<Tensor> of_plus, of_minus;
      int64_t begin = 0;
      for (int l = 0; l <= lmax; begin += 2 * std::min(l, mmax) + 1, ++l) {
        if (l < m) continue;
        const int64_t middle = begin + std::min(l, mmax);
        of_plus.push_back(gated.select(1, middle + m));
        of_minus.push_back(gated.select(1, middle - m));
      }
      if (m == 0) of_plus[0] = of_plus[0] + scalars;
      plus[m] = at::cat(of_plus, 1);
      if (m > 0) minus[m] = at::cat(of_minus, 1);
    }
    return heads > 0 && before > 2 * both ? first.narrow(1, 2 * both, heads * scores) : Tensor();
  }

  // Components of each l [E, 2l+1, channels]; those of m beyond mmax are dropped on the way in and 0 on the way out.
  Tensor terms(const EdgeFeatures &features, const EdgeRows &edges) const override {
    const Tensor r = edges.distance().unsqueeze(1);
    const std::vector<Tensor> d = rotations(edges.vec / r);
    const int64_t num = edges.size(), channels = 2 * irreps_in[0].mul;
    const Tensor factors = radial(r, edges);
    // The components of +m or -m side by side, l by l.
    std::vector<Tensor> plus(mmax + 1), minus(mmax + 1);
    {
      std::vector<Tensor> u;
      for (int l = 0; l <= lmax; ++l) {
        const Tensor x =
            at::cat({block_of(features.sender, irreps_in, l), block_of(features.receiver, irreps_in, l)}, 1);
        u.push_back(at::einsum("emn,ecn->emc", {d[l].to(type), x}));
      }
      int64_t column = 0;
      for (int m = 0; m <= mmax; ++m) {
        std::vector<Tensor> of_plus, of_minus;
        for (int l = m; l <= lmax; ++l) {
          of_plus.push_back(u[l].select(1, l + m));
          of_minus.push_back(u[l].select(1, l - m));
        }
        const Tensor factor = factors.narrow(1, column, (lmax + 1 - m) * channels);
        column += factor.size(1);
        plus[m] = factor * at::cat(of_plus, 1);
        if (m > 0) minus[m] = factor * at::cat(of_minus, 1);
      }
    }
    Tensor score;
    for (const Step &step : steps) {
      for (int m = 0; m <= mmax; ++m) {
        const Tensor p = plus[m], n = minus[m];
        plus[m] = at::matmul(p, step.same[m]);
        if (m == 0 && step.bias.defined()) plus[m] = plus[m] + step.bias;
        if (m == 0) continue;
        plus[m] = plus[m] - at::matmul(n, step.other[m]);
        minus[m] = at::matmul(p, step.other[m]) + at::matmul(n, step.same[m]);
      }
      if (step.to_points.defined()) {
        const Tensor of_step = multiply_functions(step, plus, minus);
        if (of_step.defined()) score = of_step;
      }
      if (!step.has_gate) continue;
      const int64_t mul = plus[0].size(1) / (2 * lmax + 1);
      const Tensor gates = activate(step.gates, plus[0].narrow(1, 0, lmax * mul));    // of l = 1 .. lmax
      const Tensor scalars = activate(step.scalars, plus[0].narrow(1, lmax * mul, mul));
      plus[0] = at::cat({scalars, gates * plus[0].narrow(1, (lmax + 1) * mul, lmax * mul)}, 1);
      for (int m = 1; m <= mmax; ++m) {
        const Tensor of_m = gates.narrow(1, (m - 1) * mul, (lmax + 1 - m) * mul);
        plus[m] = of_m * plus[m];
        minus[m] = of_m * minus[m];
      }
    }
    const Tensor cutoff = radial.cutoff_function(r, edges).to(type);
    const int64_t mul = irreps_out[0].mul;
    if (heads > 0) {
      const Tensor x = score.reshape({num, heads, scores});
      const Tensor y = at::layer_norm(x, {scores}, score_weight, score_bias, score_epsilon);
      const Tensor weight = at::exp(((0.2 * y + 0.8 * activate(Activation::silu, y)) * score_vector).sum(2));
      const Tensor value = (cutoff * weight).unsqueeze(2).expand({num, heads, mul / heads - 1});
      const Tensor weights = at::cat({value, weight.unsqueeze(2)}, 2).reshape({num, 1, mul});
      for (int m = 0; m <= mmax; ++m)
        for (std::vector<Tensor> *side : {&plus, &minus})
          if (m > 0 || side == &plus) (*side)[m] = (weights * (*side)[m].reshape({num, lmax + 1 - m, mul})).flatten(1);
    }
    std::vector<Tensor> out;
    for (int l = 0; l <= lmax; ++l) {
      std::vector<Tensor> rows;
      for (int m = -l; m <= l; ++m) {
        const int a = std::abs(m);
        rows.push_back(a > mmax ? at::zeros({num, mul}, plus[0].options())
                                : (m < 0 ? minus[a] : plus[a]).narrow(1, (l - a) * mul, mul));
      }
      out.push_back((cutoff * at::einsum("emn,emc->ecn", {d[l].to(type), at::stack(rows, 1)}).flatten(1)));
    }
    return at::cat(out, 1);
  }

  void evaluate(auto &run) const { run.sum_forward(*this, input, output); }
};

// The sum of a DensityNormalization.
struct TorchDensity : EdgeSum {
  int input, output;
  TorchRadial radial;
  double offset, factor;

  TorchDensity(const DensityNormalization &d, const Model &model, at::ScalarType type, double chunk_bytes)
      : EdgeSum(1, type),
        input(d.input),
        output(d.output),
        radial(d.density, type),
        offset(d.offset),
        factor(d.factor) {
    if (d.density.num_outputs() != 1 || model.features[input] != model.features[output])
      throw std::invalid_argument("TorchModel: a density normalization needs one density and equal irreps");
    set_numbers_per_row(radial.network.kept(), type, chunk_bytes);
  }

  Tensor terms(const EdgeFeatures &, const EdgeRows &edges) const override {
    return radial(edges.distance().unsqueeze(1), edges);
  }

  void evaluate(auto &run) const {
    const Tensor sum = run.sum_of(*this);
    run.write(output, run.owned(run.read(input)) / (offset + factor * sum), true);
  }
};

// Energies of edges, in float64.
struct TorchRepulsion : EdgeSum {
  Tensor prefactor, length, cutoff;    // [species, species]
  Tensor coefficients, exponents;
  double p;

  TorchRepulsion(const PairRepulsion &r, double chunk_bytes)
      : EdgeSum(1, at::kDouble),
        prefactor(to_tensor(r.prefactor, at::kDouble)),
        length(to_tensor(r.length, at::kDouble)),
        cutoff(to_tensor(r.cutoff, at::kDouble)),
        coefficients(to_tensor(r.coefficients, at::kDouble)),
        exponents(to_tensor(r.exponents, at::kDouble)),
        p(r.p) {
    set_numbers_per_row(20.0 + 4.0 * static_cast<double>(r.coefficients.size()), type, chunk_bytes);
  }

  Tensor terms(const EdgeFeatures &, const EdgeRows &edges) const override {
    const Tensor r = edges.distance().unsqueeze(1), u = at::clamp_max(r / edges.of_pair(cutoff), 1.0);
    const Tensor screening = at::matmul(at::exp(-r / edges.of_pair(length) * exponents), coefficients).unsqueeze(1);
    const Tensor f = at::where(u < 1.0, polynomial_cutoff_of(u, p), at::zeros_like(u));
    return edges.of_pair(prefactor) / r * screening * f;
  }

  void evaluate(auto &run) const {
    const Tensor sum = run.sum_of(*this);
    run.energy() = run.energy() + sum.select(1, 0);
  }
};

// Energies of pairs of charges, in float64.
struct TorchCoulomb : EdgeSum {
  int input;
  Tensor weights;    // [channels] float64
  CoulombFunction function;
  double cutoff;
  bool is_over_all_pairs;

  TorchCoulomb(const Coulomb &c, double chunk_bytes)
      : EdgeSum(1, at::kDouble),
        input(c.input),
        weights(to_tensor(c.weights, at::kDouble)),
        function(c.function),
        cutoff(c.cutoff),
        is_over_all_pairs(c.is_over_all_pairs) {
    reads_receiver = is_far = true;
    set_numbers_per_row(20.0 + 6.0 * static_cast<double>(c.weights.size()), type, chunk_bytes);
  }

  Tensor terms(const EdgeFeatures &x, const EdgeRows &edges) const override {
    const Tensor r = edges.distance().unsqueeze(1);
    Tensor k = function.prefactor * (1.0 / r + function.square * r.square() - function.shift);
    if (function.damping > 0.0) {
      const Tensor u = at::clamp_max(r / function.damping, 1.0 - 1e-6);
      k = k * (1.0 - at::exp(1.0 - 1.0 / (1.0 - u.square())));
    }
    return 0.5 * k * at::matmul((x.receiver * x.sender).to(at::kDouble), weights.unsqueeze(1));
  }

  void evaluate(auto &run) const {
    const Tensor sum = run.sum_of(*this, input);
    run.energy() = run.energy() + sum.select(1, 0);
  }
};

struct TorchContraction : Chunked {
  struct Term {
    int out, degree, dim;
    std::vector<Tensor> factors;    // [degree] of [entries]
    Tensor component, path, coefficient;
    Tensor weight;    // [species or 1, paths, mul]
  };
  int input, output;
  bool per_species;
  Irreps irreps_in, irreps_out;
  std::vector<Term> terms;

  TorchContraction(const SymmetricContraction &c, const Model &model, at::ScalarType type, double chunk_bytes)
      : Chunked(false),
        input(c.input),
        output(c.output),
        per_species(c.product.per_species),
        irreps_in(c.product.irreps_in),
        irreps_out(c.product.irreps_out) {
    c.product.validate();
    if (irreps_in != model.features[input] || irreps_out != model.features[output])
      throw std::invalid_argument("TorchModel: a symmetric contraction does not fit its features");
    double kept = 2.0 * irreps_in.dim() + 2.0 * irreps_out.dim();
    for (const ContractionTerm &t : c.product.terms) {
      Term term{t.out, t.degree, irreps_out[t.out].irrep.dim(), {}, {}, {}, {}, {}};
      std::vector<int> component, path;
      std::vector<std::vector<int>> factors(t.degree);
      std::vector<double> coefficient;
      for (const ContractionEntry &e : t.entries) {
        component.push_back(e.component);
        path.push_back(e.path);
        coefficient.push_back(e.coefficient);
        for (int n = 0; n < t.degree; ++n) factors[n].push_back(e.factor[n]);
      }
      term.component = to_tensor(component);
      term.path = to_tensor(path);
      term.coefficient = to_tensor(coefficient, type).unsqueeze(1);
      for (const std::vector<int> &f : factors) term.factors.push_back(to_tensor(f));
      std::vector<Tensor> weight;
      for (const Matrix &w : t.weight) weight.push_back(to_tensor(w, type));
      term.weight = at::stack(weight);
      kept += static_cast<double>(t.entries.size()) * irreps_in[0].mul * (2.0 * t.degree + 3.0);
      terms.push_back(std::move(term));
    }
    set_numbers_per_row(kept, type, chunk_bytes);
  }

  // x [rows, dim] and the species of its rows.
  Tensor operator()(const Tensor &x, const Tensor &species) const {
    const int64_t rows = x.size(0), mul = irreps_in[0].mul;
    std::vector<Tensor> components, out;
    for (int b = 0; b < irreps_in.size(); ++b) components.push_back(block_of(x, irreps_in, b).transpose(1, 2));
    const Tensor a = at::cat(components, 1);    // [rows, components of one channel, mul]
    for (const IrrepBlock &b : irreps_out) out.push_back(at::zeros({rows, b.irrep.dim(), mul}, x.options()));
    for (const Term &t : terms) {
      const Tensor weight = t.weight.index_select(0, per_species ? species : at::zeros_like(species));
      Tensor product = t.coefficient * weight.index_select(1, t.path);    // [rows, entries, mul]
      for (const Tensor &f : t.factors) product = product * a.index_select(1, f);
      out[t.out] = at::index_add(out[t.out], 1, t.component, product);
    }
    for (Tensor &t : out) t = t.transpose(1, 2).flatten(1);
    return at::cat(out, 1);
  }

  void evaluate(auto &run) const { run.contraction_forward(*this); }
};

struct TorchLinear {
  int input, output;
  bool per_species, accumulate;
  Irreps irreps_in, irreps_out;
  std::vector<LinearBlock> blocks;             // for the indices; their weights are emptied
  std::vector<std::vector<Tensor>> weights;    // [block][one or species]
  std::vector<Tensor> bias;                    // per output block; undefined: none

  TorchLinear(const Linear &l, const Model &model, at::ScalarType type)
      : input(l.input),
        output(l.output),
        per_species(l.per_species),
        accumulate(l.accumulate),
        irreps_in(model.features[l.input]),
        irreps_out(model.features[l.output]),
        bias(irreps_out.size()) {
    for (const LinearBlock &b : l.blocks) {
      blocks.push_back({b.in, b.out, {}});
      weights.emplace_back();
      for (const Matrix &m : b.weight) weights.back().push_back(to_tensor(m, type));
    }
    for (size_t k = 0; k < l.bias.size(); ++k)
      if (!l.bias[k].empty()) bias[k] = to_tensor(l.bias[k], type);
  }

  Tensor operator()(const Tensor &x, const Tensor &species) const {
    const int64_t rows = x.size(0);
    std::vector<Tensor> out(irreps_out.size());
    for (int k = 0; k < irreps_out.size(); ++k) {
      out[k] = at::zeros({rows, irreps_out[k].mul, irreps_out[k].irrep.dim()}, x.options());
      if (bias[k].defined()) out[k] = out[k] + bias[k].reshape({1, -1, 1});
    }
    for (size_t n = 0; n < blocks.size(); ++n) {
      const Tensor x_block = block_of(x, irreps_in, blocks[n].in);
      Tensor &y = out[blocks[n].out];
      if (!per_species) {
        y = y + at::einsum("uw,num->nwm", {weights[n][0], x_block});
        continue;
      }
      for (size_t s = 0; s < weights[n].size(); ++s) {
        const Tensor mine = at::nonzero(species == static_cast<int64_t>(s)).flatten();
        if (mine.numel() > 0)
          y = at::index_add(y, 0, mine, at::einsum("uw,num->nwm", {weights[n][s], x_block.index_select(0, mine)}));
      }
    }
    for (Tensor &t : out) t = t.flatten(1);
    return out.empty() ? at::zeros({rows, 0}, x.options()) : at::cat(out, 1);
  }

  void evaluate(auto &run) const {
    const Tensor x = run.read(input);
    Tensor y = (*this)(x, run.model.species.narrow(0, 0, x.size(0)));
    bool from_positions = run.geometric.at(input);
    if (accumulate) {
      Tensor before = run.read(output);
      from_positions = from_positions || run.geometric.at(output);
      if (from_positions) {
        y = run.owned(y);
        before = run.owned(before);
      }
      y = before + y;
    }
    run.write(output, y, from_positions);
  }
};

struct TorchGate {
  int input, output;
  Irreps irreps_in, irreps_out;
  std::vector<GateTerm> terms;

  TorchGate(const Gate &g, const Model &model)
      : input(g.input),
        output(g.output),
        irreps_in(model.features[g.input]),
        irreps_out(model.features[g.output]),
        terms(g.terms) {
    std::vector<int> count(irreps_out.size(), 0);
    for (const GateTerm &t : terms) ++count.at(t.out);
    if (std::any_of(count.begin(), count.end(), [](int c) { return c != 1; }))
      throw std::invalid_argument("TorchModel: a gate needs one term for each block of its output");
  }

  Tensor operator()(const Tensor &z) const {
    std::vector<Tensor> out(irreps_out.size());
    for (const GateTerm &t : terms) {
      const int64_t mul = irreps_out[t.out].mul;
      Tensor v = block_of(z, irreps_in, t.in).narrow(1, t.offset, mul);
      if (t.gate_in < 0)
        v = t.scale * activate(t.activation, v);
      else
        v = v * (t.scale * activate(t.activation, block_of(z, irreps_in, t.gate_in).narrow(1, t.gate_offset, mul)));
      out[t.out] = v.flatten(1);
    }
    return at::cat(out, 1);
  }

  void evaluate(auto &run) const { run.write(output, (*this)(run.read(input)), run.geometric.at(input)); }
};

struct TorchEmbedding {
  int output;
  Tensor weight;

  void evaluate(auto &run) const { run.write(output, weight.index_select(0, run.model.species), false); }
};

struct TorchReadout {
  int input, block;
  Irreps irreps;
  TorchNetwork network;

  void evaluate(auto &run) const {
    const Tensor x = run.owned(block_of(run.read(input), irreps, block).flatten(1));
    run.energy() = run.energy() + network(x).select(1, 0).to(at::kDouble);
  }
};

struct TorchScaleShift {
  Tensor scale, shift;

  void evaluate(auto &run) const {
    const Tensor s = run.owned(run.model.species);
    run.energy() = run.energy() * scale.index_select(0, s) + shift.index_select(0, s);
  }
};

struct TorchLayerNorm {
  int input, output;
  Tensor weight, bias;
  double epsilon;

  void evaluate(auto &run) const {
    const Tensor x = run.read(input);
    run.write(output, at::layer_norm(x, {x.size(1)}, weight, bias, epsilon), run.geometric.at(input));
  }
};

struct TorchChannelBalance {
  int input, output;
  int64_t first, share_first;    // columns; the latter -1: all atoms have the same share
  Tensor target;                 // [channels] float64
  double epsilon;

  // What a balance sums up [N, terms]: the balanced columns, and the weights of shares.
  Tensor terms(const Tensor &x) const {
    const Tensor balanced = x.narrow(1, first, target.size(0)).to(at::kDouble);
    return share_first < 0 ? balanced : at::cat({balanced, weights(x)}, 1);
  }
  // The balanced x [N, dim]; sums: of the terms over all atoms, and the number of these.
  Tensor operator()(const Tensor &x, const Tensor &sums) const {
    const int64_t channels = target.size(0);
    const Tensor missing = target - sums.narrow(0, 0, channels);
    const Tensor change = share_first < 0 ? (missing / sums.narrow(0, channels, 1)).expand({x.size(0), channels})
                                          : weights(x) * (missing / (sums.narrow(0, channels, channels) + epsilon));
    const Tensor balanced = x.narrow(1, first, channels) + change.to(x.scalar_type());
    return at::cat({x.narrow(1, 0, first), balanced, x.narrow(1, first + channels, x.size(1) - first - channels)}, 1);
  }
  Tensor weights(const Tensor &x) const { return x.narrow(1, share_first, target.size(0)).to(at::kDouble).square(); }

  void evaluate(auto &run) const { run.balance_forward(*this); }
};

struct TorchNodeProduct {
  int input, second_input, output;
  ChannelwiseProduct product;
  std::vector<Tensor> couplings;    // per path [2 l1+1, 2 l2+1, 2 l3+1], undefined for one of a single block

  TorchNodeProduct(const NodeProduct &n, at::ScalarType type)
      : input(n.input), second_input(n.second_input), output(n.output), product(n.product) {
    product.validate();
    for (const ChannelwisePath &p : product.paths) {
      couplings.emplace_back();
      if (p.second < 0) continue;
      const int l1 = product.irreps_in[p.first].irrep.l, l2 = product.irreps_in[p.second].irrep.l,
                l3 = product.irreps_out[p.out].irrep.l;
      couplings.back() = to_tensor(coupling(l1, l2, l3).data(), {2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1}, type);
    }
  }

  Tensor operator()(const Tensor &x) const {
    std::vector<Tensor> out;
    for (const IrrepBlock &b : product.irreps_out)
      out.push_back(at::zeros({x.size(0), b.mul, b.irrep.dim()}, x.options()));
    for (size_t q = 0; q < product.paths.size(); ++q) {
      const ChannelwisePath &p = product.paths[q];
      Tensor term = block_of(x, product.irreps_in, p.first);
      if (p.second >= 0)
        term = at::einsum("nua,nub,abc->nuc", {term, block_of(x, product.irreps_in, p.second), couplings[q]});
      out[p.out] = out[p.out] + p.scale * term;
    }
    for (Tensor &t : out) t = t.flatten(1);
    return at::cat(out, 1);
  }

  void evaluate(auto &run) const {
    Tensor x = run.read(input);
    bool from_positions = run.geometric.at(input);
    if (second_input >= 0) {
      Tensor second = run.read(second_input);
      from_positions = from_positions || run.geometric.at(second_input);
      if (from_positions) {
        x = run.owned(x);
        second = run.owned(second);
      }
      x = at::cat({x, second}, 1);
    }
    run.write(output, (*this)(x), from_positions);
  }
};

struct TorchNormScale {
  int input, output;
  Irreps irreps;
  double offset, factor;

  void evaluate(auto &run) const {
    const Tensor x = run.read(input);
    std::vector<Tensor> blocks;
    for (int b = 0; b < irreps.size(); ++b) blocks.push_back(block_of(x, irreps, b));
    const Tensor divisor = offset + factor * at::cat(blocks, 2).square().sum(2, /*keepdim=*/true);
    for (Tensor &block : blocks) block = (block / divisor).flatten(1);
    run.write(output, at::cat(blocks, 1), run.geometric.at(input));
  }
};

struct TorchSphericalNorm {
  int input, output;
  Irreps irreps;
  std::vector<NormGroup> groups;
  double epsilon;
  Tensor scale, bias;    // [blocks, channels, 1], [channels, 1] or undefined

  void evaluate(auto &run) const {
    const Tensor x = run.read(input);
    std::vector<Tensor> blocks(irreps.size());
    for (const NormGroup &group : groups) {
      Tensor squares = at::full({x.size(0), 1, 1}, epsilon, x.options());
      for (size_t k = 0; k < group.blocks.size(); ++k) {
        const int b = group.blocks[k];
        blocks[b] = block_of(x, irreps, b);
        if (group.center && is_scalar(b)) blocks[b] = blocks[b] - blocks[b].mean(1, /*keepdim=*/true);
        squares = squares + group.weights[k] * blocks[b].square().sum({1, 2}, /*keepdim=*/true);
      }
      for (const int b : group.blocks) {
        blocks[b] = scale[b] * blocks[b] * at::rsqrt(squares);
        if (bias.defined() && is_scalar(b)) blocks[b] = blocks[b] + bias;
      }
    }
    for (Tensor &block : blocks) block = block.flatten(1);
    run.write(output, at::cat(blocks, 1), run.geometric.at(input));
  }
  bool is_scalar(int block) const { return irreps[block].irrep == Irrep{0, 1}; }
};

struct TorchGridNetwork {
  int input, output;
  Irreps in, out;
  Tensor to, from;    // [points, components]
  TorchNetwork network;

  void evaluate(auto &run) const {
    const Tensor x = run.read(input);
    std::vector<Tensor> components;    // [N, channels, components of a block]
    for (int b = 0; b < in.size(); ++b) components.push_back(block_of(x, in, b));
    const Tensor values = at::einsum("nuc,pc->npu", {at::cat(components, 2), to});
    const Tensor results = network(values.reshape({-1, in[0].mul})).reshape({x.size(0), to.size(0), out[0].mul});
    const Tensor y = at::einsum("npu,pc->nuc", {results, from});
    std::vector<Tensor> blocks;
    int64_t first = 0;
    for (const IrrepBlock &b : out) {
      blocks.push_back(y.narrow(2, first, b.irrep.dim()).flatten(1));
      first += b.irrep.dim();
    }
    run.write(output, at::cat(blocks, 1), run.geometric.at(input));
  }
};

using TorchLayer =
    std::variant<TorchEmbedding, TorchLinear, TorchConvolution, TorchSo2Convolution, TorchGate, TorchDensity,
                 TorchLayerNorm, TorchChannelBalance, TorchNodeProduct, TorchNormScale, TorchSphericalNorm,
                 TorchGridNetwork, TorchContraction, TorchReadout, TorchRepulsion, TorchCoulomb, TorchScaleShift>;

// The part of a layer that is worked on in chunks, or null.
inline const Chunked *chunked_part(const TorchLayer &layer) {
  return std::visit(
      [](const auto &l) -> const Chunked * {
        if constexpr (std::is_base_of_v<Chunked, std::decay_t<decltype(l)>>)
          return &l;
        else
          return nullptr;
      },
      layer);
}

struct LayerBuilder {
  const Model &model;
  at::ScalarType type;
  double chunk_bytes;

  TorchLayer operator()(const SpeciesEmbedding &l) const { return TorchEmbedding{l.output, to_tensor(l.weight, type)}; }
  TorchLayer operator()(const Linear &l) const { return TorchLinear(l, model, type); }
  TorchLayer operator()(const Convolution &l) const { return TorchConvolution(l, type, chunk_bytes); }
  TorchLayer operator()(const So2Convolution &l) const { return TorchSo2Convolution(l, model, type, chunk_bytes); }
  TorchLayer operator()(const Gate &l) const { return TorchGate(l, model); }
  TorchLayer operator()(const DensityNormalization &l) const { return TorchDensity(l, model, type, chunk_bytes); }
  TorchLayer operator()(const LayerNorm &l) const {
    return TorchLayerNorm{l.input, l.output, to_tensor(l.weight, type), to_tensor(l.bias, type), l.epsilon};
  }
  TorchLayer operator()(const ChannelBalance &l) const {
    const Irreps &irreps = model.features[l.input];
    return TorchChannelBalance{l.input,
                               l.output,
                               irreps.offset(l.block) + l.first,
                               l.has_shares() ? irreps.offset(l.share_block) + l.share_first : -1,
                               to_tensor(l.target, at::kDouble),
                               l.epsilon};
  }
  TorchLayer operator()(const NodeProduct &l) const { return TorchNodeProduct(l, type); }
  TorchLayer operator()(const NormScale &l) const {
    return TorchNormScale{l.input, l.output, model.features[l.input], l.offset, l.factor};
  }
  TorchLayer operator()(const SphericalNorm &l) const {
    TorchSphericalNorm norm{
        l.input, l.output, model.features[l.input], l.groups, l.epsilon, to_tensor(l.scale, type).unsqueeze(2), {}};
    if (!l.bias.empty()) norm.bias = to_tensor(l.bias, type).unsqueeze(1);
    return norm;
  }
  TorchLayer operator()(const GridNetwork &l) const {
    return TorchGridNetwork{l.input,
                            l.output,
                            model.features[l.input],
                            model.features[l.output],
                            to_tensor(l.to_points, type),
                            to_tensor(l.from_points, type),
                            TorchNetwork(l.network, type)};
  }
  TorchLayer operator()(const SymmetricContraction &l) const { return TorchContraction(l, model, type, chunk_bytes); }
  TorchLayer operator()(const PairRepulsion &l) const { return TorchRepulsion(l, chunk_bytes); }
  TorchLayer operator()(const Coulomb &l) const { return TorchCoulomb(l, chunk_bytes); }
  TorchLayer operator()(const Readout &l) const {
    return TorchReadout{l.input, l.block, model.features[l.input], TorchNetwork(l.network, type)};
  }
  TorchLayer operator()(const ScaleShift &l) const {
    return TorchScaleShift{to_tensor(l.scale, at::kDouble), to_tensor(l.shift, at::kDouble)};
  }
};

}    // namespace torch_layers
}    // namespace equi

#endif
