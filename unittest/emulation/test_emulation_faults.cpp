// SPDX-License-Identifier: MIT
// Tests that the emulated device notices what a GPU would punish or tolerate by luck: each fault is put into a small
// kernel, next to the same kernel without it.
#include "kokkos/device_kernels/device_path_group_impl.h"
#include "kokkos/runtime/device_exec.h"
#include "kokkos/runtime/device_recorder.h"

#include <cublas_v2.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

using namespace equi;
using Buffer = DeviceBuffer<double>;
using Teams = DeviceTeams<>;
using Team = Teams::member_type;
using Pinned = Kokkos::View<double, Kokkos::SharedHostPinnedSpace>;

std::string joined(const std::vector<std::string> &texts) {
  std::string all;
  for (const std::string &t : texts) all += t + "\n";
  return all;
}

// Expects that f, with all work that it queued, causes one report with this text; with an empty text, none.
template <class F>
void expect_report(const std::string &text, const F &f) {
  const std::vector<std::string> reports = emulation::reports_of([&] {
    f();
    Kokkos::fence("test: all faults have shown");
  });
  ASSERT_EQ(reports.size(), text.empty() ? 0u : 1u) << joined(reports);
  if (!text.empty()) {
    EXPECT_NE(reports[0].find(text), std::string::npos) << reports[0];
  }
}

template <class F>
void launch(const F &f, int64_t n = 1, const DeviceExec &exec = DeviceExec()) {
  Kokkos::parallel_for("test:kernel", DeviceRange(exec, 0, n), f);
}
template <class F>
void launch_teams(const F &f, int threads = 32, int teams = 1, int scratch = 0) {
  Teams policy(DeviceExec(), teams, threads);
  policy.set_scratch_size(0, Kokkos::PerTeam(scratch));
  Kokkos::parallel_for("test:teams", policy, f);
}
DeviceExec own_instance() {
  return Kokkos::Experimental::partition_space(DeviceExec(), 1)[0];
}
std::vector<double> numbers(int n) {
  std::vector<double> v(n);
  std::iota(v.begin(), v.end(), 1.0);
  return v;
}
double first_of(const Buffer &b) {
  double value = 0.0;
  copy_to_host(DeviceExec(), &value, b.data(), 1);
  return value;
}

// ---- memory

TEST(EmulatedMemory, the_host_cannot_touch_it) {
  Buffer b;
  b.reserve(10);
  EXPECT_DEATH(std::printf("%g", *b.data()), "the host touches device memory: byte 0 of 'equi:buffer' \\(80 bytes\\)");
  EXPECT_DEATH(b.data()[9] = 1.0, "the host touches device memory: byte 72 of 'equi:buffer'");
  launch([p = b.data()](int64_t) { *p = 1.0; });
  DeviceExec().fence();
  EXPECT_DEATH(b.data()[0] = 1.0, "the host touches device memory") << "after a kernel, too";
}

TEST(EmulatedMemory, a_new_one_is_nan) {
  Buffer b, sum;
  b.reserve(3);
  sum.reserve(1);
  launch([from = b.data(), to = sum.data()](int64_t) { *to = from[0] + from[1] + from[2]; });
  EXPECT_TRUE(std::isnan(first_of(sum)));
  const Pinned pinned(Kokkos::view_alloc("pinned", Kokkos::WithoutInitializing));
  EXPECT_TRUE(std::isnan(pinned()));
}

TEST(EmulatedMemory, kernels_stay_within_it) {
  Buffer b, to;
  assign(DeviceExec(), b, numbers(1000));
  to.reserve(1000);
  for (const int offset : {0, 1, 500, 1000})    // one stride too much
    expect_report(offset == 0 ? "" : "it touches 0 bytes behind the end of 'equi:buffer' (8000 bytes)", [&, offset] {
      launch(
          [=, p = b.data(), q = to.data()](int64_t k) {
            if (k + offset == 1000 || offset == 0) q[k] = p[k + offset];
          },
          1000);
    });
  expect_report("it touches", [&] { launch([p = to.data()](int64_t) { p[-512] = 1.0; }); });
  expect_report("it touches address 0x10", [&] { launch([](int64_t) { *reinterpret_cast<volatile int *>(16) = 1; }); });
}

