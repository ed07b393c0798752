// SPDX-License-Identifier: MIT
// The functions that a generated device kernel calls, and the launches around it. A *body* holds the mathematics of
// one path group, for one atom and a lane's channels: forward, backward and gather of one run of its paths. In the
// forward pass over a uvw path it handles all channels of the sender.
#ifndef EQUI_DEVICE_PATH_GROUP_IMPL_H
#define EQUI_DEVICE_PATH_GROUP_IMPL_H

#include "kokkos/device_kernels/edges_ahead.h"
#include "kokkos/device_kernels/lane_channels.h"
#include "kokkos/kernel_interface/device_path_group.h"
#include "kokkos/runtime/device_exec.h"
#include "src/generator/kernel_schedule.h"

#include <algorithm>
#include <type_traits>

namespace equi {

// The edge data that all lanes read together.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION Four<T> load_four(const T *p) {
  return *reinterpret_cast<const Four<T> *>(p);
}
template <class T>
KOKKOS_FORCEINLINE_FUNCTION Four<Dual<T>> load_four(DualPointer<const T> p) {
  const Four<T> value = load_four(p.value), tangent = load_four(p.value + p.distance);
  Four<Dual<T>> four;
  EQUI_UNROLL for (int k = 0; k < 4; k++) four.v[k] = {value.v[k], tangent.v[k]};
  return four;
}

// The same address of global memory, in a register of its own. Compilers for GPUs would otherwise compute it again
// at each edge.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION const T *kept(const T *p) {
#if defined(__CUDA_ARCH__)
  auto address = __cvta_generic_to_global(p);
  asm("" : "+l"(address));
  return static_cast<const T *>(__cvta_global_to_generic(address));
#else
  return p;
#endif
}

// Adjacent numbers of a table, in one load if their size is a power of two.
template <class R, int WIDTH>
struct alignas(WIDTH % 2 == 0 ? WIDTH * sizeof(R) : sizeof(R)) TablePiece {
  R v[WIDTH];
};

// A lane's channel in the row of a channel block at which the bin of an edge begins. Its pieces are at constant
// distances from two addresses: one for pieces of full width, another for the rest of ROWS.
template <class R, int ROWS>
class TableRow {
  static constexpr int PIECE = DeviceTable<R>::PIECE;

 public:
  KOKKOS_FORCEINLINE_FUNCTION TableRow(const R *row, int lane)
      : full_(kept(row + lane * PIECE)), rest_(kept(row + lane * (ROWS % PIECE))) {}

  KOKKOS_FORCEINLINE_FUNCTION TableRow after(int64_t numbers) const {
    TableRow other = *this;
    other.full_ += numbers;
    other.rest_ += numbers;
    return other;
  }
  // Loads the ROWS coefficients of the weight in `column`. stride: numbers in a row.
  KOKKOS_FORCEINLINE_FUNCTION void load(int column, int stride, R *coefficients) const {
    load_pieces<0>(column, stride, coefficients);
  }

 private:
  template <int FIRST>
  KOKKOS_FORCEINLINE_FUNCTION void load_pieces(int column, int stride, R *coefficients) const {
    constexpr int LEFT = ROWS - FIRST, WIDTH = LEFT < PIECE ? LEFT : PIECE;
    const R *from = (WIDTH == PIECE ? full_ : rest_) + FIRST * stride + column * WIDTH;
    const auto piece = *reinterpret_cast<const TablePiece<R, WIDTH> *>(from);
    EQUI_UNROLL for (int k = 0; k < WIDTH; k++) coefficients[FIRST + k] = piece.v[k];
    if constexpr (WIDTH < LEFT) load_pieces<FIRST + WIDTH>(column, stride, coefficients);
  }

  const R *full_, *rest_;
};

// The polynomial with these ROWS coefficients at f. R: their type.
template <int ROWS, class R, class T>
KOKKOS_FORCEINLINE_FUNCTION T polynomial(const R *coefficients, T f) {
  T w = coefficients[ROWS - 1];
  EQUI_UNROLL for (int k = ROWS - 2; k >= 0; k--) w = w * f + coefficients[k];
  return w;
}
template <int ROWS, class R, class T>
KOKKOS_FORCEINLINE_FUNCTION T polynomial(const TableRow<R, ROWS> &t, int column, int stride, T f) {
  R coefficients[ROWS];
  t.load(column, stride, coefficients);
  return polynomial<ROWS>(coefficients, f);
}

