// SPDX-License-Identifier: MIT
// The interface between all layers and the evaluation, on either back end: a layer of the model, prepared for
// batches of atoms. A layer consists of three kinds of classes: XConstants, prepared once in float64 for both back
// ends; HostX and DeviceX, the mathematics of rows on one of them; XLayer, which joins the evaluation.
#ifndef EQUI_BATCH_LAYER_H
#define EQUI_BATCH_LAYER_H

#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/plan/evaluation_plan.h"
#include "src/base/owned_memory.h"
#include "src/evaluation/evaluator.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace equi {

// Refers to one of the arrays that an evaluation keeps, of either type (Buffer or DeviceBuffer).
class ArrayRef {
 public:
  template <class A>
  ArrayRef(A &array)
      : array_(&array),
        reserve_([](void *a, int64_t n) { static_cast<A *>(a)->reserve(n); }),
        additional_bytes_([](const void *a, int64_t n) { return static_cast<const A *>(a)->additional_bytes(n); }),
        bytes_([](const void *a) { return static_cast<const A *>(a)->bytes(); }),
        data_([](const void *a) -> const void * { return static_cast<const A *>(a)->data(); }) {}
  void reserve(int64_t n) const { reserve_(array_, n); }
  std::size_t additional_bytes(int64_t n) const { return additional_bytes_(array_, n); }
  std::size_t bytes() const { return bytes_(array_); }
  const void *data() const { return data_(array_); }
  const void *address() const { return array_; }    // identifies the array

 private:
  void *array_;
  void (*reserve_)(void *, int64_t);
  std::size_t (*additional_bytes_)(const void *, int64_t);
  std::size_t (*bytes_)(const void *);
  const void *(*data_)(const void *);
};
// f(array, its size), or the size per receiver where a function says so
using ArrayVisitor = std::function<void(ArrayRef, int64_t)>;

// Which kernels of a layer are not generated ones, for the log.
struct KernelReport {
  int generic_path_groups = 0, generic_contractions = 0;
  std::vector<std::string> keys;    // keys of all kernels that a build or a library may have
  int num_generic() const { return generic_path_groups + generic_contractions; }
};

// Batch: HostBatch or DeviceBatch. A layer knows which features it reads and writes, and asks the batch for their
// rows.
template <class Batch>
class BatchLayer {
 public:
  virtual ~BatchLayer() = default;

  // Called once, if the layer reads only features that depend on the species and writes others. The batch has a row
  // per species.
  virtual void prepare(Batch &) {}
  virtual void forward(Batch &batch) = 0;
  // Computes the adjoint of the input from that of the output, and adds it if batch.adds(input), else overwrites.
  // Called after forward for the same rows; not called for a layer whose input needs no adjoint.
  virtual void backward(Batch &) {}

  // Visits the arrays that the layer keeps for each receiver from forward to backward, with their size per receiver.
  virtual void for_arrays(const ArrayVisitor &) {}
  // On devices, size of DeviceEvaluationState::layer_scratch that a batch of this number of atoms needs.
  virtual int64_t scratch_size(int64_t) const { return 0; }
  // On hosts, size of HostBatch::layer_scratch that an evaluation of this number of edges needs, if it is not
  // negligible.
  virtual int64_t edge_scratch_size(int64_t) const { return 0; }
  // On devices, visits the arrays that the layer needs for a batch, with their size for this number of atoms and edges.
  virtual void for_batch_arrays(int64_t, int64_t, const ArrayVisitor &) {}
  // Visits all other arrays, on devices only those in their memory: the constants, and values that the layer keeps
  // between passes.
  virtual void for_memory(const MemoryVisitor &) const {}
  // A line of the log without its indentation, or empty.
  virtual std::string describe() const { return ""; }
  // Lines of the log about the system of the last evaluation, without their indentation, or empty.
  virtual std::string describe_system() const { return ""; }
  virtual void report_kernels(KernelReport &) const {}
};

// Prepares a layer of the model for a back end (host_backend.h, device_backend.h) with
//   prepare_layer<Backend>(context, layer)
// The folder of each layer defines this function for its type.
template <class Backend>
using PreparedLayer = std::unique_ptr<BatchLayer<typename Backend::Batch>>;

// Prepares a layer that has a class for each back end. Host, Device: these class templates.
template <class Backend, template <class> class Host, template <class> class Device, class... Arguments>
PreparedLayer<Backend> make_chosen_layer(typename Backend::Context &context, const Arguments &...arguments) {
  using T = typename Backend::Number;
  return std::make_unique<typename Backend::template Choose<Host<T>, Device<T>>>(context, arguments...);
}

// Numbers that layers keep of edges from forward to backward, layer by layer. The memory may not suffice for all edges.
template <class R>
struct KeptOfEdges {
  R *numbers = nullptr;     // LayerContext::kept_per_edge for each edge
  int64_t num_edges = 0;    // the first ones

  // The memory of a layer with `per_edge` numbers for some edges, if all of these are kept, else null. before: the
  // numbers per edge of earlier layers.
  R *of_layer(int64_t before, int64_t per_edge, int64_t first, int64_t count) const {
    return first + count <= num_edges ? numbers + before * num_edges + per_edge * first : nullptr;
  }
};

// What layers are prepared from, besides the layers of the model.
struct LayerContext {
  const Model &model;
  const EvaluationPlan &plan;
  const EvaluatorOptions &options;
  const std::vector<double> &scale;       // per species, of the energies
  std::vector<double> pair_scale = {};    // per species, of the energies of pairs
  int num_convolutions = 0;               // convolutions made so far
  int64_t kept_per_edge = 0;              // numbers that layers made so far may keep of an edge (KeptOfEdges)

  const FeatureLayout &layout(int feature) const { return plan.features[feature].layout; }

  // What several layers share, by a name that is the same for all of them; make() returns a pointer for the first one.
  template <class S>
  struct Shared {
    std::shared_ptr<S> object;
    bool is_first;
  };
  template <class S, class Make>
  Shared<S> share(const std::string &name, const Make &make) {
    std::shared_ptr<void> &object = shared[name];
    const bool is_first = !object;
    if (is_first) object = std::shared_ptr<S>(make());
    return {std::static_pointer_cast<S>(object), is_first};
  }
  std::map<std::string, std::shared_ptr<void>> shared = {};
};

}    // namespace equi

#endif