// Fewer than the 16 bytes at which a guarded page can begin: a read gives NaN, a write is found afterwards.
TEST(EmulatedMemory, writes_next_to_it_are_found) {
  for (const int place : {1, -1}) {
    DeviceBuffer<float> b;
    expect_report("", [&] { assign(DeviceExec(), b, std::vector<float>{1.0f}); });
    expect_report(place > 0 ? "a write 0 bytes behind the end of 'equi:buffer' (4 bytes)"
                            : "a write before the begin of 'equi:buffer' (4 bytes)",
                  [&] {
                    launch([=, p = b.data()](int64_t) { p[place] = 1.0f; });
                    DeviceExec().fence();
                    b = {};
                  });
  }
}

TEST(EmulatedMemory, what_was_freed_stays_untouchable) {
  double *freed;
  {
    Buffer b;
    freed = b.reserve(10);
  }
  Buffer other;
  other.reserve(10);    // gets another place
  expect_report("it touches byte 0 of 'equi:buffer' (80 bytes, which was freed)",
                [=] { launch([=](int64_t) { *freed = 1.0; }); });
  double value;
  expect_report("which was freed", [&] { copy_to_host(DeviceExec(), &value, freed, 1); });
}

TEST(EmulatedMemory, freeing_waits_for_queued_work_and_happens_once) {
  Buffer result;
  result.reserve(1);
  {
    Buffer b;
    b.reserve(1);
    launch([p = b.data()](int64_t) { *p = 3.0; });
    launch([p = b.data(), q = result.data()](int64_t) { *q = *p; });
  }
  EXPECT_EQ(first_of(result), 3.0);
  expect_report("memory is freed that is none: byte 0 of 'twice' (8 bytes, which was freed)", [] {
    void *p = Kokkos::kokkos_malloc<Kokkos::CudaSpace>("twice", 8);
    Kokkos::kokkos_free<Kokkos::CudaSpace>(p);
    Kokkos::kokkos_free<Kokkos::CudaSpace>(p);
  });
}

TEST(EmulatedMemory, views_share_it_until_the_last_one_goes) {
  using View = Kokkos::View<double *, DeviceExec::memory_space>;
  const std::size_t before = emulation::num_allocations();
  {
    View a("a", 4);
    {
      const View b = a;
      launch([b](int64_t k) { b(k) = 1.0; }, 4);    // it holds no reference of its own
    }
    EXPECT_EQ(emulation::num_allocations(), before + 1);
    a = View();
    EXPECT_EQ(emulation::num_allocations(), before);
  }
  EXPECT_EQ(emulation::num_allocations(), before);
}

TEST(EmulatedMemory, copies_know_their_direction_and_length) {
  Buffer b;
  b.reserve(4);
  std::vector<double> host(8, 1.0);
  const DeviceExec exec;
  expect_report("", [&] { copy_to_device(exec, b.data(), host.data(), 4); });
  expect_report("40 bytes from byte 0 of 'equi:buffer', which has 32",
                [&] { copy_to_device(exec, b.data(), host.data(), 5); });
  expect_report("host memory where device memory is expected",
                [&] { copy_to_device(exec, host.data() + 4, host.data(), 4); });
  expect_report("device memory 'equi:buffer' where host memory is expected",
                [&] { copy_to_host(exec, b.data(), b.data(), 4); });
  const std::vector<std::string> both = emulation::reports_of([&] { copy_to_device(exec, host.data(), b.data(), 4); });
  EXPECT_EQ(both.size(), 2u) << joined(both);
}

// ---- what kernels are given

TEST(EmulatedCalls, pointers_to_host_memory_are_found) {
  double on_stack = 1.0;
  std::vector<double> on_heap(100);
  static double global = 1.0;
  for (double *p : {&on_stack, on_heap.data(), &global})
    expect_report("test:kernel: a pointer to host memory", [=] {
      launch([=](int64_t k) {
        if (k > 0) *p = 1.0;
      });
    });
  const std::string of_vector = joined(emulation::reports_of([&] {
    launch([on_heap](int64_t) { (void)on_heap.size(); });
    DeviceExec().fence();
  }));
  EXPECT_NE(of_vector.find("a pointer to host memory"), std::string::npos) << of_vector;
  const Kokkos::View<double *, Kokkos::HostSpace> view("host", 3);
  const std::vector<std::string> reports = emulation::reports_of([&] {
    launch([view](int64_t k) { view(k) = 1.0; });
    DeviceExec().fence();
  });
  EXPECT_NE(joined(reports).find("a view of host memory is read by a kernel"), std::string::npos) << joined(reports);
  Pinned pinned("pinned");
  expect_report("", [&] { launch([p = pinned.data()](int64_t) { *p = 2.0; }); });
}

