// SPDX-License-Identifier: MIT
// A layer that all atoms of all ranks take part in, on either back end. It changes a feature, or its adjoint, in place
// between two stages.
#ifndef EQUI_CHANNEL_BALANCE_LAYER_H
#define EQUI_CHANNEL_BALANCE_LAYER_H

#include "kokkos/layers/layer_op.h"
#include "src/evaluation/ghost_exchange.h"
#include "src/numbers/dual.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace equi {

// Where the numbers of a balance lie in rows: the channels of one group of scalars, in each of its first planes.
struct BalancedNumbers {
  FeatureGroup group;
  int64_t width;
  int first, channels, size;    // size: of a row, [planes][channels]
  BalancedNumbers(const ChannelBalance &layer, const FeatureLayout &layout, int planes)
      : group(layout.group(layout.block(layer.block).group)),
        width(group.width()),
        first(layout.block(layer.block).channel + layer.first),
        channels(static_cast<int>(layer.target.size())),
        size(planes * channels) {}
  // Of number k of a row, behind rows.group(group).
  EQUI_FUNCTION int64_t at(int64_t row, int64_t k) const {
    return row * width + k / channels * group.channels + first + k % channels;
  }
};

template <class Batch>
class BalanceOp : public LayerOp<Batch> {
 public:
  using R = typename Batch::R;
  void forward(Batch &) override {}    // no batch has all atoms
  // rows: of all `count` receivers of this rank. Collective.
  virtual void balance(const typename Batch::Work &work, FeatureRows<R> rows, int count, bool is_adjoint,
                       GhostExchange &exchange) = 0;
};

// Op has sum(work, count, rows, sums), whose sums are 0 before, add(work, count, rows, numbers), with size() float64
// numbers in host memory: [planes][channels], the planes being the values and the tangents of a dual.
template <class Batch, class Op>
class ChannelBalanceLayer : public BalanceOp<Batch> {
 public:
  using R = typename Batch::R;
  ChannelBalanceLayer(const ChannelBalance &layer, Op op)
      : target_(layer.target), op_(std::move(op)), numbers_(op_.size() + 1) {}

  void balance(const typename Batch::Work &work, FeatureRows<R> rows, int count, bool is_adjoint,
               GhostExchange &exchange) override {
    const std::size_t channels = target_.size(), size = numbers_.size() - 1;
    std::fill(numbers_.begin(), numbers_.end(), 0.0);
    if (count > 0) op_.sum(work, count, rows, numbers_.data());
    numbers_[size] = count;
    exchange.sum(numbers_.data(), static_cast<int>(size) + 1);
    if (count == 0) return;
    for (std::size_t k = 0; k < size; k++) {
      const double target = !is_adjoint && k < channels ? target_[k] : 0.0;
      numbers_[k] = (target - numbers_[k]) / numbers_[size];
    }
    op_.add(work, count, rows, numbers_.data());
  }
  std::size_t bytes() const override { return op_.bytes() + (target_.size() + numbers_.size()) * sizeof(double); }

 private:
  std::vector<double> target_;
  Op op_;
  std::vector<double> numbers_;    // sums, and the number of atoms
};

template <class Batch, class Op>
std::unique_ptr<LayerOp<Batch>> make_balance_layer(const ChannelBalance &layer, Op op) {
  return std::make_unique<ChannelBalanceLayer<Batch, Op>>(layer, std::move(op));
}

}    // namespace equi

#endif
