#include "unit_library.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

namespace equi {

#ifdef EQUI_HAS_UNIT_KERNELS
namespace isa_avx2 {
extern const UnitKernelLibrary UNIT_LIBRARY;
}
namespace isa_avx512 {
extern const UnitKernelLibrary UNIT_LIBRARY;
}
#endif

namespace {

const UnitKernelLibrary *library_of_build(InstructionSet set) {
#ifdef EQUI_HAS_UNIT_KERNELS
  if (set == InstructionSet::avx512) return &isa_avx512::UNIT_LIBRARY;
  if (set == InstructionSet::avx2) return &isa_avx2::UNIT_LIBRARY;
#endif
  (void)set;
  return nullptr;
}

// A user's library, or null. It stays loaded: its kernels are used until the process ends.
const UnitKernelLibrary *library_of_user(InstructionSet set, const std::string &key) {
  static std::mutex mutex;
  static std::map<std::pair<InstructionSet, std::string>, const UnitKernelLibrary *> loaded;
  const std::lock_guard<std::mutex> lock(mutex);
  auto [it, is_new] = loaded.try_emplace({set, key}, nullptr);
  if (!is_new) return it->second;
  const std::string file = unit_library_file(instruction_set_name(set), key);
  void *handle = file.empty() ? nullptr : dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return nullptr;
  const auto *library = static_cast<const UnitKernelLibrary *>(dlsym(handle, "equi_unit_kernels"));
  if (library && library->abi == UNIT_KERNEL_ABI && std::strcmp(library->isa, instruction_set_name(set)) == 0)
    it->second = library;
  return it->second;
}

template <class T>
const UnitKernel<T> *find_in(const UnitKernelLibrary *library, const std::string &key) {
  if (!library) return nullptr;
  const UnitKernel<T> *const *kernels;
  int count;
  if constexpr (std::is_same_v<T, float>) {
    kernels = library->float_kernels;
    count = library->num_float;
  } else {
    kernels = library->double_kernels;
    count = library->num_double;
  }
  for (int k = 0; k < count; k++)
    if (key == kernels[k]->key) return kernels[k];
  return nullptr;
}

}    // namespace

template <class T>
const UnitKernel<T> *find_unit_kernel(InstructionSet set, const std::string &key) {
  if (const UnitKernel<T> *kernel = find_in<T>(library_of_build(set), key)) return kernel;
  return find_in<T>(library_of_user(set, key), key);
}

template const UnitKernel<float> *find_unit_kernel<float>(InstructionSet, const std::string &);
template const UnitKernel<double> *find_unit_kernel<double>(InstructionSet, const std::string &);

}    // namespace equi
