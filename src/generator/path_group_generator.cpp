// SPDX-License-Identifier: MIT
// Writes the host kernels of path groups of uvu paths.
#include "src/generator/path_group_generator.h"

#include "src/generator/path_text.h"

#include <string>
#include <vector>

namespace equi {

namespace {

using Text = GeneratedText;
using Sum = GeneratedSum;

void begin_function(Text &text, const char *name, const char *number) {
  text.line("template <class T, int ROWS>");
  text.line("void %s(const PathGroupCall<%s> &u) {", name, number);
  text.line("  using V = Simd<T>;");
}

// The loops over channels and blocks of edges that forward and gather share. The registers of one line of the caches
// take a block of edges one after another, so that this line of each table row is still in the first-level cache.
void begin_blocks(Text &text) {
  text.line("  for (int line = 0; line < u.channels; line += LINE<T>) {");
  text.line("    for (int begin = 0; begin < u.count; begin += EDGE_BLOCK) {");
  text.line("      const int end = begin + EDGE_BLOCK < u.count ? begin + EDGE_BLOCK : u.count;");
  text.line("      for (int c = line; c < line + LINE<T>; c += LANES<T>) {");
}

// The radial rows of edge e, and its fraction.
void generate_radial_row(Text &text, const char *fraction = "u.fraction[e]") {
  text.line("        const auto t = radial_row<ROWS, ROW>(u, e, c);");
  text.line("        const V f = V{} + %s;", fraction);
}

// The loop over the edges of a block, with accumulators a0, a1, ...
void begin_sweep(Text &text, int num_accumulators) {
  begin_blocks(text);
  text.line("      auto m = u.coupled + begin * NUM_COUPLED;");
  for (int k = 0; k < num_accumulators; ++k) text.line("      V a%d = V{};", k);
  text.line("      for (int e = begin; e < end; e++, ++m) {");
  generate_radial_row(text);
}

std::string weight_of(const PathSchedule &p, int q) {
  return text_of(p.is_diagonal() ? "scalar_weight<ROWS, ROW>(u, t, %d, f)" : "radial_weight<ROWS, ROW>(u, t, %d, f)",
                 q);
}

// Products for which `load` writes the loads of weights and other operands.
template <class F>
void add_products(Text &text, const PathGroupSchedule &u, const PathGroupSchedule::Run &run, bool is_gather,
                  const F &load) {
  generate_products(text, {"V", host_coupled, load}, u, run, is_gather);
}

// Forward for the channels at xe, with the weights that weight(p, q) returns.
template <class F>
void add_forward_products(Text &text, const PathGroupSchedule &u, const PathGroupSchedule::Run &run, const F &weight) {
  for (int a = 0; a < 2 * u.shape.l1 + 1; ++a)
    text.line("        const V x%d = in_register(load(xe + %d * u.x_stride));", a, a);
  add_products(text, u, run, false,
               [&](const PathSchedule &p, int q) { text.line("        const V w = %s;", weight(p, q).c_str()); });
}

// The sums of a block: the first block of an atom stores them, and the others add them. out: address of path %d.
void generate_store_sums(Text &text, const PathGroupSchedule &u, const PathGroupSchedule::Run &run, const char *out) {
  for (const bool first_block : {true, false}) {
    text.line(first_block ? "      if (begin == 0) {" : "      } else {");
    int base = 0;
    for (int q = run.first; q < run.last; ++q)
      for (int c = 0; c < 2 * u.paths[q].l3 + 1; ++c, ++base)
        text.line("        %s(%s + %d * u.out_stride[%d] + c, a%d);", first_block ? "store" : "add_to",
                  text_of(out, q).c_str(), c, q, base);
  }
  text.line("      }");
}

// Stores zeros in all components of the outputs of an atom without edges.
void generate_store_zeros(Text &text, const PathGroupSchedule &u, const char *out) {
  text.line("      for (int c = 0; c < u.channels; c += LANES<T>) {");
  for (int q = 0; q < static_cast<int>(u.paths.size()); ++q)
    for (int c = 0; c < 2 * u.paths[q].l3 + 1; ++c)
      text.line("        store(%s + %d * u.out_stride[%d] + c, V{});", text_of(out, q).c_str(), c, q);
  text.line("      }");
}

void generate_forward(Text &text, const PathGroupSchedule &u) {
  text.line("// out[m3] = sum_e w sum_m1 M[m1,m3] x[m1]");
  begin_function(text, "forward", "T");
  text.line("  if (u.count == 0)");
  generate_store_zeros(text, u, "u.out[%d]");
  for (const auto &run : u.forward_runs) {
    begin_sweep(text, num_components(u, run));
    text.line("        const auto xe = u.x + u.x_row[e] * u.x_width + c;");
    add_forward_products(text, u, run, weight_of);
    text.line("      }");
    generate_store_sums(text, u, run, "u.out[%d]");
    text.close(6, 2);
  }
  text.close(0);
}

// The radial weights of a run's paths, edge by edge, which all planes of a block share. With their derivatives by the
// fraction these are two numbers per path.
void generate_block_weights(Text &text, const PathGroupSchedule &u, const PathGroupSchedule::Run &run,
                            bool has_derivatives) {
  const int num_paths = run.last - run.first, per_edge = (has_derivatives ? 2 : 1) * num_paths;
  text.line("      V weights[EDGE_BLOCK * %d];", per_edge);
  text.line("      for (int e = begin; e < end; e++) {");
  generate_radial_row(text, "u.fraction[e].value");
  text.line("        V *of_edge = weights + (e - begin) * %d;", per_edge);
  for (int q = run.first; q < run.last; ++q) {
    const int n = q - run.first;
    if (has_derivatives)
      text.line("        radial_weight<ROWS, ROW>(u, t, %d, f, of_edge[%d], of_edge[%d]);", q, 2 * n, 2 * n + 1);
    else
      text.line("        of_edge[%d] = %s;", n, weight_of(u.paths[q], q).c_str());
  }
  text.line("      }");
}

// The loop over the edges of a block with the weights above, only w, for one plane x of the features.
void begin_plane_sweep(Text &text, const PathGroupSchedule &u, const PathGroupSchedule::Run &run, const char *x,
                       bool has_derivatives) {
  const int num_components_of_run = num_components(u, run);
  text.line("      const T *m = u.coupled.value + begin * NUM_COUPLED, *x = %s;", x);
  for (int k = 0; k < num_components_of_run; ++k) text.line("      V a%d = V{};", k);
  text.line("      for (int e = begin; e < end; e++, ++m) {");
  text.line("        const T *xe = x + u.x_row[e] * u.x_width + c;");
  text.line("        const V *of_edge = weights + (e - begin) * %d;",
            (has_derivatives ? 2 : 1) * (run.last - run.first));
}

// One plane of `out` from the same plane x of the features, for rigid edges.
void generate_plane(Text &text, const PathGroupSchedule &u, const PathGroupSchedule::Run &run, const char *x,
                    const char *out, bool has_derivatives) {
  begin_plane_sweep(text, u, run, x, has_derivatives);
  add_forward_products(text, u, run, [&](const PathSchedule &, int q) {
    return text_of("of_edge[%d]", (has_derivatives ? 2 : 1) * (q - run.first));
  });
  text.line("      }");
  generate_store_sums(text, u, run, out);
}

void generate_rigid_forward(Text &text, const PathGroupSchedule &u) {
  text.line("// The tangents of out where no edge moves: out' = sum_e w sum_m1 M[m1,m3] x'[m1]");
  begin_function(text, "rigid_forward", "Dual<T>");
  text.line("  if (u.count == 0)");
  text.line("    for (int k = 0; k < u.directions; k++) {");
  generate_store_zeros(text, u, "tangents(u.out[%d], k)");
  text.line("    }");
  for (const auto &run : u.forward_runs) {
    begin_blocks(text);
    generate_block_weights(text, u, run, false);
    text.line("      for (int k = 0; k < u.directions; k++) {");
    generate_plane(text, u, run, "tangents(u.x, k)", "tangents(u.out[%d], k)", false);
    text.close(8, 2);
  }
  text.close(0);
}

// The tangents of a path for moving edges; primes mark tangents. a'[m3] += sum_m1 M s[m1] + M' t[m1] with s = w x' + w'
// x and t = w x. If it needs fewer products, it is w (sum_m1 M x' + M' x) + w' sum_m1 M x. In the text p is x' and h is
// M'.
void generate_moving_products(Text &text, const PathSchedule &p, int d1, int base) {
  const int d3 = 2 * p.l3 + 1, num_m = static_cast<int>(p.m.size());
  if (p.is_diagonal()) {
    for (int k = 0; k < d1; ++k) text.line("        a%d += w * p%d + dw * x%d;", base + k, k, k);
  } else if (num_m + 2 * d3 < 3 * d1) {
    for (int k = 0; k < d3; ++k) {
      Sum s("V", text_of("s%d", k)), z("V", text_of("z%d", k));
      for (const auto &n : p.m) {
        if (n.m3 != k) continue;
        z.add(text, n.sign, text_of("m[%d] * x%d", EDGE_BLOCK * n.coupled, n.m1));
        s.add(text, n.sign, text_of("m[%d] * p%d", EDGE_BLOCK * n.coupled, n.m1));
        s.add(text, n.sign, text_of("h[%d] * x%d", EDGE_BLOCK * n.coupled, n.m1));
      }
      text.line("        a%d += w * s%d + dw * z%d;", base + k, k, k);
    }
  } else {
    for (int k = 0; k < d1; ++k) {
      text.line("        const V s%d = w * p%d + dw * x%d, t%d = w * x%d;", k, k, k, k, k);
      for (const auto &n : p.m) {
        if (n.m1 != k) continue;
        text.line("        a%d %s m[%d] * s%d;", base + n.m3, add_with(n.sign), EDGE_BLOCK * n.coupled, k);
        text.line("        a%d %s h[%d] * t%d;", base + n.m3, add_with(n.sign), EDGE_BLOCK * n.coupled, k);
      }
    }
  }
}

void generate_moving_forward(Text &text, const PathGroupSchedule &u) {
  text.line("// out, and its tangents in all directions: out' = sum_e sum_m1 w M x' + w M' x + w' M x");
  begin_function(text, "moving_forward", "Dual<T>");
  text.line("  if (u.count == 0) {");
  generate_store_zeros(text, u, "u.out[%d].value");
  text.line("    for (int k = 0; k < u.directions; k++) {");
  generate_store_zeros(text, u, "tangents(u.out[%d], k)");
  text.close(4, 2);
  for (const auto &run : u.forward_runs) {
    begin_blocks(text);
    generate_block_weights(text, u, run, true);
    text.line("      {");
    generate_plane(text, u, run, "u.x.value", "u.out[%d].value", true);
    text.line("      }");
    text.line("      for (int k = 0; k < u.directions; k++) {");
    text.line("      const T *h = tangents(u.coupled, k) + begin * NUM_COUPLED;");
    text.line("      const Dual<T> *fraction = u.fraction + k * u.fraction_distance;");
    text.line("      const T *factor = u.sender_factor ? u.sender_factor + k * u.fraction_distance : nullptr;");
    text.line("      const int64_t tangent = (1 + k) * u.x.distance;");
    begin_plane_sweep(text, u, run, "u.x.value", true);
    text.line("        const T *pe = xe + tangent;");
    text.line("        const T df = fraction[e].tangent, seen = factor ? factor[e] : T(0);");
    for (int a = 0; a < 2 * u.shape.l1 + 1; ++a) {
      text.line("        const V x%d = in_register(load(xe + %d * u.x_stride));", a, a);
      text.line("        V p%d = in_register(load(pe + %d * u.x_stride));", a, a);
    }
    text.line("        if (seen != T(0)) {");
    text.line("          const T *te = xe + u.x.distance;");
    for (int a = 0; a < 2 * u.shape.l1 + 1; ++a)
      text.line("          p%d = in_register(p%d + seen * load(te + %d * u.x_stride));", a, a, a);
    text.line("        }");
    int base = 0;
    for (int q = run.first; q < run.last; ++q) {
      const PathSchedule &p = u.paths[q];
      text.line("        // l2 = %d, l3 = %d", p.l2, p.l3);
      text.line("        {");
      text.line("        const V w = of_edge[%d], dw = of_edge[%d] * df;", 2 * (q - run.first),
                2 * (q - run.first) + 1);
      generate_moving_products(text, p, 2 * u.shape.l1 + 1, base);
      text.line("        }");
      base += 2 * p.l3 + 1;
    }
    text.line("        h++;");
    text.line("      }");
    generate_store_sums(text, u, run, "tangents(u.out[%d], k)");
    text.close(8, 2);
  }
  text.close(0);
}

void generate_gather(Text &text, const PathGroupSchedule &u) {
  const int d1 = 2 * u.shape.l1 + 1;
  text.line("// x_adj[m1] += sum_e w sum_m3 M[m1,m3] g[m3], over the receivers that a sender reaches");
  begin_function(text, "gather", "T");
  begin_sweep(text, d1);
  text.line("        const int64_t row = u.x_row[e];");
  add_products(text, u, u.whole(), true, [&](const PathSchedule &p, int q) {
    text.line("        const V w = %s;", weight_of(p, q).c_str());
    text.line("        const auto ge = u.out[%d] + row * u.out_width[%d] + c;", q, q);
    for (int c = 0; c < 2 * p.l3 + 1; ++c)
      text.line("        const V g%d = load(ge + %d * u.out_stride[%d]);", c, c, q);
  });
  text.line("      }");
  for (int a = 0; a < d1; ++a) text.line("      add_to(u.x_adj + %d * u.x_stride + c, a%d);", a, a);
  text.close(6);
}

// D of all paths for the channels from c, stored at d. g: address of the cotangents of path %d.
void generate_d(Text &text, const PathGroupSchedule &u, const char *g, const char *d) {
  int base = 0;
  for (size_t q = 0; q < u.paths.size(); ++q) {
    const PathSchedule &p = u.paths[q];
    text.line("    {");
    text.line("      const auto g = %s + c;", text_of(g, static_cast<int>(q), static_cast<int>(q)).c_str());
    text.line("      const int stride = u.out_stride[%d];", static_cast<int>(q));
    for (int c = 0; c < 2 * p.l3 + 1; ++c) text.line("      const V g%d = load(g + %d * stride);", c, c);
    for (const LinearForm &form : p.d)
      text.line("      store(%s + %d * LANES<T>, %s);", d, base++, text_of_form(form, "g").c_str());
    text.line("    }");
  }
}

// The sums over channels for the harmonics: r for dE/df, b for the others.
void begin_harmonic_sums(Text &text, const std::vector<int> &harmonics) {
  text.line("    V r = V{};");
  for (int h : harmonics) text.line("    V b%d = V{};", h);
}
// The ends of the loops over the channels of an edge: adds p to x_adj, and the sums to `to` by the function `add`.
void end_channels(Text &text, const std::vector<int> &harmonics, int d1, const char *add, const char *to) {
  text.line("      if (x_adj) {");
  for (int a = 0; a < d1; ++a) text.line("        add_to(x_adj + %d * u.x_stride + c, p%d);", a, a);
  text.close(6, 4);
  text.line("    const V sums[] = {%s};", list_of("r", ", b%d", harmonics).c_str());
  text.line("    %s<T, %s>(sums, %s + static_cast<int64_t>(e) * u.num_y);", add,
            list_of("0", ", %d", harmonics).c_str(), to);
}

void generate_backward(Text &text, const PathGroupSchedule &u) {
  const int d1 = 2 * u.shape.l1 + 1;
  text.line(
      "// D[m1,m2] = sum_m3 C g[m3] once; per edge S[m1] = sum_m2 y[m2] D[m1,m2], x_adj += w S, dE/df += w' S.x,");
  text.line("// y_adj[m2] += w sum_m1 x[m1] D[m1,m2]. All channels of an edge in turn, so that the sums over");
  text.line("// harmonics stay in registers.");
  begin_function(text, "backward", "T");
  text.line("  for (int c = 0; c < u.channels; c += LANES<T>) {");
  text.line("    const auto d = u.d + c * NUM_D;");
  generate_d(text, u, "u.out[%d]", "d");
  text.line("  }");

  const std::vector<int> harmonics = u.harmonics(u.whole());

  text.line("  for (int e = 0; e < u.count; e++) {");
  text.line("    const V f = in_register(V{} + u.fraction[e]);");
  text.line("    const auto x = u.x + u.x_row[e] * u.x_width;");
  text.line("    auto x_adj = u.x_adj;");
  text.line("    if (x_adj) x_adj += u.x_adj_row[e] * u.x_width;");
  if (!harmonics.empty()) text.line("    const T *y = u.y + e * u.num_y;");
  begin_harmonic_sums(text, harmonics);
  text.line("    for (int c = 0; c < u.channels; c += LANES<T>) {");
  text.line("      const auto t = radial_row<ROWS, ROW>(u, e, c);");
  text.line("      prefetch_rows<ROWS, ROW>(u, e + 1 < u.count ? e + 1 : e, c);");
  text.line("      const auto d = u.d + c * NUM_D;");
  for (int a = 0; a < d1; ++a) text.line("      const V x%d = in_register(load(x + %d * u.x_stride + c));", a, a);
  for (int a = 0; a < d1; ++a) text.line("      V p%d = V{};", a);
  int base = 0;
  for (size_t q = 0; q < u.paths.size(); ++q) {
    const PathSchedule &p = u.paths[q];
    const int y0 = p.l2 * p.l2, k = static_cast<int>(q);
    text.line("        // l2 = %d, l3 = %d", p.l2, p.l3);
    text.line("        {");
    text.line("        V w, dw;");
    text.line("        radial_weight<ROWS, ROW>(u, t, %d, f, w, dw);", k);
    if (p.is_diagonal()) text.line("        if (ROWS == 1) dw = w, w = dw * f;");
    if (p.is_scalar_product()) {
      text.line("        const V g = in_register(load(d + %d * LANES<T>)), wg = w * g;", base);
      Sum s("V", "s");
      for (const auto &n : p.d_entries) {
        const char *op = add_with(n.sign);
        s.add(text, n.sign, text_of("y[%d] * x%d", y0 + n.m2, n.m1));
        text.line("        p%d %s y[%d] * wg;", n.m1, op, y0 + n.m2);
        text.line("        b%d %s x%d * wg;", y0 + n.m2, op, n.m1);
      }
      text.line("        if (ROWS == 1)");
      text.line("          store_weight_adj<T>(u, e, %d, c, g * s);", k);
      text.line("        else");
      text.line("          r += (dw * g) * s;");
    } else {
      std::vector<Sum> s;
      for (int a = 0; a < d1; ++a) {
        s.emplace_back("V", text_of("s%d", a));
        if (!p.is_diagonal()) text.line("        const V t%d = w * x%d;", a, a);
      }
      int last = -1;
      for (const auto &n : p.d_entries) {
        if (n.d != last) text.line("        const V d%d = in_register(load(d + %d * LANES<T>));", n.d, base + n.d);
        last = n.d;
        if (p.is_diagonal()) {
          s[n.m1].add(text, n.sign, text_of("d%d", n.d));
        } else {
          s[n.m1].add(text, n.sign, text_of("y[%d] * d%d", y0 + n.m2, n.d));
          text.line("        b%d %s t%d * d%d;", y0 + n.m2, add_with(n.sign), n.m1, n.d);
        }
      }
      std::string dot;
      for (int a = 0; a < d1; ++a) {
        text.line("        p%d += w * s%d;", a, a);
        dot += (a ? " + " : "") + text_of("s%d * x%d", a, a);
      }
      text.line("        const V dot = %s;", dot.c_str());
      text.line("        if (ROWS == 1)");
      text.line("          store_weight_adj<T>(u, e, %d, c, %s);", k, p.is_diagonal() ? "f * dot" : "dot");
      text.line(p.is_diagonal() ? "        r += dw * dot;" : "        else\n          r += dw * dot;");
    }
    text.line("        }");
    base += static_cast<int>(p.d.size());
  }
  end_channels(text, harmonics, d1, "add_sums_of_lanes", "u.y_adj");
  text.close(2);
}

// A path for edges that do not move; primes mark tangents. p'[m1] += w S'[m1] with S'[m1] = sum_m2 y[m2] D'[m1,m2].
// With z[m2] = sum_m1 (x'[m1] D[m1,m2] + x[m1] D'[m1,m2]), b'[m2] += w z[m2] and r' += (dw/df) sum_m2 y[m2] z[m2].
// These are three products for each D, where duals need four. In the text t is x' and h is D'.
void generate_rigid_products(Text &text, const PathSchedule &p, int d1, int first_d) {
  const int y0 = p.l2 * p.l2, d2 = 2 * p.l2 + 1;
  if (p.is_scalar_product()) {
    // D[m1,m2] is +-g for m1 = m2.
    text.line("        const V g = load(d + %d * LANES<T>), h = load(d_tangent + %d * LANES<T>);", first_d, first_d);
    text.line("        const V wg = w * g, wh = w * h;");
    Sum s("V", "s"), s_tangent("V", "s_tangent");
    for (const auto &n : p.d_entries) {
      const char *op = add_with(n.sign);
      s.add(text, n.sign, text_of("y[%d] * x%d", y0 + n.m2, n.m1));
      s_tangent.add(text, n.sign, text_of("y[%d] * t%d", y0 + n.m2, n.m1));
      text.line("        p%d %s y[%d] * wh;", n.m1, op, y0 + n.m2);
      text.line("        b%d %s x%d * wh;", y0 + n.m2, op, n.m1);
      text.line("        b%d %s t%d * wg;", y0 + n.m2, op, n.m1);
    }
    text.line("        r += dw * (h * s + g * s_tangent);");
    return;
  }
  std::vector<Sum> s, z;
  for (int a = 0; a < d1; ++a) s.emplace_back("V", text_of("s%d", a));
  for (int b = 0; b < (p.is_diagonal() ? 1 : d2); ++b) z.emplace_back("V", text_of("z%d", b));
  int last = -1;
  for (const auto &n : p.d_entries) {
    if (n.d != last) {
      text.line("        const V d%d = in_register(load(d + %d * LANES<T>));", n.d, first_d + n.d);
      text.line("        const V h%d = in_register(load(d_tangent + %d * LANES<T>));", n.d, first_d + n.d);
    }
    last = n.d;
    s[n.m1].add(text, n.sign, p.is_diagonal() ? text_of("h%d", n.d) : text_of("y[%d] * h%d", y0 + n.m2, n.d));
    z[n.m2].add(text, n.sign, text_of("t%d * d%d", n.m1, n.d));
    z[n.m2].add(text, n.sign, text_of("x%d * h%d", n.m1, n.d));
  }
  for (int a = 0; a < d1; ++a) text.line("        p%d += w * s%d;", a, a);
  if (p.is_diagonal()) {
    text.line("        r += dw * z0;");
    return;
  }
  std::string dot;
  for (int b = 0; b < d2; ++b) {
    text.line("        b%d += w * z%d;", y0 + b, b);
    dot += (b ? " + " : "") + text_of("y[%d] * z%d", y0 + b, b);
  }
  text.line("        r += dw * (%s);", dot.c_str());
}

// An edge's weights, which are the same for all directions, are computed once.
void generate_rigid_backward(Text &text, const PathGroupSchedule &u) {
  const int d1 = 2 * u.shape.l1 + 1, num_paths = static_cast<int>(u.paths.size());
  const std::vector<int> harmonics = u.harmonics(u.whole());
  text.line("// The tangents of what backward adds where no edge moves.");
  begin_function(text, "rigid_backward", "Dual<T>");
  text.line("  for (int plane = 0; plane <= u.directions; plane++)");
  text.line("    for (int c = 0; c < u.channels; c += LANES<T>) {");
  text.line("    T *d = u.d.value + plane * u.d.distance + c * NUM_D;");
  generate_d(text, u, "u.out[%d].value + plane * u.out[%d].distance", "d");
  text.line("    }");
  text.line("  for (int e = 0; e < u.count; e++) {");
  text.line("    const V f = in_register(V{} + u.fraction[e].value);");
  text.line("    for (int c = 0; c < u.channels; c += LANES<T>) {");
  text.line("      const auto t = radial_row<ROWS, ROW>(u, e, c);");
  text.line("      V *weights = reinterpret_cast<V *>(u.edge_weights + c * %d);", 2 * num_paths);
  for (int q = 0; q < num_paths; ++q)
    text.line("      radial_weight<ROWS, ROW>(u, t, %d, f, weights[%d], weights[%d]);", q, 2 * q, 2 * q + 1);
  text.line("    }");
  text.line("    const T *x = u.x.value + u.x_row[e] * u.x_width;");
  if (!harmonics.empty()) text.line("    const auto y = values(u.y + e * u.num_y);");
  text.line("    for (int k = 0; k < u.directions; k++) {");
  text.line("    const T *x_tangent = tangents(u.x, k) + u.x_row[e] * u.x_width;");
  text.line("    T *x_adj = u.x_adj ? tangents(u.x_adj, k) + u.x_adj_row[e] * u.x_width : nullptr;");
  begin_harmonic_sums(text, harmonics);
  text.line("    for (int c = 0; c < u.channels; c += LANES<T>) {");
  text.line("      const V *weights = reinterpret_cast<const V *>(u.edge_weights + c * %d);", 2 * num_paths);
  text.line("      const T *d = u.d.value + c * NUM_D, *d_tangent = tangents(u.d, k) + c * NUM_D;");
  for (int a = 0; a < d1; ++a) {
    text.line("      const V x%d = in_register(load(x + %d * u.x_stride + c));", a, a);
    text.line("      const V t%d = in_register(load(x_tangent + %d * u.x_stride + c));", a, a);
  }
  for (int a = 0; a < d1; ++a) text.line("      V p%d = V{};", a);
  int base = 0;
  for (int q = 0; q < num_paths; ++q) {
    const PathSchedule &p = u.paths[q];
    text.line("        // l2 = %d, l3 = %d", p.l2, p.l3);
    text.line("        {");
    text.line("        const V w = weights[%d], dw = weights[%d];", 2 * q, 2 * q + 1);
    generate_rigid_products(text, p, d1, base);
    text.line("        }");
    base += static_cast<int>(p.d.size());
  }
  end_channels(text, harmonics, d1, "add_sums_of_tangents", "u.y_adj + k * u.y_adj_distance");
  text.close(4);
}

}    // namespace

void generate_path_group_functions(GeneratedText &text, const PathGroupSchedule &u) {
  generate_forward(text, u);
  generate_backward(text, u);
  generate_gather(text, u);
}

void generate_functions_of_directions(GeneratedText &text, const PathGroupSchedule &u) {
  generate_moving_forward(text, u);
  generate_rigid_forward(text, u);
  generate_rigid_backward(text, u);
}

}    // namespace equi
