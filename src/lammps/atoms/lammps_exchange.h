// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Exchanges remote rows of features through LAMMPS's own communication (comm styles brick and tiled).
//
// LAMMPS fills ghosts in several swaps, and a later swap may send on ghosts of an earlier one. Rows are shared
// (neighbor_graph.h): copies of one remote atom have one row, and images of an owned atom have the owner's. LAMMPS's
// messages contain only the numbers for the first copy of each remote atom. The ranks agree on these copies when they
// have new ghosts. Both directions stay exact.
//
// Forward, an earlier swap has filled the row of a ghost that is sent on, because the first copy comes before all
// others. Rows of owned atoms are never written.
//
// In reverse, LAMMPS runs the swaps backward, so a row's sum includes what later swaps return before the first copy is
// sent. Sending moves the sum out of the row and leaves zeros. The numbers that arrive for a ghost are added to its
// row. If the row is owned, they have arrived. Otherwise the row's first copy belongs to an earlier swap and is sent on
// after this one.

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

// Which of LAMMPS's hooks are used, those of a device or the classic ones: LAMMPS decides, or the kind is fixed.
enum class ExchangeMode { automatic, device, host };

class LammpsExchange : public GhostExchange {
 public:
  // world: all ranks of the simulation.
  LammpsExchange(LAMMPS_NS::Pair *pair, MPI_Comm world) : pair_(pair), world_(world) {}

  // atom_row: row of every atom, ghosts included, -1 for none; must stay valid. active: whether any rank has remote
  // rows; the same on all ranks.
  virtual void set_rows(const std::vector<int> *atom_row, bool active);
  bool active() const override { return active_; }
  // For new ghosts of an active exchange, after set_rows() and before it is used. Collective.
  virtual void set_ghosts(LAMMPS_NS::Comm *comm, const LAMMPS_NS::Atom &atom);

  void forward(const FeaturePieces<float> &rows) override { run(rows, true); }
  void forward(const FeaturePieces<double> &rows) override { run(rows, true); }
  void reverse(const FeaturePieces<float> &rows) override { run(rows, false); }
  void reverse(const FeaturePieces<double> &rows) override { run(rows, false); }
  void sum(double *numbers, int count) override;
  std::size_t gather(const double *numbers, std::size_t count, std::vector<double> &all) override;

  // Called by the pair style's hooks. Buffers contain doubles; two floats are packed into a double.
  virtual int pack_forward(int n, const int *list, double *buffer);
  virtual void unpack_forward(int n, int first, const double *buffer);
  virtual int pack_reverse(int n, int first, double *buffer);
  virtual void unpack_reverse(int n, const int *list, const double *buffer);

  // Doubles per atom for a feature with this number of bytes per row.
  static int buffer_size(std::size_t bytes_per_row) {
    return static_cast<int>((bytes_per_row + sizeof(double) - 1) / sizeof(double));
  }

  // Amounts that this rank has passed to LAMMPS since the last call of restart_counting().
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
  std::vector<Piece> pieces_;    // the feature that is being sent
  bool is_float_ = false;
  int size_ = 0;    // doubles per atom
  bool active_ = false;

  // The atoms whose numbers are sent, for each message with atoms. The keys are LAMMPS's list of atoms to send, and the
  // first ghost of the message. No two atoms of a message have the same row.
  std::unordered_map<const int *, std::vector<int>> sent_;
  std::unordered_map<int, std::vector<int>> received_;

  int packed(std::size_t n);    // counts a message with numbers of n atoms and returns their number
  virtual void communicate(bool forward);
  // The rows of set_rows(), which may be copied to `space`.
  virtual const std::vector<int> &rows_on_host(int /*num_atoms*/, std::vector<int> & /*space*/) const {
    return *atom_row_;
  }
  LAMMPS_NS::Pair *pair() const { return pair_; }
  LAMMPS_NS::Comm *comm() const { return comm_; }
  // While ranks agree, a message has one number for each ghost: whether it is the first copy of a remote atom.
  bool ranks_agree() const { return !is_first_copy_.empty(); }

 private:
  template <class T>
  void run(const FeaturePieces<T> &rows, bool forward);
  void send(int size, bool forward);
  template <class Buffer, class F>
  void for_pieces(const std::vector<int> &atoms, Buffer *buffer, const F &f) const;

  LAMMPS_NS::Pair *pair_;
  MPI_Comm world_;
  LAMMPS_NS::Comm *comm_ = nullptr;
  Traffic traffic_;
  std::vector<char> is_first_copy_;    // flags of ghosts, and one more; empty unless ranks agree on messages
  int first_ghost_ = 0;
};

}    // namespace equi

#endif
