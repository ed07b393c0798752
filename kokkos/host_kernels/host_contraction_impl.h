// SPDX-License-Identifier: MIT
// The generic kernel of symmetric contractions for one instruction set, included by host_kernels_impl.h. It walks
// the tree (contraction_schedule.h), or the grid, for a few atoms at once, so reading the tree does not cost more
// than the products.
#ifndef EQUI_HOST_CONTRACTION_IMPL_H
#define EQUI_HOST_CONTRACTION_IMPL_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/kernel_interface/host_simd.h"
#include "kokkos/kernel_interface/sphere_grid_walk.h"

#include <cstddef>

namespace equi {
namespace EQUI_ISA {

constexpr int CONTRACTION_ATOMS = 4;
constexpr int MAX_DEPTH = 4;

template <class T>
using GridWalk = SphereGridWalk<CONTRACTION_ATOMS, Real<T>, Simd<T>>;

template <class T>
static std::size_t contraction_scratch_bytes(const ContractionView<T> &tables) {
  return sizeof(Simd<T>) * (CONTRACTION_ATOMS * (2 * tables.num_inputs + tables.num_outputs) +
                            (tables.grid ? GridWalk<T>::memory_size(*tables.grid) : 0));
}

// Components in scratch, with the interface that SphereGridWalk expects.
template <class V>
struct ComponentsOfAtoms {
  V *v;
  EQUI_INLINE V load(int component, int atom) const { return v[CONTRACTION_ATOMS * component + atom]; }
  EQUI_INLINE void add(int component, int atom, V more) { v[CONTRACTION_ATOMS * component + atom] += more; }
};

// Calls f(value, pointer to lane 0) for all components and a block of atoms; the last atom fills the places of a
// block's missing ones.
template <class T, class F>
EQUI_INLINE void for_components(const ContractionFeature<T> &feature, const int *dim, int num_blocks, const int *row,
                                int count, int lane, const F &f) {
  int n = 0;
  for (int b = 0; b < num_blocks; b++)
    for (int m = 0; m < dim[b]; m++, n++)
      for (int k = 0; k < CONTRACTION_ATOMS; k++) {
        const int r = row[k < count ? k : count - 1];
        f(n * CONTRACTION_ATOMS + k, k < count, feature.data[b] + r * feature.width[b] + m * feature.stride[b] + lane);
      }
}

template <class T>
static void contraction_forward(const ContractionView<T> &tables, const ContractionCall<T> &call, void *scratch) {
  using V = Simd<T>;
  constexpr int A = CONTRACTION_ATOMS;
  V *x = static_cast<V *>(scratch), *out = x + A * tables.num_inputs;
  for (int first = 0; first < call.count; first += A)
    for (int lane = 0; lane < CHANNEL_PAD; lane += LANES<T>) {
      const int count = call.count - first < A ? call.count - first : A;
      for_components(call.x, tables.in_dim, tables.num_in, call.row + first, count, lane,
                     [&](int n, bool, Pointer<T> p) { x[n] = load(p); });
      for (int n = 0; n < A * tables.num_outputs; n++) out[n] = V{};
      if (tables.grid) {
        ComponentsOfAtoms<V> to{out};
        GridWalk<T>(*tables.grid, out + A * tables.num_outputs).forward(call.coefficients, ComponentsOfAtoms<V>{x}, to);
      }
      V product[MAX_DEPTH + 1][A];
      const int *output = tables.outputs;
      const Real<T> *coefficient = call.coefficients + lane;
      for (int n = 0; n < tables.num_nodes; n++) {    // a grid has no nodes
        const ContractionNode &node = tables.nodes[n];
        const V *factor = x + A * node.factor;
        V p[A];
        for (int k = 0; k < A; k++)
          product[node.depth][k] = p[k] = node.depth == 1 ? factor[k] : product[node.depth - 1][k] * factor[k];
        for (int e = 0; e < node.num_entries; e++, output++, coefficient += CHANNEL_PAD) {
          const auto c = load(coefficient);
          V *to = out + A * *output;
          for (int k = 0; k < A; k++) to[k] += c * p[k];
        }
      }
      for_components(call.out, tables.out_dim, tables.num_out, call.row + first, count, lane,
                     [&](int n, bool is_there, Pointer<T> p) {
                       if (is_there) store(p, out[n]);
                     });
    }
}

// With V_n = d(result)/d(product of node n): V_n is the contribution of its entries plus A_c V_c summed over its
// children c. The factor of n gets the product of its parent times V_n.
template <class T>
static void contraction_backward(const ContractionView<T> &tables, const ContractionCall<T> &call, void *scratch) {
  using V = Simd<T>;
  constexpr int A = CONTRACTION_ATOMS;
  V *x = static_cast<V *>(scratch), *x_adj = x + A * tables.num_inputs, *out_adj = x_adj + A * tables.num_inputs;
  for (int first = 0; first < call.count; first += A)
    for (int lane = 0; lane < CHANNEL_PAD; lane += LANES<T>) {
      const int count = call.count - first < A ? call.count - first : A;
      for_components(call.x, tables.in_dim, tables.num_in, call.row + first, count, lane,
                     [&](int n, bool, Pointer<T> p) {
                       x[n] = load(p);
                       x_adj[n] = V{};
                     });
      for_components(call.out, tables.out_dim, tables.num_out, call.row + first, count, lane,
                     [&](int n, bool, Pointer<T> p) { out_adj[n] = load(p); });
      if (tables.grid) {
        ComponentsOfAtoms<V> to{x_adj};
        GridWalk<T>(*tables.grid, out_adj + A * tables.num_outputs)
            .backward(call.coefficients, ComponentsOfAtoms<V>{x}, ComponentsOfAtoms<V>{out_adj}, to);
      }
      V product[MAX_DEPTH + 1][A], adjoint[MAX_DEPTH + 1][A];
      int factor[MAX_DEPTH + 1], depth = 0;
      const auto leave = [&] {
        const V *xf = x + A * factor[depth];
        V *to = x_adj + A * factor[depth];
        for (int k = 0; k < A; k++) {
          to[k] += depth == 1 ? adjoint[depth][k] : product[depth - 1][k] * adjoint[depth][k];
          if (depth > 1) adjoint[depth - 1][k] += xf[k] * adjoint[depth][k];
        }
        depth--;
      };
      const int *output = tables.outputs;
      const Real<T> *coefficient = call.coefficients + lane;
      for (int n = 0; n < tables.num_nodes; n++) {
        const ContractionNode &node = tables.nodes[n];
        while (depth >= node.depth) leave();
        depth = node.depth;
        factor[depth] = node.factor;
        const V *xf = x + A * node.factor;
        V v[A];
        for (int k = 0; k < A; k++) {
          product[depth][k] = depth == 1 ? xf[k] : product[depth - 1][k] * xf[k];
          v[k] = V{};
        }
        for (int e = 0; e < node.num_entries; e++, output++, coefficient += CHANNEL_PAD) {
          const auto c = load(coefficient);
          const V *from = out_adj + A * *output;
          for (int k = 0; k < A; k++) v[k] += c * from[k];
        }
        for (int k = 0; k < A; k++) adjoint[depth][k] = v[k];
      }
      while (depth > 0) leave();
      for_components(call.x, tables.in_dim, tables.num_in, call.row + first, count, lane,
                     [&](int n, bool is_there, Pointer<T> p) {
                       if (is_there) store(p, x_adj[n]);
                     });
    }
}

}    // namespace EQUI_ISA
}    // namespace equi

#endif
