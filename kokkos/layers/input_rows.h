// SPDX-License-Identifier: MIT
// The rows of the features that a layer reads, one or two of them, and where their adjoints are made. Batch: HostBatch
// or DeviceBatch.
#ifndef EQUI_INPUT_ROWS_H
#define EQUI_INPUT_ROWS_H

#include "kokkos/layers/feature_rows.h"
#include "src/layers/layer.h"

#include <array>
#include <cstdint>

namespace equi {

template <class T>
using InputRows = std::array<FeatureRows<T>, MAX_INPUTS>;

// The rows of features, or of their adjoints; none of a second feature that is -1.
template <class Batch>
InputRows<typename Batch::R> input_rows(const Batch &batch, const InputFeatures &features, bool adjoint = false) {
  InputRows<typename Batch::R> rows{};
  for (int n = 0; n < MAX_INPUTS; n++)
    if (features[n] >= 0) rows[n] = batch.rows(features[n], adjoint);
  return rows;
}

// Where adjoints are made that take the place of values: at the values, where these and the adjoints share memory;
// else, once the values are copied there, at the adjoints, or at sums that are added to the adjoints afterwards.
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

// f(rows, direction) for each direction, where the rows hold the values of features and their tangents along it; f
// replaces them by the adjoints, which go where they belong. sums: memory for the sums of the batch.
template <class Batch, class Array, class F>
void replace_by_adjoints(const Batch &batch, const InputFeatures &features, Array &sums, const F &f) {
  const AdjointRows<typename Batch::R> rows = adjoint_rows(batch, features, sums);
  // g(planes of this direction, layout, number of the input) for the inputs that `which` says.
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
