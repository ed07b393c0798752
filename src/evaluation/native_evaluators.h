// SPDX-License-Identifier: MIT
// Declares what kokkos/ defines for src/ and the programs: the native evaluators, and the Kokkos of the process.
#ifndef EQUI_NATIVE_EVALUATORS_H
#define EQUI_NATIVE_EVALUATORS_H

#include "src/evaluation/evaluator.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace equi {

// Evaluators on the CPU (kokkos/evaluation/host_evaluation.cpp), and on Kokkos's default execution space
// (kokkos/evaluation/device_evaluation.cpp, in builds with EQUI_DEVICE). That space is a GPU where Kokkos has one. The
// model is already restricted to the elements of the run. Either evaluator starts Kokkos if the host program has not.
std::unique_ptr<Evaluator> make_host_evaluator(const Model &model, const EvaluatorOptions &options);
std::unique_ptr<Evaluator> make_device_evaluator(const Model &model, const EvaluatorOptions &options);
// The mean of several evaluators on a device, which share a neighbor list there (kokkos/evaluation/device_committee.h).
std::unique_ptr<Evaluator> make_device_committee(std::vector<std::unique_ptr<Evaluator>> members);

// The instruction sets for which this build has kernels and which the CPU can run: "generic", "neon", "avx2", "avx512",
// "amx".
std::vector<std::string> host_instruction_sets();

// The result of a check of one kernel on random numbers.
struct KernelCheck {
  std::string name;           // key of the kernel, and what was compared
  double difference = 0.0;    // largest difference, relative to the largest number
  double allowed = 0.0;
  std::string fault;    // empty if the kernel passed the check
};
// Checks the kernels that a model uses on CPUs with an instruction set, empty for the best one. Convolutions are
// compared with sums over Clebsch-Gordan coefficients in float64 (TensorProduct), and all functions with those of
// generic kernels. A library of the user that is broken and therefore not used counts as a fault.
std::vector<KernelCheck> check_kernels(const Model &model, const std::string &instruction_set);

// Receivers that a GPU computes at a time unless EvaluatorOptions::batch sets another number. A GPU needs some thousand
// atoms to be busy. With more of them, the first and last blocks of a launch, when it is not busy, count little.
// Besides the features, a batch uses about 1 kB per edge and the outputs of a convolution.
constexpr int DEVICE_BATCH = 16384;
// Steps with at most this number of atoms can be recorded (kokkos/runtime/device_recorder.h).
constexpr int RECORDED_ATOMS = 4096;

// Start and end the process-wide Kokkos of a host program that has none. num_threads <= 0: OpenMP's default; the number
// is never larger than Kokkos and OpenMP allow. number: index of this process among those that share the GPUs of a
// machine, which it uses in turn. Returns the number of threads, or 0 if Kokkos runs already, with threads that others
// chose. Throws if Kokkos is built for GPUs and can use none (check_devices).
int start_kokkos(int num_threads, int number);
// Throws if Kokkos is for GPUs and one of these holds: the machine has no GPU, its driver is too old, or GPU `number`
// is older than this build's target. `number` is counted as above. Kokkos itself would end the process.
void check_devices(int number);
std::string kokkos_backend();    // "OpenMP, 2 threads", ...
int num_host_threads();          // of Kokkos, which must have been started
int num_devices();               // GPUs that Kokkos sees, 0 without any
int kokkos_device();             // number of the GPU that Kokkos uses, -1 without any
// Identifies the GPU that Kokkos uses. The identity is the same in each process, whatever the GPU's number there. Zeros
// without any GPU.
using DeviceIdentity = std::array<char, 16>;
DeviceIdentity device_identity();
// Bytes that one of `sharing` processes may use, more than 0. On a GPU it is a share of the free memory, less a
// twentieth and at least 1 GB for later allocations of others. Without a GPU it is host memory (host_resources.h).
// Kokkos must have been started.
double memory_available(int sharing);

}    // namespace equi

#endif
