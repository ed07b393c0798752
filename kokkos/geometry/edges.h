// SPDX-License-Identifier: MIT
// The edges of an evaluation. Candidates within the skin are reduced to pairs within the cutoff, of which a model
// may see only the nearest. Edges have distances, directions and harmonics; derivatives with respect to these are
// summed to forces and virials.
#ifndef EQUI_EDGES_H
#define EQUI_EDGES_H

#include "kokkos/geometry/edge_functions.h"
#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/runtime/buffer.h"
#include "src/base/owned_memory.h"
#include "src/evaluation/evaluator.h"
#include "src/geometry/nearest_neighbors.h"
#include "src/geometry/neighbor_graph.h"

#include <memory>
#include <vector>

namespace equi {

// T: type of the harmonics that kernels read. The geometry and derivatives with respect to it have the type
// DoubleOf<T>. With duals, positions move along one direction or several; each direction has arrays of its own.
template <class T>
class Edges {
  using D = DoubleOf<T>;

 public:
  // pair_cutoff: empty, or a cutoff for each [receiver species, sender species].
  Edges(int lmax, double cutoff, const Matrix &pair_cutoff = {}, const NearestNeighbors &nearest = {},
        InstructionSet set = best_instruction_set())
      : kernels_(edge_kernels(set)),
        lmax_(lmax),
        num_y_((lmax + 1) * (lmax + 1)),
        cutoff_(cutoff),
        pair_cutoff_(pair_cutoff),
        nearest_(nearest) {}

  // Uses the edges of `other` in place of these from now on, if both have the same cutoffs and harmonics; returns
  // whether they have. The caller must then set each neighborhood of `other`, and build its edges, before these.
  bool borrow(const Edges &other);

  void set_neighborhood(const Neighborhood &n);

  // Finds the edges of all receivers at the positions of a request.
  void find(const EvaluationRequest &request);
  // After find(): computes the arrays below for the edges of receivers first .. last - 1, in all directions of the
  // request. Those of other receivers are lost. Call it once for all receivers, or for one part of them after
  // another, in order.
  void set(const EvaluationRequest &request, int first, int last);
  // Turns the derivatives in adjoint() into forces of edges, which it keeps, and adds those on the receivers.
  // Overwrites adjoint().
  void finish_receivers(const EvaluationRequest &request);
  // Adds the forces on senders, and the virials, after finish_receivers() of all receivers. Forces and virials are as
  // EvaluationRequest defines them.
  void finish(const EvaluationRequest &request, EvaluationResult &result);

  int64_t size() const { return data_->size; }    // edges of all receivers
  int64_t size(int first, int last) const { return data_->begin.data()[last] - data_->begin.data()[first]; }
  // Whether other edges are these, or these are others.
  bool is_shared() const { return data_.use_count() > 1; }
  int num_y() const { return num_y_; }
  // [N+1] edges of receiver i in the arrays below
  const int64_t *begin() const { return data_->is_divided ? data_->present_begin.data() : data_->begin.data(); }
  const int *sender_row() const { return data_->sender_row.data(); }
  const int *sender_species() const { return data_->sender_species.data(); }
  const D *distance(int direction = 0) const { return data_->distance.data() + direction * data_->num_present; }
  // [E][3] from the receiver to the sender
  const D *unit_vector(int direction = 0) const {
    return data_->unit_vector.data() + 3 * direction * data_->num_present;
  }
  // [E][num_y]
  const T *harmonics(int direction = 0) const {
    return data_->harmonics.data() + direction * num_y_ * data_->num_present;
  }
  // [E][num_y] dE/dY, slot 0 dE/dr. It is zero after set(), and the caller adds to it before finish_receivers().
  D *adjoint(int direction = 0) { return data_->adjoint.data() + direction * num_y_ * data_->num_present; }
  // Adds to the adjoints of the `count` edges that begin with number `first`.
  void add_to_adjoint(int64_t first, int64_t count, const T *of_edges, int direction = 0);

  // For duals: number of rigid edges of receiver i, whose ends move alike in all directions. They come before the
  // others.
  int64_t num_rigid(int i) const { return data_->num_rigid.data()[i]; }

  // The edge of a candidate of receiver i, among those of all receivers; -1 beyond the cutoff.
  int64_t edge_of_candidate(int i, int64_t c) const {
    const int number = data_->candidate_edge.data()[c];
    return number < 0 ? -1 : data_->begin.data()[i] + number;
  }

  // Transposed: the candidates that point at a row, in the order of receivers, and the edge of each (-1 beyond the
  // cutoff).
  const int64_t *transposed_begin() const { return data_->transposed_begin.data(); }    // [A+1]
  int64_t transposed_edge(int64_t k) const {
    const int receiver = data_->transposed_receiver[k];
    return edge_of_candidate(receiver, data_->neighborhood->first[receiver] + data_->transposed[k]);
  }
  int transposed_receiver(int64_t k) const { return data_->transposed_receiver[k]; }

  const Collision &collision() const { return data_->collision; }
  // Visits the arrays that depend only on the neighbor list and all others; none if borrowed.
  void for_memory(const MemoryVisitor &of_candidates, const MemoryVisitor &of_edges) const;
  // Bytes that an evaluation of num_edges edges will add, at most num_present of which are present at a time.
  std::size_t additional_bytes(int64_t num_edges, int64_t num_present) const;

 private:
  struct Data {
    const Neighborhood *neighborhood = nullptr;
    int64_t size = 0;
    int num_directions = 1;
    Collision collision;
    // The present edges are those of the receivers of set(): number first_present of all edges and those after it.
    int first_receiver = 0, last_receiver = 0;
    int64_t first_present = 0, num_present = 0;
    bool is_divided = false;             // whether they are not those of all receivers
    Buffer<int64_t> begin, num_rigid;    // of all receivers
    Buffer<int64_t> present_begin;       // [N+1] if divided: begin of the present receivers, less first_present
    Buffer<int> candidate_edge;          // [candidates] counted from the receiver's first edge; -1: none
    Buffer<int> sender_row, sender_species;
    Buffer<D> distance, unit_vector, adjoint;    // direction by direction
    Buffer<T> harmonics;                         // direction by direction
    Buffer<D> force;                             // [direction][size][3], if forces are separate
    Buffer<D> receiver_virial;                   // [direction][N][9]
    std::vector<int64_t> transposed_begin;
    std::vector<int> transposed_receiver, transposed;    // transposed: counted from the receiver's first candidate
    std::vector<int> row_atom;    // [A] an atom that represents the row, -1 if no edge can reach it
  };

  template <class Closest>
  void set_edges(const EvaluationRequest &request, int receiver, Closest &closest);
  template <class Closest>
  void set_duals(const EvaluationRequest &request, int receiver, Closest &closest);
  void set_forces(const EdgeArrays<T> &edges, int64_t begin, int64_t end) const;
  // Whether the forces of edges have an array of their own: else they replace numbers of the adjoints.
  bool has_separate_forces() const { return data_->is_divided || !EdgeArrays<T>::fits_force(lmax_); }
  template <class F, class G>
  void for_arrays(int64_t num_edges, int64_t num_present, const F &of_candidates, const G &f) const;
  EdgeArrays<T> arrays(int direction);
  void finish_direction(const EvaluationRequest &request, int direction, EvaluationResult &result);

  const EdgeKernels &kernels_;
  int lmax_, num_y_;
  double cutoff_;
  Matrix pair_cutoff_;
  NearestNeighbors nearest_;
  std::shared_ptr<Data> data_ = std::make_shared<Data>();
  bool is_borrowed_ = false;
};

}    // namespace equi

#endif
