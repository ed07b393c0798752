// Kernels and launches of DeviceConvolution, included by device_convolution_{float,double}.cpp only: each of the two
// takes a GPU compiler a few minutes, and they can be built side by side.
#include "device_convolution.h"

#include "device_paths.h"
#include "host_exec.h"

#include <algorithm>
#include <stdexcept>

namespace equi {

namespace {

using namespace device_paths;

constexpr int ITEM_CHANNELS = 32;

// ---- choice of the unrolled body
// ------------------------------------------------------------------------------------------
//
// LMAX: the kernel has unrolled bodies up to this order; a kernel for low orders must not pay for the registers of high
// ones. ANY: it has the loops for higher orders too.

template <int LMAX, bool ANY, bool SWAPPED, int ROWS, int L_IN, class T, class... Rest>
KOKKOS_FORCEINLINE_FUNCTION void gather_from(int l_out, bool diagonal, const EdgeRun<T> &run, const T *table,
                                             const T *x, Rest... rest) {
  if (diagonal) return gather<L_IN, L_IN, true, SWAPPED, ROWS>(run, table, x, rest...);
  if constexpr (L_IN > 0)
    if (l_out == 0) return gather<L_IN, 0, false, SWAPPED, ROWS>(run, table, x, rest...);
  if constexpr (LMAX >= 1)
    if (l_out == 1) return gather<L_IN, 1, false, SWAPPED, ROWS>(run, table, x, rest...);
  if constexpr (LMAX >= 2)
    if (l_out == 2) return gather<L_IN, 2, false, SWAPPED, ROWS>(run, table, x, rest...);
  if constexpr (LMAX >= 3)
    if (l_out == 3) return gather<L_IN, 3, false, SWAPPED, ROWS>(run, table, x, rest...);
  if constexpr (ANY) gather_any<SWAPPED, ROWS>(L_IN, l_out, false, run, table, x, rest...);
}

template <int LMAX, bool ANY, bool SWAPPED, int ROWS, class T, class... Rest>
KOKKOS_FORCEINLINE_FUNCTION void gather_choice(int l_in, int l_out, bool diagonal, const EdgeRun<T> &run,
                                               const T *table, const T *x, Rest... rest) {
  if (l_in == 0) return gather_from<LMAX, ANY, SWAPPED, ROWS, 0>(l_out, diagonal, run, table, x, rest...);
  if constexpr (LMAX >= 1)
    if (l_in == 1) return gather_from<LMAX, ANY, SWAPPED, ROWS, 1>(l_out, diagonal, run, table, x, rest...);
  if constexpr (LMAX >= 2)
    if (l_in == 2) return gather_from<LMAX, ANY, SWAPPED, ROWS, 2>(l_out, diagonal, run, table, x, rest...);
  if constexpr (LMAX >= 3)
    if (l_in == 3) return gather_from<LMAX, ANY, SWAPPED, ROWS, 3>(l_out, diagonal, run, table, x, rest...);
  if constexpr (ANY) gather_any<SWAPPED, ROWS>(l_in, l_out, diagonal, run, table, x, rest...);
}

template <int LMAX, bool ANY, int ROWS, int LANES, int L1, class T, class... Rest>
KOKKOS_FORCEINLINE_FUNCTION void adjoint_from(int l2, const EdgeRun<T> &run, const T *table, const T *x, Rest... rest) {
  if (l2 == 0) return edge_adjoint<L1, 0, ROWS, LANES>(run, table, x, rest...);
  if constexpr (LMAX >= 1)
    if (l2 == 1) return edge_adjoint<L1, 1, ROWS, LANES>(run, table, x, rest...);
  if constexpr (LMAX >= 2)
    if (l2 == 2) return edge_adjoint<L1, 2, ROWS, LANES>(run, table, x, rest...);
  if constexpr (LMAX >= 3)
    if (l2 == 3) return edge_adjoint<L1, 3, ROWS, LANES>(run, table, x, rest...);
  if constexpr (ANY) edge_adjoint_any<ROWS, LANES>(L1, l2, run, table, x, rest...);
}

template <int LMAX, bool ANY, int ROWS, int LANES, class T, class... Rest>
KOKKOS_FORCEINLINE_FUNCTION void adjoint_choice(int l1, int l2, const EdgeRun<T> &run, const T *table, const T *x,
                                                Rest... rest) {
  if (l1 == 0) return adjoint_from<LMAX, ANY, ROWS, LANES, 0>(l2, run, table, x, rest...);
  if constexpr (LMAX >= 1)
    if (l1 == 1) return adjoint_from<LMAX, ANY, ROWS, LANES, 1>(l2, run, table, x, rest...);
  if constexpr (LMAX >= 2)
    if (l1 == 2) return adjoint_from<LMAX, ANY, ROWS, LANES, 2>(l2, run, table, x, rest...);
  if constexpr (LMAX >= 3)
    if (l1 == 3) return adjoint_from<LMAX, ANY, ROWS, LANES, 3>(l2, run, table, x, rest...);
  if constexpr (ANY) edge_adjoint_any<ROWS, LANES>(l1, l2, run, table, x, rest...);
}

// ---- kernels
// --------------------------------------------------------------------------------------------------------------

template <class Exec, class T>
struct ConvKernel {
  using Member = typename Kokkos::TeamPolicy<Exec>::member_type;
  using Path = typename DeviceConvolution<Exec, T>::Path;
  using Item = typename DeviceConvolution<Exec, T>::Item;
  static constexpr int LANES = DeviceTraits<Exec>::LANES, GROUPS = DeviceTraits<Exec>::GROUPS;

