// SPDX-License-Identifier: MIT
// The interface between the pair style and an evaluation of the model: HostEvaluation, DeviceEvaluation, or the
// reference TorchModel.
#ifndef EQUI_EVALUATOR_H
#define EQUI_EVALUATOR_H

#include "src/base/owned_memory.h"
#include "src/evaluation/ghost_exchange.h"
#include "src/geometry/neighbor_graph.h"
#include "src/model/model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace equi {

// tf32: mixed, and GPUs round the operands of SO(2) convolutions' dense products to 11 bits.
enum class Precision { mixed, double_, tf32 };

// Which wave vectors an Ewald sum has. of_file: what the model file states; sphere: those within a cutoff in the
// present cell; frozen: the integers of the first cell; converged: so many that the energy is a smooth function of the
// cell.
enum class WaveVectorSet { of_file, sphere, frozen, converged };

struct EvaluatorOptions {
  Precision precision = Precision::mixed;
  bool radial_exact = false;
  double radial_tolerance = 0.0;    // 0: the default of the precision, 1e-6 (mixed) or 1e-10 (double)
  bool deterministic = false;       // results independent of the number of threads, at some cost
  // Also compute derivatives of the forces along a direction (EvaluationRequest::direction). Radial tables are then
  // twice continuously differentiable, with a default tolerance of 1e-8 (mixed) or 1e-10 (double).
  bool directional = false;
  // Used with `directional`. If it is not 0, the evaluation keeps the values that further directions at the same
  // positions can use (EvaluationRequest::same_positions). It computes at most this number of directions at a time,
  // which costs memory. It has no effect where that is not possible: see Evaluator::max_directions().
  int kept_directions = 0;
  // Used with `directional`. The evaluation computes EvaluationRequest::energy_moments and energies, and nothing that
  // needs a backward pass. Only CPUs support it.
  bool energy_moments = false;
  int batch = 0;          // receivers of a tile or, on a device, of a launch; 0: the evaluation chooses
  bool graphs = true;     // on a device: record the launches of small systems and replay them where possible
  bool overlap = true;    // on a device: exchange while work that needs no remote rows runs; same results
  WaveVectorSet wave_vectors = WaveVectorSet::of_file;
  OpenSum open = OpenSum::framework;    // of the potentials of multipoles in open systems
  // Whether consecutive linear maps are multiplied: linear_folds.h states where.
  bool folds = true;
  // Kernels on CPUs, one of host_instruction_sets(); empty: the best one. "generic" uses plain loops over tables
  // instead of generated kernels.
  std::string instruction_set = {};
  // Bytes that an evaluation may use (MemoryLimitError). Before it throws, it keeps fewer features and computes more,
  // and a device works on fewer atoms at a time. 0: no limit. TorchModel ignores the limit.
  double memory_limit = 0.0;
  bool lean = false;    // whether it keeps fewer features also without a limit; same results
  // On a device: bytes of fast memory for a block of threads that does all steps of a local network. 0: each step is a
  // launch of its own. Negative: the evaluation chooses what needs less memory traffic.
  int64_t block_bytes = -1;
};

// The options of an evaluation on CPUs that serves for comparison: float64, exact radial functions, plain loops, and
// each layer as the file has it.
inline EvaluatorOptions plain_options(double memory_limit = 0.0) {
  EvaluatorOptions options;
  options.precision = Precision::double_;
  options.radial_exact = true;
  options.folds = false;
  options.instruction_set = "generic";
  options.memory_limit = memory_limit;
  return options;
}

// The inputs and outputs of a step. Lengths are in Angstrom, energies in eV. Results are added to all outputs. A model
// with direct forces provides energies and forces on receivers, and no other output.
// Signs: with g = dE/d(r_j - r_i) of an edge, F_i += g, F_j -= g and virial_ab += -(r_j - r_i)_a g_b (LAMMPS's sign:
// pressure = virial / volume). Half of an edge's virial goes to each of its two atoms.
struct EvaluationRequest {
  const double (*positions)[3] = nullptr;    // [atoms]
  double (*forces)[3] = nullptr;             // [atoms]; ghosts included; null: not requested
  double *atom_energy = nullptr;             // [atoms] or null; only receivers are written
  double (*atom_virial)[9] = nullptr;        // [atoms] or null; order xx,yy,zz,xy,xz,yz,yx,zx,zy, first index position
  bool virial = false;                       // whether the global virial is requested

  // For an evaluator made with EvaluatorOptions::directional: the derivative of the forces along the direction v. It is
  // -H v, where H is the matrix of second derivatives of the energy. Ghosts move like the atoms whose copies they are.
  const double (*direction)[3] = nullptr;    // [atoms]; null: zero
  double (*force_tangents)[3] = nullptr;     // [atoms], eV/Angstrom per unit of the direction; ghosts included; or null
  // On all ranks, nothing has moved since the last call, which also computed force_tangents. With
  // EvaluatorOptions::kept_directions, and if neither forces nor virials are requested, only tangents are then
  // computed.
  bool same_positions = false;
  // The number of directions: up to Evaluator::max_directions() with same_positions, else 1. `direction` and
  // `force_tangents` have one array per direction, at this distance in atoms.
  int num_directions = 1;
  int64_t direction_distance = 0;
  // The derivatives of the vectors of PeriodicBox::cell along the (first) direction; null: the cell stays as it is.
  const double (*cell_direction)[3] = nullptr;    // [3]

