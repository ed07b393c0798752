// SPDX-License-Identifier: MIT
// Symmetric contractions and node products on a device: the generic kernel, and launches of generated ones.
#include "kokkos/layers/contraction/device_contraction.h"

#include "kokkos/device_kernels/device_contraction_impl.h"
#include "kokkos/kernel_interface/sphere_grid_walk.h"
#include "src/base/model_limits.h"
#include "src/numbers/number_types.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace equi {

namespace {

static_assert(MAX_PRODUCT_BLOCKS <= MAX_CONTRACTION_BLOCKS);
// Memory of a SphereGridWalk for functions of all orders up to 8.
constexpr int GRID_MEMORY = 2 * 5 * 17;

template <class T, class Component>
KOKKOS_FUNCTION Pointer<T> at(const DeviceContractionFeature<T> &feature, const Component &c, int64_t row,
                              int channel) {
  return make_pointer<T>(feature.data[c.block] + row * feature.width[c.block] + c.place + channel,
                         feature.tangents[c.block]);
}

// Walks the tree, like host_contraction_impl.h.
template <class T, class Component>
struct GenericContraction {
  const ContractionNode *nodes;
  const int *outputs;
  int num_nodes, num_inputs, num_outputs;
  const Component *place;

  KOKKOS_FUNCTION void forward(const DeviceContractionCall<T> &u, int64_t row, int channel, const Real<T> *c) const {
    T out[MAX_PRODUCT_COMPONENTS];
    for (int n = 0; n < num_outputs; n++) out[n] = 0;
    T product[MAX_CONTRACTION_DEGREE + 1];
    product[0] = 1;
    const int *output = outputs;
    for (int n = 0; n < num_nodes; n++) {
      const ContractionNode &node = nodes[n];
      product[node.depth] = product[node.depth - 1] * at<T>(u.x, place[node.factor], row, channel)[0];
      for (int e = 0; e < node.num_entries; e++, output++, c += CHANNEL_PAD) out[*output] += *c * product[node.depth];
    }
    for (int n = 0; n < num_outputs; n++) put(at<T>(u.out, place[num_inputs + n], row, channel), 0, out[n]);
  }

  KOKKOS_FUNCTION void backward(const DeviceContractionCall<T> &u, int64_t row, int channel, const Real<T> *c) const {
    T x[MAX_PRODUCT_COMPONENTS], x_adj[MAX_PRODUCT_COMPONENTS], out_adj[MAX_PRODUCT_COMPONENTS];
    for (int n = 0; n < num_inputs; n++) {
      x[n] = at<T>(u.x, place[n], row, channel)[0];
      x_adj[n] = 0;
    }
    for (int n = 0; n < num_outputs; n++) out_adj[n] = at<T>(u.out, place[num_inputs + n], row, channel)[0];
    T product[MAX_CONTRACTION_DEGREE + 1], adjoint[MAX_CONTRACTION_DEGREE + 1];
    int factor[MAX_CONTRACTION_DEGREE + 1], depth = 0;
    product[0] = 1;
    const int *output = outputs;
    for (int n = 0; n <= num_nodes; n++) {
      const int next = n < num_nodes ? nodes[n].depth : 1;
      // Adds the adjoints of products that end here to their factors and to the product that they extend.
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
    for (int n = 0; n < num_inputs; n++) put(at<T>(u.x, place[n], row, channel), 0, x_adj[n]);
  }
};

// Walks the grid. Its table is stored in place of all coefficients.
template <class T, class Component>
struct GenericGrid {
  using Walk = SphereGridWalk<1, Real<T>, T>;

  SphereGridView grid;
  int num_inputs, num_outputs;
  const Component *place;

  // Components in a row of a feature, with the interface that SphereGridWalk expects.
  struct Row {
    const DeviceContractionFeature<T> &feature;
    const Component *place;
    int64_t row;
    int channel;
    EQUI_FUNCTION T load(int component, int) const { return at<T>(feature, place[component], row, channel)[0]; }
    EQUI_FUNCTION void add(int component, int, T more) const {
      const Pointer<T> p = at<T>(feature, place[component], row, channel);
      put(p, 0, p[0] + more);
    }
  };
  struct Kept {
    T v[MAX_GAUNT_COMPONENTS];
    EQUI_FUNCTION void add(int component, int, T more) { v[component] += more; }
  };

  KOKKOS_FUNCTION void forward(const DeviceContractionCall<T> &u, int64_t row, int channel, const Real<T> *) const {
    const Row x{u.x, place, row, channel};
    Row out{u.out, place + num_inputs, row, channel};
    for (int n = 0; n < num_outputs; n++) put(at<T>(u.out, out.place[n], row, channel), 0, T(0));
    T memory[GRID_MEMORY];
    Walk(grid, memory).forward(u.coefficients, x, out);
  }

