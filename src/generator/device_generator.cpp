// SPDX-License-Identifier: MIT
#include "src/generator/device_generator.h"

#include "src/generator/contraction_generator.h"
#include "src/generator/device_path_text.h"
#include "src/generator/path_text.h"

#include <algorithm>

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

// The weight of a path, and its entries of M.
void load_path(Text &text, const PathSchedule &p, int q) {
  text.line("        %sT w = weight<ROWS>(u, t, %d, %d * ITEM_CHANNELS, ROW, f);", p.is_diagonal() ? "" : "const ", q,
            q);
  if (p.is_diagonal()) text.line("        if (ROWS == 1) w *= f;");
  load_coupled(text, p);
}

// What the loop over edges of a run reads.
struct EdgeReads {
  bool sender, cotangents, forms, harmonics;
};

// What forward, gather and backward of a channel begin with.
void begin_edges(Text &text, const PathGroupSchedule &u, const PathGroupSchedule::Run &run, const EdgeReads &reads) {
  std::vector<std::string> lines;
  int num_components = 0, num_arrays = 0;
  const auto number = [&] {    // of lines so far: components come first
    return std::to_string(num_components) + " * BLOCK_LINES<Real<T>> + " + std::to_string(num_arrays);
  };
  const auto components = [&](const char *condition, int num, const std::string &rows) {
    lines.push_back(std::string("    ") + condition + "ahead.template components<" + number() + ", " +
                    std::to_string(num) + ">(" + rows + ");");
    num_components += num;
  };
  const auto edges = [&](const std::string &numbers) {
    lines.push_back("    ahead.template edges<" + number() + ">(" + numbers + ");");
    num_arrays++;
  };
  if (reads.sender) components("if (!u.shares_rows) ", 2 * u.shape.l1 + 1, "u.x, u.x_width, u.x_stride");
  if (reads.cotangents)
    for (int q = run.first; q < run.last; ++q) {
      const std::string path = text_of("u.path[%d]", q);
      components("", 2 * u.paths[q].l3 + 1, "u.out_adj + " + path + ".begin, " + path + ".width, " + path + ".stride");
    }
  if (reads.forms) edges("u.coupled, u.coupled_width");
  if (reads.harmonics) edges("u.y, u.num_y");
  text.line("    {");
  text.line("    EdgesAhead<T, %s> ahead(u, a.begin, a.end, a.lane, a.channel);", number().c_str());
  for (const std::string &line : lines) text.line("%s", line.c_str());
  text.line("    for (int e = a.begin; e < a.end; e++) {");
  text.line("        const auto edge = ahead.take(e%s);", reads.sender && reads.cotangents ? ", u.num_receivers" : "");
  text.line("        const auto t = weights_of<ROWS>(u, first, ROW, edge);");
  text.line("        const T f = edge.fraction;");
  if (reads.forms) define_forms(text, u);
}

void end_edges(Text &text) {
  text.line("    }");
  text.line("    }");
}

void define_weights(Text &text) {
  text.line("    const auto first = first_weights<ROWS>(u, a);");
}

// from: output or cotangent
void define_output(Text &text, const char *from, const char *row, int q) {
  text.line("        const auto o = u.%s(%d, %s, a.channel);", from, q, row);
}

// Whether some path of the run reads entries of M.
bool has_forms(const PathGroupSchedule &u, const PathGroupSchedule::Run &run) {
  return std::any_of(u.paths.begin() + run.first, u.paths.begin() + run.last,
                     [](const PathSchedule &p) { return !p.is_diagonal(); });
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
  begin_edges(text, u, run, {true, false, has_forms(u, run), false});
  load_sender(text, d1);
  const auto load = [&](const PathSchedule &p, int q) { load_path(text, p, q); };
  generate_products(text, {"T", device_coupled, load}, u, run, false);
  end_edges(text);
  add_up_shares(text, num_components(u, run));
  int base = 0;
  for (int q = run.first; q < run.last; ++q) {
    text.line("    {");
    define_output(text, "output", "a.atom", q);
    for (int c = 0; c < 2 * u.paths[q].l3 + 1; ++c)
      text.line("        put(o, %d * u.path[%d].stride, sum[%d]);", c, q, base++);
    text.line("    }");
  }
  text.line("  }");
}

void generate_gather(Text &text, const PathGroupSchedule &u) {
  const int d1 = 2 * u.shape.l1 + 1;
  text.line("  // x_adj[m1] += sum_e w sum_m3 M[m1,m3] g[m3], over the receivers that a sender reaches");
  text.line("  template <int ROWS, class T>");
  text.line("  KOKKOS_FORCEINLINE_FUNCTION static void gather(const DevicePathGroupCall<T> &u, const DeviceAtom &a) {");
  define_weights(text);
  for (int a = 0; a < d1; ++a) text.line("    T a%d = 0;", a);
  // One run as long as forward takes one. Else short ones: the loads of all paths would fill more registers ahead of
  // their use than there are.
  for (const auto &run : u.forward_runs.size() > 1 ? u.backward_runs : u.forward_runs) {
    begin_edges(text, u, run, {false, true, has_forms(u, run), false});
    text.line("        const int row = edge.other_row;");
    const auto load = [&](const PathSchedule &p, int q) {
      load_path(text, p, q);
      define_output(text, "cotangent", "row", q);
      for (int c = 0; c < 2 * p.l3 + 1; ++c) text.line("        const T g%d = o[%d * u.path[%d].stride];", c, c, q);
    };
    generate_products(text, {"T", device_coupled, load}, u, run, true);
    end_edges(text);
  }
  add_up_shares(text, d1);
  store_x_adj(text, d1);
  text.line("  }");
}

