// SPDX-License-Identifier: MIT
// Layers that work only on rows, on either back end.
#ifndef EQUI_ROW_LAYER_H
#define EQUI_ROW_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "src/base/owned_memory.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace equi {

// A layer whose backward pass replaces the values of its input by their adjoint. Rows provides
//   forward(work, count, x, y, direction) and backward(work, count, x, y_adj, direction)
// for `count` rows, where backward replaces x by its adjoint, and members() of owned_memory.h. work: HostKernels or
// DeviceExec. direction: for duals, whose tangents are in plane 1 + direction.
template <class Batch, class Rows>
class RowLayer : public BatchLayer<Batch> {
 public:
  RowLayer(int input, int output, Rows rows) : input_(input), output_(output), rows_(std::move(rows)) {}
  void forward(Batch &batch) override {
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      rows_.forward(batch.evaluation.work(), batch.count, batch.rows(input_), batch.rows(output_), d);
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoint(input_, [&](FeatureRows<typename Batch::R> x, int direction) {
      rows_.backward(batch.evaluation.work(), batch.count, x, batch.rows(output_, true), direction);
    });
  }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, rows_); }

 private:
  int input_, output_;
  Rows rows_;
};

template <class Batch, class Layer, class Rows>
std::unique_ptr<BatchLayer<Batch>> make_row_layer(const Layer &layer, Rows rows) {
  return std::make_unique<RowLayer<Batch, Rows>>(layer.input, layer.output, std::move(rows));
}

// Runs the passes of a Row, which has forward() and backward() for some channels of a row, or for one of its lanes.
template <class Row>
struct ForwardPass {
  Row rows;
  template <int LANES>
  EQUI_FUNCTION void channels(int64_t row, int u) const {
    rows.template forward<LANES>(row, u);
  }
  template <class Sum>
  EQUI_FUNCTION void lanes(int64_t row, int lane, const Sum &sum) const {
    rows.forward(row, lane, sum);
  }
};
template <class Row>
struct BackwardPass {
  Row rows;
  template <int LANES>
  EQUI_FUNCTION void channels(int64_t row, int u) const {
    rows.template backward<LANES>(row, u);
  }
  template <class Sum>
  EQUI_FUNCTION void lanes(int64_t row, int lane, const Sum &sum) const {
    rows.backward(row, lane, sum);
  }
};

}    // namespace equi

#endif
