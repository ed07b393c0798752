// SPDX-License-Identifier: MIT
// Choice of the host kernels' instruction set.
#include "kokkos/host_kernels/host_kernels.h"

#include <stdexcept>
#include <type_traits>

namespace equi {

namespace isa_generic {
extern const HostKernels<float> FLOAT_KERNELS;
extern const HostKernels<double> DOUBLE_KERNELS;
extern const HostKernels<Dual<float>> DUAL_FLOAT_KERNELS;
extern const HostKernels<Dual<double>> DUAL_DOUBLE_KERNELS;
}    // namespace isa_generic
#ifdef EQUI_HAS_AVX2
namespace isa_avx2 {
extern const HostKernels<float> FLOAT_KERNELS;
extern const HostKernels<double> DOUBLE_KERNELS;
extern const HostKernels<Dual<float>> DUAL_FLOAT_KERNELS;
extern const HostKernels<Dual<double>> DUAL_DOUBLE_KERNELS;
}    // namespace isa_avx2
#endif
#ifdef EQUI_HAS_AVX512
namespace isa_avx512 {
extern const HostKernels<float> FLOAT_KERNELS;
extern const HostKernels<double> DOUBLE_KERNELS;
extern const HostKernels<Dual<float>> DUAL_FLOAT_KERNELS;
extern const HostKernels<Dual<double>> DUAL_DOUBLE_KERNELS;
}    // namespace isa_avx512
#endif

namespace {

bool is_compiled(InstructionSet set) {
#ifdef EQUI_HAS_AVX512
  if (set == InstructionSet::avx512) return true;
#endif
#ifdef EQUI_HAS_AVX2
  if (set == InstructionSet::avx2) return true;
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
  return set == InstructionSet::generic;
}

}    // namespace

bool instruction_set_available(InstructionSet set) {
  return is_compiled(set) && cpu_has(set);
}

const char *instruction_set_name(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512:
      return "avx512";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::generic:
      break;
  }
  return "generic";
}

InstructionSet best_instruction_set(bool compiled) {
  for (InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2})
    if (cpu_has(set) && (!compiled || is_compiled(set))) return set;
  return InstructionSet::generic;
}

namespace {

// The first argument whose type is R.
template <class R, class First, class... Rest>
const R &pick(const First &first, const Rest &...rest) {
  if constexpr (std::is_same_v<R, First>)
    return first;
  else
    return pick<R>(rest...);
}

}    // namespace

template <class T>
const HostKernels<T> &host_kernels(InstructionSet set) {
  if (!instruction_set_available(set))
    throw std::invalid_argument("this CPU or this build lacks the requested instruction set");
  const auto of = [](const auto &...kernels) -> const HostKernels<T> & { return pick<HostKernels<T>>(kernels...); };
#ifdef EQUI_HAS_AVX512
  if (set == InstructionSet::avx512)
    return of(isa_avx512::FLOAT_KERNELS, isa_avx512::DOUBLE_KERNELS, isa_avx512::DUAL_FLOAT_KERNELS,
              isa_avx512::DUAL_DOUBLE_KERNELS);
#endif
#ifdef EQUI_HAS_AVX2
  if (set == InstructionSet::avx2)
    return of(isa_avx2::FLOAT_KERNELS, isa_avx2::DOUBLE_KERNELS, isa_avx2::DUAL_FLOAT_KERNELS,
              isa_avx2::DUAL_DOUBLE_KERNELS);
#endif
  return of(isa_generic::FLOAT_KERNELS, isa_generic::DOUBLE_KERNELS, isa_generic::DUAL_FLOAT_KERNELS,
            isa_generic::DUAL_DOUBLE_KERNELS);
}

template const HostKernels<float> &host_kernels<float>(InstructionSet);
template const HostKernels<double> &host_kernels<double>(InstructionSet);
template const HostKernels<Dual<float>> &host_kernels<Dual<float>>(InstructionSet);
template const HostKernels<Dual<double>> &host_kernels<Dual<double>>(InstructionSet);

}    // namespace equi
