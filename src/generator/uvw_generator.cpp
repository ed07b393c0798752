// SPDX-License-Identifier: MIT
// Writes the host kernels of uvw paths.
#include "src/generator/uvw_generator.h"

#include "src/generator/path_text.h"

#include <string>

namespace equi {

namespace {

using Text = GeneratedText;
const Dialect DIALECT = {"V", host_coupled, {}};

// "a0, a1, ...", made with the format of one name.
std::string names(const char *format, int count) {
  std::string list;
  for (int k = 0; k < count; ++k) list += (k ? ", " : "") + text_of(format, k);
  return list;
}

// A loop over all edges with the coupled harmonics m of each, atom by atom; `begin` and `end` run for each atom.
template <class B, class E, class F>
void for_edges_with_coupled(Text &text, const B &begin, const E &end, const F &edge) {
  text.line("  const T *block = u.coupled;");
  text.line("  int64_t e = 0;");
  text.line("  for (int a = 0; a < u.num_atoms; a++) {");
  text.line("    const int count = u.edge_begin[a + 1] - u.edge_begin[a];");
  begin();
  text.line("    for (int k = 0; k < count; k++, e++) {");
  text.line("        const T *m = block + k / EDGE_BLOCK * EDGE_BLOCK * NUM_COUPLED + k %% EDGE_BLOCK;");
  edge();
  text.line("    }");
  text.line("    block += (count + EDGE_BLOCK - 1) / EDGE_BLOCK * EDGE_BLOCK * NUM_COUPLED;");
  end();
  text.line("  }");
}

void load_components(Text &text, char name, const char *from, int count) {
  for (int k = 0; k < count; ++k)
    text.line("        const V %c%d = load(%s + (e * %d + %d) * LANES<T>);", name, k, from, count, k);
}

void load_uvw_sender(Text &text, int d1) {
  text.line("        const T *x = u.x + u.x_row[e] * u.x_width + c;");
  for (int a = 0; a < d1; ++a) text.line("        const V x%d = load(x + %d * u.x_stride);", a, a);
}

void generate_z(Text &text, const PathSchedule &p, int d1) {
  const int d3 = 2 * p.l3 + 1;
  text.line("// z[m3] = sum_m1 M[m1,m3] x[m1] of channels c .., [edge][m3] in the scratch");
  text.line("template <class T>");
  text.line("void make_z(const UvwCall<T> &u, int c) {");
  text.line("  using V = Simd<T>;");
  const auto nothing = [] {};
  for_edges_with_coupled(text, nothing, nothing, [&] {
    load_uvw_sender(text, d1);
    if (p.is_diagonal()) text.line("        (void)m;");
    generate_coupled(text, DIALECT, p,
                     [&](int c) { text.line("        store(u.scratch + (e * %d + %d) * LANES<T>, z%d);", d3, c, c); });
  });
  text.close(0);
}

// The loops over the channels of the output, `outputs` at a time.
void begin_outputs(Text &text, int outputs) {
  text.line("    for (int w = 0; w < u.outputs; w += %d) {", outputs);
  text.line(
      "      const T *table = u.table + (static_cast<int64_t>(c / CHANNEL_PAD) * (u.outputs / %d) + w / %d) * "
      "u.channel_block + "
      "c %% CHANNEL_PAD + w %% %d * CHANNEL_PAD;",
      UVW_BLOCK, UVW_BLOCK, UVW_BLOCK);
}

void begin_edge(Text &text) {
  text.line("        const auto t = bin_at<ROWS>(table + static_cast<int64_t>(u.table_row[e]) * ROW, c);");
  text.line("        const V f = V{} + u.fraction[e];");
}

void generate_host_uvw_forward(Text &text, const PathGroupSchedule &u) {
  const int d3 = 2 * u.paths[0].l3 + 1, outputs = u.forward_outputs;
  text.line("// out[w,m3] += sum_e sum_u W[u,w] z[u,m3]");
  text.line("template <class T, int ROWS>");
  text.line("void forward(const UvwCall<T> &u) {");
  text.line("  using V = Simd<T>;");
  text.line("  for (int c = 0; c < u.channels; c += LANES<T>) {");
  text.line("    make_z(u, c);");
  begin_outputs(text, outputs);
  text.line("      int64_t e = 0;");
  text.line("      for (int a = 0; a < u.num_atoms; a++) {");
  text.line("      const int64_t end = u.edge_begin[a + 1] - u.edge_begin[0];");
  for (int k = 0; k < outputs * d3; ++k) text.line("      V a%d = V{};", k);
  text.line("      for (; e < end; e++) {");
  begin_edge(text);
  load_components(text, 'z', "u.scratch", d3);
  for (int k = 0; k < outputs; ++k) {
    text.line("        const V w%d = polynomial<ROWS, ROW>(t + %d, f);", k, CHANNEL_PAD * k);
    for (int c = 0; c < d3; ++c) text.line("        a%d += w%d * z%d;", k * d3 + c, k, c);
  }
  text.line("      }");
  text.line("      const V lanes[] = {%s};", names("a%d", outputs * d3).c_str());
  text.line("      T sums[%d] = {};", outputs * d3);
  text.line("      add_sums_of_lanes<T, %s>(lanes, sums);", names("%d", outputs * d3).c_str());
  text.line("      T *o = u.out + a * u.out_width + w;");
  for (int c = 0; c < d3; ++c)
    for (int k = 0; k < outputs; ++k) text.line("      o[%d * u.out_stride + %d] += sums[%d];", c, k, k * d3 + c);
  text.line("      }");
  text.close(4);
}

// h += sum_w W g and r += sum_w W' g z of one edge; the cotangents g are in registers.
void add_outputs(Text &text, int d3, int outputs) {
  if (d3 == 1) {
    // With the polynomial of the sums over w, its derivative needs one product per row less.
    std::string sum;
    for (int k = 0; k < outputs; ++k)
      sum += (k ? " + " : "") + text_of("g%d * coefficient(t + %d, ROW, k)", k, CHANNEL_PAD * k);
    text.line("        const auto row = [&](int k) { return %s; };", sum.c_str());
    text.line("        constexpr int COEFFICIENTS = coefficients_in<T>(ROWS);");
    text.line("        V dw = row(COEFFICIENTS - 1), w0 = dw * f + row(COEFFICIENTS - 2);");
    text.line("        EQUI_UNROLL_SIMD");
    text.line("        for (int k = COEFFICIENTS - 3; k >= 0; k--) {");
    text.line("          dw = dw * f + w0;");
    text.line("          w0 = w0 * f + row(k);");
    text.line("        }");
    text.line("        h0 += w0;");
    text.line("        r += dw * z0;");
    return;
  }
  for (int k = 0; k < outputs; ++k) {
    text.line("        {");
    text.line("        V w, dw;");
    text.line("        polynomial<ROWS, ROW>(t + %d, f, w, dw);", CHANNEL_PAD * k);
    std::string dot;
    for (int c = 0; c < d3; ++c) {
      text.line("        h%d += w * g%d;", c, k * d3 + c);
      dot += (c ? " + " : "") + text_of("z%d * g%d", c, k * d3 + c);
    }
    text.line("        r += dw * (%s);", dot.c_str());
    text.line("        }");
  }
}

// Computes the adjoints of x and y from h and r of each edge.
void apply(Text &text, const PathGroupSchedule &u) {
  const PathSchedule &p = u.paths[0];
  const int d1 = 2 * u.shape.l1 + 1, d3 = 2 * p.l3 + 1, y0 = p.l2 * p.l2;
  const std::vector<int> harmonics = u.harmonics(u.whole());
  text.line("    for (int64_t e = 0; e < edges; e++) {");
  load_components(text, 'h', "h", d3);
  if (!p.is_diagonal()) {
    load_uvw_sender(text, d1);
    text.line("        const T *y = u.y + e * u.num_y;");
  }
  for (int a = 0; a < d1; ++a) text.line("        V p%d = V{};", a);
  for (int k : harmonics) text.line("        V b%d = V{};", k);
  for (size_t k = 0; k < p.d.size(); ++k)
    text.line("        const V d%d = %s;", static_cast<int>(k), text_of_form(p.d[k], "h").c_str());
  for (const auto &n : p.d_entries) {
    const char *op = add_with(n.sign);
    if (p.is_diagonal()) {
      text.line("        p%d %s d%d;", n.m1, op, n.d);
    } else {
      text.line("        p%d %s y[%d] * d%d;", n.m1, op, y0 + n.m2, n.d);
      text.line("        b%d %s x%d * d%d;", y0 + n.m2, op, n.m1, n.d);
    }
  }
  text.line("        if (u.x_adj) {");
  text.line("          T *x_adj = u.x_adj + u.x_adj_row[e] * u.x_width + c;");
  for (int a = 0; a < d1; ++a) text.line("          add_to(x_adj + %d * u.x_stride, p%d);", a, a);
  text.line("        }");
  text.line("        const V sums[] = {%s};", list_of("load(r_of + e * LANES<T>)", ", b%d", harmonics).c_str());
  text.line("        add_sums_of_lanes<T, %s>(sums, u.y_adj + e * u.num_y);", list_of("0", ", %d", harmonics).c_str());
  text.line("    }");
}

void generate_host_uvw_backward(Text &text, const PathGroupSchedule &u) {
  const int d3 = 2 * u.paths[0].l3 + 1, outputs = u.backward_outputs;
  text.line(
      "// h[u,m3] = sum_w W[u,w] g[w,m3], dE/df = sum W'[u,w] z[u,m3] g[w,m3]; x_adj[m1] += sum_m2 y[m2] D[m1,m2]");
  text.line("// and y_adj[m2] += sum_m1 x[m1] D[m1,m2] with D[m1,m2] = sum_m3 C h[m3], all per edge.");
  text.line("template <class T, int ROWS>");
  text.line("void backward(const UvwCall<T> &u) {");
  text.line("  using V = Simd<T>;");
  text.line("  const int64_t edges = u.edge_begin[u.num_atoms] - u.edge_begin[0];");
  text.line("  T *const h = u.scratch + edges * %d * LANES<T>, *const r_of = h + edges * %d * LANES<T>;", d3, d3);
  text.line("  for (int c = 0; c < u.channels; c += LANES<T>) {");
  text.line("    make_z(u, c);");
  text.line("    for (int64_t k = 0; k < edges * %d; k++) store(h + k * LANES<T>, V{});", d3 + 1);
  begin_outputs(text, outputs);
  text.line("      int64_t e = 0;");
  text.line("      for (int a = 0; a < u.num_atoms; a++) {");
  text.line("      const int64_t end = u.edge_begin[a + 1] - u.edge_begin[0];");
  text.line("      const T *g = u.out + a * u.out_width + w;");
  for (int k = 0; k < outputs; ++k)
    for (int c = 0; c < d3; ++c) text.line("      const V g%d = V{} + g[%d * u.out_stride + %d];", k * d3 + c, c, k);
  text.line("      for (; e < end; e++) {");
  begin_edge(text);
  load_components(text, 'z', "u.scratch", d3);
  for (int c = 0; c < d3; ++c) text.line("        V h%d = load(h + (e * %d + %d) * LANES<T>);", c, d3, c);
  text.line("        V r = load(r_of + e * LANES<T>);");
  add_outputs(text, d3, outputs);
  for (int c = 0; c < d3; ++c) text.line("        store(h + (e * %d + %d) * LANES<T>, h%d);", d3, c, c);
  text.line("        store(r_of + e * LANES<T>, r);");
  text.line("      }");
  text.close(6, 4);
  apply(text, u);
  text.close(2);
}

void generate_host_uvw_gather(Text &text, const PathGroupSchedule &u) {
  const PathSchedule &p = u.paths[0];
  const int d1 = 2 * u.shape.l1 + 1, d3 = 2 * p.l3 + 1, outputs = u.backward_outputs;
  text.line("// x_adj[m1] += sum_e sum_m3 M[m1,m3] h[m3] of channels c ..");
  text.line("template <class T>");
  text.line("void add_h(const UvwCall<T> &u, int c) {");
  text.line("  using V = Simd<T>;");
  for_edges_with_coupled(
      text,
      [&] {
        for (int a = 0; a < d1; ++a) text.line("    V p%d = V{};", a);
      },
      [&] {
        text.line("    T *x_adj = u.x_adj + a * u.x_width + c;");
        for (int a = 0; a < d1; ++a) text.line("    add_to(x_adj + %d * u.x_stride, p%d);", a, a);
      },
      [&] {
        load_components(text, 'h', "u.scratch", d3);
        if (p.is_diagonal()) text.line("        (void)m;");
        add_coupled(text, DIALECT, p, 'p');
      });
  text.close(0);
  text.line("// The same h over the receivers that a sender reaches.");
  text.line("template <class T, int ROWS>");
  text.line("void gather(const UvwCall<T> &u) {");
  text.line("  using V = Simd<T>;");
  text.line("  const int64_t edges = u.edge_begin[u.num_atoms] - u.edge_begin[0];");
  text.line("  for (int c = 0; c < u.channels; c += LANES<T>) {");
  text.line("    for (int64_t k = 0; k < edges * %d; k++) store(u.scratch + k * LANES<T>, V{});", d3);
  begin_outputs(text, outputs);
  text.line("      for (int64_t e = 0; e < edges; e++) {");
  begin_edge(text);
  text.line("        const T *g = u.out + u.x_row[e] * u.out_width + w;");
  for (int c = 0; c < d3; ++c) text.line("        V h%d = load(u.scratch + (e * %d + %d) * LANES<T>);", c, d3, c);
  for (int k = 0; k < outputs; ++k) {
    text.line("        const V w%d = polynomial<ROWS, ROW>(t + %d, f);", k, CHANNEL_PAD * k);
    for (int c = 0; c < d3; ++c) text.line("        h%d += w%d * g[%d * u.out_stride + %d];", c, k, c, k);
  }
  for (int c = 0; c < d3; ++c) text.line("        store(u.scratch + (e * %d + %d) * LANES<T>, h%d);", d3, c, c);
  text.close(6, 4);
  text.line("    add_h(u, c);");
  text.close(2);
}

}    // namespace

void generate_uvw_functions(GeneratedText &text, const PathGroupSchedule &u) {
  generate_z(text, u.paths[0], 2 * u.shape.l1 + 1);
  generate_host_uvw_forward(text, u);
  generate_host_uvw_backward(text, u);
  generate_host_uvw_gather(text, u);
}

}    // namespace equi
