// The part of Kokkos that this project uses, with the emulated GPU (emulation.h) as Kokkos::Cuda and one thread as the
// host's execution space. Where Kokkos for CUDA waits, throws or copies, so does this.
#ifndef EQUI_EMULATED_KOKKOS_CORE_HPP
#define EQUI_EMULATED_KOKKOS_CORE_HPP

#include "cuda_runtime.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define KOKKOS_ENABLE_CUDA
#define KOKKOS_HAS_SHARED_HOST_PINNED_SPACE
#define KOKKOS_FUNCTION
#define KOKKOS_INLINE_FUNCTION      inline
#define KOKKOS_FORCEINLINE_FUNCTION inline
#define KOKKOS_LAMBDA               [=]
#define KOKKOS_EMULATED_STRIP(...)  __VA_ARGS__
#define KOKKOS_IF_ON_DEVICE(CODE) \
  { KOKKOS_EMULATED_STRIP CODE }
#define KOKKOS_IF_ON_HOST(CODE)

struct Kokkos_Profiling_SpaceHandle {
  char name[64];
};

namespace Kokkos {

// ---- who watches: functions that are told of launches, waits and memory

namespace Tools {
namespace Experimental {
using BeginFunction = void (*)(const char *name, std::uint32_t device, std::uint64_t *kernel);
using AllocateDataFunction = void (*)(Kokkos_Profiling_SpaceHandle, const char *label, const void *data,
                                      std::uint64_t bytes);
struct EventSet {
  BeginFunction begin_parallel_for = nullptr, begin_parallel_reduce = nullptr, begin_parallel_scan = nullptr,
                begin_fence = nullptr;
  AllocateDataFunction allocate_data = nullptr;
};
EventSet &callbacks();
inline EventSet get_callbacks() {
  return callbacks();
}
inline void set_callbacks(const EventSet &events) {
  callbacks() = events;
}
inline void set_begin_parallel_for_callback(BeginFunction f) {
  callbacks().begin_parallel_for = f;
}
inline void set_begin_parallel_reduce_callback(BeginFunction f) {
  callbacks().begin_parallel_reduce = f;
}
inline void set_begin_parallel_scan_callback(BeginFunction f) {
  callbacks().begin_parallel_scan = f;
}
inline void set_begin_fence_callback(BeginFunction f) {
  callbacks().begin_fence = f;
}
inline void set_allocate_data_callback(AllocateDataFunction f) {
  callbacks().allocate_data = f;
}
}    // namespace Experimental
}    // namespace Tools

namespace Impl {
inline void tell(Tools::Experimental::BeginFunction f, const std::string &name) {
  std::uint64_t kernel = 0;
  if (f) f(name.c_str(), 0, &kernel);
}
// Of a launch after a wait for all before it.
inline void tell_of_launch(Tools::Experimental::BeginFunction f, const std::string &name) {
  if (f) emulation::fence_all("Kokkos Profile Tool Fence");
  tell(f, name);
}
}    // namespace Impl

// ---- spaces

struct HostSpace {
  using memory_space = HostSpace;
  static constexpr emulation::Space SPACE = emulation::Space::host;
};
struct CudaSpace {
  using memory_space = CudaSpace;
  static constexpr emulation::Space SPACE = emulation::Space::device;
};
struct SharedHostPinnedSpace {
  using memory_space = SharedHostPinnedSpace;
  static constexpr emulation::Space SPACE = emulation::Space::pinned;
};

class Cuda {
 public:
  using execution_space = Cuda;
  using memory_space = CudaSpace;
  using size_type = unsigned;
  Cuda() : stream_(emulation::default_stream()) {}
  explicit Cuda(cudaStream_t stream) : stream_(emulation::stream_of(stream)) {}
  explicit Cuda(emulation::Stream *stream) : stream_(stream) {}
  cudaStream_t cuda_stream() const { return stream_->is_legacy ? nullptr : reinterpret_cast<cudaStream_t>(stream_); }
  emulation::Stream *stream() const { return stream_; }
  void fence(const std::string &reason = "Kokkos::Cuda::fence") const {
    Impl::tell(Tools::Experimental::callbacks().begin_fence, reason);
    emulation::fence(stream_, reason);
  }
  int concurrency() const { return emulation::num_lanes(); }
  static const char *name() { return "Cuda"; }

