// SPDX-License-Identifier: MIT
// The equivariant linear layer on a device: dense products, with rows sorted by species if matrices depend on it.
#include "kokkos/layers/linear/device_linear.h"

#include "kokkos/device_kernels/device_dense.h"

#include <optional>
#include <utility>

namespace equi {

namespace {

// to[k] = from[order[k]], rows of `width` numbers
template <class T>
void gather_rows(const DeviceExec &exec, const int *order, int64_t n, int width, const T *from, T *to) {
  Kokkos::parallel_for(
      "equi:gather_rows", DeviceRange(exec, 0, n * width),
      KOKKOS_LAMBDA(int64_t k) { to[k] = from[static_cast<int64_t>(order[k / width]) * width + k % width]; });
}

// to[order[k]] (+)= from[k], in some planes
template <class T>
void scatter_rows(const DeviceExec &exec, const int *order, int64_t n, const FeatureGroup &group, Planes planes,
                  const T *from, T *to, bool add) {
  const NumbersOfPlanes numbers(group, planes);
  Kokkos::parallel_for(
      "equi:scatter_rows", DeviceRange(exec, 0, n * numbers.per_row), KOKKOS_LAMBDA(int64_t k) {
        const int64_t at = numbers(k);
        T &t = to[static_cast<int64_t>(order[at / numbers.width]) * numbers.width + at % numbers.width];
        t = add ? t + from[at] : from[at];
      });
}

template <class T>
void add_bias(const DeviceExec &exec, int64_t rows, int width, int channels, const T *bias, T *y) {
  Kokkos::parallel_for(
      "equi:bias", DeviceRange(exec, 0, rows * channels),
      KOKKOS_LAMBDA(int64_t k) { y[k / channels * width + k % channels] += bias[k % channels]; });
}

}    // namespace

template <class T>
DeviceLinear<T>::DeviceLinear(const DeviceExec &exec, const LinearConstants &constants)
    : in_(constants.in),
      out_(constants.out),
      per_species_(constants.per_species),
      accumulate_(constants.accumulate),
      num_species_(constants.num_species),
      scratch_row_(constants.per_species ? constants.scratch_row : 0) {
  std::vector<T> weight, transposed, bias;
  const auto append = [](std::vector<T> &all, const std::vector<double> &numbers) {
    for (const double number : numbers) all.push_back(static_cast<T>(number));
  };
  for (const LinearConstants::Product &p : constants.products) {
    Product product{p.in, p.out, {}};
    for (const Matrix &m : p.weight) {
      product.weight.push_back(static_cast<int64_t>(weight.size()));
      append(weight, m.data);
      append(transposed, transpose(m).data);
    }
    products_.push_back(std::move(product));
  }
  for (int g = 0; g < out_.num_groups(); g++) {
    if (constants.bias[g].empty()) continue;
    biases_.push_back({g, static_cast<int64_t>(bias.size())});
    append(bias, constants.bias[g]);
  }
  assign(exec, weight_, weight);
  assign(exec, transposed_, transposed);
  assign(exec, bias_, bias);
}

template <class T>
void DeviceLinear<T>::apply(const DeviceExec &exec, int64_t count, FeatureRows<const T> x, FeatureRows<T> y,
                            bool transpose, bool add, const SpeciesOrder &species, T *scratch, Planes planes) const {
  const FeatureLayout &xl = transpose ? out_ : in_, &yl = transpose ? in_ : out_;
  std::vector<bool> written(yl.num_groups(), add);
  // Products for different groups do not wait for each other. Products for different species share scratch, so they
  // stay in order.
  std::optional<DenseBranches> branches;
  if (!per_species_ && products_.size() > 1) branches.emplace(exec);
  for (const Product &p : products_) {
    const int gx = transpose ? p.out : p.in, gy = transpose ? p.in : p.out;
    const FeatureGroup &xg = xl.group(gx), &yg = yl.group(gy);
    const auto multiply = [&](int64_t n, const T *from, int64_t weight, bool is_added, T *to) {
      const int64_t vectors = n * xg.irrep.dim();
      const DensePlanes some{planes.count(), xg.stride(), yg.stride()};
      const bool is_all = xg.is_all(planes);
      device_gemm(exec, false, is_all ? vectors * xg.planes : vectors, yg.channels, xg.channels,
                  from + planes.begin * xg.channels, (transpose ? transposed_ : weight_).data() + weight, is_added,
                  to + planes.begin * yg.channels, is_all ? nullptr : &some, gy);
    };
    if (!per_species_) {
      multiply(count, x.group(xg), p.weight[0], written[gy], y.group(yg));
    } else {
      // Copies the rows of one species to adjacent memory, multiplies them, and copies the results back.
      T *xs = scratch, *ys = xs + count * xg.width();
      for (int s = 0; s < num_species_; s++) {
        const int *rows = species.order + species.begin[s];
        const int64_t n = species.begin[s + 1] - species.begin[s];
        if (n == 0) continue;
        gather_rows(exec, rows, n, xg.width(), x.group(xg), xs);
        multiply(n, xs, p.weight[s], false, ys);
        scatter_rows(exec, rows, n, yg, planes, ys, y.group(yg), written[gy]);
      }
    }
    written[gy] = true;
  }
  branches.reset();
  for (int g = 0; g < yl.num_groups(); g++)
    if (!written[g]) zero_planes(exec, count, yl.group(g), planes, y.group(yl.group(g)));
}

template <class T>
void DeviceLinear<T>::forward(const DeviceExec &exec, int64_t count, FeatureRows<const T> x, FeatureRows<T> y,
                              const SpeciesOrder &species, T *scratch, Planes planes) const {
  apply(exec, count, x, y, false, accumulate_, species, scratch, planes);
  if (planes.tangents_alone()) return;
  for (const Bias &b : biases_) {
    const FeatureGroup &group = out_.group(b.group);
    add_bias(exec, count, group.width(), group.channels, bias_.data() + b.offset, y.group(group));
  }
}

template <class T>
void DeviceLinear<T>::backward(const DeviceExec &exec, int64_t count, FeatureRows<const T> y_adj, FeatureRows<T> x_adj,
                               bool add, const SpeciesOrder &species, T *scratch, Planes planes) const {
  apply(exec, count, y_adj, x_adj, true, add, species, scratch, planes);
}

template class DeviceLinear<float>;
template class DeviceLinear<double>;

}    // namespace equi
