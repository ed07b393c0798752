// SPDX-License-Identifier: MIT
// Products of functions on the sphere. A channel of blocks of different orders is the function F(n) = sum_lm x_lm
// Y_lm(n), with the harmonics of irreps.h. The Gaunt product of two channels is the projection of F G on harmonics:
// component (l, m) is the mean of F G Y_lm over the sphere. Channel by channel it is a ChannelwiseProduct with known
// scales.
#ifndef EQUI_GAUNT_PRODUCT_H
#define EQUI_GAUNT_PRODUCT_H

#include "src/algebra/channelwise_product.h"

#include <vector>

namespace equi {

// The mean of Y_l1a Y_l2b Y_l3c over the sphere is this number times w(l1,l2,l3)[a,b,c] of coupling.h, which must obey
// the triangle rule. Zero if l1 + l2 + l3 is odd. Accurate to 1e-14, relative, for l <= 8.
double gaunt_scale(int l1, int l2, int l3);

// The product of two functions, which are blocks of irreps_in, to all output blocks. Throws std::invalid_argument if
// orders repeat in a function or in irreps_out, if parities do not fit, or if no path exists. Block numbers must be
// valid; the product has them in ascending order.
ChannelwiseProduct gaunt_product(const Irreps &irreps_in, const SphereFunctions &functions, const Irreps &irreps_out);
// The same product for functions with `channels` channels of all orders up to lmax1 and lmax2 and of natural parity, p
// = (-1)^l. The blocks of the first function precede those of the second one; the output has all orders up to lmax_out.
ChannelwiseProduct gaunt_product(int channels, int lmax1, int lmax2, int lmax_out);

}    // namespace equi

#endif
