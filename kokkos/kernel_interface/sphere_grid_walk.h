// SPDX-License-Identifier: MIT
// The generic evaluation of a Gaunt product on a grid (sphere_grid.h), which walks the grid's tables: on hosts with
// SIMD registers, in a lane of a device with single numbers. Kernels of all instruction sets use this header, so
// everything in it is always inlined.
#ifndef EQUI_SPHERE_GRID_WALK_H
#define EQUI_SPHERE_GRID_WALK_H

#include "src/algebra/sphere_grid_tables.h"
#include "src/numbers/host_device.h"

namespace equi {

// Numbers for each of a few atoms, so reading the tables does not cost more than the products. R: type of the table,
// V: a number or a register. Structs provide features: x.load(component, atom) and out.add(component, atom, v).
template <int ATOMS, class R, class V>
class SphereGridWalk {
 public:
  // Ring values on the two rings; the southern ones are unused on the equator.
  struct Rows {
    V *north, *south;
  };
  // Size of the memory that forward and backward need.
  EQUI_FUNCTION static int memory_size(const SphereGridView &grid) {
    return 2 * ATOMS * (2 * grid.first.num_values + 2 * grid.second.num_values + grid.out.num_values);
  }

  EQUI_FUNCTION SphereGridWalk(const SphereGridView &grid, V *memory) : grid_(grid) {
    first_ = take(grid.first, memory);
    second_ = grid.is_square ? first_ : take(grid.second, memory);
    out_ = take(grid.out, memory);
    first_adj_ = take(grid.first, memory);
    second_adj_ = take(grid.second, memory);
  }

  // table [num_rings][num_columns]
  template <class In, class Out>
  EQUI_FUNCTION void forward(const R *table, const In &x, Out &out) const {
    for (int k = 0; k < grid_.num_rings; k++, table += grid_.num_columns) {
      const bool is_equator = grid_.has_equator && k + 1 == grid_.num_rings;
      read_values(grid_.first, is_equator, table, x, first_);
      if (!grid_.is_square) read_values(grid_.second, is_equator, table, x, second_);
      multiply(grid_.out, is_equator, first_, second_, out_);
      add_values(grid_.out, is_equator, table, out_, out);
    }
  }

  // Adds to x_adj.
  template <class In, class Cotangent, class Out>
  EQUI_FUNCTION void backward(const R *table, const In &x, const Cotangent &out_adj, Out &x_adj) const {
    for (int k = 0; k < grid_.num_rings; k++, table += grid_.num_columns) {
      const bool is_equator = grid_.has_equator && k + 1 == grid_.num_rings;
      read_values(grid_.first, is_equator, table, x, first_);
      if (!grid_.is_square) read_values(grid_.second, is_equator, table, x, second_);
      read_values(grid_.out, is_equator, table, out_adj, out_);
      multiply(grid_.first, is_equator, second_, out_, first_adj_);
      add_values(grid_.first, is_equator, table, first_adj_, x_adj);
      if (grid_.is_square) continue;
      multiply(grid_.second, is_equator, first_, out_, second_adj_);
      add_values(grid_.second, is_equator, table, second_adj_, x_adj);
    }
  }

 private:
  EQUI_FUNCTION static Rows take(const SphereFunctionView &function, V *&memory) {
    const Rows rows{memory, memory + ATOMS * function.num_values};
    memory += 2 * ATOMS * function.num_values;
    return rows;
  }

  template <class In>
  EQUI_FUNCTION static void read_values(const SphereFunctionView &function, bool is_equator, const R *table,
                                        const In &x, Rows values) {
    int p = 0;
    for (int v = 0; v < function.num_values; v++) {
      const RingValue &value = function.values[v];
      V even[ATOMS], odd[ATOMS];
      for (int k = 0; k < ATOMS; k++) even[k] = odd[k] = V{};
      for (; p < value.even_end; p++) {
        const R q = table[function.parts[p].column];
        for (int k = 0; k < ATOMS; k++) even[k] += q * x.load(function.parts[p].component, k);
      }
      if (!is_equator)
        for (; p < value.parts_end; p++) {
          const R q = table[function.parts[p].column];
          for (int k = 0; k < ATOMS; k++) odd[k] += q * x.load(function.parts[p].component, k);
        }
      p = value.parts_end;
      for (int k = 0; k < ATOMS; k++) {
        values.north[ATOMS * v + k] = even[k] + odd[k];
        values.south[ATOMS * v + k] = even[k] - odd[k];
      }
    }
  }

  // The adjoint of read_values().
  template <class Out>
  EQUI_FUNCTION static void add_values(const SphereFunctionView &function, bool is_equator, const R *table, Rows values,
                                       Out &out) {
    int p = 0;
    for (int v = 0; v < function.num_values; v++) {
      const RingValue &value = function.values[v];
      V even[ATOMS], odd[ATOMS];
      for (int k = 0; k < ATOMS; k++) {
        const V north = values.north[ATOMS * v + k], south = is_equator ? V{} : values.south[ATOMS * v + k];
        even[k] = north + south;
        odd[k] = north - south;
      }
      for (; p < value.even_end; p++) {
        const R q = table[function.parts[p].column];
        for (int k = 0; k < ATOMS; k++) out.add(function.parts[p].component, k, q * even[k]);
      }
      if (!is_equator)
        for (; p < value.parts_end; p++) {
          const R q = table[function.parts[p].column];
          for (int k = 0; k < ATOMS; k++) out.add(function.parts[p].component, k, q * odd[k]);
        }
      p = value.parts_end;
    }
  }

  // Computes the values of `target` from its terms.
  EQUI_FUNCTION static void multiply(const SphereFunctionView &target, bool is_equator, Rows first, Rows second,
                                     Rows values) {
    multiply(target, first.north, second.north, values.north);
    if (!is_equator) multiply(target, first.south, second.south, values.south);
  }
  EQUI_FUNCTION static void multiply(const SphereFunctionView &target, const V *first, const V *second, V *values) {
    const CircleTerm *term = target.terms;
    for (int v = 0; v < target.num_values; v++) {
      V sum[ATOMS];
      for (int k = 0; k < ATOMS; k++) sum[k] = V{};
      for (const CircleTerm *end = target.terms + target.values[v].terms_end; term < end; term++) {
        const R coefficient = static_cast<R>(term->coefficient);
        const V *a = first + ATOMS * term->first, *b = second + ATOMS * term->second;
        for (int k = 0; k < ATOMS; k++) sum[k] += coefficient * a[k] * b[k];
      }
      for (int k = 0; k < ATOMS; k++) values[ATOMS * v + k] = sum[k];
    }
  }

  const SphereGridView &grid_;
  Rows first_, second_, out_, first_adj_, second_adj_;
};

}    // namespace equi

#endif
