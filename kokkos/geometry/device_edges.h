// SPDX-License-Identifier: MIT
// The edges of an evaluation on a device. They do what edges.h does on the host, with the same contracts.
#ifndef EQUI_DEVICE_EDGES_H
#define EQUI_DEVICE_EDGES_H

#include "kokkos/geometry/device_neighborhood.h"
#include "kokkos/geometry/edge_functions.h"
#include "kokkos/kernel_interface/harmonics_row.h"
#include "kokkos/runtime/device_exec.h"
#include "kokkos/runtime/device_sum.h"
#include "src/base/owned_memory.h"
#include "src/evaluation/evaluator.h"
#include "src/geometry/nearest_neighbors.h"

#include <vector>

namespace equi {

// Which edges of atoms. With duals, rigid edges, whose ends move alike in all directions, are separate from the
// others.
enum class EdgePart { all, rigid, moving };

// Some atoms with all their edges, as receivers or as senders. The arrays are in device memory.
struct DeviceBatchEdges {
  int num_atoms;
  const int64_t *begin;    // [num_atoms + 1] positions of the atoms' edges
  // The host knows that the positions are among the `count` ones that begin at `first`. If the edges are counted
  // (DeviceEdges), they are exactly these.
  int64_t first, count;
  const int64_t *edge;     // [position] the edge; null: the position itself
  const int *other_row;    // [position] row of the atom at the other end

  KOKKOS_FUNCTION bool contains(int64_t position) const { return begin[0] <= position && position < begin[num_atoms]; }
  KOKKOS_FUNCTION int64_t edge_at(int64_t position) const { return edge ? edge[position] : position; }
  // The atom that owns the edge, counted from the batch's first atom.
  KOKKOS_FUNCTION int atom_at(int64_t position) const {
    int low = 0, high = num_atoms;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (position < begin[middle])
        high = middle;
      else
        low = middle;
    }
    return low;
  }
};

// Some atoms as senders, from this cut to the next, and the position of the first.
struct DeviceSenders {
  int cut;
  int64_t first_position;
  int num_atoms;
};

// `count` directions [atoms][3], `distance` atoms apart, in device memory; null: nothing moves.
struct DeviceDirections {
  const double *v = nullptr;
  int count = 1;
  int64_t distance = 0;
  KOKKOS_FUNCTION const double *operator[](int d) const { return v ? v + 3 * d * distance : nullptr; }
};

// With duals, positions move along one direction or several; each direction has arrays of its own.
template <class T>
class DeviceEdges {
  using D = DoubleOf<T>;

 public:
  // pair_cutoff: empty, or a cutoff for each [receiver species, sender species].
  DeviceEdges(const DeviceExec &exec, int lmax, int num_species, double cutoff, const Matrix &pair_cutoff,
              const NearestNeighbors &nearest = {});

  // n must be transposed, stay valid and not change. cuts: ascending from 0; edges between two cuts are used
  // together. Cuts of receivers are rows, up to their number. Cuts of senders are positions of
  // DeviceNeighborhood::sender_first, up to all of them. is_counted: whether the host reads the number of edges of
  // an evaluation. If not, arrays and launches have space for all candidates.
  void set_neighborhood(const DeviceExec &exec, const DeviceNeighborhood &n, const std::vector<int> &receiver_cuts,
                        const std::vector<int64_t> &sender_cuts, bool is_counted);
  bool is_counted() const { return is_counted_; }

  // [N+1] in device memory, until build(): the number of candidates of earlier receivers within the cutoff at these
  // positions. It includes those that their receiver does not see. n need not be transposed.
  const int64_t *count_within_cutoff(const DeviceExec &exec, const DeviceNeighborList &n, const double *positions);

  // Computes all arrays for these positions [atoms][3], which move along the directions (null for none). Waits for
  // the edges to be counted, if they are. divides: whether rigid edges are separated from the others. of_moments:
  // there is one direction, and the arrays are for all those of EnergyMoments.
  void build(const DeviceExec &exec, const double *positions, const DeviceDirections &directions = {},
             bool divides = false, bool of_moments = false);

  // Sums the derivatives in adjoint() to forces and virials by rows. Overwrites adjoint().
  void finish(const DeviceExec &exec, bool with_virial, bool with_atom_virial);
  // Replaces finish() if the forces are not sums of derivatives: returns zeros, to which the caller adds.
  double *clear_forces(const DeviceExec &exec);
  // After finish() of both: adds the forces and virials from other edges of the same neighborhood.
  void add(const DeviceExec &exec, const DeviceEdges &other, bool with_virial, bool with_atom_virial);
  // After finish(), in device memory: forces and virials of rows, summed over their images, with the signs of
  // EvaluationRequest.
  double *row_forces() const { return row_forces_.data(); }        // [A][3]
  double *row_tangents() const { return row_tangents_.data(); }    // [directions][A][3] of the forces; with duals
  double *row_virial() const { return row_virial_.data(); }        // [A][9]
  // Also after finish(): terms that sum to the virial of this rank with all nine components, and to the sum of the
  // forces over all rows. With duals there is also the sum of their tangents along all directions. A sum is not
  // finite if any of its numbers is not.
  DeviceSum::Term virial_sum(double *virial) const;
  DeviceSum::Term virial_tangent_sum(double *tangents) const;    // with duals, along the first direction
  DeviceSum::Term force_sum(double *forces) const;
  DeviceSum::Term tangent_sum(double *tangents) const;
  // Distance of the closest pair and its candidate. If the position of a receiver is not finite, its number counted
  // after all candidates. In device memory.
  const Kokkos::ValLocScalar<double, int64_t> *closest() const { return closest_.data(); }
  // After build(), unless most is 0: the first receiver with more edges than `most`, and how many it has. If no
  // receiver has more, the number of the receiver is not a valid one. In device memory.
  void find_most_neighbors(const DeviceExec &exec, int most);
  const Kokkos::ValLocScalar<double, int64_t> *most_neighbors() const { return most_neighbors_.data(); }
  Collision collision(const DeviceExec &exec, int64_t candidate, double distance) const;

