// SPDX-License-Identifier: MIT
// Coupling tensors compared with stored values of e3nn, and the laws that define them.
#include "src/algebra/coupling.h"

#include "src/algebra/spherical_harmonics.h"

#include <gtest/gtest.h>
#include <cmath>
#include <cstdlib>

using namespace equi;

namespace {

constexpr double TOLERANCE = 1e-14;    // the promise of coupling.h, per entry

size_t index(int l2, int l3, int a, int b, int c) {
  return (static_cast<size_t>(a) * (2 * l2 + 1) + b) * (2 * l3 + 1) + c;
}

// Sum of entries times cos(1), cos(2), ... in row-major order: sensitive to every entry, its sign and its place.
double fingerprint(int l1, int l2, int l3) {
  double sum = 0.0, k = 1.0;
  for (double v : coupling(l1, l2, l3)) sum += v * std::cos(k++);
  return sum;
}

struct Fingerprint {
  int l1, l2, l3;
  double value;
};

// e3nn 0.6.0, Python, float64: for each (a, b, c)
//   w = o3.wigner_3j(a, b, c).flatten(); (w * torch.cos(torch.arange(len(w)) + 1.0)).sum()
constexpr Fingerprint E3NN[] = {
    {0, 0, 0, 0.5403023058681398},   {0, 1, 1, -0.05032518109307527}, {0, 2, 2, 1.870049933091614},
    {0, 3, 3, -0.1341063166912467},  {0, 4, 4, 0.2920392128812342},   {1, 0, 1, -0.05032518109307527},
    {1, 1, 0, -0.05032518109307527}, {1, 1, 1, 0.2907543384125018},   {1, 1, 2, 0.2510744812226701},
    {1, 2, 1, -0.5277717541273061},  {1, 2, 2, -0.1909483660808061},  {1, 2, 3, -0.9910442209193022},
    {1, 3, 2, -1.408117049459675},   {1, 3, 3, -0.6467291976742485},  {1, 3, 4, 0.496068216730392},
    {1, 4, 3, 0.04535377892425749},  {1, 4, 4, -0.09362313815612791}, {2, 0, 2, 1.870049933091614},
    {2, 1, 1, -0.473931758169007},   {2, 1, 2, 0.3299477087579048},   {2, 1, 3, -0.874389858275689},
    {2, 2, 0, 1.870049933091614},    {2, 2, 1, 0.6015464829039812},   {2, 2, 2, 0.868977528919648},
    {2, 2, 3, -1.020662192477614},   {2, 2, 4, 0.3334454824103391},   {2, 3, 1, -1.352489096466887},
    {2, 3, 2, 0.5627559540597835},   {2, 3, 3, 0.3539575129530955},   {2, 3, 4, -0.2688672258701353},
    {2, 4, 2, 1.52720693600158},     {2, 4, 3, 1.223486254658183},    {2, 4, 4, 0.1600230196438431},
    {3, 0, 3, -0.1341063166912467},  {3, 1, 2, 0.5096315417820045},   {3, 1, 3, 0.008332934289312144},
    {3, 1, 4, 0.7578581085937941},   {3, 2, 1, 0.2545599364025899},   {3, 2, 2, -0.4650807949056269},
    {3, 2, 3, -0.6855772669776102},  {3, 2, 4, 0.1387907834867551},   {3, 3, 0, -0.1341063166912467},
    {3, 3, 1, -1.057881247460087},   {3, 3, 2, 1.094384438934638},    {3, 3, 3, 0.5989460339060164},
    {3, 3, 4, -0.4772579687908317},  {3, 4, 1, -0.05183083096070629}, {3, 4, 2, -0.93383445860741},
    {3, 4, 3, 0.6303250877325092},   {3, 4, 4, -0.4111290749866521},  {4, 0, 4, 0.2920392128812342},
    {4, 1, 3, -0.3397516027732306},  {4, 1, 4, 0.4531180068651308},   {4, 2, 2, -1.224064656357604},
    {4, 2, 3, 0.190907368205223},    {4, 2, 4, -1.480780458168623},   {4, 3, 1, -0.5038384825054566},
    {4, 3, 2, -0.06188284283171173}, {4, 3, 3, 0.2536588219879216},   {4, 3, 4, -0.9742205634924087},
    {4, 4, 0, 0.2920392128812342},   {4, 4, 1, -0.3748743112950451},  {4, 4, 2, -1.071529229134686},
    {4, 4, 3, 0.1377525138362169},   {4, 4, 4, -0.9975304368652397},  {5, 6, 7, 1.5535385065214125},
    {8, 8, 8, 1.0166238261653846},   {7, 8, 2, 0.3003342237012916},   {6, 6, 5, 0.20412503558594533}};

}    // namespace