TEST(EmulatedCalls, pointers_to_host_memory_are_found_in_copied_data) {
  struct Piece {
    int width;
    const double *data;
  };
  std::vector<double> on_host(10);
  Buffer on_device;
  on_device.reserve(10);
  DeviceBuffer<Piece> pieces;
  expect_report("", [&] { assign(DeviceExec(), pieces, std::vector<Piece>{{1, on_device.data()}}); });
  expect_report("a pointer to host memory", [&] {
    assign(DeviceExec(), pieces, std::vector<Piece>{{1, on_host.data()}});
  });
  // Numbers of all sizes are not addresses.
  std::vector<double> any;
  for (int e = -300; e < 300; e++) any.push_back(std::ldexp(1.1, e));
  std::vector<int> whole(4000);
  std::iota(whole.begin(), whole.end(), -2000);
  DeviceBuffer<int> integers;
  expect_report("", [&] {
    assign(DeviceExec(), on_device, any);
    assign(DeviceExec(), integers, whole);
  });
}

TEST(EmulatedCalls, padding_is_no_pointer) {
  struct Padded {
    char c;
    double *data;
    float number;
    void operator()(int64_t) const { *data = c + number; }
  };
  Buffer b;
  b.reserve(1);
  for (int n = 0; n < 20; n++) {
    alignas(Padded) std::array<const void *, sizeof(Padded) / sizeof(void *)> place;
    place.fill(&b);    // the content of before
    auto *padded = new (&place) Padded;
    padded->c = 1;
    padded->data = b.data();
    // Together with the next bytes it is another address of the host.
    const auto low_half = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(&b)) + 4;
    std::memcpy(&padded->number, &low_half, sizeof low_half);
    expect_report("", [&] { launch(*padded); });
  }
}

template <int BYTES>
struct Large {
  std::array<char, BYTES> bytes{};
  void operator()(int64_t) const {}
};

TEST(EmulatedCalls, they_fit_into_the_arguments_of_a_kernel) {
  expect_report("", [] { launch(Large<3000>{}); });
  expect_report("a call of 4000 bytes does not fit", [] { launch(Large<4000>{}); });
  // Without the hint Kokkos sends it through a buffer, at some other time.
  const auto without_hint = [] {
    Kokkos::parallel_for("test:large", Kokkos::RangePolicy<DeviceExec>(0, 1), Large<1000>{});
  };
  expect_report("", without_hint);
}

TEST(EmulatedCalls, teams_are_as_large_as_allowed) {
  const auto nothing = [](const Team &) {};
  EXPECT_NO_THROW(launch_teams(nothing, 1024));
  EXPECT_THROW(launch_teams(nothing, 1025), std::runtime_error);
  EXPECT_THROW(launch_teams(nothing, 0), std::runtime_error);
  using Bounded = Kokkos::TeamPolicy<DeviceExec, Kokkos::LaunchBounds<128, 2>>;
  EXPECT_NO_THROW(Kokkos::parallel_for("test:bounds", Bounded(DeviceExec(), 1, 128), nothing));
  EXPECT_THROW(Kokkos::parallel_for("test:bounds", Bounded(DeviceExec(), 1, 160), nothing), std::runtime_error);
  EXPECT_NO_THROW(launch_teams(nothing, 32, 1, 48000));
  EXPECT_THROW(launch_teams(nothing, 32, 1, 49000), std::runtime_error) << "48 kB are there without asking";
  EXPECT_THROW(launch_teams(nothing, 32, -1), std::runtime_error);
  const auto blocks = emulation::counts().blocks;
  expect_report("", [&] {
    launch_teams(nothing, 32, 0);
    launch(Large<8>{}, 0);
  });
  EXPECT_EQ(emulation::counts().blocks, blocks + 3) << "none of a launch of nothing";
}

// ---- streams

TEST(EmulatedStreams, work_is_done_at_a_fence) {
  Pinned result("result");
  launch([p = result.data()](int64_t) { *p = 5.0; });
  EXPECT_EQ(result(), 0.0) << "before the fence";
  DeviceExec().fence();
  EXPECT_EQ(result(), 5.0);

  Buffer b;
  assign(DeviceExec(), b, numbers(1));
  double host = 0.0;
  Kokkos::deep_copy(DeviceExec(), Kokkos::View<double *, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(&host, 1),
                    Kokkos::View<double *, DeviceExec::memory_space, Kokkos::MemoryUnmanaged>(b.data(), 1));
  EXPECT_EQ(host, 0.0) << "before the fence";
  DeviceExec().fence();
  EXPECT_EQ(host, 1.0);
}