  // For an evaluation: the number of edges or, if they are not counted, the number for which arrays have space. The
  // second function: the largest such number between two cuts.
  int64_t capacity() const { return capacity_; }
  int64_t capacity_between_cuts() const;
  int num_y() const { return num_y_; }

  // The atoms from this cut to the next, with their edges; the first atom is an argument. other_row holds rows of
  // senders or, with by_species, their species.
  DeviceBatchEdges receivers(int cut, int first, int num_atoms, bool by_species, EdgePart part = EdgePart::all) const;
  DeviceBatchEdges senders(int cut, int64_t first_position, int num_atoms, EdgePart part = EdgePart::all) const;
  DeviceBatchEdges senders(const DeviceSenders &range, EdgePart part = EdgePart::all) const {
    return senders(range.cut, range.first_position, range.num_atoms, part);
  }

  // All are in device memory. Edges in the order of receivers:
  const int64_t *begin() const { return begin_.data(); }    // [N+1] edges of receiver i
  // Species of the receiver times the number of species, plus that of the sender.
  const int *pair() const { return pair_.data(); }
  const int *sender_row() const { return sender_row_.data(); }
  const int *sender_species() const { return sender_species_.data(); }
  const D *distance(int direction = 0) const { return distance_.data() + direction * capacity_; }
  // [E][3]
  const D *unit_vector(int direction = 0) const { return unit_vector_.data() + 3 * direction * capacity_; }
  // [E] rows (harmonics_row.h)
  const T *harmonics(int direction = 0) const {
    return harmonics_.data() + NUMBERS_BEFORE_HARMONICS + direction * capacity_ * harmonics_row(num_y_);
  }
  // [E][num_y] dE/dY, slot 0 dE/dr. It is 0 after build(), and the caller adds to it before finish().
  D *adjoint(int direction = 0) { return adjoint_.data() + direction * num_y_ * capacity_; }

  // Visits the arrays for candidates and all others.
  void for_memory(const MemoryVisitor &of_candidates, const MemoryVisitor &of_edges) const;
  // Bytes that an evaluation of num_edges edges and this many directions will add, in a neighborhood with slices of
  // this size.
  std::size_t additional_bytes(const DeviceNeighborhood &n, int slice_size, int64_t num_edges, int num_directions,
                               bool divides, bool with_atom_virial) const;

  // Parts of build(), public because nvcc requires it of functions with kernels.
  void count_edges(const DeviceExec &exec, const int64_t *begin, const int64_t *sender_begin, int64_t *counts);
  void divide(const DeviceExec &exec, const DeviceDirections &directions);

 private:
  struct Sizes {
    int64_t receivers = 0, rows = 0, candidates = 0, slices = 0, edges = 0, directions = 0;
    bool divides = false, with_atom_virial = false;
  };
  template <class F, class G>
  void for_arrays(const Sizes &sizes, const F &of_candidates, const G &f) const;
  EdgeArrays<T> arrays() const;
  const int64_t *counts(EdgePart part) const { return host_cuts_.data() + static_cast<int>(part) * num_cuts_; }

  int lmax_, num_y_, num_species_;
  NearestNeighbors nearest_;
  const DeviceNeighborhood *neighborhood_ = nullptr;
  bool is_counted_ = true;
  int64_t capacity_ = 0;
  int num_directions_ = 1;

  using Closest = Kokkos::MinLoc<double, int64_t, DeviceExec::memory_space>;
  typename Closest::result_view_type closest_;           // distance and candidate
  typename Closest::result_view_type most_neighbors_;    // receiver and number of edges
  DeviceBuffer<double> cutoff_;                          // per pair
  DeviceBuffer<double> seen_;    // [candidates], negative if the receiver does not see the candidate; or empty
  // Rows of the cuts, receivers' then senders', and the number of edges before them: of all, of rigid and of moving
  // edges.
  int num_receiver_cuts_ = 0, num_cuts_ = 0;
  DeviceBuffer<int64_t> cut_row_;
  DeviceBuffer<int64_t> cut_edge_;
  std::vector<int64_t> host_cuts_;
  // Data of an evaluation. Edges are in the order of receivers, [E], and also in the order of slices and senders:
  // sender_begin [slices*A+1], by slice and row; sender_edge [E], the edge; sender_receiver [E], its receiver,
  // counted within its slice.
  DeviceBuffer<double> row_forces_, row_tangents_, receiver_virial_, receiver_virial_tangent_, row_virial_;
  // edge_before: for candidates in the order of receivers, then in the other order.
  DeviceBuffer<int64_t> edge_before_, begin_, sender_begin_, sender_edge_;
  DeviceBuffer<int> sender_row_, sender_species_, sender_receiver_, pair_;
  DeviceBuffer<D> distance_, unit_vector_, adjoint_;    // direction by direction
  DeviceBuffer<T> harmonics_;                           // direction by direction
  // For each part, as for all edges.
  struct List {
    DeviceBuffer<int64_t> begin, edge, sender_begin, sender_edge;
    DeviceBuffer<int> sender_row, sender_species, sender_receiver;
  };
  List lists_[2];    // rigid, moving
  DeviceBuffer<int64_t> part_before_;
  DeviceBuffer<int> is_rigid_;    // [E]
  DeviceBuffer<D> force_;         // EdgeArrays::separate_force
};

}    // namespace equi

#endif
