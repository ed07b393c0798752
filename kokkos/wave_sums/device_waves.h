// SPDX-License-Identifier: MIT
// The wave vectors of an evaluation and its tables of powers in device memory: the counterpart of host_waves.h, with
// the sums of src/functions/wave_sum.h. Both have the same formulas, tiles and numbers.
//
// All sums run in float64 and in an order that depends only on the numbers of atoms and wave vectors, without atomic
// operations: bits repeat. Neither kernel stores a number per atom and wave vector. They use tables [atoms][powers],
// structure factors, and partial sums of a bounded number of threads. doc/gpu_roofline.rst counts operations and loads.
#ifndef EQUI_DEVICE_WAVES_H
#define EQUI_DEVICE_WAVES_H

#include "kokkos/layer_interface/device_system.h"
#include "kokkos/wave_sums/multipole_numbers.h"
#include "kokkos/wave_sums/system_waves.h"

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace equi {

// A complex number, which a GPU loads as a whole.
template <class D>
struct alignas(16) WaveNumber {
  D re, im;
};

// D: double or Dual<double>
template <class D>
class DeviceWaves : public SystemOnDevice<D> {
 public:
  using Work = DeviceExec;
  using System = DeviceSystem<D>;
  static constexpr int ROWS = 8;    // n1 whose sums are in the registers of a thread

  explicit DeviceWaves(SystemWaves vectors) : vectors_(std::move(vectors)) {}

  // The functions of HostWaves.
  void prepare(const Work &exec, const System &system, int count);
  int64_t num_changes() const { return num_changes_; }
  const SystemWaves &vectors() const { return vectors_; }
  const WaveCell<D> &cell() const { return cell_; }
  int64_t size() const { return vectors_.vectors().size(); }
  FactorPlaces places() const { return {size(), 2, 1}; }
  const WaveRows *rows() const { return rows_.data(); }    // at most ROWS n1 of a tile
  int64_t num_rows() const { return num_rows_; }
  const int8_t *present() const { return present_.data(); }
  PowersOfAtoms<D> powers() const;

  void add_up(const Work &exec, int columns, int components, const D *multipoles, D *sums);
  void gather(const Work &exec, int planes, int order, const D *factors, int64_t stride, D *fields);
  auto members() const {
    return std::tuple_cat(SystemOnDevice<D>::members(),
                          std::tie(rows_, tiles_, present_, by_atom_, by_power_, partial_sums_, partial_fields_));
  }
  std::size_t bytes_for(const CellMatrix &cell, int count, int columns, int order) const;
  std::size_t bytes_of_plane(const CellMatrix &cell) const { return vectors_.extent(cell).most * 2 * sizeof(D); }

  // Parts of prepare(), for tests of the sums without an evaluation.
  void set_vectors(const Work &exec, const CellMatrix &cell, const double (*direction)[3]);
  void tabulate(const Work &exec, int count, const int *receiver, const double *positions, const double *direction);

 private:
  using Complex = WaveNumber<D>;
  template <int ORDER>
  void gather_order(const Work &exec, int planes, const D *factors, int64_t stride, D *fields);
  static int64_t chunks_of_atoms(int64_t num_rows, int64_t count);
  static int64_t chunks_of_tiles(int64_t num_tiles, int64_t count);

  SystemWaves vectors_;
  int64_t prepared_ = 0, num_changes_ = 0;    // prepared_: DeviceSystem::step
  int count_ = 0;
  WaveCell<D> cell_{};
  int64_t num_rows_ = 0, num_tiles_ = 0;
  DeviceBuffer<WaveRows> rows_;
  DeviceBuffer<WaveVectors::Tile> tiles_;
  DeviceBuffer<int8_t> present_;                // [size]
  DeviceBuffer<Complex> by_atom_, by_power_;    // tables of powers, each in the order in which a kernel reads it
  DeviceBuffer<Complex> partial_sums_;          // [chunks of atoms][columns][size]
  DeviceBuffer<D> partial_fields_;              // [chunks of tiles][planes][numbers][atoms]
};

}    // namespace equi

#endif