// For a lane's two channels.
template <class R, int ROWS>
struct TwoTableRows {
  TableRow<R, ROWS> first, second;

  KOKKOS_FORCEINLINE_FUNCTION TwoTableRows after(int64_t numbers) const {
    return {first.after(numbers), second.after(numbers)};
  }
};
template <int ROWS, class R, class T>
KOKKOS_FORCEINLINE_FUNCTION TwoChannels<T> polynomial(const TwoTableRows<R, ROWS> &t, int column, int stride, T f) {
  return {polynomial<ROWS>(t.first, column, stride, f), polynomial<ROWS>(t.second, column, stride, f)};
}

// The same and its derivative with respect to f.
template <int ROWS, class R, class T>
KOKKOS_FORCEINLINE_FUNCTION void polynomial(const R *coefficients, T f, T &w, T &dw) {
  dw = coefficients[ROWS - 1];
  w = dw * f + coefficients[ROWS - 2];
  EQUI_UNROLL for (int k = ROWS - 3; k >= 0; k--) {
    dw = dw * f + w;
    w = w * f + coefficients[k];
  }
}
template <int ROWS, class R, class T>
KOKKOS_FORCEINLINE_FUNCTION void polynomial(const TableRow<R, ROWS> &t, int column, int stride, T f, T &w, T &dw) {
  R coefficients[ROWS];
  t.load(column, stride, coefficients);
  polynomial<ROWS>(coefficients, f, w, dw);
}
template <int ROWS, class R, class T>
KOKKOS_FORCEINLINE_FUNCTION void polynomial(const TwoTableRows<R, ROWS> &t, int column, int stride, T f,
                                            TwoChannels<T> &w, TwoChannels<T> &dw) {
  polynomial<ROWS>(t.first, column, stride, f, w.first, dw.first);
  polynomial<ROWS>(t.second, column, stride, f, w.second, dw.second);
}

using TeamMember = Kokkos::TeamPolicy<DeviceExec>::member_type;

// The work of a lane: one atom, its edges [begin, end) in the numbers of the call, and N channels. A lane that is
// not active does not own the first channel, and only takes part in sums.
template <int N>
struct DeviceAtom {
  const TeamMember &team;
  int lane = 0, atom = 0, begin = 0, end = 0, channel = 0;
  bool active = false;
  int apart = 0;    // distance of two channels; 0: the lane does not own the second one, either
  // If a team handles a single atom, each of its groups of lanes does some of the edges, and add_up() uses this
  // memory; else null.
  void *shared = nullptr;

  // Number k of its channels, starting at p.
  template <class P>
  KOKKOS_FORCEINLINE_FUNCTION auto load(P p, int64_t k) const {
    if constexpr (N == 1)
      return p[k];
    else
      return TwoChannels<std::decay_t<decltype(p[k])>>(p[k], p[k + apart]);
  }
  // The same, and 0 for channels that it does not own.
  template <class P>
  KOKKOS_FORCEINLINE_FUNCTION auto load_own(P p, int64_t k) const {
    using T = std::decay_t<decltype(p[k])>;
    if constexpr (N == 1)
      return active ? p[k] : T(0);
    else
      return TwoChannels<T>(active ? p[k] : T(0), apart > 0 ? p[k + apart] : T(0));
  }
  template <class P, class V>
  KOKKOS_FORCEINLINE_FUNCTION void store(P p, int64_t k, V numbers) const {
    if constexpr (N == 1) {
      put(p, k, numbers);
    } else {
      p[k] = numbers.first;
      if (apart > 0) p[k + apart] = numbers.second;
    }
  }
};

// Number of sums of a lane that are added at a time. V: type for N channels.
constexpr int SHARED_SUMS = 4;
template <class V>
constexpr std::size_t SHARED_BYTES = sizeof(V) * SHARED_SUMS *(DeviceTraits<>::GROUPS - 1) * DeviceTraits<>::LANES;

