// SPDX-License-Identifier: MIT
#include "src/generator/device_generator.h"

#include "src/generator/contraction_generator.h"
#include "src/generator/path_text.h"

#include <algorithm>
#include <set>

namespace equi {

namespace {

using Text = GeneratedText;
using Sum = GeneratedSum;

// What kernels are made for, and what those kernels are called: plain numbers first.
constexpr int NUM_PLAIN_TYPES = 2, NUM_TYPES = 4;
constexpr struct {
  const char *type, *name;
} NUMBER_TYPES[NUM_TYPES] = {
    {"float", "FLOAT"}, {"double", "DOUBLE"}, {"Dual<float>", "DUAL_FLOAT"}, {"Dual<double>", "DUAL_DOUBLE"}};

// The entries of M that a path reads.
void load_coupled(Text &text, const PathSchedule &p) {
  std::set<int> loads;
  for (const auto &m : p.m)
    if (!p.is_diagonal()) loads.insert(m.coupled / 4);
  for (int k : loads) text.line("        const Four<T> m%d = load_four(m + %d);", k, 4 * k);
}

// The address of an edge's entries of M, if there are any.
void define_forms(Text &text, const PathGroupSchedule &u) {
  if (!u.coupled.empty()) text.line("        const T *m = u.coupled + static_cast<int64_t>(e) * u.coupled_width;");
}

// The weight of a path, and its entries of M.
void load_path(Text &text, const PathSchedule &p, int q) {
  text.line("        %sT w = weight<ROWS>(u, t, %d, %d * ITEM_CHANNELS, ROW, f);", p.is_diagonal() ? "" : "const ", q,
            q);
  if (p.is_diagonal()) text.line("        if (ROWS == 1) w *= f;");
  load_coupled(text, p);
}

// What forward, gather and backward of a channel begin with.
void begin_edges(Text &text) {
  text.line("    for (int e = a.begin; e < a.end; e++) {");
  text.line("        const auto edge = u.edges[e];");
  text.line("        const auto t = weights_of<ROWS>(u, first, ROW, edge);");
  text.line("        const T f = edge.fraction;");
}

void define_weights(Text &text) {
  text.line("    const auto first = first_weights<ROWS>(u, a);");
}

void load_sender(Text &text, int d1, const char *channel = "a.channel") {
  text.line("        const auto x = u.input(edge.other_row, %s);", channel);
  for (int a = 0; a < d1; ++a) text.line("        const T x%d = x[%d * u.x_stride];", a, a);
}

// from: output or cotangent
void define_output(Text &text, const char *from, const char *row, int q) {
  text.line("        const auto o = u.%s(%d, %s, a.channel);", from, q, row);
}

std::string paths_of(const PathGroupSchedule::Run &run) {
  return run.last == run.first + 1 ? text_of("path %d", run.first) : text_of("paths %d to %d", run.first, run.last - 1);
}

void generate_forward(Text &text, const PathGroupSchedule &u, int number) {
  const auto run = u.forward_runs[number];
  const int d1 = 2 * u.shape.l1 + 1;
  text.line("  // out[m3] = sum_e w sum_m1 M[m1,m3] x[m1], %s", paths_of(run).c_str());
  text.line("  template <int ROWS, class T>");
  text.line(
      "  KOKKOS_FORCEINLINE_FUNCTION static void forward_%d(const DevicePathGroupCall<T> &u, const DeviceAtom &a) {",
      number);
  define_weights(text);
  for (int k = 0; k < num_components(u, run); ++k) text.line("    T a%d = 0;", k);
  begin_edges(text);
  define_forms(text, u);
  load_sender(text, d1);
  const auto load = [&](const PathSchedule &p, int q) { load_path(text, p, q); };
  generate_products(text, {"T", device_coupled, load}, u, run, false);
  text.line("    }");
  int base = 0;
  for (int q = run.first; q < run.last; ++q) {
    text.line("    {");
    define_output(text, "output", "a.atom", q);
    for (int c = 0; c < 2 * u.paths[q].l3 + 1; ++c)
      text.line("        put(o, %d * u.path[%d].stride, a%d);", c, q, base++);
    text.line("    }");
  }
  text.line("  }");
}

void store_x_adj(Text &text, int d1) {
  text.line("    const auto x_adj = u.input_adjoint(a.atom, a.channel);");
  for (int a = 0; a < d1; ++a) text.line("    put(x_adj, %d * u.x_stride, x_adj[%d * u.x_stride] + a%d);", a, a, a);
}

void generate_gather(Text &text, const PathGroupSchedule &u) {
  const int d1 = 2 * u.shape.l1 + 1;
  text.line("  // x_adj[m1] += sum_e w sum_m3 M[m1,m3] g[m3], over the receivers that a sender reaches");
  text.line("  template <int ROWS, class T>");
  text.line("  KOKKOS_FORCEINLINE_FUNCTION static void gather(const DevicePathGroupCall<T> &u, const DeviceAtom &a) {");
  define_weights(text);
  for (int a = 0; a < d1; ++a) text.line("    T a%d = 0;", a);
  begin_edges(text);
  define_forms(text, u);
  text.line("        const int row = edge.other_row;");
  const auto load = [&](const PathSchedule &p, int q) {
    load_path(text, p, q);
    define_output(text, "cotangent", "row", q);
    for (int c = 0; c < 2 * p.l3 + 1; ++c) text.line("        const T g%d = o[%d * u.path[%d].stride];", c, c, q);
  };
  generate_products(text, {"T", device_coupled, load}, u, u.whole(), true);
  text.line("    }");
  store_x_adj(text, d1);
  text.line("  }");
}

// The derivative by the weight is given: stored if it is an edge's, else part of that by the fraction.
void add_by_weight(Text &text, int q, const char *by_weight, const char *by_fraction) {
  text.line("        if constexpr (ROWS == 1)");
  text.line("          store_weight_adj(u, a, edge, %d, active, %s);", q, by_weight);
  text.line("        else");
  text.line("          r += %s;", by_fraction);
}

// The sums of h[m2] = sum_m1 x[m1] D[m1,m2] for path q, whose first D is number `base`.
void add_path_backward(Text &text, const PathGroupSchedule &u, int q, int base) {
  const PathSchedule &p = u.paths[q];
  const int d1 = 2 * u.shape.l1 + 1, d2 = 2 * p.l2 + 1, y0 = p.l2 * p.l2;
  if (p.is_diagonal()) {
    Sum s("T", "s");
    for (const auto &n : p.d_entries) s.add(text, n.sign, text_of("x%d * d%d", n.m1, base + n.d));
    text.line("        r += dw * s;");
    text.line("        if constexpr (ROWS == 1) store_weight_adj(u, a, edge, %d, active, f * s);", q);
  } else if (p.is_scalar_product()) {
    Sum s("T", "s");
    text.line("        const T wg = w * d%d;", base);
    for (const auto &n : p.d_entries) {
      s.add(text, n.sign, text_of("y%d * x%d", y0 + n.m2, n.m1));
      text.line("        b%d %s x%d * wg;", y0 + n.m2, add_with(n.sign), n.m1);
    }
    add_by_weight(text, q, text_of("d%d * s", base).c_str(), text_of("(dw * d%d) * s", base).c_str());
  } else {
    Sum s("T", "s");
    for (int b = 0; b < d2; ++b) {
      Sum h("T", text_of("h%d", b));
      for (int a = 0; a < d1; ++a)
        for (const auto &n : p.d_entries)
          if (n.m1 == a && n.m2 == b) h.add(text, n.sign, text_of("x%d * d%d", a, base + n.d));
      s.add(text, 1, text_of("y%d * h%d", y0 + b, b));
      text.line("        b%d += w * h%d;", y0 + b, b);
    }
    add_by_weight(text, q, "s", "dw * s");
  }
}

// The distinct D of a run's paths, of the cotangent in row `row`, a channel's own.
void define_coupled_cotangents(Text &text, const PathGroupSchedule &u, const PathGroupSchedule::Run &run,
                               const char *row) {
  int base = 0;
  for (int q = run.first; q < run.last; ++q) {
    const PathSchedule &p = u.paths[q];
    std::string names;
    for (size_t k = 0; k < p.d.size(); ++k) names += (k ? ", d" : "d") + std::to_string(base + k);
    text.line("    T %s;", names.c_str());
    text.line("    {");
    define_output(text, "cotangent", row, q);
    for (int c = 0; c < 2 * p.l3 + 1; ++c)
      text.line("        const T g%d = active ? o[%d * u.path[%d].stride] : T(0);", c, c, q);
    for (const LinearForm &form : p.d) text.line("        d%d = %s;", base++, text_of_form(form, "g").c_str());
    text.line("    }");
  }
}

// What one edge adds to the gather of its receiver: the reverse edge has the same weight and, for each l2, the same
// harmonics but for their sign (-1)^l2.
void add_reverse_path(Text &text, const PathSchedule &p, int q, int d1) {
  text.line("        {");
  text.line("        const T v = has_reverse ? %s : T(0);", p.l2 % 2 ? "-w" : "w");
  text.line("        {");
  text.line("        const T w = v;");
  load_coupled(text, p);
  define_output(text, "cotangent", "row", q);
  for (int c = 0; c < 2 * p.l3 + 1; ++c) text.line("        const T g%d = o[%d * u.path[%d].stride];", c, c, q);
  add_gathered(text, {"T", device_coupled, {}}, p, d1);
  text.line("        }");
  text.line("        }");
}

// The derivatives by an edge; is_fused: also the gather of the receiver's own row over the reverse edges.
void generate_backward(Text &text, const PathGroupSchedule &u, int number, bool is_fused) {
  const auto run = u.backward_runs[number];
  const std::vector<int> harmonics = u.harmonics(run);
  const int d1 = 2 * u.shape.l1 + 1;
  if (is_fused) {
    text.line("  // The same, and x_adj[m1] += sum_e w sum_m3 M[m1,m3] g[m3] over the reverse edges, %s",
              paths_of(run).c_str());
    text.line("  template <int ROWS, int LANES, class T>");
    text.line(
        "  KOKKOS_FORCEINLINE_FUNCTION static void fused_%d(const DevicePathGroupCall<T> &u, const DeviceAtom &a,",
        number);
    text.line(
        "                                                   int lane, bool active, T *to, bool add, T (&x_sum)[%d]) {",
        d1);
  } else {
    text.line("  // D[m1,m2] = sum_m3 C g[m3] once; per edge h[m2] = sum_m1 x[m1] D[m1,m2], y_adj[m2] += w h[m2],");
    text.line("  // dE/df += w' sum_m2 y[m2] h[m2], %s", paths_of(run).c_str());
    text.line("  template <int ROWS, int LANES, class T>");
    text.line(
        "  KOKKOS_FORCEINLINE_FUNCTION static void backward_%d(const DevicePathGroupCall<T> &u, const DeviceAtom &a,",
        number);
    text.line("                                                      int lane, bool active, T *to, bool add) {");
  }
  define_weights(text);
  define_coupled_cotangents(text, u, run, is_fused ? "u.first_row + a.atom" : "a.atom");
  if (is_fused)
    for (int a = 0; a < d1; ++a) text.line("    T a%d = x_sum[%d];", a, a);
  begin_edges(text);
  if (is_fused) {
    const auto has_forms = [](const PathSchedule &p) { return !p.is_diagonal(); };
    if (std::any_of(u.paths.begin() + run.first, u.paths.begin() + run.last, has_forms)) define_forms(text, u);
    text.line("        const bool has_reverse = edge.other_row < u.num_receivers;");
    text.line("        const int row = has_reverse ? edge.other_row : u.first_row + a.atom;");
  }
  load_sender(text, d1);
  if (!harmonics.empty()) text.line("        const T *y = u.y + static_cast<int64_t>(e) * u.num_y;");
  text.line("        T r = 0;");
  int l2 = 0, base = 0;
  for (int q = run.first; q < run.last; ++q) {
    const PathSchedule &p = u.paths[q];
    if (p.l2 > l2)    // paths are sorted by l2, so that the harmonics of one order need registers at a time
      for (int h : harmonics)
        if (h >= p.l2 * p.l2 && h < (p.l2 + 1) * (p.l2 + 1)) {
          text.line("        const T y%d = y[%d];", h, h);
          text.line("        T b%d = 0;", h);
        }
    l2 = p.l2;
    text.line("        // l2 = %d, l3 = %d", p.l2, p.l3);
    text.line("        {");
    text.line("        T w, dw;");
    text.line("        weight<ROWS>(u, t, %d, %d * ITEM_CHANNELS, ROW, f, w, dw);", q, q);
    if (p.is_diagonal()) text.line("        if (ROWS == 1) dw = w;");
    add_path_backward(text, u, q, base);
    if (is_fused)
      add_reverse_path(text, p, q, d1);
    else if (p.is_diagonal())
      text.line("        (void)w;");
    text.line("        }");
    base += static_cast<int>(p.d.size());
  }
  text.line("        T sums[] = {%s};", list_of("r", ", b%d", harmonics).c_str());
  text.line("        store_lane_sums<LANES>(sums, lane, to + static_cast<int64_t>(e) * %d, add);",
            static_cast<int>(1 + harmonics.size()));
  text.line("    }");
  if (is_fused)
    for (int a = 0; a < d1; ++a) text.line("    x_sum[%d] = a%d;", a, a);
  text.line("  }");
}

// One run after the other in the same lane, so that one sum of each component is left.
void generate_fused(Text &text, const PathGroupSchedule &u) {
  const int d1 = 2 * u.shape.l1 + 1;
  text.line("  template <int ROWS, int LANES, class T>");
  text.line(
      "  KOKKOS_FORCEINLINE_FUNCTION static void fused(const DevicePathGroupCall<T> &u, const DeviceAtom &a, int "
      "lane,");
  text.line("                                                bool active, bool add) {");
  text.line("    T sum[%d] = {};", d1);
  int first = 0;
  for (int g = 0; g < static_cast<int>(u.backward_runs.size()); ++g) {
    const int num = static_cast<int>(1 + u.harmonics(u.backward_runs[g]).size());
    text.line("    fused_%d<ROWS, LANES>(u, a, lane, active, parts_of(u, a, %d, %d), add, sum);", g, first, num);
    first += num;
  }
  text.line("    if (!active) return;");
  text.line("    const auto x_adj = u.input_adjoint(a.atom, a.channel);");
  for (int a = 0; a < d1; ++a) text.line("    put(x_adj, %d * u.x_stride, x_adj[%d * u.x_stride] + sum[%d]);", a, a, a);
  text.line("  }");
}

// ---- uvw paths ----

void begin_uvw_edges(Text &text, const char *channel, const char *output) {
  text.line("    for (int e = a.begin; e < a.end; e++) {");
  text.line("        const auto edge = u.edges[e];");
  text.line("        auto t = uvw_table(u, %s, %s, ROW, edge);", channel, output);

  text.line("        const T f = edge.fraction;");
}

void generate_uvw_forward(Text &text, const PathGroupSchedule &u) {
  const PathSchedule &p = u.paths[0];
  const int d1 = 2 * u.shape.l1 + 1, d3 = 2 * p.l3 + 1;
  text.line("  // out[w,m3] = sum_e sum_u W[u,w] z[u,m3] of channels w .., z[u,m3] = sum_m1 M[m1,m3] x[u,m1]");
  text.line("  template <int ROWS, int LANES, class T>");
  text.line(
      "  KOKKOS_FORCEINLINE_FUNCTION static void forward(int w, const DevicePathGroupCall<T> &u, const DeviceAtom &a,");
  text.line("                                                  int lane) {");
  for (int c = 0; c < d3; ++c) text.line("    T a%d[OUTPUTS] = {};", c);
  text.line("    const int channels = w < u.outputs ? u.channels : 0;");
  text.line("    for (int c = lane; c < channels; c += LANES) {");
  begin_uvw_edges(text, "c", "w");
  define_forms(text, u);
  load_sender(text, d1, "c");
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
    text.line("    store_lane_sums<LANES>(a%d, lane, o + %d * u.path[0].stride, u.add);", c, c);
  text.line("  }");
}

// h[m3] = sum_w W[u,w] g[w,m3] of an edge, and dh[m3] with W'; the cotangents of the atom in row `row`.
void add_outputs(Text &text, int d3, const char *row, bool with_derivative) {
  text.line("        const auto g = u.cotangent(0, %s, 0);", row);
  const bool is_scalar = d3 == 1 && with_derivative;
  if (is_scalar) {
    text.line("        T rows[ROWS] = {};    // the polynomial of the sums over w has fewer products");
  } else {
    for (int c = 0; c < d3; ++c)
      text.line("        T h%d = 0%s;", c, with_derivative ? text_of(", dh%d = 0", c).c_str() : "");
  }
  text.line("        for (int w = 0; w < u.outputs; w += %d, t.row += u.channel_block) {", UVW_BLOCK);
  for (int c = 0; c < d3; ++c)
    text.line("          const Four<T> g%d = load_four(g + %d * u.path[0].stride + w);", c, c);
  text.line("          EQUI_UNROLL for (int k = 0; k < %d; k++) {", UVW_BLOCK);
  if (is_scalar) {
    text.line("            Real<T> c[ROWS];");
    text.line("            t.template load<ROWS>(k * ITEM_CHANNELS, ROW, c);");
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

// to[m2] = sum_m1 x[m1] D[m1,m2] with D of `from`; for l2 = 0 one sum.
void add_couplings(Text &text, const PathSchedule &p, const char *from, const char *d, const char *to) {
  for (size_t k = 0; k < p.d.size(); ++k)
    text.line("        const T %s%d = %s;", d, static_cast<int>(k), text_of_form(p.d[k], from).c_str());
  for (int b = 0; b < 2 * p.l2 + 1; ++b) {
    Sum s("T", to + std::to_string(p.l2 * p.l2 + b));
    for (const auto &n : p.d_entries)
      if (n.m2 == b) s.add(text, n.sign, text_of("x%d * ", n.m1) + d + std::to_string(n.d));
  }
}

void generate_uvw_backward(Text &text, const PathGroupSchedule &u) {
  const PathSchedule &p = u.paths[0];
  const int d1 = 2 * u.shape.l1 + 1;
  text.line("  // Per edge h[m3] = sum_w W[u,w] g[w,m3] and dh[m3] with W'; with D[m1,m2] = sum_m3 C h[m3]");
  text.line("  // y_adj[m2] += sum_m1 x[m1] D[m1,m2], and the same of dh times y[m2] is dE/df.");
  text.line("  template <int ROWS, int LANES, class T>");
  text.line(
      "  KOKKOS_FORCEINLINE_FUNCTION static void backward(int, const DevicePathGroupCall<T> &u, const DeviceAtom &a,");
  text.line("                                                   int lane, bool active, T *to, bool add) {");
  begin_uvw_edges(text, "a.channel", "0");
  add_outputs(text, 2 * p.l3 + 1, "a.atom", true);
  text.line("        const auto x = u.input(edge.other_row, a.channel);");
  for (int a = 0; a < d1; ++a) text.line("        const T x%d = active ? x[%d * u.x_stride] : T(0);", a, a);
  const std::vector<int> harmonics = u.harmonics(u.whole());
  if (!harmonics.empty()) add_couplings(text, p, "h", "d", "b");
  add_couplings(text, p, "dh", "dd", "s");
  if (harmonics.empty()) {
    text.line("        const T r = s0;");
  } else {
    text.line("        const T *y = u.y + static_cast<int64_t>(e) * u.num_y;");
    Sum r("T", "r");
    for (int h : harmonics) r.add(text, 1, text_of("y[%d] * s%d", h, h));
  }
  text.line("        const T sums[] = {%s};", list_of("r", ", b%d", harmonics).c_str());
  text.line("        store_lane_sums<LANES>(sums, lane, to + static_cast<int64_t>(e) * %d, add);",
            static_cast<int>(1 + harmonics.size()));
  text.close(4, 2);
}

void generate_uvw_gather(Text &text, const PathGroupSchedule &u) {
  const PathSchedule &p = u.paths[0];
  const int d1 = 2 * u.shape.l1 + 1;
  text.line(
      "  // x_adj[m1] += sum_e sum_m3 M[m1,m3] h[m3], h[m3] = sum_w W[u,w] g[w,m3], over the receivers that a sender");
  text.line("  // reaches");
  text.line("  template <int ROWS, class T>");
  text.line("  KOKKOS_FORCEINLINE_FUNCTION static void gather(const DevicePathGroupCall<T> &u, const DeviceAtom &a) {");
  for (int a = 0; a < d1; ++a) text.line("    T a%d = 0;", a);
  begin_uvw_edges(text, "a.channel", "0");
  add_outputs(text, 2 * p.l3 + 1, "edge.other_row", false);
  define_forms(text, u);
  load_coupled(text, p);
  add_coupled(text, {"T", device_coupled, {}}, p, 'a');
  text.line("    }");
  store_x_adj(text, d1);
  text.line("  }");
}

// ---- the text of a path group ----

// A function of the number of a run.
void choose(Text &text, const char *name, const std::vector<int> &values) {
  std::string value = std::to_string(values.back());
  for (size_t k = values.size() - 1; k-- > 0;)
    value = "run == " + std::to_string(k) + " ? " + std::to_string(values[k]) + " : " + value;
  text.line("  KOKKOS_FORCEINLINE_FUNCTION int %s(int%s) const { return %s; }", name, values.size() > 1 ? " run" : "",
            value.c_str());
}

// The function of a run, chosen by its number.
void dispatch(Text &text, const char *name, int num_runs, const char *sizes, const char *size_arguments,
              const char *parameters, const char *arguments) {
  text.line("  template <%s, class T>", sizes);
  text.line(
      "  KOKKOS_FORCEINLINE_FUNCTION void %s(int run, const DevicePathGroupCall<T> &u, const DeviceAtom &a%s) const {",
      name, parameters);
  for (int g = 0; g + 1 < num_runs; ++g)
    text.line("    if (run == %d) return %s_%d<%s>(u, a%s);", g, name, g, size_arguments, arguments);
  if (num_runs == 1) text.line("    (void)run;");
  text.line("    %s_%d<%s>(u, a%s);", name, num_runs - 1, size_arguments, arguments);
  text.line("  }");
}

std::string body_of(const std::string &key, bool of_duals) {
  return (of_duals ? "DualBody_" : "Body_") + key;
}

void generate_body(Text &text, const PathGroupSchedule &u, bool of_duals, bool of_edges) {
  const std::string key = u.shape.key();
  const bool is_uvw = u.shape.is_uvw();
  const int num_forward = static_cast<int>(u.forward_runs.size()),
            num_backward = static_cast<int>(u.backward_runs.size());
  std::vector<int> num_sums, first_sum;
  std::string sums, counts;
  int total = 0;
  for (const auto &run : u.backward_runs) {
    const std::vector<int> harmonics = u.harmonics(run);
    first_sum.push_back(total);
    num_sums.push_back(static_cast<int>(1 + harmonics.size()));
    total += num_sums.back();
    sums += list_of(sums.empty() ? "0" : ", 0", ", %d", harmonics);
    counts += text_of(counts.empty() ? "%d" : ", %d", num_sums.back());
  }

  text.line("struct %s {", body_of(key, of_duals).c_str());
  text.line("  static constexpr int ROW = %d * ITEM_CHANNELS;    // numbers of a table row per channel block",
            static_cast<int>(is_uvw ? UVW_BLOCK : u.paths.size()));
  text.line("  static constexpr const char *KEY = \"%s\";", key.c_str());
  text.line("  static constexpr int NUM_BACKWARD_RUNS = %d;", num_backward);
  text.line("  static constexpr bool IS_UVW = %s;", is_uvw ? "true" : "false");
  if (is_uvw) text.line("  static constexpr int OUTPUTS = %d;    // that forward takes at once", u.forward_outputs);
  text.line("  static constexpr int NUM_SUMS[] = {%s};", counts.c_str());
  text.line("  static constexpr int SUMS[] = {%s};", sums.c_str());
  if (!is_uvw) text.line("  int num_forward_runs() const { return %d; }", num_forward);
  text.line("  int num_backward_runs() const { return %d; }", num_backward);
  choose(text, "num_sums", num_sums);
  choose(text, "first_sum", first_sum);
  if (is_uvw) {
    generate_uvw_forward(text, u);
    generate_uvw_backward(text, u);
    generate_uvw_gather(text, u);
  } else {
    for (int g = 0; g < num_forward; ++g) generate_forward(text, u, g);
    dispatch(text, "forward", num_forward, "int ROWS", "ROWS", "", "");
    for (int g = 0; g < num_backward; ++g) generate_backward(text, u, g, false);
    dispatch(text, "backward", num_backward, "int ROWS, int LANES", "ROWS, LANES",
             ", int lane, bool active, T *to, bool add", ", lane, active, to, add");
    generate_gather(text, u);
    if (!of_edges) {
      for (int g = 0; g < num_backward; ++g) generate_backward(text, u, g, true);
      generate_fused(text, u);
    }
  }
  text.line("};");
}

// The path groups of a launch, as its namespace and the lists have it.
std::string joined(const std::vector<std::string> &keys, const char *between) {
  std::string all;
  for (const std::string &key : keys) all += (all.empty() ? "" : between) + key;
  return all;
}

bool same_runs(const PathGroupSchedule &a, const PathGroupSchedule &b) {
  const auto same = [](const auto &x, const auto &y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const auto &r, const auto &s) { return r.first == s.first && r.last == s.last; });
  };
  return same(a.forward_runs, b.forward_runs) && same(a.backward_runs, b.backward_runs) &&
         a.forward_outputs == b.forward_outputs;
}

// The kernels that take these path groups in one launch.
void generate_launch(Text &text, const std::vector<PathGroupShape> &path_groups, const KernelTarget &target,
                     bool of_edges) {
  const char *kind = of_edges ? "edge_path_groups" : "path_groups";
  const int num_types = of_edges ? NUM_PLAIN_TYPES : NUM_TYPES;
  std::vector<std::string> keys, bodies, dual_bodies;
  Text structs;
  for (const PathGroupShape &shape : path_groups) {
    const std::string key = shape.key();
    const PathGroupSchedule plain = make_path_group_schedule(shape, target),
                            dual = make_path_group_schedule(shape, target, true);
    const bool has_own = !of_edges && !same_runs(plain, dual);
    text.line("static_assert(%d <= MAX_CALL_PATHS, \"a path group with too many paths\");",
              static_cast<int>(plain.paths.size()));
    keys.push_back(key);
    bodies.push_back(body_of(key, false));
    dual_bodies.push_back(body_of(key, has_own));
    generate_body(structs, plain, false, of_edges);
    if (has_own) generate_body(structs, dual, true, of_edges);
  }
  const std::string name = joined(keys, "__");
  text.line("namespace device_%s_%s {", kind, name.c_str());
  text.line("namespace {");
  text.add(structs.str());
  text.line("}    // namespace");
  const char *kernel = of_edges ? "DeviceEdgeKernel" : "DevicePathGroupKernel";
  for (int k = 0; k < num_types; ++k) {
    const auto &[type, type_name] = NUMBER_TYPES[k];
    text.line("extern const %s<%s> %s_KERNEL;", kernel, type, type_name);
    text.line("const %s<%s> %s_KERNEL = DeviceKernelOf<%s, %s>::%s();", kernel, type, type_name, type,
              joined(k < NUM_PLAIN_TYPES ? bodies : dual_bodies, ", ").c_str(), of_edges ? "edge_kernel" : "kernel");
  }
  text.line("}    // namespace device_%s_%s", kind, name.c_str());
}

void begin_file(Text &text, const KernelTarget &target, const std::vector<const char *> &headers) {
  text.line("// Made by equi_generate from a kernel schedule (src/generator/kernel_schedule.h) for %s. Do not edit.",
            target.name);
  for (const char *header : headers) text.line("#include \"%s\"", header);
  text.line("namespace equi {");
}

// All kernels of other sources, which there are of the first types.
void list_launches(Text &text, const char *kind, const char *kernel, const char *list,
                   const std::vector<std::vector<std::string>> &launches, int num_types) {
  for (int k = 0; k < NUM_TYPES; ++k) {
    const auto &[type, name] = NUMBER_TYPES[k];
    std::vector<std::string> spaces;
    for (const auto &keys : launches)
      if (k < num_types) spaces.push_back(text_from("device_%s_", kind) + joined(keys, "__"));
    for (const std::string &space : spaces)
      text.line("namespace %s { extern const %s<%s> %s_KERNEL; }", space.c_str(), kernel, type, name);
    text.line("template <>");
    text.line("std::vector<const %s<%s> *> %s<%s>() {", kernel, type, list, type);
    text.line("  return {");
    for (const std::string &space : spaces) text.line("      &%s::%s_KERNEL,", space.c_str(), name);
    text.line("  };");
    text.line("}");
  }
}

// find(key) for the kernels of other sources, which there are of the first types.
void list_kernels(Text &text, const char *kind, const char *kernel, const char *find,
                  const std::vector<std::string> &keys, int num_types) {
  for (int k = 0; k < NUM_TYPES; ++k) {
    const auto &[type, name] = NUMBER_TYPES[k];
    const std::vector<std::string> of_type = k < num_types ? keys : std::vector<std::string>();
    for (const std::string &key : of_type)
      text.line("namespace device_%s_%s { extern const %s<%s> %s_KERNEL; }", kind, key.c_str(), kernel, type, name);
    text.line("template <>");
    text.line("const %s<%s> *%s<%s>(const std::string &%s) {", kernel, type, find, type, of_type.empty() ? "" : "key");
    for (const std::string &key : of_type)
      text.line("  if (key == \"%s\") return &device_%s_%s::%s_KERNEL;", key.c_str(), kind, key.c_str(), name);
    text.line("  return nullptr;");
    text.line("}");
  }
}

}    // namespace

std::string generate_device_path_groups(const std::vector<std::vector<PathGroupShape>> &launches,
                                        const KernelTarget &target, bool of_edges) {
  Text text;
  begin_file(text, target, {"kokkos/device_kernels/device_path_group_impl.h"});
  for (const auto &path_groups : launches) generate_launch(text, path_groups, target, of_edges);
  text.line("}    // namespace equi");
  return text.str();
}

std::string generate_device_contractions(const std::vector<ContractionSchedule> &contractions,
                                         const KernelTarget &target) {
  Text text;
  begin_file(text, target, {"kokkos/device_kernels/device_contraction_impl.h"});
  for (const ContractionSchedule &c : contractions) {
    text.line("static_assert(%d <= MAX_CONTRACTION_BLOCKS, \"a contraction with too many blocks\");",
              static_cast<int>(std::max(c.in_l.size(), c.out_l.size())));
    generate_contraction_namespace(text, c, true);
  }
  text.line("}    // namespace equi");
  return text.str();
}

std::string generate_device_list(const KernelNames &names, const KernelTarget &target) {
  Text text;
  begin_file(text, target,
             {"kokkos/kernel_interface/device_contraction_kernel.h", "kokkos/kernel_interface/device_path_group.h"});
  std::vector<std::vector<std::string>> launches = names.device_launches;
  for (const std::string &key : names.uvw) launches.push_back({key});
  list_launches(text, "path_groups", "DevicePathGroupKernel", "device_kernels", launches, NUM_TYPES);
  list_kernels(text, "contraction", "DeviceContractionKernel", "find_device_contraction", names.contractions,
               NUM_PLAIN_TYPES);
  text.line("}    // namespace equi");
  return text.str();
}

std::string generate_device_edge_list(const KernelNames &names, const KernelTarget &target) {
  Text text;
  begin_file(text, target, {"kokkos/kernel_interface/device_path_group.h"});
  list_launches(text, "edge_path_groups", "DeviceEdgeKernel", "device_edge_kernels", names.device_launches,
                NUM_PLAIN_TYPES);
  text.line("}    // namespace equi");
  return text.str();
}

}    // namespace equi
