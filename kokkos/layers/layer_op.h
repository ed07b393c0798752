// SPDX-License-Identifier: MIT
// The interface of all layers to the evaluation, on either back end. An *op* is a layer that is ready to run on
// batches of atoms.
#ifndef EQUI_LAYER_OP_H
#define EQUI_LAYER_OP_H

#include "kokkos/layers/evaluation_plan.h"
#include "kokkos/layers/feature_rows.h"
#include "src/evaluation/evaluator.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace equi {

// One of the arrays that an evaluation keeps, of either type (Buffer or DeviceBuffer).
class ArrayRef {
 public:
  template <class A>
  ArrayRef(A &array)
      : array_(&array),
        reserve_([](void *a, int64_t n) { static_cast<A *>(a)->reserve(n); }),
        growth_([](const void *a, int64_t n) { return static_cast<const A *>(a)->growth(n); }),
        bytes_([](const void *a) { return static_cast<const A *>(a)->bytes(); }) {}
  void reserve(int64_t n) const { reserve_(array_, n); }
  std::size_t growth(int64_t n) const { return growth_(array_, n); }
  std::size_t bytes() const { return bytes_(array_); }
  const void *address() const { return array_; }    // by which one array is told from another

 private:
  void *array_;
  void (*reserve_)(void *, int64_t);
  std::size_t (*growth_)(const void *, int64_t);
  std::size_t (*bytes_)(const void *);
};
// f(array, numbers of it, or per receiver where that is said)
using ArrayVisitor = std::function<void(ArrayRef, int64_t)>;

// Which of an op's kernels are not generated ones, for the log.
struct KernelReport {
  int generic_path_groups = 0, generic_contractions = 0;
  std::vector<std::string> keys;    // of all kernels that a build or a library may have
};

// Batch: HostBatch or DeviceBatch. An op knows which features it reads and writes, and asks the batch for their rows.
template <class Batch>
class LayerOp {
 public:
  virtual ~LayerOp() = default;

  // Called once, if the layer reads features that depend on the species alone and writes others. The batch has a row
  // per species.
  virtual void prepare(Batch &) {}
  virtual void forward(Batch &batch) = 0;
  // From the adjoint of the output to that of the input, which is to be written, or added to if batch.adds(input).
  // Called after forward for the same rows; not for a layer whose input needs no adjoint.
  virtual void backward(Batch &) {}

  // Visits the arrays that the op keeps for each receiver from forward to backward: numbers per receiver.
  virtual void for_arrays(const ArrayVisitor &) {}
  // On devices, the numbers of DeviceStep::layer_scratch that a batch of so many atoms needs.
  virtual int64_t scratch_size(int64_t) const { return 0; }
  // On devices, the bytes that a batch of so many atoms and edges will add to bytes().
  virtual std::size_t growth(int64_t, int64_t) const { return 0; }
  // Of constants, and of what the op keeps of batches.
  virtual std::size_t bytes() const { return 0; }
  // A line of the log without its indentation, empty if there is nothing to say.
  virtual std::string describe() const { return ""; }
  virtual void report_kernels(KernelReport &) const {}
};

// A layer of rows alone, whose backward pass puts the adjoint of its input in the place of the values. Op has
// forward(work, count, x, y, direction) and backward(work, count, x, y_adj, direction) for what a step works with
// (DeviceExec or HostKernels); direction: of duals, whose tangents are in plane 1 + direction.
template <class Batch, class Op>
class InPlaceLayer : public LayerOp<Batch> {
 public:
  InPlaceLayer(int input, int output, Op op) : input_(input), output_(output), op_(std::move(op)) {}
  void forward(Batch &batch) override {
    for (int d = 0; d < batch.step.num_directions(); d++)
      op_.forward(batch.step.work(), batch.count, batch.rows(input_), batch.rows(output_), d);
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoint(input_, [&](FeatureRows<typename Batch::R> x, int direction) {
      op_.backward(batch.step.work(), batch.count, x, batch.rows(output_, true), direction);
    });
  }
  std::size_t bytes() const override { return op_.bytes(); }

 private:
  int input_, output_;
  Op op_;
};

template <class Batch, class Layer, class Op>
std::unique_ptr<LayerOp<Batch>> make_in_place_layer(const Layer &layer, Op op) {
  return std::make_unique<InPlaceLayer<Batch, Op>>(layer.input, layer.output, std::move(op));
}

// What ops are made of, beside their layers.
struct LayerContext {
  const Model &model;
  const EvaluationPlan &plan;
  const EvaluatorOptions &options;
  const std::vector<double> &scale;       // per species, of the energies
  std::vector<double> pair_scale = {};    // likewise of the energies of pairs
  int num_convolutions = 0;               // that have been made

  const FeatureLayout &layout(int feature) const { return plan.features[feature].layout; }
};

}    // namespace equi

#endif
