// SPDX-License-Identifier: MIT
// The settings of a calculator of libequi.so, from keywords like those of pair_style equi.
#ifndef EQUI_CALCULATOR_SETTINGS_H
#define EQUI_CALCULATOR_SETTINGS_H

#include "src/evaluation/evaluator.h"
#include "src/model/model_file.h"

#include <string>

namespace equi {

struct CalculatorSettings {
  EvaluatorOptions options;    // without the limit of the memory
  ForcesOf forces_of = ForcesOf::energy;
  enum class Kernels { automatic, host, device } kernels = Kernels::automatic;
  double memory_limit = -1.0;    // bytes; 0: none; -1: the available memory
  AtomicSystem system;           // task, charge and spin, for files for all systems
  int num_threads = 0;           // 0: OMP_NUM_THREADS, else the cores
};

// Throws std::invalid_argument, which names the keyword and what it accepts.
CalculatorSettings read_calculator_settings(const std::string &keywords);

}    // namespace equi

#endif
