// SPDX-License-Identifier: MIT
// The convolution on a device for features in float, and for duals of them.
#include "kokkos/layers/convolution/device_convolution_impl.h"

namespace equi {

template class DeviceConvolution<float>;
template class DeviceConvolution<Dual<float>>;
template class DeviceRigidConvolution<Dual<float>>;

}    // namespace equi
