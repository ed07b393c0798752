// One convolution of a model on a device: what convolution_op.h and the host kernels do on a host.
//
// A group of lanes owns an atom and an *item*, up to 32 channels of one path (of one input block, where the adjoints of
// senders are gathered). Items are the slow index of a launch, so that the blocks that run side by side read one slice
// of the radial table, which then stays in the first-level cache: the table is what these kernels read most.
// Derivatives by an edge leave every item as a few numbers per edge and are added up afterwards in the order of items,
// so that results repeat bit by bit.
#ifndef EQUI_DEVICE_CONVOLUTION_H
#define EQUI_DEVICE_CONVOLUTION_H

#include "convolution_op.h"
#include "device_exec.h"
#include "node_ops.h"

#include <vector>

namespace equi {

// Some atoms with all their edges, as receivers or as senders. Arrays in device memory.
struct DeviceConvChunk {
  int num_atoms;
  const int64_t *begin;    // [num_atoms + 1] positions of the atoms' edges
  int64_t first, count;    // begin[0] and begin[num_atoms] - begin[0]
  const int64_t *edge;     // [position] the edge; null: the position itself
  const int *other_row;    // [position] row of the atom at the other end
};

// Memory that all convolutions share; it is filled for one chunk at a time.
template <class Exec, class T>
struct DeviceConvScratch {
  DeviceBuffer<Exec, int> table_row;
  DeviceBuffer<Exec, T> coefficients, m, parts, exact_rows;
  DeviceBuffer<Exec, double> distance;
  std::vector<double> host_distance;
  std::vector<T> host_rows, host_coefficients;
  std::vector<int> host_table_row;
  std::size_t bytes() const {
    return table_row.bytes() + coefficients.bytes() + m.bytes() + parts.bytes() + exact_rows.bytes() + distance.bytes();
  }
};

template <class Exec, class T>
class DeviceConvolution {
 public:
  using Scratch = DeviceConvScratch<Exec, T>;
  DeviceConvolution(const Exec &exec, const Convolution &convolution, const FeatureLayout &in, const FeatureLayout &out,
                    const EvaluatorOptions &options);

  const ConvolutionOp<T> &host() const { return op_; }

  // Each of the following three needs the chunk prepared: radial coefficients, and couplings contracted with the
  // harmonics unless for backward. distance and y [E][num_y] are indexed by edge.
  template <class G>
  void prepare(const Exec &exec, const DeviceConvChunk &chunk, const G *distance, const T *y, bool with_couplings,
               Scratch &scratch) const;

  // Writes the outputs of the chunk's atoms, receivers; x: the input feature with all its rows.
  void forward(const Exec &exec, const DeviceConvChunk &chunk, FeatureRows<const T> x, FeatureRows<T> out,
               Scratch &scratch) const;

  // y_adj [E][num_y] += derivatives by the edges, slot 0 by the distance.
  template <class G>
  void backward(const Exec &exec, const DeviceConvChunk &chunk, FeatureRows<const T> x, FeatureRows<const T> out_adj,
                const T *y, G *y_adj, Scratch &scratch) const;

  // x_adj += adjoints of the chunk's atoms, senders; out_adj: the cotangent of the output with all its rows.
  void gather_senders(const Exec &exec, const DeviceConvChunk &chunk, FeatureRows<const T> out_adj,
                      FeatureRows<T> x_adj, Scratch &scratch) const;

  std::size_t bytes() const;

  // What the kernels know of a path; also its input block.
  struct Path {
    int l1, l2, l3;
    int64_t first_column;           // weights before its unit's: the unit's slabs begin at rows * first_column
    int row_stride, lane;           // numbers per row of a slab; this path's first in it
    int m_offset;                   // first number in the record of contracted couplings
    int terms;                      // first entry of D in d_begin
    int64_t in_group, out_group;    // numbers per row before the group
    int in_width, in_channels, in_channel;
    int out_width, out_channels, out_channel;
  };
  struct Item {
    int first_path, num_paths;
    int channel, channels;
    int part;    // numbers per position before this item's derivatives
  };
  // One of the numbers that add up to a derivative by an edge.
  struct PartOfSum {
    int part, width, index;
  };

 private:
  int rows_per_bin() const { return op_.rows_per_bin(); }
  int64_t table_rows(const DeviceConvChunk &chunk) const { return op_.exact() ? 2 * chunk.count : op_.num_rows(); }

  ConvolutionOp<T> op_;
  int lmax_ = 0, num_y_ = 1, m_size_ = 0, part_size_ = 0, num_path_items_ = 0, num_unit_items_ = 0, num_paths_ = 0;
  DeviceBuffer<Exec, Path> paths_;
  DeviceBuffer<Exec, Item> path_items_, unit_items_;
  // M[k] = sum over m_begin[k]..m_begin[k+1] of m_value y[m_y], D likewise with the components of the cotangent.
  DeviceBuffer<Exec, int> m_begin_, m_y_, d_begin_, d_m_;
  DeviceBuffer<Exec, T> m_value_, d_value_;
  // Derivative k of an edge is the sum of parts sum_begin[k]..sum_begin[k+1].
  DeviceBuffer<Exec, int> sum_begin_;
  DeviceBuffer<Exec, PartOfSum> sum_parts_;
  DeviceBuffer<Exec, RadialTable::Piece> pieces_;
  DeviceBuffer<Exec, T> table_;
};

}    // namespace equi

#endif