 private:
  emulation::Stream *stream_;
};

class Serial {
 public:
  using execution_space = Serial;
  using memory_space = HostSpace;
  using size_type = std::size_t;
  void fence(const std::string & = "") const {}
  int concurrency() const { return 1; }
  static const char *name() { return "Serial"; }
};

using DefaultExecutionSpace = Cuda;
using DefaultHostExecutionSpace = Serial;

template <class Exec, class Memory>
struct Device {
  using execution_space = Exec;
  using memory_space = typename Memory::memory_space;
};

inline void fence(const std::string &reason = "Kokkos::fence") {
  Impl::tell(Tools::Experimental::callbacks().begin_fence, reason);
  emulation::fence_all(reason);
}

// ---- the process

class InitializationSettings {
 public:
  void set_disable_warnings(bool) {}
  void set_num_threads(int) {}    // the host has one
  void set_device_id(int) {}      // and one device
};
bool is_initialized();
bool is_finalized();
void initialize(const InitializationSettings &settings);
// There are no hooks for the end: a plugin that LAMMPS has unloaded by then would leave one that nobody can call.
void finalize();
// Ends the process where CUDA has an error in its place.
inline int num_devices() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) std::terminate();
  return count;
}
inline int device_id() {
  return 0;
}

// ---- memory

struct LayoutRight {};
struct LayoutLeft {};
template <unsigned>
struct MemoryTraits {};
using MemoryUnmanaged = MemoryTraits<1>;
struct WithoutInitializing_t {};
constexpr WithoutInitializing_t WithoutInitializing{};

namespace Impl {

template <class T, class = void>
struct HasMemorySpace : std::false_type {};
template <class T>
struct HasMemorySpace<T, std::void_t<typename T::memory_space>> : std::true_type {};
template <class T>
constexpr bool IS_LAYOUT = std::is_same_v<T, LayoutRight> || std::is_same_v<T, LayoutLeft>;

template <class... Properties>
struct SpaceOf {
  using type = CudaSpace;
};
template <class First, class... Rest>
struct SpaceOf<First, Rest...> {
  template <bool HAS, class T>
  struct Pick {
    using type = typename SpaceOf<Rest...>::type;
  };
  template <class T>
  struct Pick<true, T> {
    using type = typename T::memory_space;
  };
  using type = typename Pick<HasMemorySpace<First>::value, First>::type;
};
template <class Default, class... Properties>
struct LayoutOf {
  using type = Default;
};
template <class Default, class First, class... Rest>
struct LayoutOf<Default, First, Rest...> {
  using type = std::conditional_t<IS_LAYOUT<First>, First, typename LayoutOf<Default, Rest...>::type>;
};

// T, T*, T**, T*[N]
template <class T>
struct DataOf {
  using value = T;
  static constexpr int RANK = 0, FIXED = 0;
};
template <class T>
struct DataOf<T *> {
  using value = typename DataOf<T>::value;
  static constexpr int RANK = 1 + DataOf<T>::RANK, FIXED = 0;
};
template <class T, std::size_t N>
struct DataOf<T *[N]> {
  using value = T;
  static constexpr int RANK = 2, FIXED = N;
};

struct ViewAlloc {
  std::string label;
  bool is_filled;
};

}    // namespace Impl

inline Impl::ViewAlloc view_alloc(const std::string &label) {
  return {label, true};
}
inline Impl::ViewAlloc view_alloc(const std::string &label, const WithoutInitializing_t &) {
  return {label, false};
}

