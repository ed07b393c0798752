// SPDX-License-Identifier: MIT
// The rows of the one or two features that a layer reads, and where their adjoints are computed. Batch: HostBatch or
// DeviceBatch.
#ifndef EQUI_INPUT_ROWS_H
#define EQUI_INPUT_ROWS_H

#include "kokkos/layer_interface/feature_rows.h"
#include "src/layers/layer.h"

#include <array>
#include <cstdint>

namespace equi {

template <class T>
using InputRows = std::array<FeatureRows<T>, MAX_INPUTS>;

// The rows of features, or of their adjoints; a second feature of -1 means none.
template <class Batch>
InputRows<typename Batch::R> input_rows(const Batch &batch, const InputFeatures &features, bool adjoint = false) {
  InputRows<typename Batch::R> rows{};
  for (int n = 0; n < MAX_INPUTS; n++)
    if (features[n] >= 0) rows[n] = batch.rows(features[n], adjoint);
  return rows;
}

// Where the adjoints that replace values are computed. If values and adjoints share memory, they are computed there.
// Otherwise the values are copied, either to the adjoints or to sums that are added to the adjoints afterwards.
template <class R>
struct AdjointRows {
  InputRows<R> x, x_adj, at;
  bool is_copied(int n) const { return at[n].data != x[n].data; }
  bool is_added(int n) const { return at[n].data != x_adj[n].data; }
};

// sums: memory for the sums of the batch.
template <class Batch, class Array>
AdjointRows<typename Batch::R> adjoint_rows(const Batch &batch, const InputFeatures &features, Array &sums) {
  AdjointRows<typename Batch::R> rows{input_rows(batch, features), input_rows(batch, features, true), {}};
  rows.at = rows.x_adj;
  int64_t begin[MAX_INPUTS] = {}, room = 0;
  const auto has_sums = [&](int n) { return rows.x_adj[n].data != rows.x[n].data && batch.adds(features[n]); };
  for (int n = 0; n < MAX_INPUTS; n++)
    if (has_sums(n)) {
      begin[n] = room;
      room += static_cast<int64_t>(batch.count) * batch.layout(features[n]).row_size();
    }
  if (room == 0) return rows;
  auto *const first = sums.reserve(room);
  for (int n = 0; n < MAX_INPUTS; n++)
    if (has_sums(n)) rows.at[n] = {first + begin[n], batch.count, 0};
  return rows;
}

// Calls f(rows, direction) for each direction. The rows hold the values of features and their tangents along it. f
// replaces them by the adjoints, which are then stored or added where they belong. sums: memory for the sums of the
// batch.
template <class Batch, class Array, class F>
void replace_by_adjoints(const Batch &batch, const InputFeatures &features, Array &sums, const F &f) {
  const AdjointRows<typename Batch::R> rows = adjoint_rows(batch, features, sums);
  // Calls g(planes of this direction, layout, number of the input) for the inputs that `which` selects.
  const auto for_inputs = [&](int direction, const auto &which, const auto &g) {
    for (int n = 0; n < MAX_INPUTS; n++) {
      if (!which(n)) continue;
      const FeatureLayout &layout = batch.layout(features[n]);
      for_planes_of_dual(direction, layout.planes(), [&](Planes planes) { g(planes, layout, n); });
    }
  };
  for (int d = 0; d < batch.evaluation.num_directions(); d++) {
    for_inputs(
        d, [&](int n) { return rows.is_copied(n); },
        [&](Planes planes, const FeatureLayout &layout, int n) {
          batch.copy_planes(layout, rows.x[n], rows.at[n], planes);
        });
    f(rows.at, d);
    for_inputs(
        d, [&](int n) { return rows.is_added(n); },
        [&](Planes planes, const FeatureLayout &layout, int n) {
          batch.add_planes(layout, rows.at[n], rows.x_adj[n], planes);
        });
  }
}

}    // namespace equi

#endif
