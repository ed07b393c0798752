// SPDX-License-Identifier: MIT
// The Ewald sum of src/functions/ewald_sum.h in device memory. Both have the same formulas, tiles and numbers.
//
// All sums run in float64 and in an order that depends only on the numbers of atoms and wave vectors, without atomic
// operations: bits repeat. Neither kernel stores a number per atom and wave vector. They use tables [atoms][powers],
// structure factors, and partial sums of a bounded number of threads. doc/gpu_roofline.rst counts operations and loads.
#ifndef EQUI_DEVICE_EWALD_SUM_H
#define EQUI_DEVICE_EWALD_SUM_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/runtime/device_exec.h"
#include "kokkos/runtime/device_sum.h"
#include "src/functions/ewald_cell.h"

#include <cstddef>
#include <cstdint>

namespace equi {

// A complex number, which a GPU loads as a whole.
template <class D>
struct alignas(16) EwaldNumber {
  D re, im;
};

// Consecutive n1 of a tile, for one thread per lane.
struct EwaldRows {
  int n2, first_n3, first_n1, num;
  int64_t at;    // WaveVectors::Tile
};

// D: double or Dual<double>
template <class D>
class DeviceEwaldSum {
  using Number = EwaldNumber<D>;

 public:
  static constexpr int ROWS = 8;    // n1 whose sums are in the registers of a thread

  // New integers, then a new cell; in this order if both are new.
  void set_integers(const DeviceExec &exec, const WaveVectors &waves);
  void set_cell(const DeviceExec &exec, const EwaldCell<D> &cell);
  int64_t size() const { return size_; }    // WaveVectors::size()

  // The tables of `count` atoms; receiver: their indices among positions and directions.
  void tabulate(const DeviceExec &exec, int count, const int *receiver, const double *positions,
                const double *direction);
  // Writes the structure factors of these atoms, [size()].
  void add_up(const DeviceExec &exec, int count, const D *charges, Number *structure_factors);
  // With the sums over all ranks: what all charges give to the atoms.
  void gather(const DeviceExec &exec, int count, const D *charges, const Number *structure_factors,
              EwaldAtom<D> *atoms);
  // After gather(): subtracts the atoms' derivatives by a strain, [count][6].
  void subtract_strain(const DeviceExec &exec, int count, const D *charges, double *virial) const;
  // Subtracts `share` of the derivative of the energy of all charges by a strain, [6].
  void subtract_total_strain(const DeviceExec &exec, double share, const Number *structure_factors, D *virial);

  std::size_t bytes() const;
  // Bytes for this number of atoms and, at most, these wave vectors.
  static std::size_t bytes_for(const WaveVectors::Extent &extent, int64_t count);

 private:
  static int64_t chunks_of_atoms(int64_t num_rows, int64_t count);
  static int64_t chunks_of_tiles(int64_t num_tiles, int64_t count);

  EwaldCell<D> cell_{};
  int64_t size_ = 0;
  int num_rows_ = 0, num_tiles_ = 0;
  DeviceBuffer<EwaldRows> rows_;
  DeviceBuffer<WaveVectors::Tile> tiles_;
  DeviceBuffer<int8_t> present_;               // [size]
  DeviceBuffer<D> weights_;                    // h [size], 0 where no wave vector is
  DeviceBuffer<Number> by_atom_, by_power_;    // tables of powers, each in the order in which a kernel reads it
  DeviceBuffer<Number> factors_;               // 2 h conj(S) [size]
  DeviceBuffer<Number> partial_sums_;          // [chunks of atoms][size]
  DeviceBuffer<D> partial_atoms_;              // [chunks of tiles][4][atoms]
  DeviceBuffer<D> strain_;                     // [rows][6], then their sum
  DeviceSum sum_;
};

}    // namespace equi

#endif
