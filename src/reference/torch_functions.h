// SPDX-License-Identifier: MIT
// The functions of src/functions and the harmonics as ATen operators. Part of torch_model.cpp only: Torch's
// headers are slow to compile and stay in one source.
#ifndef EQUI_TORCH_FUNCTIONS_H
#define EQUI_TORCH_FUNCTIONS_H

#include "src/algebra/irreps.h"
#include "src/functions/radial_function.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

namespace equi {
namespace torch_layers {

using at::Tensor;

inline Tensor to_tensor(const double *data, at::IntArrayRef shape, at::ScalarType type) {
  Tensor t = at::empty(shape, at::kDouble);
  std::copy(data, data + t.numel(), t.data_ptr<double>());
  return t.to(type);
}

inline Tensor to_tensor(const std::vector<double> &data, at::ScalarType type) {
  return to_tensor(data.data(), {static_cast<int64_t>(data.size())}, type);
}

inline Tensor to_tensor(const Matrix &m, at::ScalarType type) {
  return to_tensor(m.data.data(), {m.rows, m.cols}, type);
}

inline Tensor to_tensor(const std::vector<int> &data) {
  Tensor t = at::empty({static_cast<int64_t>(data.size())}, at::kLong);
  std::copy(data.begin(), data.end(), t.data_ptr<int64_t>());
  return t;
}

inline Tensor activate(Activation a, const Tensor &x) {
  switch (a) {
    case Activation::identity:
      return x;
    case Activation::silu:
      return x * at::sigmoid(x);
    case Activation::tanh:
      return at::tanh(x);
    case Activation::sigmoid:
      return at::sigmoid(x);
    case Activation::relu:
      return at::relu(x);
    case Activation::abs:
      return at::abs(x);
    // Beyond the threshold ATen returns x itself. This one is large enough that log(1 + e^x) = x also in float64; the
    // default is not.
    case Activation::ssp:
      return at::softplus(x, 1.0, 40.0) - std::log(2.0);
    case Activation::mish:
      return x * at::tanh(at::softplus(x, 1.0, 40.0));
    case Activation::gelu:
      return at::gelu(x);
  }
  throw std::invalid_argument("TorchModel: unknown activation");
}

// Block b of a feature [rows, dim] as [rows, mul, 2l+1].
inline Tensor block_of(const Tensor &x, const Irreps &irreps, int b) {
  return x.narrow(1, irreps.offset(b), irreps[b].dim()).reshape({x.size(0), irreps[b].mul, irreps[b].irrep.dim()});
}

// Harmonics of unit vectors [E, 3] for l = 0..lmax as [E, (lmax+1)^2]: Y_lm = norm * Pi_l^a(y) * (C_a or S_a). Here a =
// |m|, (z + i x)^a = C_a + i S_a, and Pi_l^a is the a-th derivative of the Legendre polynomial P_l.
inline Tensor harmonics(const Tensor &unit, int lmax) {
  const Tensor x = unit.select(1, 0), y = unit.select(1, 1), z = unit.select(1, 2);
  std::vector<Tensor> c = {at::ones_like(x)}, s = {at::zeros_like(x)};
  for (int a = 0; a < lmax; ++a) {
    c.push_back(c[a] * z - s[a] * x);
    s.push_back(s[a] * z + c[a] * x);
  }
  std::map<std::pair<int, int>, Tensor> pi;
  double double_factorial = 1.0;    // (2a-1)!!
  for (int a = 0; a <= lmax; ++a) {
    if (a > 0) double_factorial *= 2 * a - 1;
    pi[{a, a}] = at::full_like(y, double_factorial);
    for (int l = a + 1; l <= lmax; ++l) {
      Tensor p = (2.0 * l - 1.0) * y * pi[{l - 1, a}];
      if (l > a + 1) p = p - (l + a - 1.0) * pi[{l - 2, a}];
      pi[{l, a}] = p / (l - a);
    }
  }
  std::vector<Tensor> columns;
  for (int l = 0; l <= lmax; ++l)
    for (int m = -l; m <= l; ++m) {
      const int a = std::abs(m);
      double ratio = 1.0;    // (l-a)! / (l+a)!
      for (int k = l - a + 1; k <= l + a; ++k) ratio /= k;
      const double norm = std::sqrt((2 * l + 1) * (m == 0 ? 1.0 : 2.0) * ratio);
      columns.push_back(norm * pi[{l, a}] * (m >= 0 ? c[a] : s[a]));
    }
  return at::stack(columns, 1);
}

struct TorchNetwork {
  std::vector<Tensor> weights, biases;              // an undefined bias means none
  std::vector<Tensor> norm_weights, norm_biases;    // undefined: no norm
  std::vector<double> norm_epsilons;
  Activation activation;
  double scale;

