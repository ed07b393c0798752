// SPDX-License-Identifier: MIT
// The SO(2) convolution as ATen operators. Part of torch_layers.h.
#ifndef EQUI_TORCH_SO2_CONVOLUTION_H
#define EQUI_TORCH_SO2_CONVOLUTION_H

#include "src/algebra/coupling.h"
#include "src/model/model.h"
#include "src/reference/torch_edge_layers.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace equi {
namespace torch_layers {

// Messages in the frames of edges. Autograd differentiates the rotations, which are polynomials in the unit vectors.
struct TorchSo2Convolution : SumOverEdges {
  struct Step {
    std::vector<Tensor> same, other;    // per m; `other` is undefined for m = 0
    Tensor bias;                        // or undefined
    bool has_gate;
    Activation scalars, gates;
    Tensor to_points, from_points;    // for a product or activation, [points, components l by l]; or undefined
    int64_t channels;                 // for a product: of both factors
    bool is_product;
    Activation at_points;    // used by an activation at points
    bool has_scalars;
  };
  int input, output, lmax, mmax, radial_linear;
  TorchRadial radial;
  Irreps irreps_in, irreps_out;
  std::vector<Tensor> couplings;    // couplings of 1 and l-1 to l, from l = 2 on
  std::vector<Step> steps;
  int heads, scores;    // attention, if there is any
  Tensor score_weight, score_bias, score_vector;
  double score_epsilon;

  TorchSo2Convolution(const So2Convolution &c, const Model &model, at::ScalarType type, double chunk_bytes)
      : SumOverEdges(model.features[c.output].dim() + c.attention.heads, type),
        input(c.input),
        output(c.output),
        lmax(c.lmax),
        mmax(c.mmax),
        radial_linear(c.radial_linear),
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
      Step step{{},
                {},
                {},
                linear.has_gate,
                linear.scalar_activation,
                linear.gate_activation,
                {},
                {},
                linear.channels_out,
                linear.has_product(),
                linear.at_points.at_points,
                linear.at_points.has_scalars};
      if (linear.has_points()) {
        step.scalars = linear.at_points.scalars;
        step.to_points = to_tensor(linear.at_points.to_points, type);
        step.from_points = to_tensor(linear.at_points.from_points, type);
        kept += 4.0 * linear.at_points.to_points.rows * linear.channels_out;
      }
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

