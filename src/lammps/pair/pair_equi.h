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
#include <string>

namespace equi {
class CommitteeDeviation;
class Evaluator;
class PairDerivatives;
class PairObservables;
class PairRunner;
class Work;
struct EvaluatorOptions;
struct Model;
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

  // Derivatives along directions, for commands and computes. Call an init function before LAMMPS's init(), or from a
  // compute's init(): LAMMPS then sizes its buffers. kept_directions: if not 0, the evaluation uses memory so that
  // later products, of this number of vectors at a time, cost less.
  void init_hessian(int kept_directions = 0);
  void init_energy_moments();
  // Those of the present atoms. Collective.
  equi::PairDerivatives &derivatives();
  // The quantities of the present atoms besides the energy. The init functions are for a compute's init(); the models
  // must have them, or charges or dipoles for Born charges. Collective.
  void init_observables();
  void init_born_charges();
  equi::PairObservables &observables();
  const equi::Model &model() const;    // the first one
  int num_models() const;              // 0 before pair_coeff
  double energy_unit() const;          // LAMMPS's units per eV
  // Call read_new_list() after a command has made a neighbor list for atoms that then stay in place: the style keeps
  // the data that it derives from the list. Collective.
  void read_new_list();
  // For computes, which LAMMPS may call between runs. Stops with an error if these are not the atoms whose forces were
  // computed last, or if they have moved since. Collective; after an init function, or with a committee.
  void check_same_atoms(bool at_same_positions);
  // The style of this LAMMPS; stops with an error unless it is the only pair style. user: whose work needs it.
  static PairEqui &only_style(LAMMPS *lmp, const std::string &user);
  // The first style of this LAMMPS whose models compute the first of these observables, else the next one; stops with
  // an error if there is none.
  static PairEqui &style_with_observable(LAMMPS *lmp, const std::vector<std::string> &observables,
                                         const std::string &user);
  // Whether a rotation of all atoms leaves the energy unchanged, except for rounding.
  bool is_invariant() const;

  // How much the models of a committee differ at the present positions, whose forces have been computed on this step.
  // Collective.
  const equi::CommitteeDeviation &deviation();
  void *extract(const char *, int &) override;
  void *extract_peratom(const char *, int &) override;

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
};

}    // namespace LAMMPS_NS

#endif
#endif
