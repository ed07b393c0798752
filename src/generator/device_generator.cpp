// SPDX-License-Identifier: MIT
// Writes the device kernels of path groups and contractions, and the lists of them.
#include "src/generator/device_generator.h"

#include "src/generator/contraction_generator.h"
#include "src/generator/device_path_text.h"
#include "src/generator/path_text.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace equi {

namespace {

using Text = GeneratedText;
using Sum = GeneratedSum;

// The number types for which kernels are made, and the names of those kernels: plain numbers first.
constexpr int NUM_PLAIN_TYPES = 2, NUM_TYPES = 4;
constexpr struct {
  const char *type, *name;
} NUMBER_TYPES[NUM_TYPES] = {
    {"float", "FLOAT"}, {"double", "DOUBLE"}, {"Dual<float>", "DUAL_FLOAT"}, {"Dual<double>", "DUAL_DOUBLE"}};

// How kernels obtain the entries of M. These are linear forms of the harmonics, most of them a single harmonic with a
// factor. If registers allow it, a lane computes them: an entry that all lanes read costs as much as one that each lane
// reads for itself. Otherwise they are coupled beforehand.
struct PathEntries {
  const PathGroupSchedule &u;
  bool are_coupled;

  Dialect dialect(std::function<void(const PathSchedule &, int)> load = {}) const {
    if (are_coupled) return {"V", device_coupled, std::move(load)};
    return {"V",
            [this](int k) {
              return is_harmonic(k) ? "y" + std::to_string(u.coupled[k].terms[0].index) : text_of("m%d", k);
            },
            std::move(load)};
  }
  // Defines the entries that a path reads. Its harmonics are loaded already.
  void define(Text &text, const PathSchedule &p) const {
    if (are_coupled) return load_coupled(text, p);
    std::set<int> forms;
    for (const auto &m : p.m)
      if (!p.is_diagonal() && !is_harmonic(m.coupled)) forms.insert(m.coupled);
    for (int k : forms) text.line("        const T m%d = %s;", k, text_of_form(u.coupled[k], "y").c_str());
  }

 private:
  bool is_harmonic(int k) const { return u.coupled[k].terms.size() == 1 && u.coupled[k].terms[0].coefficient == 1.0; }
};

// Loads the weight of a path, and its entries of M.
void load_path(Text &text, const PathEntries &entries, const PathSchedule &p, int q) {
  text.line("        %sV w = weight<ROWS>(u, t, %d, %d * ITEM_CHANNELS, ROW, f);", p.is_diagonal() ? "" : "const ", q,
            q);
  if (p.is_diagonal()) text.line("        if (ROWS == 1) w *= f;");
  entries.define(text, p);
}

// How a run that computes the entries of M loads an edge's harmonics: in loads of four numbers.
class HarmonicLoads {
 public:
  explicit HarmonicLoads(const PathEntries &entries) : by_fours_(!entries.are_coupled) {}
  void load(Text &text, int h) {
    if (!by_fours_) return text.line("        const T y%d = y[%d];", h, h);
    const int four = (h - 1) / 4;
    if (loaded_.insert(four).second) text.line("        const Four<T> fy%d = load_four(y + %d);", four, 1 + 4 * four);
    text.line("        const T y%d = %s;", h, text_of("fy%d.v[%d]", four, (h - 1) % 4).c_str());
  }