  // For an evaluator made with EvaluatorOptions::energy_moments, which always needs this array. For each receiver i
  // with energy e_i it is the sum over all atoms j and their images of (r_i - r_j) (de_i/dr_j . v_j). Here v is the
  // direction, and the unit is eV Angstrom per unit of v. If v are velocities, the sum over i is the part of the heat
  // flux that is not convective.
  double (*energy_moments)[3] = nullptr;    // [atoms]; only receivers are written

  // The quantities of the model's layers `observable` (src/layers/observable.h), by receiver, in e, e Angstrom and the
  // polarizability's unit: [atoms][Model::num_observable_numbers()]. Evaluators on CPUs and the reference compute them,
  // not those for directions.
  double *observables = nullptr;
  // For a model made by Model::for_observable_derivatives(), on CPUs or by the reference, without directions: the
  // energy of a receiver is the sum of these weights times its observables. They have the same shape, and units that
  // give eV. Null: all weights are 0.
  const double *observable_weights = nullptr;

  // For a model in a field that acts on charges: what is to be added to the positions of atoms so that an atom does not
  // jump when it crosses a boundary, Angstrom. Only those of receivers are read; null: zero.
  const double (*image_shifts)[3] = nullptr;    // [atoms]

  // This request for only one of the directions.
  EvaluationRequest along(int d) const {
    EvaluationRequest one = *this;
    one.num_directions = 1;
    if (direction) one.direction += d * direction_distance;
    if (force_tangents) one.force_tangents += d * direction_distance;
    return one;
  }
};

struct EvaluationResult {
  double energy = 0.0;      // sum over this rank's receivers, eV
  double virial[6] = {};    // xx,yy,zz,xy,xz,yz; sum over this rank's edges, symmetrized, eV
  // The derivative of the virial along the (first) direction, if both are requested. A strain is the direction that
  // moves each atom, also each ghost, from r to (1 + strain) r.
  double virial_tangent[6] = {};
  double energy_tangent = 0.0;    // dE.v, the derivative of the energy along the (first) direction
  int64_t num_edges = 0;
};

// Thrown if two atoms are closer than MIN_DISTANCE, or if a position or a result is not finite. Has the indices of the
// atoms (-1: unknown).
class EvaluationError : public std::runtime_error {
 public:
  EvaluationError(const std::string &what, int atom_i, int atom_j, double distance)
      : std::runtime_error(what), atom_i(atom_i), atom_j(atom_j), distance(distance) {}
  int atom_i, atom_j;
  double distance;
};
constexpr double MIN_DISTANCE = 1e-3;    // Angstrom

// An error of the positions: the closest pair below MIN_DISTANCE, a pair whose distance is not a number, or a single
// atom whose position is not finite. atom_i = -1 if there is none.
struct Collision {
  int atom_i = -1, atom_j = -1;
  double distance = 0.0;
};
// The search for the closest pair uses this distance for the last two kinds, so they come before any other pair.
constexpr double BROKEN_DISTANCE = -1.0;

// Throws if there is a collision or the result is not finite. bad_atom: an atom whose energy, forces or virial are not
// finite, -1 if there is none.
inline void check_evaluation(const Collision &collision, const EvaluationResult &result, int bad_atom) {
  if (collision.atom_i >= 0 && !(collision.distance >= 0.0))
    throw EvaluationError("a position is not finite", collision.atom_i, collision.atom_j, NAN);
  if (collision.atom_i >= 0)
    throw EvaluationError("two atoms are on top of each other", collision.atom_i, collision.atom_j, collision.distance);
  double sum = result.energy + result.energy_tangent;
  for (double component : result.virial) sum += component;
  if (bad_atom >= 0 || !std::isfinite(sum))
    throw EvaluationError("an energy, a force or a virial is not finite", bad_atom, -1, 0.0);
}

// Throws if an atom has more neighbors than a model accepts. Its trainer left out the farthest neighbors.
inline void check_num_neighbors(int most, int64_t num_neighbors, int atom) {
  if (num_neighbors > most)
    throw EvaluationError("an atom has " + std::to_string(num_neighbors) +
                              " neighbors within the cutoff, and the model takes at most " + std::to_string(most) +
                              ": beyond them its trainer leaves out the farthest, so that energies and forces jump",
                          atom, -1, 0.0);
}
// The same for all receivers of a model with such a limit. num_neighbors(i) is that of receiver i, atom receiver[i].
template <class NumNeighbors>
void check_num_neighbors(int most, int num_receivers, const int *receiver, const NumNeighbors &num_neighbors) {
  for (int i = 0; most > 0 && i < num_receivers; ++i) check_num_neighbors(most, num_neighbors(i), receiver[i]);
}

