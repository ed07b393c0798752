// SPDX-License-Identifier: MIT
// Recordings as CUDA graphs. Only device_recorder.h includes this header.
#ifndef EQUI_DEVICE_GRAPH_CUDA_H
#define EQUI_DEVICE_GRAPH_CUDA_H

#include "kokkos/runtime/device_launches.h"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace equi {

template <>
class DeviceGraph<Kokkos::Cuda> {
 public:
  DeviceGraph() = default;
  DeviceGraph(DeviceGraph &&other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)), bytes_(other.bytes_), can_record_(other.can_record_) {}
  DeviceGraph(const DeviceGraph &) = delete;
  DeviceGraph &operator=(const DeviceGraph &) = delete;
  ~DeviceGraph() { clear(); }

  // If the driver refuses to record some call of the work in a graph, the work is launched, now and at every replay.
  template <class Work>
  void record(const Kokkos::Cuda &exec, const Work &work) {
    check_launches();    // ignores the errors of a capture
    if (can_record_) try {
        capture(exec, work);
      } catch (const std::exception &e) {
        can_record_ = false;
        clear();
        cudaGetLastError();
        std::fprintf(stderr, "equi: launches are not recorded: %s\n", e.what());
      }
    replay(exec, work);
  }
  template <class Work>
  void replay(const Kokkos::Cuda &exec, const Work &work) {
    if (graph_)
      check(cudaGraphLaunch(graph_, exec.cuda_stream()), "cudaGraphLaunch");
    else
      work();
  }
  // Device memory that the driver has allocated for the recording.
  std::size_t bytes() const { return graph_ ? bytes_ : 0; }

 private:
  // Work that the stream recorded between begin and end instead of running it.
  class Capture {
   public:
    explicit Capture(cudaStream_t stream) : stream_(stream) {
      check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    }
    ~Capture() {
      if (is_open_) cudaStreamEndCapture(stream_, &graph_);
      if (graph_) cudaGraphDestroy(graph_);
    }
    cudaGraph_t end() {
      check_launches();    // a launch that was refused is not in the graph
      is_open_ = false;
      check(cudaStreamEndCapture(stream_, &graph_), "cudaStreamEndCapture");
      return graph_;
    }

   private:
    cudaStream_t stream_;
    cudaGraph_t graph_ = nullptr;
    bool is_open_ = true;
  };

  template <class Work>
  void capture(const Kokkos::Cuda &exec, const Work &work) {
    Capture capture(exec.cuda_stream());
    {
      const RecordingLaunches recording;
      work();
    }
    const cudaGraph_t recorded = capture.end();
    // A graph with the same calls accepts their new arguments, which costs less than making a new one.
    cudaGraphExecUpdateResultInfo info;
    if (graph_ && cudaGraphExecUpdate(graph_, recorded, &info) != cudaSuccess) {
      clear();
      cudaGetLastError();
    }
    if (graph_) return;
    std::size_t num_nodes = 0, before = 0, after = 0, all = 0;
    check(cudaGraphGetNodes(recorded, nullptr, &num_nodes), "cudaGraphGetNodes");
    check(cudaMemGetInfo(&before, &all), "cudaMemGetInfo");
    check(cudaGraphInstantiate(&graph_, recorded, 0), "cudaGraphInstantiate");
    check(cudaGraphUpload(graph_, exec.cuda_stream()), "cudaGraphUpload");
    check(cudaMemGetInfo(&after, &all), "cudaMemGetInfo");
    bytes_ = std::min(before - std::min(before, after), num_nodes * MOST_BYTES_OF_A_NODE);
  }
  void clear() {
    if (graph_ && cudaGraphExecDestroy(graph_) != cudaSuccess) cudaGetLastError();
    graph_ = nullptr;
  }
  static void check(cudaError_t error, const char *call) {
    if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
  }

  // More than this means that others have allocated memory at the same time.
  static constexpr std::size_t MOST_BYTES_OF_A_NODE = 1 << 16;
  cudaGraphExec_t graph_ = nullptr;
  std::size_t bytes_ = 0;
  bool can_record_ = true;
};

}    // namespace equi

#endif
