// SPDX-License-Identifier: MIT
// Potentials that are linear in the position: those of a uniform electric field, and of the dipole of a slab
// (src/layers/potential.h), on either back end.
#ifndef EQUI_UNIFORM_POTENTIAL_H
#define EQUI_UNIFORM_POTENTIAL_H

#include "kokkos/layer_interface/system_numbers.h"
#include "kokkos/layers/potential/atom_derivatives.h"
#include "src/evaluation/evaluator.h"
#include "src/evaluation/ghost_exchange.h"
#include "src/functions/wave_cell.h"
#include "src/functions/wave_vectors.h"
#include "src/layers/potential.h"
#include "src/numbers/dual.h"
#include "src/numbers/host_device.h"
#include "src/numbers/vector3.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace equi {

// A slab and a field, as kernels see them.
template <class D>
struct UniformFields {
  int channels, num_widths;
  double slab;         // prefactor / volume, eV / (charge^2 Angstrom^2); 0: no slab
  double normal[3];    // of the slab
  double slope[3];     // of the field's potential, minus its share times E
  bool has_mean_origin;
  D center[3];        // the mean of the positions of all atoms
  const D *places;    // [receivers][3] unwrapped positions

  // n . (r - r0) of a receiver.
  EQUI_FUNCTION D height(int64_t i) const {
    D sum(0.0);
    for (int a = 0; a < 3; a++) sum += D(normal[a]) * (places[3 * i + a] - center[a]);
    return sum;
  }
  // From the origin of the field's potential.
  EQUI_FUNCTION D from_origin(int64_t i, int a) const {
    return has_mean_origin ? places[3 * i + a] - center[a] : places[3 * i + a];
  }
};

// Numbers of a receiver and channel: q or g0, n . (r - r0) times that, and p or g1. They are sums over widths.
constexpr int UNIFORM_SUMS = 5;
template <class D>
struct SumsOfUniform {
  UniformFields<D> fields;
  int num_widths;         // of these multipoles: 1 for sources
  const D *multipoles;    // [receivers][channels][widths][4]
  D *rows;                // [receivers][channels][UNIFORM_SUMS]
  EQUI_FUNCTION void operator()(int64_t k) const {
    D sum[4];
    for (int n = 0; n < 4; n++) {
      sum[n] = D(0.0);
      for (int w = 0; w < num_widths; w++) sum[n] += multipoles[4 * (k * num_widths + w) + n];
    }
    D *to = rows + UNIFORM_SUMS * k;
    to[0] = sum[0];
    to[1] = sum[0] * fields.height(k / fields.channels);
    for (int a = 0; a < 3; a++) to[2 + a] = sum[1 + a];
  }
};

// Adds the potential, and its gradient, of the other side's dipoles along the normal and of the field.
template <class D>
struct FeltInUniform {
  UniformFields<D> fields;
  int num_widths;    // of those that feel it: 1 for sources, which do not feel the field
  bool has_field;
  const D *along;    // [channels], sums of the other side over all atoms
  D *felt;           // [receivers][channels][widths][4]
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int64_t plane = k / num_widths, i = plane / fields.channels;
    D *to = felt + 4 * k;
    if (fields.slab > 0.0) {
      const D field = D(fields.slab) * along[plane % fields.channels];
      to[0] += field * fields.height(i);
      for (int a = 0; a < 3; a++) to[1 + a] += D(fields.normal[a]) * field;
    }
    for (int a = 0; has_field && a < 3; a++) {
      to[0] += D(fields.slope[a]) * fields.from_origin(i, a);
      to[1 + a] += D(fields.slope[a]);
    }
  }
};

