// SPDX-License-Identifier: MIT
// Potentials of multipoles in an open system: sums over all pairs of atoms of all ranks, on either back end.
#ifndef EQUI_OPEN_POTENTIAL_H
#define EQUI_OPEN_POTENTIAL_H

#include "kokkos/layer_interface/system_numbers.h"
#include "kokkos/layers/potential/atom_derivatives.h"
#include "src/evaluation/ghost_exchange.h"
#include "src/functions/gaussian_multipoles.h"
#include "src/functions/wave_cell.h"
#include "src/layers/potential.h"
#include "src/numbers/dual.h"
#include "src/numbers/host_device.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

namespace equi {

// The atoms of all ranks. Multipoles have four numbers each: [atoms][channels][4] of sources, and
// [atoms][channels][widths][4] of probes.
template <class D>
struct PairsOfAtoms {
  using Vector = typename GaussianPair<D>::Vector;
  int channels, num_widths;
  double prefactor;                // eV Angstrom
  const GaussianPair<D> *pairs;    // [widths]
  int64_t count, first;            // this rank's receivers; the place of the first one
  int64_t num_atoms, atoms_of_part;
  const D *positions, *sources;

  EQUI_FUNCTION int64_t num_sources() const { return 4 * static_cast<int64_t>(channels); }
  EQUI_FUNCTION int64_t num_probes() const { return num_sources() * num_widths; }
  EQUI_FUNCTION const D *source(int64_t atom) const { return sources + atom * num_sources(); }
  // From a source to a probe.
  EQUI_FUNCTION Vector between(int64_t probe, int64_t source) const {
    const D *p = positions + 3 * probe, *s = positions + 3 * source;
    return {p[0] - s[0], p[1] - s[1], p[2] - s[2]};
  }
  // Calls f(other atom) for those of a part of the atoms.
  template <class F>
  EQUI_FUNCTION void for_others(int64_t part, int64_t atom, const F &f) const {
    const int64_t begin = part * atoms_of_part, last = begin + atoms_of_part;
    for (int64_t j = begin; j < (last < num_atoms ? last : num_atoms); j++)
      if (j != atom) f(j);
  }
};

// What the sources of a part of the atoms give to the probes of one width. k: part, receiver and width.
template <class D>
struct FeltByProbes {
  PairsOfAtoms<D> atoms;
  D *felt;    // [parts][receivers][channels][widths][4]
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int w = static_cast<int>(k % atoms.num_widths);
    const int64_t row = k / atoms.num_widths, i = row % atoms.count;
    D *const to = felt + row * atoms.num_probes();
    for (int c = 0; c < atoms.channels; c++)
      for (int p = 0; p < 4; p++) to[4 * (c * atoms.num_widths + w) + p] = D(0.0);
    atoms.for_others(row / atoms.count, atoms.first + i, [&](int64_t j) {
      const auto m = atoms.pairs[w].matrix(atoms.between(atoms.first + i, j));
      const D *d = atoms.source(j);
      for (int c = 0; c < atoms.channels; c++)
        for (int p = 0; p < 4; p++) {
          D sum(0.0);
          for (int s = 0; s < 4; s++) sum += m[p][s] * d[4 * c + s];
          to[4 * (c * atoms.num_widths + w) + p] += D(atoms.prefactor) * sum;
        }
    });
  }
};

// What the probes of one width of a part of the atoms give to the sources, and the derivatives of both interactions of
// a receiver with each atom: by its position, and half of those by a strain. k: part, width and receiver.
template <class D>
struct FeltBySources {
  using Vector = typename GaussianPair<D>::Vector;
  using Matrix = typename GaussianPair<D>::Matrix;
  static constexpr int SLOPES = 3 + SYMMETRIC;    // AtomDerivatives
  PairsOfAtoms<D> atoms;
  const D *probes;
  D *felt;      // [parts][widths][receivers][channels][4]
  D *slopes;    // [parts][widths], each with the arrays of AtomDerivatives; null: not needed

