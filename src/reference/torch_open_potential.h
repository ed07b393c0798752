// SPDX-License-Identifier: MIT
// Potentials of multipoles by LibTorch where wave vectors do not give all of them: open systems, slabs and fields.
// Autograd provides the derivatives.
#ifndef EQUI_TORCH_OPEN_POTENTIAL_H
#define EQUI_TORCH_OPEN_POTENTIAL_H

#include "src/layers/potential.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace equi {
namespace torch_layers {

// Charges [atoms, channels] and dipoles [atoms, channels, 3], 0 without any, of rows [atoms, dim], as float64.
inline at::Tensor charges_of(const Potential &layer, const at::Tensor &rows) {
  return rows.narrow(1, 0, layer.channels).to(at::kDouble);
}
inline at::Tensor dipoles_of(const Potential &layer, const at::Tensor &rows) {
  if (!layer.has_dipoles) return at::zeros({rows.size(0), layer.channels, 3}, at::kDouble);
  return rows.narrow(1, layer.channels, 3 * layer.channels).to(at::kDouble).reshape({rows.size(0), layer.channels, 3});
}
// The output [N, dim] of potentials [N, channels] and gradients [N, channels, 3], with factors, for each width.
inline at::Tensor output_of(const Potential &layer, const std::vector<at::Tensor> &potentials,
                            const std::vector<at::Tensor> &gradients) {
  std::vector<at::Tensor> parts = {at::stack(potentials, 2).flatten(1)};
  if (layer.has_gradients) parts.push_back(at::stack(gradients, 2).flatten(1));
  return at::cat(parts, 1);
}

// The output where potential [N, channels] and gradient [N, channels, 3] are those of all widths.
inline at::Tensor output_of_all_widths(const Potential &layer, const at::Tensor &potential,
                                       const at::Tensor &gradient) {
  std::vector<at::Tensor> potentials, gradients;
  for (std::size_t w = 0; w < layer.function.widths.size(); ++w) {
    potentials.push_back(layer.factors[0][w] * potential);
    gradients.push_back(layer.factors[1][w] * gradient);
  }
  return output_of(layer, potentials, gradients);
}

// vectors [N, M, 3] from M sources to N probes, of which `is_pair` [N, M, 1] count; rows: [M, dim] of the sources,
// own: [N, dim] of the probes.
inline at::Tensor felt_in_open_system(const Potential &layer, OpenSum sum, const at::Tensor &vectors,
                                      const at::Tensor &is_pair, const at::Tensor &rows, const at::Tensor &own) {
  const at::Tensor q = charges_of(layer, rows), p = dipoles_of(layer, rows);
  const double prefactor = layer.function.prefactor / (4.0 * M_PI), h = layer.open->offset;
  std::vector<at::Tensor> potentials, gradients;
  for (std::size_t w = 0; w < layer.function.widths.size(); ++w) {
    const double s = layer.function.width, other = layer.function.widths[w],
                 alpha = 0.5 / std::sqrt(0.5 * (s * s + other * other));
    at::Tensor potential, gradient;    // [N, channels], [N, channels, 3]
    if (sum == OpenSum::exact) {
      const at::Tensor square = vectors.square().sum(2), r = square.sqrt(), present = is_pair.squeeze(2),
                       gauss = 2.0 * alpha / std::sqrt(M_PI) * at::exp(-alpha * alpha * square);
      const at::Tensor b0 = at::erf(alpha * r) / r, b1 = (b0 - gauss) / square,
                       b2 = (3.0 * b1 - 2.0 * alpha * alpha * gauss) / square;
      const at::Tensor along = at::einsum("nmd,mcd->nmc", {vectors, p});
      const auto over_sources = [&](const at::Tensor &of_pairs) { return (present * of_pairs).unsqueeze(2); };
      potential = (over_sources(b0) * q + over_sources(b1) * along).sum(1);
      const at::Tensor slope = over_sources(b1) * q + over_sources(b2) * along;
      gradient = at::einsum("nm,mcd->ncd", {present * b1, p}) - at::einsum("nmc,nmd->ncd", {slope, vectors});
    } else {
      const at::Tensor places = h * at::cat({at::zeros({1, 3}, at::kDouble), at::eye(3, at::kDouble)}),
                       displaced = p / h;
      const at::Tensor charges = at::cat({(q - displaced.sum(2)).unsqueeze(2), displaced}, 2);    // [M, channels, 4]
      std::vector<at::Tensor> at_places;
      for (int64_t m = 0; m < 4; ++m) {
        at::Tensor felt = at::zeros({vectors.size(0), layer.channels}, at::kDouble);
        for (int64_t n = 0; n < 4; ++n) {
          const at::Tensor r = (vectors + places[m] - places[n]).norm(2, 2, true);
          felt = felt + (is_pair * at::erf(alpha * r) / (r + layer.open->softening) * charges.select(2, n)).sum(1);
        }
        at_places.push_back(felt);
      }
      potential = at_places[0];
      gradient = at::stack({at_places[1] - potential, at_places[2] - potential, at_places[3] - potential}, 2) / h;
    }
    potentials.push_back(layer.factors[0][w] * prefactor * potential +
                         layer.open->added[0][w] * charges_of(layer, own));
    gradients.push_back(layer.factors[1][w] * prefactor * gradient + layer.open->added[1][w] * dipoles_of(layer, own));
  }
  return output_of(layer, potentials, gradients);
}

// The potential of a field at places [N, 3] relative to its origin.
inline at::Tensor felt_in_field(const Potential &layer, const at::Tensor &places) {
  const at::Tensor slope = at::tensor({-layer.of_field->share * layer.field[0], -layer.of_field->share * layer.field[1],
                                       -layer.of_field->share * layer.field[2]},
                                      at::kDouble);
  const at::Tensor potential = at::matmul(places, slope).unsqueeze(1).expand({-1, layer.channels}),
                   gradient = slope.expand({places.size(0), layer.channels, 3});
  return output_of_all_widths(layer, potential, gradient);
}

// The potential of a slab's dipole. all: places [M, 3] of all atoms, relative to their mean, with their rows [M, dim];
// places: of the receivers; cell: [3, 3].
inline at::Tensor felt_of_slab(const Potential &layer, const at::Tensor &all, const at::Tensor &rows,
                               const at::Tensor &places, const at::Tensor &cell) {
  const at::Tensor normal = at::cross(cell[0], cell[1], 0), unit = normal / normal.norm();
  const at::Tensor dipole = at::matmul(at::matmul(all, unit), charges_of(layer, rows)) +
                            at::matmul(dipoles_of(layer, rows), unit).sum(0);    // [channels]
  const at::Tensor field = layer.function.prefactor / at::abs(at::linalg_det(cell)) * dipole;
  const at::Tensor potential = at::matmul(places, unit).unsqueeze(1) * field,
                   gradient = (field.unsqueeze(1) * unit).expand({places.size(0), layer.channels, 3});
  return output_of_all_widths(layer, potential, gradient);
}

}    // namespace torch_layers
}    // namespace equi

#endif