  const Path *paths;
  const Item *items;
  int num_items, num_atoms, blocks;    // blocks: teams per item
  const int64_t *begin;
  EdgeRun<T> edges;    // begin, end are set per atom, columns per path
  const T *table;
  int64_t table_rows;    // per slab (UnitCall)

  // The table at channel c of a path, whose rows `run` is told.
  KOKKOS_FORCEINLINE_FUNCTION const T *weights(const Path &path, int c, EdgeRun<T> &run) const {
    run.columns = path.row_stride;
    return table + table_rows * (path.first_column + c / CHANNEL_PAD * path.row_stride) + path.lane + c % CHANNEL_PAD;
  }

  // Which item and atom the calling lane works on; false if none.
  KOKKOS_FORCEINLINE_FUNCTION bool work(const Member &team, int &item, int &atom, int &lane, EdgeRun<T> &run) const {
    item = team.league_rank() / blocks;
    atom = (team.league_rank() % blocks) * GROUPS + team.team_rank() / LANES;
    lane = team.team_rank() % LANES;
    if (atom >= num_atoms) return false;
    run = edges;
    run.begin = begin[atom];
    run.end = begin[atom + 1];
    return true;
  }

  template <class Kernel>
  static void launch(const char *label, const Exec &exec, const Kernel &kernel) {
    if (kernel.num_items == 0 || kernel.num_atoms == 0) return;
    // Four warps per block: blocks stay small enough to fill a multiprocessor at 64 to 128 registers per lane.
    Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<DeviceTraits<Exec>::TEAM>> policy(
        exec, kernel.num_items * kernel.blocks, DeviceTraits<Exec>::TEAM, 1);
    Kokkos::parallel_for(label, policy, kernel);
  }
};

template <class Exec, class T, int ROWS, int LMAX, bool ANY>
struct ForwardKernel : ConvKernel<Exec, T> {
  using Base = ConvKernel<Exec, T>;
  const T *x;
  int64_t x_rows;
  T *out;
  int64_t out_rows, out_first;

