// SPDX-License-Identifier: MIT
// Kernels on rows of features in device memory, and their order by species.
#include "kokkos/layer_interface/device_rows.h"

#include "kokkos/kernel_interface/place_in_rows.h"

namespace equi {

template <class R>
void zero_planes(const DeviceExec &exec, int64_t count, const FeatureGroup &group, Planes planes, R *rows) {
  const NumbersOfPlanes numbers(group, planes);
  const int64_t n = count * numbers.per_row;
  if (group.is_all(planes)) return device_zero(exec, rows, n);    // the memory has no gaps
  Kokkos::parallel_for(
      "equi:zero_planes", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t k) { rows[numbers(k)] = R(0); });
}

template <class R>
void zero_planes(const DeviceExec &exec, int64_t count, const FeatureLayout &layout, Planes planes,
                 FeatureRows<R> rows) {
  for (const FeatureGroup &group : layout.groups()) zero_planes(exec, count, group, planes, rows.group(group));
}

// Copies, or adds.
template <class R>
void take_planes(const DeviceExec &exec, int64_t count, const FeatureLayout &layout, Planes planes,
                 FeatureRows<const R> from_rows, FeatureRows<R> to_rows, bool add) {
  for (const FeatureGroup &group : layout.groups()) {
    const NumbersOfPlanes numbers(group, planes);
    const int64_t n = count * numbers.per_row;
    const R *from = from_rows.group(group);
    R *to = to_rows.group(group);
    if (!group.is_all(planes))
      Kokkos::parallel_for(
          add ? "equi:add_planes" : "equi:copy_planes", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t k) {
            const int64_t at = numbers(k);
            to[at] = add ? to[at] + from[at] : from[at];
          });
    else if (add)    // the memory has no gaps
      device_add(exec, to, from, n);
    else
      device_copy(exec, to, from, n);
  }
}

template <class R>
void copy_planes(const DeviceExec &exec, int64_t count, const FeatureLayout &layout, Planes planes,
                 FeatureRows<const R> from, FeatureRows<R> to) {
  take_planes(exec, count, layout, planes, from, to, false);
}

template <class R>
void add_planes(const DeviceExec &exec, int64_t count, const FeatureLayout &layout, Planes planes,
                FeatureRows<const R> from, FeatureRows<R> to) {
  take_planes(exec, count, layout, planes, from, to, true);
}

template <class T>
void copy_species_rows(const DeviceExec &exec, int64_t count, const FeatureLayout &layout, FeatureRows<const T> result,
                       const int *species, FeatureRows<T> y, bool add) {
  for (const FeatureGroup &group : layout.groups()) {
    const int width = group.width();
    const T *from = result.group(group);
    T *to = y.group(group);
    Kokkos::parallel_for(
        "equi:species_rows", DeviceRange(exec, 0, count * width), KOKKOS_LAMBDA(int64_t k) {
          const PlaceInRows place = place_in_rows(k, width);
          const T f = from[static_cast<int64_t>(species[place.row]) * width + place.column];
          to[k] = add ? to[k] + f : f;
        });
  }
}

template <class D>
void fill_by_species(const DeviceExec &exec, int64_t count, const int *species, const double *value, D *to) {
  Kokkos::parallel_for(
      "equi:fill_by_species", DeviceRange(exec, 0, count), KOKKOS_LAMBDA(int64_t i) { to[i] = value[species[i]]; });
}

// Runs a team per batch, species by species.
void order_by_species(const DeviceExec &exec, int num_batches, const int *first_row, const int *species,
                      int num_species, int *begin, int *order) {
  using Policy = DeviceTeams<>;
  Kokkos::parallel_for(
      "equi:species_order", Policy(exec, num_batches, DeviceTraits<>::TEAM),
      KOKKOS_LAMBDA(const typename Policy::member_type &team) {
        const int batch = team.league_rank(), first = first_row[batch], count = first_row[batch + 1] - first;
        int *to = begin + batch * (num_species + 1);
        int before = 0;
        for (int s = 0; s < num_species; s++) {
          Kokkos::single(Kokkos::PerTeam(team), [&]() { to[s] = before; });
          Kokkos::parallel_scan(Kokkos::TeamThreadRange(team, count), [&](int a, int &place, bool is_final) {
            if (species[first + a] != s) return;
            if (is_final) order[first + before + place] = a;
            place++;
          });
          int of_species = 0;
          Kokkos::parallel_reduce(
              Kokkos::TeamThreadRange(team, count), [&](int a, int &sum) { sum += species[first + a] == s; },
              of_species);
          before += of_species;
        }
        Kokkos::single(Kokkos::PerTeam(team), [&]() { to[num_species] = before; });
      });
}

#define EQUI_INSTANTIATE(T)                                                                                   \
  template void copy_species_rows(const DeviceExec &, int64_t, const FeatureLayout &, FeatureRows<const T>,   \
                                  const int *, FeatureRows<T>, bool);                                         \
  template void zero_planes(const DeviceExec &, int64_t, const FeatureGroup &, Planes, T *);                  \
  template void zero_planes(const DeviceExec &, int64_t, const FeatureLayout &, Planes, FeatureRows<T>);      \
  template void copy_planes(const DeviceExec &, int64_t, const FeatureLayout &, Planes, FeatureRows<const T>, \
                            FeatureRows<T>);                                                                  \
  template void add_planes(const DeviceExec &, int64_t, const FeatureLayout &, Planes, FeatureRows<const T>,  \
                           FeatureRows<T>);
EQUI_INSTANTIATE(float)
EQUI_INSTANTIATE(double)
#undef EQUI_INSTANTIATE
template void fill_by_species(const DeviceExec &, int64_t, const int *, const double *, double *);
template void fill_by_species(const DeviceExec &, int64_t, const int *, const double *, Dual<double> *);

}    // namespace equi
