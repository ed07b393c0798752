// SPDX-License-Identifier: MIT
// The libraries of kernels in the user's cache folder: where they are stored, who may have written them, and whether
// they are complete.
//
// A library is code that runs with the user's rights. Therefore it is loaded only from folders and files that only
// the user and root can write. The checked file is the one that is loaded (it stays open meanwhile). Its name holds
// a hash of all that its source and its calls depend on (cmake/EquiGenerate.cmake), so libraries of other versions
// are ignored. Its last line, the seal, holds that name and a hash of the bytes before it, because loading a damaged
// library may end the process.
#ifndef EQUI_KERNEL_CACHE_H
#define EQUI_KERNEL_CACHE_H

#include <string>

namespace equi {

struct KernelCache {
  std::string folder;    // absolute: equi/kernels in XDG_CACHE_HOME, else in .cache of HOME; empty if both are unset
  std::string note;      // why a variable was ignored; else empty
};
KernelCache kernel_cache();

// The file for the kernel `key` (of a path group or a contraction) in `cache`; empty if the cache has no folder.
// Throws std::invalid_argument for an instruction set without generated kernels.
std::string kernel_library_file(const KernelCache &cache, const std::string &instruction_set, const std::string &key);

struct OpenedFile {
  int descriptor = -1;    // -1 if it does not exist or must not be used; else the caller closes it
  std::string fault;      // why it must not be used
};
// Opens a library for reading, if it exists and may be used.
OpenedFile open_kernel_library(const std::string &file);

// Stores a sealed copy of the library `source` at the path `file`, and makes missing folders. Meanwhile other
// processes see the previous file or the complete new one. Throws std::runtime_error.
void store_kernel_library(const std::string &source, const std::string &file);

}    // namespace equi

#endif
