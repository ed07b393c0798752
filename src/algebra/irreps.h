// SPDX-License-Identifier: MIT
// Irreducible representations of O(3) and lists of them.
//
// The conventions of the whole project, those of e3nn >= 0.5, are stated here once:
//  - An irrep is (l, p) with parity p = +1 ("e") or -1 ("o") and dimension 2l+1.
//  - Components of an irrep run m = -l..l over real spherical harmonics whose polar axis is y; for l = 1 the
//    order is x, y, z.
//  - Harmonics have "component" normalization: sum_m Y_lm(n)^2 = 2l+1.
//  - Couplings have Frobenius norm 1 and the sign of e3nn >= 0.5 (see coupling.h).
//  - A feature in a file or in e3nn is a list of blocks, block after block, index u*(2l+1) + (m+l) inside a block
//    (channel u, component m). Kernels use another order, see kokkos/kernel_interface/feature_layout.h.
#ifndef EQUI_IRREPS_H
#define EQUI_IRREPS_H

#include <string>
#include <vector>

namespace equi {

struct Irrep {
  int l = 0;
  int p = 1;    // +1 even, -1 odd
  int dim() const { return 2 * l + 1; }
  bool operator==(const Irrep &o) const { return l == o.l && p == o.p; }
  bool operator!=(const Irrep &o) const { return !(*this == o); }
};

// A block of mul channels that transform as irrep.
struct IrrepBlock {
  int mul = 0;
  Irrep irrep;
  int dim() const { return mul * irrep.dim(); }
  bool operator==(const IrrepBlock &o) const { return mul == o.mul && irrep == o.irrep; }
};

// An ordered list of blocks, neither sorted nor merged.
class Irreps {
 public:
  Irreps() = default;
  explicit Irreps(std::vector<IrrepBlock> blocks) : blocks_(std::move(blocks)) {}

  // Parses "128x0e+64x1o+2e"; throws std::invalid_argument naming the text and the offending part.
  static Irreps parse(const std::string &text);

  std::string to_string() const;
  int size() const { return static_cast<int>(blocks_.size()); }
  const IrrepBlock &operator[](int i) const { return blocks_[i]; }
  auto begin() const { return blocks_.begin(); }
  auto end() const { return blocks_.end(); }
  int dim() const;                // number of components of one feature
  int offset(int block) const;    // first component of a block in the e3nn order
  int lmax() const;               // -1 if empty
  bool operator==(const Irreps &o) const { return blocks_ == o.blocks_; }
  bool operator!=(const Irreps &o) const { return !(*this == o); }

 private:
  std::vector<IrrepBlock> blocks_;
};

}    // namespace equi

#endif
