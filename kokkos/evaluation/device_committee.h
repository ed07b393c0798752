// SPDX-License-Identifier: MIT
// Several models on a device as one. The members share the neighbor list, and each transposes it as it needs it.
#ifndef EQUI_DEVICE_COMMITTEE_H
#define EQUI_DEVICE_COMMITTEE_H

#include "kokkos/evaluation/device_evaluator.h"
#include "src/evaluation/committee.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace equi {

class DeviceCommittee : public DeviceEvaluator {
 public:
  // All members must be DeviceEvaluators, and there must be at least one.
  explicit DeviceCommittee(std::vector<std::unique_ptr<Evaluator>> members) : committee_(std::move(members)) {}

  std::string describe() const override { return committee_.describe(); }
  void set_neighborhood(const Neighborhood &n) override;
  EvaluationResult evaluate(const EvaluationRequest &request, GhostExchange &exchange) override {
    return committee_.evaluate(request, exchange);
  }
  int max_directions() const override { return committee_.max_directions(); }
  std::size_t exchange_bytes_per_row() const override { return committee_.exchange_bytes_per_row(); }
  std::size_t memory_bytes() const override;
  const Committee *committee() const override { return &committee_; }

  void set_neighborhood(const DeviceNeighborList &list, const PeriodicBox &box) override;
  EvaluationResult evaluate(const DeviceRequest &request, GhostExchange &exchange) override;
  DeviceResults results() const override { return means_; }

  // Part of evaluate(), public because nvcc requires it of functions with kernels: to = the mean of arrays [size].
  static double *set_mean(const std::vector<const double *> &arrays, int64_t size, DeviceBuffer<double> &to);

 private:
  DeviceEvaluator &member(int m) const { return dynamic_cast<DeviceEvaluator &>(committee_.member(m)); }

  // The mean of array(results of a member) [size] over the members, in `to`; null if these are null.
  template <class Array>
  double *mean_of_members(int64_t size, DeviceBuffer<double> &to, const Array &array) const;

  Committee committee_;
  int num_rows_ = 0, num_receivers_ = 0;
  std::size_t shared_bytes_ = 0;    // of the list that the members share
  DeviceBuffer<double> forces_, tangents_, virial_, energy_;
  DeviceResults means_;
};

}    // namespace equi

#endif