  EQUI_FUNCTION const D *probe(int64_t atom, int channel, int width) const {
    return probes + atom * atoms.num_probes() + 4 * (channel * atoms.num_widths + width);
  }
  // The sums over channels of the products of two atoms' numbers, times the prefactor.
  EQUI_FUNCTION Matrix products(int64_t of_probe, int64_t of_source, int width) const {
    Matrix m{};
    for (int c = 0; c < atoms.channels; c++) {
      const D *g = probe(of_probe, c, width), *d = atoms.source(of_source) + 4 * c;
      for (int p = 0; p < 4; p++)
        for (int s = 0; s < 4; s++) m[p][s] += D(atoms.prefactor) * g[p] * d[s];
    }
    return m;
  }
  EQUI_FUNCTION static void add(const Vector &x, const Vector &slope, double sign, D *sums) {
    for (int a = 0; a < 3; a++) sums[a] += D(sign) * slope[a];
    for (int n = 0; n < SYMMETRIC; n++) {
      const int a = first_of_symmetric(n), b = second_of_symmetric(n);
      sums[3 + n] += D(0.25) * (x[a] * slope[b] + x[b] * slope[a]);
    }
  }
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int64_t i = k % atoms.count, own = atoms.first + i, part = k / atoms.count / atoms.num_widths;
    const int w = static_cast<int>(k / atoms.count % atoms.num_widths);
    D *const to = felt + k * atoms.num_sources();
    for (int64_t n = 0; n < atoms.num_sources(); n++) to[n] = D(0.0);
    D sums[SLOPES];
    for (D &sum : sums) sum = D(0.0);
    atoms.for_others(part, own, [&](int64_t j) {
      const Vector as_source = atoms.between(j, own), as_probe = atoms.between(own, j);
      const auto m = atoms.pairs[w].matrix(as_source);
      for (int c = 0; c < atoms.channels; c++) {
        const D *g = probe(j, c, w);
        for (int s = 0; s < 4; s++) {
          D sum(0.0);
          for (int p = 0; p < 4; p++) sum += m[p][s] * g[p];
          to[4 * c + s] += D(atoms.prefactor) * sum;
        }
      }
      if (!slopes) return;
      add(as_source, atoms.pairs[w].gradient(as_source, products(j, own, w)), -1.0, sums);
      add(as_probe, atoms.pairs[w].gradient(as_probe, products(own, j, w)), 1.0, sums);
    });
    if (!slopes) return;
    D *const gradient = slopes + k / atoms.count * SLOPES * atoms.count, *const strains = gradient + 3 * atoms.count;
    for (int a = 0; a < 3; a++) gradient[3 * i + a] = sums[a];
    for (int n = 0; n < SYMMETRIC; n++) strains[SYMMETRIC * i + n] = sums[3 + n];
  }
};

// System: SystemOnHost<D> or SystemOnDevice<D>. Each rank knows the multipoles of all atoms and computes what its own
// receivers feel of them, and their forces: the work of N atoms grows with N^2 and is divided among ranks and threads.
template <class System>
class OpenPotential {
  using D = typename System::Number;
  using Work = typename System::Work;
  template <class N>
  using Array = typename System::template Array<N>;

 public:
  // The layer has data for open systems.
  OpenPotential(const Potential &layer, OpenSum sum)
      : channels_(layer.channels),
        prefactor_(layer.function.prefactor / FOUR_PI),
        sum_(sum),
        depends_on_axes_(layer.depends_on_axes(sum)) {
    for (const double width : layer.function.widths)
      pairs_.emplace_back(sum, std::sqrt(0.5 * (layer.function.width * layer.function.width + width * width)),
                          layer.open->offset, layer.open->softening, layer.has_dipoles || layer.has_gradients);
  }

