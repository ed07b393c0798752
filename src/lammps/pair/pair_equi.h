// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// pair_style equi evaluates a model file natively. The manual page is doc/pair_equi.rst.

#ifdef PAIR_CLASS
// clang-format off
PairStyle(equi,PairEqui);
// clang-format on
#else

#ifndef LMP_PAIR_EQUI_H
#define LMP_PAIR_EQUI_H

#include "pair.h"

#include <memory>

namespace equi {
class Evaluator;
class PairRunner;
class Work;
struct EvaluatorOptions;
struct StrainDerivatives;
}    // namespace equi

namespace LAMMPS_NS {

class PairEqui : public Pair {
 public:
  PairEqui(class LAMMPS *);
  ~PairEqui() override;
  void compute(int, int) override;
  void settings(int, char **) override;
  void coeff(int, char **) override;
  void init_style() override;
  double init_one(int, int) override;
  double memory_usage() override;

  // Second derivatives, for commands and computes. hessian_vectors() writes H v, in LAMMPS's units, for each of `count`
  // vectors v [nlocal][3]. H is the matrix of second derivatives of this style's energy by the positions. Collective.
  // Call init_hessian() before LAMMPS's init(), or from a compute's init(): LAMMPS then sizes its buffers.
  // kept_directions: if not 0, the evaluation uses memory so that later products, of this number of vectors at a time,
  // cost less. same_positions: nothing has moved since the last call.
  void init_hessian(int kept_directions = 0);
  // Call read_new_list() after a command has made a neighbor list for atoms that then stay in place: the style keeps
  // the data that it derives from the list. Collective.
  void read_new_list();
  void hessian_vectors(int count, const double (*const *v)[3], double (*const *hv)[3], bool same_positions = false);
  // For computes, which LAMMPS may call between runs. Stops with an error if these are not the atoms whose forces were
  // computed last, or if they have moved since. Collective; after init_hessian() or init_energy_moments(), or with a
  // committee.
  void check_same_atoms(bool at_same_positions);

  // Derivatives by a homogeneous strain, in LAMMPS's units of energy per unit of strain. They are those of the forces
  // on this rank's atoms [nlocal] at fixed fractional coordinates, and of the virial. Collective; after init_hessian().
  equi::StrainDerivatives strain_derivatives(const double strain[3][3], double (*force_tangents)[3]);
  // Whether a rotation of all atoms leaves the energy unchanged, except for rounding.
  bool is_invariant() const;

  // How much the models of a committee differ at the present positions, whose forces have been computed on this step.
  // The first result is the standard deviation of the force on each of this rank's atoms, sqrt(mean over models |F -
  // mean F|^2), [nlocal]. The second one is that of the energy of all atoms. Both are in LAMMPS's units. Collective.
  const double *force_deviation();
  double energy_deviation();
  void *extract(const char *, int &) override;
  void *extract_peratom(const char *, int &) override;

  // The energies of this rank's atoms, and the moments of their derivatives, sum over j of (r_i - r_j) (de_i/dr_j .
  // v_j). The velocities v [nlocal][3] are in LAMMPS's units (equi::EvaluationRequest::energy_moments). Writes energies
  // [nlocal] and moments [nlocal][3]. Collective. Call init_energy_moments() like init_hessian().
  void init_energy_moments();
  void energy_moments(const double (*v)[3], double *energies, double (*moments)[3]);

  int pack_forward_comm(int, int *, double *, int, int *) override;
  void unpack_forward_comm(int, int, double *) override;
  int pack_reverse_comm(int, int, double *) override;
  void unpack_reverse_comm(int, int *, double *) override;

 protected:
  struct Impl;    // pair_equi_impl.h
  std::unique_ptr<Impl> impl;

  virtual bool is_for_gpus() const;    // which kernels the keyword `kernels` selects with auto
  // `options` are those of the evaluator.
  virtual std::unique_ptr<equi::PairRunner> make_runner(std::unique_ptr<equi::Evaluator>,
                                                        const equi::EvaluatorOptions &options);
  // Wraps a function that LAMMPS calls. It lets only LAMMPS's own exceptions out, because other ranks would wait for a
  // rank that leaves early.
  void report_exceptions(equi::Work);

 private:
  void allocate();
  void check_commands();
  void prepare();
  void make_evaluator();
  void check_setup();
  void update_neighborhood();
  void evaluate();
  void finish_first_evaluation();
  void log_exchange_and_memory();
  void update_deviations();
};

}    // namespace LAMMPS_NS

#endif
#endif
