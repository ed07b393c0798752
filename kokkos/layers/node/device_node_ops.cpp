// SPDX-License-Identifier: MIT
#include "kokkos/layers/node/device_node_ops.h"

#include "kokkos/runtime/device_dense.h"
#include "src/model/activation.h"

#include <algorithm>
#include <stdexcept>

namespace equi {

namespace {

// to[k] = from[order[k]], rows of `width` numbers
template <class Exec, class T>
void gather_rows(const Exec &exec, const int *order, int64_t n, int width, const T *from, T *to) {
  Kokkos::parallel_for(
      "equi:gather_rows", DeviceRange<Exec>(exec, 0, n * width),
      KOKKOS_LAMBDA(int64_t k) { to[k] = from[static_cast<int64_t>(order[k / width]) * width + k % width]; });
}

// to[order[k]] (+)= from[k]
template <class Exec, class T>
void scatter_rows(const Exec &exec, const int *order, int64_t n, int width, const T *from, T *to, bool add) {
  Kokkos::parallel_for(
      "equi:scatter_rows", DeviceRange<Exec>(exec, 0, n * width), KOKKOS_LAMBDA(int64_t k) {
        T &t = to[static_cast<int64_t>(order[k / width]) * width + k % width];
        t = add ? t + from[k] : from[k];
      });
}

template <class Exec, class T>
void add_bias(const Exec &exec, int64_t rows, int width, int channels, const T *bias, T *y) {
  Kokkos::parallel_for(
      "equi:bias", DeviceRange<Exec>(exec, 0, rows * channels),
      KOKKOS_LAMBDA(int64_t k) { y[k / channels * width + k % channels] += bias[k % channels]; });
}

// Channel c of a group's first component, for all rows.
template <class T, class R>
Pointer<T> channel_of(FeatureRows<R> rows, const FeatureGroup &group, int c) {
  return make_pointer<T>(rows.group(group) + c, group.channels);
}

// One term of a gate: x = c a(z) for scalars, x[m] = z[m] c a(gate) for gated blocks.
template <class T, class Z, class X>
struct GateTerm {
  Activation activation;
  Real<T> scale;
  bool is_gated;
  int channels;    // that a row has in a launch
  int mul, dim, in_width, in_stride, gate_width, out_width, out_stride;
  Pointer<Z> z, gate;
  Pointer<X> x;
};

// Channels of padding are written too: what reads x may multiply them with zero weights, which must not meet NaN.
template <class T>
struct GateForward : GateTerm<T, const T, T> {
  KOKKOS_FUNCTION void operator()(int64_t r, int u) const {
    const int64_t in = r * this->in_width + u, out = r * this->out_width + u;
    const bool is_padding = u >= this->mul;
    if (!this->is_gated)
      return put(this->x, out, is_padding ? T(0) : this->scale * activate(this->activation, this->z[in]).value);
    const T g =
        is_padding ? T(0) : this->scale * activate(this->activation, this->gate[r * this->gate_width + u]).value;
    for (int m = 0; m < this->dim; m++)
      put(this->x, out + m * this->out_stride, is_padding ? T(0) : this->z[in + m * this->in_stride] * g);
  }
};

// z and gate are replaced by their adjoints, x is that of the output.
template <class T>
struct GateBackward : GateTerm<T, T, const T> {
  KOKKOS_FUNCTION void operator()(int64_t r, int u) const {
    const int64_t in = r * this->in_width + u, out = r * this->out_width + u, g = r * this->gate_width + u;
    if (!this->is_gated)
      return put(this->z, in, this->x[out] * this->scale * activate(this->activation, this->z[in]).derivative);
    const auto a = activate(this->activation, this->gate[g]);
    T sum = 0;
    for (int m = 0; m < this->dim; m++) {
      const int64_t zm = in + m * this->in_stride;
      const T xm = this->x[out + m * this->out_stride];
      sum += this->z[zm] * xm;
      put(this->z, zm, xm * this->scale * a.value);
    }
    put(this->gate, g, this->scale * a.derivative * sum);
  }
};

// A few terms in one launch: each is little work.
template <class Term>
struct GateKernel {
  static constexpr int MAX_TERMS = 4;
  Term term[MAX_TERMS];
  int channels;    // of all terms
  KOKKOS_FUNCTION void operator()(int64_t k) const {
    int u = static_cast<int>(k % channels);
    // Unrolled: a place in `term` that the compiler does not know costs copies of it.
    EQUI_UNROLL for (int n = 0; n < MAX_TERMS; n++) {
      if (u >= 0 && u < term[n].channels) term[n](k / channels, u);
      u -= term[n].channels;
    }
  }
};

template <class Exec, class Term>
void launch_terms(const Exec &exec, const char *label, int64_t count, const std::vector<Term> &terms) {
  constexpr size_t MOST = GateKernel<Term>::MAX_TERMS;
  for (size_t first = 0; first < terms.size(); first += MOST) {
    GateKernel<Term> kernel{};    // terms that are not there have no channels
    for (size_t n = first; n < std::min(first + MOST, terms.size()); n++) {
      kernel.term[n - first] = terms[n];
      kernel.channels += terms[n].channels;
    }
    Kokkos::parallel_for(label, DeviceRange<Exec>(exec, 0, count * kernel.channels), kernel);
  }
}

// One team per atom; the lanes share the outputs of each matrix, every output is summed in the order of inputs.
constexpr int MAX_MATRICES = 8;

template <class Exec, class T>
struct ReadoutKernel {
  using Member = typename Kokkos::TeamPolicy<Exec>::member_type;
  using D = DoubleOf<T>;
  int num_matrices;
  int width[MAX_MATRICES + 1];
  int64_t weight[MAX_MATRICES], bias[MAX_MATRICES];
  int total_width;    // of all layers
  Activation activation;
  double activation_scale;
  const double *data;
  Pointer<const T> x;    // at the first channel
  int x_width;
  const int *species;
  const double *scale;
  D *energy;
  T *adjoint;

