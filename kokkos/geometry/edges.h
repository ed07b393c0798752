// SPDX-License-Identifier: MIT
// The edges of a step. Candidates within the skin are reduced to pairs within the cutoff, with distances, directions
// and harmonics; derivatives by these are summed to forces and virials.
#ifndef EQUI_EDGES_H
#define EQUI_EDGES_H

#include "kokkos/geometry/edge_functions.h"
#include "kokkos/runtime/buffer.h"
#include "src/evaluation/evaluator.h"
#include "src/geometry/neighbor_graph.h"

#include <vector>

namespace equi {

// T: type of the harmonics as the kernels read them. G: type of the geometry and of derivatives by it. With duals,
// positions move along a direction, or along several, each with arrays of its own. For
// EvaluationRequest::energy_moments the directions are EnergyMoments::DIRECTIONS: that of the request, and for its
// moments in x, y and z.
struct EnergyMoments {
  static constexpr int DIRECTIONS = 4;
};

template <class T, class G>
class Edges {
 public:
  // pair_cutoff: empty, or a cutoff for each [receiver species, sender species].
  Edges(int lmax, double cutoff, const Matrix &pair_cutoff = {})
      : lmax_(lmax), num_y_((lmax + 1) * (lmax + 1)), cutoff_(cutoff), pair_cutoff_(pair_cutoff) {}

  void set_neighborhood(const Neighborhood &n);

  // Fills all arrays for the positions and directions of a request.
  void build(const EvaluationRequest &request);

  // Adds up the derivatives in adjoint() to forces and virials, as EvaluationRequest says. adjoint() is overwritten.
  void finish(const EvaluationRequest &request, EvaluationResult &result);

  int64_t size() const { return size_; }
  int num_y() const { return num_y_; }
  const int64_t *begin() const { return begin_.data(); }    // [N+1] edges of receiver i
  const int *sender_row() const { return sender_row_.data(); }
  const int *sender_species() const { return sender_species_.data(); }
  const G *distance(int direction = 0) const { return distance_.data() + direction * size_; }
  // [E][3] from the receiver to the sender
  const G *unit_vector(int direction = 0) const { return unit_vector_.data() + 3 * direction * size_; }
  // [E][num_y]
  const T *harmonics(int direction = 0) const { return harmonics_.data() + direction * num_y_ * size_; }
  // [E][num_y] dE/dY, slot 0 dE/dr; zero after build(), the caller adds to it before finish().
  G *adjoint(int direction = 0) { return adjoint_.data() + direction * num_y_ * size_; }

  // Of duals: edges of receiver i that are rigid, that is, whose ends move alike in all directions. They come before
  // the others.
  int64_t num_rigid(int i) const { return num_rigid_.data()[i]; }

  int64_t edge_of_candidate(int64_t c) const { return candidate_edge_.data()[c]; }    // -1 beyond the cutoff

  // Transposed: the candidates that point at a row, in the order of receivers, and the edge of each (-1 beyond the
  // cutoff).
  const int64_t *transposed_begin() const { return transposed_begin_.data(); }    // [A+1]
  int64_t transposed_edge(int64_t k) const { return candidate_edge_.data()[transposed_[k]]; }
  int transposed_receiver(int64_t k) const { return transposed_receiver_[k]; }

  const Collision &collision() const { return collision_; }
  std::size_t bytes() const;
  // Bytes that a step of num_edges edges will add.
  std::size_t growth(int64_t num_edges) const;

 private:
  EdgeArrays<T, G> arrays(int direction);
  void finish_direction(const EvaluationRequest &request, int direction, EvaluationResult &result);

  int lmax_, num_y_;
  double cutoff_;
  Matrix pair_cutoff_;
  const Neighborhood *neighborhood_ = nullptr;
  int64_t size_ = 0;
  int num_directions_ = 1;
  Collision collision_;
  Buffer<int64_t> begin_, candidate_edge_, num_rigid_;
  Buffer<int> sender_row_, sender_species_;
  Buffer<G> distance_, unit_vector_, adjoint_;    // by direction
  Buffer<T> harmonics_;                           // likewise
  Buffer<G> force_;
  Buffer<double> receiver_virial_;
  std::vector<int64_t> transposed_begin_, transposed_;
  std::vector<int> transposed_receiver_;
  std::vector<int> row_atom_;    // [A] an atom that represents the row, -1 if no edge can reach it
};

}    // namespace equi

#endif
