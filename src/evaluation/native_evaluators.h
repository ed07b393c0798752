// SPDX-License-Identifier: MIT
// The declarations of what kokkos/ defines for src/ and the programs: the native evaluators, and the Kokkos of the
// process.
#ifndef EQUI_NATIVE_EVALUATORS_H
#define EQUI_NATIVE_EVALUATORS_H

#include "src/evaluation/evaluator.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace equi {

// Evaluators on the CPU (kokkos/evaluation/host_evaluation.cpp), and on Kokkos's default execution space, a GPU where
// Kokkos has one (kokkos/evaluation/device_evaluation.cpp, in builds with EQUI_DEVICE). The model is already restricted
// to the elements of the run. Either starts Kokkos if the host program has not.
std::unique_ptr<Evaluator> make_host_evaluator(const Model &model, const EvaluatorOptions &options);
std::unique_ptr<Evaluator> make_device_evaluator(const Model &model, const EvaluatorOptions &options);

// The instruction sets for which this build has kernels and which the CPU can run: "generic", "neon", "avx2", "avx512".
std::vector<std::string> host_instruction_sets();

// The result of a check of one kernel on random numbers.
struct KernelCheck {
  std::string name;           // its key, and what was compared
  double difference = 0.0;    // the largest, relative to the largest number
  double allowed = 0.0;
  std::string fault;    // empty if the check was passed
};
// The kernels that a model takes on CPUs with an instruction set, empty for the best. Convolutions are compared with
// sums over Clebsch-Gordan coefficients in float64 (TensorProduct), and all functions with those of generic kernels. A
// library of the user's that is not used since it is broken is a fault.
std::vector<KernelCheck> check_kernels(const Model &model, const std::string &instruction_set);

// Receivers that a GPU computes at a time unless EvaluatorOptions::batch says so. It needs some thousand atoms to be
// busy, and more so that the first and the last blocks of a launch, when it is not, count little; beyond the features a
// batch takes about 1 kB per edge and the outputs of a convolution.
constexpr int DEVICE_BATCH = 16384;
// Steps of at most this number of atoms can be recorded (kokkos/runtime/device_recorder.h).
constexpr int RECORDED_ATOMS = 4096;

// Starts and ends the process-wide Kokkos of a host program that has none. num_threads <= 0: OpenMP's default; never
// more than Kokkos holds and OpenMP gives. number: of this process among those that share the GPUs of a machine, which
// it takes in turn. Returns the number of threads; 0 where Kokkos runs already, with threads that others chose. Throws
// where Kokkos has GPUs and there is none that it can use (check_devices).
int start_kokkos(int num_threads, int number);
// Throws if Kokkos is for GPUs, and the machine has none, or a driver that is too old, or a GPU `number`, counted as
// above, that is older than the one that this build is for. Kokkos itself would end the process.
void check_devices(int number);
std::string kokkos_backend();    // "OpenMP, 2 threads", ...
int num_devices();               // GPUs that Kokkos sees, 0 without any
int kokkos_device();             // the number of the GPU that Kokkos uses, -1 without any
// What tells the GPU that Kokkos uses from all others, in each process the same, whatever its number there. Without any
// GPU zeros.
using DeviceIdentity = std::array<char, 16>;
DeviceIdentity device_identity();
// Bytes that one of `sharing` processes may take, more than 0: of its GPU's free memory, less a twentieth and at least
// 1 GB for what others allocate there later, without a GPU of the host's (host_resources.h). Kokkos has been started.
double memory_available(int sharing);

}    // namespace equi

#endif
