// SPDX-License-Identifier: MIT
// An emulated GPU for tests. It implements the Kokkos and CUDA of include/, with which the sources for devices compile
// unchanged. It computes what a GPU would compute, slowly, and reports what a GPU would punish or, worse, sometimes
// tolerate (README.md lists both). A report is a failure of the running test.
//
// Requests to the device happen at the latest moment. Queued work runs when its stream is waited for, and some of that
// of other streams before it, by chance. Threads of a block, warps, blocks and the indices of a range run in a random
// order, which a seed repeats.
#ifndef EQUI_EMULATION_H
#define EQUI_EMULATION_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace emulation {

// ---- reports

// A fault of the code under test. Does not return to a kernel: its launch is abandoned.
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
using ReportHandler = void (*)(const std::string &text);
void set_report_handler(ReportHandler handler);
// The reports that f causes, in place of failures. For one thread at a time.
std::vector<std::string> reports_of(const std::function<void()> &f);

// Number of lanes of the device: the environment's EQUI_EMULATED_LANES, or else so few that no launch leaves half of
// them idle.
int num_lanes();

// ---- chance

// Seed of all random orders from here on. The environment's EQUI_EMULATION_SEED changes the seed with which a program
// begins.
void set_seed(std::uint64_t seed);
std::uint64_t environment_seed();
std::int64_t random_below(std::int64_t n);    // 0 for n < 2

// The numbers 0 .. n-1 in some order.
class RandomOrder {
 public:
  explicit RandomOrder(std::int64_t n);
  std::int64_t operator[](std::int64_t k) const {
    return static_cast<std::int64_t>((static_cast<__int128>(k) * factor_ + shift_) % n_);
  }

 private:
  std::int64_t n_, factor_ = 1, shift_ = 0;
};

// ---- memory

// Only kernels can access device memory; both sides can access pinned memory; host memory is that of views in the
// host's memory. New memory of all kinds is filled with bytes 0xff, which are NaN and -1. Inaccessible pages lie before
// and after device and pinned memory, and no address is used a second time.
enum class Space { host, device, pinned };
void *allocate(Space space, std::size_t bytes, const std::string &label);
// Memory begins with one reference and is freed with its last one. All work that this thread has queued is done before,
// as by cudaFree. If there are several ranks, a thread stands for a process.
void retain(const void *data);
void release(const void *data);
// Whether [data, data + bytes) is host memory or part of one allocation of pinned or device memory, as required for a
// copy with these ends; reports if not.
bool check_range(const char *label, const void *data, std::size_t bytes, bool is_device);
bool is_pinned(const void *data);
// Whether the memory around the memory in use is unchanged; reports if not.
void check_memory();
std::size_t num_allocations();

// Views that are copied while this is off hold no reference, like those within functors of queued kernels.
bool &is_tracking();

// ---- streams and graphs

struct Node {
  std::string label;
  const std::type_info *type;    // of the functor
  std::function<void()> work;    // runs as one thread, unless it calls run_blocks()
};
// Nodes, each with the numbers of the nodes that it follows.
struct Graph {
  std::vector<Node> nodes;
  std::vector<std::vector<std::size_t>> after;
};

struct Capture;
// A queue of work. The legacy stream, which CUDA identifies by a null pointer, waits for all others and they for it.
struct Stream {
  struct Item {
    std::uint64_t number;                                 // in the order of all streams
    std::shared_ptr<const std::atomic<bool>> is_there;    // of the thread that queued it
    std::shared_ptr<const Graph> graph;                   // null: only waits
    Stream *awaited = nullptr;                            // whose items up to a number come first
    std::uint64_t awaited_number = 0;
  };
  bool is_legacy = false;
  std::deque<Item> queue;
  std::shared_ptr<Capture> capture;    // the capture that it belongs to; null: none
};
// What streams record instead of doing it: the stream whose capture was begun, and those that have waited for its
// events.
struct Capture {
  Graph graph;
  std::map<Stream *, std::vector<std::size_t>> ends;    // the nodes that the next node of a stream follows
};
// The progress of a stream at the time of recording: to the last queued item, or to nodes of a capture.
struct Event {
  Stream *stream = nullptr;    // null: it was not recorded
  std::uint64_t number = 0;
  std::shared_ptr<const Capture> capture;
  std::vector<std::size_t> nodes;
};
Stream *make_stream();
Stream *default_stream();    // of Kokkos
Stream *stream_of(void *cuda_stream);

