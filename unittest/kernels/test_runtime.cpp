// SPDX-License-Identifier: MIT
// The promises of the host's threads: their number, that no fault in a parallel region is lost, and that no kernel
// hides a broken number.
#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/runtime/host_exec.h"
#include "src/evaluation/native_evaluators.h"
#include "src/functions/activation.h"
#include "unittest/support/child_process.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

// ---- threads

constexpr int64_t NUM_TERMS = 100000;

// The number of threads, and of the terms that a sum over all of them has; then the completed pieces of a loop.
std::string sum_on_threads() {
  int64_t sum = 0;
  Kokkos::parallel_reduce(
      "equi:test", Kokkos::RangePolicy<HostExec>(0, NUM_TERMS), [](int64_t, int64_t &s) { s++; }, sum);
  std::vector<int> done(NUM_TERMS, 0);
  Kokkos::parallel_for("equi:test", Kokkos::RangePolicy<HostExec>(0, NUM_TERMS), [&](int64_t k) { done[k]++; });
  for (const int times : done) sum += times == 1;
  return std::to_string(HostExec().concurrency()) + " " + std::to_string(sum);
}

const bool IS_REGISTERED = [] {
  child_tasks()["sum_on_threads"] = sum_on_threads;
  return true;
}();

std::string all_terms(int num_threads) {
  return std::to_string(num_threads) + " " + std::to_string(2 * NUM_TERMS);
}

// A variable of the environment, during the life of this object.
class Variable {
 public:
  Variable(const char *name, const char *value) : name_(name) {
    if (const char *before = std::getenv(name)) before_ = before, was_set_ = true;
    setenv(name, value, 1);
  }
  ~Variable() { was_set_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }

 private:
  const char *name_;
  std::string before_;
  bool was_set_ = false;
};

TEST(HostThreads, are_as_many_as_asked_for) {
  ASSERT_TRUE(IS_REGISTERED);
  for (const int n : {1, 3, 4}) EXPECT_EQ(run_child("sum_on_threads", n), all_terms(n));
}

TEST(HostThreads, are_no_more_than_kokkos_holds) {
  for (const int n : {512, 513, 600, 2000, 1000000}) EXPECT_EQ(run_child("sum_on_threads", n), all_terms(512)) << n;
  // OpenMP's default number is bounded as well.
  const Variable number("OMP_NUM_THREADS", "700");
  EXPECT_EQ(run_child("sum_on_threads", 0), all_terms(512));
}

TEST(HostThreads, are_no_more_than_openmp_gives) {
  {
    const Variable limit("OMP_THREAD_LIMIT", "3");
    EXPECT_EQ(run_child("sum_on_threads", 8), all_terms(3));
    EXPECT_EQ(run_child("sum_on_threads", 2), all_terms(2));
  }
  // Regions that may have fewer threads than requested have all of them, whatever the environment says.
  const Variable dynamic("OMP_DYNAMIC", "true");
  EXPECT_EQ(run_child("sum_on_threads", 8), all_terms(8));
  const Variable levels("OMP_MAX_ACTIVE_LEVELS", "0");
  EXPECT_EQ(run_child("sum_on_threads", 4), all_terms(4));
}

TEST(HostThreads, a_kokkos_that_runs_keeps_its_threads) {
  const int before = HostExec().concurrency();
  EXPECT_EQ(start_kokkos(before + 1, 0), 0);
  EXPECT_EQ(HostExec().concurrency(), before);
}

TEST(HostThreads, share_memory_that_is_there) {
  EXPECT_GT(memory_available(1), 1e6);
  EXPECT_LE(memory_available(4), memory_available(1));
  EXPECT_GE(memory_available(1000000000), 1.0);    // 0 would be no limit
}

// ---- faults

TEST(ParallelFault, the_first_one_is_thrown_after_all_work_is_done) {
  for (int round = 0; round < 3; round++) {
    std::vector<int> done(100, 0);
    try {
      parallel_with_faults("equi:test", Kokkos::RangePolicy<HostExec>(0, 100), [&](int64_t k) {
        done[k]++;
        if (k == 30 || k == 70) throw std::runtime_error("piece " + std::to_string(k));
        if (k == 99) throw 99;    // no std::exception
      });
      ADD_FAILURE();
    } catch (const std::exception &e) {
      EXPECT_STREQ(e.what(), "piece 30");
    }
    EXPECT_EQ(done, std::vector<int>(100, 1));
  }
  EXPECT_THROW(parallel_with_faults("equi:test", Kokkos::RangePolicy<HostExec>(0, 8),
                                    [](int64_t k) {
                                      if (k == 5) throw 5;
                                    }),
               int);
  parallel_with_faults("equi:test", Kokkos::RangePolicy<HostExec>(0, 8), [](int64_t) {});
}

