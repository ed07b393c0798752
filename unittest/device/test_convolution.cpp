// SPDX-License-Identifier: MIT
// The convolution on a device, with generated kernels and with the generic one: compared with the tensor product summed
// over edges, in batches, and to the last bit when repeated.
#include "kokkos/layers/convolution/device_convolution.h"
#include "src/generator/common_kernels.h"
#include "unittest/support/kernel_problem.h"
#include "unittest/support/taken_path_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

namespace {

using namespace equi;
using namespace equi::testing;

// Sums of up to 40 edges times some tens of products, one after another, relative to the largest number of the result.
template <class T>
constexpr double ROUNDING = sizeof(T) == 4 ? 1e-5 : 1e-13;

// A problem in device memory. Edges begin at a number that is not 0; what no kernel may read or write is NaN.
template <class T>
class DeviceCase {
 public:
  using G = double;    // type of the geometry
  DeviceCase(int problem, int rows_per_bin, bool is_generated)
      : DeviceCase(kernel_problems()[problem], rows_per_bin, is_generated) {}
  DeviceCase(const KernelProblem &problem, int rows_per_bin, bool is_generated)
      : p(problem),
        in(p.product().irreps_in),
        out(p.product().irreps_out),
        convolution(exec, p.convolution, in, out, 1, kernel_options(rows_per_bin),
                    is_generated ? device_kernels<T>() : typename DeviceConvolution<T>::Kernels()) {
    EXPECT_EQ(convolution.host().rows_per_bin(), rows_per_bin) << p.name;
    assign(exec, x, pack<T>(p.product().irreps_in, p.x));
    assign(exec, g, pack<T>(p.product().irreps_out, p.g));
    const int row = harmonics_row(p.num_y());
    auto harmonics = nan_vector<T>((FIRST_EDGE + p.num_edges()) * row);
    for (int64_t e = 0; e < p.num_edges(); ++e)
      std::copy_n(p.y.begin() + e * p.num_y(), p.num_y(),
                  harmonics.begin() + (FIRST_EDGE + e) * row + NUMBERS_BEFORE_HARMONICS);
    assign(exec, y, harmonics);
    auto r = nan_vector<G>(FIRST_EDGE);
    r.insert(r.end(), p.distance.begin(), p.distance.end());
    assign(exec, distance, r);
    std::vector<int> rows(FIRST_EDGE, -1);
    rows.insert(rows.end(), p.sender.begin(), p.sender.end());
    assign(exec, sender, rows);
    assign(exec, pair, std::vector<int>(rows.size(), 0));
    for (const int64_t b : p.edge_begin) host_begin.push_back(FIRST_EDGE + b);
    assign(exec, begin, host_begin);

    // The edges by sender.
    std::vector<int64_t> edges;
    std::vector<int> receivers;
    host_sender_begin.push_back(0);
    for (int j = 0; j < NUM_SENDERS; ++j) {
      for (int i = 0; i < NUM_RECEIVERS; ++i)
        for (int64_t e = p.edge_begin[i]; e < p.edge_begin[i + 1]; ++e)
          if (p.sender[e] == j) {
            edges.push_back(FIRST_EDGE + e);
            receivers.push_back(i);
          }
      host_sender_begin.push_back(static_cast<int64_t>(edges.size()));
    }
    assign(exec, sender_begin, host_sender_begin);
    assign(exec, edge, edges);
    assign(exec, receiver, receivers);
  }

  // Outputs of receivers first .. first + count - 1.
  AlignedVector<T> forward(int first = 0, int count = NUM_RECEIVERS) {
    DeviceBuffer<T> result;
    assign(exec, result, nan_vector<T>(NUM_RECEIVERS * out.row_size()));
    const DeviceBatchEdges batch = receivers_of(first, count);
    convolution.prepare(exec, batch, distance.data(), pair.data(), y.data() + NUMBERS_BEFORE_HARMONICS, true, {},
                        nullptr, scratch);
    convolution.forward(exec, batch, {x.data(), NUM_SENDERS, 0}, {result.data(), NUM_RECEIVERS, first}, 0, scratch);
    return to_host(result, NUM_RECEIVERS * out.row_size());
  }