// Whether the launch was accepted (refuse_launches).
bool enqueue(Stream *stream, Node node);
// Copies from [bytes] to `to`; the caller's types state which side is on the device.
void enqueue_copy(Stream *stream, const std::string &label, void *to, bool to_device, const void *from,
                  bool from_device, std::size_t bytes);
void fence(Stream *stream, const std::string &reason);
void fence_all(const std::string &reason);
bool begin_capture(Stream *stream);
// Null: none was begun on the stream, or work of another stream does not come before its end, which is a fault.
std::shared_ptr<const Graph> end_capture(Stream *stream);
void enqueue_graph(Stream *stream, std::shared_ptr<const Graph> graph);
void record(Event &event, Stream *stream);
// All later work of the stream follows the event. False: one of the two is captured, but not both by the same capture.
bool wait_for(Stream *stream, const Event &event);
// Removes the stream as soon as its work is done.
void end_stream(Stream *stream);
// Whether this thread captures.
bool is_capturing();
// It is a fault if a capture was not ended, or if an error of this thread was not read.
void check_streams();

// ---- errors of calls

// Refuses a number of launches of kernels, after `taken` more are accepted. As with CUDA, only cudaGetLastError()
// reports it to the caller.
void refuse_launches(std::int64_t taken, std::int64_t refused);
bool is_refusing();    // whether there are launches still to refuse
// GPUs that CUDA finds, of a compute capability major.minor; or the number of the error that it returns instead.
void set_devices(int count, int error, int major = 9, int minor = 0);
// For callers of a Kokkos function that cannot be recorded or be called by a kernel: reports and throws.
void refuse_in_capture(const std::string &what);

// Kokkos for CUDA passes a call of up to 4096 bytes as an argument; these bytes remain after what it adds to a functor.
// A longer call uses a buffer that the host waits for.
constexpr std::size_t MAX_ARGUMENT_BYTES = 4096 - 256, MAX_DEFAULT_ARGUMENT_BYTES = 512 - 256;
// A functor as the device receives it: its bytes, which hold no reference to memory.
class Call {
 public:
  // Short, because it is compiled for every kernel.
  template <class F>
  Call(const std::string &label, const F &functor, bool is_argument) {
    if constexpr (std::is_trivially_copyable_v<F>) {
      // Bytes that are not 0 belong to its numbers.
      alignas(F) unsigned char is_used[sizeof(F)];
      __builtin_memset(is_used, 0xff, sizeof(F));
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
      __builtin_clear_padding(reinterpret_cast<F *>(is_used));
#endif
#endif
      take_bytes(label, &functor, is_used, sizeof(F), is_argument);
    } else {
      is_tracking() = false;
      const std::shared_ptr<const F> copy = std::make_shared<F>(functor);
      is_tracking() = true;
      take(label, copy, copy.get(), nullptr, sizeof(F), is_argument);
    }
  }
  const void *functor() const {
    return functor_;
  }

 private:
  void take(const std::string &label, std::shared_ptr<const void> owner, const void *functor,
            const unsigned char *is_used, std::size_t bytes, bool is_argument);
  void take_bytes(const std::string &label, const void *functor, const unsigned char *is_used, std::size_t bytes,
                  bool is_argument);

  std::shared_ptr<const void> owner_;
  const void *functor_;
};

// ---- threads of a kernel

constexpr int WARP = 32, MAX_THREADS = 1024;
// What a block has without a request, and what it can request.
constexpr std::size_t MAX_SHARED_BYTES = 48 << 10, MOST_SHARED_BYTES = 227 << 10;

// Runs body(block, thread) for all threads of all blocks; a node's work calls it. Shared memory is made anew for each
// block.
void run_blocks(std::int64_t num_blocks, int num_threads, std::size_t shared_bytes,
                const std::function<void(std::int64_t, int)> &body);

bool is_in_kernel();
int thread_rank();
void barrier();
char *shared_memory();
// A number of each thread, visible to all of its block between two barriers.
std::uint64_t &slot(int thread);
// The bits of lane `lane ^ lane_mask`. All lanes of `lanes`, which include the caller, come together. type: of the
// number.
std::uint64_t exchange_xor(unsigned lanes, std::uint64_t bits, int lane_mask, int width, const std::type_info &type);

// ---- what tests count

struct Counts {
  std::int64_t launches = 0, blocks = 0, shuffles = 0, barriers = 0, fences = 0, allocations = 0, captures = 0,
               updates = 0, replays = 0;
  std::int64_t pinned_bytes = 0, pageable_bytes = 0;    // of copies between the device and these kinds of host memory
};
inline Counts all_counts;
inline Counts &counts() {
  return all_counts;
}

}    // namespace emulation

#endif
