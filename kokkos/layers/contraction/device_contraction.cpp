// SPDX-License-Identifier: MIT
#include "kokkos/layers/contraction/device_contraction.h"

#include "kokkos/device_kernels/device_contraction_impl.h"
#include "src/numbers/number_types.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace equi {

namespace {

constexpr int MAX_CONTRACTION_COMPONENTS = 64;    // of a channel's input and of its output

// Walks the tree, as host_contraction_impl.h does.
template <class T, class Component>
struct GenericContraction {
  const ContractionNode *nodes;
  const int *outputs;
  int num_nodes, num_inputs, num_outputs;
  const Component *place;

  KOKKOS_FUNCTION static Pointer<T> at(const DeviceContractionFeature<T> &feature, const Component &c, int64_t row,
                                       int channel) {
    return make_pointer<T>(feature.data[c.block] + row * feature.width[c.block] + c.place + channel,
                           feature.stride[c.block] / PLANES<T>);
  }

  KOKKOS_FUNCTION void forward(const DeviceContractionCall<T> &u, int64_t row, int channel, const Real<T> *c) const {
    T out[MAX_CONTRACTION_COMPONENTS];
    for (int n = 0; n < num_outputs; n++) out[n] = 0;
    T product[MAX_CONTRACTION_DEGREE + 1];
    product[0] = 1;
    const int *output = outputs;
    for (int n = 0; n < num_nodes; n++) {
      const ContractionNode &node = nodes[n];
      product[node.depth] = product[node.depth - 1] * at(u.x, place[node.factor], row, channel)[0];
      for (int e = 0; e < node.num_entries; e++, output++, c += CHANNEL_PAD) out[*output] += *c * product[node.depth];
    }
    for (int n = 0; n < num_outputs; n++) put(at(u.out, place[num_inputs + n], row, channel), 0, out[n]);
  }

  KOKKOS_FUNCTION void backward(const DeviceContractionCall<T> &u, int64_t row, int channel, const Real<T> *c) const {
    T x[MAX_CONTRACTION_COMPONENTS], x_adj[MAX_CONTRACTION_COMPONENTS], out_adj[MAX_CONTRACTION_COMPONENTS];
    for (int n = 0; n < num_inputs; n++) {
      x[n] = at(u.x, place[n], row, channel)[0];
      x_adj[n] = 0;
    }
    for (int n = 0; n < num_outputs; n++) out_adj[n] = at(u.out, place[num_inputs + n], row, channel)[0];
    T product[MAX_CONTRACTION_DEGREE + 1], adjoint[MAX_CONTRACTION_DEGREE + 1];
    int factor[MAX_CONTRACTION_DEGREE + 1], depth = 0;
    product[0] = 1;
    const int *output = outputs;
    for (int n = 0; n <= num_nodes; n++) {
      const int next = n < num_nodes ? nodes[n].depth : 1;
      // Products that end here give to their factors and to the product that they extend.
      for (; depth >= next; depth--) {
        x_adj[factor[depth]] += product[depth - 1] * adjoint[depth];
        if (depth > 1) adjoint[depth - 1] += x[factor[depth]] * adjoint[depth];
      }
      if (n == num_nodes) break;
      depth = next;
      factor[depth] = nodes[n].factor;
      product[depth] = product[depth - 1] * x[factor[depth]];
      adjoint[depth] = 0;
      for (int e = 0; e < nodes[n].num_entries; e++, output++, c += CHANNEL_PAD)
        adjoint[depth] += *c * out_adj[*output];
    }
    for (int n = 0; n < num_inputs; n++) put(at(u.x, place[n], row, channel), 0, x_adj[n]);
  }
};

// Sets the blocks of a feature, of which block 0 gets the number `first`.
template <class T>
void set_blocks(DeviceContractionFeature<T> &feature, int first, const FeatureLayout &layout,
                FeatureRows<Real<T>> rows) {
  for (int b = 0; b < layout.num_blocks(); b++) {
    const FeatureGroup &group = layout.group(layout.block(b).group);
    feature.data[first + b] = rows.group(group) + layout.block(b).channel;
    feature.width[first + b] = group.width();
    feature.stride[first + b] = group.stride();
  }
}

}    // namespace