// The derivative by the weight is given: stored if it is an edge's, else part of that by the fraction.
void add_by_weight(Text &text, int q, const char *by_weight, const char *by_fraction) {
  text.line("        if constexpr (ROWS == 1)");
  text.line("          store_weight_adj(u, a, edge, %d, %s);", q, by_weight);
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
    text.line("        if constexpr (ROWS == 1) store_weight_adj(u, a, edge, %d, f * s);", q);
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
      text.line("        const T g%d = a.active ? o[%d * u.path[%d].stride] : T(0);", c, c, q);
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
    text.line("                                                   T *to, bool add, T (&x_sum)[%d]) {", d1);
  } else {
    text.line("  // D[m1,m2] = sum_m3 C g[m3] once; per edge h[m2] = sum_m1 x[m1] D[m1,m2], y_adj[m2] += w h[m2],");
    text.line("  // dE/df += w' sum_m2 y[m2] h[m2], %s", paths_of(run).c_str());
    text.line("  template <int ROWS, int LANES, class T>");
    text.line(
        "  KOKKOS_FORCEINLINE_FUNCTION static void backward_%d(const DevicePathGroupCall<T> &u, const DeviceAtom &a,",
        number);
    text.line("                                                      T *to, bool add) {");
  }
  define_weights(text);
  define_coupled_cotangents(text, u, run, is_fused ? "u.first_row + a.atom" : "a.atom");
  if (is_fused)
    for (int a = 0; a < d1; ++a) text.line("    T a%d = x_sum[%d];", a, a);
  begin_edges(text, u, run, {true, is_fused, is_fused && has_forms(u, run), !harmonics.empty()});
  if (is_fused) {
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
  text.line("        store_lane_sums<LANES>(sums, a.lane, to + static_cast<int64_t>(e) * %d, add);",
            static_cast<int>(1 + harmonics.size()));
  end_edges(text);
  if (is_fused)
    for (int a = 0; a < d1; ++a) text.line("    x_sum[%d] = a%d;", a, a);
  text.line("  }");
}

// One run after the other in the same lane, so that one sum of each component is left.
void generate_fused(Text &text, const PathGroupSchedule &u) {
  const int d1 = 2 * u.shape.l1 + 1;
  text.line("  template <int ROWS, int LANES, class T>");
  text.line(
      "  KOKKOS_FORCEINLINE_FUNCTION static void fused(const DevicePathGroupCall<T> &u, const DeviceAtom &a, bool add) "
      "{");
  text.line("    T sum[%d] = {};", d1);
  int first = 0;
  for (int g = 0; g < static_cast<int>(u.backward_runs.size()); ++g) {
    const int num = static_cast<int>(1 + u.harmonics(u.backward_runs[g]).size());
    text.line("    fused_%d<ROWS, LANES>(u, a, parts_of(u, a, %d, %d), add, sum);", g, first, num);
    first += num;
  }
  text.line("    if (!add_up(a, sum)) return;");
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

void generate_body(Text &text, const PathGroupSchedule &u, bool has_fused) {
  const std::string key = u.shape.key();
  const bool is_uvw = u.shape.is_uvw();
  const int num_forward = static_cast<int>(u.forward_runs.size()),
            num_backward = static_cast<int>(u.backward_runs.size());
  std::vector<int> num_sums, first_sum;
  std::string sums, counts;
  int total = 0, forward_numbers = 0, backward_numbers = 0;
  for (const auto &run : u.forward_runs) forward_numbers = std::max(forward_numbers, u.forward_numbers(run));
  for (const auto &run : u.backward_runs) backward_numbers = std::max(backward_numbers, u.backward_numbers(run));
  for (const auto &run : u.backward_runs) {
    const std::vector<int> harmonics = u.harmonics(run);
    first_sum.push_back(total);
    num_sums.push_back(static_cast<int>(1 + harmonics.size()));
    total += num_sums.back();
    sums += list_of(sums.empty() ? "0" : ", 0", ", %d", harmonics);
    counts += text_of(counts.empty() ? "%d" : ", %d", num_sums.back());
  }

  text.line("struct %s {", ("Body_" + key).c_str());
  text.line("  static constexpr int ROW = %d * ITEM_CHANNELS;    // numbers of a table row per channel block",
            static_cast<int>(is_uvw ? UVW_BLOCK : u.paths.size()));
  text.line("  static constexpr const char *KEY = \"%s\";", key.c_str());
  text.line("  static constexpr int NUM_BACKWARD_RUNS = %d;", num_backward);
  text.line("  static constexpr bool IS_UVW = %s;", is_uvw ? "true" : "false");
  text.line("  static constexpr int NUMBERS[] = {%d, %d, %d, %d};    // that a lane holds, by pass", forward_numbers,
            backward_numbers, num_forward > 1 ? backward_numbers : forward_numbers,
            backward_numbers + 2 * u.shape.l1 + 1);
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
    dispatch(text, "backward", num_backward, "int ROWS, int LANES", "ROWS, LANES", ", T *to, bool add", ", to, add");
    generate_gather(text, u);
    if (has_fused) {
      for (int g = 0; g < num_backward; ++g) generate_backward(text, u, g, true);
      generate_fused(text, u);
    }
  }
  text.line("};");
}

