// SPDX-License-Identifier: MIT
// Symmetric contractions and node products on the host: the calls of kernels.
#include "kokkos/layers/contraction/host_contraction.h"

#include "kokkos/kernel_libraries/kernel_library.h"
#include "src/base/model_limits.h"
#include "src/numbers/number_types.h"

#include <utility>

namespace equi {

template <class T>
HostContraction<T>::HostContraction(ContractionConstants<T> constants) : constants_(std::move(constants)) {
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
  for (const FeatureLayout &feature : constants_.in) places(feature, in_width_, in_stride_, in_dim_, in_channels_);
  places(constants_.out, out_width_, out_stride_, out_dim_, out_channels_);
}

template <class T>
HostContraction<T>::HostContraction(InstructionSet set, ContractionConstants<T> constants)
    : HostContraction(std::move(constants)) {
  select_kernel([set](const ContractionSchedule &schedule) { return find_contraction_kernel<T>(set, schedule); });
}

template <class T>
void HostContraction<T>::select_kernel(
    const std::function<const ContractionKernel<T> *(const ContractionSchedule &)> &find) {
  kernel_ = find(constants_.schedule);
}

// Calls f(view); the view is valid during the call.
template <class T>
template <class F>
void HostContraction<T>::with_view(const F &f) const {
  const ContractionSchedule &schedule = constants_.schedule;
  const SphereGridView grid = schedule.grid ? schedule.grid->view() : SphereGridView{};
  f(ContractionView<T>{schedule.nodes.data(), schedule.outputs.data(), static_cast<int>(schedule.nodes.size()),
                       in_dim_.data(), out_dim_.data(), static_cast<int>(in_dim_.size()),
                       static_cast<int>(out_dim_.size()), schedule.num_inputs(), schedule.num_outputs(),
                       schedule.grid ? &grid : nullptr});
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
void HostContraction<T>::for_channel_blocks(const InputRows<R> &x, FeatureRows<R> y, const SpeciesOrder &species,
                                            int direction, const F &f) const {
  const std::vector<FeatureLayout> &inputs = constants_.in;
  const FeatureLayout &out = constants_.out;
  const int plane = 1 + direction;
  Pointer<T> x_data[MAX_PRODUCT_BLOCKS], y_data[MAX_PRODUCT_BLOCKS];
  ContractionCall<T> call{};
  call.x = {x_data, in_width_.data(), in_stride_.data()};
  call.out = {y_data, out_width_.data(), out_stride_.data()};
  for (size_t s = 0; s < constants_.coefficients.size(); s++) {
    call.count = species.begin[s + 1] - species.begin[s];
    call.row = species.order + species.begin[s];
    if (call.count == 0) continue;
    call.coefficients = constants_.coefficients[s].data();
    for (int u = 0; u < constants_.channels; u += CHANNEL_PAD) {
      int next = 0;
      for (size_t n = 0; n < inputs.size(); n++)
        for (int b = 0; b < inputs[n].num_blocks(); b++, next++) {
          const FeatureBlock &block = inputs[n].block(b);
          x_data[next] =
              make_pointer<T>(x[n].group(inputs[n].group(block.group)) + block.channel + u, plane * in_channels_[next]);
        }
      for (int b = 0; b < out.num_blocks(); b++)
        y_data[b] = make_pointer<T>(y.group(out.group(out.block(b).group)) + out.block(b).channel + u,
                                    plane * out_channels_[b]);
      f(call);
      // A grid has no entries; all channels share its table.
      call.coefficients += constants_.schedule.num_entries() * CHANNEL_PAD;
    }
  }
}

template <class T>
void HostContraction<T>::forward(const HostKernels<T> &kernels, const InputRows<R> &x, FeatureRows<R> y,
                                 const SpeciesOrder &species, void *scratch, int direction) const {
  for_channel_blocks(x, y, species, direction, [&](const ContractionCall<T> &call) {
    if (kernel_)
      kernel_->forward(call);
    else
      with_view([&](const ContractionView<T> &view) { kernels.contraction_forward(view, call, scratch); });
  });
}

template <class T>
void HostContraction<T>::backward(const HostKernels<T> &kernels, const InputRows<R> &x, FeatureRows<R> y_adj,
                                  const SpeciesOrder &species, void *scratch, int direction) const {
  for_channel_blocks(x, y_adj, species, direction, [&](const ContractionCall<T> &call) {
    if (kernel_)
      kernel_->backward(call);
    else
      with_view([&](const ContractionView<T> &view) { kernels.contraction_backward(view, call, scratch); });
  });
}

EQUI_INSTANTIATE_NUMBERS(HostContraction)

}    // namespace equi
