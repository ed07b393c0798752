// SPDX-License-Identifier: MIT
// Potentials of boundaries on a device.
#include "kokkos/layers/potential/boundary_potential.h"

namespace equi {

template class BoundaryPotential<SystemOnDevice<double>>;
template class BoundaryPotential<SystemOnDevice<Dual<double>>>;

}    // namespace equi
