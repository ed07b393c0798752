// SPDX-License-Identifier: MIT
// The reference tensor product compared with stored values of e3nn; its backward pass as the adjoint of forward.
#include "src/algebra/tensor_product.h"

#include "src/algebra/spherical_harmonics.h"
#include "unittest/support/dot.h"

#include <gtest/gtest.h>
#include <cmath>
#include <functional>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace equi;
using equi::testing::dot;

namespace {

// The paths of 3x0e+2x1o+1x2e with the harmonics 1x0e+1x1o+1x2e to l <= 2, in the order (block, l2, l3).
TensorProduct example() {
  TensorProduct tp;
  tp.irreps_in = Irreps::parse("3x0e+2x1o+1x2e");
  tp.irreps_out = Irreps::parse("3x0e+3x1o+3x2e+2x1o+2x0e+2x1e+2x2e+2x1o+2x2o+1x2e+1x1o+1x2o+1x0e+1x1e+1x2e");
  tp.lmax_edge = 2;
  const int in[15] = {0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2};
  const int l2[15] = {0, 1, 2, 0, 1, 1, 1, 2, 2, 0, 1, 1, 2, 2, 2};
  for (int q = 0; q < 15; ++q) tp.paths.push_back({in[q], l2[q], q, std::sqrt(tp.irreps_out[q].irrep.dim())});
  return tp;
}

// e3nn 0.6.0, Python, float64, with irreps_out and instructions (i, j, k, "uvu", True) in the order above:
//   tp = o3.TensorProduct(i1, i2, out, instructions, irrep_normalization="component", path_normalization="none",
//                         internal_weights=False, shared_weights=True)
//   y = o3.spherical_harmonics([0, 1, 2], torch.tensor([0.3, -1.1, 0.7]), True, "component")
//   tp(torch.cos(torch.arange(14) + 1.0), y, torch.sin(torch.arange(tp.weight_numel) + 1.0))
constexpr double E3NN_PRODUCTS[] = {
    0.4546487134128409,    -0.3784012476539642,  -0.1397077490994629,  -0.158808865384139,     0.5822991730751765,
    -0.3705540192296577,   0.1549837899532385,   -0.5682738964952078,  0.3616288432242231,     0.1074330142259863,
    -0.3939210521619496,   0.2506770331939679,   0.1612891767306744,   -0.253454420576774,     0.4079558173076274,
    -0.5913936480124727,   0.1536087397434994,   -0.1870734127005195,  0.293972505672245,      -0.4731730207923694,
    0.6859358465685716,    -0.1781651549528757,  -0.1853812862553187,  0.2913134498297866,     -0.4688930508592818,
    0.6797313829361687,    -0.1765536059574464,  0.3555959287479722,   -0.1543182172530108,    -0.5223529059864968,
    -0.7538948710398021,   0.1454986088614098,   0.9111213387766547,   -0.06577184405505336,   -0.07900509929681503,
    1.137832041510377,     0.676125796134374,    0.5748410904209975,   -0.6572498962752539,    -0.4768651348262449,
    -0.4676809706089904,   0.04467186372957298,  -0.2119236521285897,  0.1673904116804979,     0.2260281858791373,
    -0.2288188031735176,   -0.2238857236981705,  0.7682591330565027,   -0.3717977371734288,    -0.7924180077275702,
    0.7603554609055023,    -0.3908901422561457,  0.3111848114192181,   0.4077078937279937,     -0.09330304142970137,
    0.06457197330463979,   0.06528230452944646,  0.8616592986362681,   -0.9326622718256202,    -1.145570609329561,
    -0.1414293702480485,   0.05428121095652962,  -0.7453574894830342,  0.7199520446870513,     1.127944814167658,
    0.224264867234337,     -0.1616425370743873,  0.007426881620627789, -3.917322171815566e-05, -0.007469212384672997,
    -0.008032092127197217, -0.00121030340986698, 0.4676686322929626,   0.2611950426099122,     0.8971975687608499,
    -0.4473629158775607,   -0.8927591005888884,  -0.223108963381314,   -0.08855470162451975,   -0.7517217632472567,
    0.05133293667073103,   -1.01714294209918,    0.05061461546626241,  0.5154556566323466,     0.006840904074217598,
    0.6910909567929518,    0.2731841454699074,   0.2463369466623408,   -0.934923356599807};

// The same blocks fully connected to 2x0e+3x1o+1x1e+2x2e; e3nn's instructions, whose weights are the scales.
TensorProduct connected_example() {
  TensorProduct tp;
  tp.irreps_in = Irreps::parse("3x0e+2x1o+1x2e");
  tp.irreps_out = Irreps::parse("2x0e+3x1o+1x1e+2x2e");
  tp.lmax_edge = 2;
  const int in[13] = {0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2}, l2[13] = {0, 1, 2, 0, 1, 1, 1, 2, 0, 1, 2, 2, 2},
            out[13] = {0, 1, 3, 1, 0, 2, 3, 1, 3, 1, 0, 2, 3};
  for (int q = 0; q < 13; ++q) tp.paths.push_back({in[q], l2[q], out[q], 1.0, Connection::uvw});
  for (int q = 0; q < 13; ++q) tp.paths[q].scale = tp.component_scale(q);
  return tp;
}

// e3nn 0.6.0 as above:
//   tp = o3.FullyConnectedTensorProduct("3x0e+2x1o+1x2e", "1x0e+1x1o+1x2e", "2x0e+3x1o+1x1e+2x2e",
//                                       internal_weights=False, shared_weights=True)
constexpr double E3NN_CONNECTED[] = {
    0.7896151677844913,  0.4814243387653705,   -0.09727209037798058, -0.24334618407307862,  -0.32672611252884143,
    0.7496378732196701,  -0.403280141618523,   -0.9149819840187077,  0.9073342333113326,    -0.19244019678155722,
    -0.6620076390573847, -0.7339426635114287,  -0.18036082536101633, 0.03112270165187231,   -0.2495303735862332,
    0.9178023546842917,  -0.4734830090006577,  0.10644346022743369,  -0.030378979548408735, -0.542482214920565,
    0.5653480390699603,  -0.29835240362725823, 1.1449041363608092,   -0.269200814993438};

// uvu and uvw paths in one product.
TensorProduct mixed_example() {
  TensorProduct tp = connected_example();
  tp.irreps_out = Irreps::parse("2x0e+3x1o+1x1e+2x2e+2x1o+3x2e");
  tp.paths.push_back({1, 2, 4, 0.7});
  tp.paths.push_back({0, 2, 5, -0.4});
  return tp;
}

struct Operands {
  std::vector<double> x, y, w, g;
};

Operands random_operands(const TensorProduct &tp, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Operands o;
  const int ny = (tp.lmax_edge + 1) * (tp.lmax_edge + 1);
  for (auto [v, n] : {std::pair<std::vector<double> *, int>{&o.x, tp.irreps_in.dim()},
                      {&o.y, ny},
                      {&o.w, tp.num_weights()},
                      {&o.g, tp.irreps_out.dim()}})
    for (int i = 0; i < n; ++i) v->push_back(normal(random));
  return o;
}

// <g, TP(x, y, w)>
double form(const TensorProduct &tp, const Operands &o) {
  std::vector<double> out(tp.irreps_out.dim(), 0.0);
  tp.forward(o.x.data(), o.y.data(), o.w.data(), out.data());
  return dot(o.g, out);
}

}    // namespace

