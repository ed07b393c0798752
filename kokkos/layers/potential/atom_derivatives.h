// SPDX-License-Identifier: MIT
// Derivatives of an energy by the positions of receivers and by a strain, on their way to forces and virials.
#ifndef EQUI_ATOM_DERIVATIVES_H
#define EQUI_ATOM_DERIVATIVES_H

#include "kokkos/layer_interface/system_numbers.h"
#include "src/functions/wave_cell.h"

#include <cstdint>
#include <tuple>

namespace equi {

// System: SystemOnHost<D> or SystemOnDevice<D>
template <class System>
class AtomDerivatives {
  using D = typename System::Number;
  using Work = typename System::Work;

 public:
  static constexpr int NUMBERS = 3 + SYMMETRIC;    // of a receiver

  static bool needs_any(const typename System::System &system) {
    return System::needs_forces(system) || System::needs_virial(system) || System::needs_atom_virial(system);
  }
  // The arrays, [count][3] and [count][SYMMETRIC] one after the other, are to be written before subtract().
  void reserve(int64_t count) {
    gradient_ = numbers_.reserve(NUMBERS * count + SYMMETRIC);
    strains_ = gradient_ + 3 * count;
  }
  D *gradient() const { return gradient_; }
  D *strains() const { return strains_; }
  // Subtracts them from the forces and virials that are requested.
  void subtract(System &sums, const Work &work, const typename System::System &system, int count) {
    if (System::needs_forces(system)) System::subtract_gradient(work, system, count, gradient_);
    const int64_t num = SYMMETRIC * static_cast<int64_t>(count);
    if (System::needs_virial(system)) {
      D *total = strains_ + num;
      sums.sum_rows(work, strains_, count, SYMMETRIC, total);
      System::subtract_strain(work, system, total);
    }
    if (!System::needs_atom_virial(system)) return;
    double *values = strain_values_.reserve(num);
    System::for_numbers(work, "equi:values", num, ValuesOfNumbers<D>{strains_, values});
    System::subtract_atom_strains(work, system, count, values);
  }
  auto members() const { return std::tie(numbers_, strain_values_); }

 private:
  typename System::template Array<D> numbers_;
  typename System::template Array<double> strain_values_;
  D *gradient_ = nullptr, *strains_ = nullptr;
};

}    // namespace equi

#endif