template <class E, class To>
void emulated_fill(const E &exec, const To &to, const typename To::value_type &value);

template <class Data, class... Properties>
class View {
 public:
  using value_type = typename Impl::DataOf<Data>::value;
  using non_const_value_type = std::remove_const_t<value_type>;
  using memory_space = typename Impl::SpaceOf<Properties...>::type;
  using array_layout =
      typename Impl::LayoutOf<std::conditional_t<std::is_same_v<memory_space, CudaSpace>, LayoutLeft, LayoutRight>,
                              Properties...>::type;
  static constexpr int rank = Impl::DataOf<Data>::RANK;

  View() = default;
  explicit View(const std::string &label, std::int64_t n = 1, std::int64_t m = 1) : View(view_alloc(label), n, m) {}
  explicit View(const char *label, std::int64_t n = 1, std::int64_t m = 1) : View(view_alloc(label), n, m) {}
  explicit View(const Impl::ViewAlloc &a, std::int64_t n = 1, std::int64_t m = 1) : is_owner_(1) {
    set_extents(n, m);
    const std::size_t bytes = size() * sizeof(value_type);
    data_ = static_cast<value_type *>(emulation::allocate(memory_space::SPACE, bytes, a.label));
    if (const auto told = Tools::Experimental::callbacks().allocate_data) told({"Cuda"}, a.label.c_str(), data_, bytes);
    if (a.is_filled) emulated_fill(Cuda(), *this, non_const_value_type());
  }
  explicit View(value_type *data, std::int64_t n = 1, std::int64_t m = 1) : data_(data) { set_extents(n, m); }
  View(const View &other) { copy(other); }
  View &operator=(const View &other) {
    if (this == &other) return *this;
    drop();
    copy(other);
    return *this;
  }
  ~View() { drop(); }

  value_type *data() const { return data_; }
  std::size_t extent(int k) const { return k < rank ? extent_[k] : 1; }
  std::size_t size() const { return static_cast<std::size_t>(extent_[0] * extent_[1]); }
  std::size_t span() const { return size(); }
  std::size_t stride(int k) const {
    return static_cast<std::size_t>(std::is_same_v<array_layout, LayoutRight> ? (k == 0 ? extent_[1] : 1)
                                                                              : (k == 0 ? 1 : extent_[0]));
  }
  value_type &operator()(std::int64_t i) const { return at(i, 0); }
  value_type &operator()(std::int64_t i, std::int64_t j) const { return at(i, j); }
  value_type &operator()() const { return at(0, 0); }

 private:
  void set_extents(std::int64_t n, std::int64_t m) {
    extent_[0] = n;
    extent_[1] = Impl::DataOf<Data>::FIXED > 0 ? Impl::DataOf<Data>::FIXED : m;
  }
  value_type &at(std::int64_t i, std::int64_t j) const {
    if (std::is_same_v<memory_space, HostSpace> && emulation::is_in_kernel())
      emulation::report("a view of host memory is read by a kernel");
    return data_[i * static_cast<std::int64_t>(stride(0)) + j * static_cast<std::int64_t>(stride(1))];
  }
  void copy(const View &other) {
    data_ = other.data_;
    extent_[0] = other.extent_[0];
    extent_[1] = other.extent_[1];
    is_owner_ = other.is_owner_ && emulation::is_tracking() && !emulation::is_in_kernel();
    if (is_owner_) emulation::retain(data_);
  }
  void drop() {
    if (is_owner_ && !emulation::is_in_kernel()) emulation::release(data_);
  }

  // No member that points to the host, and none that leaves padding: functors hold views (emulation::check_call).
  value_type *data_ = nullptr;
  std::int64_t extent_[2] = {0, 1};
  std::int64_t is_owner_ = 0;
};