// Adds the sums of a team's groups, in the order of the groups. Returns whether the lane must store them. All lanes
// of the team call it together.
template <int NUM, int N, class V>
KOKKOS_FORCEINLINE_FUNCTION bool add_up([[maybe_unused]] const DeviceAtom<N> &a, [[maybe_unused]] V (&sum)[NUM]) {
  using Traits = DeviceTraits<>;
  if constexpr (Traits::GROUPS > 1) {
    if (!a.shared) return a.active;
    // The groups other than the first store their sums for it. Compilers also read this for a single group, and warn
    // of a division by 0.
    constexpr int OTHERS = Traits::GROUPS > 1 ? Traits::GROUPS - 1 : 1;
    const int group = a.team.team_rank() / Traits::LANES;
    V *shared = static_cast<V *>(a.shared) + a.lane;
    EQUI_UNROLL for (int first = 0; first < NUM; first += SHARED_SUMS) {
      const int num = NUM - first < SHARED_SUMS ? NUM - first : SHARED_SUMS;
      if (group > 0) {
        EQUI_UNROLL for (int k = 0; k < num; k++) shared[(k * OTHERS + group - 1) * Traits::LANES] = sum[first + k];
      }
      a.team.team_barrier();
      if (group == 0) {
        EQUI_UNROLL for (int k = 0; k < OTHERS * num; k++) sum[first + k / OTHERS] += shared[k * Traits::LANES];
      }
      a.team.team_barrier();
    }
    return group == 0 && a.active;
  }
  return true;
}

// A lane's weights: the first row of its tables, or those of edge 0. The second function: those of an edge. W:
// TableRow, TwoTableRows, or the pointer to weights of edges.
template <int ROWS, int N, class T>
KOKKOS_FORCEINLINE_FUNCTION auto first_weights(const DevicePathGroupCall<T> &u, const DeviceAtom<N> &a) {
  if constexpr (ROWS == 1) {
    static_assert(N == 1, "weights of edges are those of one channel of a lane");
    return u.weights + a.channel;
  } else {
    const TableRow<Real<T>, ROWS> row{u.table + a.channel / ITEM_CHANNELS * u.channel_block, a.channel % ITEM_CHANNELS};
    if constexpr (N == 1)
      return row;
    else
      return TwoTableRows<Real<T>, ROWS>{row, row.after(a.apart > 0 ? u.channel_block : 0)};
  }
}
template <int ROWS, class T, class W>
KOKKOS_FORCEINLINE_FUNCTION W weights_of(const DevicePathGroupCall<T> &u, W first, int row,
                                         const DeviceEdgeRecord<T> &edge) {
  if constexpr (ROWS == 1)
    return first + static_cast<int64_t>(edge.table_row) * u.weights_row;
  else
    return first.after(static_cast<int64_t>(edge.table_row) * row);
}

// The weight of path q, with its column in a table as an argument, and its derivative with respect to f. For l2 = 0
// the caller must multiply weights of edges by f.
template <int ROWS, class T, class W>
KOKKOS_FORCEINLINE_FUNCTION auto weight(const DevicePathGroupCall<T> &u, W t, int q, int column, int row, T f) {
  if constexpr (ROWS == 1)
    return u.scale[q] * t[u.column[q]];
  else
    return polynomial<ROWS>(t, column, row, f);
}
template <int ROWS, class T, class W, class V>
KOKKOS_FORCEINLINE_FUNCTION void weight(const DevicePathGroupCall<T> &u, W t, int q, int column, int row, T f, V &w,
                                        V &dw) {
  if constexpr (ROWS == 1) {
    w = weight<ROWS>(u, t, q, column, row, f);
    dw = 0;
  } else {
    polynomial<ROWS>(t, column, row, f, w, dw);
  }
}

// Stores the contribution of one channel to the derivative with respect to a weight of edges, divided by the scale
// of its path.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void store_weight_adj(const DevicePathGroupCall<T> &u, const DeviceAtom<1> &a,
                                                  const DeviceEdgeRecord<T> &edge, int q, T value) {
  if (!a.active || !u.weights_adj) return;
  const Pointer<T> to =
      u.weights_adj + (static_cast<int64_t>(edge.table_row) * u.weights_row + u.column[q] + a.channel);
  value *= u.scale[q];
  put(to, 0, u.add_weights_adj ? to[0] + value : value);
}

// For a uvw path: the weights at an edge of the sender's channel c and of channel w of the output. Those of the next
// channels of the same UVW_BLOCK are ITEM_CHANNELS columns further. row: numbers in a row.
template <int ROWS, class T>
KOKKOS_FORCEINLINE_FUNCTION TableRow<Real<T>, ROWS> uvw_table(const DevicePathGroupCall<T> &u, int c, int w, int row,
                                                              const DeviceEdgeRecord<T> &edge) {
  const int64_t block = static_cast<int64_t>(c / ITEM_CHANNELS) * (u.outputs / UVW_BLOCK) + w / UVW_BLOCK;
  return {u.table + block * u.channel_block + static_cast<int64_t>(edge.table_row) * row,
          w % UVW_BLOCK * ITEM_CHANNELS + c % ITEM_CHANNELS};
}

