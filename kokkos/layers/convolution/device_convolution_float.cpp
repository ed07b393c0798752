// SPDX-License-Identifier: MIT
// The convolution on a device for features in float, and for duals of them.
#include "kokkos/layers/convolution/device_convolution_impl.h"

namespace equi {

template class DeviceConvolution<float>;
template class DeviceConvolution<Dual<float>>;
EQUI_INSTANTIATE_GEOMETRY(float, double)
EQUI_INSTANTIATE_GEOMETRY(Dual<float>, Dual<double>)
EQUI_INSTANTIATE_RIGID(Dual<float>, Dual<double>)

}    // namespace equi
