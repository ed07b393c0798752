// Where a generated kernel comes from: those of the build, else a library that the user made for it with `equi
// compile`.
#ifndef EQUI_KERNEL_LIBRARY_H
#define EQUI_KERNEL_LIBRARY_H

#include "host_kernels.h"

#include <cstdlib>
#include <string>

namespace equi {

// The kernel of unit `key` (UnitShape::key) for an instruction set; null if there is none. Valid until the process
// ends.
template <class T>
const UnitKernel<T> *find_unit_kernel(InstructionSet set, const std::string &key);
// The same for a uvw path.
template <class T>
const UvwKernel<T> *find_uvw_kernel(InstructionSet set, const std::string &key);
// The same for a symmetric contraction (ContractionSchedule::key).
template <class T>
const ContractionKernel<T> *find_contraction_kernel(InstructionSet set, const std::string &key);

// The file of a user's kernel: equi/kernels in the user's cache folder (XDG_CACHE_HOME, else ~/.cache), named by
// version of the interface, instruction set and key. Empty if there is no such folder.
inline std::string kernel_library_file(const std::string &instruction_set, const std::string &key) {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  std::string folder;
  if (cache && *cache)
    folder = cache;
  else if (home && *home)
    folder = std::string(home) + "/.cache";
  else
    return "";
  return folder + "/equi/kernels/kernel-" + std::to_string(UNIT_KERNEL_ABI) + "-" + instruction_set + "-" + key + ".so";
}

}    // namespace equi

#endif
