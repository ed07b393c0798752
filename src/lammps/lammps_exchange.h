// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Exchanges remote rows of features through LAMMPS's own communication (comm styles brick and tiled).
//
// LAMMPS fills ghosts in several swaps; ghosts of an earlier swap are sent on in a later one. Rows are shared
// (neighbor_graph.h): copies of one remote atom have one row, and images of an owned atom have the owner's. Both
// directions stay exact.
//
// Forward, a ghost that is sent on has been received before, so its row is filled by then; receiving a further copy
// writes the same numbers again. Rows of owned atoms are never written.
//
// In reverse, LAMMPS runs the swaps backward. The first copy of a remote row that is sent takes the row's sum with it
// and leaves zeros, so later copies send zeros. The numbers that arrive for a ghost are added to its row. If the row is
// owned, they are at their destination; otherwise that ghost belongs to an earlier swap and is sent on after this one.
//
// In a direction in which a rank is its own neighbor, a swap passes the rank's messages to itself: between rows that
// are the same. The first exchange of a neighbor list finds these messages, and later ones leave them empty.

#ifndef EQUI_LAMMPS_EXCHANGE_H
#define EQUI_LAMMPS_EXCHANGE_H

#include "src/evaluation/ghost_exchange.h"

#include <mpi.h>

#include <string>
#include <vector>

namespace LAMMPS_NS {
class Comm;
class Pair;
}    // namespace LAMMPS_NS

namespace equi {

// Which of LAMMPS's hooks are used, those of a device or the classic ones: LAMMPS decides, or it is always one kind.
enum class ExchangeMode { automatic, device, host };

class LammpsExchange : public GhostExchange {
 public:
  // world: of all ranks of the simulation.
  LammpsExchange(LAMMPS_NS::Pair *pair, MPI_Comm world) : pair_(pair), world_(world) {}

  // atom_row: row of every atom, ghosts included, -1 for none; must stay valid. num_owned: rows below it are owned.
  // active: whether any rank has remote rows; the same on all ranks.
  virtual void set_rows(LAMMPS_NS::Comm *comm, const std::vector<int> *atom_row, int num_owned, bool active);
  bool active() const override { return active_; }

  void forward(const FeaturePieces<float> &rows) override { run(rows, true); }
  void forward(const FeaturePieces<double> &rows) override { run(rows, true); }
  void reverse(const FeaturePieces<float> &rows) override { run(rows, false); }
  void reverse(const FeaturePieces<double> &rows) override { run(rows, false); }
  void sum(double *numbers, int count) override;

  // Called back by the pair style's hooks. Buffers are of doubles; floats travel two to a double.
  virtual int pack_forward(int n, const int *list, double *buffer);
  virtual void unpack_forward(int n, int first, const double *buffer);
  virtual int pack_reverse(int n, int first, double *buffer);
  virtual void unpack_reverse(int n, const int *list, const double *buffer);

  // Doubles per atom for a feature of that many bytes per row.
  static int buffer_size(std::size_t bytes_per_row) {
    return static_cast<int>((bytes_per_row + sizeof(double) - 1) / sizeof(double));
  }

  // What this rank handed to LAMMPS since the last call of restart_counting(). Messages of a rank to itself are counted
  // too.
  struct Traffic {
    double bytes = 0.0, bytes_beside_work = 0.0;
    int messages = 0;
  };
  const Traffic &traffic() const { return traffic_; }
  void restart_counting() { traffic_ = {}; }
  virtual std::string describe() const { return "host"; }    // hooks that were used last

 protected:
  struct Piece {
    char *data;
    int bytes;    // per row
  };
  const std::vector<int> *atom_row_ = nullptr;
  int num_owned_ = 0;
  std::vector<Piece> pieces_;    // of the feature on its way
  bool is_float_ = false;
  int size_ = 0;    // doubles per atom

  int packed(int n);    // counts a message of n atoms; its number of doubles
  void set_communication(LAMMPS_NS::Comm *comm, int num_owned, bool active);
  virtual void communicate(bool forward);
  LAMMPS_NS::Pair *pair() const { return pair_; }
  LAMMPS_NS::Comm *comm() const { return comm_; }

 private:
  template <class T>
  void run(const FeaturePieces<T> &rows, bool forward);

  LAMMPS_NS::Pair *pair_;
  MPI_Comm world_;
  LAMMPS_NS::Comm *comm_ = nullptr;
  bool active_ = false;
  Traffic traffic_;

  // The message that was packed last, and those to the rank itself: what LAMMPS hands back in the memory in which it
  // was packed. `list` has the atoms that are sent, whose ghosts begin at `first`.
  struct Message {
    const int *list;
    int first;
  };
  const double *packed_buffer_ = nullptr;
  const int *packed_list_ = nullptr;
  std::vector<Message> to_itself_;
  bool is_to_itself(const int *list) const;
  bool is_to_itself(int first) const;
};

}    // namespace equi

#endif
