// SPDX-License-Identifier: MIT
// Loads libraries of kernels, and finds the kernel of a path group or contraction in the build or in them.
#include "kokkos/kernel_libraries/kernel_library.h"

#include "kokkos/kernel_libraries/kernel_cache.h"
#include "kokkos/kernel_libraries/kernel_check.h"
#include "src/numbers/number_types.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

namespace equi {

#ifdef EQUI_HAS_NEON
namespace isa_neon {
extern const KernelLibrary KERNEL_LIBRARY;
}
#endif
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
#ifdef EQUI_HAS_NEON
  if (set == InstructionSet::neon) return &isa_neon::KERNEL_LIBRARY;
#endif
  (void)set;
  return nullptr;
}

// Whether `library` is ours and has the expected size: a library of another version may be shorter.
bool is_our_library(const KernelLibrary *library, InstructionSet set) {
#ifdef RTLD_DL_SYMENT
  Dl_info place;
  const ElfW(Sym) *symbol = nullptr;
  if (!dladdr1(library, &place, reinterpret_cast<void **>(const_cast<ElfW(Sym) **>(&symbol)), RTLD_DL_SYMENT) ||
      !symbol || symbol->st_size != sizeof(KernelLibrary))
    return false;
#endif
  return library->abi == PATH_GROUP_KERNEL_ABI && std::strcmp(library->isa, instruction_set_name(set)) == 0;
}

// Loads the library that open_kernel_library() has opened and checks its kernels, which must be those of `what`. The
// library stays loaded, because its kernels are used until the process ends. Its descriptor stays open, too:
// dlopen() identifies loaded files by its number, and would return the first of two libraries with the same number.
template <class What>
KernelLibraryFound load(int descriptor, const What &what, InstructionSet set) {
  void *handle = dlopen(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return {nullptr, std::string("it does not load: ") + dlerror()};
  const auto *library = static_cast<const KernelLibrary *>(dlsym(handle, "equi_kernels"));
  if (!library || !is_our_library(library, set)) return {nullptr, "it is not a library of kernels of this version"};
  const std::string fault = fault_of_kernels(*library, what, set);
  return {fault.empty() ? library : nullptr, fault};
}

// Results of the find_* functions so far, by instruction set and key.
std::mutex found_mutex;
std::map<std::pair<InstructionSet, std::string>, KernelLibraryFound> &all_found() {
  static std::map<std::pair<InstructionSet, std::string>, KernelLibraryFound> found;
  return found;
}

// A user's library.
template <class What>
const KernelLibrary *library_of_user(InstructionSet set, const What &what) {
  const std::string key = what.key();
  const std::lock_guard<std::mutex> lock(found_mutex);
  auto [it, is_new] = all_found().try_emplace({set, key});
  if (is_new) it->second = find_kernel_library(set, what);
  return it->second.library;
}

// The kernels of kind K; null if a library has none.
template <class K>
const KernelList<K> *list_of(const KernelLibrary &library) {
  if constexpr (std::is_same_v<K, PathGroupKernel<float>>)
    return &library.float_path_groups;
  else if constexpr (std::is_same_v<K, PathGroupKernel<double>>)
    return &library.double_path_groups;
  else if constexpr (std::is_same_v<K, PathGroupKernel<Dual<float>>>)
    return &library.dual_float_path_groups;
  else if constexpr (std::is_same_v<K, PathGroupKernel<Dual<double>>>)
    return &library.dual_double_path_groups;
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

// The kernel of kind K for a path group or contraction, or null.
template <class K, class What>
const K *find(InstructionSet set, const What &what) {
  set = vector_set(set);
  const std::string key = what.key();
  if (key.empty() || set == InstructionSet::generic) return nullptr;
  const auto find_in = [&](const KernelLibrary *library) -> const K * {
    const KernelList<K> *list = library ? list_of<K>(*library) : nullptr;
    for (int k = 0; list && k < list->count; k++)
      if (key == list->kernels[k]->key) return list->kernels[k];
    return nullptr;
  };
  if (const K *kernel = find_in(library_of_build(set))) return kernel;
  return find_in(library_of_user(set, what));
}

}    // namespace

template <class What>
KernelLibraryFound find_kernel_library(InstructionSet set, const What &what) {
  set = vector_set(set);
  const KernelCache cache = kernel_cache();
  const std::string file = kernel_library_file(cache, instruction_set_name(set), what.key());
  if (file.empty()) return {};
  KernelLibraryFound found;
  const OpenedFile opened = open_kernel_library(file);
  if (!opened.fault.empty())
    found.fault = opened.fault;
  else if (opened.descriptor >= 0)
    found = load(opened.descriptor, what, set);
  if (!found.fault.empty()) found.fault = file + " is not used: " + found.fault;
  return found;
}

std::string kernel_library_fault(InstructionSet set, const std::string &key) {
  const std::lock_guard<std::mutex> lock(found_mutex);
  const auto it = all_found().find({vector_set(set), key});
  return it == all_found().end() ? "" : it->second.fault;
}

template <class T>
const PathGroupKernel<T> *find_path_group_kernel(InstructionSet set, const PathGroupShape &shape) {
  return find<PathGroupKernel<T>>(set, shape);
}

template <class T>
const UvwKernel<T> *find_uvw_kernel(InstructionSet set, const PathGroupShape &shape) {
  return find<UvwKernel<T>>(set, shape);
}

template <class T>
const ContractionKernel<T> *find_contraction_kernel(InstructionSet set, const ContractionSchedule &schedule) {
  return find<ContractionKernel<T>>(set, schedule);
}

#define EQUI_INSTANTIATE(T)                                                                             \
  template const PathGroupKernel<T> *find_path_group_kernel<T>(InstructionSet, const PathGroupShape &); \
  template const UvwKernel<T> *find_uvw_kernel<T>(InstructionSet, const PathGroupShape &);              \
  template const ContractionKernel<T> *find_contraction_kernel<T>(InstructionSet, const ContractionSchedule &);
EQUI_FOR_NUMBERS(EQUI_INSTANTIATE)
#undef EQUI_INSTANTIATE
template KernelLibraryFound find_kernel_library(InstructionSet, const PathGroupShape &);
template KernelLibraryFound find_kernel_library(InstructionSet, const ContractionSchedule &);

}    // namespace equi
