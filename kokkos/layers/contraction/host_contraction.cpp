// SPDX-License-Identifier: MIT
// Symmetric contractions and node products on the host: coefficients, and the calls of kernels.
#include "kokkos/layers/contraction/host_contraction.h"

#include "src/base/model_limits.h"
#include "src/numbers/number_types.h"

#include <cstdio>
#include <stdexcept>

namespace equi {

namespace {}    // namespace

template <class T>
HostContraction<T>::HostContraction(const ContractionProduct &product, const std::vector<FeatureLayout> &in,
                                    const FeatureLayout &out, int num_species, GauntForm form)
    : in_(in), out_(out), schedule_(make_contraction_schedule(product, form)), channels_(padded(product.mul())) {
  const auto places = [](const FeatureLayout &layout, std::vector<int64_t> &width, std::vector<int> &stride,
                         std::vector<int> &dim, std::vector<int> &channels) {
    for (int b = 0; b < layout.num_blocks(); b++) {
      const FeatureGroup &group = layout.group(layout.block(b).group);
      width.push_back(group.width());
      stride.push_back(group.stride());
      channels.push_back(group.channels);
      dim.push_back(group.irrep.dim());
    }
  };
  for (const FeatureLayout &feature : in) places(feature, in_width_, in_stride_, in_dim_, in_channels_);
  places(out, out_width_, out_stride_, out_dim_, out_channels_);
  if (num_in() > MAX_PRODUCT_BLOCKS || out.num_blocks() > MAX_PRODUCT_BLOCKS)
    throw std::invalid_argument("a contraction or a product of more than " + std::to_string(MAX_PRODUCT_BLOCKS) +
                                " blocks");

  if (schedule_.grid) {
    const std::vector<double> &table = schedule_.grid->table;
    coefficients_.emplace_back(table.begin(), table.end());
    return;
  }
  const int num_entries = schedule_.num_entries();
  for (int s = 0; s < (product.per_species ? num_species : 1); s++) {
    const std::vector<double> of_channels = contraction_coefficients(product, schedule_, s);
    coefficients_.emplace_back(static_cast<size_t>(channels_) * num_entries, R(0));
    for (int u = 0; u < product.mul(); u++)
      for (int e = 0; e < num_entries; e++)
        coefficients_.back()[(static_cast<size_t>(u / CHANNEL_PAD) * num_entries + e) * CHANNEL_PAD + u % CHANNEL_PAD] =
            static_cast<R>(of_channels[static_cast<size_t>(u) * num_entries + e]);
  }
}

template <class T>
void HostContraction<T>::select_kernel(
    const std::function<const ContractionKernel<T> *(const ContractionSchedule &)> &find) {
  kernel_ = find(schedule_);
}

template <class T>
std::size_t HostContraction<T>::bytes() const {
  std::size_t n = 0;
  for (const auto &c : coefficients_) n += c.size() * sizeof(R);
  return n;
}

// Calls f(view); the view is valid during the call.
template <class T>
template <class F>
void HostContraction<T>::with_view(const F &f) const {
  const SphereGridView grid = schedule_.grid ? schedule_.grid->view() : SphereGridView{};
  f(ContractionView<T>{schedule_.nodes.data(), schedule_.outputs.data(), static_cast<int>(schedule_.nodes.size()),
                       in_dim_.data(), out_dim_.data(), num_in(), out_.num_blocks(), schedule_.num_inputs(),
                       schedule_.num_outputs(), schedule_.grid ? &grid : nullptr});
}

template <class T>
std::size_t HostContraction<T>::scratch_bytes(const HostKernels<T> &kernels) const {
  std::size_t bytes = 0;
  with_view([&](const ContractionView<T> &view) { bytes = kernels.contraction_scratch_bytes(view); });
  return bytes;
}

// Calls f(call) for every species and channel block. The coefficients of a channel block stay in the first-level
// cache during the loop over the atoms of a species.
template <class T>
template <class F>
void HostContraction<T>::for_channel_blocks(const InputRows<R> &x, FeatureRows<R> y, SpeciesOrder order, int direction,
                                            const F &f) const {
  const int plane = 1 + direction;
  Pointer<T> x_data[MAX_PRODUCT_BLOCKS], y_data[MAX_PRODUCT_BLOCKS];
  ContractionCall<T> call{};
  call.x = {x_data, in_width_.data(), in_stride_.data()};
  call.out = {y_data, out_width_.data(), out_stride_.data()};
  for (size_t s = 0; s < coefficients_.size(); s++) {
    call.count = order.begin[s + 1] - order.begin[s];
    call.row = order.order + order.begin[s];
    if (call.count == 0) continue;
    call.coefficients = coefficients_[s].data();
    for (int u = 0; u < channels_; u += CHANNEL_PAD) {
      int next = 0;
      for (size_t n = 0; n < in_.size(); n++)
        for (int b = 0; b < in_[n].num_blocks(); b++, next++) {
          const FeatureBlock &block = in_[n].block(b);
          x_data[next] =
              make_pointer<T>(x[n].group(in_[n].group(block.group)) + block.channel + u, plane * in_channels_[next]);
        }
      for (int b = 0; b < out_.num_blocks(); b++)
        y_data[b] = make_pointer<T>(y.group(out_.group(out_.block(b).group)) + out_.block(b).channel + u,
                                    plane * out_channels_[b]);
      f(call);
      // A grid has no entries; all channels share its table.
      call.coefficients += schedule_.num_entries() * CHANNEL_PAD;
    }
  }
}

template <class T>
void HostContraction<T>::forward(const HostKernels<T> &kernels, const InputRows<R> &x, FeatureRows<R> y,
                                 SpeciesOrder order, void *scratch, int direction) const {
  for_channel_blocks(x, y, order, direction, [&](const ContractionCall<T> &call) {
    if (kernel_)
      kernel_->forward(call);
    else
      with_view([&](const ContractionView<T> &view) { kernels.contraction_forward(view, call, scratch); });
  });
}

template <class T>
void HostContraction<T>::backward(const HostKernels<T> &kernels, const InputRows<R> &x, FeatureRows<R> y_adj,
                                  SpeciesOrder order, void *scratch, int direction) const {
  for_channel_blocks(x, y_adj, order, direction, [&](const ContractionCall<T> &call) {
    if (kernel_)
      kernel_->backward(call);
    else
      with_view([&](const ContractionView<T> &view) { kernels.contraction_backward(view, call, scratch); });
  });
}

template <class T>
std::string HostContraction<T>::describe() const {
  char text[100];
  if (schedule_.grid)
    std::snprintf(text, sizeof text, "a grid of %d rings, %.1f MB", schedule_.grid->num_nodes(), bytes() * 1e-6);
  else
    std::snprintf(text, sizeof text, "%d products to degree %d, %.1f MB", schedule_.num_entries(), schedule_.degree,
                  bytes() * 1e-6);
  return text;
}

EQUI_INSTANTIATE_NUMBERS(HostContraction)

}    // namespace equi
