// SPDX-License-Identifier: MIT
// The dispersion energy of two atoms, for hosts and devices.
#ifndef EQUI_DISPERSION_FUNCTION_H
#define EQUI_DISPERSION_FUNCTION_H

#include "src/functions/switch_function.h"
#include "src/numbers/dual.h"

#include <cmath>

namespace equi {

// An energy in eV and its derivatives. N: double or Dual<double>.
template <class N>
struct PairDispersion {
  N energy, by_distance;                  // eV/Angstrom
  N by_polarizability, by_coefficient;    // in atomic units of the arguments
};

// The energy of two quantum Drude oscillators with damped multipoles (vdW-QDO). With d the distance and C the
// coefficient C6, in atomic units:
//   -w(r) C [1/(d^6 + P^6) + 10 s^2/(d^8 + P^8) + 122.5 s^4/(d^10 + P^10)]
// P is proportional to the seventh root a of the polarizability, and s is a polynomial of a. w is the switch.
struct DispersionFunction {
  double damping;       // P / a, Bohr
  double on, cutoff;    // of the switch, Angstrom

  template <class N>
  EQUI_FUNCTION PairDispersion<N> operator()(N r, N polarizability, N coefficient) const {
    constexpr double HARTREE = 27.211386245988, BOHR = 0.5291772105638411;    // eV, Angstrom
    // s by h = SCALE a; SCALE is the fine-structure constant 0.0072973525693 to the power -4/21.
    constexpr double SCALE = 2.5527961000248887, S[] = {-0.00433008, 0.24428889, 0.04125273, -0.00078893};
    constexpr double LEAST = 1e-30;    // derivatives stay finite where both polarizabilities vanish
    const Jet w = switch_function(Jet::variable(value_of(r)), on, cutoff);
    const N of_switch = make_number<N>(w.d[0], w.d[1] * tangent_of(r)),
            slope_of_switch = make_number<N>(w.d[1], w.d[2] * tangent_of(r));

    const N alpha = value_of(polarizability) < LEAST ? N(LEAST) : polarizability;
    const double root = std::pow(value_of(alpha), 1.0 / 7.0);
    const N a = make_number<N>(root, root / (7.0 * value_of(alpha)) * tangent_of(alpha));
    const N h = SCALE * a, s = S[0] + h * (S[1] + h * (S[2] + h * S[3]));
    const N s_by_a = SCALE * (S[1] + h * (2.0 * S[2] + 3.0 * S[3] * h));
    const N factors[] = {N(1.0), 10.0 * (s * s), 122.5 * (s * s) * (s * s)};
    const N factors_by_a[] = {N(0.0), 20.0 * s * s_by_a, 490.0 * (s * s) * s * s_by_a};

    const N d = 1.0 / BOHR * r, d2 = d * d, p = damping * a, p2 = p * p;
    N sum = 0.0, by_d = 0.0, by_a = 0.0, d_power = d2 * d2 * d, p_power = p2 * p2 * p;    // d^(n-1), p^(n-1)
    for (int k = 0; k < 3; k++) {
      const N inverse = 1.0 / (d_power * d + p_power * p);
      const N common = (6.0 + 2.0 * k) * (factors[k] * inverse * inverse);
      sum += factors[k] * inverse;
      by_d -= common * d_power;
      by_a += factors_by_a[k] * inverse - damping * (common * p_power);
      d_power *= d2;
      p_power *= p2;
    }
    const N outer = -HARTREE * of_switch;
    return {outer * coefficient * sum,
            -HARTREE * coefficient * (slope_of_switch * sum + 1.0 / BOHR * (of_switch * by_d)),
            outer * coefficient * by_a * a / (7.0 * alpha), outer * sum};
  }
};

}    // namespace equi

#endif
