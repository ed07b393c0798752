// SPDX-License-Identifier: MIT
// Numbers of a normal distribution, the same for the same seed.
#ifndef EQUI_RANDOM_NUMBERS_H
#define EQUI_RANDOM_NUMBERS_H

#include <random>
#include <vector>

namespace equi::testing {

inline std::vector<double> random_numbers(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> v(n);
  for (double &x : v) x = normal(random);
  return v;
}

}    // namespace equi::testing

#endif
