#include "pair_repulsion.h"

#include "cutoff_function.h"
#include "jet.h"

namespace equi {

double PairRepulsion::energy(int receiver, int sender, double r, double *derivative, double *second) const {
  if (derivative) *derivative = 0.0;
  if (second) *second = 0.0;
  if (!(r < cutoff(receiver, sender))) return 0.0;
  const Jet distance = Jet::variable(r);
  Jet screening;
  for (size_t k = 0; k < coefficients.size(); ++k)
    screening = screening + coefficients[k] * exp(-exponents[k] / length(receiver, sender) * distance);
  const Jet e = prefactor(receiver, sender) / distance * screening *
                polynomial_cutoff(1.0 / cutoff(receiver, sender) * distance, p);
  if (derivative) *derivative = e.d[1];
  if (second) *second = e.d[2];
  return e.value();
}

}    // namespace equi