// Copies between memories of the same extents, queued on exec; of the host with itself at once.
template <class Exec, class To, class From>
void deep_copy(const Exec &exec, const To &to, const From &from) {
  if (to.size() != from.size()) throw std::runtime_error("Kokkos::deep_copy: extents differ");
  const std::size_t bytes = to.size() * sizeof(typename To::value_type);
  if constexpr (std::is_same_v<Exec, Serial>) {
    std::memcpy(static_cast<void *>(to.data()), from.data(), bytes);
  } else {
    emulation::enqueue_copy(exec.stream(), "Kokkos::deep_copy", to.data(),
                            std::is_same_v<typename To::memory_space, CudaSpace>, from.data(),
                            std::is_same_v<typename From::memory_space, CudaSpace>, bytes);
  }
}
template <class E, class To>
void emulated_fill(const E &exec, const To &to, const typename To::value_type &value) {
  auto *data = to.data();
  const std::int64_t n = static_cast<std::int64_t>(to.size());
  if constexpr (std::is_same_v<typename To::memory_space, CudaSpace>) {
    emulation::refuse_in_capture("Kokkos::deep_copy");
    const auto fill = [=] {
      for (std::int64_t k = 0; k < n; k++) data[k] = value;
    };
    emulation::enqueue(exec.stream(), {"Kokkos::deep_copy", &typeid(fill), fill});
    exec.fence("Kokkos::deep_copy: filled");
  } else {
    for (std::int64_t k = 0; k < n; k++) data[k] = value;
  }
}
// Waits for everything, as Kokkos does for copies that name no instance.
template <class Data, class... Properties>
void deep_copy(const View<Data, Properties...> &to,
               const typename View<Data, Properties...>::non_const_value_type &value) {
  fence("Kokkos::deep_copy: before");
  emulated_fill(Cuda(), to, value);
}

template <class Space>
void *kokkos_malloc(const std::string &label, std::size_t bytes) {
  return emulation::allocate(Space::SPACE, bytes, label);
}
template <class Space>
void kokkos_free(void *data) {
  emulation::release(data);
}

template <class, class Memory>
struct SpaceAccessibility {
  static constexpr bool accessible = !std::is_same_v<typename Memory::memory_space, CudaSpace>;
};

// ---- policies

template <class>
struct IndexType {};
struct Static {};
struct Dynamic {};
template <class>
struct Schedule {};
struct ChunkSize {
  explicit ChunkSize(int) {}
};
template <unsigned MAX_THREADS, unsigned MIN_BLOCKS = 0>
struct LaunchBounds {};

namespace Experimental {
namespace WorkItemProperty {
struct HintLightWeight_t {};
}    // namespace WorkItemProperty
// Instances beside the given one.
template <class... Weights>
std::vector<Cuda> partition_space(const Cuda &, Weights...) {
  std::vector<Cuda> instances;
  for (std::size_t k = 0; k < sizeof...(Weights); k++) instances.emplace_back(emulation::make_stream());
  return instances;
}
}    // namespace Experimental

namespace Impl {

template <class... Properties>
struct PolicyTraits {
  using index = std::int64_t;
  static constexpr bool IS_LIGHT = false;
  static constexpr int THREADS = emulation::MAX_THREADS;
};
template <class First, class... Rest>
struct PolicyTraits<First, Rest...> : PolicyTraits<Rest...> {};
template <class Index, class... Rest>
struct PolicyTraits<IndexType<Index>, Rest...> : PolicyTraits<Rest...> {
  using index = Index;
};
template <class... Rest>
struct PolicyTraits<Experimental::WorkItemProperty::HintLightWeight_t, Rest...> : PolicyTraits<Rest...> {
  static constexpr bool IS_LIGHT = true;
};
template <unsigned MAX_THREADS, unsigned MIN_BLOCKS, class... Rest>
struct PolicyTraits<LaunchBounds<MAX_THREADS, MIN_BLOCKS>, Rest...> : PolicyTraits<Rest...> {
  static constexpr int THREADS = MAX_THREADS;
};

}    // namespace Impl