TEST(EmulatedStreams, only_fences_order_the_work_of_two) {
  const DeviceExec a = own_instance(), b = own_instance();
  Buffer x, y;
  y.reserve(1);
  const auto is_right = [&](bool fenced) {
    x = {};
    x.reserve(1);
    launch([p = x.data()](int64_t) { *p = 7.0; }, 1, a);
    if (fenced) a.fence();
    launch([p = x.data(), q = y.data()](int64_t) { *q = *p; }, 1, b);
    b.fence();
    a.fence();
    return first_of(y) == 7.0;
  };
  EXPECT_TRUE(is_right(true));
  EXPECT_FALSE(is_right(false));
}

// An owner of CUDA's object, as far as tests need it.
struct Event {
  Event() { cudaEventCreateWithFlags(&event, cudaEventDisableTiming); }
  ~Event() { cudaEventDestroy(event); }
  // `later` waits for the work of `earlier`.
  void order(const DeviceExec &earlier, const DeviceExec &later) const {
    EXPECT_EQ(cudaEventRecord(event, earlier.cuda_stream()), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(later.cuda_stream(), event, 0), cudaSuccess);
  }
  cudaEvent_t event;
};

TEST(EmulatedStreams, events_order_the_work_of_two) {
  const DeviceExec a = own_instance(), b = own_instance();
  const Event event;
  Buffer x;
  assign(DeviceExec(), x, numbers(1));
  launch([p = x.data()](int64_t) { *p += 1.0; }, 1, a);
  event.order(a, b);
  launch([p = x.data()](int64_t) { *p *= 10.0; }, 1, b);
  event.order(b, a);
  launch([p = x.data()](int64_t) { *p += 3.0; }, 1, a);
  a.fence();
  EXPECT_EQ(first_of(x), 23.0);
}

TEST(EmulatedStreams, others_come_some_way_by_chance) {
  const DeviceExec a = own_instance(), b = own_instance();
  int began = 0;
  for (int n = 0; n < 100; n++) {
    Pinned first("first"), last("last");
    launch([p = first.data()](int64_t) { *p = 1.0; }, 1, b);
    launch([p = last.data()](int64_t) { *p = 1.0; }, 1, b);
    launch(Large<8>{}, 1, a);
    a.fence();
    began += first() == 1.0;
    ASSERT_EQ(last(), 0.0) << "the last work waits for its fence";
    b.fence();
  }
  EXPECT_GT(began, 10);
  EXPECT_LT(began, 90);
}

TEST(EmulatedStreams, the_legacy_stream_is_ordered_with_all) {
  const DeviceExec a = own_instance(), legacy{cudaStream_t(nullptr)};
  Buffer x;
  assign(DeviceExec(), x, numbers(1));
  launch([p = x.data()](int64_t) { *p += 1.0; }, 1, a);
  launch([p = x.data()](int64_t) { *p *= 10.0; }, 1, legacy);
  launch([p = x.data()](int64_t) { *p += 3.0; }, 1, DeviceExec());
  DeviceExec().fence();
  EXPECT_EQ(first_of(x), 23.0);
}

// ---- graphs

// Recordings of a step of one kind: plain, recorded, replayed.
class EmulatedGraphs : public ::testing::Test {
 protected:
  template <class Work>
  void step(const Work &work) {
    recorder.begin_step(0, {}, {});
    recorder.run(exec, work);
    recorder.end_step();
    exec.fence("test: end of a step");
  }
  DeviceExec exec = own_instance();
  DeviceRecorder<> recorder;
};

TEST_F(EmulatedGraphs, a_replay_has_the_arguments_of_the_recording) {
  Buffer x;
  assign(DeviceExec(), x, numbers(1));
  double added = 1.0;
  std::vector<double> seen;
  const auto captures = emulation::counts().captures;
  for (int n = 0; n < 4; n++) {
    added = 10.0 * n;    // a kernel's argument that changes, which is not allowed
    step([&] { launch([=, p = x.data()](int64_t) { *p += added; }, 1, exec); });
    seen.push_back(first_of(x));
  }
  EXPECT_EQ(seen, (std::vector<double>{1.0, 11.0, 21.0, 31.0})) << "10 was recorded";
  EXPECT_EQ(emulation::counts().captures, captures + 1);
}

