// SPDX-License-Identifier: MIT
// Sums over all pairs of atoms between the multipoles of all ranks.
#include "kokkos/layers/potential/host_open_potential.h"

#include "kokkos/layer_interface/host_system.h"
#include "src/functions/wave_cell.h"

#include <cmath>
#include <cstdio>

namespace equi {

namespace {

constexpr int ATOMS = 1;    // of a piece of a thread's work: each has a sum over all atoms
constexpr double FOUR_PI = 12.566370614359172;

}    // namespace

template <class D>
HostOpenPotential<D>::HostOpenPotential(const Potential &layer, OpenSum sum)
    : channels_(layer.channels),
      prefactor_(layer.function.prefactor / FOUR_PI),
      sum_(sum),
      depends_on_axes_(layer.depends_on_axes(sum)) {
  for (const double width : layer.function.widths)
    pairs_.emplace_back(sum, std::sqrt(0.5 * (layer.function.width * layer.function.width + width * width)),
                        layer.open->offset, layer.open->softening, layer.has_dipoles || layer.has_gradients);
}

template <class D>
int64_t HostOpenPotential<D>::gather(const std::vector<D> &mine, int width, std::vector<D> &all,
                                     GhostExchange &exchange) {
  std::vector<double> numbers;
  const std::size_t place =
      exchange.gather(reinterpret_cast<const double *>(mine.data()), mine.size() * PLANES<D>, numbers);
  const D *from = reinterpret_cast<const D *>(numbers.data());
  all.assign(from, from + numbers.size() / PLANES<D>);
  return static_cast<int64_t>(place) / (PLANES<D> * width);
}

template <class D>
typename HostOpenPotential<D>::Vector HostOpenPotential<D>::between(int64_t probe, int64_t source) const {
  const D *p = all_positions_.data() + 3 * probe, *s = all_positions_.data() + 3 * source;
  return {p[0] - s[0], p[1] - s[1], p[2] - s[2]};
}

template <class D>
typename GaussianPair<D>::Matrix HostOpenPotential<D>::products(const D *probe, const D *source, int width) const {
  typename GaussianPair<D>::Matrix m{};
  for (auto &row : m) row.fill(D(0.0));
  for (int c = 0; c < channels_; c++) {
    const D *g = probe + 4 * (c * num_widths() + width), *d = source + 4 * c;
    for (int p = 0; p < 4; p++)
      for (int s = 0; s < 4; s++) m[p][s] += g[p] * d[s];
  }
  for (auto &row : m)
    for (D &number : row) number *= prefactor_;
  return m;
}

template <class D>
void HostOpenPotential<D>::evaluate(const HostSystem &system, int count, const std::vector<D> &sources,
                                    std::vector<D> &of_probes, GhostExchange &exchange) {
  std::vector<std::array<D, 3>> positions;
  positions_of_receivers(system, count, positions);
  std::vector<D> numbers;
  for (const auto &r : positions) numbers.insert(numbers.end(), r.begin(), r.end());
  first_ = gather(numbers, 3, all_positions_, exchange);
  gather(sources, num_sources(), all_sources_, exchange);
  for_pieces("equi:potential_open", count, ATOMS, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; i++) {
      D *felt = of_probes.data() + i * num_probes();
      std::fill_n(felt, num_probes(), D(0.0));
      for (int64_t j = 0; j < num_atoms(); j++) {
        if (j == first_ + i) continue;
        const Vector x = between(first_ + i, j);
        const D *d = all_sources_.data() + j * num_sources();
        for (int w = 0; w < num_widths(); w++) {
          const auto m = pairs_[w].matrix(x);
          for (int c = 0; c < channels_; c++)
            for (int p = 0; p < 4; p++) {
              D sum(0.0);
              for (int s = 0; s < 4; s++) sum += m[p][s] * d[4 * c + s];
              felt[4 * (c * num_widths() + w) + p] += D(prefactor_) * sum;
            }
        }
      }
    }
  });
}

template <class D>
void HostOpenPotential<D>::evaluate_adjoint(const HostSystem &system, int count, const std::vector<D> &sources,
                                            const std::vector<D> &probes, std::vector<D> &of_sources,
                                            GhostExchange &exchange) {
  const EvaluationRequest &request = system.request;
  const bool has_virial = request.virial || request.atom_virial,
             has_gradient = request.forces || request.force_tangents || has_virial;
  gather(probes, num_probes(), all_probes_, exchange);
  std::vector<Vector> gradients(count);
  std::vector<std::array<D, 6>> strains(count);
  for_pieces("equi:potential_open_adjoint", count, ATOMS, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; i++) {
      D *felt = of_sources.data() + i * num_sources();
      std::fill_n(felt, num_sources(), D(0.0));
      gradients[i].fill(D(0.0));
      strains[i].fill(D(0.0));
      const D *own_probe = probes.data() + i * num_probes(), *own_source = sources.data() + i * num_sources();
      const auto add = [&](const Vector &x, const Vector &slope, double sign) {
        for (int a = 0; a < 3; a++) gradients[i][a] += D(sign) * slope[a];
        for (int n = 0; has_virial && n < 6; n++) {
          const int a = first_of_symmetric(n), b = second_of_symmetric(n);
          strains[i][n] += D(0.25) * (x[a] * slope[b] + x[b] * slope[a]);
        }
      };
      for (int64_t j = 0; j < num_atoms(); j++) {
        if (j == first_ + i) continue;
        const Vector as_source = between(j, first_ + i), as_probe = between(first_ + i, j);
        const D *g = all_probes_.data() + j * num_probes(), *d = all_sources_.data() + j * num_sources();
        for (int w = 0; w < num_widths(); w++) {
          const auto m = pairs_[w].matrix(as_source);
          for (int c = 0; c < channels_; c++) {
            const D *of_probe = g + 4 * (c * num_widths() + w);
            for (int s = 0; s < 4; s++) {
              D sum(0.0);
              for (int p = 0; p < 4; p++) sum += m[p][s] * of_probe[p];
              felt[4 * c + s] += D(prefactor_) * sum;
            }
          }
          if (!has_gradient) continue;
          add(as_source, pairs_[w].gradient(as_source, products(g, own_source, w)), -1.0);
          add(as_probe, pairs_[w].gradient(as_probe, products(own_probe, d, w)), 1.0);
        }
      }
    }
  });
  for (int i = 0; has_gradient && i < count; i++) {
    for (int a = 0; a < 3; a++) subtract_gradient(system, i, a, gradients[i][a]);
    subtract_strain(system, strains[i].data());
    subtract_atom_strain(system, i, strains[i].data());
  }
}

template <class D>
std::size_t HostOpenPotential<D>::bytes() const {
  return (all_positions_.capacity() + all_sources_.capacity() + all_probes_.capacity()) * sizeof(D);
}

template <class D>
std::string HostOpenPotential<D>::describe() const {
  char text[240];
  std::snprintf(text, sizeof text, "potentials of multipoles: open system, %lld pairs of atoms, %s\n",
                static_cast<long long>(num_atoms() * (num_atoms() - 1) / 2),
                sum_ == OpenSum::exact ? "exact multipoles: another model than that of the training (keyword open)"
                : depends_on_axes_
                    ? "displaced charges as in training: energies of turned molecules differ (keyword open)"
                    : "as in training");
  return text;
}

template class HostOpenPotential<double>;
template class HostOpenPotential<Dual<double>>;

}    // namespace equi
