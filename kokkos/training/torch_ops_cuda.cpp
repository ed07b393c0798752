// SPDX-License-Identifier: MIT
// torch.ops.equi for CUDA: Torch's memory, its stream and its stable sort of the edges, and the convolution of
// device_edge_convolution.h.
#include "kokkos/training/device_edge_convolution.h"
#include "kokkos/training/torch_ops.h"
#include "src/evaluation/native_evaluators.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <vector>

namespace equi {

namespace {

using at::Tensor;

// Kokkos uses one GPU of a process: that of the first call.
void start_on(const at::Device &device) {
  static const int served = [&] {
    start_kokkos(0, device.index());
    return kokkos_device();
  }();
  TORCH_CHECK_VALUE(device.index() == served, "equi: x: expected cuda:", served,
                    ", on which this process began, found ", device, "; a process serves one GPU");
}

template <class T>
class OnCuda {
 public:
  OnCuda(std::string_view product, const Tensor &senders, const Tensor &receivers, const Tensor &x, int64_t num_nodes)
      : guard_(x.device()), senders_(senders), x_(x) {
    start_on(x.device());
    convolution_ = &cached<DeviceEdgeConvolution<T>>(
        product, [&] { return std::make_unique<DeviceEdgeConvolution<T>>(product_of(product)); });
    // Memory is freed at the end of the call, and nobody reuses it before the stream has reached this point.
    work_ = {c10::cuda::getCurrentCUDAStream().stream(), [this](std::size_t bytes) {
               return memory_.emplace_back(at::empty({static_cast<int64_t>(bytes)}, x_.options().dtype(at::kByte)))
                   .data_ptr();
             }};
    edges_ = {
        {senders.numel(), senders.const_data_ptr<int64_t>(), receivers.const_data_ptr<int64_t>(), x.size(0), num_nodes},
        order(receivers),
        nullptr};
  }
  OnCuda(const OnCuda &) = delete;    // work_ points here
  OnCuda &operator=(const OnCuda &) = delete;

  template <class... Arguments>
  void forward(Arguments... arguments) {
    convolution_->forward(work_, edges_, arguments...);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  template <class... Arguments>
  void backward(Arguments... arguments) {
    edges_.by_sender = order(senders_);
    convolution_->backward(work_, edges_, arguments...);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  template <class... Arguments>
  void double_backward(Arguments... arguments) {
    edges_.by_sender = order(senders_);
    convolution_->double_backward(work_, edges_, arguments...);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

 private:
  const int64_t *order(const Tensor &nodes) {
    return memory_.emplace_back(at::argsort(nodes, /*stable=*/true, /*dim=*/0, /*descending=*/false))
        .template const_data_ptr<int64_t>();
  }

  const c10::cuda::CUDAGuard guard_;
  const Tensor senders_, x_;
  const DeviceEdgeConvolution<T> *convolution_;
  std::vector<Tensor> memory_;
  DeviceWork work_;
  DeviceEdgeList edges_;
};

}    // namespace

TORCH_LIBRARY_IMPL(equi, CUDA, m) {
  OperatorsOn<OnCuda>::enter(m);
}

}    // namespace equi
