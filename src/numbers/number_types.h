// SPDX-License-Identifier: MIT
// The number types of evaluations, for explicit instantiations.
#ifndef EQUI_NUMBER_TYPES_H
#define EQUI_NUMBER_TYPES_H

#include "src/numbers/dual.h"

// F(type) for each type of features.
#define EQUI_FOR_NUMBERS(F) F(float) F(double) F(Dual<float>) F(Dual<double>)

// The class template for each of them.
#define EQUI_INSTANTIATE_NUMBERS(Class) \
  template class Class<float>;          \
  template class Class<double>;         \
  template class Class<Dual<float>>;    \
  template class Class<Dual<double>>;

#endif
