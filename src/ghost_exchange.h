// The one place where ranks appear in an evaluation: features of remote atoms.
#ifndef EQUI_GHOST_EXCHANGE_H
#define EQUI_GHOST_EXCHANGE_H

#include <cstddef>
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

  // Both are collective: every rank calls them in the same order, also one without atoms.
  // forward writes the rows of owned atoms into the remote rows that stand for them on other ranks.
  virtual void forward(const FeaturePieces<float> &rows) = 0;
  virtual void forward(const FeaturePieces<double> &rows) = 0;
  // reverse adds the remote rows into their owners' rows and zeroes the remote rows.
  virtual void reverse(const FeaturePieces<float> &rows) = 0;
  virtual void reverse(const FeaturePieces<double> &rows) = 0;
};

// For a single rank and for self-checks: there are no remote rows.
class NoExchange : public GhostExchange {
 public:
  void forward(const FeaturePieces<float> &) override {}
  void forward(const FeaturePieces<double> &) override {}
  void reverse(const FeaturePieces<float> &) override {}
  void reverse(const FeaturePieces<double> &) override {}
};

}    // namespace equi

#endif
