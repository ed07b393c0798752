// SPDX-License-Identifier: MIT
// Writes the parts of device kernels that paths share, and the kernels of uvw paths.
#include "src/generator/device_path_text.h"

#include "src/generator/kernel_layout.h"
#include "src/generator/path_text.h"

#include <set>
#include <string>
#include <vector>

namespace equi {

void load_coupled(GeneratedText &text, const PathSchedule &p) {
  std::set<int> loads;
  for (const auto &m : p.m)
    if (!p.is_diagonal()) loads.insert(m.coupled / 4);
  for (int k : loads) text.line("        const Four<T> m%d = load_four(m + %d);", k, 4 * k);
}

void locate_coupled(GeneratedText &text, const PathGroupSchedule &u) {
  if (!u.coupled.empty()) text.line("        const T *m = u.coupled + static_cast<int64_t>(e) * u.coupled_width;");
}

void load_sender(GeneratedText &text, int d1) {
  text.line("        const auto x = u.input(edge.other_row, a.channel);");
  for (int a = 0; a < d1; ++a) text.line("        const V x%d = a.load(x, %d * u.x_stride);", a, a);
}

void add_up_shares(GeneratedText &text, int num) {
  std::vector<int> others;
  for (int k = 1; k < num; ++k) others.push_back(k);
  text.line("    V sum[] = {%s};", list_of("a0", ", a%d", others).c_str());
  text.line("    if (!add_up(a, sum)) return;");
}

void store_x_adj(GeneratedText &text, int d1) {
  text.line("    const auto x_adj = u.input_adjoint(a.atom, a.channel);");
  for (int a = 0; a < d1; ++a)
    text.line("    a.store(x_adj, %d * u.x_stride, a.load(x_adj, %d * u.x_stride) + sum[%d]);", a, a, a);
}

// ---- uvw paths ----

namespace {

void begin_uvw_edges(GeneratedText &text, const char *channel, const char *output) {
  text.line("    for (int e = a.begin; e < a.end; e++) {");
  text.line("        const auto edge = u.edges[e];");
  text.line("        auto t = uvw_table<ROWS>(u, %s, %s, ROW, edge);", channel, output);

  text.line("        const T f = edge.fraction;");
}

// h[m3] = sum_w W[u,w] g[w,m3] of an edge, and dh[m3] with W', from the cotangents of the atom in row `row`.
void add_outputs(GeneratedText &text, int d3, const char *row, bool with_derivative) {
  text.line("        const auto g = u.cotangent(0, %s, 0);", row);
  const bool is_scalar = d3 == 1 && with_derivative;
  if (is_scalar) {
    text.line("        T rows[ROWS] = {};    // the polynomial of the sums over w has fewer products");
  } else {
    for (int c = 0; c < d3; ++c)
      text.line("        T h%d = 0%s;", c, with_derivative ? text_of(", dh%d = 0", c).c_str() : "");
  }
  text.line("        for (int w = 0; w < u.outputs; w += %d, t = t.after(u.channel_block)) {", UVW_BLOCK);
  for (int c = 0; c < d3; ++c)
    text.line("          const Four<T> g%d = load_four(g + %d * u.path[0].stride + w);", c, c);
  text.line("          EQUI_UNROLL for (int k = 0; k < %d; k++) {", UVW_BLOCK);
  if (is_scalar) {
    text.line("            Real<T> c[ROWS];");
    text.line("            t.load(k * ITEM_CHANNELS, ROW, c);");
    text.line("            EQUI_UNROLL for (int n = 0; n < ROWS; n++) rows[n] += g0.v[k] * c[n];");
  } else if (with_derivative) {
    text.line("            T v, dv;");
    text.line("            polynomial<ROWS>(t, k * ITEM_CHANNELS, ROW, f, v, dv);");
    for (int c = 0; c < d3; ++c) {
      text.line("            h%d += v * g%d.v[k];", c, c);
      text.line("            dh%d += dv * g%d.v[k];", c, c);
    }
  } else {
    text.line("            const T v = polynomial<ROWS>(t, k * ITEM_CHANNELS, ROW, f);");
    for (int c = 0; c < d3; ++c) text.line("            h%d += v * g%d.v[k];", c, c);
  }
  text.close(10, 8);
  if (is_scalar) {
    text.line("        T h0, dh0;");
    text.line("        polynomial<ROWS>(rows, f, h0, dh0);");
  }
}

// to[m2] = sum_m1 x[m1] D[m1,m2], where D is made from `from`; for l2 = 0 it is one sum.
void add_couplings(GeneratedText &text, const PathSchedule &p, const char *from, const char *d, const char *to) {
  for (size_t k = 0; k < p.d.size(); ++k)
    text.line("        const T %s%d = %s;", d, static_cast<int>(k), text_of_form(p.d[k], from).c_str());
  for (int b = 0; b < 2 * p.l2 + 1; ++b) {
    GeneratedSum s("T", to + std::to_string(p.l2 * p.l2 + b));
    for (const auto &n : p.d_entries)
      if (n.m2 == b) s.add(text, n.sign, text_of("x%d * ", n.m1) + d + std::to_string(n.d));
  }
}

}    // namespace

void generate_uvw_forward(GeneratedText &text, const PathGroupSchedule &u) {
  const PathSchedule &p = u.paths[0];
  const int d1 = 2 * u.shape.l1 + 1, d3 = 2 * p.l3 + 1;
  text.line("  // out[w,m3] = sum_e sum_u W[u,w] z[u,m3] of channels w .., z[u,m3] = sum_m1 M[m1,m3] x[u,m1]");
  text.line("  template <int ROWS, int LANES, class T>");
  text.line(
      "  KOKKOS_FORCEINLINE_FUNCTION static void forward(int w, const DevicePathGroupCall<T> &u, const DeviceAtom<1> "
      "&a) "
      "{");
  for (int c = 0; c < d3; ++c) text.line("    T a%d[OUTPUTS] = {};", c);
  text.line("    const int channels = w < u.outputs ? u.channels : 0;");
  text.line("    for (int c = a.lane; c < channels; c += LANES) {");
  begin_uvw_edges(text, "c", "w");
  locate_coupled(text, u);
  text.line("        const auto x = u.input(edge.other_row, c);");
  for (int a = 0; a < d1; ++a) text.line("        const T x%d = x[%d * u.x_stride];", a, a);
  load_coupled(text, p);
  generate_coupled(text, {"T", device_coupled, {}}, p, [](int) {});
  text.line("        EQUI_UNROLL for (int k = 0; k < OUTPUTS; k++) {");
  text.line("          const T v = polynomial<ROWS>(t, k * ITEM_CHANNELS, ROW, f);");
  for (int c = 0; c < d3; ++c) text.line("          a%d[k] += v * z%d;", c, c);
  text.line("        }");
  text.line("    }");
  text.line("    }");
  text.line("    const auto o = u.output(0, a.atom, w);");
  for (int c = 0; c < d3; ++c)
    text.line("    store_lane_sums<LANES>(a%d, a.lane, o + %d * u.path[0].stride, u.add);", c, c);
  text.line("  }");
}

void generate_uvw_backward(GeneratedText &text, const PathGroupSchedule &u) {
  const PathSchedule &p = u.paths[0];
  const int d1 = 2 * u.shape.l1 + 1;
  text.line("  // Per edge h[m3] = sum_w W[u,w] g[w,m3] and dh[m3] with W'; with D[m1,m2] = sum_m3 C h[m3]");
  text.line("  // y_adj[m2] += sum_m1 x[m1] D[m1,m2], and the same of dh times y[m2] is dE/df.");
  text.line("  template <int ROWS, int LANES, class T>");
  text.line(
      "  KOKKOS_FORCEINLINE_FUNCTION static void backward(int, const DevicePathGroupCall<T> &u, const DeviceAtom<1> "
      "&a,");
  text.line("                                                   T *to, bool add) {");
  begin_uvw_edges(text, "a.channel", "0");
  add_outputs(text, 2 * p.l3 + 1, "a.atom", true);
  text.line("        const auto x = u.input(edge.other_row, a.channel);");
  for (int a = 0; a < d1; ++a) text.line("        const T x%d = a.active ? x[%d * u.x_stride] : T(0);", a, a);
  const std::vector<int> harmonics = u.harmonics(u.whole());
  if (!harmonics.empty()) add_couplings(text, p, "h", "d", "b");
  add_couplings(text, p, "dh", "dd", "s");
  if (harmonics.empty()) {
    text.line("        const T r = s0;");
  } else {
    text.line("        const T *y = u.y + static_cast<int64_t>(e) * u.y_row;");
    GeneratedSum r("T", "r");
    for (int h : harmonics) r.add(text, 1, text_of("y[%d] * s%d", h, h));
  }
  text.line("        const T sums[] = {%s};", list_of("r", ", b%d", harmonics).c_str());
  text.line("        store_lane_sums<LANES>(sums, a.lane, to + static_cast<int64_t>(e) * %d, add);",
            static_cast<int>(1 + harmonics.size()));
  text.close(4, 2);
}

void generate_uvw_gather(GeneratedText &text, const PathGroupSchedule &u) {
  const PathSchedule &p = u.paths[0];
  const int d1 = 2 * u.shape.l1 + 1;
  text.line(
      "  // x_adj[m1] += sum_e sum_m3 M[m1,m3] h[m3], h[m3] = sum_w W[u,w] g[w,m3], over the receivers that a sender");
  text.line("  // reaches");
  text.line("  template <int ROWS, class T>");
  text.line(
      "  KOKKOS_FORCEINLINE_FUNCTION static void gather(const DevicePathGroupCall<T> &u, const DeviceAtom<1> &a) {");
  text.line("    using V = T;");
  for (int a = 0; a < d1; ++a) text.line("    V a%d = 0;", a);
  begin_uvw_edges(text, "a.channel", "0");
  add_outputs(text, 2 * p.l3 + 1, "edge.other_row", false);
  locate_coupled(text, u);
  load_coupled(text, p);
  add_coupled(text, {"T", device_coupled, {}}, p, 'a');
  text.line("    }");
  add_up_shares(text, d1);
  store_x_adj(text, d1);
  text.line("  }");
}

}    // namespace equi