  TorchNetwork(const Network &n, at::ScalarType type) : activation(n.activation), scale(n.activation_scale) {
    for (size_t k = 0; k < n.weights.size(); ++k) {
      weights.push_back(to_tensor(n.weights[k], type));
      biases.push_back(n.has_bias(k) ? to_tensor(n.biases[k], type) : Tensor());
      const bool has_norm = k < n.norms.size() && !n.norms[k].weight.empty();
      norm_weights.push_back(has_norm ? to_tensor(n.norms[k].weight, type) : Tensor());
      norm_biases.push_back(has_norm ? to_tensor(n.norms[k].bias, type) : Tensor());
      norm_epsilons.push_back(has_norm ? n.norms[k].epsilon : 0.0);
    }
  }

  Tensor operator()(Tensor h) const {
    for (size_t k = 0; k < weights.size(); ++k) {
      h = at::matmul(h, weights[k]);
      if (biases[k].defined()) h = h + biases[k];
      if (k + 1 == weights.size()) break;
      if (norm_weights[k].defined())
        h = at::layer_norm(h, {h.size(1)}, norm_weights[k], norm_biases[k], norm_epsilons[k]);
      h = scale * activate(activation, h);
    }
    return h;
  }

  // Numbers per row that autograd keeps: the inputs and the hidden layers with their activations.
  double kept() const {
    double sum = static_cast<double>(weights.front().size(0));
    for (const Tensor &w : weights) sum += 5.0 * w.size(1);
    return sum;
  }
};

// The data from which a sum over edges is computed.
struct EdgeRows {
  Tensor vec;                                 // [E, 3] float64
  Tensor receiver_species, sender_species;    // [E] int64
  Tensor receiver;                            // rows of the receivers, which do not decrease [E] int64

  int64_t size() const { return vec.size(0); }
  Tensor distance() const { return vec.square().sum(1).sqrt(); }    // [E]
  // The numbers of a matrix [receiver species, sender species] as [E, 1].
  Tensor pair_values(const Tensor &matrix) const {
    return matrix.flatten().index_select(0, receiver_species * matrix.size(1) + sender_species).unsqueeze(1);
  }
};

// The feature that a sum over edges reads, for the atoms of each edge [E, dim]; undefined if it is not read.
struct EdgeFeatures {
  Tensor sender, receiver;
  Tensor largest;    // largest exponent of the receiver (SumOverEdges::exponents)
};

inline Tensor polynomial_cutoff_of(const Tensor &u, double p) {
  return 1.0 - (p + 1) * (p + 2) / 2 * at::pow(u, p) + p * (p + 2) * at::pow(u, p + 1) -
         p * (p + 1) / 2 * at::pow(u, p + 2);
}

inline Tensor cosine_cutoff_of(const Tensor &u) {
  return 0.5 * (1.0 + at::cos(3.14159265358979323846 * u));
}

// The switch of switch_function.h.
inline Tensor switch_of(const Tensor &r, double on, double off) {
  const auto g = [](const Tensor &x) {
    return at::where(x > 0.0, at::exp(-1.0 / at::clamp_min(x, 1e-3)), at::zeros_like(x));
  };
  const Tensor c = (r - on) / (off - on), inner = g(1.0 - c);
  return inner / (inner + g(c) + 1e-12);
}

// The radial basis: distances [E, 1] in float64 to its functions [E, n].
struct TorchBasis {
  Tensor wave_numbers, centers, binomials;    // defined for the kinds that have them
  Tensor exponentials;                        // [2, functions], defined for the kind that has them
  Tensor cutoff, r0;                          // a number, or [species, species]
  RadialBasis basis;

