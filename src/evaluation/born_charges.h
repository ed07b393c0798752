// SPDX-License-Identifier: MIT
// Born effective charges of atoms whose charges and dipoles a model computes.
//
// Let q_j and mu_j be the charge and the dipole of atom j, and P = sum over j of (q_j r_j + mu_j). The Born charge of
// atom i is the derivative of P with all positions relative to atom i:
//   Z_i,ab = q_i delta_ab + sum over j of (r_j - r_i)_a dq_j/dr_ib + sum over j of dmu_ja/dr_ib.
// The sums run over all atoms and images whose charges feel atom i. They are finite, and need no polarization of the
// periodic system. In a cluster Z_i = dP/dr_i - r_i dQ/dr_i, where Q is the total charge.
//
// The sums are forces of energies that are linear in the charges: one with weights 1, and three with weights r_ja and
// the component a of the dipole. A weight r_j is no function on a periodic system, so the evaluation gets a row for
// each image of an atom. Where adjoints of an image return to the row of its atom, those of weight r_j change by the
// lattice vector between both times those of weight 1. The exchange does this, so any evaluator can compute the forces.
#ifndef EQUI_BORN_CHARGES_H
#define EQUI_BORN_CHARGES_H

#include "src/evaluation/evaluator.h"

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace equi {

struct BornCharges {
  std::vector<double> charge;                              // [receivers] e; 0 if the model has only dipoles
  std::vector<std::array<double, 9>> born;                 // [receivers] e; Z_ab is number 3 a + b
  std::vector<std::array<double, 3>> charge_derivative;    // [receivers] dQ/dr_i, e/Angstrom
};

class BornEvaluation {
 public:
  // evaluator: one of `model` in float64, on CPUs or the reference. model: that of Model::for_observable_derivatives().
  BornEvaluation(std::unique_ptr<Evaluator> evaluator, const Model &model);

  // The neighborhood must stay valid and unchanged until the next call.
  void set_neighborhood(const Neighborhood &n);
  // positions: [atoms], Angstrom. periodic: of the three cell vectors.
  // neutral: each charge is reduced by Q/N, with N atoms. In a cluster the Born charges are those of the reduced
  // charges. In a periodic system the part that is removed is homogeneous and has no dipole, and the Born charges are
  // then reduced by their mean. Both sum to 0.
  // Charges that layers balance over all atoms are treated alike: exactly in a cluster. In a periodic system only the
  // charges before the balance have derivatives, and the mean of the Born charges becomes Q/N.
  // Throws std::invalid_argument for both kinds in a system with one or two periodic vectors. Collective.
  BornCharges evaluate(const double (*positions)[3], const std::array<bool, 3> &periodic, bool neutral,
                       GhostExchange &exchange);

  std::size_t exchange_bytes_per_row() const;    // as that of Evaluator
  std::size_t memory_bytes() const;
  const Evaluator &evaluator() const { return *evaluator_; }

 private:
  class ImageExchange;
  using Forces = std::vector<std::array<double, 3>>;    // [atoms]

  // The mean position of all receivers, and their number.
  struct Center {
    std::array<double, 3> position;
    double count;
  };
  Center center(const double (*positions)[3], GhostExchange &exchange) const;
  // The forces of weights 1 (axis -1), or of the weights of an axis.
  Forces forces(int axis, const double (*positions)[3], const Center &center, ImageExchange &exchange);
  // The vectors from the atoms to their images, [images].
  std::vector<std::array<double, 3>> image_vectors(const double (*positions)[3], GhostExchange &exchange) const;
  BornCharges sum_at_owners(const Forces &of_charge, const std::array<Forces, 3> &of_axes, const double (*positions)[3],
                            const Center &center, GhostExchange &exchange) const;

  std::unique_ptr<Evaluator> evaluator_;
  bool has_potentials_;                  // whether charges depend on each other at any distance
  int num_numbers_, charge_, dipole_;    // of an atom's observables, and the offsets of these two; -1: there are none
  const Neighborhood *folded_ = nullptr;
  Neighborhood unfolded_;         // with a row for each image
  std::vector<int> image_row_;    // the rows of the images' atoms in folded_
};

}    // namespace equi

#endif
