// SPDX-License-Identifier: MIT
// Streams, captures and graphs of the emulated device, and the part of CUDA's runtime for them.
#include "unittest/emulation/engine.h"

#include "unittest/emulation/include/cuda_runtime.h"

#include <algorithm>
#include <cstring>

namespace emulation {

namespace {

// The stream whose capture this thread has begun.
thread_local Stream *captured = nullptr;

std::vector<Stream *> &streams() {
  static auto &all = *new std::vector<Stream *>;
  return all;
}
Stream *legacy_stream() {
  static Stream *const stream = [] {
    Stream *s = make_stream();
    s->is_legacy = true;
    return s;
  }();
  return stream;
}
std::uint64_t last_number = 0;

thread_local cudaError_t last_error = cudaSuccess;
std::int64_t launches_to_take = -1, launches_to_refuse = 0;    // -1: all
int num_devices = 1, device_major = 9, device_minor = 0;
cudaError_t error_of_devices = cudaSuccess;
// The driver's memory of a graph that can be launched.
constexpr std::size_t BYTES_OF_A_NODE = 5000;
std::atomic<std::size_t> bytes_of_graphs = 0;

// Whether this graph exists.
bool is_refused() {
  if (launches_to_take < 0 || launches_to_take-- > 0) return false;
  launches_to_take = --launches_to_refuse > 0 ? 0 : -1;
  last_error = cudaErrorInvalidConfiguration;
  return true;
}

// Whether this thread exists; copies of the pointer outlive it.
const std::shared_ptr<const std::atomic<bool>> &this_thread_is_there() {
  struct Thread {
    const std::shared_ptr<std::atomic<bool>> is_there = std::make_shared<std::atomic<bool>>(true);
    const std::shared_ptr<const std::atomic<bool>> is_there_to_read = is_there;
    ~Thread() { *is_there = false; }
  };
  thread_local const Thread thread;
  return thread.is_there_to_read;
}

// Nodes run in any order in which each follows those that it waits for.
void run_graph(const Graph &graph) {
  const std::size_t num = graph.nodes.size();
  std::vector<std::vector<std::size_t>> next(num);
  std::vector<std::size_t> num_awaited(num), ready;
  for (std::size_t n = 0; n < num; n++) {
    num_awaited[n] = graph.after[n].size();
    for (const std::size_t before : graph.after[n]) next[before].push_back(n);
    if (graph.after[n].empty()) ready.push_back(n);
  }
  while (!ready.empty()) {
    std::swap(ready[random_below(static_cast<std::int64_t>(ready.size()))], ready.back());
    const std::size_t n = ready.back();
    ready.pop_back();
    run_kernel(graph.nodes[n]);
    for (const std::size_t m : next[n])
      if (--num_awaited[m] == 0) ready.push_back(m);
  }
}

// Runs the first item of a queue, after all that it must wait for: another stream's items, if there was an event. An
// item of a legacy stream runs between all that was queued before and all that was queued later.
void run_first(Stream *stream) {
  const std::uint64_t number = stream->queue.front().number;
  for (Stream *other : std::vector<Stream *>(streams()))
    if (other != stream && (stream->is_legacy || other->is_legacy))
      while (!other->queue.empty() && other->queue.front().number < number) run_first(other);
  if (Stream *awaited = stream->queue.front().awaited)
    while (!awaited->queue.empty() && awaited->queue.front().number <= stream->queue.front().awaited_number)
      run_first(awaited);
  const std::shared_ptr<const Graph> graph = std::move(stream->queue.front().graph);
  stream->queue.pop_front();
  if (graph) run_graph(*graph);
}

void run_queue(Stream *stream) {
  if (stream->queue.empty()) return;
  // Other streams advance to here, but not to their last work: the device is slower than the host.
  for (Stream *other : std::vector<Stream *>(streams())) {
    if (other == stream || other->is_legacy || random_below(2)) continue;
    for (std::int64_t n = random_below(static_cast<std::int64_t>(other->queue.size()));
         n > 0 && other->queue.size() > 1; n--)
      run_first(other);
  }
  while (!stream->queue.empty()) run_first(stream);
  close_memory();
}

// A word that is an address of host memory can be nothing else: as a floating-point number it would be denormal.
// is_used: null, or 0 for bytes of padding, which may contain anything. A number of 32 bits before such padding looks
// like an address if the padding contains the upper half of one. A word whose upper half is padding is therefore not an
// address. Less padding than that is ignored, because GCC 12 marks some numbers as padding. Where padding is not known,
// small numbers of 32 bits are not addresses: few are next to a multiple of 4 GiB.
void check_words(const std::string &label, const void *data, const unsigned char *is_used, std::size_t bytes) {
  constexpr std::ptrdiff_t WORD = sizeof(std::uintptr_t), HALF = WORD / 2;
  for (std::size_t at = 0; at + WORD <= bytes; at += WORD) {
    std::uintptr_t word;
    std::memcpy(&word, static_cast<const char *>(data) + at, WORD);
    constexpr std::uint32_t SMALL_NUMBER = 1 << 20;
    if (static_cast<std::uint32_t>(word) < SMALL_NUMBER) continue;
    if (is_used && std::count(is_used + at + HALF, is_used + at + WORD, 0) == HALF) continue;
    if (!is_host_address(word)) continue;
    report("%s: a pointer to host memory (0x%zx) at byte %zu of %zu", label.c_str(), word, at, bytes);
  }
}

void refuse_in_kernel(const std::string &what) {
  if (is_in_kernel()) report("a kernel asks for %s", what.c_str());
}

void append(Stream *stream, std::shared_ptr<const Graph> graph, Stream *awaited = nullptr, std::uint64_t number = 0) {
  stream->queue.push_back({++last_number, this_thread_is_there(), std::move(graph), awaited, number});
}

// Whether all nodes precede the end of a stream of a capture, or are that end.
bool are_before(const std::vector<std::size_t> &nodes, const Capture &capture, const std::vector<std::size_t> &end) {
  std::vector<bool> is_before(capture.graph.nodes.size());
  for (const std::size_t n : end) is_before[n] = true;
  for (std::size_t n = is_before.size(); n-- > 0;)    // nodes follow only nodes of lower numbers
    if (is_before[n])
      for (const std::size_t m : capture.graph.after[n]) is_before[m] = true;
  return std::all_of(nodes.begin(), nodes.end(), [&](std::size_t n) { return is_before[n]; });
}

}    // namespace

Stream *make_stream() {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  streams().push_back(new Stream);    // never removed while the process lives, because instances are copied freely
  return streams().back();
}
Stream *default_stream() {
  static Stream *const stream = make_stream();
  return stream;
}
Stream *stream_of(void *cuda_stream) {
  return cuda_stream ? static_cast<Stream *>(cuda_stream) : legacy_stream();
}

namespace {

void enqueue_taken(Stream *stream, Node node) {
  refuse_in_kernel("the launch of " + node.label);
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  counts().launches++;
  if (captured && stream->capture == captured->capture) {
    Graph &graph = stream->capture->graph;
    graph.nodes.push_back(std::move(node));
    graph.after.push_back(std::exchange(stream->capture->ends[stream], {graph.nodes.size() - 1}));
    return;
  }
  if (captured) report("%s goes to another stream while one is captured", node.label.c_str());
  append(stream, std::make_shared<Graph>(Graph{{std::move(node)}, {{}}}));
}

}    // namespace

bool enqueue(Stream *stream, Node node) {
  {
    const std::lock_guard<std::recursive_mutex> lock(device_mutex());
    if (is_refused()) return false;
  }
  enqueue_taken(stream, std::move(node));
  return true;
}

void enqueue_copy(Stream *stream, const std::string &label, void *to, bool to_device, const void *from,
                  bool from_device, std::size_t bytes) {
  if (bytes == 0) return;
  const bool is_right = check_range(label.c_str(), to, bytes, to_device),
             is_right_too = check_range(label.c_str(), from, bytes, from_device);
  if (!is_right || !is_right_too) return;
  if (captured && !((to_device || is_pinned(to)) && (from_device || is_pinned(from))))
    report("%s copies host memory that is not pinned while a stream is captured", label.c_str());
  if (to_device != from_device) {
    const std::lock_guard<std::recursive_mutex> lock(device_mutex());
    (is_pinned(to_device ? from : to) ? counts().pinned_bytes : counts().pageable_bytes) +=
        static_cast<std::int64_t>(bytes);
  }
  const auto copy = [=] {
    // Either end may have been freed since then.
    if (!check_range(label.c_str(), to, bytes, to_device) || !check_range(label.c_str(), from, bytes, from_device))
      return;
    if (to_device && !from_device) check_words(label, from, nullptr, bytes);
    std::memcpy(to, from, bytes);
  };
  enqueue_taken(stream, {label, &typeid(copy), copy});
}

void refuse_in_capture(const std::string &what) {
  refuse_in_kernel(what);
  if (!captured) return;
  report("%s while a stream is captured", what.c_str());
  throw std::runtime_error(what + ": operation not permitted when stream is capturing");
}

void fence(Stream *stream, const std::string &reason) {
  refuse_in_kernel("the fence '" + reason + "'");
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  counts().fences++;
  if (stream->capture) {
    report("the fence '%s' of a stream that is captured", reason.c_str());
    throw std::runtime_error("cudaStreamSynchronize: operation not permitted when stream is capturing");
  }
  run_queue(stream);
}

void fence_all(const std::string &reason) {
  refuse_in_capture("the fence '" + reason + "' of all streams");
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  counts().fences++;
  for (Stream *stream : std::vector<Stream *>(streams())) run_queue(stream);
}

void run_queues_of_thread() {
  const auto counts = [](const Stream::Item &item) {
    return item.is_there == this_thread_is_there() || !*item.is_there;
  };
  for (Stream *stream : std::vector<Stream *>(streams()))
    if (std::any_of(stream->queue.begin(), stream->queue.end(), counts)) run_queue(stream);
}

bool begin_capture(Stream *stream) {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  if (stream->capture || captured || stream->is_legacy) return false;
  stream->capture = std::make_shared<Capture>();
  stream->capture->ends[stream] = {};
  captured = stream;
  counts().captures++;
  return true;
}

std::shared_ptr<const Graph> end_capture(Stream *stream) {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  if (stream != captured || !stream->capture) return nullptr;
  captured = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  bool is_joined = true;
  for (const auto &[other, end] : capture->ends) {
    other->capture = nullptr;
    is_joined = is_joined && are_before(end, *capture, capture->ends[stream]);
  }
  if (!is_joined) report("a capture ends while another stream has work that the captured one does not wait for");
  return is_joined ? std::shared_ptr<const Graph>(capture, &capture->graph) : nullptr;
}

void enqueue_graph(Stream *stream, std::shared_ptr<const Graph> graph) {
  refuse_in_capture("the launch of a graph");
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  counts().replays++;
  append(stream, std::move(graph));
}

void record(Event &event, Stream *stream) {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  event = {stream, last_number, stream->capture, {}};
  if (stream->capture) event.nodes = stream->capture->ends[stream];
}

bool wait_for(Stream *stream, const Event &event) {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  if (!event.stream) return true;
  if (!event.capture) {
    if (stream->capture) return false;
    append(stream, nullptr, event.stream, event.number);
    return true;
  }
  if (!captured || event.capture != captured->capture) return false;
  if (stream->capture && stream->capture != captured->capture) return false;
  stream->capture = captured->capture;
  std::vector<std::size_t> &end = stream->capture->ends[stream];
  for (const std::size_t n : event.nodes)
    if (std::find(end.begin(), end.end(), n) == end.end()) end.push_back(n);
  return true;
}

void end_stream(Stream *stream) {
  refuse_in_capture("the end of a stream");
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  run_queue(stream);
  streams().erase(std::find(streams().begin(), streams().end(), stream));
  for (Stream *other : streams())
    for (Stream::Item &item : other->queue)
      if (item.awaited == stream) item.awaited = nullptr;
  delete stream;
}

bool is_capturing() {
  return captured != nullptr;
}

void check_streams() {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  for (Stream *stream : streams())
    if (stream->capture) report("the capture of a stream was never ended");
  if (const cudaError_t error = cudaGetLastError()) report("nobody has read the error '%s'", cudaGetErrorString(error));
}

void refuse_launches(std::int64_t taken, std::int64_t refused) {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  launches_to_take = refused > 0 ? taken : -1;
  launches_to_refuse = refused;
}

bool is_refusing() {
  return launches_to_take >= 0;
}

void set_devices(int count, int error, int major, int minor) {
  num_devices = count;
  device_major = major;
  device_minor = minor;
  error_of_devices = static_cast<cudaError_t>(error);
}

void Call::take(const std::string &label, std::shared_ptr<const void> owner, const void *functor,
                const unsigned char *is_used, std::size_t bytes, bool is_argument) {
  if (bytes > (is_argument ? MAX_ARGUMENT_BYTES : MAX_DEFAULT_ARGUMENT_BYTES) && (is_argument || captured))
    report("%s: a call of %zu bytes does not fit into the arguments of a kernel", label.c_str(), bytes);
  check_words(label, functor, is_used, bytes);
  owner_ = std::move(owner);
  functor_ = functor;
}

void Call::take_bytes(const std::string &label, const void *functor, const unsigned char *is_used, std::size_t bytes,
                      bool is_argument) {
  constexpr std::size_t ALIGNMENT = 64;
  const std::shared_ptr<void> copy(::operator new(bytes, std::align_val_t(ALIGNMENT)),
                                   [](void *p) { ::operator delete(p, std::align_val_t(ALIGNMENT)); });
  std::memcpy(copy.get(), functor, bytes);
  take(label, copy, copy.get(), is_used, bytes, is_argument);
}

}    // namespace emulation

