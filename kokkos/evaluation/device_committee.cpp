// SPDX-License-Identifier: MIT
// Evaluates the members of a committee on a device and averages their results there.
#include "kokkos/evaluation/device_committee.h"

#include "src/base/owned_memory.h"
#include "src/evaluation/native_evaluators.h"

#include <utility>

namespace equi {

void DeviceCommittee::set_neighborhood(const Neighborhood &n) {
  shared_bytes_ = 0;
  committee_.set_neighborhood(n);
}

void DeviceCommittee::set_neighborhood(const DeviceNeighborList &list, const PeriodicBox &box) {
  num_rows_ = list.num_rows;
  num_receivers_ = list.num_receivers;
  shared_bytes_ = bytes_of(list);
  for (int m = 0; m < committee_.size(); m++) member(m).set_neighborhood(list, box);
}

double *DeviceCommittee::set_mean(const std::vector<const double *> &arrays, int64_t size, DeviceBuffer<double> &to) {
  double *mean = to.reserve(size);
  for (const double *from : arrays) {
    const bool is_first = from == arrays.front();
    const double divisor = from == arrays.back() ? static_cast<double>(arrays.size()) : 1.0;
    Kokkos::parallel_for(
        "equi:mean_of_members", DeviceRange(DeviceExec(), 0, size),
        KOKKOS_LAMBDA(int64_t k) { mean[k] = ((is_first ? 0.0 : mean[k]) + from[k]) / divisor; });
  }
  return mean;
}

template <class Array>
double *DeviceCommittee::mean_of_members(int64_t size, DeviceBuffer<double> &to, const Array &array) const {
  std::vector<const double *> arrays;
  for (int m = 0; m < committee_.size(); m++) arrays.push_back(array(member(m).results()));
  return arrays.front() ? set_mean(arrays, size, to) : nullptr;
}

EvaluationResult DeviceCommittee::evaluate(const DeviceRequest &request, GhostExchange &exchange) {
  const EvaluationResult result =
      committee_.evaluate_members(request.forces, [&](int m) { return member(m).evaluate(request, exchange); });
  const int64_t rows = num_rows_, receivers = num_receivers_, directions = request.directions.count;
  means_ = {};
  means_.row_atom = member(0).results().row_atom;
  if (request.forces) {
    means_.forces = mean_of_members(3 * rows, forces_, [](const DeviceResults &r) { return r.forces; });
    means_.tangents =
        mean_of_members(3 * rows * directions, tangents_, [](const DeviceResults &r) { return r.tangents; });
  }
  if (request.atom_virial)
    means_.virial = mean_of_members(9 * rows, virial_, [](const DeviceResults &r) { return r.virial; });
  means_.energy = mean_of_members(receivers, energy_, [](const DeviceResults &r) { return r.energy; });
  if (request.energy_moments)
    means_.energy_duals = reinterpret_cast<Dual<double> *>(
        mean_of_members(PLANES<Dual<double>> * receivers * EnergyMoments::DIRECTIONS, energy_,
                        [](const DeviceResults &r) { return reinterpret_cast<const double *>(r.energy_duals); }));
  DeviceExec().fence("equi: means of the members");
  check_launches();
  return result;
}

std::size_t DeviceCommittee::memory_bytes() const {
  return committee_.memory_bytes() - (committee_.size() - 1) * shared_bytes_ +
         bytes_of(forces_, tangents_, virial_, energy_);
}

std::unique_ptr<Evaluator> make_device_committee(std::vector<std::unique_ptr<Evaluator>> members) {
  return std::make_unique<DeviceCommittee>(std::move(members));
}

}    // namespace equi
