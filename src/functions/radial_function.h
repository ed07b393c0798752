// SPDX-License-Identifier: MIT
// The radial functions of a trained convolution, exact and tabulated.
#ifndef EQUI_RADIAL_FUNCTION_H
#define EQUI_RADIAL_FUNCTION_H

#include "src/functions/network.h"
#include "src/numbers/hermite.h"
#include "src/numbers/host_device.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace equi {

// Functions b_n(x(r)) f(r) of the distance with f the cutoff function, perhaps different for each pair of species
// (doc/model_file.rst, "Radial basis"); length unit Angstrom.
struct RadialBasis {
  enum class Kind { bessel, gaussian, chebyshev, exp_normal };
  enum class Transform { none, agnesi, soft };
  enum class Cutoff { polynomial, xplor, cosine, none };    // none: 1 up to the cutoff

  Kind kind = Kind::bessel;
  std::vector<double> wave_numbers;    // bessel: prefactor sin(k_n x)/x, 1/Angstrom
  double prefactor = 1.0;              // bessel
  std::vector<double> centers;         // gaussian, of width `width`
  double width = 1.0;                  // gaussian
  int num_polynomials = 0;             // chebyshev
  std::vector<double> exponentials;    // exp_normal: all means m_n, then all factors b_n
  double decay = 1.0;                  // exp_normal: exp(-b_n (exp(-decay x) - m_n)^2), 1/Angstrom

  Transform transform = Transform::none;
  Matrix pair_r0;                                           // agnesi, soft: [receiver, sender]
  double r0 = 1.0;                                          // agnesi, soft: of one pair (for_pair)
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
  // Whether there is a basis for each pair of species; then only what for_pair() returns can be evaluated.
  bool depends_on_pair() const { return !pair_r0.data.empty() || !pair_cutoff.data.empty(); }
  RadialBasis for_pair(int receiver, int sender) const;
  // Distances in (0, cutoff) at which a derivative below the third jumps (r_on of xplor): tables need a knot there.
  std::vector<double> kinks() const;
  // out [order+1][size()]: value and derivatives d^k/dr^k, order <= 3, 0 <= r <= cutoff. At a kink `side` chooses
  // the branch: -1 from below, +1 from above.
  void derivatives(double r, int order, int side, double *out) const;
  // Functions first <= n < last.
  struct Range {
    int first, last;
    int size() const { return last - first; }
  };
  // All functions that are not zero to rounding, with their derivatives, at any of `count` distances, and those between
  // them. Gaussians are narrow in large bases.
  Range range_of_nonzero(int count, const double *r) const;
  // The functions of a range, out [order+1][range.size()].
  void derivatives(double r, int order, int side, Range range, double *out) const;
  // The cutoff function alone, out [order+1].
  void cutoff_function(double r, int order, int side, double *out) const;
};

// The radial weights of a convolution, or the density of a normalization: a network on the basis and on rows of the two
// species, times a factor of the pair, then perhaps tanh(w^2) or the activation of the network, times the cutoff
// function, times r^r_power per column.
struct RadialFunction {
  enum class Output { weights, tanh_square, activated };

  RadialBasis basis;
  Network network;
  Matrix sender, receiver;    // empty, or [species, n]: further inputs of the network
  // Or -1, or these inputs are the channels of a 0e block of the convolution's input at that atom. Then nothing below
  // can evaluate the function.
  int sender_block = -1, receiver_block = -1;
  // Empty, or [species, num_outputs()]: the factor of a pair is the sum of two rows.
  Matrix receiver_factor, sender_factor;
  Output output = Output::weights;
  bool times_cutoff = false;
  std::vector<int> r_power;    // [num_outputs], or empty for all zero