// ---- CUDA's names

namespace {

using Graph = std::shared_ptr<const emulation::Graph>;
Graph &graph_of(void *graph) {
  return *static_cast<Graph *>(graph);
}
emulation::Event &event_of(void *event) {
  return *static_cast<emulation::Event *>(event);
}

// The value that a call returns is also stored.
cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) emulation::last_error = error;
  return error;
}

}    // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(emulation::make_stream());
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  emulation::end_stream(emulation::stream_of(stream));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new emulation::Event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &event_of(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  emulation::record(event_of(event), emulation::stream_of(stream));
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return answer(emulation::wait_for(emulation::stream_of(stream), event_of(event)) ? cudaSuccess
                                                                                   : cudaErrorStreamCaptureIsolation);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return answer(emulation::begin_capture(emulation::stream_of(stream)) ? cudaSuccess : cudaErrorIllegalState);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  const bool has_begun = emulation::stream_of(stream)->capture != nullptr;
  Graph recorded = emulation::end_capture(emulation::stream_of(stream));
  *graph = nullptr;
  if (!recorded) return answer(has_begun ? cudaErrorStreamCaptureUnjoined : cudaErrorIllegalState);
  *graph = reinterpret_cast<cudaGraph_t>(new Graph(std::move(recorded)));
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete &graph_of(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
  *exec = reinterpret_cast<cudaGraphExec_t>(new Graph(graph_of(graph)));
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, void *, std::size_t *count) {
  *count = graph_of(graph)->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  emulation::bytes_of_graphs += graph_of(exec)->nodes.size() * emulation::BYTES_OF_A_NODE;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  emulation::bytes_of_graphs -= graph_of(exec)->nodes.size() * emulation::BYTES_OF_A_NODE;
  delete &graph_of(exec);
  return cudaSuccess;
}

// The same kernels in the same order; the driver may also refuse at any time.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info) {
  Graph &to = graph_of(exec), &from = graph_of(graph);
  const bool is_same =
      to->after == from->after &&
      std::equal(to->nodes.begin(), to->nodes.end(), from->nodes.begin(), from->nodes.end(),
                 [](const emulation::Node &a, const emulation::Node &b) { return *a.type == *b.type; });
  info->result = is_same && emulation::random_below(8) > 0 ? cudaSuccess : cudaErrorGraphExecUpdateFailure;
  if (info->result != cudaSuccess) return answer(info->result);
  to = from;
  emulation::counts().updates++;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  emulation::enqueue_graph(emulation::stream_of(stream), graph_of(exec));
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t *unused, std::size_t *all) {
  *all = std::size_t(16) << 30;
  *unused = (std::size_t(4) << 30) - emulation::bytes_of_graphs;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return std::exchange(emulation::last_error, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int *count) {
  *count = emulation::num_devices;
  return answer(emulation::error_of_devices);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  if (device >= emulation::num_devices) return answer(cudaErrorInvalidValue);
  *properties = {"emulated GPU", {"emulated"}, emulation::device_major, emulation::device_minor};
  properties->uuid.bytes[15] = static_cast<char>(device);
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = emulation::error_of_devices == cudaErrorInsufficientDriver ? 11040 : 13000;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = 13000;
  return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalState:
      return "the operation cannot be performed in the present state";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorGraphExecUpdateFailure:
      return "the graph update was not performed because it included changes which violated constraints";
  }
  return "unknown error";
}
