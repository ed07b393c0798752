// SPDX-License-Identifier: MIT
// A layer that all atoms of all ranks take part in, on either back end. It changes a feature, or its adjoint, in place
// between two stages.
#ifndef EQUI_CHANNEL_BALANCE_LAYER_H
#define EQUI_CHANNEL_BALANCE_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "src/evaluation/ghost_exchange.h"
#include "src/numbers/dual.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace equi {

// What a balance does with one number of one row. With w_i the weight of an atom, f_i^2 or 1, and W = sum of w_j +
// epsilon:
//   forward   y_i = x_i + w_i a,  a = (target - sum x_j) / W
//   backward  x_adj_i = y_adj_i - m,  m = (sum w_j y_adj_j) / W,  and f_adj_i += 2 f_i a x_adj_i
template <class T>
struct BalancedRows {
  using R = Real<T>;
  using D = DoubleOf<T>;
  int channels, num_terms;    // of the balance; sums of a row, forward or backward
  bool is_adjoint;
  int64_t width, share_width;                     // numbers of a row
  Pointer<T> x, share, adjoint, share_adjoint;    // share: f; null where all weights are 1. Adjoints only backward

  EQUI_FUNCTION D weight(int64_t row, int k) const {
    const D f = share ? static_cast<D>(share[row * share_width + k]) : D(1);
    return f * f;
  }
  // Term n of what a row adds to the sums: those of x or of w y_adj, then forward those of w.
  EQUI_FUNCTION D term(int64_t row, int n) const {
    if (n >= channels) return weight(row, n - channels);
    if (!is_adjoint) return static_cast<D>(x[row * width + n]);
    return weight(row, n) * static_cast<D>(adjoint[row * width + n]);
  }
  // Changes channel k of a row by a and m of this channel.
  EQUI_FUNCTION void change(int64_t row, int k, D a, D m) const {
    const int64_t at = row * width + k, share_at = row * share_width + k;
    if (!is_adjoint) {
      put(x, at, static_cast<T>(static_cast<D>(x[at]) + weight(row, k) * a));
      return;
    }
    const D of_x = static_cast<D>(adjoint[at]) - m;
    put(adjoint, at, static_cast<T>(of_x));
    if (!share) return;
    const D f = static_cast<D>(share[share_at]);
    put(share_adjoint, share_at, static_cast<T>(static_cast<D>(share_adjoint[share_at]) + D(2) * f * a * of_x));
  }
};

// Where the numbers of a balance lie in rows: the channels of one group of scalars, in its first planes.
template <class T>
class BalancedNumbers {
  using R = Real<T>;

 public:
  BalancedNumbers(const ChannelBalance &layer, const FeatureLayout &layout)
      : channels_(static_cast<int>(layer.target.size())), balanced_(layout, layer.block, layer.first) {
    if (layer.has_shares()) shares_.emplace_back(layout, layer.share_block, layer.share_first);
  }
  int channels() const { return channels_; }
  bool has_shares() const { return !shares_.empty(); }
  int num_terms(bool is_adjoint) const { return has_shares() && !is_adjoint ? 2 * channels_ : channels_; }
  BalancedRows<T> rows(FeatureRows<R> x, FeatureRows<R> adjoint, bool is_adjoint) const {
    BalancedRows<T> rows{
        channels_, num_terms(is_adjoint), is_adjoint, balanced_.group.width(), 0, balanced_.pointer(x), {}, {}, {}};
    if (is_adjoint) rows.adjoint = balanced_.pointer(adjoint);
    if (!has_shares()) return rows;
    rows.share_width = shares_[0].group.width();
    rows.share = shares_[0].pointer(x);
    if (is_adjoint) rows.share_adjoint = shares_[0].pointer(adjoint);
    return rows;
  }

 private:
  struct Run {
    FeatureGroup group;
    int first;
    Run(const FeatureLayout &layout, int block, int channel)
        : group(layout.group(layout.block(block).group)), first(layout.block(block).channel + channel) {}
    Pointer<T> pointer(FeatureRows<R> rows) const { return make_pointer<T>(rows.group(group) + first, group.channels); }
  };
  int channels_;
  Run balanced_;
  std::vector<Run> shares_;    // one, or none
};

template <class Batch>
class BalanceLayer : public BatchLayer<Batch> {
 public:
  using R = typename Batch::R;
  void forward(Batch &) override {}    // no batch has all atoms
  // x, adjoint: rows of all `count` receivers of this rank; where the adjoint takes the place of the values, both are
  // the same. Collective.
  virtual void balance(const typename Batch::Work &work, FeatureRows<R> x, FeatureRows<R> adjoint, int count,
                       bool is_adjoint, GhostExchange &exchange) = 0;
};

// Rows has add_up(work, count, rows, sums), for all terms of rows, and change(work, count, rows, a, m), with numbers in
// host memory.
template <class Batch, class T, class Rows>
class ChannelBalanceLayer : public BalanceLayer<Batch> {
 public:
  using R = typename Batch::R;
  using D = DoubleOf<T>;
  ChannelBalanceLayer(const ChannelBalance &layer, const FeatureLayout &layout)
      : target_(layer.target),
        epsilon_(layer.epsilon),
        numbers_(layer, layout),
        a_(target_.size()),
        m_(target_.size()) {}

  void balance(const typename Batch::Work &work, FeatureRows<R> x, FeatureRows<R> adjoint, int count, bool is_adjoint,
               GhostExchange &exchange) override {
    const BalancedRows<T> rows = numbers_.rows(x, adjoint, is_adjoint);
    sums_.assign(rows.num_terms + 1, D(0));
    if (count > 0) rows_.add_up(work, count, rows, sums_.data());
    sums_.back() = D(count);
    exchange.sum(reinterpret_cast<double *>(sums_.data()), static_cast<int>(sums_.size()) * PLANES<D>);
    const int channels = numbers_.channels();
    if (!is_adjoint) {
      weights_.assign(channels, sums_.back());
      for (int k = 0; k < channels; k++) {
        if (numbers_.has_shares()) weights_[k] = sums_[channels + k] + D(epsilon_);
        a_[k] = (D(target_[k]) - sums_[k]) / weights_[k];
      }
    }
    for (int k = 0; is_adjoint && k < channels; k++) m_[k] = sums_[k] / weights_[k];
    if (count > 0) rows_.change(work, count, rows, a_, m_);
  }
  std::size_t bytes() const override { return rows_.bytes() + target_.size() * (sizeof(double) + 5 * sizeof(D)); }

 private:
  std::vector<double> target_;
  double epsilon_;
  BalancedNumbers<T> numbers_;
  Rows rows_;
  // Of the last forward pass, a and the sum of all weights; the backward pass wants both.
  std::vector<D> a_, m_, weights_, sums_;
};

}    // namespace equi

#endif
