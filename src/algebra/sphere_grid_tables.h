// SPDX-License-Identifier: MIT
// The part of a grid on the sphere (sphere_grid.h) that a kernel reads. It is plain data, because kernels are compiled
// for several instruction sets and for devices.
#ifndef EQUI_SPHERE_GRID_TABLES_H
#define EQUI_SPHERE_GRID_TABLES_H

namespace equi {

// Adds entry `column` of the ring's table times a component of a channel to a ring value.
struct RingPart {
  int component, column;
};

// Adds coefficient * first * second, two ring values of the other functions, to one of this function.
struct CircleTerm {
  int first, second;
  double coefficient;
};

// A function on a ring is a sum over m of ring values times cos(m phi), m >= 0, or sin(|m| phi), m < 0. On a ring of
// the northern hemisphere a value is the sum of its even and odd parts. On the southern ring, at -y, it is their
// difference. The equator has even parts only. Even parts, odd parts and terms of a value end where those of the next
// value begin.
struct RingValue {
  int m;
  int even_end, parts_end, terms_end;
};

struct SphereFunctionView {
  const RingValue *values;
  const RingPart *parts;
  const CircleTerm *terms;
  int num_values;
};

struct SphereGridView {
  // The terms of `first` read values of the second function and of the output. Those of `second` read the first
  // function and the output, and those of `out` read the first and the second function.
  SphereFunctionView first, second, out;
  bool is_square;    // both factors are the first function
  int num_rings;     // rings of a hemisphere, with the equator
  bool has_equator;
  int num_columns;    // columns of the table [num_rings][num_columns], the equator last
};

}    // namespace equi

#endif
