// SPDX-License-Identifier: MIT
// The reference implementation of the tensor product of features with harmonics, and its adjoints.
#include "src/algebra/tensor_product.h"

#include "src/algebra/coupling.h"
#include "src/base/model_limits.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>

namespace equi {

namespace {

// The reference is called per edge with few different triples, so each is computed once per thread.
const std::vector<CouplingEntry> &cached_entries(int l1, int l2, int l3) {
  thread_local std::map<std::tuple<int, int, int>, std::vector<CouplingEntry>> cache;
  auto [it, is_new] = cache.try_emplace({l1, l2, l3});
  if (is_new) it->second = coupling_entries(l1, l2, l3);
  return it->second;
}

[[noreturn]] void bad_path(int q, const std::string &why) {
  throw std::invalid_argument("path " + std::to_string(q) + ": " + why);
}

// Calls f(input channel, output channel, index of their weight in the path) for all pairs that path q connects.
template <class F>
void for_channels(const TensorProduct &product, int q, const F &f) {
  const TensorProductPath &path = product.paths[q];
  const int mul_in = product.irreps_in[path.in].mul, mul_out = product.irreps_out[path.out].mul;
  for (int u = 0; u < mul_in; ++u) {
    if (path.connection == Connection::uvu)
      f(u, u, u);
    else
      for (int v = 0; v < mul_out; ++v) f(u, v, u * mul_out + v);
  }
}

}    // namespace

int64_t TensorProduct::num_weights() const {
  return weight_offset(static_cast<int>(paths.size()));
}

int64_t TensorProduct::num_weights(int path) const {
  const TensorProductPath &p = paths[path];
  const int64_t mul = irreps_in[p.in].mul;
  return p.connection == Connection::uvw ? mul * irreps_out[p.out].mul : mul;
}

int64_t TensorProduct::weight_offset(int path) const {
  int64_t sum = 0;
  for (int q = 0; q < path; ++q) sum += num_weights(q);
  return sum;
}

double TensorProduct::component_scale(int path) const {
  const TensorProductPath &p = paths[path];
  int64_t products = 1;
  if (p.connection == Connection::uvw) {
    products = 0;
    for (const TensorProductPath &other : paths)
      if (other.out == p.out) products += irreps_in[other.in].mul;
  }
  return std::sqrt(static_cast<double>(irreps_out[p.out].irrep.dim()) / products);
}

void TensorProduct::validate() const {
  const int num_paths = static_cast<int>(paths.size());
  if (num_paths == 0) throw std::invalid_argument("a tensor product without paths");
  if (num_paths > MAX_PATHS)
    throw std::invalid_argument("expected at most " + std::to_string(MAX_PATHS) + " paths, found " +
                                std::to_string(num_paths));
  std::vector<int> writer(irreps_out.size(), -1);
  for (int q = 0; q < num_paths; ++q) {
    const TensorProductPath &path = paths[q];
    if (path.in < 0 || path.in >= irreps_in.size())
      bad_path(q, "expected an input block from 0 to " + std::to_string(irreps_in.size() - 1) + ", found " +
                      std::to_string(path.in));
    if (path.out < 0 || path.out >= irreps_out.size())
      bad_path(q, "expected an output block from 0 to " + std::to_string(irreps_out.size() - 1) + ", found " +
                      std::to_string(path.out));
    const bool is_uvu = path.connection == Connection::uvu;
    const int earlier = writer[path.out];
    if (earlier >= 0 && (is_uvu || paths[earlier].connection == Connection::uvu))
      bad_path(q, "output block " + std::to_string(path.out) + " belongs to an earlier path");
    writer[path.out] = q;
    if (path.l2 < 0 || path.l2 > lmax_edge)
      bad_path(q,
               "expected a harmonic l from 0 to " + std::to_string(lmax_edge) + ", found " + std::to_string(path.l2));
    const IrrepBlock &in = irreps_in[path.in], &out = irreps_out[path.out];
    if (is_uvu && in.mul != out.mul)
      bad_path(
          q, "expected " + std::to_string(in.mul) + " channels in its output block, found " + std::to_string(out.mul));
    const int l1 = in.irrep.l, l3 = out.irrep.l;
    if (l3 < std::abs(l1 - path.l2) || l3 > l1 + path.l2)
      bad_path(q, "l = " + std::to_string(l1) + " and " + std::to_string(path.l2) +
                      " do not couple to l = " + std::to_string(l3));
  }
  for (int b = 0; b < irreps_out.size(); ++b)
    if (writer[b] < 0)
      throw std::invalid_argument("expected a path for each output block, found none for block " + std::to_string(b));
  int64_t weights = 0;
  for (int q = 0; q < num_paths; ++q) {
    weights += num_weights(q);
    if (weights > MAX_WEIGHTS)
      bad_path(q, "expected at most " + std::to_string(MAX_WEIGHTS) + " weights up to this path, found " +
                      std::to_string(weights));
  }
}

void TensorProduct::forward(const double *x, const double *y, const double *w, double *out) const {
  for (int q = 0; q < static_cast<int>(paths.size()); ++q) {
    const TensorProductPath &path = paths[q];
    const IrrepBlock &in = irreps_in[path.in];
    const int d1 = in.irrep.dim(), l3 = irreps_out[path.out].irrep.l, d3 = 2 * l3 + 1;
    const double *xq = x + irreps_in.offset(path.in), *yq = y + path.l2 * path.l2, *wq = w + weight_offset(q);
    double *oq = out + irreps_out.offset(path.out);
    const auto &entries = cached_entries(in.irrep.l, path.l2, l3);
    for_channels(*this, q, [&](int u, int v, int weight) {
      const double factor = path.scale * wq[weight];
      for (const CouplingEntry &c : entries) oq[v * d3 + c.m3] += factor * c.value * xq[u * d1 + c.m1] * yq[c.m2];
    });
  }
}

void TensorProduct::backward(const double *x, const double *y, const double *w, const double *out_adj, double *x_adj,
                             double *y_adj, double *w_adj) const {
  for (int q = 0; q < static_cast<int>(paths.size()); ++q) {
    const TensorProductPath &path = paths[q];
    const IrrepBlock &in = irreps_in[path.in];
    const int d1 = in.irrep.dim(), l3 = irreps_out[path.out].irrep.l, d3 = 2 * l3 + 1;
    const int x_offset = irreps_in.offset(path.in), y_offset = path.l2 * path.l2;
    const int64_t w_offset = weight_offset(q);
    const double *xq = x + x_offset, *yq = y + y_offset, *wq = w + w_offset;
    const double *gq = out_adj + irreps_out.offset(path.out);
    const auto &entries = cached_entries(in.irrep.l, path.l2, l3);
    for_channels(*this, q, [&](int u, int v, int weight) {
      double weight_sum = 0.0;
      for (const CouplingEntry &c : entries) {
        const double g = path.scale * c.value * gq[v * d3 + c.m3];
        const double xv = xq[u * d1 + c.m1], yv = yq[c.m2];
        weight_sum += g * xv * yv;
        if (x_adj) x_adj[x_offset + u * d1 + c.m1] += g * wq[weight] * yv;
        if (y_adj) y_adj[y_offset + c.m2] += g * wq[weight] * xv;
      }
      if (w_adj) w_adj[w_offset + weight] += weight_sum;
    });
  }
}

}    // namespace equi
