// SPDX-License-Identifier: MIT
#include "src/model/radial_function.h"

#include "src/model/cutoff_function.h"
#include "src/numbers/jet.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace equi {

namespace {

// Derivatives of sin(x)/x; above `order` zeros.
Jet sinc(const Jet &x, int order) {
  double s[Jet::MAX_ORDER + 1] = {};
  const double v = x.value();
  if (std::fabs(v) < 1.0) {
    // sum (-1)^k x^2k / (2k+1)!, differentiated term by term; ten terms reach 1e-19 at x = 1. The recurrence below
    // would lose digits like 1/x^q.
    for (int q = 0; q <= order; ++q) {
      double sum = 0.0, factorial = 1.0;
      for (int k = 0; k < 12; ++k) {
        if (k > 0) factorial *= -(2.0 * k) * (2.0 * k + 1.0);
        const int power = 2 * k - q;
        if (power < 0) continue;
        double term = 1.0 / factorial;
        for (int i = 0; i < q; ++i) term *= 2 * k - i;
        for (int i = 0; i < power; ++i) term *= v;
        sum += term;
      }
      s[q] = sum;
    }
  } else {
    // x s = sin x, differentiated q times: x s^(q) + q s^(q-1) = sin^(q) x
    const double sine = std::sin(v), cosine = std::cos(v);
    const double rhs[4] = {sine, cosine, -sine, -cosine};
    s[0] = sine / v;
    for (int q = 1; q <= order; ++q) s[q] = (rhs[q] - q * s[q - 1]) / v;
  }
  return compose(s, x);
}

Jet tanh(const Jet &x) {
  double f[Jet::MAX_ORDER + 1];
  activation_derivatives(Activation::tanh, x.value(), Jet::MAX_ORDER, f);
  return compose(f, x);
}

// What the basis functions are functions of.
Jet transformed(const RadialBasis &b, const Jet &r) {
  switch (b.transform) {
    case RadialBasis::Transform::agnesi: {
      // u^q / (1 + u^(q-p)), multiplied out so that no power of u is negative.
      const Jet u = 1.0 / b.r0 * r;
      const double q = b.agnesi_q, p = b.agnesi_p;
      return 1.0 / (1.0 + b.agnesi_a * (pow(u, std::max(q, p)) / (1.0 + pow(u, std::fabs(q - p)))));
    }
    case RadialBasis::Transform::soft: {
      const double p0 = 0.75 * b.r0, p1 = 4.0 / 3.0 * b.r0;
      return p0 + 0.5 * ((r - p0) * (1.0 + tanh(b.soft_alpha / (p1 - p0) * (r - 0.5 * (p0 + p1)))));
    }
    case RadialBasis::Transform::none:
      break;
  }
  return b.stretch * r;
}

Jet cutoff_at(const RadialBasis &b, double r, int side) {
  if (b.cutoff_kind == RadialBasis::Cutoff::polynomial)
    return polynomial_cutoff(1.0 / b.cutoff * Jet::variable(r), b.p);
  const bool is_before = r < b.r_on || (r == b.r_on && side <= 0);    // neither if r is not a number
  return is_before ? Jet(1.0) : xplor_cutoff(Jet::variable(r), b.r_on, b.cutoff);
}

void require_one_pair(bool depends_on_pair) {
  if (depends_on_pair)
    throw std::logic_error("a radial function that depends on the species was evaluated without for_pair()");
}

void require_no_features(const RadialFunction &f) {
  if (f.reads_features()) throw std::logic_error("a radial function of atoms' features was evaluated without them");
}

}    // namespace

int RadialBasis::size() const {
  switch (kind) {
    case Kind::gaussian:
      return static_cast<int>(centres.size());
    case Kind::chebyshev:
      return num_polynomials;
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
  if (cutoff_kind == Cutoff::xplor && r_on > 0.0 && r_on < cutoff) return {r_on};
  return {};
}

void RadialBasis::cutoff_function(double r, int order, int side, double *out) const {
  require_one_pair(depends_on_pair());
  cutoff_at(*this, r, side).store(out, order, 1);
}

void RadialBasis::derivatives(double r, int order, int side, double *out) const {
  require_one_pair(depends_on_pair());
  const Jet f = apply_cutoff ? cutoff_at(*this, r, side) : Jet(1.0);
  const Jet x = transformed(*this, Jet::variable(r));
  const int n = size();
  Jet before = 1.0, polynomial = x;    // T_i and T_{i+1}
  for (int i = 0; i < n; ++i) {
    Jet b;
    switch (kind) {
      case Kind::bessel:
        // sin(kx)/x = k sinc(kx)
        b = prefactor * wave_numbers[i] * sinc(wave_numbers[i] * x, order);
        break;
      case Kind::gaussian: {
        const Jet distance = x - centres[i];
        b = exp(-0.5 / (width * width) * (distance * distance));
        break;
      }
      case Kind::chebyshev: {
        b = polynomial;
        const Jet next = 2.0 * (x * polynomial) - before;
        before = polynomial;
        polynomial = next;
        break;
      }
    }
    (b * f).store(out + i, order, n);
  }
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
  first.rows = basis.size();
  first.data.resize(static_cast<size_t>(first.rows) * first.cols);
  return f;
}

void RadialFunction::derivatives(double r, int order, int side, double *out) const {
  derivatives(1, &r, order, side, out);
}

void RadialFunction::derivatives(int count, const double *r, int order, int side, double *out) const {
  require_one_pair(depends_on_pair());
  require_no_features(*this);
  const size_t n_in = static_cast<size_t>(order + 1) * basis.size(), n = num_outputs();
  std::vector<double> in(count * n_in);
  for (int p = 0; p < count; ++p) basis.derivatives(r[p], order, side, in.data() + p * n_in);
  network.derivatives(count, order, in.data(), out);
  if (output == Output::weights && !times_cutoff && r_power.empty()) return;

  for (int p = 0; p < count; ++p) {
    const Jet cutoff = times_cutoff ? cutoff_at(basis, r[p], side) : Jet(1.0);
    double *row = out + p * (order + 1) * n;
    for (size_t j = 0; j < n; ++j) {
      Jet w = Jet::load(row + j, order, n);
      if (output == Output::tanh_square) w = tanh(w * w);
      if (times_cutoff) w = w * cutoff;
      if (!r_power.empty() && r_power[j] != 0) w = w * pow(Jet::variable(r[p]), r_power[j]);
      w.store(row + j, order, n);
    }
  }
}

}    // namespace equi