TEST_F(EmulatedGraphs, a_replay_with_memory_that_moved_is_reported) {
  Buffer x;
  x.reserve(10);
  const auto work = [&] { launch([p = x.data()](int64_t k) { p[k] = 1.0; }, 10, exec); };
  for (int n = 0; n < 3; n++) expect_report("", [&] { step(work); });
  x.reserve(20);
  expect_report("it touches byte", [&] { step(work); });
  recorder.forget();
  expect_report("", [&] { step(work); });
}

TEST_F(EmulatedGraphs, a_recording_takes_nothing_but_its_own_launches) {
  const auto expect_in_capture = [&](const std::string &text, const std::function<void()> &work) {
    DeviceGraph<DeviceExec> graph;
    bool is_first = true;
    expect_report(text, [&] {
      graph.record(exec, [&] {
        if (std::exchange(is_first, false)) work();    // not if the work is launched because of an error
      });
    });
  };
  const auto nothing = Large<8>{};
  expect_in_capture("", [&] { launch(nothing, 1, exec); });
  expect_in_capture("test:kernel goes to another stream while one is captured", [&] { launch(nothing); });
  expect_in_capture("the fence 'here' of a stream that is captured", [&] { exec.fence("here"); });
  expect_in_capture("the fence 'everywhere' of all streams while a stream is captured",
                    [&] { Kokkos::fence("everywhere"); });
  void *memory = nullptr;
  expect_in_capture("'memory' is allocated while a stream is captured",
                    [&] { memory = Kokkos::kokkos_malloc<Kokkos::CudaSpace>("memory", 8); });
  expect_in_capture("'memory' is freed while a stream is captured",
                    [&] { Kokkos::kokkos_free<Kokkos::CudaSpace>(memory); });
  expect_in_capture("a call of 1000 bytes does not fit", [&] {
    Kokkos::parallel_for("test:large", Kokkos::RangePolicy<DeviceExec>(exec, 0, 1), Large<1000>{});
  });
  double number = 0.0;
  Buffer b;
  b.reserve(1);
  const Kokkos::View<double *, DeviceExec::memory_space, Kokkos::MemoryUnmanaged> on_device(b.data(), 1);
  expect_in_capture("copies host memory that is not pinned while a stream is captured", [&] {
    Kokkos::deep_copy(exec, on_device, Kokkos::View<double *, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(&number, 1));
  });
  const Pinned pinned("pinned");
  expect_in_capture("", [&] { Kokkos::deep_copy(exec, on_device, pinned); });
  expect_in_capture("a reduction to the host while a stream is captured", [&] {
    Kokkos::parallel_reduce(
        "test:max", DeviceRange(exec, 0, 1), [](int64_t, double &max) { max = 1.0; }, Kokkos::Max<double>(number));
  });
  cublasHandle_t handle = nullptr;
  cublasCreate(&handle);
  for (const bool has_workspace : {true, false})
    expect_in_capture(has_workspace ? "" : "cublasDgemm without a workspace is captured", [&] {
      cublasSetStream(handle, exec.cuda_stream());    // resets it
      if (has_workspace) cublasSetWorkspace(handle, b.data(), b.bytes());
      cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &number, b.data(), 1, b.data(), 1, &number, b.data(), 1);
    });
  cublasDestroy(handle);
}

TEST_F(EmulatedGraphs, a_capture_that_nobody_ends_is_reported) {
  cudaStreamBeginCapture(exec.cuda_stream(), cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaStreamBeginCapture(exec.cuda_stream(), cudaStreamCaptureModeRelaxed), cudaErrorIllegalState);
  EXPECT_EQ(joined(emulation::reports_of(emulation::check_streams)),
            "the capture of a stream was never ended\n"
            "nobody has read the error 'the operation cannot be performed in the present state'\n");
  cudaGraph_t graph;
  EXPECT_EQ(cudaStreamEndCapture(exec.cuda_stream(), &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(exec.cuda_stream(), &graph), cudaErrorIllegalState);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalState);
}

TEST_F(EmulatedGraphs, branches_come_in_any_order_that_events_allow) {
  const DeviceExec side = own_instance();
  const Event event;
  int as_written = 0;
  Buffer z;
  z.reserve(1);
  for (int n = 0; n < 40; n++) {
    step([&] {
      launch([p = z.data()](int64_t) { *p = 1.0; }, 1, exec);
      event.order(exec, side);
      launch([p = z.data()](int64_t) { *p += 1.0; }, 1, side);
      launch([p = z.data()](int64_t) { *p *= 10.0; }, 1, exec);
      event.order(side, exec);
    });
    as_written += first_of(z) == 20.0;
  }
  EXPECT_GT(as_written, 5);
  EXPECT_LT(as_written, 35);
}