TEST(TensorProduct, agrees_with_e3nn) {
  const auto expect_same = [](const TensorProduct &tp, const double *expected, size_t size) {
    tp.validate();
    std::vector<double> x, y(9), w, out(tp.irreps_out.dim(), 0.0);
    for (int i = 0; i < tp.irreps_in.dim(); ++i) x.push_back(std::cos(i + 1.0));
    for (int i = 0; i < tp.num_weights(); ++i) w.push_back(std::sin(i + 1.0));
    const double vec[3] = {0.3, -1.1, 0.7};
    spherical_harmonics(2, vec, y.data(), nullptr);
    tp.forward(x.data(), y.data(), w.data(), out.data());
    ASSERT_EQ(out.size(), size);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-14) << i;
  };
  expect_same(example(), E3NN_PRODUCTS, std::size(E3NN_PRODUCTS));
  expect_same(connected_example(), E3NN_CONNECTED, std::size(E3NN_CONNECTED));
}

TEST(TensorProduct, component_scales_are_those_of_e3nn) {
  const TensorProduct tp = connected_example();
  EXPECT_EQ(tp.num_weights(), 53);
  EXPECT_NEAR(tp.component_scale(0), 0.408248290463863, 1e-15);
  EXPECT_NEAR(tp.component_scale(1), 0.6123724356957945, 1e-15);
  EXPECT_NEAR(tp.component_scale(2), 0.8451542547285166, 1e-15);
  EXPECT_NEAR(tp.component_scale(5), 1.0, 1e-15);
  for (int q = 0; q < 15; ++q) EXPECT_NEAR(example().component_scale(q), example().paths[q].scale, 1e-15);
}

