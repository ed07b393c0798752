// SPDX-License-Identifier: MIT
// Rows of features in device memory: their order by species, and operations that several layers share.
#ifndef EQUI_DEVICE_ROWS_H
#define EQUI_DEVICE_ROWS_H

#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/runtime/device_exec.h"

namespace equi {

// Sets some planes of `count` rows of a group to 0.
template <class R>
void zero_planes(const DeviceExec &exec, int64_t count, const FeatureGroup &group, Planes planes, R *rows);
// Set some planes of `count` rows to 0, copy those of other rows to them, or add those of other rows.
template <class R>
void zero_planes(const DeviceExec &exec, int64_t count, const FeatureLayout &layout, Planes planes,
                 FeatureRows<R> rows);
template <class R>
void copy_planes(const DeviceExec &exec, int64_t count, const FeatureLayout &layout, Planes planes,
                 FeatureRows<const R> from, FeatureRows<R> to);
template <class R>
void add_planes(const DeviceExec &exec, int64_t count, const FeatureLayout &layout, Planes planes,
                FeatureRows<const R> from, FeatureRows<R> to);

// Copies or adds rows of `result` (one per species) to y.
template <class T>
void copy_species_rows(const DeviceExec &exec, int64_t count, const FeatureLayout &layout, FeatureRows<const T> result,
                       const int *species, FeatureRows<T> y, bool add);

// Sets to[i] = value[species[i]]. D: double, or a Dual of it.
template <class D>
void fill_by_species(const DeviceExec &exec, int64_t count, const int *species, const double *value, D *to);

// Makes the SpeciesOrder of each batch. Batch k has rows first_row[k] .. first_row[k+1] - 1; begin
// [batches][num_species + 1]; order [rows] by batch. All are in device memory.
void order_by_species(const DeviceExec &exec, int num_batches, const int *first_row, const int *species,
                      int num_species, int *begin, int *order);

}    // namespace equi

#endif
