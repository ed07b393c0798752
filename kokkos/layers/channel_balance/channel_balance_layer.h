// SPDX-License-Identifier: MIT
// The balance of channels over all atoms.
#ifndef EQUI_CHANNEL_BALANCE_LAYER_H
#define EQUI_CHANNEL_BALANCE_LAYER_H

#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layers/channel_balance/balanced_rows.h"
#include "kokkos/layers/channel_balance/device_channel_balance.h"
#include "kokkos/layers/channel_balance/host_channel_balance.h"
#include "src/layers/channel_balance.h"
#include "src/numbers/dual.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

namespace equi {

// Where the numbers of a balance are in rows: the channels of one group of scalars, in its first planes.
template <class T>
class BalancedNumbers {
  using R = Real<T>;

 public:
  BalancedNumbers(const ChannelBalance &layer, const FeatureLayout &layout)
      : channels_(static_cast<int>(layer.target.size())),
        power_(layer.power),
        balanced_(layout, layer.block, layer.first) {
    if (layer.has_shares()) shares_.emplace_back(layout, layer.share_block, layer.share_first);
  }
  int channels() const { return channels_; }
  bool has_shares() const { return !shares_.empty(); }
  // Whether weights may have either sign, so their sum may be almost 0.
  bool has_pole() const { return has_shares() && power_ == 1; }
  int num_terms(bool is_adjoint) const {
    return !has_shares() || is_adjoint ? channels_ : (has_pole() ? 3 : 2) * channels_;
  }
  BalancedRows<T> rows(FeatureRows<R> x, FeatureRows<R> adjoint, bool is_adjoint) const {
    BalancedRows<T> rows{channels_, num_terms(is_adjoint), is_adjoint, power_, balanced_.group.width(),
                         0,         balanced_.pointer(x),  {},         {},     {}};
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
  int power_;
  Run balanced_;
  std::vector<Run> shares_;    // one, or none
};

template <class Backend>
class ChannelBalanceLayer : public BalanceLayer<typename Backend::Batch> {
  using T = typename Backend::Number;
  using Batch = typename Backend::Batch;
  using R = typename Batch::R;
  using D = DoubleOf<T>;

 public:
  ChannelBalanceLayer(const ChannelBalance &layer, const FeatureLayout &layout)
      : target_(layer.target), epsilon_(layer.epsilon), numbers_(layer, layout), factors_(2 * target_.size()) {}

  void balance(const typename Batch::Work &work, FeatureRows<R> x, FeatureRows<R> adjoint, int count, bool is_adjoint,
               GhostExchange &exchange) override {
    const BalancedRows<T> rows = numbers_.rows(x, adjoint, is_adjoint);
    sums_.assign(rows.num_terms + 1, D(0));
    if (count > 0) sum_.add_up(work, count, rows, sums_.data());
    sums_.back() = D(count);
    exchange.sum(reinterpret_cast<double *>(sums_.data()), static_cast<int>(sums_.size()) * PLANES<D>);
    const int channels = numbers_.channels();
    if (!is_adjoint) {
      weights_.assign(channels, sums_.back());
      for (int k = 0; k < channels; k++) {
        if (numbers_.has_shares()) weights_[k] = sums_[channels + k] + D(epsilon_);
        if (numbers_.has_pole()) check_pole(value_of(weights_[k]), value_of(sums_[2 * channels + k]));
        factors_[k] = (D(target_[k]) - sums_[k]) / weights_[k];
      }
    }
    for (int k = 0; is_adjoint && k < channels; k++) factors_[channels + k] = sums_[k] / weights_[k];
    if (count == 0) return;
    Backend::copy(work, factors_, rows_factors_);
    Backend::for_channels(work, "equi:balance_change", count, channels,
                          BalanceChange<T>{rows, rows_factors_.data(), rows_factors_.data() + channels});
  }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, sum_, rows_factors_); }

 private:
  // All ranks have the same sums, so all of them throw.
  static void check_pole(double sum, double magnitudes) {
    constexpr double LEAST = 1e-3;    // of the magnitudes
    if (!(std::fabs(sum) < LEAST * magnitudes)) return;
    char text[240];
    std::snprintf(text, sizeof text,
                  "the model has a pole near this structure: the shares by which atoms receive the total charge sum to "
                  "%.3g, and their magnitudes to %.3g, so charges and energy have no meaning",
                  sum, magnitudes);
    throw EvaluationError(text, -1, -1, 0.0);
  }

  std::vector<double> target_;
  double epsilon_;
  BalancedNumbers<T> numbers_;
  typename Backend::template Choose<HostChannelBalance<T>, DeviceChannelBalance<T>> sum_;    // of terms of rows
  // BalancedRows: a, then m, of all channels. a and the sum of all weights come from the last forward pass; the
  // backward pass needs both.
  std::vector<D> factors_, weights_, sums_;
  typename Backend::template Array<D> rows_factors_;    // where the rows are
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const ChannelBalance &layer) {
  return std::make_unique<ChannelBalanceLayer<Backend>>(layer, context.layout(layer.input));
}

}    // namespace equi

#endif
