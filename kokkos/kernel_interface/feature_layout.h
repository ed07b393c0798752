// SPDX-License-Identifier: MIT
// How a feature lies in memory during an evaluation.
//
// Adjacent blocks of one irrep form a *group*. A group of R rows is an array [R][2l+1][planes][channels], channel
// fastest (one plane, or for duals a plane of values and one of tangents for each direction), so that SIMD and GPU
// lanes run over channels and a dense product on a group is one plain matrix product with R*(2l+1)*planes rows. The
// groups of a feature follow one another: group g begins at R * group(g).offset. Every block's channels are padded with
// zeros to a multiple of CHANNEL_PAD, so that no kernel has a remainder loop and all rows are aligned to 64 bytes.
#ifndef EQUI_FEATURE_LAYOUT_H
#define EQUI_FEATURE_LAYOUT_H

#include "kokkos/kernel_interface/path_group_kernel.h"
#include "src/algebra/irreps.h"

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
};
constexpr Planes VALUES{0, 1};

struct FeatureGroup {
  Irrep irrep;
  int channels = 0;    // padded, of all its blocks
  int offset = 0;      // numbers per row in the groups before this one
  int planes = 1;
  int stride() const { return planes * channels; }    // between components
  int width() const { return irrep.dim() * stride(); }

  bool is_all(Planes p) const { return p.count() == planes; }
  // f(first, count) for the contiguous numbers of a row in these planes.
  template <class F>
  void for_numbers(Planes p, const F &f) const {
    if (is_all(p)) return f(0, width());
    for (int m = 0; m < irrep.dim(); m++) f(p.begin * channels + m * stride(), p.count() * channels);
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
  explicit FeatureLayout(const Irreps &irreps, int planes = 1) {
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

 private:
  std::vector<FeatureGroup> groups_;
  std::vector<FeatureBlock> blocks_;
  int row_size_ = 0;
};

}    // namespace equi

#endif
