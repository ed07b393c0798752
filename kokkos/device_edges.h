// The edges of a step on a device: what edges.h does on the host, with the same contracts.
#ifndef EQUI_DEVICE_EDGES_H
#define EQUI_DEVICE_EDGES_H

#include "device_exec.h"
#include "evaluator.h"
#include "neighbor_graph.h"

#include <vector>

namespace equi {

// Some atoms with all their edges, as receivers or as senders. Arrays in device memory.
struct DeviceEdgeChunk {
  int num_atoms;
  const int64_t *begin;    // [num_atoms + 1] positions of the atoms' edges
  int64_t first, count;    // begin[0] and begin[num_atoms] - begin[0]
  const int64_t *edge;     // [position] the edge; null: the position itself
  const int *other_row;    // [position] row of the atom at the other end
};

template <class Exec, class T, class G>
class DeviceEdges {
 public:
  // pair_cutoff: empty, or a cutoff for each [receiver species, sender species].
  DeviceEdges(const Exec &exec, int lmax, int num_species, double cutoff, const Matrix &pair_cutoff);

  void set_neighborhood(const Exec &exec, const Neighborhood &n);

  // Fills all arrays for the positions at hand (host memory).
  void build(const Exec &exec, const double (*positions)[3]);

  // Adds up the derivatives in adjoint() to forces and virials, as EvaluationRequest says.
  void finish(const Exec &exec, const EvaluationRequest &request, EvaluationResult &result);

  int64_t size() const { return size_; }
  int num_y() const { return num_y_; }

  // All in device memory but the vectors. Edges in the order of receivers:
  const int64_t *begin() const { return begin_.data(); }                    // [N+1] edges of receiver i
  const std::vector<int64_t> &host_begin() const { return host_begin_; }    // the same in host memory
  const int *sender_row() const { return sender_row_.data(); }
  const int *sender_species() const { return sender_species_.data(); }
  // Species of the receiver times the number of species, plus that of the sender.
  const int *pair() const { return pair_.data(); }
  const G *distance() const { return distance_.data(); }
  const T *harmonics() const { return harmonics_.data(); }    // [E][num_y]
  // [E][num_y] dE/dY, slot 0 dE/dr; written by the caller between build() and finish().
  G *adjoint() { return adjoint_.data(); }
  // The same edges in the order of senders:
  const int64_t *sender_begin() const { return sender_begin_.data(); }    // [A+1] edges that point at a row
  const std::vector<int64_t> &host_sender_begin() const { return host_sender_begin_; }
  const int64_t *sender_edge() const { return sender_edge_.data(); }        // [E] which edge
  const int *sender_receiver() const { return sender_receiver_.data(); }    // [E] its receiver

  const Collision &collision() const { return collision_; }
  std::size_t bytes() const;
  // Bytes that a step of num_edges edges will add.
  std::size_t growth(int64_t num_edges) const;

 private:
  int lmax_, num_y_, num_species_;
  const Neighborhood *neighborhood_ = nullptr;
  int64_t size_ = 0;
  Collision collision_;

  // Of the neighbourhood: candidates in the order of receivers, then of senders.
  DeviceBuffer<Exec, int64_t> first_, transposed_begin_, transposed_;
  DeviceBuffer<Exec, int> receiver_, row_species_, candidate_receiver_, sender_atom_, candidate_row_, row_atom_;
  DeviceBuffer<Exec, double> square_cutoff_;    // per pair
  // Of a step.
  DeviceBuffer<Exec, double> positions_, forces_, receiver_virial_, atom_virial_;
  DeviceBuffer<Exec, int64_t> edge_before_, transposed_before_, begin_, sender_begin_, sender_edge_;
  DeviceBuffer<Exec, int> sender_row_, sender_species_, sender_receiver_, pair_;
  DeviceBuffer<Exec, G> distance_, direction_, adjoint_, force_;
  DeviceBuffer<Exec, T> harmonics_;
  std::vector<int64_t> host_begin_, host_sender_begin_;
  std::vector<double> host_forces_, host_virial_;
};

}    // namespace equi

#endif
