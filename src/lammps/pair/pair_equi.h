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

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace equi {
struct AtomicSystem;
struct EvaluationResult;
struct EvaluatorOptions;
struct Neighborhood;
class Evaluator;
class Work;
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
  // on this rank's atoms [nlocal] at fixed fractional coordinates, and of the virial of all ranks (xx,yy,zz,xy,xz,yz).
  // The virial itself is included. Collective; after init_hessian().
  struct StrainDerivatives {
    double virial[6], virial_tangent[6];
  };
  StrainDerivatives strain_derivatives(const double strain[3][3], double (*force_tangents)[3]);
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

  // The steps of compute(). evaluate() adds energy and virial to Pair's, and stores forces and, if the flags request
  // them, per-atom quantities in the arrays of impl. After the first evaluation follow the lines of the log and the
  // check of forces.
  void evaluate();
  void finish_first_evaluation();
  // For work of a setup, without communication: an error of any rank stops all.
  void collective_try(equi::Work);
  // For work of a step, which may communicate: an error of this rank ends all ranks, and the evaluation is not used
  // again.
  void run_on_this_rank(equi::Work);
  // Wraps a function that LAMMPS calls. It lets only LAMMPS's own exceptions out, because other ranks would wait for a
  // rank that leaves early.
  void report_exceptions(equi::Work);

  // Access to LAMMPS's atoms and neighbors. equi/kk has them in views that may be in another memory, and its
  // evaluations read and write them there.
  virtual bool sync_host_bonds() const;                // whether Neighbor has the present bonds in host memory
  virtual void read_neighbor_list();                   // fills the neighborhood and the rows of atoms of impl
  virtual void use_neighborhood(bool is_exchanged);    // passes it to the exchange and the evaluator
  virtual equi::EvaluationResult run_evaluator();      // stores the results where compute() reads them
  virtual double energy_of_rank();                     // eV, at positions that have changed
  virtual void multiply_hessian(int count, const double (*const *v)[3], double (*const *hv)[3], bool same_positions);
  // Receivers of the present neighborhood and their candidates by atom: returns that of impl, or fills and returns
  // `space`.
  virtual const equi::Neighborhood &neighborhood_on_host(equi::Neighborhood &space);
  bool wants_virial() const;           // in the next evaluation
  virtual bool is_for_gpus() const;    // which kernels the keyword `kernels` selects with auto
  virtual bool has_host_neighborhood() const { return true; }    // read_neighbor_list() fills that of impl
  virtual const double *positions();                             // [atoms][3], null without atoms
  virtual void sync_host_atoms() {}                              // call before anything but positions is read from atom
  virtual void sync_host_positions() {}                          // call before positions are read from atom->x
  virtual void modified_host_positions() {}                      // call after positions were changed there

 private:
  using EvaluatorMaker = std::unique_ptr<equi::Evaluator>(const equi::Model &, const equi::EvaluatorOptions &);
  void read_settings(int, char **);
  void read_coefficients(int, char **);
  void prepare();
  void log_exchange_and_memory();
  void allocate();
  void check_commands();
  void check_setup();
  EvaluatorMaker *evaluator_maker() const;
  std::unique_ptr<equi::Evaluator> evaluator_of_models(EvaluatorMaker *, equi::EvaluatorOptions) const;
  void log_model(const equi::Model &);
  equi::Model read_model(const std::string &file, const equi::AtomicSystem &system);
  void make_models_for_system();
  void make_evaluator();
  void make_directional();
  std::unique_ptr<equi::Evaluator> make_directional(equi::EvaluatorOptions, EvaluatorMaker *, const char *name);
  void reserve_buffers(const equi::Evaluator &);
  void make_moments();
  void spread_to_copies(const double (*v)[3], double (*copies)[3]);
  void evaluate_moments(const double (*v)[3], double *energies, double (*moments)[3]);
  void check_symbols();
  void check_timestep();
  void check_exclusions();
  void check_pairs_of_types();
  void warn_of_hidden_pairs(const std::string &command);
  tagint find_hidden_atom() const;
  void check_hidden_atom();
  void update_neighborhood();
  void check_listed_atoms();
  void check_ghost_types();
  void check_dropped_atoms();
  void check_special_neighbors();
  void check_bonds();
  std::map<std::string, int64_t> count_elements();
  void check_composition();
  void check_pressure() const;
  void send_ghosts_home();
  void share_buffer_sizes();
  void check_stored_structures(const equi::Model &);
  void check_kernels(const equi::Model &);
  void check_system();
  void check_forces();
  void check_start();
  double energy_by(equi::Evaluator &evaluator);
  double total_energy(bool is_plain);
  void update_deviations();
  void find_deviations();
  void set_directional_neighborhood();
  void sum_at_owners(const std::array<double, 3> *of_atoms, double factor, double (*of_owned)[3]);
};

}    // namespace LAMMPS_NS

#endif
#endif
