// SPDX-License-Identifier: MIT
// What edges.h on hosts and device_edges.h on devices compute for a candidate, an edge and the edges of a row.
#ifndef EQUI_EDGE_FUNCTIONS_H
#define EQUI_EDGE_FUNCTIONS_H

#include "kokkos/kernel_interface/harmonics.h"
#include "src/evaluation/evaluator.h"
#include "src/numbers/dual.h"

#include <cmath>
#include <cstdint>

namespace equi {

EQUI_FUNCTION double square_distance(const double *xi, const double *xj) {
  const double dx = xj[0] - xi[0], dy = xj[1] - xi[1], dz = xj[2] - xi[2];
  return dx * dx + dy * dy + dz * dz;
}
// Whether two atoms form an edge; NaN is kept, to be reported.
EQUI_FUNCTION bool is_edge(const double *xi, const double *xj, double cutoff) {
  return !(square_distance(xi, xj) >= cutoff * cutoff);
}

// The closest pair: Kokkos's value and location. A distance that is not a number counts as closer than any other.
template <class Closest>
EQUI_FUNCTION void note_closest(Closest &best, double distance, int64_t place) {
  if (!(distance < best.val)) return;
  best.val = distance;
  best.loc = place;
}
EQUI_FUNCTION bool is_finite(const double *x) {
  return (x[0] - x[0]) + (x[1] - x[1]) + (x[2] - x[2]) == 0.0;
}

// The directions for EvaluationRequest::energy_moments: that of the request, and one for each of its moments in x, y
// and z.
struct EnergyMoments {
  static constexpr int DIRECTIONS = 4;
  // The component of the moment for a direction, or -1 for that of the request.
  EQUI_FUNCTION static int moment(int direction) { return direction - 1; }
};

// The value, or a dual number with its tangent.
template <class V, class D>
EQUI_FUNCTION V in_float64(D number) {
  if constexpr (std::is_same_v<V, double>)
    return static_cast<double>(value_of(number));
  else
    return static_cast<V>(number);
}

// The vector from atom i to atom j, which move along v unless that is null. moment: if not -1, the component c of the
// moment; the tangent of the vector is then (r_i - r_j)_c v_j.
template <class D>
EQUI_FUNCTION void set_edge_vector(const double *x, const double *v, int64_t i, int64_t j, int moment, D vector[3]) {
  const double of_j = moment < 0 ? 1.0 : x[3 * i + moment] - x[3 * j + moment], of_i = moment < 0 ? 1.0 : 0.0;
  for (int k = 0; k < 3; k++)
    vector[k] = make_number<D>(x[3 * j + k] - x[3 * i + k], v ? of_j * v[3 * j + k] - of_i * v[3 * i + k] : 0.0);
}

// f += the force of an edge; v -= its virial, with its tangent if V is a dual number. vector: from the receiver to the
// sender; null: no virial.
template <class D, class V>
EQUI_FUNCTION void add_edge_force(const D *force, const D *vector, D *f, V *v) {
  // The index of the position comes first; the order is that of EvaluationRequest: xx,yy,zz,xy,xz,yz,yx,zx,zy.
  constexpr int A[9] = {0, 1, 2, 0, 0, 1, 1, 2, 2}, B[9] = {0, 1, 2, 1, 2, 2, 0, 0, 1};
  for (int k = 0; k < 3; k++) f[k] += force[k];
  for (int k = 0; vector && k < 9; k++) v[k] -= in_float64<V>(vector[A[k]]) * in_float64<V>(force[B[k]]);
}

// The edges of an evaluation in one direction. T: that of Edges.
template <class T>
struct EdgeArrays {
  using D = DoubleOf<T>;
  int lmax;
  D *distance, *unit;    // [E], [E][3]
  T *y;                  // [E] rows of y_row numbers, with num_y harmonics first
  int64_t y_row;
  D *adjoint;    // [E][num_y], slot 0 for the distance
  // [E][3] forces of one direction. Null if an edge's force replaces the first three numbers of its adjoint.
  D *separate_force;

  EQUI_FUNCTION int64_t num_y() const { return (lmax + 1) * (lmax + 1); }
  // Whether the force of an edge fits into its adjoint.
  static bool fits_force(int lmax) { return lmax > 0; }
  EQUI_FUNCTION D *force(int64_t e) const { return separate_force ? separate_force + 3 * e : adjoint + num_y() * e; }
  // The arrays of one direction, from arrays for several directions with `capacity` edges each.
  EQUI_FUNCTION EdgeArrays along(int direction, int64_t capacity) const {
    const int64_t before = direction * capacity;
    return {lmax,  distance + before,          unit + 3 * before, y + y_row * before,
            y_row, adjoint + num_y() * before, separate_force};
  }

  // Computes edge e from the positions of atoms i and j (set_edge_vector). Returns the distance, or BROKEN_DISTANCE if
  // it is not a number.
  EQUI_FUNCTION double set(const HarmonicsNorms &norms, int64_t e, const double *x, const double *v, int64_t i,
                           int64_t j, int moment = -1) const {
    using std::sqrt;
    D d[3];
    set_edge_vector(x, v, i, j, moment, d);
    const D r = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
    const D inverse =
        value_of(r) > 0.0 ? D(1.0) / r : D(0.0);    // coinciding atoms are reported, not propagated as NaN
    distance[e] = r;
    D u[3];
    for (int k = 0; k < 3; k++) unit[3 * e + k] = u[k] = d[k] * inverse;
    evaluate_harmonics<Real<D>>(norms, lmax, u, y + y_row * e);
    return value_of(r) >= 0.0 ? value_of(r) : BROKEN_DISTANCE;
  }

  EQUI_FUNCTION void set_force(const HarmonicsNorms &norms, int64_t e) const {
    const D *u = unit + 3 * e, *of_y = adjoint + num_y() * e;
    D g[3] = {0, 0, 0}, gradient[3];
    harmonics_gradient<Real<D>>(norms, lmax, u, of_y, g);
    gradient_by_vector(u, distance[e] > D(0) ? D(1) / distance[e] : D(0), g, of_y[0], gradient);
    D *of_edge = force(e);
    for (int k = 0; k < 3; k++) of_edge[k] = gradient[k];
  }
  // add_edge_force() for edge e.
  template <class V>
  EQUI_FUNCTION void add_force(int64_t e, D *f, V *v, bool with_virial) const {
    D vector[3];
    for (int k = 0; with_virial && k < 3; k++) vector[k] = distance[e] * unit[3 * e + k];
    add_edge_force(force(e), with_virial ? vector : nullptr, f, v);
  }
};

}    // namespace equi

#endif