TEST_F(EmulatedGraphs, a_branch_that_a_capture_does_not_wait_for_is_reported) {
  const DeviceExec side = own_instance();
  const Event event;
  const auto record = [&](bool is_joined) {
    DeviceGraph<DeviceExec> graph;
    bool is_first = true;
    graph.record(exec, [&] {
      if (!std::exchange(is_first, false)) return;
      event.order(exec, side);
      launch(Large<8>{}, 1, side);
      if (is_joined) event.order(side, exec);
    });
  };
  expect_report("", [&] { record(true); });
  expect_report("another stream has work that the captured one does not wait for", [&] { record(false); });
  expect_report("", [&] { record(true); });
}

// ---- threads of a team

TEST(EmulatedTeams, lanes_exchange_together) {
  DeviceBuffer<int> sum;
  sum.reserve(4);
  const auto add_up = [&](auto leaves) {
    launch_teams(
        [=, to = sum.data()](const Team &team) {
          const int lane = team.team_rank() % 32;
          if (leaves(team.team_rank())) return;
          int value = team.team_rank();
          for (int offset = 16; offset > 0; offset /= 2) value += from_lane_xor(value, offset);
          if (lane == 0) to[team.team_rank() / 32] = value;
        },
        128);
  };
  expect_report("", [&] { add_up([](int) { return false; }); });
  std::vector<int> sums(4);
  copy_to_host(DeviceExec(), sums.data(), sum.data(), 4);
  for (int w = 0; w < 4; w++) EXPECT_EQ(sums[w], 32 * 32 * w + 31 * 16);
  expect_report("", [&] { add_up([](int thread) { return thread >= 64; }); });
  expect_report(
      "31 lanes of a warp are at an exchange of the lanes 0xffffffff, of which others have ended, lane 5 first",
      [&] { add_up([](int thread) { return thread == 37; }); });
}

TEST(EmulatedTeams, exchanges_match) {
  const auto exchange = [](unsigned lanes_of_even, unsigned lanes_of_odd, int mask_of_odd = 2) {
    launch_teams([=](const Team &team) {
      const bool is_odd = team.team_rank() % 2;
      __shfl_xor_sync(is_odd ? lanes_of_odd : lanes_of_even, 1.0f, is_odd ? mask_of_odd : 2, 32);
    });
  };
  expect_report("", [=] { exchange(0x55555555, 0xaaaaaaaa); });
  expect_report("at an exchange of the lanes 0xffffffff, of which others go on",
                [=] { exchange(0x55555555, 0xffffffff); });
  expect_report("different exchanges", [=] { exchange(0xffffffff, 0xffffffff, 4); });
  expect_report("is at an exchange of the lanes 0x55555555", [=] { exchange(0x55555555, 0x55555555); });
  expect_report("takes no part in the exchange", [=] { exchange(0x55555555, 0xaaaaaaaa, 1); });
  expect_report("different exchanges", [] {
    launch_teams([](const Team &team) {
      if (team.team_rank() < 16)
        __shfl_xor_sync(0xffffffff, 1.0f, 16, 32);
      else
        __shfl_xor_sync(0xffffffff, 1, 16, 32);
    });
  });
  expect_report("of which others are at a barrier", [] {
    launch_teams([](const Team &team) {
      if (team.team_rank() < 16)
        __shfl_xor_sync(0xffffffff, 1.0f, 1, 32);
      else
        team.team_barrier();
    });
  });
  expect_report("an exchange between lanes outside of a team", [] { launch([](int64_t) { from_lane_xor(1.0, 1); }); });
  expect_report("an exchange with xor 32", [] { launch_teams([](const Team &) { from_lane_xor(1.0, 32); }); });
  expect_report("of which others have ended, lane 20 first",
                [] { launch_teams([](const Team &) { from_lane_xor(1.0, 1); }, 20); });
}

TEST(EmulatedTeams, barriers_are_for_all_threads) {
  const auto wait = [](int leaving) {
    launch_teams(
        [=](const Team &team) {
          if (team.team_rank() != leaving) team.team_barrier();
        },
        96);
  };
  expect_report("", [=] { wait(-1); });
  expect_report("95 threads are at a barrier, 1 have ended", [=] { wait(40); });
}

