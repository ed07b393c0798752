// SPDX-License-Identifier: MIT
// Evaluates activations and networks with their derivatives on the host.
#include "src/functions/network.h"

#include "src/functions/activation.h"
#include "src/numbers/jet.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

// The reference of `radial exact` and the builder of the tables spend their time in one product of matrices. The
// compiler generates it once per instruction set, and the loader selects one; without this feature the baseline is
// used. The names are those of levels: the name of a processor would be selected only on that very processor.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && defined(__x86_64__) && defined(__gnu_linux__)
#define EQUI_TARGET_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define EQUI_TARGET_CLONES
#endif

namespace equi {

namespace {

struct NamedActivation {
  Activation activation;
  const char *name;
};
constexpr NamedActivation ACTIVATIONS[] = {
    {Activation::identity, "identity"}, {Activation::silu, "silu"}, {Activation::tanh, "tanh"},
    {Activation::sigmoid, "sigmoid"},   {Activation::relu, "relu"}, {Activation::abs, "abs"},
    {Activation::ssp, "ssp"},           {Activation::mish, "mish"}, {Activation::gelu, "gelu"}};

// Numbers of eight columns, in vectors that the compiler maps to registers of the target. GCC 12 keeps vectors of 64
// bytes in memory on targets without AVX-512, where products then take eight times as long.
typedef double Lanes __attribute__((vector_size(32)));
constexpr int NUM_LANES = 4, NUM_COLUMNS = 2 * NUM_LANES;
struct Columns {
  Lanes first = {}, second = {};
  void add(double factor, const Lanes &of_first, const Lanes &of_second) {
    first += factor * of_first;
    second += factor * of_second;
  }
};

// out [rows, cols] = in [rows, inner] weight [inner, cols]. Four rows by eight columns stay in registers.
EQUI_TARGET_CLONES
void multiply(int rows, int inner, int cols, const double *in, const double *weight, double *out) {
  int r = 0;
  for (; r < rows; r += 4) {
    // Rows beyond the last one repeat it; their results are not stored.
    const int num = rows - r < 4 ? rows - r : 4;
    const double *a0 = in + static_cast<size_t>(r) * inner, *a1 = num > 1 ? a0 + inner : a0;
    const double *a2 = num > 2 ? a1 + inner : a1, *a3 = num > 3 ? a2 + inner : a2;
    double *o = out + static_cast<size_t>(r) * cols;
    int c = 0;
    for (; c + NUM_COLUMNS <= cols; c += NUM_COLUMNS) {
      Columns sums[4];
      const double *w = weight + c;
      for (int i = 0; i < inner; ++i, w += cols) {
        Lanes v, next;
        std::memcpy(&v, w, sizeof v);
        std::memcpy(&next, w + NUM_LANES, sizeof next);
        sums[0].add(a0[i], v, next);
        sums[1].add(a1[i], v, next);
        sums[2].add(a2[i], v, next);
        sums[3].add(a3[i], v, next);
      }
      for (int k = 0; k < num; ++k) std::memcpy(o + static_cast<size_t>(k) * cols + c, &sums[k], sizeof sums[k]);
    }
    for (; c < cols; ++c)
      for (int k = 0; k < num; ++k) {
        const double *a = a0 + static_cast<size_t>(k) * inner;
        double sum = 0.0;
        for (int i = 0; i < inner; ++i) sum += a[i] * weight[static_cast<size_t>(i) * cols + c];
        o[static_cast<size_t>(k) * cols + c] = sum;
      }
  }
}

// rows [count][order+1][n]: derivatives of z become those of scale * a(z).
void apply_activation(Activation a, double scale, int count, int order, int n, double *rows) {
  for (int p = 0; p < count; ++p) {
    double *row = rows + static_cast<size_t>(p) * (order + 1) * n;
    for (int j = 0; j < n; ++j) {
      double d[Jet::MAX_ORDER + 1] = {};
      activation_derivatives(a, row[j], order, d);
      for (double &v : d) v *= scale;
      compose(d, Jet::load(row + j, order, n)).store(row + j, order, n);
    }
  }
}

}    // namespace

Activation parse_activation(const std::string &name) {
  std::string known;
  for (const NamedActivation &a : ACTIVATIONS) {
    if (name == a.name) return a.activation;
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  throw std::invalid_argument("unknown activation \"" + name + "\"; known are " + known);
}

const char *activation_name(Activation a) {
  for (const NamedActivation &known : ACTIVATIONS)
    if (known.activation == a) return known.name;
  return "?";
}

void activation_derivatives(Activation a, double x, int order, double *d) {
  double f[4] = {0.0, 0.0, 0.0, 0.0};
  switch (a) {
    case Activation::identity:
      f[0] = x;
      f[1] = 1.0;
      break;
    case Activation::relu:
      // x - x is zero at zero, and not a number where x is not a number, as in activation.h.
      f[0] = x > 0.0 ? x : (x < 0.0 ? 0.0 : x - x);
      f[1] = x > 0.0 ? 1.0 : (x < 0.0 ? 0.0 : x - x);
      break;
    case Activation::abs:
      f[0] = std::fabs(x);
      f[1] = x > 0.0 ? 1.0 : (x < 0.0 ? -1.0 : x - x);
      break;
    case Activation::tanh:
      tanh_derivatives(x, f);
      break;
    case Activation::silu:
    case Activation::sigmoid:
    case Activation::ssp: {
      const double e = std::exp(-std::fabs(x));    // does not overflow
      const double s = x >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
      const double s1 = e / ((1.0 + e) * (1.0 + e)), s2 = s1 * (1.0 - 2.0 * s), s3 = s1 * (1.0 - 6.0 * s1);
      if (a == Activation::sigmoid) {
        f[0] = s;
        f[1] = s1;
        f[2] = s2;
        f[3] = s3;
      } else if (a == Activation::silu) {
        f[0] = x * s;
        f[1] = s + x * s1;
        f[2] = 2.0 * s1 + x * s2;
        f[3] = 3.0 * s2 + x * s3;
      } else {
        f[0] = (x > 0.0 ? x : 0.0) + std::log1p(e) - std::log(2.0);
        f[1] = s;
        f[2] = s1;
        f[3] = s2;
      }
      break;
    }
    case Activation::mish: {
      const double e = std::exp(-std::fabs(x)), s = x >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
      const double s1 = e / ((1.0 + e) * (1.0 + e)), s2 = s1 * (1.0 - 2.0 * s);
      // f = x t, and t' = (1 - t^2) s.
      const MishFactor<double> m = mish_factor(x);
      const double t = m.value, w = m.one_minus_square, t1 = w * s, t2 = w * s1 - 2.0 * t * t1 * s;
      const double t3 = w * s2 - 4.0 * t * t1 * s1 - 2.0 * s * (t1 * t1 + t * t2);
      f[0] = x * t;
      f[1] = t + x * t1;
      f[2] = 2.0 * t1 + x * t2;
      f[3] = 3.0 * t2 + x * t3;
      break;
    }
    case Activation::gelu: {
      const NormalDistribution<double> n = normal_distribution(x);
      f[0] = x * n.integral;
      f[1] = n.integral + n.x * n.density;
      f[2] = (2.0 - n.x * n.x) * n.density;
      f[3] = (n.x * n.x - 4.0) * n.x * n.density;
      break;
    }
  }
  for (int k = 0; k <= order; ++k) d[k] = f[k];
}

void normalize(const HiddenNorm &norm, int count, int order, int n, double *rows) {
  if (norm.weight.empty()) return;
  for (int p = 0; p < count; ++p) {
    double *row = rows + static_cast<size_t>(p) * (order + 1) * n;
    Jet mean, variance;
    for (int j = 0; j < n; ++j) mean = mean + Jet::load(row + j, order, n);
    mean = 1.0 / n * mean;
    for (int j = 0; j < n; ++j) {
      const Jet centered = Jet::load(row + j, order, n) - mean;
      variance = variance + centered * centered;
      centered.store(row + j, order, n);
    }
    const Jet factor = inverse_sqrt(1.0 / n * variance + norm.epsilon);
    for (int j = 0; j < n; ++j)
      (norm.weight[j] * (Jet::load(row + j, order, n) * factor) + norm.bias[j]).store(row + j, order, n);
  }
}

void Network::simplify() {
  const bool has_norms =
      std::any_of(norms.begin(), norms.end(), [](const HiddenNorm &norm) { return !norm.weight.empty(); });
  if (activation != Activation::identity || has_norms || weights.size() < 2) return;
  Matrix product = std::move(weights[0]);
  std::vector<double> bias = biases.empty() ? std::vector<double>() : std::move(biases[0]);
  for (size_t k = 1; k < weights.size(); ++k) {
    const Matrix &w = weights[k];
    Matrix next{product.rows, w.cols, std::vector<double>(static_cast<size_t>(product.rows) * w.cols)};
    multiply(product.rows, product.cols, w.cols, product.data.data(), w.data.data(), next.data.data());
    for (double &v : next.data) v *= activation_scale;
    std::vector<double> next_bias = k < biases.size() ? std::move(biases[k]) : std::vector<double>();
    if (!bias.empty()) {
      next_bias.resize(w.cols, 0.0);
      std::vector<double> carried(w.cols);
      multiply(1, w.rows, w.cols, bias.data(), w.data.data(), carried.data());
      for (int j = 0; j < w.cols; ++j) next_bias[j] += activation_scale * carried[j];
    }
    product = std::move(next);
    bias = std::move(next_bias);
  }
  weights.clear();
  weights.push_back(std::move(product));
  biases.clear();
  biases.push_back(std::move(bias));
  norms.clear();
}

void Network::derivatives(int order, const double *in, double *out) const {
  derivatives(1, order, in, out);
}

void Network::derivatives(int count, int order, const double *in, double *out) const {
  derivatives(count, order, 0, num_inputs(), in, out);
}

void Network::derivatives(int count, int order, int first, int num, const double *in, double *out) const {
  const int rows = count * (order + 1);
  std::vector<double> buffer[2];
  const double *h = in;
  for (size_t k = 0; k < weights.size(); ++k) {
    const Matrix &w = weights[k];
    const bool is_last = k + 1 == weights.size();
    double *z = out;
    if (!is_last) {
      buffer[k % 2].resize(static_cast<size_t>(rows) * w.cols);
      z = buffer[k % 2].data();
    }
    if (k == 0)
      multiply(rows, num, w.cols, h, w.data.data() + static_cast<size_t>(first) * w.cols, z);
    else
      multiply(rows, w.rows, w.cols, h, w.data.data(), z);
    if (has_bias(k))
      for (int p = 0; p < count; ++p)
        for (int j = 0; j < w.cols; ++j) z[static_cast<size_t>(p) * (order + 1) * w.cols + j] += biases[k][j];
    if (!is_last) {
      if (k < norms.size()) normalize(norms[k], count, order, w.cols, z);
      apply_activation(activation, activation_scale, count, order, w.cols, z);
    }
    h = z;
  }
}

double Network::value_and_gradient(const double *in, double *grad) const {
  const NetworkGradient network(*this);
  std::vector<double> scratch(network.scratch_size(1));
  double value;
  network.evaluate<double>(1, in, &value, grad, scratch.data());
  return value;
}

NetworkGradient::NetworkGradient(const Network &network) : network_(network) {
  for (const Matrix &w : network_.weights) {
    Matrix t{w.cols, w.rows, std::vector<double>(w.data.size())};
    for (int i = 0; i < w.rows; ++i)
      for (int j = 0; j < w.cols; ++j) t.data[static_cast<size_t>(j) * w.rows + i] = w(i, j);
    transposed_.push_back(std::move(t));
  }
}

int64_t NetworkGradient::scratch_size(int count) const {
  int widest = network_.num_inputs(), total = 0;
  for (const Matrix &w : network_.weights) {
    total += 2 * w.cols;
    widest = std::max(widest, w.cols);
  }
  return static_cast<int64_t>(count) * (total + 2 * widest);
}

template <class T>
void NetworkGradient::evaluate(int count, const double *in, double *values, double *gradients, double *scratch) const {
  constexpr int P = PLANES<T>;
  const std::vector<Matrix> &weights = network_.weights;
  const size_t n = weights.size();
  const int rows = P * count;
  // For each matrix its outputs after the activation and a'(z), [count][P][cols] each. Two arrays for the adjoint
  // follow.
  const double *input = in;
  double *h = scratch;
  for (size_t k = 0; k < n; ++k) {
    const Matrix &w = weights[k];
    const int64_t size = static_cast<int64_t>(rows) * w.cols;
    multiply(rows, w.rows, w.cols, input, w.data.data(), h);
    for (int r = 0; r < count; ++r) {
      const Pointer<T> output = make_pointer<T>(h + static_cast<int64_t>(r) * P * w.cols, w.cols),
                       slope = output + size;
      for (int j = 0; j < w.cols; ++j) {
        T z = output[j];
        if (network_.has_bias(k)) z += network_.biases[k][j];
        put(output, j, z);
        put(slope, j, T(1.0));
        if (k + 1 == n) continue;
        double d[3];
        activation_derivatives(network_.activation, value_of(z), P, d);
        for (double &v : d) v *= network_.activation_scale;
        put(output, j, make_number<T>(d[0], d[1] * tangent_of(z)));
        put(slope, j, make_number<T>(d[1], P == 1 ? 0.0 : d[2] * tangent_of(z)));
      }
    }
    input = h;
    h += 2 * size;
  }
  std::copy_n(input, rows, values);
  if (!gradients) return;

  double *adjoint = h, *before = h + (P * scratch_size(count) - (h - scratch)) / 2;
  for (int r = 0; r < count; ++r) put(make_pointer<T>(adjoint + r * P, 1), 0, T(1.0));
  for (size_t k = n; k-- > 0;) {
    const Matrix &w = weights[k];
    const int64_t size = static_cast<int64_t>(rows) * w.cols;
    for (int r = 0; r < count; ++r) {
      const int64_t row = static_cast<int64_t>(r) * P * w.cols;
      const Pointer<T> slope = make_pointer<T>(h - size + row, w.cols),
                       output_adj = make_pointer<T>(adjoint + row, w.cols);
      for (int j = 0; j < w.cols; ++j) put(output_adj, j, output_adj[j] * slope[j]);
    }
    h -= 2 * size;
    multiply(rows, w.cols, w.rows, adjoint, transposed_[k].data.data(), k > 0 ? before : gradients);
    std::swap(adjoint, before);
  }
}

template void NetworkGradient::evaluate<double>(int, const double *, double *, double *, double *) const;
template void NetworkGradient::evaluate<Dual<double>>(int, const double *, double *, double *, double *) const;

}    // namespace equi
