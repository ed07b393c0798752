// What the text of a generated device kernel is made of, and the launches around it. A *body* holds the mathematics of
// one unit: for one atom and one channel, forward, backward and gather of one group of its paths.
#ifndef EQUI_DEVICE_UNIT_IMPL_H
#define EQUI_DEVICE_UNIT_IMPL_H

#include "device_exec.h"
#include "device_unit.h"

namespace equi {

// Four numbers that all lanes read together, in loads of 16 bytes.
template <class T>
struct alignas(16) Four {
  T v[4];
};
template <class T>
KOKKOS_FORCEINLINE_FUNCTION Four<T> load_four(const T *p) {
  return *reinterpret_cast<const Four<T> *>(p);
}

// The polynomial with ROWS coefficients row[k * stride] at f.
template <int ROWS, class T>
KOKKOS_FORCEINLINE_FUNCTION T polynomial(const T *row, int stride, T f) {
  T w = row[(ROWS - 1) * stride];
  EQUI_UNROLL for (int k = ROWS - 2; k >= 0; k--) w = w * f + row[k * stride];
  return w;
}

// The same and its derivative by f.
template <int ROWS, class T>
KOKKOS_FORCEINLINE_FUNCTION void polynomial(const T *row, int stride, T f, T &w, T &dw) {
  dw = row[(ROWS - 1) * stride];
  w = dw * f + row[(ROWS - 2) * stride];
  EQUI_UNROLL for (int k = ROWS - 3; k >= 0; k--) {
    dw = dw * f + w;
    w = w * f + row[k * stride];
  }
}

// One atom, its edges [begin, end) in the numbers of the call, and one channel.
struct DeviceAtom {
  int atom, begin, end, channel;
};

// Of the calling lane: group and chunk of channels of its item, and its atom; false if there is none.
template <class T, class Member>
KOKKOS_FORCEINLINE_FUNCTION bool find_work(const DeviceUnitCall<T> &u, const Member &team, int &group, int &chunk,
                                           int &lane, DeviceAtom &a) {
  using Traits = DeviceTraits<DeviceExec>;
  const int chunks = (u.channels + ITEM_CHANNELS - 1) / ITEM_CHANNELS;
  const int blocks = (u.num_atoms + Traits::GROUPS - 1) / Traits::GROUPS, item = team.league_rank() / blocks;
  group = item / chunks;
  chunk = item % chunks;
  lane = team.team_rank() % Traits::LANES;
  a.atom = (team.league_rank() % blocks) * Traits::GROUPS + team.team_rank() / Traits::LANES;
  if (a.atom >= u.num_atoms) return false;
  a.begin = static_cast<int>(u.begin[a.atom] - u.first);
  a.end = static_cast<int>(u.begin[a.atom + 1] - u.first);
  return true;
}

using DeviceMember = Kokkos::TeamPolicy<DeviceExec>::member_type;

// A host's only lane takes the channels of an item one by one.
template <class Body, class T, int ROWS>
struct UnitForward {
  Body body;
  DeviceUnitCall<T> u;
  KOKKOS_FUNCTION void operator()(const DeviceMember &team) const {
    constexpr int LANES = DeviceTraits<DeviceExec>::LANES;
    int group, chunk, lane;
    DeviceAtom a;
    if (!find_work(u, team, group, chunk, lane, a)) return;
    for (int k = 0; k < ITEM_CHANNELS; k += LANES) {
      a.channel = chunk * ITEM_CHANNELS + k + lane;
      if (a.channel < u.channels) body.template forward<ROWS>(group, u, a);
    }
  }
};

template <class Body, class T, int ROWS>
struct UnitGather {
  Body body;
  DeviceUnitCall<T> u;
  KOKKOS_FUNCTION void operator()(const DeviceMember &team) const {
    constexpr int LANES = DeviceTraits<DeviceExec>::LANES;
    int group, chunk, lane;
    DeviceAtom a;
    if (!find_work(u, team, group, chunk, lane, a)) return;
    for (int k = 0; k < ITEM_CHANNELS; k += LANES) {
      a.channel = chunk * ITEM_CHANNELS + k + lane;
      if (a.channel < u.channels) body.template gather<ROWS>(u, a);
    }
  }
};

template <class Body, class T, int ROWS>
struct UnitBackward {
  Body body;
  DeviceUnitCall<T> u;
  KOKKOS_FUNCTION void operator()(const DeviceMember &team) const {
    constexpr int LANES = DeviceTraits<DeviceExec>::LANES;
    int group, chunk, lane;
    DeviceAtom a;
    if (!find_work(u, team, group, chunk, lane, a)) return;
    const int chunks = (u.channels + ITEM_CHANNELS - 1) / ITEM_CHANNELS, sums = body.num_sums(group);
    T *to = u.parts + u.num_edges * (chunks * body.first_sum(group) + chunk * sums);
    for (int k = 0; k < ITEM_CHANNELS; k += LANES) {
      a.channel = chunk * ITEM_CHANNELS + k + lane;
      const bool active = a.channel < u.channels;    // all lanes take part in the sums
      if (!active) {
        if (LANES == 1) break;
        a.channel = chunk * ITEM_CHANNELS;
      }
      body.template backward<ROWS, LANES>(group, u, a, lane, active, to, k > 0);
    }
  }
};

template <class T, class Kernel>
void launch_unit(const char *label, const DeviceExec &exec, int num_groups, const DeviceUnitCall<T> &u,
                 const Kernel &kernel) {
  using Traits = DeviceTraits<DeviceExec>;
  if (u.num_atoms == 0) return;
  const int items = num_groups * ((u.channels + ITEM_CHANNELS - 1) / ITEM_CHANNELS);
  const int blocks = (u.num_atoms + Traits::GROUPS - 1) / Traits::GROUPS;
  // Four warps per block. Two blocks side by side lift nvcc's limit to 255 registers per lane, which it fills with
  // loads ahead of their use; with a lower limit, or none, it spills a few bytes (CUDA 13.0). Which of them is fastest
  // is not measured.
  constexpr int BLOCKS = 2;
  using Policy = Kokkos::TeamPolicy<DeviceExec, Kokkos::LaunchBounds<Traits::TEAM, BLOCKS>>;
  Kokkos::parallel_for(label, Policy(exec, items * blocks, Traits::TEAM, 1), kernel);
}

template <int ROWS, class Body, class T>
void launch_forward(const DeviceExec &exec, const Body &body, const DeviceUnitCall<T> &u) {
  launch_unit("equi:conv_forward", exec, body.num_forward_groups(), u, UnitForward<Body, T, ROWS>{body, u});
}
template <int ROWS, class Body, class T>
void launch_backward(const DeviceExec &exec, const Body &body, const DeviceUnitCall<T> &u) {
  launch_unit("equi:conv_backward", exec, body.num_backward_groups(), u, UnitBackward<Body, T, ROWS>{body, u});
}
template <int ROWS, class Body, class T>
void launch_gather(const DeviceExec &exec, const Body &body, const DeviceUnitCall<T> &u) {
  launch_unit("equi:conv_gather_senders", exec, 1, u, UnitGather<Body, T, ROWS>{body, u});
}

// Of a generated body, which has no data.
template <class Body, class T>
struct DeviceKernelOf {
  template <int ROWS>
  static void forward(const DeviceExec &exec, const DeviceUnitCall<T> &u) {
    launch_forward<ROWS>(exec, Body{}, u);
  }
  template <int ROWS>
  static void backward(const DeviceExec &exec, const DeviceUnitCall<T> &u) {
    launch_backward<ROWS>(exec, Body{}, u);
  }
  template <int ROWS>
  static void gather(const DeviceExec &exec, const DeviceUnitCall<T> &u) {
    launch_gather<ROWS>(exec, Body{}, u);
  }
  static constexpr DeviceUnitKernel<T> kernel() {
    return {Body::KEY,
            Body::NUM_FORMS,
            {forward<2>, forward<4>, forward<6>},
            {backward<2>, backward<4>, backward<6>},
            {gather<2>, gather<4>, gather<6>},
            Body::NUM_BACKWARD_GROUPS,
            Body::NUM_SUMS,
            Body::SUMS};
  }
};

}    // namespace equi

#endif
