// SPDX-License-Identifier: MIT
// Builds Gaunt products as products of blocks channel by channel.
#include "src/algebra/gaunt_product.h"

#include "src/algebra/coupling.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>

namespace equi {

namespace {

void require_different_orders(const char *what, const Irreps &irreps, const std::vector<int> &blocks) {
  std::set<int> orders;
  for (const int b : blocks)
    if (!orders.insert(irreps[b].irrep.l).second)
      throw std::invalid_argument(std::string("expected blocks of different orders in ") + what +
                                  ", found two of order " + std::to_string(irreps[b].irrep.l));
}

}    // namespace

// The mean and w are proportional. Between the components m = 0, whose harmonics are sqrt(2l+1) P_l, the mean is
// sqrt(product of all 2l+1) 3j(l1,l2,l3;0,0,0)^2. There w is this 3j symbol up to its sign.
double gaunt_scale(int l1, int l2, int l3) {
  if ((l1 + l2 + l3) % 2 != 0) return 0.0;
  const int d1 = 2 * l1 + 1, d2 = 2 * l2 + 1, d3 = 2 * l3 + 1;
  const double w = coupling(l1, l2, l3)[(static_cast<size_t>(l1) * d2 + l2) * d3 + l3];
  return std::sqrt(static_cast<double>(d1) * d2 * d3) * w;
}

ChannelwiseProduct gaunt_product(const Irreps &irreps_in, const SphereFunctions &of_blocks, const Irreps &irreps_out) {
  SphereFunctions functions = of_blocks;
  std::sort(functions.first.begin(), functions.first.end());
  std::sort(functions.second.begin(), functions.second.end());
  std::vector<int> outputs(irreps_out.size());
  std::iota(outputs.begin(), outputs.end(), 0);
  require_different_orders("the first function", irreps_in, functions.first);
  require_different_orders("the second function", irreps_in, functions.second);
  require_different_orders("the output", irreps_out, outputs);
  std::vector<ChannelwisePath> paths;
  for (const int i : functions.first)
    for (const int j : functions.second)
      for (const int k : outputs) {
        const Irrep a = irreps_in[i].irrep, b = irreps_in[j].irrep, c = irreps_out[k].irrep;
        if ((a.l + b.l + c.l) % 2 != 0 || c.l < std::abs(a.l - b.l) || c.l > a.l + b.l) continue;
        if (a.p * b.p != c.p)
          throw std::invalid_argument("expected an output block of the parity that " +
                                      Irreps({{1, a}, {1, b}}).to_string() + " make, found " +
                                      Irreps({{1, c}}).to_string());
        paths.push_back({i, j, k, gaunt_scale(a.l, b.l, c.l)});
      }
  if (paths.empty()) throw std::invalid_argument("expected functions whose product has an order of the output");
  return {irreps_in, irreps_out, paths, functions};
}

ChannelwiseProduct gaunt_product(int channels, int lmax1, int lmax2, int lmax_out) {
  std::vector<IrrepBlock> in, out;
  SphereFunctions functions;
  for (int l = 0; l <= lmax1; ++l) {
    functions.first.push_back(static_cast<int>(in.size()));
    in.push_back({channels, {l, l % 2 ? -1 : 1}});
  }
  for (int l = 0; l <= lmax2; ++l) {
    functions.second.push_back(static_cast<int>(in.size()));
    in.push_back({channels, {l, l % 2 ? -1 : 1}});
  }
  for (int l = 0; l <= lmax_out; ++l) out.push_back({channels, {l, l % 2 ? -1 : 1}});
  return gaunt_product(Irreps(in), functions, Irreps(out));
}

}    // namespace equi
