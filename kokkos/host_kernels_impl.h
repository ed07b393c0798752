// Body of the host kernels for one instruction set. The including file defines EQUI_ISA (a namespace name) and
// EQUI_SIMD_BYTES (the width of a register).
#include "conv_paths.h"
#include "host_kernels.h"

namespace equi {
namespace EQUI_ISA {

template <class T>
struct SimdOf {
  typedef T type __attribute__((vector_size(EQUI_SIMD_BYTES)));    // g++ lets vectors alias their elements
};
template <class T>
using Simd = typename SimdOf<T>::type;
template <class T>
constexpr int LANES = EQUI_SIMD_BYTES / sizeof(T);

using paths::EDGE_BLOCK;
using paths::EdgeList;

constexpr int LMAX_UNROLLED = 3;    // larger orders take the loops at the end of each table
constexpr int LMAX_ANY = 12;

constexpr std::size_t align_up(std::size_t n) {
  return (n + 63) / 64 * 64;
}

// ---- paths of any order: the same formulas with loops
// --------------------------------------------------------------------

template <class V, class T, int ROWS>
static void gather_any(int l1, int l3, bool diagonal, const EdgeList<T> &edges, const T *table, const T *x,
                       int x_stride, const T *m, T *out, int out_stride) {
  const int d1 = 2 * l1 + 1, d3 = 2 * l3 + 1;
  V acc[2 * LMAX_ANY + 1];
  for (int c = 0; c < d3; c++) acc[c] = V{};
  for (int e = 0; e < edges.count; e++) {
    const T *xe = x + edges.x_offset[e];
    const V w = paths::interpolate<ROWS, V>(table + edges.table_offset[e], edges.columns, edges.value + e * ROWS);
    const T *me = m + static_cast<int64_t>(e / EDGE_BLOCK) * (d1 * d3 * EDGE_BLOCK) + e % EDGE_BLOCK;
    for (int a = 0; a < d1; a++) {
      const V t = w * paths::load<V>(xe + a * x_stride);
      if (diagonal)
        acc[a] += t;
      else
        for (int c = 0; c < d3; c++) acc[c] += me[(a * d3 + c) * EDGE_BLOCK] * t;
    }
  }
  for (int c = 0; c < d3; c++) paths::add_to<V>(out + c * out_stride, acc[c]);
}

template <class V, class T, int ROWS, bool SCATTER>
static void backward_any(int l1, int l2, const EdgeList<T> &edges, const T *table, const T *x, int x_stride, const V *d,
                         const T *y, int num_y, V *y_adj, T *x_adj, const int64_t *x_adj_offset) {
  const int d1 = 2 * l1 + 1, d2 = 2 * l2 + 1, first = l2 * l2;
  for (int e = 0; e < edges.count; e++) {
    const T *xe = x + edges.x_offset[e];
    const V w = paths::interpolate<ROWS, V>(table + edges.table_offset[e], edges.columns, edges.value + e * ROWS);
    const V dw = paths::interpolate<ROWS, V>(table + edges.table_offset[e], edges.columns, edges.derivative + e * ROWS);
    const T *ye = y + static_cast<int64_t>(e) * num_y + first;
    V *ya = y_adj + static_cast<int64_t>(e) * num_y;
    V q = V{};
    for (int a = 0; a < d1; a++) {
      const V xa = paths::load<V>(xe + a * x_stride);
      V s = V{};
      if (l2 == 0)
        s = d[a];
      else
        for (int b = 0; b < d2; b++) {
          s += ye[b] * d[a * d2 + b];
          ya[first + b] += w * xa * d[a * d2 + b];
        }
      q += s * xa;
      if constexpr (SCATTER) {
        paths::add_to<V>(x_adj + x_adj_offset[e] + a * x_stride, w * s);
      }
    }
    ya[0] += dw * q;
  }
}

// ---- choice of the unrolled body
// ------------------------------------------------------------------------------------------

template <class V, class T, int ROWS, int L1>
static void gather_l1(int l1, int l3, bool diagonal, const EdgeList<T> &edges, const T *table, const T *x, int x_stride,
                      const T *m, T *out, int out_stride) {
  using namespace paths;
  if (diagonal) return gather_path<V, T, L1, L1, true, ROWS>(edges, table, x, x_stride, m, out, out_stride);
  switch (l3) {
    case 0:
      return gather_path<V, T, L1, 0, false, ROWS>(edges, table, x, x_stride, m, out, out_stride);
    case 1:
      return gather_path<V, T, L1, 1, false, ROWS>(edges, table, x, x_stride, m, out, out_stride);
    case 2:
      return gather_path<V, T, L1, 2, false, ROWS>(edges, table, x, x_stride, m, out, out_stride);
    case 3:
      return gather_path<V, T, L1, 3, false, ROWS>(edges, table, x, x_stride, m, out, out_stride);
    default:
      return gather_any<V, T, ROWS>(l1, l3, diagonal, edges, table, x, x_stride, m, out, out_stride);
  }
}

template <class V, class T, int ROWS>
static void gather(int l1, int l3, bool diagonal, const EdgeList<T> &edges, const T *table, const T *x, int x_stride,
                   const T *m, T *out, int out_stride) {
  switch (l1) {
    case 0:
      return gather_l1<V, T, ROWS, 0>(l1, l3, diagonal, edges, table, x, x_stride, m, out, out_stride);
    case 1:
      return gather_l1<V, T, ROWS, 1>(l1, l3, diagonal, edges, table, x, x_stride, m, out, out_stride);
    case 2:
      return gather_l1<V, T, ROWS, 2>(l1, l3, diagonal, edges, table, x, x_stride, m, out, out_stride);
    case 3:
      return gather_l1<V, T, ROWS, 3>(l1, l3, diagonal, edges, table, x, x_stride, m, out, out_stride);
    default:
      return gather_any<V, T, ROWS>(l1, l3, diagonal, edges, table, x, x_stride, m, out, out_stride);
  }
}

template <class V, class T, int ROWS, bool SCATTER, int L1>
static void backward_l1(int l1, int l2, const EdgeList<T> &edges, const T *table, const T *x, int x_stride, const V *d,
                        const T *y, int num_y, V *y_adj, T *x_adj, const int64_t *x_adj_offset) {
  using paths::backward_path;
  switch (l2) {
    case 0:
      return backward_path<V, T, L1, 0, ROWS, SCATTER>(edges, table, x, x_stride, d, y, num_y, y_adj, x_adj,
                                                       x_adj_offset);
    case 1:
      return backward_path<V, T, L1, 1, ROWS, SCATTER>(edges, table, x, x_stride, d, y, num_y, y_adj, x_adj,
                                                       x_adj_offset);
    case 2:
      return backward_path<V, T, L1, 2, ROWS, SCATTER>(edges, table, x, x_stride, d, y, num_y, y_adj, x_adj,
                                                       x_adj_offset);
    case 3:
      return backward_path<V, T, L1, 3, ROWS, SCATTER>(edges, table, x, x_stride, d, y, num_y, y_adj, x_adj,
                                                       x_adj_offset);
    default:
      return backward_any<V, T, ROWS, SCATTER>(l1, l2, edges, table, x, x_stride, d, y, num_y, y_adj, x_adj,
                                               x_adj_offset);
  }
}

template <class V, class T, int ROWS, bool SCATTER>
static void backward_any_l1(int l1, int l2, const EdgeList<T> &edges, const T *table, const T *x, int x_stride,
                            const V *d, const T *y, int num_y, V *y_adj, T *x_adj, const int64_t *x_adj_offset) {
  switch (l1) {
    case 0:
      return backward_l1<V, T, ROWS, SCATTER, 0>(l1, l2, edges, table, x, x_stride, d, y, num_y, y_adj, x_adj,
                                                 x_adj_offset);
    case 1:
      return backward_l1<V, T, ROWS, SCATTER, 1>(l1, l2, edges, table, x, x_stride, d, y, num_y, y_adj, x_adj,
                                                 x_adj_offset);
    case 2:
      return backward_l1<V, T, ROWS, SCATTER, 2>(l1, l2, edges, table, x, x_stride, d, y, num_y, y_adj, x_adj,
                                                 x_adj_offset);
    case 3:
      return backward_l1<V, T, ROWS, SCATTER, 3>(l1, l2, edges, table, x, x_stride, d, y, num_y, y_adj, x_adj,
                                                 x_adj_offset);
    default:
      return backward_any<V, T, ROWS, SCATTER>(l1, l2, edges, table, x, x_stride, d, y, num_y, y_adj, x_adj,
                                               x_adj_offset);
  }
}

// ---- sums over lanes
// ------------------------------------------------------------------------------------------------------

template <class T>
struct IndexOf {
  typedef std::conditional_t<sizeof(T) == 4, int32_t, int64_t> type __attribute__((vector_size(EQUI_SIMD_BYTES)));
};

template <class T, int ODD, int... I>
EQUI_INLINE typename IndexOf<T>::type every_other(std::integer_sequence<int, I...>) {
  using Index = typename IndexOf<T>::type;
  return Index{(2 * I + ODD)...};
}

// (a0+a1, a2+a3, ..., b0+b1, b2+b3, ...)
template <class T>
EQUI_INLINE Simd<T> add_neighbors(Simd<T> a, Simd<T> b) {
  constexpr auto lanes = std::make_integer_sequence<int, LANES<T>>{};
  return __builtin_shuffle(a, b, every_other<T, 0>(lanes)) + __builtin_shuffle(a, b, every_other<T, 1>(lanes));
}

// Lane k of the result is the sum over the lanes of v[k]; v is used up. The order of the sums is a fixed tree.
template <class T>
EQUI_INLINE Simd<T> sums_of_lanes(Simd<T> *v) {
  for (int n = LANES<T> / 2; n > 0; n /= 2)
    for (int k = 0; k < n; k++) v[k] = add_neighbors<T>(v[2 * k], v[2 * k + 1]);
  return v[0];
}

// ---- one atom at a time
// ---------------------------------------------------------------------------------------------------

// Views into the caller's scratch for an atom with at most max_edges edges.
template <class T>
struct Scratch {
  T *m;                                               // M record
  T *y_soa;                                           // [num_y][EDGE_BLOCK]
  Simd<T> *y_adj;                                     // [edge][num_y] and one register's lanes to spare
  Simd<T> *y_adj_pair;                                // [edge][num_y][2]
  Simd<T> *d;                                         // [max_d], or [max_d][2] for pairs
  int64_t *x_offset, *x_adj_offset, *table_offset;    // [edge]
};

static int64_t edge_blocks(int64_t edges) {
  return (edges + EDGE_BLOCK - 1) / EDGE_BLOCK;
}

template <class T>
static std::size_t scratch_layout(const ConvPlan<T> &plan, int64_t max_edges, char *base, Scratch<T> *s) {
  std::size_t used = 0;
  auto take = [&](std::size_t bytes) {
    char *p = base ? base + used : nullptr;
    used += align_up(bytes);
    return p;
  };
  char *m = take(sizeof(T) * plan.m_entries * edge_blocks(max_edges) * EDGE_BLOCK);
  char *y_soa = take(sizeof(T) * plan.num_y * EDGE_BLOCK);
  char *y_adj = take(sizeof(Simd<T>) * (plan.num_y * max_edges + LANES<T>));
  char *y_adj_pair = take(2 * sizeof(Simd<T>) * plan.num_y * max_edges);
  char *d = take(2 * sizeof(Simd<T>) * plan.max_d);
  char *xo = take(sizeof(int64_t) * max_edges);
  char *xa = take(sizeof(int64_t) * max_edges);
  char *to = take(sizeof(int64_t) * max_edges);
  if (s) {
    s->m = reinterpret_cast<T *>(m);
    s->y_soa = reinterpret_cast<T *>(y_soa);
    s->y_adj = reinterpret_cast<Simd<T> *>(y_adj);
    s->y_adj_pair = reinterpret_cast<Simd<T> *>(y_adj_pair);
    s->d = reinterpret_cast<Simd<T> *>(d);
    s->x_offset = reinterpret_cast<int64_t *>(xo);
    s->x_adj_offset = reinterpret_cast<int64_t *>(xa);
    s->table_offset = reinterpret_cast<int64_t *>(to);
  }
  return used;
}

template <class T>
static std::size_t scratch_bytes(const ConvPlan<T> &plan, int64_t max_edges) {
  return scratch_layout<T>(plan, max_edges, nullptr, nullptr);
}

template <class T>
static int64_t longest_list(const ConvEdges<T> &edges) {
  int64_t longest = 0;
  for (int a = 0; a < edges.num_atoms; a++) {
    const int64_t n = edges.edge_begin[a + 1] - edges.edge_begin[a];
    if (n > longest) longest = n;
  }
  return longest;
}

// M of all paths for the edges of one atom: per path and block of edges, entry by entry, 16 edges side by side.
template <class T>
static void contract_with_harmonics(const ConvPlan<T> &plan, const T *y, int64_t count, bool transposed,
                                    Scratch<T> &s) {
  const int64_t blocks = edge_blocks(count);
  for (int64_t block = 0; block < blocks; block++) {
    const int64_t e0 = block * EDGE_BLOCK;
    const int n = static_cast<int>(count - e0 < EDGE_BLOCK ? count - e0 : EDGE_BLOCK);
    for (int e = 0; e < n; e++)
      for (int k = 0; k < plan.num_y; k++) s.y_soa[k * EDGE_BLOCK + e] = y[(e0 + e) * plan.num_y + k];
    for (int e = n; e < EDGE_BLOCK; e++)
      for (int k = 0; k < plan.num_y; k++) s.y_soa[k * EDGE_BLOCK + e] = 0;
    for (int q = 0; q < plan.num_paths; q++) {
      const ConvPath<T> &path = plan.paths[q];
      if (path.l2 == 0) continue;
      const int entries = (2 * path.l1 + 1) * (2 * path.l3 + 1);
      T *m = s.m + blocks * EDGE_BLOCK * path.m_offset + block * entries * EDGE_BLOCK;
      for (int k = 0; k < entries * EDGE_BLOCK; k++) m[k] = 0;
      const CouplingTerm<T> *terms = transposed ? path.mt_terms : path.m_terms;
      for (int t = 0; t < path.num_terms; t++) {
        T *mt = m + terms[t].entry * EDGE_BLOCK;
        const T *yt = s.y_soa + terms[t].m * EDGE_BLOCK;
        const T c = terms[t].value;
        for (int e = 0; e < EDGE_BLOCK; e++) mt[e] += c * yt[e];
      }
    }
  }
}

template <class T, int ROWS>
static EdgeList<T> edge_list(const ConvEdges<T> &edges, int64_t begin, int64_t count, Scratch<T> &s) {
  const int64_t local = begin - edges.edge_begin[0];
  for (int64_t e = 0; e < count; e++) s.table_offset[e] = edges.table_row[local + e] * edges.columns;
  return {static_cast<int>(count),
          s.x_offset,
          s.table_offset,
          edges.columns,
          edges.value + local * ROWS,
          edges.derivative ? edges.derivative + local * ROWS : nullptr};
}

template <class T, int ROWS>
static void forward_rows(const ConvPlan<T> &plan, const ConvEdges<T> &edges, const T *x, int64_t x_rows, T *out,
                         int64_t out_rows, int64_t out_begin, void *scratch) {
  Scratch<T> s;
  scratch_layout<T>(plan, longest_list(edges), static_cast<char *>(scratch), &s);
  for (int a = 0; a < edges.num_atoms; a++) {
    const int64_t begin = edges.edge_begin[a], count = edges.edge_begin[a + 1] - begin;
    contract_with_harmonics(plan, edges.y + begin * plan.num_y, count, false, s);
    EdgeList<T> list = edge_list<T, ROWS>(edges, begin, count, s);
    const int64_t m_stride = edge_blocks(count) * EDGE_BLOCK;
    for (int u = 0; u < plan.num_units; u++) {
      const ConvUnit<T> &unit = plan.units[u];
      for (int64_t e = 0; e < count; e++)
        s.x_offset[e] = static_cast<int64_t>(edges.other_row[begin + e]) * unit.in_width;
      const T *xu = x + x_rows * unit.in_group + unit.in_channel;
      for (int c = 0; c < unit.channels;) {
        const bool pair = c + 2 * LANES<T> <= unit.channels;
        const int step = (pair ? 2 : 1) * LANES<T>;
        for (int q = unit.first_path; q < unit.first_path + unit.num_paths; q++) {
          const ConvPath<T> &path = plan.paths[q];
          T *o = out + out_rows * path.out_group + (out_begin + a) * path.out_width + path.out_channel + c;
          for (int k = 0; k < 2 * path.l3 + 1; k++)
            for (int i = 0; i < step; i++) o[k * path.out_channels + i] = 0;
          auto body = pair ? gather<paths::Pair<Simd<T>>, T, ROWS> : gather<Simd<T>, T, ROWS>;
          body(path.l1, path.l3, path.l2 == 0, list, edges.table + path.column + c, xu + c, unit.in_channels,
               s.m + m_stride * path.m_offset, o, path.out_channels);
        }
        c += step;
      }
    }
  }
}

// All paths of a unit on one chunk of channels. out_adj is already offset to the chunk.
template <class V, class T, int ROWS, bool SCATTER>
static void backward_chunk(const ConvPlan<T> &plan, const ConvUnit<T> &unit, const EdgeList<T> &list, const T *table,
                           const T *x, const T *out_adj, int64_t out_rows, int64_t out_row, const T *y, T *x_adj,
                           Scratch<T> &s) {
  V *d = reinterpret_cast<V *>(s.d);
  V *y_adj = reinterpret_cast<V *>(std::is_same_v<V, Simd<T>> ? s.y_adj : s.y_adj_pair);
  for (int q = unit.first_path; q < unit.first_path + unit.num_paths; q++) {
    const ConvPath<T> &path = plan.paths[q];
    const T *g = out_adj + out_rows * path.out_group + out_row * path.out_width + path.out_channel;
    if (path.l2 == 0) {
      for (int k = 0; k < 2 * path.l1 + 1; k++) d[k] = paths::load<V>(g + k * path.out_channels);
    } else {
      const CouplingTerm<T> *term = path.d_terms, *end = term + path.num_terms;
      for (int k = 0; k < (2 * path.l1 + 1) * (2 * path.l2 + 1); k++) {    // terms are sorted by entry
        V sum = V{};
        for (; term != end && term->entry == k; ++term)
          sum += term->value * paths::load<V>(g + term->m * path.out_channels);
        d[k] = sum;
      }
    }
    backward_any_l1<V, T, ROWS, SCATTER>(path.l1, path.l2, list, table + path.column, x, unit.in_channels, d, y,
                                         plan.num_y, y_adj, x_adj, s.x_adj_offset);
  }
}

template <class T, int ROWS, bool SCATTER>
static void backward_rows(const ConvPlan<T> &plan, const ConvEdges<T> &edges, const T *x, int64_t x_rows,
                          const T *out_adj, int64_t out_rows, int64_t out_begin, T *y_adj, T *x_adj, int64_t x_adj_rows,
                          const int *x_adj_row, void *scratch) {
  using V = Simd<T>;
  Scratch<T> s;
  scratch_layout<T>(plan, longest_list(edges), static_cast<char *>(scratch), &s);
  for (int a = 0; a < edges.num_atoms; a++) {
    const int64_t begin = edges.edge_begin[a], count = edges.edge_begin[a + 1] - begin;
    EdgeList<T> list = edge_list<T, ROWS>(edges, begin, count, s);
    for (int64_t k = 0; k < count * plan.num_y + LANES<T>; k++) s.y_adj[k] = V{};
    for (int64_t k = 0; k < 2 * count * plan.num_y; k++) s.y_adj_pair[k] = V{};
    for (int u = 0; u < plan.num_units; u++) {
      const ConvUnit<T> &unit = plan.units[u];
      for (int64_t e = 0; e < count; e++) {
        s.x_offset[e] = static_cast<int64_t>(edges.other_row[begin + e]) * unit.in_width;
        if (SCATTER) s.x_adj_offset[e] = static_cast<int64_t>(x_adj_row[begin + e]) * unit.in_width;
      }
      const T *xu = x + x_rows * unit.in_group + unit.in_channel;
      T *xau = SCATTER ? x_adj + x_adj_rows * unit.in_group + unit.in_channel : nullptr;
      for (int c = 0; c < unit.channels;) {
        const T *gc = out_adj + c;
        T *xac = SCATTER ? xau + c : nullptr;
        const T *y = edges.y + begin * plan.num_y;
        if (c + 2 * LANES<T> <= unit.channels) {
          backward_chunk<paths::Pair<V>, T, ROWS, SCATTER>(plan, unit, list, edges.table + c, xu + c, gc, out_rows,
                                                           out_begin + a, y, xac, s);
          c += 2 * LANES<T>;
        } else {
          backward_chunk<V, T, ROWS, SCATTER>(plan, unit, list, edges.table + c, xu + c, gc, out_rows, out_begin + a, y,
                                              xac, s);
          c += LANES<T>;
        }
      }
    }
    // The two halves of the pairs, then the lanes.
    for (int64_t k = 0; k < count * plan.num_y; k++) s.y_adj[k] += s.y_adj_pair[2 * k] + s.y_adj_pair[2 * k + 1];
    T *ya = y_adj + (begin - edges.edge_begin[0]) * plan.num_y;
    const int64_t sums = count * plan.num_y;
    for (int64_t k = 0; k < sums; k += LANES<T>) {
      const V v = sums_of_lanes<T>(s.y_adj + k);
      __builtin_memcpy(ya + k, &v, sizeof(T) * (sums - k < LANES<T> ? sums - k : LANES<T>));
    }
  }
}

template <class T, int ROWS>
static void backward_gather_rows(const ConvPlan<T> &plan, const ConvEdges<T> &edges, const T *out_adj, int64_t out_rows,
                                 T *x_adj, int64_t x_adj_rows, int64_t x_adj_begin, void *scratch) {
  Scratch<T> s;
  scratch_layout<T>(plan, longest_list(edges), static_cast<char *>(scratch), &s);
  for (int a = 0; a < edges.num_atoms; a++) {
    const int64_t begin = edges.edge_begin[a], count = edges.edge_begin[a + 1] - begin;
    contract_with_harmonics(plan, edges.y + begin * plan.num_y, count, true, s);
    EdgeList<T> list = edge_list<T, ROWS>(edges, begin, count, s);
    const int64_t m_stride = edge_blocks(count) * EDGE_BLOCK;
    for (int u = 0; u < plan.num_units; u++) {
      const ConvUnit<T> &unit = plan.units[u];
      T *xu = x_adj + x_adj_rows * unit.in_group + (x_adj_begin + a) * unit.in_width + unit.in_channel;
      for (int q = unit.first_path; q < unit.first_path + unit.num_paths; q++) {
        const ConvPath<T> &path = plan.paths[q];
        for (int64_t e = 0; e < count; e++)
          s.x_offset[e] = static_cast<int64_t>(edges.other_row[begin + e]) * path.out_width;
        const T *g = out_adj + out_rows * path.out_group + path.out_channel;
        for (int c = 0; c < unit.channels;) {
          const bool pair = c + 2 * LANES<T> <= unit.channels;
          auto body = pair ? gather<paths::Pair<Simd<T>>, T, ROWS> : gather<Simd<T>, T, ROWS>;
          body(path.l3, path.l1, path.l2 == 0, list, edges.table + path.column + c, g + c, path.out_channels,
               s.m + m_stride * path.m_offset, xu + c, unit.in_channels);
          c += (pair ? 2 : 1) * LANES<T>;
        }
      }
    }
  }
}

// ---- the exported table
// ---------------------------------------------------------------------------------------------------

template <class T>
static void forward(const ConvPlan<T> &plan, const ConvEdges<T> &edges, const T *x, int64_t x_rows, T *out,
                    int64_t out_rows, int64_t out_begin, void *scratch) {
  if (edges.rows_per_bin == 2)
    forward_rows<T, 2>(plan, edges, x, x_rows, out, out_rows, out_begin, scratch);
  else if (edges.rows_per_bin == 4)
    forward_rows<T, 4>(plan, edges, x, x_rows, out, out_rows, out_begin, scratch);
  else
    forward_rows<T, 6>(plan, edges, x, x_rows, out, out_rows, out_begin, scratch);
}

template <class T, int ROWS>
static void backward_scatter(const ConvPlan<T> &plan, const ConvEdges<T> &edges, const T *x, int64_t x_rows,
                             const T *out_adj, int64_t out_rows, int64_t out_begin, T *y_adj, T *x_adj,
                             int64_t x_adj_rows, const int *x_adj_row, void *scratch) {
  if (x_adj)
    backward_rows<T, ROWS, true>(plan, edges, x, x_rows, out_adj, out_rows, out_begin, y_adj, x_adj, x_adj_rows,
                                 x_adj_row, scratch);
  else
    backward_rows<T, ROWS, false>(plan, edges, x, x_rows, out_adj, out_rows, out_begin, y_adj, x_adj, x_adj_rows,
                                  x_adj_row, scratch);
}

template <class T>
static void backward(const ConvPlan<T> &plan, const ConvEdges<T> &edges, const T *x, int64_t x_rows, const T *out_adj,
                     int64_t out_rows, int64_t out_begin, T *y_adj, T *x_adj, int64_t x_adj_rows, const int *x_adj_row,
                     void *scratch) {
  if (edges.rows_per_bin == 2)
    backward_scatter<T, 2>(plan, edges, x, x_rows, out_adj, out_rows, out_begin, y_adj, x_adj, x_adj_rows, x_adj_row,
                           scratch);
  else if (edges.rows_per_bin == 4)
    backward_scatter<T, 4>(plan, edges, x, x_rows, out_adj, out_rows, out_begin, y_adj, x_adj, x_adj_rows, x_adj_row,
                           scratch);
  else
    backward_scatter<T, 6>(plan, edges, x, x_rows, out_adj, out_rows, out_begin, y_adj, x_adj, x_adj_rows, x_adj_row,
                           scratch);
}

template <class T>
static void backward_gather(const ConvPlan<T> &plan, const ConvEdges<T> &edges, const T *out_adj, int64_t out_rows,
                            T *x_adj, int64_t x_adj_rows, int64_t x_adj_begin, void *scratch) {
  if (edges.rows_per_bin == 2)
    backward_gather_rows<T, 2>(plan, edges, out_adj, out_rows, x_adj, x_adj_rows, x_adj_begin, scratch);
  else if (edges.rows_per_bin == 4)
    backward_gather_rows<T, 4>(plan, edges, out_adj, out_rows, x_adj, x_adj_rows, x_adj_begin, scratch);
  else
    backward_gather_rows<T, 6>(plan, edges, out_adj, out_rows, x_adj, x_adj_rows, x_adj_begin, scratch);
}

}    // namespace EQUI_ISA

// Declared in host_kernels.cpp.
namespace EQUI_ISA {
extern const HostKernels<float> FLOAT_KERNELS;
extern const HostKernels<double> DOUBLE_KERNELS;
const HostKernels<float> FLOAT_KERNELS = {EQUI_ISA_NAME, scratch_bytes<float>, forward<float>, backward<float>,
                                          backward_gather<float>};
const HostKernels<double> DOUBLE_KERNELS = {EQUI_ISA_NAME, scratch_bytes<double>, forward<double>, backward<double>,
                                            backward_gather<double>};
}    // namespace EQUI_ISA
}    // namespace equi