  KOKKOS_FUNCTION void operator()(const typename Base::Member &team) const {
    int k, atom, lane;
    EdgeRun<T> run;
    if (!this->work(team, k, atom, lane, run)) return;
    const auto item = this->items[k];
    const auto path = this->paths[item.first_path];
    for (int c = item.channel + lane; c < item.channel + item.channels; c += Base::LANES)
      gather_choice<LMAX, ANY, false, ROWS>(
          path.l1, path.l3, path.l2 == 0, run, this->weights(path, c, run),
          x + x_rows * path.in_group + path.in_channel + c, static_cast<int64_t>(path.in_width), path.in_channels,
          path.m_offset, out + out_rows * path.out_group + (out_first + atom) * path.out_width + path.out_channel + c,
          path.out_channels, false);
  }
};

template <class Exec, class T, int ROWS, int LMAX, bool ANY>
struct SenderKernel : ConvKernel<Exec, T> {
  using Base = ConvKernel<Exec, T>;
  const T *out_adj;
  int64_t out_rows;
  T *x_adj;
  int64_t x_rows, x_first;

  KOKKOS_FUNCTION void operator()(const typename Base::Member &team) const {
    int k, atom, lane;
    EdgeRun<T> run;
    if (!this->work(team, k, atom, lane, run)) return;
    const auto item = this->items[k];
    for (int c = item.channel + lane; c < item.channel + item.channels; c += Base::LANES)
      for (int q = item.first_path; q < item.first_path + item.num_paths; q++) {
        const auto path = this->paths[q];
        gather_choice<LMAX, ANY, true, ROWS>(
            path.l3, path.l1, path.l2 == 0, run, this->weights(path, c, run),
            out_adj + out_rows * path.out_group + path.out_channel + c, static_cast<int64_t>(path.out_width),
            path.out_channels, path.m_offset,
            x_adj + x_rows * path.in_group + (x_first + atom) * path.in_width + path.in_channel + c, path.in_channels,
            true);
      }
  }
};

template <class Exec, class T, int ROWS, int LMAX, bool ANY>
struct EdgeAdjointKernel : ConvKernel<Exec, T> {
  using Base = ConvKernel<Exec, T>;
  const T *x;
  int64_t x_rows;
  const T *out_adj;
  int64_t out_rows, out_first;
  const int *d_begin, *d_m;
  const T *d_value;
  const T *y;
  int num_y;
  T *parts;
  int64_t num_positions;