// Where a run stores the derivatives with respect to edges: `num` numbers per edge, after `first` numbers per edge
// and item.
template <int N, class T>
KOKKOS_FORCEINLINE_FUNCTION T *parts_of(const DevicePathGroupCall<T> &u, const DeviceAtom<N> &a, int first, int num) {
  return u.parts + u.num_edges * (num_channel_items(N, u.channels) * first + a.channel / (N * ITEM_CHANNELS) * num);
}

// Number of channels of a path group that a lane handles, if there are that many. Kernels of float64 and duals fill
// the registers with one.
template <class Body, class T>
constexpr int LANE_CHANNELS = std::is_same_v<T, float> ? Body::LANE_CHANNELS : 1;

// The work of a lane of team `rank` for its atom and item. A host's only lane does the channels of an item one by
// one.
template <PathGroupPass PASS, class Body, class T, int ROWS>
struct PathGroupWork : Body {    // which uses no memory if it has no data
  DevicePathGroupCall<T> u;
  int atoms_per_team;    // GROUPS, or 1
  PathGroupWork(const Body &body, const DevicePathGroupCall<T> &call, int atoms_per_team)
      : Body(body), u(call), atoms_per_team(atoms_per_team) {}
  const Body &body() const { return *this; }
  // Teams per item.
  KOKKOS_FORCEINLINE_FUNCTION int num_blocks() const { return (u.num_atoms + atoms_per_team - 1) / atoms_per_team; }

  KOKKOS_FORCEINLINE_FUNCTION void run(const TeamMember &team, int rank) const {
    constexpr int N = LANE_CHANNELS<Body, T>;
    if (N > 1 && channels_of_lane(N, u.channels) > 1)
      run_channels<N>(team, rank);
    else
      run_channels<1>(team, rank);
  }

  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION void run_channels(const TeamMember &team, int rank) const {
    using Traits = DeviceTraits<>;
    constexpr int LANES = Traits::LANES;
    const int blocks = num_blocks(), item = rank / blocks, group = team.team_rank() / LANES;
    const bool has_team = Traits::GROUPS > 1 && atoms_per_team == 1;
    DeviceAtom<N> a{team, team.team_rank() % LANES};
    a.atom = (rank % blocks) * atoms_per_team + (has_team ? 0 : group);
    if (a.atom >= u.num_atoms) return;
    a.begin = static_cast<int>(u.begin[a.atom] - u.first);
    a.end = static_cast<int>(u.begin[a.atom + 1] - u.first);
    if (has_team) {
      const int first = a.begin, num = a.end - a.begin;
      a.begin = first + num * group / Traits::GROUPS;
      a.end = first + num * (group + 1) / Traits::GROUPS;
      a.shared = team.team_scratch(0).get_shmem(static_cast<std::size_t>(SHARED_BYTES<OfChannels<T, N>>));
    }
    if constexpr (PASS == PATH_GROUP_FORWARD && Body::IS_UVW) {
      this->template forward<ROWS, LANES>(item * Body::OUTPUTS, u, a);
    } else {
      const int items = num_channel_items(N, u.channels), run = item / items;
      const int first_channel = item % items * N * ITEM_CHANNELS;
      for (int k = 0; k < ITEM_CHANNELS; k += LANES) {
        a.channel = first_channel + k + a.lane;
        a.active = a.channel < u.channels;
        if (N > 1) a.apart = a.channel + ITEM_CHANNELS < u.channels ? ITEM_CHANNELS : 0;
        if (!a.active) {
          constexpr bool HAS_LANE_SUMS = PASS == PATH_GROUP_BACKWARD || PASS == PATH_GROUP_FUSED;
          if (LANES == 1 || !(HAS_LANE_SUMS || has_team)) break;
          a.channel = first_channel;
        }
        if constexpr (PASS == PATH_GROUP_FUSED)
          this->template fused<ROWS, LANES>(u, a, k > 0);
        else if constexpr (PASS == PATH_GROUP_BACKWARD)
          this->template backward<ROWS, LANES>(run, u, a, parts_of(u, a, this->first_sum(run), this->num_sums(run)),
                                               k > 0);
        else if constexpr (PASS == PATH_GROUP_FORWARD)
          this->template forward<ROWS>(run, u, a);
        else
          this->template gather<ROWS>(u, a);
      }
    }
  }
};