// ---- broken numbers

constexpr Activation ALL_ACTIVATIONS[] = {Activation::silu, Activation::tanh, Activation::sigmoid,
                                          Activation::relu, Activation::abs,  Activation::ssp,
                                          Activation::mish, Activation::gelu, Activation::identity};

template <class T>
class NotANumber : public ::testing::Test {};
using NumberTypes = ::testing::Types<float, double, Dual<float>, Dual<double>>;
TYPED_TEST_SUITE(NotANumber, NumberTypes);

TYPED_TEST(NotANumber, stays_none_through_activations) {
  using T = TypeParam;
  for (const Activation a : ALL_ACTIVATIONS) {
    const auto of_nan = activate(a, make_number<T>(NAN, 1));
    EXPECT_TRUE(std::isnan(value_of(of_nan.value))) << activation_name(a);
    if (a != Activation::identity) {
      EXPECT_TRUE(std::isnan(value_of(of_nan.derivative))) << activation_name(a);
    }
    if (IS_DUAL<T>) {
      // A tangent of NaN stays NaN if the derivative is not zero.
      const auto broken = activate(a, make_number<T>(Real<T>(0.5), NAN));
      EXPECT_TRUE(std::isnan(tangent_of(broken.value))) << activation_name(a);
    }
  }
}

TYPED_TEST(NotANumber, leaves_activations_at_zero_as_they_are) {
  using T = TypeParam;
  for (const Real<T> zero : {Real<T>(0), -Real<T>(0)}) {
    const auto relu = activate(Activation::relu, make_number<T>(zero, 3)),
               abs = activate(Activation::abs, make_number<T>(zero, 3));
    EXPECT_EQ(value_of(relu.value), Real<T>(0));
    EXPECT_EQ(tangent_of(relu.value), Real<T>(0));
    EXPECT_EQ(value_of(relu.derivative), Real<T>(0));
    EXPECT_EQ(value_of(abs.derivative), Real<T>(0));
  }
  EXPECT_EQ(value_of(activate(Activation::relu, make_number<T>(-INFINITY, 0)).value), Real<T>(0));
  EXPECT_EQ(value_of(activate(Activation::relu, make_number<T>(INFINITY, 0)).value), Real<T>(INFINITY));
}

// Channel by channel, for numbers of channels around the blocks of the kernels.
TYPED_TEST(NotANumber, stays_none_through_gates) {
  using T = TypeParam;
  using R = Real<T>;
  constexpr int MUL = 19, DIM = 3, STRIDE = 32, PLANE = DIM * STRIDE, SIZE = PLANES<T> * PLANE;
  for (const Activation a : ALL_ACTIVATIONS)
    for (const InstructionSet set : INSTRUCTION_SETS)
      for (const bool is_gated : {false, true})
        for (const int broken : {0, 3, 15, 16, 18}) {
          if (!instruction_set_available(set)) continue;
          std::vector<R> z(SIZE, R(0.25)), gate(SIZE, R(0.5)), x(SIZE, R(0));
          (is_gated ? gate : z)[broken] = NAN;
          GateCall<T> call{};
          call.activation = a;
          call.scale = 1;
          call.mul = MUL;
          call.dim = is_gated ? DIM : 1;
          call.rows = 1;
          call.z = make_pointer<T>(z.data(), PLANE);
          call.gate = is_gated ? make_pointer<T>(gate.data(), PLANE) : Pointer<T>{};
          call.x = make_pointer<T>(x.data(), PLANE);
          call.z_stride = call.x_stride = STRIDE;
          const std::string what = std::string(activation_name(a)) + ", " + instruction_set_name(set) + ", channel " +
                                   std::to_string(broken) + (is_gated ? ", gated" : "");
          const HostKernels<T> &kernels = host_kernels<T>(set);
          kernels.gate_forward(call);
          for (int m = 0; m < call.dim; m++)
            for (int u = 0; u < MUL; u++)
              EXPECT_EQ(std::isnan(x[m * STRIDE + u]), u == broken) << what << ", value of channel " << u;
          std::fill(x.begin(), x.end(), R(1));    // the adjoint of the output
          kernels.gate_backward(call);
          const std::vector<R> &adjoint = is_gated ? gate : z;
          for (int u = 0; u < MUL; u++) {
            const bool is_constant = a == Activation::identity;    // its derivative does not depend on a broken number
            EXPECT_EQ(std::isnan(adjoint[u]), u == broken && !is_constant) << what << ", adjoint of channel " << u;
          }
        }
}

}    // namespace
