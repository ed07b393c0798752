// SPDX-License-Identifier: MIT
// The number types of evaluations, for explicit instantiations.
#ifndef EQUI_NUMBER_TYPES_H
#define EQUI_NUMBER_TYPES_H

#include "src/numbers/dual.h"

// F(type) for each type of features.
#define EQUI_FOR_NUMBERS(F) F(float) F(double) F(Dual<float>) F(Dual<double>)
// F(type of features, type of the geometry) for each precision.
#define EQUI_FOR_PRECISIONS(F) \
  F(float, double) F(double, double) F(Dual<float>, Dual<double>) F(Dual<double>, Dual<double>)

// The class template for each type of both lists.
#define EQUI_INSTANTIATE_NUMBERS(Class) \
  template class Class<float>;          \
  template class Class<double>;         \
  template class Class<Dual<float>>;    \
  template class Class<Dual<double>>;
#define EQUI_INSTANTIATE_PRECISIONS(Class)         \
  template class Class<float, double>;             \
  template class Class<double, double>;            \
  template class Class<Dual<float>, Dual<double>>; \
  template class Class<Dual<double>, Dual<double>>;

#endif