  KOKKOS_FUNCTION void backward(const DeviceContractionCall<T> &u, int64_t row, int channel, const Real<T> *) const {
    const Row x{u.x, place, row, channel}, out_adj{u.out, place + num_inputs, row, channel};
    Kept x_adj;
    for (int n = 0; n < num_inputs; n++) x_adj.v[n] = 0;
    T memory[GRID_MEMORY];
    Walk(grid, memory).backward(u.coefficients, x, out_adj, x_adj);
    for (int n = 0; n < num_inputs; n++) put(at<T>(u.x, place[n], row, channel), 0, x_adj.v[n]);
  }
};

// Sets the blocks of a feature, of which block 0 gets the number `first`.
template <class T>
void set_blocks(DeviceContractionFeature<T> &feature, int first, const FeatureLayout &layout, FeatureRows<Real<T>> rows,
                int direction) {
  for (int b = 0; b < layout.num_blocks(); b++) {
    const FeatureGroup &group = layout.group(layout.block(b).group);
    feature.data[first + b] = rows.group(group) + layout.block(b).channel;
    feature.width[first + b] = group.width();
    feature.stride[first + b] = group.stride();
    feature.tangents[first + b] = group.tangents(direction);
  }
}

}    // namespace

template <class T>
DeviceContraction<T>::DeviceContraction(const DeviceExec &exec, ContractionConstants<T> constants, const Finder &find)
    : constants_(std::move(constants)), kernel_(find(constants_.schedule.key())) {
  const ContractionSchedule &schedule = constants_.schedule;
  if (std::max(constants_.num_in(), constants_.out.num_blocks()) > MAX_CONTRACTION_BLOCKS)
    throw std::invalid_argument("a contraction or a product of more than " + std::to_string(MAX_CONTRACTION_BLOCKS) +
                                " blocks; the device evaluation has no more");
  std::vector<R> coefficients;
  for (const auto &c : constants_.coefficients) coefficients.insert(coefficients.end(), c.begin(), c.end());
  assign(exec, coefficients_, coefficients);
  if (kernel_) return;
  const int components =
                schedule.grid ? schedule.num_inputs() : std::max(schedule.num_inputs(), schedule.num_outputs()),
            most = schedule.grid ? MAX_GAUNT_COMPONENTS : MAX_PRODUCT_COMPONENTS;
  if (components > most)
    throw std::invalid_argument("a contraction or a product of more than " + std::to_string(most) +
                                " components; the device evaluation has no more");
  std::vector<Component> place;
  const auto add_places = [&place](const FeatureLayout &layout, int first_block) {
    for (int b = 0; b < layout.num_blocks(); b++) {
      const FeatureGroup &group = layout.group(layout.block(b).group);
      for (int m = 0; m < group.irrep.dim(); m++) place.push_back({first_block + b, m * group.stride()});
    }
  };
  int first_block = 0;
  for (const FeatureLayout &layout : constants_.in) {
    add_places(layout, first_block);
    first_block += layout.num_blocks();
  }
  add_places(constants_.out, 0);
  assign(exec, place_, place);
  if (schedule.grid) {
    const SphereFunction *functions[] = {&schedule.grid->first, &schedule.grid->second, &schedule.grid->out};
    for (int k = 0; k < 3; k++) {
      assign(exec, functions_[k].values, functions[k]->values);
      assign(exec, functions_[k].parts, functions[k]->parts);
      assign(exec, functions_[k].terms, functions[k]->terms);
    }
    return;
  }
  assign(exec, nodes_, schedule.nodes);
  assign(exec, outputs_, schedule.outputs);
}

template <class T>
template <bool BACKWARD>
void DeviceContraction<T>::launch(const DeviceExec &exec, const InputRows<R> &x, FeatureRows<R> y,
                                  const SpeciesOrder &species, int direction) const {
  const ContractionSchedule &schedule = constants_.schedule;
  DeviceContractionFeature<T> in{}, out{};
  int first_block = 0;
  for (size_t n = 0; n < constants_.in.size(); n++) {
    set_blocks<T>(in, first_block, constants_.in[n], x[n], direction);
    first_block += constants_.in[n].num_blocks();
  }
  set_blocks<T>(out, 0, constants_.out, y, direction);
  const DeviceContractionCall<T> u{species.count,
                                   constants_.channels,
                                   in,
                                   out,
                                   coefficients_.data(),
                                   schedule.num_entries(),
                                   constants_.per_species() ? species.species : nullptr};
  if (kernel_) return (BACKWARD ? kernel_->backward : kernel_->forward)(exec, u);
  if (schedule.grid) {
    SphereGridView grid = schedule.grid->view();
    SphereFunctionView *views[] = {&grid.first, &grid.second, &grid.out};
    for (int k = 0; k < 3; k++) {
      views[k]->values = functions_[k].values.data();
      views[k]->parts = functions_[k].parts.data();
      views[k]->terms = functions_[k].terms.data();
    }
    return launch_contraction<BACKWARD>(
        exec, GenericGrid<T, Component>{grid, schedule.num_inputs(), schedule.num_outputs(), place_.data()}, u);
  }
  launch_contraction<BACKWARD>(
      exec,
      GenericContraction<T, Component>{nodes_.data(), outputs_.data(), static_cast<int>(schedule.nodes.size()),
                                       schedule.num_inputs(), schedule.num_outputs(), place_.data()},
      u);
}

template <class T>
void DeviceContraction<T>::forward(const DeviceExec &exec, const InputRows<R> &x, FeatureRows<R> y,
                                   const SpeciesOrder &species, void *, int direction) const {
  launch<false>(exec, x, y, species, direction);
}

template <class T>
void DeviceContraction<T>::backward(const DeviceExec &exec, const InputRows<R> &x, FeatureRows<R> y_adj,
                                    const SpeciesOrder &species, void *, int direction) const {
  launch<true>(exec, x, y_adj, species, direction);
}

EQUI_INSTANTIATE_NUMBERS(DeviceContraction)

}    // namespace equi