 private:
  bool by_fours_;
  std::set<int> loaded_;
};

void load_harmonics(Text &text, const PathEntries &entries, const std::vector<int> &harmonics) {
  if (entries.are_coupled) return;
  HarmonicLoads loads(entries);
  for (int h : harmonics) loads.load(text, h);
}

// The data that the loop over edges of a run reads.
struct EdgeReads {
  bool sender, cotangents, coupled, harmonics;
};

// Begins a function for a lane's channels. `more`: parameters after the others.
void begin_function(Text &text, const char *sizes, const std::string &name, const char *more) {
  text.line("  template <%s, class T, int N>", sizes);
  text.line("  KOKKOS_FORCEINLINE_FUNCTION static void %s(const DevicePathGroupCall<T> &u, const DeviceAtom<N> &a%s) {",
            name.c_str(), more);
  text.line("    using V = OfChannels<T, N>;");
}

// The common beginning of forward, gather and backward.
void begin_edges(Text &text, const PathGroupSchedule &u, const PathGroupSchedule::Run &run, const EdgeReads &reads) {
  std::vector<std::string> lines;
  int num_components = 0, num_arrays = 0;
  const auto number = [&] {    // lines so far: components come first
    return std::to_string(num_components) + " * BLOCK_LINES<Real<T>, N> + " + std::to_string(num_arrays);
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
  if (reads.coupled) edges("u.coupled, u.coupled_width");
  if (reads.harmonics) edges("u.y, u.y_row");
  text.line("    {");
  text.line("    EdgesAhead<T, N, %s> ahead(u, a.begin, a.end, a.lane, a.channel);", number().c_str());
  for (const std::string &line : lines) text.line("%s", line.c_str());
  text.line("    for (int e = a.begin; e < a.end; e++) {");
  text.line("        const auto edge = ahead.take(e%s);", reads.sender && reads.cotangents ? ", u.num_receivers" : "");
  text.line("        const auto t = weights_of<ROWS>(u, first, ROW, edge);");
  text.line("        const T f = edge.fraction;");
  if (reads.coupled) locate_coupled(text, u);
  if (reads.harmonics) text.line("        const T *y = u.y + static_cast<int64_t>(e) * u.y_row;");
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

// Whether any path of the run reads entries of M.
bool has_forms(const PathGroupSchedule &u, const PathGroupSchedule::Run &run) {
  return std::any_of(u.paths.begin() + run.first, u.paths.begin() + run.last,
                     [](const PathSchedule &p) { return !p.is_diagonal(); });
}

std::string paths_of(const PathGroupSchedule::Run &run) {
  return run.last == run.first + 1 ? text_of("path %d", run.first) : text_of("paths %d to %d", run.first, run.last - 1);
}

void generate_forward(Text &text, const PathGroupSchedule &u, const PathEntries &entries, int number) {
  const auto run = u.forward_runs[number];
  const bool has_entries = has_forms(u, run);
  const int d1 = 2 * u.shape.l1 + 1;
  text.line("  // out[m3] = sum_e w sum_m1 M[m1,m3] x[m1], %s", paths_of(run).c_str());
  begin_function(text, "int ROWS", text_of("forward_%d", number), "");
  define_weights(text);
  for (int k = 0; k < num_components(u, run); ++k) text.line("    V a%d = 0;", k);
  begin_edges(text, u, run, {true, false, has_entries && entries.are_coupled, has_entries && !entries.are_coupled});
  load_sender(text, d1);
  load_harmonics(text, entries, u.harmonics(run));
  const auto load = [&](const PathSchedule &p, int q) { load_path(text, entries, p, q); };
  generate_products(text, entries.dialect(load), u, run, false);
  end_edges(text);
  add_up_shares(text, num_components(u, run));
  int base = 0;
  for (int q = run.first; q < run.last; ++q) {
    text.line("    {");
    define_output(text, "output", "a.atom", q);
    for (int c = 0; c < 2 * u.paths[q].l3 + 1; ++c)
      text.line("        a.store(o, %d * u.path[%d].stride, sum[%d]);", c, q, base++);
    text.line("    }");
  }
  text.line("  }");
}

void generate_gather(Text &text, const PathGroupSchedule &u, const PathEntries &entries) {
  const int d1 = 2 * u.shape.l1 + 1;
  text.line("  // x_adj[m1] += sum_e w sum_m3 M[m1,m3] g[m3], over the receivers that a sender reaches");
  begin_function(text, "int ROWS", "gather", "");
  define_weights(text);
  for (int a = 0; a < d1; ++a) text.line("    V a%d = 0;", a);
  // One run if forward needs only one. Otherwise short runs: the loads of all paths, made ahead of their use, would
  // fill more registers than there are.
  for (const auto &run : u.forward_runs.size() > 1 ? u.backward_runs : u.forward_runs) {
    const bool has_entries = has_forms(u, run);
    begin_edges(text, u, run, {false, true, has_entries && entries.are_coupled, has_entries && !entries.are_coupled});
    text.line("        const int row = edge.other_row;");
    load_harmonics(text, entries, u.harmonics(run));
    const auto load = [&](const PathSchedule &p, int q) {
      load_path(text, entries, p, q);
      define_output(text, "cotangent", "row", q);
      for (int c = 0; c < 2 * p.l3 + 1; ++c)
        text.line("        const V g%d = a.load(o, %d * u.path[%d].stride);", c, c, q);
    };
    generate_products(text, entries.dialect(load), u, run, true);
    end_edges(text);
  }
  add_up_shares(text, d1);
  store_x_adj(text, d1);
  text.line("  }");
}

// The caller passes the derivative by the weight, and that by the fraction without its factor s. For weights of edges
// the first one is stored; otherwise the second one is added.
void add_by_weight(Text &text, int q, const char *by_weight, const char *by_fraction) {
  text.line("        if constexpr (ROWS == 1)");
  text.line("          store_weight_adj(u, a, edge, %d, %s);", q, by_weight);
  text.line("        else");
  text.line("          add_product(r, %s, s);", by_fraction);
}

// The sums of h[m2] = sum_m1 x[m1] D[m1,m2] for path q, whose first D has index `base`.
void add_path_backward(Text &text, const PathGroupSchedule &u, int q, int base) {
  const PathSchedule &p = u.paths[q];
  const int d1 = 2 * u.shape.l1 + 1, d2 = 2 * p.l2 + 1, y0 = p.l2 * p.l2;
  if (p.is_diagonal()) {
    Sum s("V", "s");
    for (const auto &n : p.d_entries) s.add(text, n.sign, text_of("x%d * d%d", n.m1, base + n.d));
    text.line("        add_product(r, dw, s);");
    text.line("        if constexpr (ROWS == 1) store_weight_adj(u, a, edge, %d, f * s);", q);
  } else if (p.is_scalar_product()) {
    Sum s("V", "s");
    text.line("        const V wg = w * d%d;", base);
    for (const auto &n : p.d_entries) {
      s.add(text, n.sign, text_of("y%d * x%d", y0 + n.m2, n.m1));
      text.line("        add_product(b%d, x%d, %swg);", y0 + n.m2, n.m1, n.sign < 0 ? "-" : "");
    }
    add_by_weight(text, q, text_of("d%d * s", base).c_str(), text_of("dw * d%d", base).c_str());
  } else {
    Sum s("V", "s");
    for (int b = 0; b < d2; ++b) {
      Sum h("V", text_of("h%d", b));
      for (int a = 0; a < d1; ++a)
        for (const auto &n : p.d_entries)
          if (n.m1 == a && n.m2 == b) h.add(text, n.sign, text_of("x%d * d%d", a, base + n.d));
      s.add(text, 1, text_of("y%d * h%d", y0 + b, b));
      text.line("        add_product(b%d, w, h%d);", y0 + b, b);
    }
    add_by_weight(text, q, "s", "dw");
  }
}

// Defines the distinct D of a run's paths, for the channel's own cotangent in row `row`.
void define_coupled_cotangents(Text &text, const PathGroupSchedule &u, const PathGroupSchedule::Run &run,
                               const char *row) {
  int base = 0;
  for (int q = run.first; q < run.last; ++q) {
    const PathSchedule &p = u.paths[q];
    std::string names;
    for (size_t k = 0; k < p.d.size(); ++k) names += (k ? ", d" : "d") + std::to_string(base + k);
    text.line("    V %s;", names.c_str());
    text.line("    {");
    define_output(text, "cotangent", row, q);
    for (int c = 0; c < 2 * p.l3 + 1; ++c)
      text.line("        const V g%d = a.load_own(o, %d * u.path[%d].stride);", c, c, q);
    for (const LinearForm &form : p.d) text.line("        d%d = %s;", base++, text_of_form(form, "g").c_str());
    text.line("    }");
  }
}

// Adds one edge's contribution to the gather of its receiver. The reverse edge has the same weight and, for each l2,
// the same harmonics except for their sign (-1)^l2.
void add_reverse_path(Text &text, const PathEntries &entries, const PathSchedule &p, int q, int d1) {
  text.line("        {");
  text.line("        const V v = has_reverse ? %s : V(0);", p.l2 % 2 ? "-w" : "w");
  text.line("        {");
  text.line("        const V w = v;");
  entries.define(text, p);
  define_output(text, "cotangent", "row", q);
  for (int c = 0; c < 2 * p.l3 + 1; ++c) text.line("        const V g%d = a.load(o, %d * u.path[%d].stride);", c, c, q);
  add_gathered(text, entries.dialect(), p, d1);
  text.line("        }");
  text.line("        }");
}

// The derivatives by an edge; is_fused: also the gather of the receiver's own row over the reverse edges.
void generate_backward(Text &text, const PathGroupSchedule &u, const PathEntries &entries, int number, bool is_fused) {
  const auto run = u.backward_runs[number];
  const std::vector<int> harmonics = u.harmonics(run);
  const int d1 = 2 * u.shape.l1 + 1;
  if (is_fused) {
    text.line("  // The same, and x_adj[m1] += sum_e w sum_m3 M[m1,m3] g[m3] over the reverse edges, %s",
              paths_of(run).c_str());
    begin_function(text, "int ROWS, int LANES", text_of("fused_%d", number),
                   text_of(", T *to, bool add, OfChannels<T, N> (&x_sum)[%d]", d1).c_str());
  } else {
    text.line("  // D[m1,m2] = sum_m3 C g[m3] once; per edge h[m2] = sum_m1 x[m1] D[m1,m2], y_adj[m2] += w h[m2],");
    text.line("  // dE/df += w' sum_m2 y[m2] h[m2], %s", paths_of(run).c_str());
    begin_function(text, "int ROWS, int LANES", text_of("backward_%d", number), ", T *to, bool add");
  }
  define_weights(text);
  define_coupled_cotangents(text, u, run, is_fused ? "u.first_row + a.atom" : "a.atom");
  if (is_fused)
    for (int a = 0; a < d1; ++a) text.line("    V a%d = x_sum[%d];", a, a);
  const bool reads_coupled = is_fused && entries.are_coupled && has_forms(u, run);
  begin_edges(text, u, run, {true, is_fused, reads_coupled, !harmonics.empty()});
  if (is_fused) {
    text.line("        const bool has_reverse = edge.other_row < u.num_receivers;");
    text.line("        const int row = has_reverse ? edge.other_row : u.first_row + a.atom;");
  }
  load_sender(text, d1);
  text.line("        T r = 0;");
  HarmonicLoads loads(entries);
  int l2 = 0, base = 0;
  for (int q = run.first; q < run.last; ++q) {
    const PathSchedule &p = u.paths[q];
    if (p.l2 > l2)    // paths are sorted by l2, so only the harmonics of one order need registers at a time
      for (int h : harmonics)
        if (h >= p.l2 * p.l2 && h < (p.l2 + 1) * (p.l2 + 1)) {
          loads.load(text, h);
          text.line("        T b%d = 0;", h);
        }
    l2 = p.l2;
    text.line("        // l2 = %d, l3 = %d", p.l2, p.l3);
    text.line("        {");
    text.line("        V w, dw;");
    text.line("        weight<ROWS>(u, t, %d, %d * ITEM_CHANNELS, ROW, f, w, dw);", q, q);
    if (p.is_diagonal()) text.line("        if (ROWS == 1) dw = w;");
    add_path_backward(text, u, q, base);
    if (is_fused)
      add_reverse_path(text, entries, p, q, d1);
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

// The runs follow one another in the same lane, so only one sum of each component remains.
void generate_fused(Text &text, const PathGroupSchedule &u) {
  const int d1 = 2 * u.shape.l1 + 1;
  begin_function(text, "int ROWS, int LANES", "fused", ", bool add");
  text.line("    V sum[%d] = {};", d1);
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

// A function of the index of a run.
void choose(Text &text, const char *name, const std::vector<int> &values) {
  std::string value = std::to_string(values.back());
  for (size_t k = values.size() - 1; k-- > 0;)
    value = "run == " + std::to_string(k) + " ? " + std::to_string(values[k]) + " : " + value;
  text.line("  KOKKOS_FORCEINLINE_FUNCTION int %s(int%s) const { return %s; }", name, values.size() > 1 ? " run" : "",
            value.c_str());
}

// The function of a run, selected by its index.
void dispatch(Text &text, const char *name, int num_runs, const char *sizes, const char *size_arguments,
              const char *parameters, const char *arguments) {
  text.line("  template <%s, class T, int N>", sizes);
  text.line(
      "  KOKKOS_FORCEINLINE_FUNCTION void %s(int run, const DevicePathGroupCall<T> &u, const DeviceAtom<N> &a%s) const "
      "{",
      name, parameters);
  for (int g = 0; g + 1 < num_runs; ++g)
    text.line("    if (run == %d) return %s_%d<%s>(u, a%s);", g, name, g, size_arguments, arguments);
  if (num_runs == 1) text.line("    (void)run;");
  text.line("    %s_%d<%s>(u, a%s);", name, num_runs - 1, size_arguments, arguments);
  text.line("  }");
}

// is_plain: for tables and numbers that are not duals.
void generate_body(Text &text, const PathGroupSchedule &u, bool is_plain) {
  const std::string key = u.shape.key();
  const bool is_uvw = u.shape.is_uvw();
  const int num_forward = static_cast<int>(u.forward_runs.size()),
            num_backward = static_cast<int>(u.backward_runs.size());
  std::vector<int> num_sums, first_sum;
  std::string sums, counts;
  const int lane_channels = is_plain ? u.lane_channels : 1;
  const PathEntries entries{u, is_uvw || !is_plain};
  int total = 0;
  std::string numbers;
  for (int channels = 1; channels <= lane_channels; ++channels) {
    int forward = 0, backward = 0;
    for (const auto &run : u.forward_runs) forward = std::max(forward, u.forward_numbers(run, channels));
    for (const auto &run : u.backward_runs) backward = std::max(backward, u.backward_numbers(run, channels));
    numbers += text_of(numbers.empty() ? "{%d, %d, " : ", {%d, %d, ", forward, backward) +
               text_of("%d, %d}", num_forward > 1 ? backward : forward, backward + channels * (2 * u.shape.l1 + 1));
  }
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
  text.line("  static constexpr bool IS_UVW = %s, READS_COUPLED = %s;", is_uvw ? "true" : "false",
            entries.are_coupled ? "true" : "false");
  text.line("  static constexpr int LANE_CHANNELS = %d;", lane_channels);
  text.line("  // that a lane holds, by the number of its channels and by pass");
  text.line("  static constexpr int NUMBERS[][4] = {%s};", numbers.c_str());
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
    for (int g = 0; g < num_forward; ++g) generate_forward(text, u, entries, g);
    dispatch(text, "forward", num_forward, "int ROWS", "ROWS", "", "");
    for (int g = 0; g < num_backward; ++g) generate_backward(text, u, entries, g, false);
    dispatch(text, "backward", num_backward, "int ROWS, int LANES", "ROWS, LANES", ", T *to, bool add", ", to, add");
    generate_gather(text, u, entries);
    if (is_plain) {
      for (int g = 0; g < num_backward; ++g) generate_backward(text, u, entries, g, true);
      generate_fused(text, u);
    }
  }
  text.line("};");
}

// The keys with `between` between them.
std::string joined(const std::vector<std::string> &keys, const char *between) {
  std::string all;
  for (const std::string &key : keys) all += (all.empty() ? "" : between) + key;
  return all;
}

// The namespace of a launch.
std::string space_of(const std::vector<std::string> &keys, bool of_edges, bool of_duals) {
  return text_from("device_%spath_groups_", of_edges ? "edge_" : of_duals ? "dual_" : "") + joined(keys, "__");
}

// The kernels that compute these path groups in one launch, for plain numbers or for duals.
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

// All kernels of other sources. Those of plain numbers compute the path groups of a launch, those of duals only one.
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

// find(key) for the kernels of other sources, which exist for the first num_types types.
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
