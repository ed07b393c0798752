// SPDX-License-Identifier: MIT
// The layout of a feature in memory during an evaluation.
//
// Adjacent blocks of one irrep form a *group*. A group of R rows is an array [R][2l+1][planes][channels], with the
// channel as the fastest index. It has one plane or, for duals, a plane of values and one of tangents for each
// direction. SIMD and GPU lanes therefore run over channels, and a dense product on a group is one plain matrix
// product with R*(2l+1)*planes rows. The groups of a feature follow one another: group g begins at R *
// group(g).offset. Every block's channels are padded with zeros to a multiple of CHANNEL_PAD, so kernels have no
// remainder loops and all rows are aligned to 64 bytes.
#ifndef EQUI_FEATURE_LAYOUT_H
#define EQUI_FEATURE_LAYOUT_H

#include "kokkos/kernel_interface/path_group_kernel.h"
#include "kokkos/kernel_interface/place_in_rows.h"
#include "src/algebra/irreps.h"
#include "src/numbers/host_device.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace equi {

inline int padded(int channels) {
  return (channels + CHANNEL_PAD - 1) / CHANNEL_PAD * CHANNEL_PAD;
}

// The planes that an operation works on: begin .. end - 1.
struct Planes {
  int begin, end;
  int count() const { return end - begin; }
  // In a whole evaluation these are the values or only the tangents along some directions. For duals, the values
  // come with the tangents along one direction (energy moments have four directions).
  bool tangents_alone() const { return begin > 0; }
  int num_directions() const { return std::max(1, end - 1); }
};
constexpr Planes VALUES{0, 1};
// For duals, the plane of a direction's tangents.
inline Planes plane_of(int direction) {
  return {1 + direction, 2 + direction};
}
// Calls f(planes) for the planes of the duals along a direction, among this number of planes, with as few calls as
// possible.
template <class F>
void for_planes_of_dual(int direction, int planes, const F &f) {
  if (planes == 1) return f(VALUES);
  if (direction == 0) return f(Planes{0, 2});
  f(VALUES);
  f(plane_of(direction));
}

struct FeatureGroup {
  Irrep irrep;
  int channels = 0;    // with padding, of all its blocks
  int offset = 0;      // numbers per row in the groups before this one
  int planes = 1;
  int stride() const { return planes * channels; }    // between components
  int width() const { return irrep.dim() * stride(); }
  int tangents(int direction) const { return (1 + direction) * channels; }    // for duals, after the values

  bool is_all(Planes p) const { return p.count() == planes; }
  // Calls f(first, count) for the contiguous numbers of a row in these planes.
  template <class F>
  void for_numbers(Planes p, const F &f) const {
    if (is_all(p)) return f(0, width());
    for (int m = 0; m < irrep.dim(); m++) f(p.begin * channels + m * stride(), p.count() * channels);
  }
};

// Positions of the numbers of some planes among those of a group's rows, one after another.
struct NumbersOfPlanes {
  int per_component, per_row, stride, width, first;
  NumbersOfPlanes(const FeatureGroup &group, Planes planes)
      : per_component(planes.count() * group.channels),
        per_row(group.irrep.dim() * per_component),
        stride(group.stride()),
        width(group.width()),
        first(planes.begin * group.channels) {}
  EQUI_FUNCTION int64_t operator()(int64_t n) const {
    const PlaceInRows place = place_in_rows(n, per_row);
    return place.row * width + place.column / per_component * stride + first + place.column % per_component;
  }
};

struct FeatureBlock {
  int group = 0;
  int channel = 0;    // first channel within the group
  int mul = 0;        // channels without padding
};

class FeatureLayout {
 public:
  FeatureLayout() = default;
  explicit FeatureLayout(const Irreps &irreps, int planes = 1) : planes_(planes) {
    for (const IrrepBlock &b : irreps) {
      if (groups_.empty() || groups_.back().irrep != b.irrep) groups_.push_back({b.irrep, 0, row_size_, planes});
      blocks_.push_back({static_cast<int>(groups_.size()) - 1, groups_.back().channels, b.mul});
      groups_.back().channels += padded(b.mul);
      row_size_ += padded(b.mul) * b.irrep.dim() * planes;
    }
  }
  int num_groups() const { return static_cast<int>(groups_.size()); }
  const FeatureGroup &group(int g) const { return groups_[g]; }
  const std::vector<FeatureGroup> &groups() const { return groups_; }
  const FeatureBlock &block(int b) const { return blocks_[b]; }
  int num_blocks() const { return static_cast<int>(blocks_.size()); }
  int row_size() const { return row_size_; }    // numbers per row
  int planes() const { return planes_; }

 private:
  std::vector<FeatureGroup> groups_;
  std::vector<FeatureBlock> blocks_;
  int row_size_ = 0, planes_ = 1;
};

}    // namespace equi

#endif