// Throws if an energy over all pairs of atoms lacks some pairs, or includes pairs with periodic images.
inline void check_all_pairs(bool has_all, double cutoff) {
  if (has_all) return;
  char limit[32];
  std::snprintf(limit, sizeof limit, "%g", cutoff);
  throw EvaluationError(std::string("the model has an energy of all pairs of charges in a cluster: all atoms must be "
                                    "nearer than ") +
                            limit +
                            " Angstrom to each other, and periodic images farther; a file that was converted with "
                            "--coulomb-cutoff has a reaction field instead",
                        -1, -1, 0.0);
}

// Throws if a sum over periodic images lacks a cell (PeriodicBox::cell).
inline void check_cell(const PeriodicBox::Vectors &cell) {
  if (cell != PeriodicBox::Vectors{}) return;
  throw EvaluationError("the model has an Ewald sum, so the cell must be periodic in three directions", -1, -1, 0.0);
}

// The boundaries that sums over all atoms know. A slab is periodic in the first two directions.
enum class Boundary { periodic, slab, open };
// Throws for others.
inline Boundary boundary_of(const PeriodicBox &box) {
  const auto &periodic = box.periodic;
  if (box.cell() != PeriodicBox::Vectors{}) return Boundary::periodic;
  if (!periodic[0] && !periodic[1] && !periodic[2]) return Boundary::open;
  if (periodic[0] && periodic[1] && !periodic[2]) {
    if (box.vectors[2] != std::array<double, 3>{}) return Boundary::slab;
    throw EvaluationError("a slab needs a third vector of the cell, which states the height of the box", -1, -1, 0.0);
  }
  throw EvaluationError(
      "the potentials of the model's charges know systems that are periodic in three directions, in the first two, or "
      "in none",
      -1, -1, 0.0);
}

// For a model with direct forces. Throws if a quantity is requested that it does not provide.
inline void check_request_of_direct_forces(const EvaluationRequest &request) {
  if (request.virial || request.atom_virial || request.force_tangents || request.energy_moments)
    throw std::logic_error("direct forces have no virials and no derivatives");
}

// An evaluation of the present neighborhood needs more than EvaluatorOptions::memory_limit. It is thrown before the
// memory is allocated and before the first exchange.
class MemoryLimitError : public std::runtime_error {
 public:
  explicit MemoryLimitError(double bytes) : std::runtime_error("the limit of the memory is exceeded"), bytes(bytes) {}
  double bytes;    // needed
};
inline void check_memory(std::size_t bytes, const EvaluatorOptions &options) {
  const double needed = static_cast<double>(bytes);
  if (options.memory_limit > 0.0 && needed > options.memory_limit) throw MemoryLimitError(needed);
}

class Committee;

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // Lines for the log: precision, backend, threads, table knots and errors per layer.
  virtual std::string describe() const = 0;
  // Lines for the log about what the last evaluation found, or empty.
  virtual std::string describe_system() const { return ""; }
  // The neighborhood must stay valid and unchanged until the next call.
  virtual void set_neighborhood(const Neighborhood &n) = 0;
  // Collective through `exchange`. An EvaluationError found on one rank is thrown after the last exchange, so no rank
  // waits; all outputs of that rank are then undefined.
  virtual EvaluationResult evaluate(const EvaluationRequest &request, GhostExchange &exchange) = 0;
  // The number of directions that one call of evaluate() accepts if nothing has moved and values are kept. It is 1 if
  // no values are kept.
  virtual int max_directions() const { return 1; }
  // Returns whether this evaluator uses the edges of `other` from now on, which saves time and memory. Both must be of
  // the same kind and have the same cutoffs and harmonics. `other` must then receive each neighborhood and each request
  // first.
  virtual bool borrow_edges(const Evaluator & /*other*/) { return false; }
  // Bytes per row of the widest feature that goes through a GhostExchange, for sizing buffers.
  virtual std::size_t exchange_bytes_per_row() const = 0;
  // Calls f for the arrays of the evaluation for the present neighborhood.
  virtual void for_memory(const MemoryPartVisitor &) const {}
  // Their bytes, or an estimate for an evaluator whose arrays are not known.
  virtual std::size_t memory_bytes() const {
    std::size_t sum = 0;
    for_memory([&](const char *, const void *, std::size_t bytes) { sum += bytes; });
    return sum;
  }
  // The members, if this evaluator computes the mean of several models.
  virtual const Committee *committee() const { return nullptr; }
};

// What an evaluator uses memory for; empty if its arrays are not known.
struct MemoryPart {
  const char *name;
  std::size_t bytes;
};
inline std::vector<MemoryPart> memory_parts(const Evaluator &evaluator) {
  std::vector<MemoryPart> parts;
  evaluator.for_memory([&](const char *name, const void *, std::size_t bytes) {
    auto part =
        std::find_if(parts.begin(), parts.end(), [&](const MemoryPart &p) { return std::string_view(p.name) == name; });
    if (part == parts.end()) part = parts.insert(part, {name, 0});
    part->bytes += bytes;
  });
  return parts;
}

}    // namespace equi

#endif
