// The execution space of the host's kernels. Labels of kernels that run every step have at most 15 characters: Kokkos
// makes strings of them, and longer ones would cost an allocation each.
#ifndef EQUI_HOST_EXEC_H
#define EQUI_HOST_EXEC_H

#include <Kokkos_Core.hpp>

namespace equi {
using HostExec = Kokkos::DefaultHostExecutionSpace;
}

#endif