// The keys with `between` in between.
std::string joined(const std::vector<std::string> &keys, const char *between) {
  std::string all;
  for (const std::string &key : keys) all += (all.empty() ? "" : between) + key;
  return all;
}

// The namespace of a launch.
std::string space_of(const std::vector<std::string> &keys, bool of_edges, bool of_duals) {
  return text_from("device_%spath_groups_", of_edges ? "edge_" : of_duals ? "dual_" : "") + joined(keys, "__");
}

// The kernels that take these path groups in one launch, of plain numbers or of duals.
void generate_launch(Text &text, const DeviceLaunch &launch, const KernelTarget &target, bool of_edges) {
  std::vector<std::string> keys, bodies;
  Text structs;
  for (const PathGroupShape &shape : launch.path_groups) {
    const PathGroupSchedule schedule = make_path_group_schedule(shape, target, launch.of_duals);
    text.line("static_assert(%d <= MAX_CALL_PATHS, \"a path group with too many paths\");",
              static_cast<int>(schedule.paths.size()));
    keys.push_back(shape.key());
    bodies.push_back("Body_" + keys.back());
    generate_body(structs, schedule, !of_edges && !launch.of_duals);
  }
  const std::string space = space_of(keys, of_edges, launch.of_duals);
  text.line("namespace %s {", space.c_str());
  text.line("namespace {");
  text.add(structs.str());
  text.line("}    // namespace");
  const char *kernel = of_edges ? "DeviceEdgeKernel" : "DevicePathGroupKernel";
  for (int k = 0; k < NUM_TYPES; ++k) {
    const auto &[type, name] = NUMBER_TYPES[k];
    if (launch.of_duals != (k >= NUM_PLAIN_TYPES)) continue;
    text.line("extern const %s<%s> %s_KERNEL;", kernel, type, name);
    text.line("const %s<%s> %s_KERNEL = DeviceKernelOf<%s, %s>::%s();", kernel, type, name, type,
              joined(bodies, ", ").c_str(), of_edges ? "edge_kernel" : "kernel");
  }
  text.line("}    // namespace %s", space.c_str());
}

void begin_file(Text &text, const KernelTarget &target, const std::vector<const char *> &headers) {
  text.line("// Made by equi_generate from a kernel schedule (src/generator/kernel_schedule.h) for %s. Do not edit.",
            target.name);
  for (const char *header : headers) text.line("#include \"%s\"", header);
  text.line("namespace equi {");
}

// All kernels of other sources: those of plain numbers take the path groups of a launch, those of duals one.
void list_launches(Text &text, const char *kernel, const char *list,
                   const std::vector<std::vector<std::string>> &launches, const std::vector<std::string> &of_duals,
                   bool of_edges) {
  for (int k = 0; k < NUM_TYPES; ++k) {
    const auto &[type, name] = NUMBER_TYPES[k];
    std::vector<std::string> spaces;
    if (k < NUM_PLAIN_TYPES)
      for (const auto &keys : launches) spaces.push_back(space_of(keys, of_edges, false));
    else
      for (const std::string &key : of_duals) spaces.push_back(space_of({key}, of_edges, true));
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

std::string generate_device_path_groups(const std::vector<DeviceLaunch> &launches, const KernelTarget &target,
                                        bool of_edges) {
  Text text;
  begin_file(text, target, {"kokkos/device_kernels/device_path_group_impl.h"});
  for (const DeviceLaunch &launch : launches) generate_launch(text, launch, target, of_edges);
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
  std::vector<std::string> of_duals = names.path_groups;
  for (const std::string &key : names.uvw) {
    launches.push_back({key});
    of_duals.push_back(key);
  }
  list_launches(text, "DevicePathGroupKernel", "device_kernels", launches, of_duals, false);
  list_kernels(text, "contraction", "DeviceContractionKernel", "find_device_contraction", names.contractions,
               NUM_PLAIN_TYPES);
  text.line("}    // namespace equi");
  return text.str();
}

std::string generate_device_edge_list(const KernelNames &names, const KernelTarget &target) {
  Text text;
  begin_file(text, target, {"kokkos/kernel_interface/device_path_group.h"});
  list_launches(text, "DeviceEdgeKernel", "device_edge_kernels", names.device_edge_launches, {}, true);
  text.line("}    // namespace equi");
  return text.str();
}

}    // namespace equi
