// SPDX-License-Identifier: MIT
// The convolution on a device for features in double, and for duals of them.
#include "kokkos/layers/convolution/device_convolution_impl.h"

namespace equi {

template class DeviceConvolution<double>;
template void DeviceConvolution<double>::prepare(const DeviceExec &, const DeviceEdgeChunk &, const double *,
                                                 const int *, const double *, bool, const DeviceNetworkInput<double> &,
                                                 Scratch &) const;
template void DeviceConvolution<double>::backward(const DeviceExec &, const DeviceEdgeChunk &,
                                                  FeatureRows<const double>, FeatureRows<const double>, const double *,
                                                  double *, FeatureRows<double>, Scratch &) const;

template class DeviceConvolution<Dual<double>>;
template void DeviceConvolution<Dual<double>>::prepare(const DeviceExec &, const DeviceEdgeChunk &,
                                                       const Dual<double> *, const int *, const Dual<double> *, bool,
                                                       const DeviceNetworkInput<double> &, Scratch &) const;
template void DeviceConvolution<Dual<double>>::backward(const DeviceExec &, const DeviceEdgeChunk &,
                                                        FeatureRows<const double>, FeatureRows<const double>,
                                                        const Dual<double> *, Dual<double> *, FeatureRows<double>,
                                                        Scratch &) const;

}    // namespace equi
