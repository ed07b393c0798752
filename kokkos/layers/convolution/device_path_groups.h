// SPDX-License-Identifier: MIT
// The path groups of a convolution on a device and the launches of their kernels, for weights from any source. A
// launch of a generated kernel does several path groups (device_path_group.h). Path groups without a generated
// kernel use the generic one, with a launch each.
#ifndef EQUI_DEVICE_PATH_GROUPS_H
#define EQUI_DEVICE_PATH_GROUPS_H

#include "kokkos/device_kernels/device_generic_path_group.h"
#include "kokkos/geometry/device_edges.h"
#include "kokkos/kernel_interface/device_path_group.h"
#include "kokkos/kernel_libraries/convolution_tables.h"
#include "kokkos/runtime/device_exec.h"

#include <array>
#include <string>
#include <tuple>
#include <vector>

namespace equi {

// The planes of features that kernels use: for plain numbers one of the input and one of the output, for duals
// values and tangents.
struct PathGroupPlanes {
  int x = 0, out = 0;
  int tangents = 1;
  // For duals along a direction.
  static PathGroupPlanes along(int direction) { return {0, 0, 1 + direction}; }
};

// The path groups of a convolution in device memory, and the launches of their kernels. Kernel:
// DevicePathGroupKernel<T> or DeviceEdgeKernel<T>. The tables must outlive this object.
template <class T, class Kernel>
class DevicePathGroups {
 public:
  // kernels: those to choose from, besides the generic one.
  using Kernels = std::vector<const Kernel *>;
  DevicePathGroups(const DeviceExec &exec, const ConvolutionTables<T> &product, int rows_per_bin,
                   const Kernels &kernels);
  int num_generic() const;
  int num_launches() const { return static_cast<int>(launches_.size()); }    // launches of a pass
  bool has_fused() const;                                                    // whether kernels for that pass exist

  // Numbers per edge of coupled harmonics, and of the parts of its derivatives that a backward pass leaves
  // (DevicePathGroupCall::parts).
  int coupled_width() const { return coupled_width_; }
  int part_size() const { return part_size_; }

  // Whether any kernel reads coupled harmonics, and whether any computes its entries of M from harmonics.
  bool reads_coupled() const;
  bool reads_harmonics() const;
  // Computes coupled [count][coupled_width] for a batch's edges from y, rows of harmonics [E].
  void couple_harmonics(const DeviceExec &exec, const DeviceBatchEdges &batch, const T *y, T *coupled) const;

  // Runs the kernels of all path groups. `call` has what does not depend on the path group, and the arrays of all
  // path groups. prepare(call, path group, paths, their number, numbers before the input block) sets the rest.
  // out_row: the first row of paths' outputs.
  template <PathGroupPass PASS, class F>
  void launch(const DeviceExec &exec, const DevicePathGroupCall<T> &call, int64_t x_rows, int64_t out_rows,
              int64_t out_row, const PathGroupPlanes &planes, const F &prepare) const;

  // Derivative k of an edge from what a backward pass left: the sum of parts begin[k]..begin[k+1].
  struct PartOfSum {
    int part, width, index;
  };
  struct Sums {
    const int *begin;
    const PartOfSum *sum;
    const T *parts;
    int64_t num_edges;
    // total[n] += the derivative of edge c + n * distance, if it is wanted. These edges wait for memory together.
    // They share the instructions that find the parts, which are most of the instructions.
    template <int N>
    KOKKOS_FUNCTION void add(int64_t c, int64_t distance, const bool (&wanted)[N], int k, T (&total)[N]) const {
      for (int t = begin[k]; t < begin[k + 1]; t++) {
        const T *part = parts + (num_edges * sum[t].part + c * sum[t].width + sum[t].index);
        const int64_t step = distance * sum[t].width;
        T number[N];
        EQUI_UNROLL for (int n = 0; n < N; n++, part += step) number[n] = wanted[n] ? *part : T(0);
        EQUI_UNROLL for (int n = 0; n < N; n++) total[n] += number[n];
      }
    }
    // The derivative of edge c.
    KOKKOS_FUNCTION T operator()(int64_t c, int k) const {
      T total[1] = {T(0)};
      add<1>(c, 0, {true}, k, total);
      return total[0];
    }
  };
  Sums sums(const T *parts, int64_t num_edges) const {
    return {sum_begin_.data(), sum_parts_.data(), parts, num_edges};
  }

  auto members() const {
    return std::tie(coupled_begin_, coupled_y_, coupled_value_, generic_paths_, entries_, couplings_, sum_begin_,
                    sum_parts_);
  }

 private:
  // A path group, or some paths of one without a generated kernel.
  struct Part {
    bool is_generic;
    int path_group, first_path, num_paths;    // first_path: in the tables
    int generic_path;                         // first one in generic_paths_
    int part;                                 // numbers per edge before its derivatives
  };
  // Parts that share one launch, in the order of the kernel; -1: none.
  struct Launch {
    const Kernel *kernel;    // null: the generic one, for a single part
    std::array<int, MAX_LAUNCH_PATH_GROUPS> parts;
  };
  // Chooses launches for path groups with these keys; each path group is in at most one of them.
  static std::vector<Launch> choose_launches(std::vector<std::string> keys, const Kernels &kernels);
  void number_parts();
  template <class F>
  DevicePathGroupCall<T> call_of(const Part &part, const DevicePathGroupCall<T> &call, int64_t x_rows, int64_t out_rows,
                                 int64_t out_row, const PathGroupPlanes &planes, const F &prepare) const;
  template <PathGroupPass PASS>
  void launch_generic(const DeviceExec &exec, const Part &part, const DevicePathGroupCall<T> &call) const;

  const ConvolutionTables<T> &tables_;
  int rows_per_bin_, num_y_ = 1, coupled_width_ = 0, part_size_ = 0;
  std::vector<Part> parts_;
  std::vector<Launch> launches_;
  std::vector<int> first_coupled_;    // per path group, in the record of an edge
  // Coupled harmonic k = sum over coupled_begin[k]..coupled_begin[k+1] of coupled_value y[coupled_y].
  DeviceBuffer<int> coupled_begin_, coupled_y_;
  DeviceBuffer<Real<T>> coupled_value_;
  DeviceBuffer<typename GenericBody<T>::Path> generic_paths_;
  DeviceBuffer<typename GenericBody<T>::Entry> entries_;
  DeviceBuffer<typename GenericBody<T>::Coupling> couplings_;
  DeviceBuffer<int> sum_begin_;
  DeviceBuffer<PartOfSum> sum_parts_;
};

}    // namespace equi

#endif