  // D_l for edges [E, 2l+1, 2l+1] for each l, in float64.
  std::vector<Tensor> rotations(const Tensor &unit) const {
    // The x axis of the frame is made from the first axis along which the direction is smallest, or almost. It is made
    // orthogonal to the direction.
    const Tensor part = unit.detach().abs(), is_least = part <= std::get<0>(part.min(1, /*keepdim=*/true)) + 1e-3;
    const Tensor first = (is_least * at::arange(3, 0, -1)).argmax(1);
    const Tensor axis = at::one_hot(first, 3).to(at::kDouble);
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

  // Applies a step with a product or an activation at points to the components. Returns the scores of attention, which
  // follow its scalars and gates.
  Tensor act_on_functions(const Step &step, std::vector<Tensor> &plus, std::vector<Tensor> &minus) const {
    const int64_t channels = step.channels, orders = lmax + 1, before = plus[0].size(1) - orders * channels;
    const int64_t own = (step.is_product ? 2 : step.has_scalars ? 1 : 0) * channels;    // numbers before the scores
    const Tensor first = plus[0].narrow(1, 0, before), components = plus[0].narrow(1, before, orders * channels);
    // All components, l by l, as [E, components, channels].
    std::vector<Tensor> all;
    for (int l = 0; l <= lmax; ++l)
      for (int m = -std::min(l, mmax); m <= std::min(l, mmax); ++m) {
        const int a = std::abs(m);
        all.push_back((m == 0 ? components : m < 0 ? minus[a] : plus[a]).narrow(1, (l - a) * channels, channels));
      }
    const Tensor at_points = at::einsum("pk,ekc->epc", {step.to_points, at::stack(all, 1)});
    const auto from_points = [&](const Tensor &values) {
      return at::einsum("pk,epc->ekc", {step.from_points, values});
    };
    Tensor made, scalars;    // scalars: added to l = 0, or replacing it
    if (step.is_product) {
      const int64_t factor = channels / 2;
      made = activate(step.gates, first.narrow(1, channels, factor)).unsqueeze(1) *
             from_points(at_points.narrow(2, 0, factor) * at_points.narrow(2, factor, factor));
      scalars = activate(step.scalars, first.narrow(1, 0, factor)) * first.narrow(1, factor, factor);
    } else {
      made = from_points(activate(step.at_points, at_points));
      if (step.has_scalars) scalars = activate(step.scalars, first.narrow(1, 0, channels));
    }
    for (int m = 0; m <= mmax; ++m) {
      std::vector<Tensor> of_plus, of_minus;
      int64_t begin = 0;
      for (int l = 0; l <= lmax; begin += 2 * std::min(l, mmax) + 1, ++l) {
        if (l < m) continue;
        const int64_t middle = begin + std::min(l, mmax);
        of_plus.push_back(made.select(1, middle + m));
        of_minus.push_back(made.select(1, middle - m));
      }
      if (m == 0 && scalars.defined()) of_plus[0] = step.is_product ? of_plus[0] + scalars : scalars;
      plus[m] = at::cat(of_plus, 1);
      if (m > 0) minus[m] = at::cat(of_minus, 1);
    }
    return heads > 0 && before > own ? first.narrow(1, own, heads * scores) : Tensor();
  }

  // For edges: in their frames the components of +m and of -m, l by l, and the scores [E, heads] of attention.
  struct Messages {
    std::vector<Tensor> rotations, plus, minus;
    Tensor cutoff, score;
  };

  Messages messages(const EdgeFeatures &features, const EdgeRows &edges) const {
    const Tensor r = edges.distance().unsqueeze(1);
    const std::vector<Tensor> d = rotations(edges.vec / r);
    const int64_t num = edges.size();
    const Tensor factors = radial(r, edges);
    // Drop components of m beyond mmax.
    std::vector<Tensor> plus(mmax + 1), minus(mmax + 1);
    {
      std::vector<Tensor> u;
      for (int l = 0; l <= lmax; ++l) {
        const Tensor x =
            at::cat({block_of(features.sender, irreps_in, l), block_of(features.receiver, irreps_in, l)}, 1);
        u.push_back(at::einsum("emn,ecn->emc", {d[l].to(type), x}));
      }
      for (int m = 0; m <= mmax; ++m) {
        std::vector<Tensor> of_plus, of_minus;
        for (int l = m; l <= lmax; ++l) {
          of_plus.push_back(u[l].select(1, l + m));
          of_minus.push_back(u[l].select(1, l - m));
        }
        plus[m] = at::cat(of_plus, 1);
        if (m > 0) minus[m] = at::cat(of_minus, 1);
      }
    }
    Tensor score;
    for (size_t k = 0; k < steps.size(); ++k) {
      const Step &step = steps[k];
      int64_t column = 0;    // column of the radial factors
      for (int m = 0; static_cast<int>(k) == radial_linear && m <= mmax; ++m) {
        const Tensor factor = factors.narrow(1, column, plus[m].size(1));
        column += factor.size(1);
        plus[m] = factor * plus[m];
        if (m > 0) minus[m] = factor * minus[m];
      }
      for (int m = 0; m <= mmax; ++m) {
        const Tensor p = plus[m], n = minus[m];
        plus[m] = at::matmul(p, step.same[m]);
        if (m == 0 && step.bias.defined()) plus[m] = plus[m] + step.bias;
        if (m == 0) continue;
        plus[m] = plus[m] - at::matmul(n, step.other[m]);
        minus[m] = at::matmul(p, step.other[m]) + at::matmul(n, step.same[m]);
      }
      if (step.to_points.defined()) {
        const Tensor of_step = act_on_functions(step, plus, minus);
        if (of_step.defined()) score = of_step;
      }
      if (!step.has_gate) continue;
      const int64_t mul = plus[0].size(1) / (2 * lmax + 1);
      const Tensor gates = activate(step.gates, plus[0].narrow(1, 0, lmax * mul));    // gates for l = 1 .. lmax
      const Tensor scalars = activate(step.scalars, plus[0].narrow(1, lmax * mul, mul));
      plus[0] = at::cat({scalars, gates * plus[0].narrow(1, (lmax + 1) * mul, lmax * mul)}, 1);
      for (int m = 1; m <= mmax; ++m) {
        const Tensor of_m = gates.narrow(1, (m - 1) * mul, (lmax + 1 - m) * mul);
        plus[m] = of_m * plus[m];
        minus[m] = of_m * minus[m];
      }
    }
    if (heads > 0) {
      const Tensor x = score.reshape({num, heads, scores});
      const Tensor y = at::layer_norm(x, {scores}, score_weight, score_bias, score_epsilon);
      score = ((0.2 * y + 0.8 * activate(Activation::silu, y)) * score_vector).sum(2);
    }
    return {d, plus, minus, radial.cutoff_function(r, edges).to(type), score};
  }

  // t + log f
  Tensor exponents(const EdgeFeatures &features, const EdgeRows &edges) const override {
    if (heads == 0) return {};
    const Messages made = messages(features, edges);
    return made.score + at::log(made.cutoff);
  }

  // Components of each l [E, 2l+1, channels]; those of m beyond mmax are 0. With attention these are not yet divided by
  // the sums of exponentials, which follow them, one for each head.
  Tensor terms(const EdgeFeatures &features, const EdgeRows &edges) const override {
    auto [d, plus, minus, cutoff, score] = messages(features, edges);
    const int64_t num = edges.size(), mul = irreps_out[0].mul;
    Tensor exponential;
    if (heads > 0) {
      // An edge at the cutoff has no exponential; it may be a receiver's only edge.
      const Tensor exponent = at::where(cutoff > 0.0, score - features.largest, at::zeros_like(score));
      exponential = cutoff * at::exp(exponent);
      const Tensor weights = exponential.repeat_interleave(mul / heads, 1).unsqueeze(1);
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
    if (heads > 0) out.push_back(exponential);
    return at::cat(out, 1);
  }

  // Sums of messages divided by those of exponentials; a receiver without edges has none.
  Tensor divided(const Tensor &sums) const {
    const int64_t mul = irreps_out[0].mul, dim = irreps_out.dim();
    const Tensor sum = sums.narrow(1, dim, heads);
    const Tensor factors =
        at::where(sum > 0.0, 1.0 / at::where(sum > 0.0, sum, at::ones_like(sum)), at::zeros_like(sum));
    std::vector<Tensor> out;
    for (int l = 0; l <= lmax; ++l) {
      const Tensor of_l =
          sums.narrow(1, mul * l * l, mul * (2 * l + 1)).reshape({-1, heads, mul / heads * (2 * l + 1)});
      out.push_back((factors.unsqueeze(2) * of_l).flatten(1));
    }
    return at::cat(out, 1);
  }

  void evaluate(auto &run) const {
    if (heads == 0) return run.sum_forward(*this, input, output);
    const Tensor sums = run.sum_of(*this, input);
    run.write(output, divided(sums), true);
  }
};

inline TorchSo2Convolution make_layer(const So2Convolution &l, const LayerOptions &o) {
  return {l, o.model, o.type, o.chunk_bytes};
}

}    // namespace torch_layers
}    // namespace equi

#endif
