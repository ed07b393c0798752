// SPDX-License-Identifier: MIT
// The kernels of SO(2) convolutions of one instruction set, included by host_kernels_impl.h. Channels are taken in
// blocks that the compiler vectorizes.
#ifndef EQUI_HOST_SO2_IMPL_H
#define EQUI_HOST_SO2_IMPL_H

#include "kokkos/host_kernels/host_gate_impl.h"
#include "kokkos/host_kernels/so2_kernels.h"

namespace equi {
namespace EQUI_ISA {

template <class R>
static void so2_rotate(const So2RotationCall<R> &c) {
  const So2Shape &s = c.shape;
  for (int64_t e = 0; e < c.count; e++)
    for (int l = 0; l <= s.lmax; l++) {
      const int dim = 2 * l + 1;
      const R *d = c.rotations + e * rotations_size(s.lmax) + (l > 0 ? rotations_size(l - 1) : 0);
      const R *x = c.x[l] + int64_t(c.row[e]) * dim * c.x_channels;
      for (int m = -s.largest_m(l); m <= s.largest_m(l); m++) {
        R *u = c.u + s.at(c.count, e, l, m) + c.first;
        const R *row = d + (l + m) * dim;
        for (int k = 0; k < c.channels; k += GATE_BLOCK) {
          R sum[GATE_BLOCK] = {};
          for (int n = 0; n < dim; n++)
            for (int j = 0; j < GATE_BLOCK; j++) sum[j] += row[n] * x[n * c.x_channels + k + j];
          for (int j = 0; j < GATE_BLOCK; j++) u[k + j] = sum[j];
        }
      }
    }
}

template <class R>
static void so2_rotate_back(const So2RotationCall<R> &c) {
  const So2Shape &s = c.shape;
  for (int64_t e = 0; e < c.count; e++)
    for (int l = 0; l <= s.lmax; l++) {
      const int dim = 2 * l + 1, most = s.largest_m(l);
      const R factor = c.factor ? c.factor[e] : R(1);
      const R *d = c.rotations + e * rotations_size(s.lmax) + (l > 0 ? rotations_size(l - 1) : 0);
      R *x = c.x[l] + int64_t(c.row[e]) * dim * c.x_channels;
      for (int n = 0; n < dim; n++)
        for (int k = 0; k < c.channels; k += GATE_BLOCK) {
          R sum[GATE_BLOCK] = {};
          for (int m = -most; m <= most; m++) {
            const R *u = c.u + s.at(c.count, e, l, m) + c.first + k;
            const R row = d[(l + m) * dim + n];
            for (int j = 0; j < GATE_BLOCK; j++) sum[j] += row * u[j];
          }
          R *to = x + n * c.x_channels + k;
          for (int j = 0; j < GATE_BLOCK; j++) to[j] += factor * sum[j];
        }
    }
}

// f(u, v, factors, how many) for the components of +m, and with v of -m as well, that share factors.
template <class R, class F>
static void for_so2_factors(const So2FactorCall<R> &c, const F &f) {
  const So2Shape &s = c.shape;
  int64_t row = 0;
  for (int m = 0; m <= s.mmax; m++) row += s.orders(m) * s.channels;
  for (int64_t e = 0; e < c.count; e++) {
    R *factors = c.factors + e * row;
    for (int m = 0; m <= s.mmax; m++) {
      const int64_t at = c.count * s.before(m) + e * s.width(m), size = s.orders(m) * s.channels;
      f(c.u + at, c.v + at, factors, size, m > 0);
      factors += size;
    }
  }
}

template <class R>
static void so2_factors(const So2FactorCall<R> &c) {
  for_so2_factors(c, [](const R *u, R *v, const R *factors, int64_t size, bool has_minus) {
    for (int64_t k = 0; k < size; k++) v[k] = factors[k] * u[k];
    for (int64_t k = 0; has_minus && k < size; k++) v[size + k] = factors[k] * u[size + k];
  });
}

template <class R>
static void so2_factors_backward(const So2FactorCall<R> &c) {
  for_so2_factors(c, [](const R *u, R *v, R *factors, int64_t size, bool has_minus) {
    const R *minus_u = u + size;
    R *minus_v = v + size;
    if (has_minus)
      for (int64_t k = 0; k < size; k++) {
        const R factor = factors[k];
        factors[k] = v[k] * u[k] + minus_v[k] * minus_u[k];
        v[k] *= factor;
        minus_v[k] *= factor;
      }
    else
      for (int64_t k = 0; k < size; k++) {
        const R factor = factors[k];
        factors[k] = v[k] * u[k];
        v[k] *= factor;
      }
  });
}

template <class R>
static void so2_torque(const So2TorqueCall<R> &c) {
  const So2Shape &as = c.a_shape, &bs = c.b_shape;
  for (int64_t e = 0; e < c.count; e++) {
    R torque[3] = {};
    for (int n = 0; n < c.num_entries; n++) {
      const auto &entry = c.entries[n];
      const R *a = c.a + as.at(c.count, e, entry.l, entry.m), *b = c.b + bs.at(c.count, e, entry.l, entry.n);
      R sum[GATE_BLOCK] = {}, total = 0;
      for (int k = 0; k < as.channels; k += GATE_BLOCK)
        for (int j = 0; j < GATE_BLOCK; j++) sum[j] += a[k + j] * b[k + j];
      for (int j = 0; j < GATE_BLOCK; j++) total += sum[j];
      torque[entry.k] += entry.value * total;
    }
    for (int k = 0; k < 3; k++) c.torque[3 * e + k] += (c.factor ? c.factor[e] : R(1)) * torque[k];
  }
}

template <class R>
static void so2_gate(const So2GateCall<R> &c) {
  const So2Shape &zs = c.z_shape, &hs = c.h_shape;
  for (int64_t e = 0; e < c.count; e++)
    for (int l = 0; l <= zs.lmax; l++)
      for (int k = 0; k < zs.channels; k += GATE_BLOCK) {
        const R *of = c.z + (l == 0 ? zs.at(c.count, e, 0, 0) : zs.gate_at(e, l - 1)) + k;
        R value[GATE_BLOCK] = {}, derivative[GATE_BLOCK] = {};
        const int count = c.mul - k < GATE_BLOCK ? c.mul - k : GATE_BLOCK;
        activate_block<R>(l == 0 ? c.scalars : c.gates, R(1), of, count, value, derivative);
        for (int m = -zs.largest_m(l); m <= zs.largest_m(l); m++) {
          const R *z = c.z + zs.at(c.count, e, l, m) + k;
          R *h = c.h + hs.at(c.count, e, l, m) + k;
          for (int j = 0; j < GATE_BLOCK; j++) h[j] = l == 0 ? value[j] : z[j] * value[j];
        }
      }
}

template <class R>
static void so2_gate_backward(const So2GateCall<R> &c) {
  const So2Shape &zs = c.z_shape, &hs = c.h_shape;
  for (int64_t e = 0; e < c.count; e++)
    for (int l = 0; l <= zs.lmax; l++)
      for (int k = 0; k < zs.channels; k += GATE_BLOCK) {
        R *of = c.z + (l == 0 ? zs.at(c.count, e, 0, 0) : zs.gate_at(e, l - 1)) + k;
        R value[GATE_BLOCK] = {}, derivative[GATE_BLOCK] = {};
        const int count = c.mul - k < GATE_BLOCK ? c.mul - k : GATE_BLOCK;
        activate_block<R>(l == 0 ? c.scalars : c.gates, R(1), of, count, value, derivative);
        R sum[GATE_BLOCK] = {};
        for (int m = -zs.largest_m(l); m <= zs.largest_m(l); m++) {
          R *z = c.z + zs.at(c.count, e, l, m) + k;
          const R *h = c.h + hs.at(c.count, e, l, m) + k;
          for (int j = 0; j < GATE_BLOCK; j++) {
            sum[j] += l == 0 ? h[j] : h[j] * z[j];
            z[j] = h[j] * value[j];
          }
        }
        for (int j = 0; j < GATE_BLOCK; j++) of[j] = derivative[j] * sum[j];
      }
}

}    // namespace EQUI_ISA
}    // namespace equi

#endif
