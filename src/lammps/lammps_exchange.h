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
// (neighbor_graph.h): copies of one remote atom have one row, and images of an owned atom have the owner's. Of LAMMPS's
// messages only the numbers for the first copy of each remote atom travel, which ranks agree on when they have new
// ghosts. Both directions stay exact.
//
// Forward, a ghost that is sent on has a row that an earlier swap has filled, since the first copy comes before all
// others. Rows of owned atoms are never written.
//
// In reverse, LAMMPS runs the swaps backward, so that what later swaps return for a row is in its sum before the first
// copy is sent. It takes the sum with it and leaves zeros. The numbers that arrive for a ghost are added to its row. If
// the row is owned, they are at their destination; otherwise its first copy is of an earlier swap and is sent on after
// this one.

#ifndef EQUI_LAMMPS_EXCHANGE_H
#define EQUI_LAMMPS_EXCHANGE_H

#include "src/evaluation/ghost_exchange.h"

#include <mpi.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace LAMMPS_NS {
class Atom;
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

  // atom_row: row of every atom, ghosts included, -1 for none; must stay valid. active: whether any rank has remote
  // rows; the same on all ranks.
  virtual void set_rows(const std::vector<int> *atom_row, bool active);
  bool active() const override { return active_; }
  // For new ghosts of an active exchange, before it is used. Collective.
  virtual void set_ghosts(LAMMPS_NS::Comm *comm, const LAMMPS_NS::Atom &atom);

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

  // What this rank handed to LAMMPS since the last call of restart_counting().
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
  std::vector<Piece> pieces_;    // of the feature on its way
  bool is_float_ = false;
  int size_ = 0;    // doubles per atom
  bool active_ = false;

  // The atoms of which numbers travel, of each message that has atoms: by LAMMPS's list of those to send, and by the
  // first of its ghosts. No two of a message have the same row.
  std::unordered_map<const int *, std::vector<int>> sent_;
  std::unordered_map<int, std::vector<int>> received_;

  int packed(std::size_t n);    // counts a message with numbers of n atoms; their number
  virtual void communicate(bool forward);
  LAMMPS_NS::Pair *pair() const { return pair_; }
  LAMMPS_NS::Comm *comm() const { return comm_; }
  // While ranks agree, a message has one number for each ghost: whether it is the first copy of a remote atom.
  bool ranks_agree() const { return !is_first_copy_.empty(); }

 private:
  template <class T>
  void run(const FeaturePieces<T> &rows, bool forward);
  void send(int size, bool forward);

  LAMMPS_NS::Pair *pair_;
  MPI_Comm world_;
  LAMMPS_NS::Comm *comm_ = nullptr;
  Traffic traffic_;
  std::vector<char> is_first_copy_;    // of ghosts, and one that is none; empty unless ranks agree on messages
  int first_ghost_ = 0;
};

}    // namespace equi

#endif
