// SPDX-License-Identifier: MIT
// The energy of a model by plain loops over the core's scalar references (TensorProduct::forward, spherical_harmonics,
// RadialFunction, ContractionProduct::forward, PairRepulsion::energy, Network): slow, in float64, one rank. A second
// route for tests of an Evaluator.
#ifndef EQUI_TEST_SCALAR_MODEL_H
#define EQUI_TEST_SCALAR_MODEL_H

#include "src/algebra/coupling.h"
#include "src/algebra/spherical_harmonics.h"
#include "src/base/model_limits.h"
#include "src/geometry/neighbor_graph.h"
#include "src/model/model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <variant>
#include <vector>

namespace equi {
namespace testing {

// The functions of all pairs of species, [receiver * num_species + sender].
inline std::vector<RadialFunction> functions_of_pairs(const RadialFunction &f, int num_species) {
  std::vector<RadialFunction> all;
  for (int i = 0; i < num_species; ++i)
    for (int j = 0; j < num_species; ++j) all.push_back(f.for_pair(i, j));
  return all;
}

// The weights of an edge by the network at its full inputs, for functions of atoms' features x_i and x_j.
inline std::vector<double> weights_of_features(const RadialFunction &f, const Irreps &irreps, double r, int species_i,
                                               int species_j, const std::vector<double> &x_i,
                                               const std::vector<double> &x_j) {
  const RadialBasis basis = f.basis.for_pair(species_i, species_j);
  std::vector<double> in(basis.size()), w(f.network.num_outputs());
  basis.derivatives(r, 0, 1, in.data());
  const auto append = [&](const Matrix &rows, int species, int block, const std::vector<double> &x) {
    for (int k = 0; k < rows.cols; ++k) in.push_back(rows(species, k));
    for (int u = 0; block >= 0 && u < irreps[block].mul; ++u) in.push_back(x[irreps.offset(block) + u]);
  };
  append(f.sender, species_j, f.sender_block, x_j);
  append(f.receiver, species_i, f.receiver_block, x_i);
  f.network.derivatives(0, in.data(), w.data());
  if (f.gate) {
    const int n = f.num_outputs();
    const HiddenNorm &norm = f.gate->norm;
    double mean = 0.0, variance = 0.0;
    std::vector<double> u(n);
    for (int j = 0; j < n; ++j) u[j] = f.gate->scale * in[in.size() - n + j] * w[n + j];
    for (double v : u) mean += v / n;
    for (double v : u) variance += (v - mean) * (v - mean) / n;
    for (int j = 0; j < n; ++j)
      w[j] /= 1.0 + std::exp(-norm.weight[j] * (u[j] - mean) / std::sqrt(variance + norm.epsilon) - norm.bias[j]);
    w.resize(n);
  }
  if (f.output == RadialFunction::Output::activated)
    for (double &v : w) {
      activation_derivatives(f.network.activation, v, 0, &v);
      v *= f.network.activation_scale;
    }
  double cutoff = 1.0;
  if (f.times_cutoff) basis.cutoff_function(r, 0, 1, &cutoff);
  for (double &v : w) v *= cutoff;
  return w;
}

// Falls from 1 to 0 between two distances, with all its derivatives 0 at both.
inline double switch_between(double r, double on, double off) {
  const auto g = [](double x) { return x > 0.0 ? std::exp(-1.0 / x) : 0.0; };
  const double c = (r - on) / (off - on);
  return g(1.0 - c) / (g(1.0 - c) + g(c) + 1e-12);
}

// Twice the dispersion energy of a directed pair of species a and b with the ratios v and u, by the rules for
// polarizabilities and coefficients of atoms in molecules.
inline double dispersion_energy(const Dispersion &layer, int a, int b, double v, double u, double r) {
  const double of_a = layer.polarizability[a] * v, of_b = layer.polarizability[b] * u;
  const double c_a = layer.c6[a] * v * v, c_b = layer.c6[b] * u * u, mean = 0.5 * (of_a + of_b);
  const double c6 = 2.0 * c_a * c_b * of_a * of_b / (of_a * of_a * c_b + of_b * of_b * c_a);
  const double h = std::pow(0.0072973525693, -4.0 / 21.0) * std::pow(mean, 1.0 / 7.0);
  const double s = -0.00433008 + 0.24428889 * h + 0.04125273 * h * h - 0.00078893 * h * h * h;
  const double gamma = 0.5 / (s * s), c8 = 5.0 / gamma * c6, c10 = 245.0 / (8.0 * gamma * gamma) * c6;
  const double p = layer.function.damping * std::pow(mean, 1.0 / 7.0), d = r / 0.5291772105638411;
  const auto damped = [&](int n) { return std::pow(d, n) + std::pow(p, n); };
  const double w = switch_between(r, layer.function.on, layer.function.cutoff);
  return -w * 27.211386245988 * (c6 / damped(6) + c8 / damped(8) + c10 / damped(10));
}

// D_l of a rotation r for l = 0 .. lmax, each [2l+1][2l+1] row by row, by its definition D_l Y_l(p) = Y_l(r p): the
// mean of Y_l(r p) Y_l(p)^T over the sphere, which a grid with Gauss's weights gives exactly.
inline std::vector<std::vector<double>> rotations_by_quadrature(int lmax, const double r[3][3]) {
  const int num_latitudes = lmax + 1, num_longitudes = 2 * lmax + 1;
  std::vector<std::vector<double>> d;
  for (int l = 0; l <= lmax; ++l) d.emplace_back((2 * l + 1) * (2 * l + 1), 0.0);
  std::vector<double> of_p((lmax + 1) * (lmax + 1)), of_turned(of_p.size());
  for (int i = 0; i < num_latitudes; ++i) {
    // A root of the Legendre polynomial of this degree by Newton's method, and its weight.
    double y = std::cos(M_PI * (i + 0.75) / (num_latitudes + 0.5)), slope = 1.0;
    for (int step = 0; step < 20; ++step) {
      double before = 1.0, now = y;
      for (int k = 2; k <= num_latitudes; ++k) {
        const double next = ((2 * k - 1) * y * now - (k - 1) * before) / k;
        before = now;
        now = next;
      }
      slope = num_latitudes * (before - y * now) / (1.0 - y * y);
      y -= now / slope;
    }
    const double weight = 1.0 / ((1.0 - y * y) * slope * slope) / num_longitudes;
    for (int j = 0; j < num_longitudes; ++j) {
      const double longitude = 2.0 * M_PI * j / num_longitudes, across = std::sqrt(1.0 - y * y);
      const double p[3] = {across * std::sin(longitude), y, across * std::cos(longitude)};
      double turned[3];
      for (int k = 0; k < 3; ++k) turned[k] = r[k][0] * p[0] + r[k][1] * p[1] + r[k][2] * p[2];
      spherical_harmonics(lmax, p, of_p.data(), nullptr);
      spherical_harmonics(lmax, turned, of_turned.data(), nullptr);
      for (int l = 0; l <= lmax; ++l)
        for (int m = 0; m < 2 * l + 1; ++m)
          for (int n = 0; n < 2 * l + 1; ++n)
            d[l][m * (2 * l + 1) + n] += weight * of_turned[l * l + m] * of_p[l * l + n];
    }
  }
  return d;
}

// The sum over the edges of a receiver in a local network. vec: the vectors of its edges, species: of their senders.
inline double local_energy(const LocalNetwork &layer, int receiver_species, const std::vector<Vector3> &vec,
                           const std::vector<int> &species) {
  using Rows = std::vector<std::vector<double>>;    // by edge, or one of the receiver, in the order of irreps.h
  const size_t num = vec.size();
  std::vector<Rows> features(layer.features.size());
  const auto side_by_side = [&](const std::vector<EdgeBlock> &blocks, size_t e) {
    std::vector<double> all;
    for (const EdgeBlock &b : blocks) {
      const Irreps &irreps = layer.features[b.feature];
      const auto begin = features[b.feature][e].begin() + irreps.offset(b.block);
      all.insert(all.end(), begin, begin + irreps[b.block].mul);
    }
    return all;
  };
  std::vector<double> y((LMAX_SUPPORTED + 1) * (LMAX_SUPPORTED + 1));
  double energy = 0.0;
  for (const LocalNetwork::Step &step : layer.steps) {
    if (const auto *s = std::get_if<EdgeScalars>(&step)) {
      for (size_t e = 0; e < num; ++e) {
        const RadialBasis basis = s->basis.for_pair(receiver_species, species[e]);
        std::vector<double> b(basis.size());
        basis.derivatives(std::sqrt(vec[e][0] * vec[e][0] + vec[e][1] * vec[e][1] + vec[e][2] * vec[e][2]), 0, 1,
                          b.data());
        const Matrix w = s->weights_of(receiver_species, species[e]);
        std::vector<double> &out = features[s->output].emplace_back(w.cols, 0.0);
        for (int n = 0; n < w.rows; ++n)
          for (int c = 0; c < w.cols; ++c) out[c] += b[n] * w(n, c);
      }
    } else if (const auto *d = std::get_if<EdgeDense>(&step)) {
      for (size_t e = 0; e < num; ++e) {
        std::vector<double> &out = features[d->output].emplace_back(d->network.num_outputs());
        d->network.derivatives(0, side_by_side(d->inputs, e).data(), out.data());
      }
    } else if (const auto *t = std::get_if<EdgeTensor>(&step)) {
      const Irreps &out = layer.features[t->output];
      for (size_t e = 0; e < num; ++e) {
        spherical_harmonics(LMAX_SUPPORTED, vec[e].data(), y.data(), nullptr);
        const std::vector<double> w = side_by_side({t->input}, e);
        std::vector<double> &x = features[t->output].emplace_back();
        for (int b = 0; b < out.size(); ++b)
          for (int u = 0; u < out[b].mul; ++u)
            for (int l = out[b].irrep.l, m = 0; m < 2 * l + 1; ++m)
              x.push_back(w[t->is_shared ? u : b * out[b].mul + u] * y[l * l + m]);
      }
    } else if (const auto *sum = std::get_if<EdgeSum>(&step)) {
      std::vector<double> &total = features[sum->output].emplace_back(layer.features[sum->output].dim(), 0.0);
      for (const std::vector<double> &row : features[sum->input])
        for (size_t k = 0; k < row.size(); ++k) total[k] += sum->scale[receiver_species] * row[k];
    } else if (const auto *p = std::get_if<EdgeProduct>(&step)) {
      const Irreps &in = layer.features[p->input], &environment = layer.features[p->environment],
                   &out = layer.features[p->output];
      const std::vector<double> &g = features[p->environment][0];
      for (size_t e = 0; e < num; ++e) {
        const std::vector<double> &x = features[p->input][e];
        std::vector<double> &z = features[p->output].emplace_back(out.dim(), 0.0);
        for (const EdgeProductPath &path : p->paths) {
          const int da = in[path.input].irrep.dim(), db = environment[path.environment].irrep.dim(),
                    dc = out[path.output].irrep.dim();
          for (const CouplingEntry &c : coupling_entries(da / 2, db / 2, dc / 2))
            for (int u = 0; u < out[path.output].mul; ++u)
              z[out.offset(path.output) + u * dc + c.m3] += path.weights[u] * c.value *
                                                            x[in.offset(path.input) + u * da + c.m1] *
                                                            g[environment.offset(path.environment) + u * db + c.m2];
        }
      }
    } else if (const auto *r = std::get_if<EdgeReadout>(&step)) {
      for (size_t e = 0; e < num; ++e) {
        double value;
        r->network.derivatives(0, side_by_side(r->inputs, e).data(), &value);
        energy += r->scale[receiver_species] * value;
      }
    }
  }
  return energy;
}

// Adds an edge's message of a pair attention to y, from the features of the receiver and of the sender.
inline void add_pair_attention(const PairAttention &layer, const Irreps &in, const RadialFunction &radial,
                               const double *vec, double r, const std::vector<double> &x_i,
                               const std::vector<double> &x_j, std::vector<double> &y) {
  const int lmax = LMAX_SUPPORTED, num = layer.radial.num_outputs();
  std::vector<double> harmonics((lmax + 1) * (lmax + 1)), w(num);
  const double unit[3] = {vec[0] / r, vec[1] / r, vec[2] / r};
  spherical_harmonics(lmax, unit, harmonics.data(), nullptr);
  radial.derivatives(r, 0, 1, w.data());
  std::vector<double> squares;
  for (size_t g = 0; layer.has_tensors && g < layer.groups.size(); ++g) {
    const int dim = 2 * layer.groups[g].l + 1, first = in.offset(5 + static_cast<int>(g));
    double square = 0.0;
    for (int m = 0; m < dim; ++m) square += std::pow(x_j[first + m] - x_i[first + m], 2);
    squares.push_back(square / std::sqrt(dim));
  }
  double cutoff;
  radial.basis.cutoff_function(r, 0, 1, &cutoff);
  int column = 0;
  for (const Network &network : layer.difference) {
    std::vector<double> added(network.num_outputs());
    network.derivatives(0, squares.data(), added.data());
    for (const double v : added) w[column++] += cutoff * v;
  }
  const int F = layer.channels, size = F / layer.heads;
  for (int h = 0; h < layer.heads; ++h) {
    double weight = 0.0;
    for (int c = h * size; c < (h + 1) * size; ++c) weight += layer.scale * x_i[c] * x_j[F + c] * w[c];
    for (int c = h * size; c < (h + 1) * size; ++c) y[c] += weight * x_j[2 * F + c];
  }
  int c = 0, out = F;
  for (const AttentionGroup &group : layer.groups) {
    double weight = 0.0;
    for (int k = 0; k < group.channels; ++k, ++c)
      weight += group.scale * x_i[3 * F + c] * x_j[3 * F + layer.group_channels() + c] * w[F + c];
    for (int m = 0; m < 2 * group.l + 1; ++m) y[out++] += weight * harmonics[group.l * group.l + m];
  }
}

// Components of an edge in its frame, [m + mmax]: numbers of all l >= |m|, l by l, each with all channels.
using So2Components = std::vector<std::vector<double>>;

inline double activated(Activation activation, double x) {
  double y;
  activation_derivatives(activation, x, 0, &y);
  return y;
}

// f(component, l, m), in the order of the points' matrices
template <class F>
void for_point_components(const So2Convolution &c, const F &f) {
  int k = 0;
  for (int l = 0; l <= c.lmax; ++l)
    for (int m = -std::min(l, c.mmax); m <= std::min(l, c.mmax); ++m) f(k++, l, m);
}

// What a linear with an activation at points makes of v; scores: as below.
inline So2Components so2_activated(const So2Convolution &c, const So2Linear &linear, So2Components v,
                                   std::vector<double> &scores) {
  const So2PointActivation &points = linear.at_points;
  const int channels = linear.channels_out;
  std::vector<double> &scalar = v[c.mmax];
  const std::vector<double> first(scalar.begin(), scalar.end() - (c.lmax + 1) * channels);
  scalar.erase(scalar.begin(), scalar.begin() + static_cast<int64_t>(first.size()));
  if (linear.num_score_rows > 0) scores.assign(first.begin() + (points.has_scalars ? channels : 0), first.end());
  So2Components made(v.size());
  for (size_t k = 0; k < v.size(); ++k) made[k].resize(v[k].size(), 0.0);
  for (int w = 0; w < channels; ++w) {
    for (int p = 0; p < points.to_points.rows; ++p) {
      double a = 0.0;
      for_point_components(c, [&](int k, int l, int m) {
        a += points.to_points(p, k) * v[c.mmax + m][(l - std::abs(m)) * channels + w];
      });
      for_point_components(c, [&](int k, int l, int m) {
        made[c.mmax + m][(l - std::abs(m)) * channels + w] += points.from_points(p, k) * activated(points.at_points, a);
      });
    }
    if (points.has_scalars) made[c.mmax][w] = activated(points.scalars, first[w]);
  }
  return made;
}

// What a linear with a product makes of v, by the values at points; scores: replaced where v has some.
inline So2Components so2_product(const So2Convolution &c, const So2Linear &linear, So2Components v,
                                 std::vector<double> &scores) {
  const So2Product &product = linear.product;
  const int both = linear.channels_out, half = both / 2;
  std::vector<double> &scalar = v[c.mmax];
  const std::vector<double> first(scalar.begin(), scalar.end() - (c.lmax + 1) * both);
  scalar.erase(scalar.begin(), scalar.begin() + static_cast<int64_t>(first.size()));
  if (linear.num_score_rows > 0) scores.assign(first.begin() + 2 * both, first.end());
  const auto for_components = [&](const auto &f) { for_point_components(c, f); };
  So2Components made(v.size());
  for_components([&](int, int, int m) { made[c.mmax + m].resize(made[c.mmax + m].size() + half, 0.0); });
  for (int w = 0; w < half; ++w) {
    for (int p = 0; p < product.to_points.rows; ++p) {
      double a = 0.0, b = 0.0;
      for_components([&](int k, int l, int m) {
        const double *of_l = &v[c.mmax + m][(l - std::abs(m)) * both];
        a += product.to_points(p, k) * of_l[w];
        b += product.to_points(p, k) * of_l[half + w];
      });
      for_components([&](int k, int l, int m) {
        made[c.mmax + m][(l - std::abs(m)) * half + w] +=
            activated(product.gates, first[both + w]) * product.from_points(p, k) * a * b;
      });
    }
    made[c.mmax][w] += activated(product.scalars, first[w]) * first[half + w];
  }
  return made;
}

// The scores t of a message's heads, from those numbers of the first linear that are theirs.
inline std::vector<double> so2_scores(const So2Attention &attention, const std::vector<double> &scores) {
  std::vector<double> found;
  const int num = attention.channels;
  for (int head = 0; head < attention.heads; ++head) {
    const double *x = &scores[head * num];
    const double mean = std::accumulate(x, x + num, 0.0) / num;
    double variance = 0.0, t = 0.0;
    for (int k = 0; k < num; ++k) variance += (x[k] - mean) * (x[k] - mean) / num;
    for (int k = 0; k < num; ++k) {
      const double normed = (x[k] - mean) / std::sqrt(variance + attention.epsilon);
      const double y = attention.weight[k] * normed + attention.bias[k];
      t += attention.vector[head * num + k] * (0.2 * y + 0.8 * activated(Activation::silu, y));
    }
    found.push_back(t);
  }
  return found;
}

// The weights f exp(t) / sum of f exp(t) of all messages of a receiver, by head.
inline std::vector<std::vector<double>> so2_weights(const std::vector<std::vector<double>> &t,
                                                    const std::vector<double> &cutoff) {
  std::vector<std::vector<double>> weights = t;
  for (size_t head = 0; !t.empty() && head < t[0].size(); ++head) {
    double largest = -INFINITY, sum = 0.0;
    for (size_t e = 0; e < t.size(); ++e) largest = std::max(largest, t[e][head] + std::log(cutoff[e]));
    for (size_t e = 0; e < t.size(); ++e) sum += cutoff[e] * std::exp(t[e][head] - largest);
    for (size_t e = 0; e < t.size(); ++e) weights[e][head] = cutoff[e] * std::exp(t[e][head] - largest) / sum;
  }
  return weights;
}

// The message of an edge, in the order of irreps.h, without the weights of attention, whose scores are written to t;
// with a frame that is turned about the edge by an angle of any size or, where the message depends on it, the one of
// doc/model_file.rst.
inline std::vector<double> so2_message(const So2Convolution &c, int channels_in, const double *vec,
                                       const std::vector<double> &x_i, const std::vector<double> &x_j,
                                       const std::vector<double> &factors, double cutoff, std::vector<double> &t) {
  // Two directions across the edge, then turned.
  const double length = std::sqrt(vec[0] * vec[0] + vec[1] * vec[1] + vec[2] * vec[2]),
               angle = c.depends_on_frame() ? 0.0 : 1e3 * length;
  double n[3], a[3] = {0.3, -0.5, 0.8}, b[3];
  for (int k = 0; k < 3; ++k) n[k] = vec[k] / length;
  if (c.depends_on_frame()) {
    const double least = std::min({std::fabs(n[0]), std::fabs(n[1]), std::fabs(n[2])});
    for (int k = 2; k >= 0; --k)
      if (std::fabs(n[k]) <= least + 1e-3)
        for (int q = 0; q < 3; ++q) a[q] = q == k;
  }
  const double along = a[0] * n[0] + a[1] * n[1] + a[2] * n[2];
  for (int k = 0; k < 3; ++k) a[k] -= along * n[k];
  const double size = std::sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
  for (double &v : a) v /= size;
  for (int k = 0; k < 3; ++k) b[k] = a[(k + 1) % 3] * n[(k + 2) % 3] - a[(k + 2) % 3] * n[(k + 1) % 3];
  double r[3][3];
  for (int k = 0; k < 3; ++k) {
    r[0][k] = std::cos(angle) * a[k] + std::sin(angle) * b[k];
    r[1][k] = n[k];
    r[2][k] = std::cos(angle) * b[k] - std::sin(angle) * a[k];
  }
  const std::vector<std::vector<double>> d = rotations_by_quadrature(c.lmax, r);

  So2Components u(2 * c.mmax + 1);
  for (int m = 0; m <= c.mmax; ++m)
    for (int l = m; l <= c.lmax; ++l) {
      const int dim = 2 * l + 1, offset = channels_in * l * l;
      for (const auto *x : {&x_j, &x_i})
        for (int w = 0; w < channels_in; ++w)
          for (const int side : {m, -m}) {
            double sum = 0.0;
            for (int k = 0; k < dim; ++k) sum += d[l][(l + side) * dim + k] * (*x)[offset + w * dim + k];
            u[c.mmax + side].push_back(sum);
            if (m == 0) break;
          }
    }
  int channels = 0;
  std::vector<double> scores;
  for (size_t number = 0; number < c.linears.size(); ++number) {
    const So2Linear &linear = c.linears[number];
    size_t column = 0;
    for (int m = 0; static_cast<int>(number) == c.radial_linear && m <= c.mmax; ++m) {
      for (const int side : {m, -m}) {
        for (size_t k = 0; k < u[c.mmax + side].size(); ++k) u[c.mmax + side][k] *= factors[column + k];
        if (m == 0) break;
      }
      column += u[c.mmax + m].size();
    }
    So2Components v(u.size());
    const auto add = [](std::vector<double> &to, const std::vector<double> &from, const Matrix &w, double sign) {
      to.resize(w.cols, 0.0);
      for (int i = 0; i < w.rows; ++i)
        for (int j = 0; j < w.cols; ++j) to[j] += sign * from[i] * w(i, j);
    };
    for (int m = 0; m <= c.mmax; ++m) {
      const auto &[same, other] = linear.weights[m];
      std::vector<double> &plus = v[c.mmax + m], &minus = v[c.mmax - m];
      add(plus, u[c.mmax + m], same, 1.0);
      if (m == 0) continue;
      add(plus, u[c.mmax - m], other, -1.0);
      add(minus, u[c.mmax + m], other, 1.0);
      add(minus, u[c.mmax - m], same, 1.0);
    }
    std::vector<double> &scalar = v[c.mmax];
    for (size_t j = 0; j < linear.bias.size(); ++j) scalar[j] += linear.bias[j];
    channels = linear.channels_after();
    if (linear.has_product()) v = so2_product(c, linear, v, scores);
    if (linear.has_points()) v = so2_activated(c, linear, v, scores);
    if (linear.has_gate) {
      const std::vector<double> gates(scalar.begin(), scalar.begin() + c.lmax * channels);
      scalar.erase(scalar.begin(), scalar.begin() + c.lmax * channels);
      for (int m = -c.mmax; m <= c.mmax; ++m)
        for (int l = std::abs(m); l <= c.lmax; ++l)
          for (int w = 0; w < channels; ++w) {
            double &component = v[c.mmax + m][(l - std::abs(m)) * channels + w];
            if (l == 0)
              component = activated(linear.scalar_activation, component);
            else
              component *= activated(linear.gate_activation, gates[(l - 1) * channels + w]);
          }
    }
    u = v;
  }
  if (c.attention.heads > 0) t = so2_scores(c.attention, scores);
  std::vector<double> message((c.lmax + 1) * (c.lmax + 1) * channels, 0.0);
  for (int l = 0; l <= c.lmax; ++l)
    for (int w = 0; w < channels; ++w)
      for (int k = 0, dim = 2 * l + 1; k < dim; ++k)
        for (int m = -std::min(l, c.mmax); m <= std::min(l, c.mmax); ++m)
          message[channels * l * l + w * dim + k] +=
              cutoff * d[l][(l + m) * dim + k] * u[c.mmax + m][(l - std::abs(m)) * channels + w];
  return message;
}

// Energies per receiver. Every row must be owned. direct_forces: of the receivers, where the model has them; or null.
inline std::vector<double> scalar_energies(const Model &model, const ImageStructure &s,
                                           std::vector<std::array<double, 3>> *direct_forces = nullptr) {
  const Neighborhood &g = s.neighborhood;
  const int num_atoms = g.num_receivers;
  using Feature = std::vector<std::vector<double>>;    // [atom][component]
  std::map<int, Feature> features;
  std::vector<double> energy(num_atoms, 0.0);

  // Calls f(candidate, vec, r, species of receiver and sender) for all neighbors of receiver i.
  const auto for_neighbors_within = [&](double cutoff, const Matrix &of_pair, int i, const auto &f) {
    for (int64_t c = g.first[i]; c < g.first[i + 1]; ++c) {
      double vec[3];
      for (int k = 0; k < 3; ++k) vec[k] = s.positions[g.sender_atom[c]][k] - s.positions[g.receiver[i]][k];
      const double r = std::sqrt(vec[0] * vec[0] + vec[1] * vec[1] + vec[2] * vec[2]);
      const int a = g.row_species[i], b = g.row_species[g.sender_row[c]];
      if (r < (of_pair.data.empty() ? cutoff : of_pair(a, b))) f(c, vec, r, a, b);
    }
  };
  const auto for_neighbors = [&](int i, const auto &f) {
    std::vector<double> squares;
    for_neighbors_within(model.cutoff, model.pair_cutoff, i,
                         [&](int64_t, const double *, double r, int, int) { squares.push_back(r * r); });
    std::sort(squares.begin(), squares.end());
    const NearestNeighbors &nearest = model.nearest;
    double most = INFINITY;    // squared distance
    if (nearest.count > 0 && static_cast<int>(squares.size()) > nearest.count)
      most = nearest.tolerance < 0.0 ? squares[nearest.count - 1] : squares[nearest.count] + nearest.tolerance;
    for_neighbors_within(model.cutoff, model.pair_cutoff, i, [&](int64_t c, const double *vec, double r, int a, int b) {
      if (r * r <= most) f(c, vec, r, a, b);
    });
  };

  for (const Layer &layer : model.layers) {
    if (const auto *embedding = std::get_if<SpeciesEmbedding>(&layer)) {
      Feature &out = features[embedding->output];
      for (int i = 0; i < num_atoms; ++i) {
        out.emplace_back();
        for (int u = 0; u < embedding->weight.cols; ++u) out.back().push_back(embedding->weight(g.row_species[i], u));
      }
    } else if (const auto *linear = std::get_if<Linear>(&layer)) {
      const Irreps &in = model.features[linear->input], &out = model.features[linear->output];
      const Feature x = features.at(linear->input);
      Feature &y = features[linear->output];
      if (!linear->accumulate) y.assign(num_atoms, std::vector<double>(out.dim(), 0.0));
      for (int i = 0; i < num_atoms; ++i) {
        for (const LinearBlock &b : linear->blocks) {
          const Matrix &w = b.weight[linear->per_species ? g.row_species[i] : 0];
          const int dim = in[b.in].irrep.dim();
          for (int u = 0; u < w.rows; ++u)
            for (int v = 0; v < w.cols; ++v)
              for (int m = 0; m < dim; ++m)
                y[i][out.offset(b.out) + v * dim + m] += w(u, v) * x[i][in.offset(b.in) + u * dim + m];
        }
        for (size_t k = 0; k < linear->bias.size(); ++k)
          for (size_t u = 0; u < linear->bias[k].size(); ++u)
            y[i][out.offset(static_cast<int>(k)) + u] += linear->bias[k][u];
      }
    } else if (const auto *convolution = std::get_if<Convolution>(&layer)) {
      const Feature &x = features.at(convolution->input);
      const TensorProduct &product = convolution->product;
      Feature m(num_atoms, std::vector<double>(product.irreps_out.dim(), 0.0));
      std::vector<double> y((product.lmax_edge + 1) * (product.lmax_edge + 1)), w(product.num_weights());
      const bool reads_features = convolution->radial.reads_features();
      std::vector<RadialFunction> radial;
      if (!reads_features) radial = functions_of_pairs(convolution->radial, model.num_species());
      for (int i = 0; i < num_atoms; ++i)
        for_neighbors(i, [&](int64_t c, const double *vec, double r, int a, int b) {
          spherical_harmonics(product.lmax_edge, vec, y.data(), nullptr);
          if (reads_features)
            w = weights_of_features(convolution->radial, product.irreps_in, r, a, b, x[i], x[g.sender_row[c]]);
          else
            radial[a * model.num_species() + b].derivatives(r, 0, 1, w.data());
          product.forward(x[g.sender_row[c]].data(), y.data(), w.data(), m[i].data());
        });
      features[convolution->output] = m;
    } else if (const auto *so2 = std::get_if<So2Convolution>(&layer)) {
      const Feature &x = features.at(so2->input);
      Feature y(num_atoms, std::vector<double>(model.features[so2->output].dim(), 0.0));
      const std::vector<RadialFunction> radial = functions_of_pairs(so2->radial, model.num_species());
      std::vector<double> factors(so2->radial.num_outputs());
      const int channels = model.features[so2->output][0].mul, heads = so2->attention.heads;
      for (int i = 0; i < num_atoms; ++i) {
        std::vector<std::vector<double>> messages, scores;
        std::vector<double> cutoffs;
        for_neighbors(i, [&](int64_t c, const double *vec, double r, int a, int b) {
          const RadialFunction &of_pair = radial[a * model.num_species() + b];
          double cutoff;
          of_pair.derivatives(r, 0, 1, factors.data());
          of_pair.basis.cutoff_function(r, 0, 1, &cutoff);
          std::vector<double> t;
          messages.push_back(
              so2_message(*so2, model.features[so2->input][0].mul, vec, x[i], x[g.sender_row[c]], factors, cutoff, t));
          scores.push_back(t);
          cutoffs.push_back(cutoff);
        });
        const std::vector<std::vector<double>> weights = so2_weights(scores, cutoffs);
        for (size_t e = 0; e < messages.size(); ++e)
          for (int l = 0; l <= so2->lmax; ++l)
            for (int k = 0, dim = 2 * l + 1, before = channels * l * l; k < channels * dim; ++k)
              y[i][before + k] +=
                  (heads > 0 ? weights[e][k / dim / (channels / heads)] : 1.0) * messages[e][before + k];
      }
      features[so2->output] = y;
    } else if (const auto *attention = std::get_if<PairAttention>(&layer)) {
      const Irreps &in = model.features[attention->input];
      const Feature &x = features.at(attention->input);
      Feature y(num_atoms, std::vector<double>(model.features[attention->output].dim(), 0.0));
      const std::vector<RadialFunction> radial = functions_of_pairs(attention->radial, model.num_species());
      for (int i = 0; i < num_atoms; ++i)
        for_neighbors(i, [&](int64_t c, const double *vec, double r, int a, int b) {
          add_pair_attention(*attention, in, radial[a * model.num_species() + b], vec, r, x[i], x[g.sender_row[c]],
                             y[i]);
        });
      features[attention->output] = y;
    } else if (const auto *local = std::get_if<LocalNetwork>(&layer)) {
      for (int i = 0; i < num_atoms; ++i) {
        std::vector<Vector3> vectors;
        std::vector<int> species;
        for_neighbors(i, [&](int64_t, const double *vec, double, int, int b) {
          vectors.push_back({vec[0], vec[1], vec[2]});
          species.push_back(b);
        });
        if (!vectors.empty()) energy[i] += local_energy(*local, g.row_species[i], vectors, species);
      }
    } else if (const auto *gate = std::get_if<Gate>(&layer)) {
      const Irreps &in = model.features[gate->input], &out = model.features[gate->output];
      const Feature &z = features.at(gate->input);
      Feature x(num_atoms, std::vector<double>(out.dim(), 0.0));
      for (int i = 0; i < num_atoms; ++i)
        for (const GateTerm &t : gate->terms) {
          const int dim = out[t.out].irrep.dim();
          for (int u = 0; u < out[t.out].mul; ++u) {
            const double *from = &z[i][in.offset(t.in) + (t.offset + u) * dim];
            double *to = &x[i][out.offset(t.out) + u * dim];
            double a;
            activation_derivatives(t.activation, t.gate_in < 0 ? *from : z[i][in.offset(t.gate_in) + t.gate_offset + u],
                                   0, &a);
            for (int m = 0; m < dim; ++m) to[m] = t.scale * a * (t.gate_in < 0 ? 1.0 : from[m]);
          }
        }
      features[gate->output] = x;
    } else if (const auto *normalization = std::get_if<DensityNormalization>(&layer)) {
      const std::vector<RadialFunction> density = functions_of_pairs(normalization->density, model.num_species());
      Feature x = features.at(normalization->input);
      for (int i = 0; i < num_atoms; ++i) {
        double sum = 0.0;
        for_neighbors(i, [&](int64_t, const double *, double r, int a, int b) {
          double one;
          density[a * model.num_species() + b].derivatives(r, 0, 1, &one);
          sum += one;
        });
        for (double &v : x[i]) v /= normalization->offset + normalization->factor * sum;
      }
      features[normalization->output] = x;
    } else if (const auto *norm = std::get_if<LayerNorm>(&layer)) {
      Feature x = features.at(norm->input);
      for (std::vector<double> &row : x) {
        double mean = 0.0, variance = 0.0;
        for (const double v : row) mean += v / static_cast<double>(row.size());
        for (const double v : row) variance += (v - mean) * (v - mean) / static_cast<double>(row.size());
        for (size_t u = 0; u < row.size(); ++u)
          row[u] = norm->weight[u] * (row[u] - mean) / std::sqrt(variance + norm->epsilon) + norm->bias[u];
      }
      features[norm->output] = x;
    } else if (const auto *balance = std::get_if<ChannelBalance>(&layer)) {
      Feature x = features.at(balance->input);
      for (size_t k = 0; k < balance->target.size(); ++k) {
        const size_t c = model.features[balance->input].offset(balance->block) + balance->first + k;
        const auto share = [&](const std::vector<double> &row) {
          if (!balance->has_shares()) return 1.0;
          const double f = row[model.features[balance->input].offset(balance->share_block) + balance->share_first + k];
          return std::pow(f, balance->power);
        };
        if (balance->power < 0)
          for (std::vector<double> &row : x) row[c] *= -share(row);
        double sum = 0.0, shares = balance->epsilon;
        for (const std::vector<double> &row : x) sum += row[c];
        for (const std::vector<double> &row : x) shares += share(row);
        for (std::vector<double> &row : x) row[c] -= share(row) * (sum - balance->target[k]) / shares;
      }
      features[balance->output] = x;
    } else if (const auto *scaled = std::get_if<NormScale>(&layer)) {
      const Irreps &irreps = model.features[scaled->input];
      Feature x = features.at(scaled->input);
      for (std::vector<double> &row : x)
        for (int u = 0; u < irreps[0].mul; ++u) {
          double square = 0.0;
          const auto for_components = [&](const auto &f) {
            for (int b = 0; b < irreps.size(); ++b)
              for (int m = 0, dim = irreps[b].irrep.dim(); m < dim; ++m) f(row[irreps.offset(b) + u * dim + m]);
          };
          for_components([&](double v) { square += v * v; });
          for_components([&](double &v) { v /= scaled->offset + scaled->factor * square; });
        }
      features[scaled->output] = x;
    } else if (const auto *spherical = std::get_if<SphericalNorm>(&layer)) {
      const Irreps &irreps = model.features[spherical->input];
      Feature x = features.at(spherical->input);
      for (std::vector<double> &row : x)
        for (const NormGroup &group : spherical->groups) {
          double square = spherical->epsilon;
          for (size_t k = 0; k < group.blocks.size(); ++k) {
            const int b = group.blocks[k], size = irreps[b].dim();
            const bool is_centered = group.center && irreps[b].irrep == Irrep{0, 1};
            double *const first = &row[irreps.offset(b)];
            const double mean = is_centered ? std::accumulate(first, first + size, 0.0) / size : 0.0;
            for (int n = 0; n < size; ++n) {
              first[n] -= mean;
              square += group.weights[k][n / irreps[b].irrep.dim()] * first[n] * first[n];
            }
          }
          for (const int b : group.blocks)
            for (int k = 0, dim = irreps[b].irrep.dim(); k < irreps[b].dim(); ++k) {
              double &v = row[irreps.offset(b) + k];
              v *= spherical->scale[b][k / dim] / std::sqrt(square);
              if (!spherical->bias.empty() && irreps[b].irrep == Irrep{0, 1}) v += spherical->bias[k];
            }
        }
      features[spherical->output] = x;
    } else if (const auto *grid = std::get_if<GridNetwork>(&layer)) {
      // The block of each component, and its number in the block.
      const auto components = [](const Irreps &irreps) {
        std::vector<std::array<int, 2>> found;
        for (int b = 0; b < irreps.size(); ++b)
          for (int m = 0; m < irreps[b].irrep.dim(); ++m) found.push_back({b, m});
        return found;
      };
      const Irreps &in = model.features[grid->input], &out = model.features[grid->output];
      const auto place = [](const Irreps &irreps, std::array<int, 2> c, int u) {
        return irreps.offset(c[0]) + u * irreps[c[0]].irrep.dim() + c[1];
      };
      const auto of_in = components(in), of_out = components(out);
      Feature y(num_atoms, std::vector<double>(out.dim(), 0.0));
      std::vector<double> value(in[0].mul), result(out[0].mul);
      for (int i = 0; i < num_atoms; ++i)
        for (int q = 0; q < grid->num_points(); ++q) {
          for (int u = 0; u < in[0].mul; ++u) {
            value[u] = 0.0;
            for (size_t c = 0; c < of_in.size(); ++c)
              value[u] += grid->to_points(q, static_cast<int>(c)) * features.at(grid->input)[i][place(in, of_in[c], u)];
          }
          grid->network.derivatives(0, value.data(), result.data());
          for (int u = 0; u < out[0].mul; ++u)
            for (size_t c = 0; c < of_out.size(); ++c)
              y[i][place(out, of_out[c], u)] += grid->from_points(q, static_cast<int>(c)) * result[u];
        }
      features[grid->output] = y;
    } else if (const auto *node = std::get_if<NodeProduct>(&layer)) {
      Feature y(num_atoms, std::vector<double>(model.features[node->output].dim(), 0.0));
      for (int i = 0; i < num_atoms; ++i) {
        std::vector<double> x = features.at(node->input)[i];
        if (node->second_input >= 0) {
          const std::vector<double> &second = features.at(node->second_input)[i];
          x.insert(x.end(), second.begin(), second.end());
        }
        node->product.forward(x.data(), y[i].data());
      }
      features[node->output] = y;
    } else if (const auto *contraction = std::get_if<SymmetricContraction>(&layer)) {
      Feature y(num_atoms, std::vector<double>(model.features[contraction->output].dim(), 0.0));
      for (int i = 0; i < num_atoms; ++i)
        contraction->product.forward(g.row_species[i], features.at(contraction->input)[i].data(), y[i].data());
      features[contraction->output] = y;
    } else if (const auto *repulsion = std::get_if<PairRepulsion>(&layer)) {
      for (int i = 0; i < num_atoms; ++i)
        for_neighbors(i, [&](int64_t, const double *, double r, int a, int b) {
          energy[i] += repulsion->energy(a, b, r, nullptr);
        });
    } else if (const auto *coulomb = std::get_if<Coulomb>(&layer)) {
      const Feature &q = features.at(coulomb->input);
      for (int i = 0; i < num_atoms; ++i)
        for_neighbors_within(coulomb->cutoff, {}, i, [&](int64_t c, const double *, double r, int, int) {
          double product = 0.0;
          for (size_t u = 0; u < coulomb->weights.size(); ++u)
            product += coulomb->weights[u] * q[i][u] * q[g.sender_row[c]][u];
          const CoulombFunction &k = coulomb->function;
          const double u = r / k.damping, damped = u < 1.0 ? 1.0 - std::exp(1.0 - 1.0 / (1.0 - u * u)) : 1.0;
          double e = damped * (1.0 / r + k.square * r * r - k.shift);
          if (k.width > 0.0) {
            const double R = coulomb->cutoff, end = std::erf(R / k.width) / R;
            const double slope =
                (std::sqrt(4.0 / std::acos(-1.0)) / k.width * std::exp(-R * R / (k.width * k.width)) - end) / R;
            e = std::erf(r / k.width) / r - end - (1.0 - switch_between(r, k.on, R)) * slope * (r - R);
          }
          energy[i] += 0.5 * k.prefactor * e * product;
        });
    } else if (const auto *dispersion = std::get_if<Dispersion>(&layer)) {
      const Feature &v = features.at(dispersion->input);
      const int column = model.features[dispersion->input].offset(dispersion->block);
      for (int i = 0; i < num_atoms; ++i)
        for_neighbors_within(
            dispersion->function.cutoff, {}, i, [&](int64_t c, const double *, double r, int a, int b) {
              energy[i] += 0.5 * dispersion_energy(*dispersion, a, b, v[i][column], v[g.sender_row[c]][column], r);
            });
    } else if (const auto *readout = std::get_if<Readout>(&layer)) {
      const int offset = model.features[readout->input].offset(readout->block);
      for (int i = 0; i < num_atoms; ++i)
        energy[i] += readout->network.value_and_gradient(features.at(readout->input)[i].data() + offset, nullptr);
    } else if (const auto *direct = std::get_if<DirectForces>(&layer)) {
      const int offset = model.features[direct->input].offset(direct->block);
      for (int i = 0; direct_forces && i < num_atoms; ++i) {
        const double *x = features.at(direct->input)[i].data() + offset;
        direct_forces->push_back({direct->scale * x[0], direct->scale * x[1], direct->scale * x[2]});
      }
    } else if (const auto *rescale = std::get_if<ScaleShift>(&layer)) {
      for (int i = 0; i < num_atoms; ++i)
        energy[i] = rescale->scale[g.row_species[i]] * energy[i] + rescale->shift[g.row_species[i]];
    }
  }
  return energy;
}

}    // namespace testing
}    // namespace equi

#endif