  KOKKOS_FUNCTION void operator()(const typename Base::Member &team) const {
    int k, atom, lane;
    EdgeRun<T> run;
    if (!this->work(team, k, atom, lane, run)) return;
    const auto item = this->items[k];
    const auto path = this->paths[item.first_path];
    const CouplingTerms<T> terms{d_begin + path.terms, d_m, d_value};
    T *to = parts + num_positions * item.part;
    for (int c0 = 0; c0 < item.channels; c0 += Base::LANES) {
      const bool active = c0 + lane < item.channels;    // all lanes take part in the sums
      const int c = item.channel + c0 + (active ? lane : 0);
      adjoint_choice<LMAX, ANY, ROWS, Base::LANES>(
          path.l1, path.l2, run, this->weights(path, c, run), x + x_rows * path.in_group + path.in_channel + c,
          static_cast<int64_t>(path.in_width), path.in_channels,
          out_adj + out_rows * path.out_group + (out_first + atom) * path.out_width + path.out_channel + c,
          path.out_channels, terms, y, num_y, to, lane, active, c0 > 0);
    }
  }
};

// f(integral_constant ROWS, LMAX, ANY) for the kernels that a convolution needs.
template <int ROWS, class F>
void with_orders(int lmax, const F &f) {
  using Rows = std::integral_constant<int, ROWS>;
  if (lmax <= 2)
    f(Rows{}, std::integral_constant<int, 2>{}, std::false_type{});
  else
    f(Rows{}, std::integral_constant<int, 3>{}, std::true_type{});
}
template <class F>
void with_sizes(int rows, int lmax, const F &f) {
  if (rows == 2)
    with_orders<2>(lmax, f);
  else if (rows == 4)
    with_orders<4>(lmax, f);
  else
    with_orders<6>(lmax, f);
}

template <class Exec, class T, class G>
struct RadialKernel {
  const int64_t *edge;
  int64_t first;
  const G *distance;
  const RadialTable::Piece *pieces;
  int num_pieces, degree;
  int *table_row;
  T *coefficients;
  KOKKOS_FUNCTION void operator()(int64_t c) const {
    const int64_t e = edge ? edge[first + c] : first + c;
    const double r = static_cast<double>(distance[e]);
    int p = 0;
    while (p + 1 < num_pieces && r >= pieces[p].r_end) p++;
    const RadialTable::Piece piece = pieces[p];
    const double bins = (r - piece.r_begin) / piece.spacing;
    int bin = static_cast<int>(bins);
    bin = bin < 0 ? 0 : bin < piece.num_bins ? bin : piece.num_bins - 1;
    table_row[c] = (piece.first_knot - p + bin) * (degree + 1);    // each piece has a knot more than bins
    // Powers of the fraction of the bin and their derivatives by the distance.
    const double f = bins - bin;
    double value[6] = {1.0}, derivative[6] = {};
    EQUI_UNROLL for (int k = 1; k < 6; k++) {
      value[k] = value[k - 1] * f;
      derivative[k] = k * value[k - 1] / piece.spacing;
    }
    EQUI_UNROLL for (int k = 0; k < 6; k++)    // not to degree: the arrays must stay in registers
        if (k <= degree) {
      coefficients[c * 2 * (degree + 1) + k] = static_cast<T>(value[k]);
      coefficients[c * 2 * (degree + 1) + degree + 1 + k] = static_cast<T>(derivative[k]);
    }
  }
};

template <class T>
struct ContractKernel {
  const int64_t *edge;
  int64_t first;
  int m_size, num_y;
  const int *begin, *y_index;
  const T *value, *y;
  T *m;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int64_t c = n / m_size, e = edge ? edge[first + c] : first + c;
    const int k = static_cast<int>(n % m_size);
    T sum = 0;
    for (int t = begin[k]; t < begin[k + 1]; t++) sum += value[t] * y[e * num_y + y_index[t]];
    m[n] = sum;
  }
};

template <class T, class G, class Part>
struct AddPartsKernel {
  int num_y;
  const int *begin;
  const Part *sum;
  const T *parts;
  int64_t count;
  G *y_adj;    // of the chunk's first edge
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int64_t c = n / num_y;
    const int k = static_cast<int>(n % num_y);
    T total = 0;
    for (int t = begin[k]; t < begin[k + 1]; t++) total += parts[count * sum[t].part + c * sum[t].width + sum[t].index];
    y_adj[n] += static_cast<G>(total);
  }
};

// Contractions, one list of terms per entry.
template <class T>
struct TermLists {
  std::vector<int> begin{0}, m;
  std::vector<T> value;
  // `entries` lists, most of them sign * form; of(k) gives the form and the sign of entry k, or null.
  template <class F>
  void append(int entries, const F &of) {
    for (int k = 0; k < entries; k++) {
      const auto [form, sign] = of(k);
      if (form)
        for (const auto &t : form->terms) {
          m.push_back(t.index);
          value.push_back(static_cast<T>(sign * t.coefficient));
        }
      begin.push_back(static_cast<int>(m.size()));
    }
  }
};

}    // namespace

// ---- construction
// ---------------------------------------------------------------------------------------------------------