  int num_outputs() const { return network.num_outputs(); }
  bool has_pair_factor() const { return !receiver_factor.data.empty(); }
  bool depends_on_pair() const {
    return basis.depends_on_pair() || !sender.data.empty() || !receiver.data.empty() || has_pair_factor();
  }
  bool reads_receiver() const { return receiver_block >= 0; }
  bool reads_features() const { return sender_block >= 0 || reads_receiver(); }
  // The function of one pair of species, which depends only on the distance: rows of the species become a bias, and
  // factors part of the last matrix.
  RadialFunction for_pair(int receiver_species, int sender_species) const;
  // Of a function that does not depend on the pair.
  void derivatives(double r, int order, int side, double *out) const;    // out [order+1][num_outputs()]
  // The same at `count` distances, out [count][order+1][num_outputs()]; faster than one by one.
  void derivatives(int count, const double *r, int order, int side, double *out) const;
};

// Piecewise Hermite interpolation of a RadialFunction. Degree 3 stores (f, f' h) per knot, degree 5 (f, f' h, f'' h^2 /
// 2), degree 7 the same and the values at HERMITE_POINTS behind the knot, as rows of num_columns numbers; the rows of
// knot k and k+1 are adjacent, so that a bin reads degree + 1 consecutive rows.
struct RadialTable {
  // A run of equidistant knots; pieces (few, in ascending order) meet at the kinks and where the spacing changes, and
  // both pieces own a knot there (one-sided derivatives).
  struct Piece {
    double r_begin, r_end, spacing, bins_per_length;
    int first_knot, num_bins;
  };
  int degree = 3;
  int num_columns = 0;
  int num_knots = 0;
  std::vector<Piece> pieces;
  std::vector<double> rows;    // [num_knots][rows_per_knot()][num_columns]
  // Largest error found between knots against the exact function, of the value and of the derivative, relative to the
  // largest magnitude over all columns and all distances beyond 1 Angstrom (errors below that: all distances).
  double value_error = 0.0;
  double derivative_error = 0.0;

  int rows_per_knot() const { return hermite_knot_rows(degree) + hermite_inner_rows(degree); }
  int num_bins() const { return num_knots - static_cast<int>(pieces.size()); }

  // The bin of a distance, counted over all pieces, the distance from its middle as a fraction of its width, -1/2 to
  // 1/2, and what the fraction grows by with the distance.
  struct BinPosition {
    int piece, bin;
    double fraction, bins_per_length;
  };
  EQUI_FUNCTION static BinPosition bin_among(const Piece *pieces, int num_pieces, double r);
  BinPosition bin_of(double r) const { return bin_among(pieces.data(), static_cast<int>(pieces.size()), r); }

  // Row index (knot * rows_per_knot()) of the bin and the degree+1 coefficients of its rows for value and derivative.
  void coefficients(double r, int &row, double *value, double *derivative) const;

  // Has f(0) .. f(n - 1) done in any order, also side by side, and throws what the first of them has thrown.
  using Loop = std::function<void(int64_t n, const std::function<void(int64_t)> &f)>;
  static void one_by_one(int64_t n, const std::function<void(int64_t)> &f) {
    for (int64_t k = 0; k < n; ++k) f(k);
  }
  // Smallest table of `degree` with value and derivative errors at most tolerance; throws std::runtime_error with the
  // error reached if 20000 knots, or fewer for tens of thousands of columns, do not suffice. The loop does not change a
  // bit of it.
  static RadialTable build(const RadialFunction &f, int degree, double tolerance, const Loop &loop = one_by_one);
};

// For kernels, too. Without branches up to the piece: the distances of an atom's edges come in no order.
EQUI_FUNCTION RadialTable::BinPosition RadialTable::bin_among(const Piece *pieces, int num_pieces, double r) {
  int p = 0;
  for (int k = 1; k < num_pieces; ++k) p += r >= pieces[k].r_begin ? 1 : 0;
  const Piece &piece = pieces[p];
  const double x = (r - piece.r_begin) * piece.bins_per_length;
  // Compared before it is converted: what is not a number has a bin, within which it stays what it is.
  const int last = piece.num_bins - 1, bin = x >= last ? last : x > 0.0 ? static_cast<int>(x) : 0;
  // Each piece has a knot more than bins.
  return {p, piece.first_knot - p + bin, x - bin - 0.5, piece.bins_per_length};
}

}    // namespace equi

#endif