// Derivatives of a receiver. The energy of channel c is, besides constants, (prefactor/V) D_c G_c of the slab and the
// sum of -share E . (r - o) g0. Moving all atoms together changes neither, if their mean is the origin.
template <class D>
struct SlopesOfUniform {
  UniformFields<D> fields;
  D slab_mean, field_mean[3];               // what the mean of the positions takes from each atom
  D strain_of_all[SYMMETRIC];               // each atom's share of what belongs to no atom
  const D *along_sources, *along_probes;    // [channels]
  const D *sources, *probes;
  D *gradient, *strains;    // [receivers][3], [receivers][SYMMETRIC]
  EQUI_FUNCTION void operator()(int64_t i) const {
    D of_field[3] = {D(0.0), D(0.0), D(0.0)}, of_slab = -slab_mean;
    for (int c = 0; c < fields.channels; c++) {
      const int64_t plane = i * fields.channels + c;
      D probe(0.0);
      for (int w = 0; w < fields.num_widths; w++) probe += probes[4 * (plane * fields.num_widths + w)];
      for (int a = 0; a < 3; a++) of_field[a] += D(fields.slope[a]) * probe;
      if (fields.slab > 0.0)
        of_slab += D(fields.slab) * (along_sources[c] * probe + along_probes[c] * sources[4 * plane]);
    }
    for (int a = 0; a < 3; a++) gradient[3 * i + a] = of_field[a] - field_mean[a] + D(fields.normal[a]) * of_slab;
    for (int n = 0; n < SYMMETRIC; n++) {
      const int a = first_of_symmetric(n), b = second_of_symmetric(n);
      strains[SYMMETRIC * i + n] =
          strain_of_all[n] + D(0.5) * (fields.from_origin(i, a) * of_field[b] + fields.from_origin(i, b) * of_field[a]);
    }
  }
};

// System: SystemOnHost<D> or SystemOnDevice<D>. The atoms of all ranks enter by a few sums.
template <class System>
class UniformPotential {
  using D = typename System::Number;
  using Work = typename System::Work;
  template <class N>
  using Array = typename System::template Array<N>;

 public:
  explicit UniformPotential(const Potential &layer) : layer_(layer) {}

  // Adds to what the probes feel, [count][channels][widths][4]; sources [count][channels][4]. Collective.
  void evaluate(System &sums, const Work &work, const typename System::System &system, Boundary boundary, int count,
                const D *sources, D *felt, GhostExchange &exchange) {
    const PeriodicBox &box = box_of(system);
    fields_ = {};
    fields_.channels = layer_.channels;
    fields_.num_widths = static_cast<int>(layer_.function.widths.size());
    if (boundary == Boundary::slab) {
      fields_.slab = layer_.function.prefactor / cell_volume(box.vectors);
      const Vector3 normal = cross(box.vectors[0], box.vectors[1]);
      for (int a = 0; a < 3; a++) fields_.normal[a] = normal[a] / std::sqrt(dot(normal, normal));
    }
    if (!is_used()) return;
    if (System::cell_direction(system) && boundary != Boundary::open)
      throw EvaluationError("derivatives by a strain are not known for a slab and for charges in a field", -1, -1, 0.0);
    for (int a = 0; layer_.has_field() && a < 3; a++) fields_.slope[a] = -layer_.of_field->share * layer_.field[a];
    fields_.has_mean_origin = layer_.has_field() && layer_.of_field->has_mean_origin;

    D *places = places_.reserve(3 * static_cast<int64_t>(count)), *total = totals_.reserve(4);
    System::unwrapped_positions(work, system, count, places);
    fields_.places = places;
    sums.sum_rows(work, places, count, 3, total);
    System::for_numbers(work, "equi:num_atoms", 1, PutNumber<D>{D(static_cast<double>(count)), total + 3});
    const D *of_all = sums.sum_over_ranks(work, total, 4, exchange);
    num_atoms_ = value_of(of_all[3]);
    for (int a = 0; num_atoms_ > 0.0 && a < 3; a++) fields_.center[a] = of_all[a] / D(num_atoms_);

    if (is_slab()) of_sources_ = channel_sums(sums, work, count, sources, 1, along_sources_, exchange);
    System::for_numbers(work, "equi:uniform", static_cast<int64_t>(count) * layer_.channels * fields_.num_widths,
                        FeltInUniform<D>{fields_, fields_.num_widths, layer_.has_field(), along_sources_.data(), felt});
  }
  // Adds to what the sources feel, to forces and to virials. Follows evaluate() at the same positions. Collective.
  void evaluate_adjoint(System &sums, const Work &work, const typename System::System &system, int count,
                        const D *sources, const D *probes, D *felt, GhostExchange &exchange) {
    if (!is_used()) return;
    const std::vector<Channel> of_probes =
        channel_sums(sums, work, count, probes, fields_.num_widths, along_probes_, exchange);
    if (is_slab())
      System::for_numbers(work, "equi:uniform", static_cast<int64_t>(count) * layer_.channels,
                          FeltInUniform<D>{fields_, 1, false, along_probes_.data(), felt});
    if (!AtomDerivatives<System>::needs_any(system)) return;
    derivatives_.reserve(count);
    System::for_numbers(work, "equi:unif_slope", count, slopes(of_probes, sources, probes));
    derivatives_.subtract(sums, work, system, count);
  }