template <class Exec, class T>
DeviceConvolution<Exec, T>::DeviceConvolution(const Exec &exec, const Convolution &convolution, const FeatureLayout &in,
                                              const FeatureLayout &out, const EvaluatorOptions &options)
    : op_(convolution, in, out, 1, options) {
  if (convolution.radial.depends_on_pair())
    throw std::invalid_argument("radial functions of pairs of species are not on the device yet");
  const ConvPlan<T> &plan = op_.plan();
  num_y_ = plan.num_y;
  num_paths_ = plan.num_paths;
  std::vector<Path> paths;
  std::vector<Item> path_items, unit_items;
  TermLists<T> m_lists, d_lists;
  std::vector<std::vector<PartOfSum>> sums(num_y_);
  for (int u = 0; u < plan.num_units; u++) {
    const ConvUnit<T> &unit = plan.units[u];
    const UnitSchedule &schedule = op_.schedules()[u];
    for (int q = unit.first_path; q < unit.first_path + unit.num_paths; q++) {
      const ConvPath<T> &p = plan.paths[q];
      const PathSchedule &path = schedule.paths[q - unit.first_path];
      const int d1 = 2 * unit.l1 + 1, d2 = 2 * p.l2 + 1, d3 = 2 * p.l3 + 1;
      lmax_ = std::max({lmax_, unit.l1, p.l2, p.l3});
      paths.push_back({unit.l1, p.l2, p.l3, unit.first_column, unit.num_paths * CHANNEL_PAD,
                       (q - unit.first_path) * CHANNEL_PAD, m_size_, static_cast<int>(d_lists.begin.size()) - 1,
                       unit.in_group, p.out_group, unit.in_width, unit.in_channels, unit.in_channel, p.out_width,
                       p.out_channels, p.out_channel});
      if (p.l2 > 0) {
        using Form = std::pair<const LinearForm *, int>;
        m_lists.append(packed<T>(d1 * d3), [&](int k) {
          for (const auto &e : path.m)
            if (e.m1 * d3 + e.m3 == k) return Form{&schedule.forms[e.form], e.sign};
          return Form{};
        });
        d_lists.append(d1 * d2, [&](int k) {
          for (const auto &e : path.d_entries)
            if (e.m1 * d2 + e.m2 == k) return Form{&path.d[e.d], e.sign};
          return Form{};
        });
        m_size_ += packed<T>(d1 * d3);
        d_lists.begin.push_back(d_lists.begin.back());    // the next path has a begin of its own
      }
      for (int c = 0; c < unit.channels; c += ITEM_CHANNELS) {
        const int width = p.l2 == 0 ? 1 : 1 + d2;
        path_items.push_back({q, 1, c, std::min(ITEM_CHANNELS, unit.channels - c), part_size_});
        sums[0].push_back({part_size_, width, 0});
        for (int k = 1; k < width; k++) sums[p.l2 * p.l2 + k - 1].push_back({part_size_, width, k});
        part_size_ += width;
      }
    }
    for (int c = 0; c < unit.channels; c += ITEM_CHANNELS)
      unit_items.push_back({unit.first_path, unit.num_paths, c, std::min(ITEM_CHANNELS, unit.channels - c), 0});
  }
  if (lmax_ > LMAX_ANY)
    throw std::invalid_argument("a convolution of order l = " + std::to_string(lmax_) +
                                "; the device evaluation has orders up to " + std::to_string(LMAX_ANY));
  std::vector<int> sum_begin{0};
  std::vector<PartOfSum> sum_parts;
  for (const auto &s : sums) {
    sum_parts.insert(sum_parts.end(), s.begin(), s.end());
    sum_begin.push_back(static_cast<int>(sum_parts.size()));
  }
  num_path_items_ = static_cast<int>(path_items.size());
  num_unit_items_ = static_cast<int>(unit_items.size());
  assign(exec, paths_, paths);
  assign(exec, path_items_, path_items);
  assign(exec, unit_items_, unit_items);
  assign(exec, m_begin_, m_lists.begin);
  assign(exec, m_y_, m_lists.m);
  assign(exec, m_value_, m_lists.value);
  assign(exec, d_begin_, d_lists.begin);
  assign(exec, d_m_, d_lists.m);
  assign(exec, d_value_, d_lists.value);
  assign(exec, sum_begin_, sum_begin);
  assign(exec, sum_parts_, sum_parts);
  if (op_.exact()) return;
  assign(exec, pieces_, op_.radial_set().table(0).pieces);
  const int64_t size = op_.num_rows() * op_.columns();
  copy_to_device(exec, table_.reserve(size), op_.table_rows(), size);
}

// ---- one chunk
// ------------------------------------------------------------------------------------------------------------

