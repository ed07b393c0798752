// SPDX-License-Identifier: MIT
// Chooses the instruction set of the host kernels.
#include "kokkos/host_kernels/host_kernels.h"

#include "kokkos/host_kernels/split_trial.h"
#include "src/numbers/number_types.h"

#include <stdexcept>

namespace equi {

// The kernels of each instruction set, which may not be compiled.
namespace isa_generic {
extern const AllHostKernels ALL_KERNELS;
}
namespace isa_neon {
extern const AllHostKernels ALL_KERNELS;
}
namespace isa_avx2 {
extern const AllHostKernels ALL_KERNELS;
}
namespace isa_avx512 {
extern const AllHostKernels ALL_KERNELS;
}
namespace isa_amx {
extern const SplitKernels SPLIT_KERNELS;
}

namespace {

bool is_compiled(InstructionSet set) {
#ifdef EQUI_HAS_AMX
  if (set == InstructionSet::amx) return true;
#endif
#ifdef EQUI_HAS_AVX512
  if (set == InstructionSet::avx512) return true;
#endif
#ifdef EQUI_HAS_AVX2
  if (set == InstructionSet::avx2) return true;
#endif
#ifdef EQUI_HAS_NEON
  if (set == InstructionSet::neon) return true;
#endif
  return set == InstructionSet::generic;
}

bool cpu_has(InstructionSet set) {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (set == InstructionSet::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (set == InstructionSet::avx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
#endif
#ifdef EQUI_HAS_AMX
  if (set == InstructionSet::amx) return isa_amx::SPLIT_KERNELS.is_available();
#endif
#ifdef __aarch64__
  if (set == InstructionSet::neon) return true;
#endif
  return set == InstructionSet::generic;
}

}    // namespace

bool instruction_set_available(InstructionSet set) {
  return is_compiled(set) && cpu_has(set);
}

const char *instruction_set_name(InstructionSet set) {
  switch (set) {
    case InstructionSet::amx:
      return "amx";
    case InstructionSet::avx512:
      return "avx512";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::neon:
      return "neon";
    case InstructionSet::generic:
      break;
  }
  return "generic";
}

InstructionSet instruction_set_of_name(const std::string &name) {
  for (const InstructionSet set : INSTRUCTION_SETS)
    if (name == instruction_set_name(set)) return set;
  throw std::invalid_argument("an instruction set '" + name + "' is not known");
}

namespace {

InstructionSet best_vector_set(bool compiled) {
  InstructionSet best = InstructionSet::generic;
  for (const InstructionSet set : INSTRUCTION_SETS)
    if (set != InstructionSet::amx && cpu_has(set) && (!compiled || is_compiled(set))) best = set;
  return best;
}

}    // namespace

InstructionSet vector_set(InstructionSet set) {
  return set == InstructionSet::amx ? best_vector_set(true) : set;
}

InstructionSet best_instruction_set(bool compiled) {
#ifdef EQUI_HAS_AMX
  static const bool pays =
      instruction_set_available(InstructionSet::amx) &&
      try_split_products(isa_amx::SPLIT_KERNELS, host_kernels<float>(vector_set(InstructionSet::amx))).pays();
  if (pays) return InstructionSet::amx;
#endif
  return best_vector_set(compiled);
}

namespace {

const AllHostKernels &all_kernels(InstructionSet set);

#ifdef EQUI_HAS_AMX
// The kernels of the best other set, with products by matrix units.
AllHostKernels kernels_with_split_products() {
  AllHostKernels kernels = all_kernels(vector_set(InstructionSet::amx));
  kernels.HostKernels<float>::split = &isa_amx::SPLIT_KERNELS;
  kernels.HostKernels<Dual<float>>::split = &isa_amx::SPLIT_KERNELS;
  return kernels;
}
#endif

const AllHostKernels &all_kernels(InstructionSet set) {
  if (!instruction_set_available(set))
    throw std::invalid_argument("this CPU or this build lacks the requested instruction set");
#ifdef EQUI_HAS_AMX
  if (set == InstructionSet::amx) {
    static const AllHostKernels kernels = kernels_with_split_products();
    return kernels;
  }
#endif
#ifdef EQUI_HAS_AVX512
  if (set == InstructionSet::avx512) return isa_avx512::ALL_KERNELS;
#endif
#ifdef EQUI_HAS_AVX2
  if (set == InstructionSet::avx2) return isa_avx2::ALL_KERNELS;
#endif
#ifdef EQUI_HAS_NEON
  if (set == InstructionSet::neon) return isa_neon::ALL_KERNELS;
#endif
  return isa_generic::ALL_KERNELS;
}

}    // namespace

template <class T>
const HostKernels<T> &host_kernels(InstructionSet set) {
  return all_kernels(set);
}
const EdgeKernels &edge_kernels(InstructionSet set) {
  return all_kernels(set);
}

#define EQUI_INSTANTIATE(T) template const HostKernels<T> &host_kernels<T>(InstructionSet);
EQUI_FOR_NUMBERS(EQUI_INSTANTIATE)
#undef EQUI_INSTANTIATE

}    // namespace equi
