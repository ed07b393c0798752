// SPDX-License-Identifier: MIT
// The equivariant linear layer on the host: packed matrices and dense products.
#include "kokkos/layers/linear/host_linear.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace equi {

template <class T>
HostLinear<T>::HostLinear(InstructionSet set, LinearConstants constants) : constants_(std::move(constants)) {
  for (LinearConstants::Product &p : constants_.products) {
    Product product;
    for (const Matrix &m : p.weight) {
      product.weight.emplace_back(m, set);
      product.transposed.emplace_back(transpose(m), set);
    }
    p.weight.clear();    // no longer needed
    products_.push_back(std::move(product));
  }
  for (const std::vector<double> &bias : constants_.bias) bias_.emplace_back(bias.begin(), bias.end());
}

template <class T>
void HostLinear<T>::apply(int64_t count, FeatureRows<const T> x, FeatureRows<T> y, bool transpose, bool add,
                          SpeciesOrder species, T *scratch, Planes planes) const {
  const FeatureLayout &in = constants_.in, &out = constants_.out, &xl = transpose ? out : in,
                      &yl = transpose ? in : out;
  for (size_t n = 0; n < products_.size(); n++) {
    const LinearConstants::Product &p = constants_.products[n];
    const int gx = transpose ? p.out : p.in, gy = transpose ? p.in : p.out;
    const FeatureGroup &xg = xl.group(gx), &yg = yl.group(gy);
    const bool written = add || !(transpose ? p.first_in : p.first_out);
    const std::vector<PackedMatrix<T>> &weight = transpose ? products_[n].transposed : products_[n].weight;
    const auto multiply = [&](int64_t rows, const T *from, const PackedMatrix<T> &w, bool is_added, T *to) {
      if (xg.is_all(planes))
        w.multiply(rows * xg.irrep.dim() * xg.planes, from, to, is_added);
      else
        for (int k = planes.begin; k < planes.end; k++)
          w.multiply(rows * xg.irrep.dim(), from + k * xg.channels, to + k * yg.channels, is_added, xg.stride(),
                     yg.stride());
    };
    if (!constants_.per_species) {
      multiply(count, x.group(xg), weight[0], written, y.group(yg));
    } else {
      // Copies the rows of one species to adjacent memory, multiplies them, and copies the results back.
      T *xs = scratch, *ys = scratch + count * xg.width();
      for (int s = 0; s < constants_.num_species; s++) {
        const int *rows = species.order + species.begin[s];
        const int num_rows = species.begin[s + 1] - species.begin[s];
        if (num_rows == 0) continue;
        for (int k = 0; k < num_rows; k++)
          std::memcpy(xs + static_cast<int64_t>(k) * xg.width(),
                      x.group(xg) + static_cast<int64_t>(rows[k]) * xg.width(), sizeof(T) * xg.width());
        multiply(num_rows, xs, weight[s], false, ys);
        for (int k = 0; k < num_rows; k++) {
          T *to = y.group(yg) + static_cast<int64_t>(rows[k]) * yg.width();
          const T *from = ys + static_cast<int64_t>(k) * yg.width();
          yg.for_numbers(planes, [&](int first, int count) {
            for (int c = first; c < first + count; c++) to[c] = written ? to[c] + from[c] : from[c];
          });
        }
      }
    }
  }
  if (!add)
    for (int g : transpose ? constants_.unread : constants_.unwritten) set_to_zero(y, yl.group(g), count, planes);
}

template <class T>
void HostLinear<T>::add_biases(int64_t count, FeatureRows<T> y, Planes planes) const {
  if (planes.begin > 0) return;    // tangents have no bias
  for (int g = 0; g < constants_.out.num_groups(); g++) {
    if (bias_[g].empty()) continue;
    const FeatureGroup &group = constants_.out.group(g);
    T *rows = y.group(group);
    for (int64_t r = 0; r < count; r++)
      for (int u = 0; u < group.channels; u++) rows[r * group.width() + u] += bias_[g][u];
  }
}

template class HostLinear<float>;
template class HostLinear<double>;

}    // namespace equi