template <class T>
DeviceContraction<T>::DeviceContraction(const DeviceExec &exec, ContractionOp<T> op, const Finder &find)
    : op_(std::move(op)), kernel_(find(op_.schedule().key())) {
  const ContractionSchedule &schedule = op_.schedule();
  if (std::max(op_.num_in(), op_.out().num_blocks()) > MAX_CONTRACTION_BLOCKS)
    throw std::invalid_argument("a contraction or a product of more than " + std::to_string(MAX_CONTRACTION_BLOCKS) +
                                " blocks; the device evaluation has no more");
  if (std::max(schedule.num_inputs(), schedule.num_outputs()) > MAX_CONTRACTION_COMPONENTS)
    throw std::invalid_argument("a contraction or a product of more than " +
                                std::to_string(MAX_CONTRACTION_COMPONENTS) +
                                " components; the device evaluation has no more");
  std::vector<R> coefficients;
  for (const auto &c : op_.coefficients()) coefficients.insert(coefficients.end(), c.begin(), c.end());
  assign(exec, coefficients_, coefficients);
  if (kernel_) return;
  std::vector<Component> place;
  const auto add_places = [&place](const FeatureLayout &layout, int first_block) {
    for (int b = 0; b < layout.num_blocks(); b++) {
      const FeatureGroup &group = layout.group(layout.block(b).group);
      for (int m = 0; m < group.irrep.dim(); m++) place.push_back({first_block + b, m * group.stride()});
    }
  };
  int first_block = 0;
  for (const FeatureLayout &layout : op_.in()) {
    add_places(layout, first_block);
    first_block += layout.num_blocks();
  }
  add_places(op_.out(), 0);
  assign(exec, nodes_, schedule.nodes);
  assign(exec, outputs_, schedule.outputs);
  assign(exec, place_, place);
}

template <class T>
template <bool BACKWARD>
void DeviceContraction<T>::launch(const DeviceExec &exec, int count, const InputRows<R> &x, FeatureRows<R> y,
                                  const int *species) const {
  const ContractionSchedule &schedule = op_.schedule();
  DeviceContractionFeature<T> in{}, out{};
  int first_block = 0;
  for (size_t n = 0; n < op_.in().size(); n++) {
    set_blocks<T>(in, first_block, op_.in()[n], x[n]);
    first_block += op_.in()[n].num_blocks();
  }
  set_blocks<T>(out, 0, op_.out(), y);
  const DeviceContractionCall<T> u{count,
                                   op_.channels(),
                                   in,
                                   out,
                                   coefficients_.data(),
                                   schedule.num_entries(),
                                   op_.per_species() ? species : nullptr};
  if (kernel_) return (BACKWARD ? kernel_->backward : kernel_->forward)(exec, u);
  launch_contraction<BACKWARD>(
      exec,
      GenericContraction<T, Component>{nodes_.data(), outputs_.data(), static_cast<int>(schedule.nodes.size()),
                                       schedule.num_inputs(), schedule.num_outputs(), place_.data()},
      u);
}

template <class T>
void DeviceContraction<T>::forward(const DeviceExec &exec, int count, const InputRows<R> &x, FeatureRows<R> y,
                                   const int *species) const {
  launch<false>(exec, count, x, y, species);
}

template <class T>
void DeviceContraction<T>::backward(const DeviceExec &exec, int count, const InputRows<R> &x, FeatureRows<R> y_adj,
                                    const int *species) const {
  launch<true>(exec, count, x, y_adj, species);
}

EQUI_INSTANTIATE_NUMBERS(DeviceContraction)

}    // namespace equi
