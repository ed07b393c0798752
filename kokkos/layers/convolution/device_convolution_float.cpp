// SPDX-License-Identifier: MIT
// The convolution on a device for features in float, and for duals of them.
#include "kokkos/layers/convolution/device_convolution_impl.h"

namespace equi {

template class DeviceConvolution<float>;
template void DeviceConvolution<float>::prepare(const DeviceExec &, const DeviceEdgeChunk &, const float *, const int *,
                                                const float *, bool, const DeviceNetworkInput<float> &,
                                                Scratch &) const;
template void DeviceConvolution<float>::backward(const DeviceExec &, const DeviceEdgeChunk &, FeatureRows<const float>,
                                                 FeatureRows<const float>, const float *, float *, FeatureRows<float>,
                                                 Scratch &) const;
template void DeviceConvolution<float>::prepare(const DeviceExec &, const DeviceEdgeChunk &, const double *,
                                                const int *, const float *, bool, const DeviceNetworkInput<float> &,
                                                Scratch &) const;
template void DeviceConvolution<float>::backward(const DeviceExec &, const DeviceEdgeChunk &, FeatureRows<const float>,
                                                 FeatureRows<const float>, const float *, double *, FeatureRows<float>,
                                                 Scratch &) const;

template class DeviceConvolution<Dual<float>>;
template void DeviceConvolution<Dual<float>>::prepare(const DeviceExec &, const DeviceEdgeChunk &, const Dual<double> *,
                                                      const int *, const Dual<float> *, bool,
                                                      const DeviceNetworkInput<float> &, Scratch &) const;
template void DeviceConvolution<Dual<float>>::backward(const DeviceExec &, const DeviceEdgeChunk &,
                                                       FeatureRows<const float>, FeatureRows<const float>,
                                                       const Dual<float> *, Dual<double> *, FeatureRows<float>,
                                                       Scratch &) const;

}    // namespace equi