// A sum over neighbors in shared memory.
double sum_by_shared_memory(bool has_barrier, int asked, int used) {
  Buffer result;
  result.reserve(1);
  launch_teams(
      [=, to = result.data()](const Team &team) {
        auto *shared = static_cast<double *>(team.team_scratch(0).get_shmem(asked * sizeof(double)));
        const int rank = team.team_rank();
        shared[rank] = rank;
        if (rank == 0)
          for (int k = team.team_size(); k < used; k++) shared[k] = 0.0;
        if (has_barrier) team.team_barrier();
        if (rank != team.team_size() / 2) return;
        double sum = 0.0;
        for (int k = 0; k < used; k++) sum += shared[k];
        *to = sum;
      },
      64, 1, 80 * sizeof(double));
  return first_of(result);
}

TEST(EmulatedTeams, shared_memory_is_nan_until_written) {
  int without_barrier = 0;
  for (int n = 0; n < 30; n++) {
    EXPECT_EQ(sum_by_shared_memory(true, 80, 80), 63 * 32);
    without_barrier += std::isnan(sum_by_shared_memory(false, 80, 80));
  }
  EXPECT_GT(without_barrier, 5) << "some orders are right by chance";
}

TEST(EmulatedTeams, shared_memory_ends_where_it_was_asked_for) {
  expect_report("shared memory 0 bytes behind the 640 that it asked for", [] { sum_by_shared_memory(true, 80, 81); });
  expect_report("it touches address 0x", [] { sum_by_shared_memory(true, 81, 80); });
}

TEST(EmulatedTeams, sums_and_places_within_a_team) {
  DeviceBuffer<int> result;
  result.reserve(102);
  expect_report("", [&] {
    launch_teams(
        [to = result.data()](const Team &team) {
          int sum = 0;
          Kokkos::parallel_reduce(
              Kokkos::TeamThreadRange(team, 100), [&](int k, int &s) { s += k; }, sum);
          Kokkos::parallel_scan(Kokkos::TeamThreadRange(team, 100), [&](int k, int &place, bool is_final) {
            if (is_final) to[k] = place;
            place += k % 3;
          });
          Kokkos::single(Kokkos::PerTeam(team), [&] { to[100] = sum; });
          Kokkos::parallel_for(Kokkos::TeamVectorRange(team, 1), [&](int) { to[101] = team.team_rank(); });
        },
        64);
  });
  std::vector<int> found(102);
  copy_to_host(DeviceExec(), found.data(), result.data(), 102);
  EXPECT_EQ(found[100], 4950);
  EXPECT_EQ(found[101], 0);
  for (int k = 0, sum = 0; k < 100; sum += k++ % 3) EXPECT_EQ(found[k], sum);
}

// ---- order

// The last block to write wins.
int last_of(int blocks, bool teams) {
  DeviceBuffer<int> x;
  x.reserve(1);
  if (teams)
    launch_teams([p = x.data()](const Team &team) { *p = team.league_rank(); }, 32, blocks);
  else
    launch([p = x.data()](int64_t k) { *p = static_cast<int>(k); }, blocks);
  int last;
  copy_to_host(DeviceExec(), &last, x.data(), 1);
  return last;
}

TEST(EmulatedOrder, is_another_one_at_each_launch_and_repeats_with_the_seed) {
  for (const bool teams : {false, true}) {
    std::vector<int> first, second;
    for (auto *found : {&first, &second}) {
      emulation::set_seed(17);
      for (int n = 0; n < 20; n++) found->push_back(last_of(100, teams));
    }
    EXPECT_EQ(first, second);
    std::sort(first.begin(), first.end());
    EXPECT_GT(std::unique(first.begin(), first.end()) - first.begin(), 10);
    emulation::set_seed(18);
    std::vector<int> other;
    for (int n = 0; n < 20; n++) other.push_back(last_of(100, teams));
    EXPECT_NE(other, second);
  }
}

TEST(EmulatedOrder, of_warps_and_lanes_of_a_team_as_well) {
  std::vector<int> last;
  for (int n = 0; n < 40; n++) {
    DeviceBuffer<int> x;
    x.reserve(1);
    launch_teams([p = x.data()](const Team &team) { *p = team.team_rank(); }, 128);
    last.push_back(0);
    copy_to_host(DeviceExec(), &last.back(), x.data(), 1);
  }
  for (const int end : {0, 31})
    EXPECT_GT(std::count_if(last.begin(), last.end(), [=](int k) { return k % 32 == end; }), 5);
  for (int w = 0; w < 4; w++) EXPECT_GT(std::count_if(last.begin(), last.end(), [=](int k) { return k / 32 == w; }), 1);
}

