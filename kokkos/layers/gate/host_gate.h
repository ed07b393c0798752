// SPDX-License-Identifier: MIT
// The gate: its terms, and forward and backward on rows in host memory.
#ifndef EQUI_HOST_GATE_H
#define EQUI_HOST_GATE_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layers/feature_rows.h"
#include "src/model/model.h"

#include <vector>

namespace equi {

// x = c a(z) for scalars, x[m] = z[m] c a(gate) for gated blocks.
template <class T>
class HostGate {
  using R = Real<T>;

 public:
  HostGate(const Gate &gate, const FeatureLayout &in, const FeatureLayout &out);
  // direction: of duals, whose tangents are in plane 1 + direction.
  void forward(const HostKernels<T> &kernels, int64_t count, FeatureRows<const R> z, FeatureRows<R> x,
               int direction = 0) const;
  // z is replaced by its adjoint.
  void backward(const HostKernels<T> &kernels, int64_t count, FeatureRows<R> z, FeatureRows<const R> x_adj,
                int direction = 0) const;
  std::size_t bytes() const { return 0; }

  struct Term {
    int in, out, gate;    // groups; gate = -1 for scalars
    int in_channel, out_channel, gate_channel, mul;
    Activation activation;
    R scale;
  };
  // Channels of the input that no term reads have a zero adjoint: [group, first, end).
  struct Unread {
    int group, first, end;
  };
  // The constants that the layer on a device copies.
  const std::vector<Term> &terms() const { return terms_; }
  const std::vector<Unread> &unread() const { return unread_; }
  const FeatureLayout &in() const { return in_; }
  const FeatureLayout &out() const { return out_; }

 private:
  GateCall<T> call(const Term &t, int64_t count, FeatureRows<R> z, FeatureRows<R> x, int direction) const;

  FeatureLayout in_, out_;
  std::vector<Term> terms_;
  std::vector<Unread> unread_;
};

}    // namespace equi

#endif