// The form is linear in each operand, so contracting each adjoint with its operand returns the form.
TEST(TensorProduct, backward_is_the_adjoint_of_forward) {
  for (const TensorProduct &tp : {example(), mixed_example()}) {
    const Operands o = random_operands(tp, 1), other = random_operands(tp, 2);
    std::vector<double> x_adj(o.x.size(), 0.0), y_adj(o.y.size(), 0.0), w_adj(o.w.size(), 0.0);
    tp.backward(o.x.data(), o.y.data(), o.w.data(), o.g.data(), x_adj.data(), y_adj.data(), w_adj.data());
    EXPECT_NEAR(dot(x_adj, o.x), form(tp, o), 1e-12);
    EXPECT_NEAR(dot(x_adj, other.x), form(tp, {other.x, o.y, o.w, o.g}), 1e-12);
    EXPECT_NEAR(dot(y_adj, other.y), form(tp, {o.x, other.y, o.w, o.g}), 1e-12);
    EXPECT_NEAR(dot(w_adj, other.w), form(tp, {o.x, o.y, other.w, o.g}), 1e-12);
    EXPECT_GT(std::fabs(form(tp, o)), 1e-2);
  }
}

TEST(TensorProduct, backward_is_the_limit_of_differences) {
  for (const TensorProduct &tp : {example(), mixed_example()}) {
    Operands o = random_operands(tp, 3);
    std::vector<double> x_adj(o.x.size(), 0.0), y_adj(o.y.size(), 0.0), w_adj(o.w.size(), 0.0);
    tp.backward(o.x.data(), o.y.data(), o.w.data(), o.g.data(), x_adj.data(), y_adj.data(), w_adj.data());
    // Exact for any step because the form is linear in one number.
    for (double step : {1e-1, 1e-3}) {
      const auto difference = [&](double &v) {
        const double kept = v;
        v = kept + step;
        const double high = form(tp, o);
        v = kept - step;
        const double low = form(tp, o);
        v = kept;
        return (high - low) / (2 * step);
      };
      for (size_t i = 0; i < o.x.size(); ++i) EXPECT_NEAR(difference(o.x[i]), x_adj[i], 1e-10);
      for (size_t i = 0; i < o.y.size(); ++i) EXPECT_NEAR(difference(o.y[i]), y_adj[i], 1e-10);
      for (size_t i = 0; i < o.w.size(); ++i) EXPECT_NEAR(difference(o.w[i]), w_adj[i], 1e-10);
    }
  }
}