  auto members() const { return std::tie(places_, totals_, rows_, along_sources_, along_probes_, derivatives_); }
  std::size_t least_bytes(int count) const {
    return count * sizeof(D) * (3 + AtomDerivatives<System>::NUMBERS + UNIFORM_SUMS * layer_.channels);
  }

 private:
  struct Channel {
    D charge, along;    // sums over all atoms: q or g0; the dipole along the normal, with n . (r - r0) times these
    D vector[3];        // p or g1
  };
  bool is_slab() const { return fields_.slab > 0.0; }
  bool is_used() const { return is_slab() || layer_.has_field(); }

  // Sums of a side over the atoms of all ranks, by channel.
  std::vector<Channel> channel_sums(System &sums, const Work &work, int count, const D *multipoles, int num_widths,
                                    Array<D> &along, GhostExchange &exchange) {
    const int64_t num = static_cast<int64_t>(count) * layer_.channels, width = UNIFORM_SUMS * layer_.channels;
    D *rows = rows_.reserve(UNIFORM_SUMS * num + width), *total = rows + UNIFORM_SUMS * num;
    System::for_numbers(work, "equi:unif_rows", num, SumsOfUniform<D>{fields_, num_widths, multipoles, rows});
    sums.sum_rows(work, rows, count, static_cast<int>(width), total);
    const D *from = sums.sum_over_ranks(work, total, width, exchange);
    std::vector<Channel> channels;
    std::vector<D> dipoles;
    for (int c = 0; c < layer_.channels; c++, from += UNIFORM_SUMS) {
      D sum = from[1];
      for (int a = 0; a < 3; a++) sum += D(fields_.normal[a]) * from[2 + a];
      channels.push_back({from[0], sum, {from[2], from[3], from[4]}});
      dipoles.push_back(sum);
    }
    System::copy(work, dipoles, along);
    return channels;
  }

  SlopesOfUniform<D> slopes(const std::vector<Channel> &of_probes, const D *sources, const D *probes) const {
    SlopesOfUniform<D> slopes{};
    slopes.fields = fields_;
    const D by_atoms(num_atoms_ > 0.0 ? 1.0 / num_atoms_ : 0.0);
    D energy(0.0), turned[SYMMETRIC] = {};
    for (int c = 0; c < layer_.channels; c++) {
      const Channel &probe = of_probes[c];
      for (int a = 0; fields_.has_mean_origin && a < 3; a++)
        slopes.field_mean[a] += by_atoms * D(fields_.slope[a]) * probe.charge;
      if (!is_slab()) continue;
      const Channel &source = of_sources_[c];
      slopes.slab_mean += by_atoms * D(fields_.slab) * (source.along * probe.charge + probe.along * source.charge);
      energy += D(fields_.slab) * source.along * probe.along;
      // The normal turns with the strain, and dipoles do not.
      for (int n = 0; n < SYMMETRIC; n++) {
        const int a = first_of_symmetric(n), b = second_of_symmetric(n);
        const auto along_both = [&](const D *p) {
          return D(0.5) * (D(fields_.normal[a]) * p[b] + D(fields_.normal[b]) * p[a]);
        };
        turned[n] +=
            D(fields_.slab) * (source.along * along_both(probe.vector) + probe.along * along_both(source.vector));
      }
    }
    for (int n = 0; is_slab() && n < SYMMETRIC; n++) {
      const int a = first_of_symmetric(n), b = second_of_symmetric(n);
      const D share(2.0 * fields_.normal[a] * fields_.normal[b] - (a == b ? 1.0 : 0.0));
      slopes.strain_of_all[n] = by_atoms * (share * energy - turned[n]);
    }
    slopes.along_sources = along_sources_.data();
    slopes.along_probes = along_probes_.data();
    slopes.sources = sources;
    slopes.probes = probes;
    slopes.gradient = derivatives_.gradient();
    slopes.strains = derivatives_.strains();
    return slopes;
  }

  Potential layer_;
  UniformFields<D> fields_{};
  double num_atoms_ = 0.0;    // of all ranks
  std::vector<Channel> of_sources_;
  Array<D> places_, totals_, rows_, along_sources_, along_probes_;
  AtomDerivatives<System> derivatives_;
};

}    // namespace equi

#endif
