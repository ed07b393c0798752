// SPDX-License-Identifier: MIT
// Potentials of boundaries on a host.
#include "kokkos/layers/potential/boundary_potential.h"

namespace equi {

template class BoundaryPotential<SystemOnHost<double>>;
template class BoundaryPotential<SystemOnHost<Dual<double>>>;

}    // namespace equi
