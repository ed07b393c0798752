// SPDX-License-Identifier: MIT
// The radial functions of a trained convolution, exact and tabulated.
#ifndef EQUI_RADIAL_FUNCTION_H
#define EQUI_RADIAL_FUNCTION_H

#include "src/functions/network.h"
#include "src/numbers/hermite.h"
#include "src/numbers/host_device.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace equi {

// Trained functions may be steep below the distances of real bonds (radial_table.cpp).
constexpr double SHORT_DISTANCE = 1.0;    // Angstrom

// Functions b_n(x(r)) f(r) of the distance, where f is the cutoff function. They may differ between pairs of species
// (doc/model_file.rst, "Radial basis"). The length unit is Angstrom.
struct RadialBasis {
  enum class Kind { bessel, gaussian, chebyshev, exp_normal, bernstein, cosine_bump };
  enum class Transform { none, agnesi, soft };
  enum class Cutoff { polynomial, xplor, cosine, none };    // none: 1 up to the cutoff

  Kind kind = Kind::bessel;
  std::vector<double> wave_numbers;    // bessel: prefactor sin(k_n x)/x, 1/Angstrom
  double prefactor = 1.0;              // bessel
  std::vector<double> centers;         // gaussian, width in `width`
  double width = 1.0;                  // gaussian
  int num_polynomials = 0;             // chebyshev; cosine_bump: number of functions
  std::vector<double> exponentials;    // exp_normal: all means m_n, then all factors b_n
  double decay = 1.0;                  // exp_normal: exp(-b_n (exp(-decay x) - m_n)^2), 1/Angstrom
  // bernstein: the factors c_k of c_k z^k (1 - z)^(n-1-k), z = exp(-decay r) but at least LEAST_Z, as So3krates has it
  std::vector<double> binomials;
  static constexpr double LEAST_Z = 1e-6;
  // cosine_bump: sin(pi v)^4 for 0 < v < 1, v = (n u - k + span)/(span + 1), u = r/cutoff; 0 elsewhere
  int span = 1;

  Transform transform = Transform::none;
  Matrix pair_r0;                                           // agnesi, soft: [receiver, sender]
  double r0 = 1.0;                                          // agnesi, soft: value of one pair (for_pair)
  double agnesi_q = 0.0, agnesi_p = 0.0, agnesi_a = 0.0;    // agnesi
  double soft_alpha = 0.0;                                  // soft
  double stretch = 1.0;                                     // x = stretch r without a transform

  Cutoff cutoff_kind = Cutoff::polynomial;
  double cutoff = 0.0;         // Angstrom
  Matrix pair_cutoff;          // empty or [receiver, sender]
  double p = 6.0;              // polynomial
  double r_on = 0.0;           // xplor, Angstrom
  bool apply_cutoff = true;    // false: only b_n(x(r))

  int size() const;
  // Whether each pair of species has its own basis. Then only the result of for_pair() can be evaluated.
  bool depends_on_pair() const { return !pair_r0.data.empty() || !pair_cutoff.data.empty(); }
  RadialBasis for_pair(int receiver, int sender) const;
  // Distances in (0, cutoff) at which a derivative below the third jumps (r_on of xplor, the end of bernstein's decay):
  // tables need a knot there.
  std::vector<double> kinks() const;
  // out [order+1][size()]: value and derivatives d^k/dr^k, order <= 3, 0 <= r <= cutoff. At a kink `side` chooses the
  // branch: -1 from below, +1 from above.
  void derivatives(double r, int order, int side, double *out) const;
  // Functions first <= n < last.
  struct Range {
    int first, last;
    int size() const { return last - first; }
  };
  // The smallest range with all functions whose value or derivatives are not zero to rounding at any of `count`
  // distances. Gaussians are narrow in large bases.
  Range range_of_nonzero(int count, const double *r) const;
  // The functions of a range, out [order+1][range.size()].
  void derivatives(double r, int order, int side, Range range, double *out) const;
  // Only the cutoff function, out [order+1].
  void cutoff_function(double r, int order, int side, double *out) const;
};

// Makes a radial network's outputs of pairs of its numbers: the network gives values v, then as many keys k. With the
// last inputs q of the receiver, its query, an output is v sigmoid(norm(scale q k)). The norm is over all keys.
struct RadialGate {
  double scale = 1.0;
  HiddenNorm norm;
  std::vector<double> query;    // of one pair (for_pair)
};

// A factor of the outputs: the potential erf(r/width)/r of a Gaussian charge, times the polynomial cutoff function up
// to the cutoff of the basis.
struct ChargePotential {
  Matrix widths;         // [receiver, sender], Angstrom
  double p = 3.0;        // of the cutoff function
  double width = 0.0;    // of one pair (for_pair)
};

// The radial weights of a convolution, or the density of a normalization. It is a network on the basis and on rows of
// the two species, times a factor of the pair. Then follow perhaps tanh(w^2) or the activation of the network, the
// cutoff function and the potential of a charge as factors, and r^r_power as a factor per column.
struct RadialFunction {
  enum class Output { weights, tanh_square, activated };