  // Computes what the probes feel, [count][channels][widths][4], from the sources [count][channels][4]. Collective.
  void evaluate(System &sums, const Work &work, const typename System::System &system, int count, const D *sources,
                D *felt, GhostExchange &exchange) {
    D *own = numbers_.reserve(3 * static_cast<int64_t>(count));
    System::positions(work, system, count, own);
    num_atoms_ = sums.gather_ranks(work, own, 3 * static_cast<int64_t>(count), exchange, all_positions_, first_) / 3;
    first_ /= 3;
    int64_t begin;
    sums.gather_ranks(work, sources, count * num_sources(), exchange, all_sources_, begin);
    if (!table_.data()) System::copy(work, pairs_, table_);
    const int64_t parts = System::parts_of_sums(static_cast<int64_t>(count) * num_widths(), num_atoms_);
    const int64_t num = count * num_probes();
    D *of_parts = parts == 1 ? felt : parts_.reserve(parts * num);
    System::for_sums(work, "equi:open", parts * count * num_widths(), FeltByProbes<D>{atoms(count, parts), of_parts});
    join(work, parts, num, of_parts, felt);
  }
  // Computes what the sources feel of the probes, and adds forces and virials, half of each pair's virial to either
  // atom. Follows evaluate() at the same positions. Collective.
  void evaluate_adjoint(System &sums, const Work &work, const typename System::System &system, int count,
                        const D *probes, D *felt, GhostExchange &exchange) {
    const bool needs_slopes = AtomDerivatives<System>::needs_any(system);
    int64_t begin;
    sums.gather_ranks(work, probes, count * num_probes(), exchange, all_probes_, begin);
    const int64_t parts = System::parts_of_sums(static_cast<int64_t>(count) * num_widths(), num_atoms_),
                  all = parts * num_widths(), num = count * num_sources(), num_slopes = count * SLOPES;
    D *of_parts = all == 1 ? felt : parts_.reserve(all * num),
      *slopes = needs_slopes ? numbers_.reserve(all * num_slopes) : nullptr;
    System::for_sums(work, "equi:open_adj", all * count,
                     FeltBySources<D>{atoms(count, parts), all_probes_.data(), of_parts, slopes});
    join(work, all, num, of_parts, felt);
    if (!needs_slopes) return;
    derivatives_.reserve(count);
    join(work, all, num_slopes, slopes, derivatives_.gradient());
    derivatives_.subtract(sums, work, system, count);
  }

  auto members() const {
    return std::tie(table_, all_positions_, all_sources_, all_probes_, numbers_, parts_, derivatives_);
  }
  // At least those of an evaluation of this many receivers, without the atoms of other ranks.
  std::size_t least_bytes(int count) const {
    const int64_t parts = System::parts_of_sums(static_cast<int64_t>(count) * num_widths(), count);
    return count * sizeof(D) *
           (3 + num_sources() + num_probes() + parts * num_probes() + (parts * num_widths() + 1) * SLOPES);
  }
  std::string describe() const {    // of the last evaluation
    char text[240];
    std::snprintf(text, sizeof text, "potentials of multipoles: open system, %lld pairs of atoms, %s\n",
                  static_cast<long long>(num_atoms_ * (num_atoms_ - 1) / 2),
                  sum_ == OpenSum::exact ? "exact multipoles: another model than that of the training (keyword open)"
                  : depends_on_axes_
                      ? "displaced charges as in training: energies of turned molecules differ (keyword open)"
                      : "as in training");
    return text;
  }

 private:
  static constexpr double FOUR_PI = 12.566370614359172;
  static constexpr int64_t SLOPES = FeltBySources<D>::SLOPES;
  int num_widths() const { return static_cast<int>(pairs_.size()); }
  int64_t num_sources() const { return 4 * static_cast<int64_t>(channels_); }
  int64_t num_probes() const { return num_sources() * num_widths(); }
  PairsOfAtoms<D> atoms(int count, int64_t parts) const {
    return {channels_,
            num_widths(),
            prefactor_,
            table_.data(),
            count,
            first_,
            num_atoms_,
            (num_atoms_ + parts - 1) / parts,
            all_positions_.data(),
            all_sources_.data()};
  }
  static void join(const Work &work, int64_t parts, int64_t num, const D *from, D *to) {
    if (parts > 1 || from != to) System::for_numbers(work, "equi:open_join", num, JoinParts<D>{parts, num, from, to});
  }

  int channels_;
  double prefactor_;    // eV Angstrom
  OpenSum sum_;
  bool depends_on_axes_;
  std::vector<GaussianPair<D>> pairs_;    // by width
  Array<GaussianPair<D>> table_;          // the same where the kernels run
  Array<D> all_positions_, all_sources_, all_probes_;
  Array<D> numbers_, parts_;
  AtomDerivatives<System> derivatives_;
  int64_t num_atoms_ = 0, first_ = 0;    // of all ranks; place of this rank's first receiver
};

}    // namespace equi

#endif
