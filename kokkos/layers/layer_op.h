// SPDX-License-Identifier: MIT
// The interface of all layers to the evaluation, on either back end. An *op* is a layer that is ready to run on
// batches of atoms.
#ifndef EQUI_LAYER_OP_H
#define EQUI_LAYER_OP_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
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

 private:
  void *array_;
  void (*reserve_)(void *, int64_t);
  std::size_t (*growth_)(const void *, int64_t);
  std::size_t (*bytes_)(const void *);
};
// f(array, numbers per receiver)
using ArrayVisitor = std::function<void(ArrayRef, int64_t)>;

// Which of an op's kernels are not generated ones, for the log.
struct KernelReport {
  int generic_units = 0, generic_contractions = 0;
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

  // Visits the arrays that the op keeps for each receiver from forward to backward.
  virtual void for_arrays(const ArrayVisitor &) {}
  // Of constants.
  virtual std::size_t bytes() const { return 0; }
  // A line of the log without its indentation, empty if there is nothing to say.
  virtual std::string describe() const { return ""; }
  virtual void report_kernels(KernelReport &) const {}
};

}    // namespace equi

#endif
