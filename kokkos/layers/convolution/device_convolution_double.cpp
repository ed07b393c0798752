// SPDX-License-Identifier: MIT
// The convolution on a device for features in double, and for duals of them.
#include "kokkos/layers/convolution/device_convolution_impl.h"

namespace equi {

template class DeviceConvolution<double>;
template class DeviceConvolution<Dual<double>>;
template class DeviceRigidConvolution<Dual<double>>;

}    // namespace equi
