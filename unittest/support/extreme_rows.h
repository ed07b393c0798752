// SPDX-License-Identifier: MIT
// One row of scalars through a layer of atoms' own features, forward and backward, of plain numbers or of duals.
#ifndef EQUI_TEST_EXTREME_ROWS_H
#define EQUI_TEST_EXTREME_ROWS_H

#include "kokkos/layers/gate/gate_constants.h"
#include "src/numbers/dual.h"
#include "unittest/support/extreme_activations.h"
#include "unittest/support/packed_feature.h"

#include <string>
#include <type_traits>
#include <vector>

namespace equi {
namespace testing {

inline Irreps scalars(std::size_t count) {
  return Irreps::parse(std::to_string(count) + "x0e");
}

// Results for a row and for its tangents, which exist for duals.
struct RowPasses {
  std::vector<double> y[2], x_adj[2];
};

// x, y_adj: the row and its tangents. pass(x, y, is_forward) is the layer on rows in memory: forward it reads x and
// writes y, backward y is the adjoint of the output and x becomes its own.
template <class T, class Pass>
RowPasses passes_of_row(const std::vector<double> (&x)[2], const std::vector<double> (&y_adj)[2], const Pass &pass) {
  using R = Real<T>;
  const Irreps irreps = scalars(x[0].size());
  const auto packed = [&](const std::vector<double>(&rows)[2]) {
    return pack_planes<R>(irreps, IS_DUAL<T> ? std::vector<Rows>{{rows[0]}, {rows[1]}} : std::vector<Rows>{{rows[0]}});
  };
  AlignedVector<R> in = packed(x), out = packed(y_adj);
  RowPasses passes;
  const auto unpacked = [&](const AlignedVector<R> &row, std::vector<double>(&to)[2]) {
    for (int plane = 0; plane < PLANES<T>; ++plane) to[plane] = unpack_plane<R>(irreps, row, 1, PLANES<T>, plane)[0];
  };
  AlignedVector<R> y = nan_vector<R>(out.size());
  pass(in, y, true);
  unpacked(y, passes.y);
  pass(in, out, false);
  unpacked(in, passes.x_adj);
  return passes;
}

// A gate of scalars alone at all extreme arguments: the adjoint is the derivative.
template <class T, class Pass>
void expect_gate_has_its_digits(Activation a, const std::string &what, const Pass &pass) {
  using R = Real<T>;
  constexpr R ALONG = R(0.75);
  std::vector<double> x[2], ones[2];
  for (const double v : extreme_arguments()) x[0].push_back(static_cast<R>(v));
  x[1].assign(x[0].size(), ALONG);
  ones[0].assign(x[0].size(), 1.0);
  ones[1].assign(x[0].size(), 0.0);
  const RowPasses found = passes_of_row<T>(x, ones, pass);
  for (std::size_t k = 0; k < x[0].size(); ++k) {
    const ExactActivation exact = exact_activation(a, x[0][k]);
    for (int plane = 0; plane < PLANES<T>; ++plane) {
      const R along = plane == 0 ? R(1) : ALONG;
      const std::string number = what + ", plane " + std::to_string(plane);
      expect_digits(static_cast<R>(found.y[plane][k]), along * exact.d[plane], exact.terms[plane], x[0][k], number);
      expect_digits(static_cast<R>(found.x_adj[plane][k]), along * exact.d[plane + 1], exact.terms[plane + 1], x[0][k],
                    number + ", derivative");
    }
  }
}

// That gate, with planes of tangents for duals.
template <class T>
GateConstants gate_of_scalars(Activation a) {
  const FeatureLayout layout(scalars(extreme_arguments().size()), PLANES<T>);
  return GateConstants(Gate{0, 1, {{0, 0, 0, -1, 0, a, 1.0}}}, layout, layout);
}

}    // namespace testing
}    // namespace equi

#endif
