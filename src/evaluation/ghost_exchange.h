// SPDX-License-Identifier: MIT
// The exchange of features of remote atoms: ranks appear in no other part of an evaluation.
#ifndef EQUI_GHOST_EXCHANGE_H
#define EQUI_GHOST_EXCHANGE_H

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace equi {

// A feature in pieces: row r of piece k is the `width` numbers at data + r*width. Rows as in neighbor_graph.h.
template <class T>
struct FeaturePiece {
  T *data;
  int width;
};
template <class T>
using FeaturePieces = std::vector<FeaturePiece<T>>;

class GhostExchange {
 public:
  virtual ~GhostExchange() = default;

  // Both functions are collective: every rank calls them in the same order, also a rank without atoms.
  // forward writes the rows of owned atoms into the remote rows that are their copies on other ranks.
  virtual void forward(const FeaturePieces<float> &rows) = 0;
  virtual void forward(const FeaturePieces<double> &rows) = 0;
  // reverse adds the remote rows into their owners' rows and zeroes the remote rows.
  virtual void reverse(const FeaturePieces<float> &rows) = 0;
  virtual void reverse(const FeaturePieces<double> &rows) = 0;
  // Replaces each number by its sum over all ranks, which has the same bits on each rank. Collective, too.
  virtual void sum(double *numbers, int count) = 0;
  // Writes the numbers of all ranks, one rank after the other, and returns the place of this rank's first one. Ranks
  // may have different counts. Collective, too.
  virtual std::size_t gather(const double *numbers, std::size_t count, std::vector<double> &all) = 0;

  // Whether any rank has remote rows; the same on all ranks.
  virtual bool active() const { return true; }
  // Whether the rows must be in device memory instead of host memory.
  virtual bool takes_device_rows() const { return false; }

  // An evaluation that queues work during an exchange passes a function that returns whether that work is still
  // running.
  void set_busy(std::function<bool()> busy) { busy_ = std::move(busy); }

 protected:
  bool is_beside_work() const { return busy_ && busy_(); }

 private:
  std::function<bool()> busy_;
};

// For a single rank and for self-checks: there are no remote rows.
class NoExchange : public GhostExchange {
 public:
  void forward(const FeaturePieces<float> &) override {}
  void forward(const FeaturePieces<double> &) override {}
  void reverse(const FeaturePieces<float> &) override {}
  void reverse(const FeaturePieces<double> &) override {}
  void sum(double *, int) override {}
  std::size_t gather(const double *numbers, std::size_t count, std::vector<double> &all) override {
    all.assign(numbers, numbers + count);
    return 0;
  }
  bool active() const override { return false; }
};

}    // namespace equi

#endif