TEST(Coupling, agrees_with_e3nn) {
  int num_up_to_4 = 0;
  for (const Fingerprint &f : E3NN) {
    // Hundreds of terms are summed, on both sides.
    EXPECT_NEAR(fingerprint(f.l1, f.l2, f.l3), f.value, 20 * TOLERANCE) << f.l1 << f.l2 << f.l3;
    num_up_to_4 += f.l1 <= 4 && f.l2 <= 4 && f.l3 <= 4;
  }
  EXPECT_EQ(num_up_to_4, 65);
}

TEST(Coupling, has_the_new_sign_where_conventions_differ) {
  EXPECT_NEAR(coupling(1, 2, 2)[index(2, 2, 0, 0, 1)], -1.0 / std::sqrt(30.0), TOLERANCE);
  EXPECT_NEAR(coupling(1, 1, 1)[index(1, 1, 0, 1, 2)], 1.0 / std::sqrt(6.0), TOLERANCE);
  EXPECT_NEAR(coupling(1, 1, 2)[index(1, 2, 1, 1, 2)], 2.0 / std::sqrt(30.0), TOLERANCE);
}

TEST(Coupling, with_a_scalar_is_an_exact_delta) {
  for (int l = 0; l <= 8; ++l) {
    const double value = 1.0 / std::sqrt(2.0 * l + 1.0);
    const auto left = coupling(0, l, l), right = coupling(l, 0, l), inner = coupling(l, l, 0);
    for (int a = 0; a <= 2 * l; ++a)
      for (int b = 0; b <= 2 * l; ++b) {
        const double expected = a == b ? value : 0.0;
        EXPECT_EQ(left[index(l, l, 0, a, b)], expected);
        EXPECT_EQ(right[index(0, l, a, 0, b)], expected);
        EXPECT_EQ(inner[index(l, 0, a, b, 0)], expected);
      }
  }
}

// sum_ab w[a,b,c] w[a,b,c'] = delta / (2 l3 + 1), which also fixes the norm.
TEST(Coupling, is_orthogonal) {
  for (int l1 = 0; l1 <= 8; l1 += 2)
    for (int l2 = 0; l2 <= 8; ++l2)
      for (int l3 = std::abs(l1 - l2); l3 <= std::min(8, l1 + l2); ++l3) {
        const auto w = coupling(l1, l2, l3);
        for (int c = 0; c <= 2 * l3; ++c)
          for (int d = c; d <= 2 * l3; ++d) {
            double sum = 0.0;
            for (int a = 0; a <= 2 * l1; ++a)
              for (int b = 0; b <= 2 * l2; ++b) sum += w[index(l2, l3, a, b, c)] * w[index(l2, l3, a, b, d)];
            ASSERT_NEAR(sum, c == d ? 1.0 / (2 * l3 + 1) : 0.0, TOLERANCE) << l1 << l2 << l3;
          }
      }
}

// Harmonics of one direction couple to harmonics of that direction: sum_ab w Y_a Y_b is a multiple of Y_c. This ties
// the couplings to the basis of the harmonics.
TEST(Coupling, maps_harmonics_to_harmonics) {
  const double v[3] = {0.4, -0.7, 1.1};
  double y[81];
  spherical_harmonics(8, v, y, nullptr);
  for (int l1 = 0; l1 <= 4; ++l1)
    for (int l2 = 0; l2 <= 4; ++l2)
      for (int l3 = std::abs(l1 - l2); l3 <= l1 + l2; ++l3) {
        const auto w = coupling(l1, l2, l3);
        double product[17] = {}, projection = 0.0;
        for (int c = 0; c <= 2 * l3; ++c) {
          for (int a = 0; a <= 2 * l1; ++a)
            for (int b = 0; b <= 2 * l2; ++b) product[c] += w[index(l2, l3, a, b, c)] * y[l1 * l1 + a] * y[l2 * l2 + b];
          projection += product[c] * y[l3 * l3 + c] / (2 * l3 + 1);
        }
        const bool is_even = (l1 + l2 + l3) % 2 == 0;
        EXPECT_EQ(std::fabs(projection) > 1e-3, is_even) << l1 << l2 << l3;
        for (int c = 0; c <= 2 * l3; ++c)
          EXPECT_NEAR(product[c], is_even ? projection * y[l3 * l3 + c] : 0.0, 1e-13) << l1 << l2 << l3;
      }
}

TEST(Coupling, entries_are_the_dense_array) {
  const auto dense = coupling(3, 2, 4);
  double norm = 0.0;
  for (const CouplingEntry &e : coupling_entries(3, 2, 4)) {
    EXPECT_EQ(e.value, dense[index(2, 4, e.m1, e.m2, e.m3)]);
    norm += e.value * e.value;
  }
  EXPECT_NEAR(norm, 1.0, TOLERANCE);
}

TEST(Coupling, refuses_what_the_triangle_rule_forbids) {
  EXPECT_THROW(coupling(1, 1, 3), std::invalid_argument);
  EXPECT_THROW(coupling(1, 3, 1), std::invalid_argument);
  EXPECT_THROW(coupling(-1, 1, 1), std::invalid_argument);
  EXPECT_THROW(coupling(11, 11, 1), std::invalid_argument);
}