  explicit TorchBasis(const RadialBasis &b) : basis(b) {
    const auto matrix = [](const Matrix &m) { return m.data.empty() ? Tensor() : to_tensor(m, at::kDouble); };
    wave_numbers = to_tensor(basis.wave_numbers, at::kDouble);
    centers = to_tensor(basis.centers, at::kDouble);
    binomials = to_tensor(basis.binomials, at::kDouble);
    exponentials = to_tensor(basis.exponentials, at::kDouble).reshape({2, -1});
    cutoff = matrix(basis.pair_cutoff);
    r0 = matrix(basis.pair_r0);
  }

  // The cutoff of each edge as [E, 1], or one for all.
  Tensor cutoff_of(const EdgeRows &edges) const {
    return cutoff.defined() ? edges.pair_values(cutoff) : at::full({1, 1}, basis.cutoff, at::kDouble);
  }

  Tensor cutoff_function(const Tensor &r, const EdgeRows &edges) const {
    if (basis.cutoff_kind == RadialBasis::Cutoff::polynomial)
      return polynomial_cutoff_of(r / cutoff_of(edges), basis.p);
    if (basis.cutoff_kind == RadialBasis::Cutoff::cosine) return cosine_cutoff_of(r / cutoff_of(edges));
    if (basis.cutoff_kind == RadialBasis::Cutoff::none) return at::ones_like(r);
    const double c = basis.cutoff;
    // No switching range: the quotient below would be infinite, and where() would propagate its derivative as NaN.
    if (basis.r_on >= c) return at::ones_like(r);
    const Tensor rr = r * r;
    const double cc = c * c, oo = basis.r_on * basis.r_on;
    const Tensor outer = (cc - rr).square() * (cc + 2.0 * rr - 3.0 * oo) / std::pow(cc - oo, 3);
    return at::where(r < basis.r_on, at::ones_like(r), outer);
  }

  Tensor transformed(const Tensor &r, const EdgeRows &edges) const {
    if (basis.transform == RadialBasis::Transform::none) return r * (basis.cutoff / cutoff_of(edges));
    const Tensor own = edges.pair_values(r0);
    if (basis.transform == RadialBasis::Transform::agnesi) {
      const Tensor u = r / own;
      const double q = basis.agnesi_q, p = basis.agnesi_p;
      return 1.0 / (1.0 + basis.agnesi_a * at::pow(u, q) / (1.0 + at::pow(u, q - p)));
    }
    const Tensor p0 = 3.0 / 4.0 * own, p1 = 4.0 / 3.0 * own;
    return p0 + (r - p0) * (1.0 + at::tanh(basis.soft_alpha / (p1 - p0) * (r - (p0 + p1) / 2.0))) / 2.0;
  }

  // [E, functions], without the cutoff function.
  Tensor functions(const Tensor &x) const {
    switch (basis.kind) {
      case RadialBasis::Kind::gaussian:
        return at::exp(-0.5 * ((x - centers) / basis.width).square());
      case RadialBasis::Kind::exp_normal:
        return at::exp(-exponentials[1] * (at::exp(-basis.decay * x) - exponentials[0]).square());
      case RadialBasis::Kind::bernstein: {
        const Tensor k = at::arange(basis.size(), at::kDouble);
        const Tensor z = at::clamp_min(at::exp(-basis.decay * x), RadialBasis::LEAST_Z);
        return binomials * at::pow(z, k) * at::pow(1.0 - z, basis.size() - 1.0 - k);
      }
      case RadialBasis::Kind::chebyshev: {
        std::vector<Tensor> t = {at::ones_like(x), x};
        while (static_cast<int>(t.size()) <= basis.num_polynomials)
          t.push_back(2.0 * x * t[t.size() - 1] - t[t.size() - 2]);
        t.erase(t.begin());
        return at::cat(t, 1);
      }
      case RadialBasis::Kind::cosine_bump: {
        const Tensor k = at::arange(basis.size(), at::kDouble);
        const Tensor v = (basis.size() / basis.cutoff * x - k + basis.span) / (basis.span + 1.0);
        return at::sin(std::acos(-1.0) * at::clamp(v, 0.0, 1.0)).pow(4);
      }
      case RadialBasis::Kind::bessel:
        break;
    }
    return basis.prefactor * at::sin(x * wave_numbers) / x;
  }

