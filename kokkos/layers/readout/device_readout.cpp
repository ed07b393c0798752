// SPDX-License-Identifier: MIT
// The readout on a device: a network per atom in float64, and its gradient.
#include "kokkos/layers/readout/device_readout.h"

#include "src/base/model_limits.h"
#include "src/functions/activation.h"
#include "src/numbers/number_types.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace equi {

namespace {

// One team per atom. The lanes share the outputs of each matrix; every output is summed in the order of inputs.

template <class T>
struct ReadoutKernel {
  using Member = Kokkos::TeamPolicy<DeviceExec>::member_type;
  using D = DoubleOf<T>;
  int num_matrices;
  int width[MAX_READOUT_MATRICES + 1];
  int64_t weight[MAX_READOUT_MATRICES], bias[MAX_READOUT_MATRICES];
  int total_width;    // sum over all layers
  Activation activation;
  double activation_scale;
  const double *data;
  Pointer<const T> x;    // at the first channel
  int x_width;
  const int *species;
  const double *scale;
  D *energy;
  T *adjoint;

  KOKKOS_FUNCTION void operator()(const Member &team) const {
    const int64_t i = team.league_rank();
    const int rank = team.team_rank(), step = team.team_size();
    // Outputs, slopes and adjoints of all layers, one layer after another.
    D *h = static_cast<D *>(team.team_scratch(0).get_shmem(3 * sizeof(D) * total_width));
    D *slope = h + total_width, *h_adj = slope + total_width;
    for (int u = rank; u < width[0]; u += step) h[u] = static_cast<D>(x[i * x_width + u]);
    team.team_barrier();
    int at = 0;
    for (int k = 0; k < num_matrices; k++) {
      const double *w = data + weight[k], *b = data + bias[k];
      const D *in = h + at;
      at += width[k];
      for (int v = rank; v < width[k + 1]; v += step) {
        D sum = b[v];
        for (int u = 0; u < width[k]; u++) sum += in[u] * w[static_cast<int64_t>(u) * width[k + 1] + v];
        if (k + 1 < num_matrices) {
          const auto a = activate(activation, sum);
          h[at + v] = activation_scale * a.value;
          slope[at + v] = activation_scale * a.derivative;
        } else {
          h[at + v] = sum;
          slope[at + v] = 1.0;
        }
      }
      team.team_barrier();
    }
    const double factor = scale[species[i]];
    if (rank == 0) {
      energy[i] += factor * h[at];
      h_adj[at] = factor;
    }
    team.team_barrier();
    for (int k = num_matrices - 1; k >= 0; k--) {
      const double *w = data + weight[k];
      const int before = at - width[k];
      for (int u = rank; u < width[k]; u += step) {
        D sum = 0;
        for (int v = 0; v < width[k + 1]; v++)
          sum += w[static_cast<int64_t>(u) * width[k + 1] + v] * h_adj[at + v] * slope[at + v];
        if (k > 0)
          h_adj[before + u] = sum;
        else
          adjoint[i * width[0] + u] = static_cast<T>(sum);
      }
      at = before;
      team.team_barrier();
    }
  }
};

}    // namespace

template <class T>
DeviceReadout<T>::DeviceReadout(const DeviceExec &exec, const Network &network, const FeatureGroup &group, int channel)
    : group_(group), channel_(channel), activation_(network.activation), activation_scale_(network.activation_scale) {
  const size_t n = network.weights.size();
  if (n > static_cast<size_t>(MAX_READOUT_MATRICES))
    throw std::invalid_argument("a readout network with " + std::to_string(n) +
                                " matrices; the device evaluation has at most " + std::to_string(MAX_READOUT_MATRICES));
  std::vector<double> data;
  widths_.push_back(network.num_inputs());
  for (size_t k = 0; k < n; k++) {
    const Matrix &w = network.weights[k];
    widths_.push_back(w.cols);
    weight_.push_back(static_cast<int64_t>(data.size()));
    data.insert(data.end(), w.data.begin(), w.data.end());
    bias_.push_back(static_cast<int64_t>(data.size()));
    if (network.has_bias(k))
      data.insert(data.end(), network.biases[k].begin(), network.biases[k].end());
    else
      data.resize(data.size() + w.cols, 0.0);
  }
  if (const std::size_t most = DeviceTeams<>::scratch_size_max(0); !DeviceTraits<>::ON_HOST && scratch_bytes() > most)
    throw std::runtime_error("a readout network with " + std::to_string(total_width()) +
                             " numbers in all its layers, which take " + std::to_string(scratch_bytes()) +
                             " bytes of the GPU's shared memory; it has " + std::to_string(most));
  assign(exec, data_, data);
}

template <class T>
int DeviceReadout<T>::total_width() const {
  return std::accumulate(widths_.begin(), widths_.end(), 0);
}

template <class T>
void DeviceReadout<T>::forward(DeviceBatch<T> &batch, FeatureRows<R> x, const double *scale, T *adjoint,
                               int direction) const {
  if (batch.count == 0) return;
  ReadoutKernel<T> kernel{};    // initialized also beyond these matrices, because all of it is copied to the device
  kernel.num_matrices = static_cast<int>(weight_.size());
  kernel.total_width = total_width();
  std::copy(widths_.begin(), widths_.end(), kernel.width);
  for (size_t k = 0; k < weight_.size(); k++) {
    kernel.weight[k] = weight_[k];
    kernel.bias[k] = bias_[k];
  }
  kernel.activation = activation_;
  kernel.activation_scale = activation_scale_;
  kernel.data = data_.data();
  kernel.x = channel_of<const T>(x, group_, channel_, direction);
  kernel.x_width = group_.width();
  kernel.species = batch.species;
  kernel.scale = scale;
  kernel.energy = batch.evaluation.energy_of(direction) + batch.first;
  kernel.adjoint = adjoint;
  DeviceTeams<> policy(batch.evaluation.exec, batch.count, DeviceTraits<>::LANES, 1);
  policy.set_scratch_size(0, Kokkos::PerTeam(scratch_bytes()));
  Kokkos::parallel_for("equi:readout", policy, kernel);
}

EQUI_INSTANTIATE_NUMBERS(DeviceReadout)

}    // namespace equi
