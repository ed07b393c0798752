// SPDX-License-Identifier: MIT
// The convolution on a device for features in double, and for duals of them.
#include "kokkos/layers/convolution/device_convolution_impl.h"

namespace equi {

template class DeviceConvolution<double>;
template class DeviceConvolution<Dual<double>>;
EQUI_INSTANTIATE_GEOMETRY(double, double)
EQUI_INSTANTIATE_GEOMETRY(Dual<double>, Dual<double>)
EQUI_INSTANTIATE_RIGID(Dual<double>, Dual<double>)

}    // namespace equi
