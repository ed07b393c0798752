// SPDX-License-Identifier: MIT
#include "src/model/pair_repulsion.h"

#include "src/model/repulsion_function.h"

namespace equi {

double PairRepulsion::energy(int receiver, int sender, double r, double *derivative, double *second) const {
  if (derivative) *derivative = 0.0;
  if (second) *second = 0.0;
  if (r >= cutoff(receiver, sender)) return 0.0;    // what is not a number goes on
  const Jet e = repulsion_function(Jet::variable(r), prefactor(receiver, sender), length(receiver, sender),
                                   cutoff(receiver, sender), p, static_cast<int>(coefficients.size()),
                                   coefficients.data(), exponents.data());
  if (derivative) *derivative = e.d[1];
  if (second) *second = e.d[2];
  return e.value();
}

}    // namespace equi