template <PathGroupPass PASS, class Body, class T>
int num_items(const Body &body, const DevicePathGroupCall<T> &u) {
  const int items = num_channel_items(LANE_CHANNELS<Body, T>, u.channels);
  if constexpr (PASS == PATH_GROUP_FORWARD && Body::IS_UVW)
    // the padding is written, too
    return (u.outputs + CHANNEL_PAD - 1) / CHANNEL_PAD * CHANNEL_PAD / Body::OUTPUTS;
  else if constexpr (PASS == PATH_GROUP_FORWARD)
    return body.num_forward_runs() * items;
  else
    return (PASS == PATH_GROUP_BACKWARD ? body.num_backward_runs() : 1) * items;
}

// GPUs begin with the first teams. The work of the last path groups, with inputs of high order, takes longest. It
// comes first, so that short work fills the multiprocessors at the end.
KOKKOS_FORCEINLINE_FUNCTION int last_to_first(const TeamMember &team) {
  return team.league_size() - 1 - team.league_rank();
}

// The path groups of a launch: the teams of one path group follow those of another.
template <PathGroupPass PASS, class T, int ROWS, class Body, class... Others>
struct PathGroupsWork {
  PathGroupWork<PASS, Body, T, ROWS> first;
  int64_t num_teams;    // teams of the first path group
  PathGroupsWork<PASS, T, ROWS, Others...> others;
  PathGroupsWork(int atoms_per_team, const DevicePathGroupCall<T> *calls, const Body &body, const Others &...bodies)
      : first(body, *calls, atoms_per_team),
        num_teams(static_cast<int64_t>(num_items<PASS>(body, *calls)) * first.num_blocks()),
        others(atoms_per_team, calls + 1, bodies...) {}
  int64_t all_teams() const { return num_teams + others.all_teams(); }
  KOKKOS_FORCEINLINE_FUNCTION void run(const TeamMember &team, int rank) const {
    const int of_first = static_cast<int>(num_teams);
    if (rank < of_first)
      first.run(team, rank);
    else
      others.run(team, rank - of_first);
  }
  KOKKOS_FUNCTION void operator()(const TeamMember &team) const { run(team, last_to_first(team)); }
};
template <PathGroupPass PASS, class T, int ROWS, class Body>
struct PathGroupsWork<PASS, T, ROWS, Body> {
  PathGroupWork<PASS, Body, T, ROWS> first;
  PathGroupsWork(int atoms_per_team, const DevicePathGroupCall<T> *calls, const Body &body)
      : first(body, *calls, atoms_per_team) {}
  int64_t all_teams() const {
    return static_cast<int64_t>(num_items<PASS>(first.body(), first.u)) * first.num_blocks();
  }
  KOKKOS_FORCEINLINE_FUNCTION void run(const TeamMember &team, int rank) const { first.run(team, rank); }
  KOKKOS_FUNCTION void operator()(const TeamMember &team) const { run(team, last_to_first(team)); }
};

// Whether a launch with this many lanes leaves more than half of a GPU idle. Because of the registers of these
// kernels (doc/gpu_roofline.rst), a GPU holds a third of the lanes that it otherwise could.
inline bool leaves_lanes_idle(const DeviceExec &exec, int64_t num_lanes) {
  return 6 * num_lanes < exec.concurrency();
}

// Number of blocks of four warps that a multiprocessor must hold, which limits the registers of a lane. Warps wait
// for loads most of the time. More warps are faster, even if a few numbers spill (measured on an H200,
// doc/gpu_roofline.rst). Kernels without a measurement may use up to 255 registers. NUMBERS of a body: numbers that
// a lane with one channel, or two, holds in a pass; or negative.
template <PathGroupPass PASS, int ROWS, class T, class... Bodies>
constexpr int warp_blocks() {
  if (IS_DUAL<T> || ROWS == 1 || (... || Bodies::IS_UVW)) return 2;
  constexpr int ALL = 512;      // registers, for each lane of a block
  constexpr int OTHERS = 48;    // registers for addresses and coefficients
  int numbers = 0;
  for (const int n : {Bodies::NUMBERS[LANE_CHANNELS<Bodies, T> - 1][PASS]...}) {
    if (n < 0) return 2;
    numbers = n > numbers ? n : numbers;
  }
  return ALL / (OTHERS + numbers * static_cast<int>(sizeof(T) / sizeof(float)));
}

