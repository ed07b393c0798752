// SPDX-License-Identifier: MIT
// The C functions of equi.h: they keep exceptions in, store their texts, and let one thread evaluate at a time.
#include "src/library/equi.h"

#include "src/library/calculator.h"

#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <string>

struct equi_calculator {
  equi_calculator(const char *file, const char *elements, const char *keywords)
      : calculator(file, elements ? elements : "", keywords ? keywords : "") {}
  equi::Calculator calculator;
  std::string description, unit;
};

namespace {

// A fixed size, because an error may be that there is no memory.
constexpr std::size_t ERROR_SIZE = 4000;
thread_local char last_error[ERROR_SIZE] = "";

void keep_error(const char *text) {
  std::snprintf(last_error, sizeof last_error, "%s", text);
}

// All threads of the process share Kokkos's.
std::mutex &evaluation_mutex() {
  static std::mutex *mutex = new std::mutex;    // never destroyed: programs may free calculators when they end
  return *mutex;
}

// Calls work() alone. Returns whether it succeeded.
template <class Work>
bool succeeds(const Work &work) {
  try {
    const std::lock_guard<std::mutex> alone(evaluation_mutex());
    work();
    return true;
  } catch (const std::bad_alloc &) {
    keep_error("there is not enough memory");
  } catch (const std::exception &fault) {
    keep_error(fault.what());
  } catch (...) {
    keep_error("an unknown exception was thrown");
  }
  return false;
}

template <class Work>
int status(const equi_calculator *calculator, const Work &work) {
  if (!calculator) {
    keep_error("the calculator is a null pointer");
    return EQUI_ERROR;
  }
  return succeeds(work) ? EQUI_OK : EQUI_ERROR;
}

}    // namespace

extern "C" {

int equi_api_version(void) {
  return EQUI_API_VERSION;
}

const char *equi_version(void) {
  return EQUI_VERSION;
}

const char *equi_last_error(void) {
  return last_error;
}

equi_calculator *equi_create(const char *file, const char *elements, const char *keywords) {
  if (!file) {
    keep_error("the name of the model file is a null pointer");
    return nullptr;
  }
  equi_calculator *made = nullptr;
  succeeds([&] { made = new equi_calculator(file, elements, keywords); });
  return made;
}

void equi_free(equi_calculator *calculator) {
  succeeds([&] { delete calculator; });
}

int equi_num_types(const equi_calculator *calculator) {
  return calculator ? static_cast<int>(calculator->calculator.symbols().size()) : 0;
}

const char *equi_symbol(const equi_calculator *calculator, int type) {
  if (type < 0 || type >= equi_num_types(calculator)) return nullptr;
  return calculator->calculator.symbols()[type].c_str();
}

double equi_cutoff(const equi_calculator *calculator) {
  return calculator ? calculator->calculator.cutoff() : 0.0;
}

int equi_num_threads(void) {
  int number = 0;
  succeeds([&] { number = equi::num_calculator_threads(); });
  return number;
}

const char *equi_describe(equi_calculator *calculator) {
  const int fault = status(calculator, [&] { calculator->description = calculator->calculator.describe(); });
  return fault == EQUI_OK ? calculator->description.c_str() : nullptr;
}

int equi_set_atoms(equi_calculator *calculator, int num_atoms, const int *types, const double *positions,
                   const double *cell, const int *periodic) {
  return status(calculator, [&] { calculator->calculator.set_atoms(num_atoms, types, positions, cell, periodic); });
}

int equi_compute(equi_calculator *calculator, double *energy, double *energies, double *forces, double *virial,
                 double *stress) {
  return status(calculator, [&] { calculator->calculator.compute({energy, energies, forces, virial, stress}); });
}

int equi_hessian(equi_calculator *calculator, double *hessian) {
  return status(calculator, [&] { calculator->calculator.compute_hessian(hessian); });
}

int equi_compute_observable(equi_calculator *calculator, const char *name, double *values) {
  return status(calculator, [&] { calculator->calculator.compute_observable(name ? name : "", values); });
}

int equi_born_charges(equi_calculator *calculator, int neutral, double *born, double *charge_derivatives) {
  return status(calculator,
                [&] { calculator->calculator.compute_born_charges(neutral != 0, born, charge_derivatives); });
}

const char *equi_observable_unit(equi_calculator *calculator, const char *name) {
  const int fault =
      status(calculator, [&] { calculator->unit = calculator->calculator.observable_unit(name ? name : ""); });
  return fault == EQUI_OK ? calculator->unit.c_str() : nullptr;
}
}
