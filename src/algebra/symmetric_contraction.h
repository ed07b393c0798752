// SPDX-License-Identifier: MIT
// Polynomials of a feature, channel by channel, as one value. They are the product basis of MACE (Batatia et al.,
// NeurIPS 2022, equation 10) with couplings that are symmetrized over their inputs. The reference implementation is
// here. The generic and the generated kernels compute the same values, and tests compare all of them.
#ifndef EQUI_SYMMETRIC_CONTRACTION_H
#define EQUI_SYMMETRIC_CONTRACTION_H

#include "src/algebra/irreps.h"
#include "src/numbers/matrix.h"

#include <array>
#include <optional>
#include <vector>

namespace equi {

constexpr int MAX_CONTRACTION_DEGREE = 4;

// Adds coefficient * weight[path][u] * A[u][factor_1] ... A[u][factor_degree] to a component of the output block.
// Components of the input are those of one channel, block after block.
struct ContractionEntry {
  int component = 0;    // component of the output block, 0 .. 2l
  int path = 0;
  std::array<int, MAX_CONTRACTION_DEGREE> factor{};    // ascending; beyond the degree unused
  double coefficient = 0.0;
};

// All products of one degree for one output block.
struct ContractionTerm {
  int out = 0;    // output block
  int degree = 1;
  int num_paths = 0;
  std::vector<ContractionEntry> entries;
  std::vector<Matrix> weight;    // one, or one per species: [num_paths, mul]
};

// Throws std::invalid_argument unless there are blocks on both sides and all have the same number of channels. what:
// name of the product, for the message.
void require_equal_channels(const char *what, const Irreps &in, const Irreps &out);

// Two functions on the sphere, each given by its blocks, which have different orders. Both may have the same blocks.
struct SphereFunctions {
  std::vector<int> first, second;
};

struct ContractionProduct {
  Irreps irreps_in, irreps_out;    // all blocks have the same multiplicity
  bool per_species = false;
  std::vector<ContractionTerm> terms;
  // Set if the terms are those of the Gaunt product of two functions (gaunt_product.h). Kernels can also compute such a
  // product by quadrature.
  std::optional<SphereFunctions> functions;

  int mul() const { return irreps_in[0].mul; }
  int num_components() const { return irreps_in.dim() / mul(); }    // components of one channel of the input

  // Throws std::invalid_argument naming the term if blocks, indices, order of factors or shapes do not fit.
  void validate() const;

  // One atom, features in the order of irreps.h: adds to out [irreps_out.dim()]. x [irreps_in.dim()].
  void forward(int species, const double *x, double *out) const;
  // Adjoint: adds dL/dx for a cotangent out_adj.
  void backward(int species, const double *x, const double *out_adj, double *x_adj) const;
};

}    // namespace equi

#endif
