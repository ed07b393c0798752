// SPDX-License-Identifier: MIT
// Records the work of an evaluation on a device once and replays it. Small systems would otherwise wait for the
// host, which needs some microseconds for each launch. On CUDA recordings are graphs (device_graph_cuda.h); other
// devices, and hosts, do the work again under the same rules.
//
// Work can be recorded if its launches are the same at every step. They must not depend on anything that the host
// reads during a step. While work is recorded, memory neither grows nor is copied between host and device
// (device_exec.h).
#ifndef EQUI_DEVICE_RECORDER_H
#define EQUI_DEVICE_RECORDER_H

#include "kokkos/runtime/device_exec.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <vector>

namespace equi {

// One recording. record() also does the work once.
template <class Exec>
class DeviceGraph {
 public:
  template <class Work>
  void record(const Exec &, const Work &work) {
    const RecordingLaunches recording;
    work();
  }
  template <class Work>
  void replay(const Exec &, const Work &work) {
    work();
  }
  std::size_t bytes() const { return 0; }    // bytes of the device's memory
};

}    // namespace equi

#ifdef KOKKOS_ENABLE_CUDA
#include "kokkos/runtime/device_graph_cuda.h"
#endif

namespace equi {

// Recordings of several kinds of steps. A step is a sequence of calls of run() between begin_step() and end_step();
// the sequence is the same for all steps of a kind.
template <class Exec = DeviceExec>
class DeviceRecorder {
 public:
  using Arguments = std::array<const void *, 2>;
  using Extents = std::array<int64_t, 4>;

  // Begins a step that is recorded or replayed. arguments: memory that its work uses, unless forget() announces a
  // change; extents: the numbers that determine the sizes of all memory. Work that is not recorded must have seen
  // these extents first. So the first step of a kind, and any larger one, is not recorded, and no recording refers
  // to memory that its work moves.
  void begin_step(int kind, const Arguments &arguments, const Extents &extents) {
    begin_plain_step();
    step_ = &kinds_[kind];
    next_ = 0;
    const bool fits = std::equal(extents.begin(), extents.end(), step_->met.begin(), std::less_equal<>());
    is_growing_ = !fits;
    if (step_->is_recorded && step_->arguments == arguments) {
      action_ = Action::replay;
    } else if (fits) {
      action_ = Action::record;
      step_->arguments = arguments;
      step_->is_recorded = false;
    } else {
      action_ = Action::run;
      forget();
      std::transform(extents.begin(), extents.end(), step_->met.begin(), step_->met.begin(),
                     [](int64_t a, int64_t b) { return std::max(a, b); });
    }
  }
  // Begins a step whose work is neither recorded nor replayed.
  void begin_plain_step() {
    if (is_growing_) kinds_.clear();    // an error has ended the last step while memory could grow
    is_growing_ = true;
    action_ = Action::run;
  }
  // Not called after an error: a recording is useful only if it holds the whole step.
  void end_step() {
    if (action_ == Action::record) step_->is_recorded = true;
    action_ = Action::run;
    is_growing_ = false;
  }

  // A call within another run() makes its work a part of the outer one.
  template <class Work>
  void run(const Exec &exec, const Work &work) {
    if (action_ == Action::run) return work();
    if (next_ == step_->graphs.size()) step_->graphs.emplace_back();
    DeviceGraph<Exec> &graph = step_->graphs[next_++];
    const Action action = action_;
    action_ = Action::run;
    if (action == Action::record)
      graph.record(exec, work);
    else
      graph.replay(exec, work);
    action_ = action;
  }

  // Announces that the work has changed, and drops all recordings.
  void forget() {
    for (auto &kind : kinds_) kind.second.is_recorded = false;
  }

  // Device memory of the recordings.
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto &kind : kinds_)
      for (const DeviceGraph<Exec> &graph : kind.second.graphs) sum += graph.bytes();
    return sum;
  }

 private:
  enum class Action { run, record, replay };
  struct Kind {
    bool is_recorded = false;
    Arguments arguments{};
    Extents met{{-1, -1, -1, -1}};
    std::vector<DeviceGraph<Exec>> graphs;    // graphs of the calls of run()
  };
  std::map<int, Kind> kinds_;
  Kind *step_ = nullptr;
  std::size_t next_ = 0;
  bool is_growing_ = false;    // within a step whose memory may grow
  Action action_ = Action::run;
};

}    // namespace equi

#endif
