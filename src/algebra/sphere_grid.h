// SPDX-License-Identifier: MIT
// The Gaunt product of two functions (gaunt_product.h) by quadrature, as one value. Gauss's rings of the sphere have
// heights y for which sums over rings are exact. On a ring, functions of the angle phi about the axis y are multiplied
// coefficient by coefficient: cos a cos b = (cos(a - b) + cos(a + b)) / 2. No points on a ring are needed.
//
// With c the coefficients of a channel and q a table of Legendre functions, on each ring
//   f[m] = sum_l q[l,|m|] c1[l,m]    g[m] = sum_l q[l,|m|] c2[l,m]    h[m] = sum of +-f[m1] g[m2], m = +-m1 +- m2
// and the sum over rings of q[l,|m|] h[m] is component l, m of the product. Harmonics with l + m odd have the other
// sign on the other hemisphere, so two rings share the sums over l. The mean of a product of three functions is
// symmetric in them, which gives the adjoints.
#ifndef EQUI_SPHERE_GRID_H
#define EQUI_SPHERE_GRID_H

#include "src/algebra/irreps.h"
#include "src/algebra/sphere_grid_tables.h"
#include "src/algebra/symmetric_contraction.h"

#include <vector>

namespace equi {

// One of the three functions, in the form of sphere_grid_tables.h. Its components are those of a channel, block after
// block.
struct SphereFunction {
  std::vector<RingValue> values;
  std::vector<RingPart> parts;
  std::vector<CircleTerm> terms;

  SphereFunctionView view() const { return {values.data(), parts.data(), terms.data(), num_values()}; }
  int num_values() const { return static_cast<int>(values.size()); }
};

struct SphereGrid {
  SphereFunction first, second, out;    // second: empty for a square
  bool is_square = false;
  int num_rings = 0;    // rings of a hemisphere, with the equator
  bool has_equator = false;
  int num_columns = 0;
  std::vector<double> table;    // [num_rings][num_columns], accurate to 1e-14, relative, for l <= 8

  SphereGridView view() const;
  int num_nodes() const { return 2 * num_rings - has_equator; }    // rings of the whole sphere
  // Multiply-adds, products and sums per channel.
  int forward_products() const;
  int backward_products() const;
};

// The grid that is exact for the product of `functions`, which are blocks of irreps_in, to all blocks of irreps_out.
SphereGrid make_sphere_grid(const SphereFunctions &functions, const Irreps &irreps_in, const Irreps &irreps_out);

}    // namespace equi

#endif