template <class Exec, class... Properties>
class RangePolicy {
 public:
  using execution_space = typename Exec::execution_space;
  using traits = Impl::PolicyTraits<Properties...>;
  RangePolicy(const Exec &exec, std::int64_t begin, std::int64_t end) : exec_(exec), begin_(begin), end_(end) {}
  RangePolicy(std::int64_t begin, std::int64_t end) : RangePolicy(Exec(), begin, end) {}
  RangePolicy(std::int64_t begin, std::int64_t end, const ChunkSize &) : RangePolicy(begin, end) {}
  const Exec &space() const { return exec_; }
  std::int64_t begin() const { return begin_; }
  std::int64_t size() const { return std::max<std::int64_t>(0, end_ - begin_); }

 private:
  Exec exec_;
  std::int64_t begin_, end_;
};

// One thread of a team.
class EmulatedTeamMember {
 public:
  EmulatedTeamMember(std::int64_t league_rank, int league_size, int team_rank, int team_size, std::size_t shared_bytes)
      : league_rank_(static_cast<int>(league_rank)),
        league_size_(league_size),
        team_rank_(team_rank),
        team_size_(team_size),
        shared_bytes_(shared_bytes) {}
  int league_rank() const { return league_rank_; }
  int league_size() const { return league_size_; }
  int team_rank() const { return team_rank_; }
  int team_size() const { return team_size_; }
  void team_barrier() const { emulation::barrier(); }

  // Scratch of level 0, from its begin for each that asks; null where there is no more.
  class Scratch {
   public:
    explicit Scratch(const EmulatedTeamMember &member) : member_(member) {}
    void *get_shmem(std::size_t bytes) const {
      const std::size_t rounded = (bytes + 7) / 8 * 8, at = member_.shared_used_;
      if (at + rounded > member_.shared_bytes_) return nullptr;
      member_.shared_used_ += rounded;
      return emulation::shared_memory() + at;
    }

   private:
    const EmulatedTeamMember &member_;
  };
  Scratch team_scratch(int level) const {
    if (level != 0) emulation::report("scratch of level %d: the emulated device has level 0 alone", level);
    return Scratch(*this);
  }

 private:
  int league_rank_, league_size_, team_rank_, team_size_;
  std::size_t shared_bytes_;
  mutable std::size_t shared_used_ = 0;
};

namespace Impl {
// What Kokkos needs of a block's shared memory for its own sums.
inline std::size_t bytes_of_team(int team_size) {
  return sizeof(double) * static_cast<std::size_t>(team_size + 2);
}
struct PerTeamBytes {
  std::size_t bytes;
};
struct PerTeamMember {
  const EmulatedTeamMember &member;
};
}    // namespace Impl

inline Impl::PerTeamBytes PerTeam(std::size_t bytes) {
  return {bytes};
}
inline Impl::PerTeamMember PerTeam(const EmulatedTeamMember &member) {
  return {member};
}

template <class Exec, class... Properties>
class TeamPolicy {
 public:
  using execution_space = typename Exec::execution_space;
  using traits = Impl::PolicyTraits<Properties...>;
  using member_type = EmulatedTeamMember;
  TeamPolicy(const Exec &exec, std::int64_t league_size, int team_size, int vector_length = 1)
      : exec_(exec), league_size_(league_size), team_size_(team_size) {
    if (league_size < 0 || league_size > std::numeric_limits<int>::max())
      throw std::runtime_error("Kokkos::TeamPolicy: league size " + std::to_string(league_size));
    if (vector_length != 1) throw std::logic_error("the emulated device has vectors of length 1 alone");
  }
  // Beside what the largest team needs for its own sums.
  static int scratch_size_max(int level) {
    if (level != 0) throw std::logic_error("the emulated device has scratch of level 0 alone");
    return static_cast<int>(emulation::MAX_SHARED_BYTES - Impl::bytes_of_team(emulation::MAX_THREADS));
  }
  TeamPolicy &set_scratch_size(int level, const Impl::PerTeamBytes &per_team) {
    if (level != 0) throw std::logic_error("the emulated device has scratch of level 0 alone");
    scratch_ = per_team.bytes;
    return *this;
  }
  const Exec &space() const { return exec_; }
  std::int64_t league_size() const { return league_size_; }
  int team_size() const { return team_size_; }
  std::size_t scratch() const { return scratch_; }