template <class Exec, class T>
template <class G>
void DeviceConvolution<Exec, T>::prepare(const Exec &exec, const DeviceConvChunk &chunk, const G *distance, const T *y,
                                         bool with_couplings, Scratch &scratch) const {
  const int rows = rows_per_bin();
  const int64_t n = chunk.count;
  int *table_row = scratch.table_row.reserve(n);
  T *coefficients = scratch.coefficients.reserve(2 * rows * n);
  if (!op_.exact()) {
    Kokkos::parallel_for("equi:radial_coefficients", DeviceRange<Exec>(exec, 0, n),
                         RadialKernel<Exec, T, G>{chunk.edge, chunk.first, distance, pieces_.data(),
                                                  static_cast<int>(op_.radial_set().table(0).pieces.size()),
                                                  op_.rows_per_bin() - 1, table_row, coefficients});
  } else if (n > 0) {
    // The network is evaluated on the host: this mode is for checking.
    double *r = scratch.distance.reserve(n);
    const int64_t *edge = chunk.edge;
    const int64_t first = chunk.first;
    Kokkos::parallel_for(
        "equi:distances", DeviceRange<Exec>(exec, 0, n),
        KOKKOS_LAMBDA(int64_t c) { r[c] = static_cast<double>(distance[edge ? edge[first + c] : first + c]); });
    scratch.host_distance.resize(n);
    copy_to_host(exec, scratch.host_distance.data(), r, n);
    const int64_t per_edge = op_.scratch_per_edge();
    scratch.host_rows.resize(n * per_edge);
    scratch.host_coefficients.resize(4 * n);
    scratch.host_table_row.resize(n);
    constexpr int64_t BLOCK = 64;
    Kokkos::parallel_for(
        "equi:radial_exact", Kokkos::RangePolicy<HostExec>(0, (n + BLOCK - 1) / BLOCK), [&](int64_t block) {
          const int64_t c0 = block * BLOCK, count = std::min(BLOCK, n - c0);
          T fraction[BLOCK], bins_per_length[BLOCK];
          op_.radial(scratch.host_distance.data() + c0, nullptr, count, c0, n, scratch.host_rows.data(),
                     scratch.host_table_row.data() + c0, fraction, bins_per_length);
          for (int64_t c = c0; c < c0 + count; c++) {    // the two rows of an edge are its weight and the derivative
            const T coefficients[4] = {1, 0, 0, 1};
            std::copy_n(coefficients, 4, scratch.host_coefficients.data() + 4 * c);
          }
        });
    copy_to_device(exec, table_row, scratch.host_table_row.data(), n);
    copy_to_device(exec, coefficients, scratch.host_coefficients.data(), 4 * n);
    copy_to_device(exec, scratch.exact_rows.reserve(n * per_edge), scratch.host_rows.data(), n * per_edge);
  }
  if (with_couplings && m_size_ > 0)
    Kokkos::parallel_for("equi:contract_couplings", DeviceRange<Exec>(exec, 0, n * m_size_),
                         ContractKernel<T>{chunk.edge, chunk.first, m_size_, num_y_, m_begin_.data(), m_y_.data(),
                                           m_value_.data(), y, scratch.m.reserve(n * m_size_)});
}

namespace {

// What all kernels of a chunk have in common.
template <class Exec, class T>
ConvKernel<Exec, T> common(const DeviceConvChunk &chunk, const typename DeviceConvolution<Exec, T>::Path *paths,
                           const typename DeviceConvolution<Exec, T>::Item *items, int num_items, int m_size,
                           const T *table, int64_t table_rows, const DeviceConvScratch<Exec, T> &scratch) {
  constexpr int GROUPS = DeviceTraits<Exec>::GROUPS;
  return {paths,
          items,
          num_items,
          chunk.num_atoms,
          (chunk.num_atoms + GROUPS - 1) / GROUPS,
          chunk.begin,
          {0, 0, chunk.first, chunk.other_row, scratch.table_row.data(), scratch.coefficients.data(), scratch.m.data(),
           m_size, 0},
          table,
          table_rows};
}

}    // namespace