TEST(TensorProduct, adds_to_its_results_and_skips_null_ones) {
  for (const TensorProduct &tp : {example(), mixed_example()}) {
    const Operands o = random_operands(tp, 4);
    std::vector<double> once(tp.irreps_out.dim(), 0.0), onto(tp.irreps_out.dim(), 2.5);
    tp.forward(o.x.data(), o.y.data(), o.w.data(), once.data());
    tp.forward(o.x.data(), o.y.data(), o.w.data(), onto.data());
    for (size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(onto[i], once[i] + 2.5, 1e-14);

    std::vector<double> all(o.y.size(), 0.0), alone(o.y.size(), 1.0), x_adj(o.x.size(), 0.0), w_adj(o.w.size(), 0.0);
    tp.backward(o.x.data(), o.y.data(), o.w.data(), o.g.data(), x_adj.data(), all.data(), w_adj.data());
    tp.backward(o.x.data(), o.y.data(), o.w.data(), o.g.data(), nullptr, alone.data(), nullptr);
    for (size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(alone[i], all[i] + 1.0, 1e-14);
  }
}

TEST(TensorProduct, of_vectors_is_dot_and_cross_product) {
  TensorProduct tp;
  tp.irreps_in = Irreps::parse("1x1o");
  tp.irreps_out = Irreps::parse("0e+1e");
  tp.lmax_edge = 1;
  tp.paths = {{0, 1, 0, 1.0}, {0, 1, 1, 1.0}};
  tp.validate();
  const double x[3] = {1.0, 2.0, 3.0}, y[4] = {1.0, 0.5, -1.0, 2.0}, w[2] = {1.0, 1.0};
  double out[4] = {};
  tp.forward(x, y, w, out);
  EXPECT_NEAR(out[0], (0.5 - 2.0 + 6.0) / std::sqrt(3.0), 1e-14);
  EXPECT_NEAR(out[1], (2.0 * 2.0 + 3.0 * 1.0) / std::sqrt(6.0), 1e-14);
  EXPECT_NEAR(out[2], (3.0 * 0.5 - 1.0 * 2.0) / std::sqrt(6.0), 1e-14);
  EXPECT_NEAR(out[3], (-1.0 - 2.0 * 0.5) / std::sqrt(6.0), 1e-14);
}

TEST(TensorProduct, refuses_paths_that_do_not_fit) {
  const auto expect_refusal = [](const std::function<void(TensorProduct &)> &damage, const std::string &part) {
    TensorProduct tp = example();
    damage(tp);
    try {
      tp.validate();
      FAIL() << part;
    } catch (const std::invalid_argument &e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  expect_refusal([](TensorProduct &t) { t.paths[3].in = 3; }, "path 3");
  expect_refusal([](TensorProduct &t) { t.paths[3].in = -1; }, "path 3");
  expect_refusal([](TensorProduct &t) { t.paths[4].out = 15; }, "path 4");
  expect_refusal([](TensorProduct &t) { t.paths[4].out = 3; }, "path 4");
  expect_refusal([](TensorProduct &t) { t.paths[5].l2 = 3; }, "path 5");
  expect_refusal([](TensorProduct &t) { t.paths[0].in = 1; }, "path 0");    // multiplicity
  expect_refusal([](TensorProduct &t) { t.paths[2].l2 = 0; }, "path 2");    // triangle rule
  expect_refusal([](TensorProduct &t) { t.paths.pop_back(); }, "none for block 14");
  expect_refusal([](TensorProduct &t) { t.paths.clear(); }, "without paths");
  // An output block of a uvu path belongs only to this path.
  expect_refusal([](TensorProduct &t) { t.paths[7].out = 3, t.paths[7].connection = Connection::uvw; },
                 "path 7: output block 3 belongs to an earlier path");
  expect_refusal([](TensorProduct &t) { t.paths[3].out = 7, t.paths[3].connection = Connection::uvw; },
                 "path 7: output block 7 belongs to an earlier path");
}