 private:
  Exec exec_;
  std::int64_t league_size_;
  int team_size_;
  std::size_t scratch_ = 0;
};

// ---- launches

namespace Impl {
// What is compiled once for all kernels.
void launch_range(const std::string &label, emulation::Stream *stream, std::int64_t count, const emulation::Call &call,
                  const std::type_info &type, void (*run)(const void *functor, std::int64_t k), std::int64_t begin);
void check_team(int size, int most_threads, std::size_t scratch);
void launch_teams(const std::string &label, emulation::Stream *stream, std::int64_t league, int size,
                  std::size_t scratch, const emulation::Call &call, const std::type_info &type,
                  void (*run)(const void *functor, const EmulatedTeamMember &member));
}    // namespace Impl

template <class F, class Exec, class... Properties>
void parallel_for(const std::string &label, const RangePolicy<Exec, Properties...> &policy, const F &functor) {
  using Policy = RangePolicy<Exec, Properties...>;
  using Index = typename Policy::traits::index;
  const std::int64_t begin = policy.begin(), n = policy.size();
  Impl::tell_of_launch(Tools::Experimental::callbacks().begin_parallel_for, label);
  if constexpr (std::is_same_v<typename Policy::execution_space, Serial>) {
    for (std::int64_t k = 0; k < n; k++) functor(static_cast<Index>(begin + k));
  } else {
    if (n == 0) return;
    Impl::launch_range(
        label, policy.space().stream(), n, {label, functor, Policy::traits::IS_LIGHT}, typeid(F),
        [](const void *f, std::int64_t k) { (*static_cast<const F *>(f))(static_cast<Index>(k)); }, begin);
  }
}

template <class F, class Exec, class... Properties>
void parallel_for(const std::string &label, const TeamPolicy<Exec, Properties...> &policy, const F &functor) {
  using Policy = TeamPolicy<Exec, Properties...>;
  const std::int64_t league = policy.league_size();
  const int size = policy.team_size();
  const std::size_t scratch = policy.scratch();
  Impl::tell_of_launch(Tools::Experimental::callbacks().begin_parallel_for, label);
  static_assert(std::is_same_v<typename Policy::execution_space, Cuda>, "teams of the emulated device alone");
  Impl::check_team(size, Policy::traits::THREADS, scratch);
  if (league == 0) return;
  Impl::launch_teams(label, policy.space().stream(), league, size, scratch, {label, functor, Policy::traits::IS_LIGHT},
                     typeid(F), [](const void *f, const EmulatedTeamMember &m) { (*static_cast<const F *>(f))(m); });
}

// ---- reductions

template <class T, class I>
struct ValLocScalar {
  T val;
  I loc;
};

// Reducers: the result goes to a view, or to a variable of the host, which is waited for.
template <class T, class I, class Space = HostSpace>
class MinLoc {
 public:
  using value_type = ValLocScalar<T, I>;
  using result_view_type = View<value_type, Space>;
  explicit MinLoc(const result_view_type &result)
      : result_(result.data()), is_waited_for_(std::is_same_v<typename Space::memory_space, HostSpace>) {}
  explicit MinLoc(value_type &result) : result_(&result), is_waited_for_(true) {}
  value_type *result() const { return result_; }
  bool is_waited_for() const { return is_waited_for_; }
  static value_type first() { return {std::numeric_limits<T>::max(), std::numeric_limits<I>::max()}; }
  static void join(value_type &to, const value_type &from) {
    if (from.val < to.val) to = from;
  }