template <class Exec, class T>
void DeviceConvolution<Exec, T>::forward(const Exec &exec, const DeviceConvChunk &chunk, FeatureRows<const T> x,
                                         FeatureRows<T> out, Scratch &scratch) const {
  const T *table = op_.exact() ? scratch.exact_rows.data() : table_.data();
  const auto base = common<Exec, T>(chunk, paths_.data(), path_items_.data(), num_path_items_, m_size_, table,
                                    table_rows(chunk), scratch);
  with_sizes(rows_per_bin(), lmax_, [&](auto rows, auto lmax, auto any) {
    ForwardKernel<Exec, T, decltype(rows)::value, decltype(lmax)::value, decltype(any)::value> kernel;
    static_cast<ConvKernel<Exec, T> &>(kernel) = base;
    kernel.x = x.data;
    kernel.x_rows = x.rows;
    kernel.out = out.data;
    kernel.out_rows = out.rows;
    kernel.out_first = out.first;
    ConvKernel<Exec, T>::launch("equi:conv_forward", exec, kernel);
  });
}

template <class Exec, class T>
template <class G>
void DeviceConvolution<Exec, T>::backward(const Exec &exec, const DeviceConvChunk &chunk, FeatureRows<const T> x,
                                          FeatureRows<const T> out_adj, const T *y, G *y_adj, Scratch &scratch) const {
  if (chunk.count == 0) return;
  const T *table = op_.exact() ? scratch.exact_rows.data() : table_.data();
  T *parts = scratch.parts.reserve(part_size_ * chunk.count);
  const auto base = common<Exec, T>(chunk, paths_.data(), path_items_.data(), num_path_items_, m_size_, table,
                                    table_rows(chunk), scratch);
  with_sizes(rows_per_bin(), lmax_, [&](auto rows, auto lmax, auto any) {
    EdgeAdjointKernel<Exec, T, decltype(rows)::value, decltype(lmax)::value, decltype(any)::value> kernel;
    static_cast<ConvKernel<Exec, T> &>(kernel) = base;
    kernel.x = x.data;
    kernel.x_rows = x.rows;
    kernel.out_adj = out_adj.data;
    kernel.out_rows = out_adj.rows;
    kernel.out_first = out_adj.first;
    kernel.d_begin = d_begin_.data();
    kernel.d_m = d_m_.data();
    kernel.d_value = d_value_.data();
    kernel.y = y;
    kernel.num_y = num_y_;
    kernel.parts = parts;
    kernel.num_positions = chunk.count;
    ConvKernel<Exec, T>::launch("equi:conv_edge_adjoint", exec, kernel);
  });
  Kokkos::parallel_for("equi:add_edge_adjoints", DeviceRange<Exec>(exec, 0, chunk.count * num_y_),
                       AddPartsKernel<T, G, PartOfSum>{num_y_, sum_begin_.data(), sum_parts_.data(), parts, chunk.count,
                                                       y_adj + chunk.first * num_y_});
}

template <class Exec, class T>
void DeviceConvolution<Exec, T>::gather_senders(const Exec &exec, const DeviceConvChunk &chunk,
                                                FeatureRows<const T> out_adj, FeatureRows<T> x_adj,
                                                Scratch &scratch) const {
  const T *table = op_.exact() ? scratch.exact_rows.data() : table_.data();
  const auto base = common<Exec, T>(chunk, paths_.data(), unit_items_.data(), num_unit_items_, m_size_, table,
                                    table_rows(chunk), scratch);
  with_sizes(rows_per_bin(), lmax_, [&](auto rows, auto lmax, auto any) {
    SenderKernel<Exec, T, decltype(rows)::value, decltype(lmax)::value, decltype(any)::value> kernel;
    static_cast<ConvKernel<Exec, T> &>(kernel) = base;
    kernel.out_adj = out_adj.data;
    kernel.out_rows = out_adj.rows;
    kernel.x_adj = x_adj.data;
    kernel.x_rows = x_adj.rows;
    kernel.x_first = x_adj.first;
    ConvKernel<Exec, T>::launch("equi:conv_gather_senders", exec, kernel);
  });
}

template <class Exec, class T>
std::size_t DeviceConvolution<Exec, T>::bytes() const {
  return paths_.bytes() + path_items_.bytes() + unit_items_.bytes() + m_begin_.bytes() + m_y_.bytes() +
         d_begin_.bytes() + d_m_.bytes() + m_value_.bytes() + d_value_.bytes() + sum_begin_.bytes() +
         sum_parts_.bytes() + pieces_.bytes() + table_.bytes();
}

}    // namespace equi