  // Times the cutoff function, unless a layer applies it later.
  Tensor values(const Tensor &r, const EdgeRows &edges) const {
    const Tensor b = functions(transformed(r, edges));
    return basis.apply_cutoff ? b * cutoff_function(r, edges) : b;
  }
};

// Radial functions of one convolution or density: distances [E, 1] in float64 to weights [E, columns].
struct TorchRadial : TorchBasis {
  Tensor power;                             // [columns]: undefined if all are zero
  Tensor sender, receiver;                  // [species, n], or undefined
  Tensor sender_factor, receiver_factor;    // [species, columns], or undefined
  int sender_block, receiver_block;         // block of the convolution's input, or -1
  TorchNetwork network;
  std::optional<RadialGate> gate;
  Tensor gate_weight, gate_bias;    // of the gate's norm
  Tensor charge_width;              // [receiver, sender], or undefined
  double charge_p = 0.0;            // of the cutoff function
  RadialFunction::Output output;
  bool times_cutoff;
  at::ScalarType type;

  TorchRadial(const RadialFunction &f, at::ScalarType type)
      : TorchBasis(f.basis),
        sender_block(f.sender_block),
        receiver_block(f.receiver_block),
        network(f.network, type),
        gate(f.gate),
        output(f.output),
        times_cutoff(f.times_cutoff),
        type(type) {
    const auto matrix = [&](const Matrix &m) { return m.data.empty() ? Tensor() : to_tensor(m, type); };
    sender = matrix(f.sender);
    receiver = matrix(f.receiver);
    sender_factor = matrix(f.sender_factor);
    receiver_factor = matrix(f.receiver_factor);
    if (gate) {
      gate_weight = to_tensor(gate->norm.weight, type);
      gate_bias = to_tensor(gate->norm.bias, type);
    }
    if (f.charge_potential) {
      charge_width = to_tensor(f.charge_potential->widths, at::kDouble);
      charge_p = f.charge_potential->p;
    }
    if (std::any_of(f.r_power.begin(), f.r_power.end(), [](int p) { return p != 0; }))
      power = to_tensor(f.r_power).to(at::kDouble);
  }

  // x: features of the two atoms [E, dim], with irreps `irreps`; read if blocks of it are inputs of the network.
  Tensor operator()(const Tensor &r, const EdgeRows &edges, const EdgeFeatures &x = {},
                    const Irreps &irreps = {}) const {
    std::vector<Tensor> inputs = {values(r, edges).to(type)};
    if (sender.defined()) inputs.push_back(sender.index_select(0, edges.sender_species));
    if (sender_block >= 0) inputs.push_back(block_of(x.sender, irreps, sender_block).flatten(1));
    if (receiver.defined()) inputs.push_back(receiver.index_select(0, edges.receiver_species));
    if (receiver_block >= 0) inputs.push_back(block_of(x.receiver, irreps, receiver_block).flatten(1));
    Tensor w = network(at::cat(inputs, 1));
    if (gate) w = gated(w, inputs.back());
    if (sender_factor.defined())
      w = w * (receiver_factor.index_select(0, edges.receiver_species) +
               sender_factor.index_select(0, edges.sender_species));
    if (output == RadialFunction::Output::tanh_square) w = at::tanh(w.square());
    if (output == RadialFunction::Output::activated) w = network.scale * activate(network.activation, w);
    if (times_cutoff) w = w * cutoff_function(r, edges).to(type);
    if (charge_width.defined()) w = w * potential_of_charge(r, edges).to(type);
    if (power.defined()) w = w * at::pow(r, power).to(type);
    return w;
  }

  Tensor potential_of_charge(const Tensor &r, const EdgeRows &edges) const {
    return at::erf(r / edges.pair_values(charge_width)) / r * polynomial_cutoff_of(r / cutoff_of(edges), charge_p);
  }

  // Values and keys [E, 2 columns] to weights; the receiver's inputs end with the query.
  Tensor gated(const Tensor &values_and_keys, const Tensor &of_receiver) const {
    const int64_t n = values_and_keys.size(1) / 2;
    const Tensor query = of_receiver.narrow(1, of_receiver.size(1) - n, n);
    const Tensor products = gate->scale * query * values_and_keys.narrow(1, n, n);
    return values_and_keys.narrow(1, 0, n) *
           at::sigmoid(at::layer_norm(products, {n}, gate_weight, gate_bias, gate->norm.epsilon));
  }
};

}    // namespace torch_layers
}    // namespace equi

#endif