 private:
  value_type *result_;
  bool is_waited_for_;
};

template <class T>
class ToHost {
 public:
  using value_type = T;
  explicit ToHost(T &result) : result_(&result) {}
  T *result() const { return result_; }
  bool is_waited_for() const { return true; }

 private:
  T *result_;
};

template <class T>
class Max : public ToHost<T> {
 public:
  using ToHost<T>::ToHost;
  static T first() { return std::numeric_limits<T>::lowest(); }
  static void join(T &to, const T &from) { to = std::max(to, from); }
};

template <class T>
class Min : public ToHost<T> {
 public:
  using ToHost<T>::ToHost;
  static T first() { return std::numeric_limits<T>::max(); }
  static void join(T &to, const T &from) { to = std::min(to, from); }
};

template <class F, class Reducer, class Exec, class... Properties>
void parallel_reduce(const std::string &label, const RangePolicy<Exec, Properties...> &policy, const F &functor,
                     const Reducer &reducer) {
  using Policy = RangePolicy<Exec, Properties...>;
  using Index = typename Policy::traits::index;
  using Value = typename Reducer::value_type;
  const std::int64_t begin = policy.begin(), n = policy.size();
  Impl::tell_of_launch(Tools::Experimental::callbacks().begin_parallel_reduce, label);
  if constexpr (std::is_same_v<typename Policy::execution_space, Serial>) {
    Value all = Reducer::first();
    for (std::int64_t k = 0; k < n; k++) functor(static_cast<Index>(begin + k), all);
    *reducer.result() = all;
  } else {
    const emulation::Call call(label, functor, Policy::traits::IS_LIGHT);
    // Of a variable of the host the device fills a number of its own, which the host reads after the wait.
    const bool is_waited_for = reducer.is_waited_for();
    if (is_waited_for) emulation::refuse_in_capture(label + ", a reduction to the host");
    const auto of_host = std::make_shared<Value>();
    Value *result = is_waited_for ? of_host.get() : reducer.result();
    const auto work = [=] {
      const F &f = *static_cast<const F *>(call.functor());
      constexpr std::int64_t MOST_PARTS = 64;
      const std::int64_t num_parts = 1 + emulation::random_below(std::min(n, MOST_PARTS));
      std::vector<Value> part(num_parts, Reducer::first());
      const emulation::RandomOrder order(n), of_parts(num_parts);
      for (std::int64_t k = 0; k < n; k++) {
        const std::int64_t at = order[k];
        f(static_cast<Index>(begin + at), part[at % num_parts]);
      }
      Value all = Reducer::first();
      for (std::int64_t p = 0; p < num_parts; p++) Reducer::join(all, part[of_parts[p]]);
      *result = all;
    };
    emulation::enqueue(policy.space().stream(), {label, &typeid(F), work});
    if (!is_waited_for) return;
    policy.space().fence("Kokkos::parallel_reduce: result on the host");
    *reducer.result() = *of_host;
  }
}

namespace Impl {
template <class>
struct ScanValue;
template <class F, class Index, class Value>
struct ScanValue<void (F::*)(Index, Value &, bool) const> {
  using type = Value;
};
}    // namespace Impl

