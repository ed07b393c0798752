// SPDX-License-Identifier: MIT
// Evaluates the radial basis and radial functions with their derivatives.
#include "src/functions/radial_function.h"

#include "src/functions/basis_functions.h"
#include "src/functions/error_function.h"

#include <algorithm>
#include <stdexcept>

namespace equi {

namespace {

// Distances whose functions are evaluated together. In tables they are close to each other, so few functions are
// nonzero.
constexpr int DISTANCES_AT_ONCE = 32;
// In widths of a Gaussian. Beyond this distance it is below 1e-31, and its derivatives do not change a sum with numbers
// near 1.
constexpr double GAUSSIAN_REACH = 12.0;

void require_one_pair(bool depends_on_pair) {
  if (depends_on_pair)
    throw std::logic_error("a radial function that depends on the species was evaluated without for_pair()");
}

void require_no_features(const RadialFunction &f) {
  if (f.reads_features()) throw std::logic_error("a radial function of atoms' features was evaluated without them");
}

// from [order+1][2 n]: derivatives of values and keys at one distance; out [order+1][n]: those of the gated values.
void apply_gate(const RadialGate &gate, int order, size_t n, const double *from, double *out) {
  for (int k = 0; k <= order; ++k)
    for (size_t j = 0; j < n; ++j) out[k * n + j] = gate.scale * gate.query[j] * from[(2 * k + 1) * n + j];
  normalize(gate.norm, 1, order, static_cast<int>(n), out);
  for (size_t j = 0; j < n; ++j) {
    const Jet y = Jet::load(out + j, order, n);
    double d[Jet::MAX_ORDER + 1] = {};
    activation_derivatives(Activation::sigmoid, y.value(), order, d);
    (Jet::load(from + j, order, 2 * n) * compose(d, y)).store(out + j, order, n);
  }
}

Jet potential_of_charge(const ChargePotential &charge, const RadialBasis &basis, double r) {
  const Jet distance = Jet::variable(r);
  return 1.0 / charge.width * error_function_quotient(1.0 / charge.width * distance) *
         polynomial_cutoff(1.0 / basis.cutoff * distance, charge.p);
}

}    // namespace

int RadialBasis::size() const {
  switch (kind) {
    case Kind::gaussian:
      return static_cast<int>(centers.size());
    case Kind::chebyshev:
    case Kind::cosine_bump:
      return num_polynomials;
    case Kind::exp_normal:
      return static_cast<int>(exponentials.size() / 2);
    case Kind::bernstein:
      return static_cast<int>(binomials.size());
    case Kind::bessel:
      break;
  }
  return static_cast<int>(wave_numbers.size());
}

RadialBasis RadialBasis::for_pair(int receiver, int sender) const {
  RadialBasis b = *this;
  if (!pair_r0.data.empty()) b.r0 = pair_r0(receiver, sender);
  if (!pair_cutoff.data.empty()) {
    b.cutoff = pair_cutoff(receiver, sender);
    b.stretch = cutoff / b.cutoff;
  }
  b.pair_r0 = b.pair_cutoff = Matrix();
  return b;
}

std::vector<double> RadialBasis::kinks() const {
  std::vector<double> kinks;
  if (cutoff_kind == Cutoff::xplor && r_on > 0.0 && r_on < cutoff) kinks.push_back(r_on);
  if (const double end = end_of_decay(*this); kind == Kind::bernstein && end < cutoff) kinks.push_back(end);
  std::sort(kinks.begin(), kinks.end());
  return kinks;
}

void RadialBasis::cutoff_function(double r, int order, int side, double *out) const {
  require_one_pair(depends_on_pair());
  basis_functions(*this).cutoff_function(r, side).store(out, order, 1);
}

RadialBasis::Range RadialBasis::range_of_nonzero(int count, const double *r) const {
  require_one_pair(depends_on_pair());
  if (kind != Kind::gaussian) return {0, size()};
  const BasisFunctions functions = basis_functions(*this);
  Range range{size(), 0};
  for (int p = 0; p < count; ++p) {
    const double x = functions.transformed(Jet::variable(r[p])).value();
    const auto is_zero = [&](double center) { return std::fabs(x - center) > GAUSSIAN_REACH * width; };    // false: NaN
    int first = 0, last = size();
    while (first < last && is_zero(centers[first])) ++first;
    while (last > first && is_zero(centers[last - 1])) --last;
    if (first < last) range = {std::min(range.first, first), std::max(range.last, last)};
  }
  return {std::min(range.first, range.last), range.last};
}

void RadialBasis::derivatives(double r, int order, int side, double *out) const {
  derivatives(r, order, side, {0, size()}, out);
}

void RadialBasis::derivatives(double r, int order, int side, Range range, double *out) const {
  require_one_pair(depends_on_pair());
  basis_functions(*this).derivatives(r, order, side, range.first, range.last,
                                     [&](int i, const Jet &b) { b.store(out + i - range.first, order, range.size()); });
}

RadialFunction RadialFunction::for_pair(int receiver_species, int sender_species) const {
  require_no_features(*this);
  RadialFunction f = *this;
  f.basis = basis.for_pair(receiver_species, sender_species);
  f.sender = f.receiver = Matrix();
  Matrix &first = f.network.weights.front();
  const Matrix &all = network.weights.front();
  f.network.biases.resize(network.weights.size());
  std::vector<double> &bias = f.network.biases.front();
  int row = basis.size();
  const auto fold = [&](const Matrix &inputs, int species) {
    if (inputs.data.empty()) return;
    bias.resize(all.cols, 0.0);
    for (int k = 0; k < inputs.cols; ++k, ++row)
      for (int j = 0; j < all.cols; ++j) bias[j] += inputs(species, k) * all(row, j);
  };
  fold(sender, sender_species);
  fold(receiver, receiver_species);
  if (gate) {
    const double *row_end = receiver.data.data() + static_cast<size_t>(receiver_species + 1) * receiver.cols;
    f.gate->query.assign(row_end - num_outputs(), row_end);
  }
  if (charge_potential) {
    f.charge_potential->width = charge_potential->widths(receiver_species, sender_species);
    f.charge_potential->widths = Matrix();
  }
  first.rows = basis.size();
  first.data.resize(static_cast<size_t>(first.rows) * first.cols);
  if (!has_pair_factor()) return f;

  f.receiver_factor = f.sender_factor = Matrix();
  Matrix &last = f.network.weights.back();
  std::vector<double> &last_bias = f.network.biases.back();
  for (int j = 0; j < last.cols; ++j) {
    const double factor = receiver_factor(receiver_species, j) + sender_factor(sender_species, j);
    for (int k = 0; k < last.rows; ++k) last.data[static_cast<size_t>(k) * last.cols + j] *= factor;
    if (!last_bias.empty()) last_bias[j] *= factor;
  }
  return f;
}

void RadialFunction::derivatives(double r, int order, int side, double *out) const {
  derivatives(1, &r, order, side, out);
}

void RadialFunction::derivatives(int count, const double *r, int order, int side, double *out) const {
  require_one_pair(depends_on_pair());
  require_no_features(*this);
  const size_t n = num_outputs();
  std::vector<double> in, values_and_keys;
  for (int begin = 0; begin < count; begin += DISTANCES_AT_ONCE) {
    const int points = std::min(DISTANCES_AT_ONCE, count - begin);
    const RadialBasis::Range range = basis.range_of_nonzero(points, r + begin);
    const size_t n_in = static_cast<size_t>(order + 1) * range.size();
    in.resize(points * n_in);
    for (int p = 0; p < points; ++p) basis.derivatives(r[begin + p], order, side, range, in.data() + p * n_in);
    const size_t n_out = (order + 1) * n;
    double *const found = out + begin * n_out;
    if (gate) values_and_keys.resize(2 * points * n_out);
    network.derivatives(points, order, range.first, range.size(), in.data(), gate ? values_and_keys.data() : found);
    for (int p = 0; gate && p < points; ++p)
      apply_gate(*gate, order, n, values_and_keys.data() + 2 * p * n_out, found + p * n_out);
  }
  if (output == Output::weights && !times_cutoff && !charge_potential && r_power.empty()) return;

  const BasisFunctions functions = basis_functions(basis);
  for (int p = 0; p < count; ++p) {
    Jet factor = times_cutoff ? functions.cutoff_function(r[p], side) : Jet(1.0);
    if (charge_potential) factor = factor * potential_of_charge(*charge_potential, basis, r[p]);
    double *row = out + p * (order + 1) * n;
    for (size_t j = 0; j < n; ++j) {
      Jet w = Jet::load(row + j, order, n);
      if (output == Output::tanh_square) w = tanh(w * w);
      if (output == Output::activated) {
        double d[Jet::MAX_ORDER + 1] = {};
        activation_derivatives(network.activation, w.value(), order, d);
        w = network.activation_scale * compose(d, w);
      }
      if (times_cutoff || charge_potential) w = w * factor;
      if (!r_power.empty() && r_power[j] != 0) w = w * pow(Jet::variable(r[p]), r_power[j]);
      w.store(row + j, order, n);
    }
  }
}

}    // namespace equi
