#include "kernel_library.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

namespace equi {

#ifdef EQUI_HAS_AVX2
namespace isa_avx2 {
extern const KernelLibrary KERNEL_LIBRARY;
}
#endif
#ifdef EQUI_HAS_AVX512
namespace isa_avx512 {
extern const KernelLibrary KERNEL_LIBRARY;
}
#endif

namespace {

const KernelLibrary *library_of_build(InstructionSet set) {
#ifdef EQUI_HAS_AVX512
  if (set == InstructionSet::avx512) return &isa_avx512::KERNEL_LIBRARY;
#endif
#ifdef EQUI_HAS_AVX2
  if (set == InstructionSet::avx2) return &isa_avx2::KERNEL_LIBRARY;
#endif
  (void)set;
  return nullptr;
}

// A user's library, or null. It stays loaded: its kernels are used until the process ends.
const KernelLibrary *library_of_user(InstructionSet set, const std::string &key) {
  static std::mutex mutex;
  static std::map<std::pair<InstructionSet, std::string>, const KernelLibrary *> loaded;
  const std::lock_guard<std::mutex> lock(mutex);
  auto [it, is_new] = loaded.try_emplace({set, key}, nullptr);
  if (!is_new) return it->second;
  const std::string file = kernel_library_file(instruction_set_name(set), key);
  void *handle = file.empty() ? nullptr : dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return nullptr;
  const auto *library = static_cast<const KernelLibrary *>(dlsym(handle, "equi_kernels"));
  if (library && library->abi == UNIT_KERNEL_ABI && std::strcmp(library->isa, instruction_set_name(set)) == 0)
    it->second = library;
  return it->second;
}

// The kernels of kind K, null if a library has none.
template <class K>
const KernelList<K> *list_of(const KernelLibrary &library) {
  if constexpr (std::is_same_v<K, UnitKernel<float>>)
    return &library.float_units;
  else if constexpr (std::is_same_v<K, UnitKernel<double>>)
    return &library.double_units;
  else if constexpr (std::is_same_v<K, UnitKernel<Dual<float>>>)
    return &library.dual_float_units;
  else if constexpr (std::is_same_v<K, UnitKernel<Dual<double>>>)
    return &library.dual_double_units;
  else if constexpr (std::is_same_v<K, UvwKernel<float>>)
    return &library.float_uvw;
  else if constexpr (std::is_same_v<K, UvwKernel<double>>)
    return &library.double_uvw;
  else if constexpr (std::is_same_v<K, ContractionKernel<float>>)
    return &library.float_contractions;
  else if constexpr (std::is_same_v<K, ContractionKernel<double>>)
    return &library.double_contractions;
  else
    return nullptr;
}

// The kernel of kind K with this key, or null.
template <class K>
const K *find(InstructionSet set, const std::string &key) {
  const auto find_in = [&](const KernelLibrary *library) -> const K * {
    const KernelList<K> *list = library ? list_of<K>(*library) : nullptr;
    for (int k = 0; list && k < list->count; k++)
      if (key == list->kernels[k]->key) return list->kernels[k];
    return nullptr;
  };
  if (const K *kernel = find_in(library_of_build(set))) return kernel;
  return find_in(library_of_user(set, key));
}

}    // namespace

template <class T>
const UnitKernel<T> *find_unit_kernel(InstructionSet set, const std::string &key) {
  return find<UnitKernel<T>>(set, key);
}

template <class T>
const UvwKernel<T> *find_uvw_kernel(InstructionSet set, const std::string &key) {
  return find<UvwKernel<T>>(set, key);
}

template <class T>
const ContractionKernel<T> *find_contraction_kernel(InstructionSet set, const std::string &key) {
  return find<ContractionKernel<T>>(set, key);
}

#define EQUI_INSTANTIATE(T)                                                               \
  template const UnitKernel<T> *find_unit_kernel<T>(InstructionSet, const std::string &); \
  template const UvwKernel<T> *find_uvw_kernel<T>(InstructionSet, const std::string &);   \
  template const ContractionKernel<T> *find_contraction_kernel<T>(InstructionSet, const std::string &);
EQUI_INSTANTIATE(float)
EQUI_INSTANTIATE(double)
EQUI_INSTANTIATE(Dual<float>)
EQUI_INSTANTIATE(Dual<double>)
#undef EQUI_INSTANTIATE

}    // namespace equi