  // Derivatives by edges, added to 1.
  Rows backward(int first = 0, int count = NUM_RECEIVERS) {
    DeviceBuffer<G> result;
    assign(exec, result, AlignedVector<G>((FIRST_EDGE + p.num_edges()) * p.num_y(), G(1)));
    const DeviceBatchEdges batch = receivers_of(first, count);
    convolution.prepare(exec, batch, distance.data(), pair.data(), y.data() + NUMBERS_BEFORE_HARMONICS, false, {},
                        nullptr, scratch);
    convolution.backward(exec, batch, {x.data(), NUM_SENDERS, 0}, {g.data(), NUM_RECEIVERS, first}, 0, result.data(),
                         {}, scratch);
    return without_one(result);
  }

  // Backward and gather of receivers first .. first + count - 1 together, added as above; for the edges of a
  // reversible() problem.
  Rows fused(int first, int count, AlignedVector<T> &x_adj) {
    DeviceBuffer<G> result;
    DeviceBuffer<T> gathered;
    assign(exec, result, AlignedVector<G>((FIRST_EDGE + p.num_edges()) * p.num_y(), G(1)));
    assign(exec, gathered, pack<T>(p.product().irreps_in, p.x));
    const DeviceBatchEdges batch = receivers_of(first, count);
    convolution.prepare(exec, batch, distance.data(), pair.data(), y.data() + NUMBERS_BEFORE_HARMONICS, true, {},
                        nullptr, scratch);
    convolution.fused(exec, batch, {x.data(), NUM_SENDERS, 0}, {g.data(), NUM_RECEIVERS, 0}, NUM_RECEIVERS,
                      result.data(), {gathered.data(), NUM_SENDERS, first}, scratch);
    x_adj = to_host(gathered, NUM_SENDERS * in.row_size());
    return without_one(result);
  }

  // What was added to the derivatives by edges.
  Rows without_one(const DeviceBuffer<G> &result) {
    const auto all = to_host(result, (FIRST_EDGE + p.num_edges()) * p.num_y());
    Rows rows;
    for (int64_t e = 0; e < FIRST_EDGE + p.num_edges(); ++e) {
      rows.emplace_back(all.begin() + e * p.num_y(), all.begin() + (e + 1) * p.num_y());
      for (double &v : rows.back()) v -= 1.0;
    }
    for (int e = 0; e < FIRST_EDGE; ++e) EXPECT_EQ(largest({rows[e]}), 0.0) << "before the batch";
    rows.erase(rows.begin(), rows.begin() + FIRST_EDGE);
    return rows;
  }

  // The adjoint of x of senders first .. first + count - 1, added to x itself.
  AlignedVector<T> gather(int first = 0, int count = NUM_SENDERS) {
    const int64_t size = NUM_SENDERS * in.row_size();
    DeviceBuffer<T> result;
    assign(exec, result, pack<T>(p.product().irreps_in, p.x));
    const DeviceBatchEdges batch = batch_of_edges(first, count, sender_begin, host_sender_begin, edge.data(), receiver);
    convolution.prepare(exec, batch, distance.data(), pair.data(), y.data() + NUMBERS_BEFORE_HARMONICS, true, {},
                        nullptr, scratch);
    convolution.gather_senders(exec, batch, {}, {g.data(), NUM_RECEIVERS, 0}, {result.data(), NUM_SENDERS, first}, 0,
                               scratch);
    return to_host(result, size);
  }

  KernelProblem p;
  DeviceExec exec;
  FeatureLayout in, out;
  DeviceConvolution<T> convolution;
  // Whether the host knows the edges of a batch, or only those of all batches together.
  bool counts_edges = true;

 private:
  static constexpr int FIRST_EDGE = 3;

  DeviceBatchEdges receivers_of(int first, int count) const {
    return batch_of_edges(first, count, begin, host_begin, nullptr, sender);
  }
  DeviceBatchEdges batch_of_edges(int first, int count, const DeviceBuffer<int64_t> &places,
                                  const std::vector<int64_t> &host_places, const int64_t *edges,
                                  const DeviceBuffer<int> &other) const {
    const int64_t before = counts_edges ? host_places[first] : 0,
                  after = counts_edges ? host_places[first + count] : host_places.back();
    return {count, places.data() + first, before, after - before, edges, other.data()};
  }
  template <class U>
  AlignedVector<U> to_host(const DeviceBuffer<U> &buffer, int64_t n) const {
    AlignedVector<U> result(n);
    copy_to_host(exec, result.data(), buffer.data(), n);
    return result;
  }