// Parts of the range give their sums in any order, then write in any order.
template <class F, class... Properties>
void parallel_scan(const std::string &label, const RangePolicy<Cuda, Properties...> &policy, const F &functor) {
  using Index = typename Impl::PolicyTraits<Properties...>::index;
  using Value = typename Impl::ScanValue<decltype(&F::operator())>::type;
  const std::int64_t begin = policy.begin(), n = policy.size();
  Impl::tell_of_launch(Tools::Experimental::callbacks().begin_parallel_scan, label);
  if (n == 0) return;
  const emulation::Call call(label, functor, Impl::PolicyTraits<Properties...>::IS_LIGHT);
  const auto work = [=] {
    const F &f = *static_cast<const F *>(call.functor());
    constexpr std::int64_t MOST_PARTS = 64;
    const std::int64_t num_parts = 1 + emulation::random_below(std::min(n, MOST_PARTS));
    std::vector<Value> before(num_parts + 1, Value(0));
    const auto sweep = [&](std::int64_t p, Value sum, bool is_final) {
      for (std::int64_t k = p * n / num_parts; k < (p + 1) * n / num_parts; k++)
        f(static_cast<Index>(begin + k), sum, is_final);
      return sum;
    };
    const emulation::RandomOrder first(num_parts), second(num_parts);
    for (std::int64_t p = 0; p < num_parts; p++) before[first[p] + 1] = sweep(first[p], Value(0), false);
    for (std::int64_t p = 0; p < num_parts; p++) before[p + 1] += before[p];
    for (std::int64_t p = 0; p < num_parts; p++) sweep(second[p], before[second[p]], true);
  };
  emulation::enqueue(policy.space().stream(), {label, &typeid(F), work});
}

// ---- within a team

namespace Impl {
struct TeamRange {
  const EmulatedTeamMember &member;
  int count;
};
// The sums of `mine` over the threads before this one, and over all.
template <class T>
std::pair<T, T> sums_over_team(const EmulatedTeamMember &member, T mine) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t), "what a thread's slot holds");
  std::memcpy(&emulation::slot(member.team_rank()), &mine, sizeof(T));
  emulation::barrier();
  T before = 0, all = 0;
  for (int k = 0; k < member.team_size(); k++) {
    T other;
    std::memcpy(&other, &emulation::slot(k), sizeof(T));
    if (k < member.team_rank()) before += other;
    all += other;
  }
  emulation::barrier();
  return {before, all};
}
}    // namespace Impl

inline Impl::TeamRange TeamThreadRange(const EmulatedTeamMember &member, int count) {
  return {member, count};
}
inline Impl::TeamRange TeamVectorRange(const EmulatedTeamMember &member, int count) {
  return {member, count};
}
template <class F>
void single(const Impl::PerTeamMember &team, const F &f) {
  if (team.member.team_rank() == 0) f();
}
template <class F>
void parallel_for(const Impl::TeamRange &range, const F &f) {
  for (int k = range.member.team_rank(); k < range.count; k += range.member.team_size()) f(k);
}
template <class F, class T>
void parallel_reduce(const Impl::TeamRange &range, const F &f, T &result) {
  T mine = 0;
  for (int k = range.member.team_rank(); k < range.count; k += range.member.team_size()) f(k, mine);
  result = Impl::sums_over_team(range.member, mine).second;
}
// f is called twice for each number, the second time with the sum before it.
template <class F>
void parallel_scan(const Impl::TeamRange &range, const F &f) {
  const int size = range.member.team_size();
  int sum = 0;
  for (int first = 0; first < range.count; first += size) {
    const int k = first + range.member.team_rank();
    int mine = 0;
    if (k < range.count) f(k, mine, false);
    const auto [before, all] = Impl::sums_over_team(range.member, mine);
    int place = sum + before;
    if (k < range.count) f(k, place, true);
    sum += all;
  }
}

// ---- atomics: threads of the emulated device run one at a time

template <class T>
T atomic_fetch_add(T *to, const T &value) {
  const T old = *to;
  *to = old + value;
  return old;
}
template <class T>
T atomic_fetch_sub(T *to, const T &value) {
  const T old = *to;
  *to = old - value;
  return old;
}
template <class T>
void atomic_inc(T *to) {
  atomic_fetch_add(to, T(1));
}
template <class T>
void atomic_min(T *to, const T &value) {
  if (value < *to) *to = value;
}

}    // namespace Kokkos

#endif