  KOKKOS_FUNCTION void operator()(const Member &team) const {
    const int64_t i = team.league_rank();
    const int rank = team.team_rank(), step = team.team_size();
    // Outputs, slopes and adjoints of all layers, one after the other.
    D *h = static_cast<D *>(team.team_scratch(0).get_shmem(3 * sizeof(D) * total_width));
    D *slope = h + total_width, *h_adj = slope + total_width;
    for (int u = rank; u < width[0]; u += step) h[u] = static_cast<D>(x[i * x_width + u]);
    team.team_barrier();
    int at = 0;
    for (int k = 0; k < num_matrices; k++) {
      const double *w = data + weight[k], *b = data + bias[k];
      const D *in = h + at;
      at += width[k];
      for (int v = rank; v < width[k + 1]; v += step) {
        D sum = b[v];
        for (int u = 0; u < width[k]; u++) sum += in[u] * w[static_cast<int64_t>(u) * width[k + 1] + v];
        if (k + 1 < num_matrices) {
          const auto a = activate(activation, sum);
          h[at + v] = activation_scale * a.value;
          slope[at + v] = activation_scale * a.derivative;
        } else {
          h[at + v] = sum;
          slope[at + v] = 1.0;
        }
      }
      team.team_barrier();
    }
    const double factor = scale[species[i]];
    if (rank == 0) {
      energy[i] += factor * h[at];
      h_adj[at] = factor;
    }
    team.team_barrier();
    for (int k = num_matrices - 1; k >= 0; k--) {
      const double *w = data + weight[k];
      const int before = at - width[k];
      for (int u = rank; u < width[k]; u += step) {
        D sum = 0;
        for (int v = 0; v < width[k + 1]; v++)
          sum += w[static_cast<int64_t>(u) * width[k + 1] + v] * h_adj[at + v] * slope[at + v];
        if (k > 0)
          h_adj[before + u] = sum;
        else
          adjoint[i * width[0] + u] = static_cast<T>(sum);
      }
      at = before;
      team.team_barrier();
    }
  }
};

}    // namespace

// ---- linear
// -----------------------------------------------------------------------------------------------------------------

template <class Exec, class T>
DeviceLinear<Exec, T>::DeviceLinear(const Exec &exec, const LinearOp<T> &op, int num_species)
    : in_(op.in()),
      out_(op.out()),
      per_species_(op.per_species()),
      accumulate_(op.accumulate()),
      num_species_(op.per_species() ? num_species : 1) {
  std::vector<T> weight, bias;
  for (const auto &p : op.products()) {
    Product product{p.in, p.out, {}};
    for (const auto &w : p.weight) {
      product.weight.push_back(static_cast<int64_t>(weight.size()));
      weight.insert(weight.end(), w.begin(), w.end());
    }
    products_.push_back(std::move(product));
    scratch_row_ = std::max<int64_t>(scratch_row_, in_.group(p.in).width() + out_.group(p.out).width());
  }
  for (int g = 0; g < out_.num_groups(); g++) {
    if (op.bias()[g].empty()) continue;
    biases_.push_back({g, static_cast<int64_t>(bias.size())});
    bias.insert(bias.end(), op.bias()[g].begin(), op.bias()[g].end());
  }
  assign(exec, weight_, weight);
  assign(exec, bias_, bias);
}

template <class Exec, class T>
void DeviceLinear<Exec, T>::apply(const Exec &exec, int64_t count, FeatureRows<const T> x, FeatureRows<T> y,
                                  bool transpose, bool add, const DeviceSpeciesOrder &species) {
  const FeatureLayout &xl = transpose ? out_ : in_, &yl = transpose ? in_ : out_;
  std::vector<bool> written(yl.num_groups(), add);
  for (const Product &p : products_) {
    const int gx = transpose ? p.out : p.in, gy = transpose ? p.in : p.out;
    const FeatureGroup &xg = xl.group(gx), &yg = yl.group(gy);
    const int vectors = xg.irrep.dim() * xg.planes;
    if (!per_species_) {
      device_gemm(exec, transpose, count * vectors, yg.channels, xg.channels, x.group(xg), weight_.data() + p.weight[0],
                  T(written[gy] ? 1 : 0), y.group(yg));
    } else {
      // Rows of one species are brought together, multiplied, and taken back.
      T *xs = scratch_.reserve(count * scratch_row_), *ys = xs + count * xg.width();
      for (int s = 0; s < num_species_; s++) {
        const int *rows = species.order + species.begin[s];
        const int64_t n = species.begin[s + 1] - species.begin[s];
        if (n == 0) continue;
        gather_rows(exec, rows, n, xg.width(), x.group(xg), xs);
        device_gemm(exec, transpose, n * vectors, yg.channels, xg.channels, xs, weight_.data() + p.weight[s], T(0), ys);
        scatter_rows(exec, rows, n, yg.width(), ys, y.group(yg), written[gy]);
      }
    }
    written[gy] = true;
  }
  for (int g = 0; g < yl.num_groups(); g++)
    if (!written[g]) device_zero(exec, y.group(yl.group(g)), count * yl.group(g).width());
}

template <class Exec, class T>
void DeviceLinear<Exec, T>::forward(const Exec &exec, int64_t count, FeatureRows<const T> x, FeatureRows<T> y,
                                    const DeviceSpeciesOrder &species) {
  apply(exec, count, x, y, false, accumulate_, species);
  for (const Bias &b : biases_) {
    const FeatureGroup &group = out_.group(b.group);
    add_bias(exec, count, group.width(), group.channels, bias_.data() + b.offset, y.group(group));
  }
}

template <class Exec, class T>
void DeviceLinear<Exec, T>::backward(const Exec &exec, int64_t count, FeatureRows<const T> y_adj, FeatureRows<T> x_adj,
                                     bool add, const DeviceSpeciesOrder &species) {
  apply(exec, count, y_adj, x_adj, true, add, species);
}

// ---- gate
// -------------------------------------------------------------------------------------------------------------------

// Terms of a gate as a Term, of so many channels each.
template <class Term, class T, class Z, class X, class R1, class R2, class Channels>
std::vector<Term> terms_of(const GateOp<T> &op, FeatureRows<R1> z, FeatureRows<R2> x, const Channels &channels) {
  std::vector<Term> terms;
  for (const auto &t : op.terms()) {
    const FeatureGroup &gi = op.in().group(t.in), &go = op.out().group(t.out);
    const FeatureGroup &gg = t.gate < 0 ? gi : op.in().group(t.gate);
    terms.push_back({{t.activation, t.scale, t.gate >= 0, channels(t.mul), t.mul, gi.irrep.dim(), gi.width(),
                      gi.stride(), gg.width(), go.width(), go.stride(), channel_of<Z>(z, gi, t.in_channel),
                      channel_of<Z>(z, gg, t.gate_channel), channel_of<X>(x, go, t.out_channel)}});
  }
  return terms;
}

template <class Exec, class T>
void DeviceGate<Exec, T>::forward(const Exec &exec, int64_t count, FeatureRows<const R> z, FeatureRows<R> x) const {
  launch_terms(exec, "equi:gate", count, terms_of<GateForward<T>, T, const T, T>(op_, z, x, padded));
}

template <class Exec, class T>
void DeviceGate<Exec, T>::backward(const Exec &exec, int64_t count, FeatureRows<const R> x_adj,
                                   FeatureRows<R> z) const {
  launch_terms(exec, "equi:gate_adjoint", count,
               terms_of<GateBackward<T>, T, T, const T>(op_, z, x_adj, [](int mul) { return mul; }));
  for (const auto &u : op_.unread()) {
    const FeatureGroup &g = op_.in().group(u.group);
    R *rows = z.group(g) + u.first;
    const int channels = g.channels, width = u.end - u.first;
    Kokkos::parallel_for(
        "equi:gate_unread", DeviceRange<Exec>(exec, 0, count * g.irrep.dim() * g.planes * width),
        KOKKOS_LAMBDA(int64_t k) { rows[k / width * channels + k % width] = R(0); });
  }
}

// ---- readout
// ----------------------------------------------------------------------------------------------------------------

template <class Exec, class T>
DeviceReadout<Exec, T>::DeviceReadout(const Exec &exec, const Network &network, const FeatureGroup &group, int channel)
    : group_(group), channel_(channel), activation_(network.activation), activation_scale_(network.activation_scale) {
  const size_t n = network.weights.size();
  if (n > static_cast<size_t>(MAX_MATRICES))
    throw std::invalid_argument("a readout network with " + std::to_string(n) +
                                " matrices; the device evaluation has at most " + std::to_string(MAX_MATRICES));
  std::vector<double> data;
  widths_.push_back(network.num_inputs());
  for (size_t k = 0; k < n; k++) {
    const Matrix &w = network.weights[k];
    widths_.push_back(w.cols);
    weight_.push_back(static_cast<int64_t>(data.size()));
    data.insert(data.end(), w.data.begin(), w.data.end());
    bias_.push_back(static_cast<int64_t>(data.size()));
    if (k < network.biases.size() && !network.biases[k].empty())
      data.insert(data.end(), network.biases[k].begin(), network.biases[k].end());
    else
      data.resize(data.size() + w.cols, 0.0);
  }
  assign(exec, data_, data);
}

template <class Exec, class T>
void DeviceReadout<Exec, T>::forward(const Exec &exec, int64_t count, FeatureRows<const R> x, const int *species,
                                     const double *scale, D *energy, T *adjoint) const {
  if (count == 0) return;
  ReadoutKernel<Exec, T> kernel{};    // also what these matrices do not use: all of it goes to the device
  kernel.num_matrices = static_cast<int>(weight_.size());
  kernel.total_width = 0;
  for (size_t k = 0; k < widths_.size(); k++) {
    kernel.width[k] = widths_[k];
    kernel.total_width += widths_[k];
  }
  for (size_t k = 0; k < weight_.size(); k++) {
    kernel.weight[k] = weight_[k];
    kernel.bias[k] = bias_[k];
  }
  kernel.activation = activation_;
  kernel.activation_scale = activation_scale_;
  kernel.data = data_.data();
  kernel.x = channel_of<const T>(x, group_, channel_);
  kernel.x_width = group_.width();
  kernel.species = species;
  kernel.scale = scale;
  kernel.energy = energy;
  kernel.adjoint = adjoint;
  DeviceTeams<Exec> policy(exec, static_cast<int>(count), DeviceTraits<Exec>::LANES, 1);
  policy.set_scratch_size(0, Kokkos::PerTeam(3 * sizeof(D) * kernel.total_width + 64));
  Kokkos::parallel_for("equi:readout", policy, kernel);
}

template <class Exec, class T>
void DeviceReadout<Exec, T>::backward(const Exec &exec, int64_t count, const T *adjoint, FeatureRows<R> x_adj) const {
  const auto to = channel_of<T>(x_adj, group_, channel_);
  const int mul = num_inputs(), width = group_.width();
  Kokkos::parallel_for(
      "equi:readout_adjoint", DeviceRange<Exec>(exec, 0, count * mul), KOKKOS_LAMBDA(int64_t k) {
        const int64_t at = k / mul * width + k % mul;
        put(to, at, to[at] + adjoint[k]);
      });
}

template <class Exec, class T>
void copy_species_rows(const Exec &exec, int64_t count, const FeatureLayout &layout, FeatureRows<const T> result,
                       const int *species, FeatureRows<T> y, bool add) {
  for (int g = 0; g < layout.num_groups(); g++) {
    const int width = layout.group(g).width();
    const T *from = result.group(layout.group(g));
    T *to = y.group(layout.group(g));
    Kokkos::parallel_for(
        "equi:species_rows", DeviceRange<Exec>(exec, 0, count * width), KOKKOS_LAMBDA(int64_t k) {
          const T f = from[static_cast<int64_t>(species[k / width]) * width + k % width];
          to[k] = add ? to[k] + f : f;
        });
  }
}

template <class Exec, class D>
void fill_by_species(const Exec &exec, int64_t count, const int *species, const double *value, D *to) {
  Kokkos::parallel_for(
      "equi:fill_by_species", DeviceRange<Exec>(exec, 0, count),
      KOKKOS_LAMBDA(int64_t i) { to[i] = value[species[i]]; });
}

// A team per chunk, species by species.
template <class Exec>
void order_by_species(const Exec &exec, int num_chunks, const int *first_row, const int *species, int num_species,
                      int *begin, int *order) {
  using Policy = DeviceTeams<Exec>;
  Kokkos::parallel_for(
      "equi:species_order", Policy(exec, num_chunks, DeviceTraits<Exec>::TEAM),
      KOKKOS_LAMBDA(const typename Policy::member_type &team) {
        const int chunk = team.league_rank(), first = first_row[chunk], count = first_row[chunk + 1] - first;
        int *to = begin + chunk * (num_species + 1);
        int before = 0;
        for (int s = 0; s < num_species; s++) {
          Kokkos::single(Kokkos::PerTeam(team), [&]() { to[s] = before; });
          Kokkos::parallel_scan(Kokkos::TeamThreadRange(team, count), [&](int a, int &place, bool is_final) {
            if (species[first + a] != s) return;
            if (is_final) order[first + before + place] = a;
            place++;
          });
          int of_species = 0;
          Kokkos::parallel_reduce(
              Kokkos::TeamThreadRange(team, count), [&](int a, int &sum) { sum += species[first + a] == s; },
              of_species);
          before += of_species;
        }
        Kokkos::single(Kokkos::PerTeam(team), [&]() { to[num_species] = before; });
      });
}

using DeviceExec = Kokkos::DefaultExecutionSpace;
template void order_by_species(const DeviceExec &, int, const int *, const int *, int, int *, int *);
#define EQUI_INSTANTIATE(T)                                                                                 \
  template class DeviceLinear<DeviceExec, T>;                                                               \
  template class DeviceGate<DeviceExec, T>;                                                                 \
  template class DeviceGate<DeviceExec, Dual<T>>;                                                           \
  template class DeviceReadout<DeviceExec, T>;                                                              \
  template class DeviceReadout<DeviceExec, Dual<T>>;                                                        \
  template void copy_species_rows(const DeviceExec &, int64_t, const FeatureLayout &, FeatureRows<const T>, \
                                  const int *, FeatureRows<T>, bool);
EQUI_INSTANTIATE(float)
EQUI_INSTANTIATE(double)
#undef EQUI_INSTANTIATE
template void fill_by_species(const DeviceExec &, int64_t, const int *, const double *, double *);
template void fill_by_species(const DeviceExec &, int64_t, const int *, const double *, Dual<double> *);

}    // namespace equi