  DeviceBuffer<T> x, g, y;
  DeviceBuffer<G> distance;
  DeviceBuffer<int> sender, receiver, pair;
  DeviceBuffer<int64_t> begin, sender_begin, edge;
  std::vector<int64_t> host_begin, host_sender_begin;
  typename DeviceConvolution<T>::Scratch scratch;
};

template <class T>
bool same_bits(const AlignedVector<T> &a, const AlignedVector<T> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// is_generated: generated kernels where they exist, or else the generic one for all.
class DeviceKernels : public ::testing::TestWithParam<bool> {
 protected:
  template <class F>
  void for_all(const F &check) {
    for_type<float>(check);
    for_type<double>(check);
  }
  template <class T, class F>
  void for_type(const F &check) {
    for (int problem = 0; problem < static_cast<int>(kernel_problems().size()); ++problem) {
      for (const int rows : all_rows_per_bin<T>()) {
        DeviceCase<T> c(problem, rows, GetParam());
        const std::string what =
            c.p.name + ", " + std::to_string(rows) + " rows per bin, " + (sizeof(T) == 4 ? "float" : "double");
        check(c, what, reference_answer(problem, rows));
      }
    }
  }
};

TEST_P(DeviceKernels, forward_is_the_sum_of_tensor_products) {
  for_all([](auto &c, const std::string &what, const KernelAnswer &expected) {
    const auto out = c.forward();
    using T = std::decay_t<decltype(out[0])>;
    const Irreps &irreps = c.p.product().irreps_out;
    ASSERT_GT(largest(expected.out), 0.1) << what;
    expect_near_relative(unpack<T>(irreps, out, NUM_RECEIVERS), expected.out, ROUNDING<T>, what);
    EXPECT_EQ(padding<T>(irreps, out, NUM_RECEIVERS), 0.0) << what;
  });
}

TEST_P(DeviceKernels, backward_adds_the_adjoint_of_the_tensor_product) {
  for_all([](auto &c, const std::string &what, const KernelAnswer &expected) {
    using T = std::decay_t<decltype(c.forward()[0])>;
    // Derivatives by harmonics and by distance differ in size.
    Rows y = c.backward(), r(y.size()), expected_y = expected.y_adj, expected_r(y.size());
    ASSERT_EQ(y.size(), expected_y.size()) << what;
    for (size_t e = 0; e < y.size(); ++e) {
      r[e] = {y[e][0]};
      expected_r[e] = {expected_y[e][0]};
      y[e][0] = expected_y[e][0] = 0.0;
    }
    expect_near_relative(y, expected_y, ROUNDING<T>, what + ", y");
    expect_near_relative(r, expected_r, ROUNDING<T>, what + ", r");
  });
}

TEST_P(DeviceKernels, gather_adds_the_adjoint_of_the_tensor_product) {
  for_all([](auto &c, const std::string &what, const KernelAnswer &expected) {
    const auto x_adj = c.gather();
    using T = std::decay_t<decltype(x_adj[0])>;
    const Irreps &irreps = c.p.product().irreps_in;
    Rows sum = expected.x_adj;
    for (size_t r = 0; r < sum.size(); ++r)
      for (size_t k = 0; k < sum[r].size(); ++k) sum[r][k] += c.p.x[r][k];
    expect_near_relative(unpack<T>(irreps, x_adj, NUM_SENDERS), sum, ROUNDING<T>, what);
    EXPECT_EQ(padding<T>(irreps, x_adj, NUM_SENDERS), 0.0) << what;
  });
}

TEST_P(DeviceKernels, repeats_and_batches_give_the_same_bits) {
  for_all([](auto &c, const std::string &what, const KernelAnswer &) {
    const auto whole = c.forward(), gathered = c.gather();
    using T = std::decay_t<decltype(whole[0])>;
    EXPECT_TRUE(same_bits<T>(whole, c.forward())) << what;
    EXPECT_TRUE(same_bits<T>(gathered, c.gather())) << what;
    const Rows y_adj = c.backward();
    EXPECT_EQ(y_adj, c.backward()) << what;

    for (int first = 0; first < NUM_RECEIVERS; first += 2) {
      const int count = std::min(2, NUM_RECEIVERS - first);
      c.counts_edges = first % 4 == 0;
      // The batch's rows equal those of the whole; all others are unchanged.
      const auto batch = c.forward(first, count);
      for (int g = 0; g < c.out.num_groups(); ++g)
        for (int r = 0; r < NUM_RECEIVERS; ++r)
          for (int k = 0; k < c.out.group(g).width(); ++k) {
            const size_t n =
                static_cast<size_t>(NUM_RECEIVERS) * c.out.group(g).offset + r * c.out.group(g).width() + k;
            if (r >= first && r < first + count)
              ASSERT_EQ(batch[n], whole[n]) << what;
            else
              ASSERT_TRUE(std::isnan(batch[n])) << what;
          }
      const Rows part = c.backward(first, count);
      for (int i = 0; i < NUM_RECEIVERS; ++i)
        for (int64_t e = c.p.edge_begin[i]; e < c.p.edge_begin[i + 1]; ++e)
          for (int k = 0; k < c.p.num_y(); ++k)
            ASSERT_EQ(part[e][k], i >= first && i < first + count ? y_adj[e][k] : 0.0) << what;
    }
    const auto x = c.gather(0, 0);    // unchanged
    for (int first = 0; first < NUM_SENDERS; first += 3) {
      const int count = std::min(3, NUM_SENDERS - first);
      c.counts_edges = first % 2 == 0;
      const auto part = c.gather(first, count);
      for (int g = 0; g < c.in.num_groups(); ++g)
        for (int r = 0; r < NUM_SENDERS; ++r)
          for (int k = 0; k < c.in.group(g).width(); ++k) {
            const size_t n = static_cast<size_t>(NUM_SENDERS) * c.in.group(g).offset + r * c.in.group(g).width() + k;
            ASSERT_EQ(part[n], (r >= first && r < first + count ? gathered : x)[n]) << what;
          }
    }
  });
}

// The problem with a reverse edge for each edge between two receivers; the other senders are those of other ranks.
KernelProblem reversible(const KernelProblem &p) {
  KernelProblem q = p;
  q.edge_begin = {0};
  q.sender.clear();
  q.distance.clear();
  q.y.clear();
  const auto add = [&](int j, int e, int sign) {
    q.sender.push_back(j);
    q.distance.push_back(p.distance[e]);
    for (int k = 0, l = 0; k < p.num_y(); ++k) {
      if (k == (l + 1) * (l + 1)) l++;
      q.y.push_back((l % 2 ? sign : 1) * p.y[static_cast<size_t>(e) * p.num_y() + k]);
    }
  };
  for (int row = 0; row < NUM_RECEIVERS; ++row) {
    for (int i = 0; i < NUM_RECEIVERS; ++i)
      for (int64_t e = p.edge_begin[i]; e < p.edge_begin[i + 1]; ++e) {
        if (i == row) add(p.sender[e], static_cast<int>(e), 1);
        if (p.sender[e] == row) add(i, static_cast<int>(e), -1);
      }
    q.edge_begin.push_back(q.num_edges());
  }
  return q;
}

template <class T>
int check_fused(int problem, int rows_per_bin) {
  DeviceCase<T> c(reversible(kernel_problems()[problem]), rows_per_bin, true);
  if (!c.convolution.can_fuse()) return 0;
  const std::string what = c.p.name + ", " + std::to_string(rows_per_bin) + " rows per bin";
  const Irreps &irreps = c.p.product().irreps_in;
  const Rows y_adj = c.backward();
  const AlignedVector<T> gathered = c.gather(0, NUM_RECEIVERS);
  AlignedVector<T> x_adj, again, of_batch;
  const Rows fused = c.fused(0, NUM_RECEIVERS, x_adj);
  expect_near_relative(fused, y_adj, ROUNDING<T>, what + ", by edges");
  expect_near_relative(unpack<T>(irreps, x_adj, NUM_SENDERS), unpack<T>(irreps, gathered, NUM_SENDERS), ROUNDING<T>,
                       what + ", by the input");
  EXPECT_EQ(padding<T>(irreps, x_adj, NUM_SENDERS), 0.0) << what;

  EXPECT_EQ(c.fused(0, NUM_RECEIVERS, again), fused) << what;
  EXPECT_TRUE(same_bits<T>(x_adj, again)) << what;
  const Rows part = c.fused(1, 2, of_batch);
  for (int i = 0; i < NUM_RECEIVERS; ++i)
    for (int64_t e = c.p.edge_begin[i]; e < c.p.edge_begin[i + 1]; ++e)
      for (int k = 0; k < c.p.num_y(); ++k) EXPECT_EQ(part[e][k], i >= 1 && i < 3 ? fused[e][k] : 0.0) << what;
  const auto all = unpack<T>(irreps, x_adj, NUM_SENDERS), batch = unpack<T>(irreps, of_batch, NUM_SENDERS);
  for (int r = 1; r < 3; ++r) EXPECT_EQ(batch[r], all[r]) << what;
  return 1;
}

TEST(FusedDeviceKernels, are_backward_and_gather_in_one) {
  int times = 0;
  for (int problem = 0; problem < static_cast<int>(kernel_problems().size()); ++problem) {
    // A table's rows, or those of exact functions, which are not fused.
    for (const int rows : all_rows_per_bin<float>()) times += check_fused<float>(problem, rows);
    for (const int rows : all_rows_per_bin<double>()) times += check_fused<double>(problem, rows);
  }
  EXPECT_GE(times, 22);    // three kinds of table where float alone has cubic ones
}

INSTANTIATE_TEST_SUITE_P(, DeviceKernels, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "generated" : "generic"; });

// Together with kernel_problems() this shows that the tests above use every generated kernel, and the generic kernel
// with a path group of more paths than one call accepts.
TEST(DevicePathGroups, the_problems_meet_every_generated_path_group) {
  std::set<std::string> met;
  size_t most_paths = 0;
  for (const KernelProblem &p : kernel_problems())
    for (const ProductPathGroup &path_group : path_groups_of(p.product())) {
      met.insert(path_group.shape.key());
      most_paths = std::max(most_paths, path_group.shape.paths.size());
    }
  EXPECT_GT(most_paths, static_cast<size_t>(MAX_CALL_PATHS));
  for (const auto &path_groups : {common_path_groups(), common_uvw_paths()})
    for (const PathGroupShape &path_group : path_groups) {
      EXPECT_EQ(met.count(path_group.key()), 1u) << path_group.key();
      EXPECT_TRUE(is_taken(device_kernels<float>(), path_group)) << path_group.key();
      EXPECT_TRUE(is_taken(device_kernels<double>(), path_group)) << path_group.key();
      EXPECT_TRUE(is_taken(device_kernels<Dual<double>>(), path_group)) << path_group.key();
    }
  EXPECT_FALSE(is_taken(device_kernels<double>(), PathGroupShape::from_key("9_99")));
}

// A pass over the blocks of a layer is one launch; with two blocks of each order (both parities) it is two.
TEST(DevicePathGroups, a_pass_is_few_launches) {
  const DeviceExec exec;
  int times_met = 0;
  for (const KernelProblem &p : kernel_problems()) {
    std::map<std::string, int> times;
    for (const ProductPathGroup &path_group : path_groups_of(p.product())) times[path_group.shape.key()]++;
    const FeatureLayout in(p.product().irreps_in), out(p.product().irreps_out);
    const DeviceConvolution<float> convolution(exec, p.convolution, in, out, 1, kernel_options(6));
    if (convolution.num_generic_path_groups() > 0) continue;
    EXPECT_LE(convolution.num_launches(), static_cast<int>(path_groups_of(p.product()).size())) << p.name;
    if (times.size() == 3 && times.count("0_00_11_22") && times.count("2_02_11_12_20_21_22")) {
      EXPECT_EQ(convolution.num_launches(), times["2_02_11_12_20_21_22"]) << p.name;
      times_met++;
    }
  }
  EXPECT_GE(times_met, 1);
}

TEST(DevicePathGroups, the_generic_kernel_serves_what_has_no_generated_one) {
  const KernelProblem &p = kernel_problems()[1];    // three blocks of common path groups
  const FeatureLayout in(p.product().irreps_in), out(p.product().irreps_out);
  using Convolution = DeviceConvolution<float>;
  const DeviceExec exec;
  EXPECT_EQ(Convolution(exec, p.convolution, in, out, 1, kernel_options(4)).num_generic_path_groups(), 0);
  EXPECT_EQ(Convolution(exec, p.convolution, in, out, 1, kernel_options(4)).num_launches(), 1);
  EXPECT_EQ(Convolution(exec, p.convolution, in, out, 1, kernel_options(4), {}).num_generic_path_groups(), 3);
  EXPECT_EQ(Convolution(exec, p.convolution, in, out, 1, kernel_options(4), {}).num_launches(), 3);
}

}    // namespace