  RadialBasis basis;
  Network network;
  Matrix sender, receiver;    // empty, or [species, n]: further inputs of the network
  // -1, or a 0e block of the convolution's input, whose channels at that atom are these inputs. In the second case the
  // functions below cannot evaluate this one.
  int sender_block = -1, receiver_block = -1;
  // Empty, or [species, num_outputs()]: the factor of a pair is the sum of two rows.
  Matrix receiver_factor, sender_factor;
  Output output = Output::weights;
  bool times_cutoff = false;
  std::vector<int> r_power;          // [num_outputs], or empty for all zero
  std::optional<RadialGate> gate;    // the network has rows of zeros for the query
  std::optional<ChargePotential> charge_potential;

  int num_outputs() const { return network.num_outputs() / (gate ? 2 : 1); }
  bool has_pair_factor() const { return !receiver_factor.data.empty(); }
  bool depends_on_pair() const {
    return basis.depends_on_pair() || !sender.data.empty() || !receiver.data.empty() || has_pair_factor() ||
           (charge_potential && !charge_potential->widths.data.empty());
  }
  bool reads_receiver() const { return receiver_block >= 0; }
  bool reads_features() const { return sender_block >= 0 || reads_receiver(); }
  // The function of one pair of species, which depends only on the distance. Rows of the species become a bias, and
  // factors become part of the last matrix.
  RadialFunction for_pair(int receiver_species, int sender_species) const;
  // For a function that does not depend on the pair.
  void derivatives(double r, int order, int side, double *out) const;    // out [order+1][num_outputs()]
  // The same at `count` distances, out [count][order+1][num_outputs()]. This is faster than one call per distance.
  void derivatives(int count, const double *r, int order, int side, double *out) const;
};

// Piecewise Hermite interpolation of a RadialFunction. Degree 3 stores (f, f' h) per knot, and degree 5 (f, f' h, f''
// h^2 / 2). Degree 7 stores the same as degree 5 and the values at HERMITE_POINTS behind the knot. Each of these is a
// row of num_columns numbers. The rows of knots k and k+1 are adjacent, so a bin reads degree + 1 consecutive rows.
struct RadialTable {
  // A run of equidistant knots. There are few pieces, in ascending order. They meet at the kinks and where the spacing
  // changes, and both pieces own a knot there (one-sided derivatives).
  struct Piece {
    double r_begin, r_end, spacing, bins_per_length;
    int first_knot, num_bins;
  };
  int degree = 3;
  int num_columns = 0;
  int num_knots = 0;
  std::vector<Piece> pieces;
  std::vector<double> rows;    // [num_knots][rows_per_knot()][num_columns]
  // Largest error between knots against the exact function, for the value and the derivative. It is relative to the
  // largest magnitude over all columns and all distances beyond 1 Angstrom (for errors below that: all distances).
  double value_error = 0.0;
  double derivative_error = 0.0;

  int rows_per_knot() const { return hermite_knot_rows(degree) + hermite_inner_rows(degree); }
  int num_bins() const { return num_knots - static_cast<int>(pieces.size()); }

  // The bin of a distance, counted over all pieces; the distance from its middle as a fraction of its width, -1/2 to
  // 1/2; and the derivative of this fraction by the distance.
  struct BinPosition {
    int piece, bin;
    double fraction, bins_per_length;
  };
  EQUI_FUNCTION static BinPosition bin_among(const Piece *pieces, int num_pieces, double r);
  BinPosition bin_of(double r) const { return bin_among(pieces.data(), static_cast<int>(pieces.size()), r); }

  // Row index (knot * rows_per_knot()) of the bin and the degree+1 coefficients of its rows for value and derivative.
  void coefficients(double r, int &row, double *value, double *derivative) const;

  // Runs f(0) .. f(n - 1) in any order, also in parallel, and throws the first exception in the order of their numbers.
  using Loop = std::function<void(int64_t n, const std::function<void(int64_t)> &f)>;
  static void one_by_one(int64_t n, const std::function<void(int64_t)> &f) {
    for (int64_t k = 0; k < n; ++k) f(k);
  }
  // Smallest table of `degree` with value and derivative errors at most `tolerance`. Throws std::runtime_error with the
  // error reached if 20000 knots, or fewer for tens of thousands of columns, do not suffice. The loop does not affect a
  // bit of the result.
  static RadialTable build(const RadialFunction &f, int degree, double tolerance, const Loop &loop = one_by_one);
};

// Also for kernels. It has no branches after the search for the piece, because the distances of an atom's edges are not
// sorted.
EQUI_FUNCTION RadialTable::BinPosition RadialTable::bin_among(const Piece *pieces, int num_pieces, double r) {
  int p = 0;
  for (int k = 1; k < num_pieces; ++k) p += r >= pieces[k].r_begin ? 1 : 0;
  const Piece &piece = pieces[p];
  const double x = (r - piece.r_begin) * piece.bins_per_length;
  // Compared before the conversion: a distance that is not a number gets a bin, and the fraction stays not a number.
  const int last = piece.num_bins - 1, bin = x >= last ? last : x > 0.0 ? static_cast<int>(x) : 0;
  // Each piece has one more knot than bins.
  return {p, piece.first_knot - p + bin, x - bin - 0.5, piece.bins_per_length};
}

}    // namespace equi

#endif