template <PathGroupPass PASS, int ROWS, class T, class... Bodies>
void launch_path_groups(const DeviceExec &exec, const DevicePathGroupCall<T> *calls, const Bodies &...bodies) {
  static_assert(sizeof...(Bodies) <= MAX_LAUNCH_PATH_GROUPS, "a launch of too many path groups");
  using Traits = DeviceTraits<>;
  using Work = PathGroupsWork<PASS, T, ROWS, Bodies...>;
  Work work(Traits::GROUPS, calls, bodies...);
  if (work.all_teams() == 0) return;
  // The forward pass over a uvw path sums over lanes while it stores.
  constexpr bool CAN_SHARE = Traits::GROUPS > 1 && !(PASS == PATH_GROUP_FORWARD && (... || Bodies::IS_UVW));
  const bool has_teams = CAN_SHARE && leaves_lanes_idle(exec, work.all_teams() * Traits::TEAM);
  if (has_teams) work = Work(1, calls, bodies...);
  constexpr int BLOCKS = warp_blocks<PASS, ROWS, T, Bodies...>();
  using Policy = DeviceTeams<Kokkos::LaunchBounds<Traits::TEAM, BLOCKS>>;
  constexpr const char *LABELS[] = {"equi:conv_forward", "equi:conv_backward", "equi:conv_gather_senders",
                                    "equi:conv_fused"};
  Policy policy(exec, static_cast<int>(work.all_teams()), Traits::TEAM, 1);
  constexpr int MOST_CHANNELS = std::max({LANE_CHANNELS<Bodies, T>...});
  if (has_teams) policy.set_scratch_size(0, Kokkos::PerTeam(SHARED_BYTES<OfChannels<T, MOST_CHANNELS>>));
  Kokkos::parallel_for(LABELS[PASS], policy, work);
}

// Launches generated bodies, which have no data.
template <class T, class... Bodies>
struct DeviceKernelOf {
  static constexpr DevicePathGroupRuns PATH_GROUPS[] = {
      {Bodies::KEY, Bodies::NUM_BACKWARD_RUNS, Bodies::NUM_SUMS, Bodies::SUMS, LANE_CHANNELS<Bodies, T>}...};
  static constexpr bool READS_COUPLED = (... || Bodies::READS_COUPLED);
  template <PathGroupPass PASS, int ROWS>
  static void launch(const DeviceExec &exec, const DevicePathGroupCall<T> *calls) {
    launch_path_groups<PASS, ROWS>(exec, calls, Bodies{}...);
  }
  static constexpr DevicePathGroupKernel<T> kernel() {
    DevicePathGroupKernel<T> k{sizeof...(Bodies), PATH_GROUPS, READS_COUPLED, {}};
    if constexpr (!IS_DUAL<T>) add_launches<2>(k);
    if constexpr (std::is_same_v<T, float>) add_launches<CUBIC_ROWS>(k);
    add_launches<DEVICE_FINE_ROWS<T>>(k);
    return k;
  }
  template <int ROWS>
  static constexpr void add_launches(DevicePathGroupKernel<T> &k) {
    k.launch[PATH_GROUP_FORWARD][k.place(ROWS)] = launch<PATH_GROUP_FORWARD, ROWS>;
    k.launch[PATH_GROUP_BACKWARD][k.place(ROWS)] = launch<PATH_GROUP_BACKWARD, ROWS>;
    k.launch[PATH_GROUP_GATHER][k.place(ROWS)] = launch<PATH_GROUP_GATHER, ROWS>;
    if constexpr (!IS_DUAL<T> && !(... || Bodies::IS_UVW))
      k.launch[PATH_GROUP_FUSED][k.place(ROWS)] = launch<PATH_GROUP_FUSED, ROWS>;
  }
  static constexpr DeviceEdgeKernel<T> edge_kernel() {
    return {sizeof...(Bodies),
            PATH_GROUPS,
            READS_COUPLED,
            {launch<PATH_GROUP_FORWARD, 1>, launch<PATH_GROUP_BACKWARD, 1>, launch<PATH_GROUP_GATHER, 1>}};
  }
};

}    // namespace equi

#endif