TEST(EmulatedOrder, of_a_range_leaves_out_and_repeats_nothing) {
  for (const int n : {1, 2, 3, 64, 97, 1000}) {
    DeviceBuffer<int> count;
    assign(DeviceExec(), count, std::vector<int>(n, 0));
    launch([p = count.data()](int64_t k) { p[k]++; }, n);
    std::vector<int> counts(n);
    copy_to_host(DeviceExec(), counts.data(), count.data(), n);
    EXPECT_EQ(counts, std::vector<int>(n, 1)) << n;
  }
}

TEST(EmulatedOrder, sums_of_a_range_are_right_and_scans_too) {
  for (const int n : {1, 5, 64, 1000}) {
    double max = 0.0;
    Kokkos::parallel_reduce(
        "test:max", DeviceRange(DeviceExec(), 0, n),
        [](int64_t k, double &m) { m = m > k ? m : static_cast<double>(k); }, Kokkos::Max<double>(max));
    EXPECT_EQ(max, n - 1);
    DeviceBuffer<int64_t> before;
    before.reserve(n);
    Kokkos::parallel_scan("test:scan", DeviceRange(DeviceExec(), 0, n),
                          [p = before.data()](int64_t k, int64_t &sum, bool is_final) {
                            if (is_final) p[k] = sum;
                            sum += k;
                          });
    std::vector<int64_t> found(n);
    copy_to_host(DeviceExec(), found.data(), before.data(), n);
    for (int64_t k = 0; k < n; k++) EXPECT_EQ(found[k], k * (k - 1) / 2);
  }
}

// ---- instructions

TEST(EmulatedInstructions, vector_loads_are_aligned) {
  DeviceBuffer<float> b, to;
  assign(DeviceExec(), b, std::vector<float>(12, 1.0f));
  to.reserve(4);
  const auto load_at = [&](int place) {
    launch([=, p = b.data(), q = to.data()](int64_t) {
      const Four<float> four = load_four(p + place);
      for (int k = 0; k < 4; k++) q[k] = four.v[k];
    });
  };
  expect_report("", [=] { load_at(4); });
  expect_report("not aligned", [=] { load_at(3); });
}

TEST(EmulatedInstructions, indices_stay_within_arrays) {
  DeviceBuffer<int> place;
  const auto write_at = [&](int k) {
    assign(DeviceExec(), place, std::vector<int>{k, 0});
    launch([p = place.data()](int64_t) {
      int local[4] = {0, 1, 2, 3};
      local[p[0]] = 7;
      p[1] = local[p[0]] + local[2];
    });
  };
  expect_report("", [=] { write_at(3); });
  expect_report("an index outside of an array", [=] { write_at(4); });
}

TEST(EmulatedInstructions, faults_end_a_kernel_and_leave_the_rest) {
  DeviceBuffer<int> zero;
  assign(DeviceExec(), zero, std::vector<int>{0, 1});
  expect_report("a division of integers by zero", [&] { launch([p = zero.data()](int64_t) { p[1] = p[1] / p[0]; }); });
  expect_report("kernel 'test:teams', block 2 of 5, thread 33 of 64: it touches address 0x8", [] {
    launch_teams(
        [](const Team &team) {
          if (team.league_rank() == 2 && team.team_rank() == 33) *reinterpret_cast<volatile double *>(8) = 1.0;
        },
        64, 5);
  });
  expect_report("the exception 'no'", [] { launch([](int64_t) { throw std::runtime_error("no"); }); });
  expect_report("a kernel asks for the launch of test:kernel", [] { launch([](int64_t) { launch(Large<8>{}); }); });
  expect_report("a kernel asks for the fence", [] { launch([](int64_t) { DeviceExec().fence(); }); });
  expect_report("a kernel allocates",
                [] { launch([](int64_t) { emulation::allocate(emulation::Space::device, 8, "x"); }); });
  EXPECT_EQ(last_of(1, false), 0) << "the next kernels run";
}

int deeper(int n, const volatile char *before) {
  volatile char room[2048];
  room[0] = before ? *before : static_cast<char>(n);
  return n == 0 ? room[0] : deeper(n - 1, room) + room[0];
}

TEST(EmulatedInstructions, stacks_end) {
  expect_report("the stack of a thread is full", [] { launch([](int64_t) { deeper(1000, nullptr); }); });
}

}    // namespace
