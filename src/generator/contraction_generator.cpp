// SPDX-License-Identifier: MIT
// Writes the kernels of symmetric contractions, as trees or on grids.
#include "src/generator/contraction_generator.h"

#include "src/algebra/coupling.h"
#include "src/algebra/gaunt_product.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace equi {

namespace {

// ---- products that couplings can make ----

// Products of `degree` factors coupled to order l: value[(i1 * D + i2) * D + ...][m].
struct CoupledProduct {
  int l, p;
  std::vector<double> value;
};

// Adds the entries of a contraction of all couplings, each with a coefficient of 1.
void add_support(const Irreps &in, int out_block, Irrep out, int degree, ContractionProduct &product) {
  const int d = in.dim();
  std::vector<CoupledProduct> coupled;
  for (int b = 0; b < in.size(); ++b) {
    const int dim = in[b].irrep.dim();
    CoupledProduct unit{in[b].irrep.l, in[b].irrep.p, std::vector<double>(static_cast<size_t>(d) * dim, 0.0)};
    for (int m = 0; m < dim; ++m) unit.value[static_cast<size_t>(in.offset(b) + m) * dim + m] = 1.0;
    coupled.push_back(unit);
  }
  size_t rows = d;
  for (int n = 2; n <= degree; ++n, rows *= d) {
    std::vector<CoupledProduct> next;
    for (const CoupledProduct &left : coupled)
      for (int b = 0; b < in.size(); ++b) {
        const int l2 = in[b].irrep.l, p = left.p * in[b].irrep.p, d1 = 2 * left.l + 1, d2 = 2 * l2 + 1;
        for (int l = std::abs(left.l - l2); l <= left.l + l2; ++l) {
          if (n == degree && (l != out.l || p != out.p)) continue;
          const std::vector<double> w = coupling(left.l, l2, l);
          const int d3 = 2 * l + 1;
          CoupledProduct result{l, p, std::vector<double>(rows * d * d3, 0.0)};
          for (size_t row = 0; row < rows; ++row)
            for (int m1 = 0; m1 < d1; ++m1) {
              const double v = left.value[row * d1 + m1];
              if (v == 0.0) continue;
              for (int m2 = 0; m2 < d2; ++m2)
                for (int m3 = 0; m3 < d3; ++m3)
                  result.value[(row * d + in.offset(b) + m2) * d3 + m3] += v * w[(m1 * d2 + m2) * d3 + m3];
            }
          next.push_back(std::move(result));
        }
      }
    coupled = std::move(next);
  }

  // Symmetrized: all products of the same factors are one.
  std::set<std::pair<std::vector<int>, int>> support;
  for (const CoupledProduct &c : coupled) {
    if (c.l != out.l || c.p != out.p) continue;
    std::map<std::pair<std::vector<int>, int>, double> sum;
    for (size_t row = 0; row < rows; ++row) {
      std::vector<int> factors(degree);
      size_t rest = row;
      for (int n = degree - 1; n >= 0; --n, rest /= d) factors[n] = static_cast<int>(rest % d);
      std::sort(factors.begin(), factors.end());
      for (int m = 0; m < out.dim(); ++m)
        if (c.value[row * out.dim() + m] != 0.0) sum[{factors, m}] += c.value[row * out.dim() + m];
    }
    for (const auto &[place, value] : sum)
      if (std::abs(value) > 1e-10) support.insert(place);
  }
  ContractionTerm term{out_block, degree, 1, {}, {}};
  for (const auto &[factors, m] : support) {
    ContractionEntry entry;
    entry.component = m;
    std::copy(factors.begin(), factors.end(), entry.factor.begin());
    entry.coefficient = 1.0;
    term.entries.push_back(entry);
  }
  product.terms.push_back(std::move(term));
}

// ---- text ----

void list_inputs(GeneratedText &text, const ContractionSchedule &s, bool is_device) {
  if (!is_device) text.line("      const int64_t row = u.row[n];");
  int component = 0;
  for (size_t b = 0; b < s.in_l.size(); ++b) {
    const int block = static_cast<int>(b);
    text.line("      const auto x%d = u.x.data[%d] + row * u.x.width[%d] + lane;", block, block, block);
    for (int m = 0; m <= 2 * s.in_l[b]; ++m)
      text.line("      const V a%d = load(x%d + %d * u.x.stride[%d]);", component++, block, m, block);
  }
  for (size_t b = 0; b < s.out_l.size(); ++b) {
    const int block = static_cast<int>(b);
    text.line("      const auto out%d = u.out.data[%d] + row * u.out.width[%d] + lane;", block, block, block);
  }
}

// Defines c, the address of the coefficients of trees.
void point_to_coefficients(GeneratedText &text, bool is_device) {
  if (!is_device) text.line("      const auto *c = u.coefficients + lane;");
}

// On a host the kernel loops over all atoms of the call and the registers of a channel block. On a device it computes
// one atom and one channel.
void begin_kernel(GeneratedText &text, const char *name, bool is_device) {
  text.line("template <class T>");
  if (is_device) {
    text.line("KOKKOS_FUNCTION void %s(const DeviceContractionCall<T> &u, int64_t row, int lane,", name);
    text.line("                        [[maybe_unused]] const T *c) const {");    // products have no coefficients
    text.line("  using V = T;");
    text.line("    {");
    return;
  }
  text.line("void %s(const ContractionCall<T> &u) {", name);
  text.line("  using V = Simd<T>;");
  text.line("  for (int n = 0; n < u.count; ++n)");
  text.line("    for (int lane = 0; lane < CHANNEL_PAD; lane += LANES<T>) {");
}

void end_kernel(GeneratedText &text) {
  text.line("    }");
  text.line("}");
}

// The data that backward kernels read besides the inputs, and the sums to which they add.
void list_cotangents(GeneratedText &text, const ContractionSchedule &s) {
  int c = 0;
  for (size_t b = 0; b < s.out_l.size(); ++b)
    for (int m = 0; m <= 2 * s.out_l[b]; ++m)
      text.line("      const V c%d = load(out%d + %d * u.out.stride[%d]);", c++, static_cast<int>(b), m,
                static_cast<int>(b));
  for (int i = 0; i < s.num_inputs(); ++i) text.line("      V d%d{};", i);
}

void store_adjoints(GeneratedText &text, const ContractionSchedule &s) {
  int component = 0;
  for (size_t b = 0; b < s.in_l.size(); ++b)
    for (int m = 0; m <= 2 * s.in_l[b]; ++m)
      text.line("      store(x%d + %d * u.x.stride[%d], d%d);", static_cast<int>(b), m, static_cast<int>(b),
                component++);
}

// f(component) returns an output as an expression.
template <class F>
void store_outputs(GeneratedText &text, const ContractionSchedule &s, const F &f) {
  int o = 0;
  for (size_t b = 0; b < s.out_l.size(); ++b)
    for (int m = 0; m <= 2 * s.out_l[b]; ++m)
      text.line("      store(out%d + %d * u.out.stride[%d], %s);", static_cast<int>(b), m, static_cast<int>(b),
                f(o++).c_str());
}

// The name of a node's product: a single factor has its own name.
std::string product_name(int depth, int factor) {
  return depth == 1 ? "a" + std::to_string(factor) : "p" + std::to_string(depth);
}

void generate_forward(GeneratedText &text, const ContractionSchedule &s, bool is_device) {
  // A few sums for each output, so an addition need not wait for the previous one.
  const int num_outputs = s.num_outputs(), num_sums = std::max(1, 4 / num_outputs);
  begin_kernel(text, "forward", is_device);
  list_inputs(text, s, is_device);
  point_to_coefficients(text, is_device);
  for (int o = 0; o < num_outputs; ++o)
    for (int k = 0; k < num_sums; ++k) text.line("      V o%d_%d{};", o, k);
  int entry = 0, depth = 0;
  std::vector<std::string> product(s.degree + 1);
  for (const ContractionNode &node : s.nodes) {
    for (; depth >= node.depth; --depth) text.line("      }");
    depth = node.depth;
    text.line("      {");
    product[depth] = product_name(depth, node.factor);
    if (depth > 1) text.line("      const V p%d = %s * a%d;", depth, product[depth - 1].c_str(), node.factor);
    for (int k = 0; k < node.num_entries; ++k, ++entry)
      text.line("      o%d_%d += %s * load(c + %d * CHANNEL_PAD);", s.outputs[entry], entry % num_sums,
                product[depth].c_str(), entry);
  }
  for (; depth > 0; --depth) text.line("      }");
  store_outputs(text, s, [&](int o) {
    std::string sum = "o" + std::to_string(o) + "_0";
    for (int k = 1; k < num_sums; ++k) sum += " + o" + std::to_string(o) + "_" + std::to_string(k);
    return sum;
  });
  end_kernel(text);
}

// Node by node, like the generic kernel (host_contraction_impl.h).
void generate_backward(GeneratedText &text, const ContractionSchedule &s, bool is_device) {
  begin_kernel(text, "backward", is_device);
  list_inputs(text, s, is_device);
  point_to_coefficients(text, is_device);
  list_cotangents(text, s);
  int entry = 0, depth = 0;
  std::vector<std::string> product(s.degree + 1);
  std::vector<int> factor(s.degree + 1);
  const auto leave = [&] {
    if (depth == 1) {
      text.line("      d%d += v1;", factor[1]);
    } else {
      text.line("      d%d += %s * v%d;", factor[depth], product[depth - 1].c_str(), depth);
      text.line("      v%d += a%d * v%d;", depth - 1, factor[depth], depth);
    }
    text.line("      }");
    --depth;
  };
  for (size_t n = 0; n < s.nodes.size(); ++n) {
    const ContractionNode &node = s.nodes[n];
    while (depth >= node.depth) leave();
    depth = node.depth;
    factor[depth] = node.factor;
    product[depth] = product_name(depth, node.factor);
    text.line("      {");
    const bool is_leaf = n + 1 == s.nodes.size() || s.nodes[n + 1].depth <= depth;
    if (depth > 1 && !is_leaf)
      text.line("      const V p%d = %s * a%d;", depth, product[depth - 1].c_str(), node.factor);
    if (node.num_entries == 0) text.line("      V v%d{};", depth);
    for (int k = 0; k < node.num_entries; ++k, ++entry)
      text.line("      %s%d %s c%d * load(c + %d * CHANNEL_PAD);", k == 0 ? "V v" : "v", depth,
                k == 0 ? "=" : "+=", s.outputs[entry], entry);
  }
  while (depth > 0) leave();
  store_adjoints(text, s);
  end_kernel(text);
}

// ---- text of grids ----

// Adds coefficient * product to a sum, for coefficients that may be +-1, +-2 and +-1/2. The products with equal
// coefficients are summed first.
class WeightedSum {
 public:
  void add(double coefficient, const std::string &product) {
    std::string &sum = of_size_[std::fabs(coefficient)];
    sum += sum.empty() ? (coefficient < 0.0 ? "-" : "") : (coefficient < 0.0 ? " - " : " + ");
    sum += product;
  }
  std::string text() const {
    std::string all;
    for (const auto &[size, sum] : of_size_) {
      if (!all.empty()) all += " + ";
      all += size == 1.0 ? sum : text_from("T(%a) * (", size) + sum + ")";
    }
    return all.empty() ? "V{}" : all;
  }

 private:
  std::map<double, std::string> of_size_;
};

// Writes one ring, or two, one of each hemisphere. The names of values have function and hemisphere: f0n, f0s. Values
// without odd parts, and all on the equator, are the same in both.
class RingText {
 public:
  RingText(GeneratedText &text, bool is_equator) : text_(text), is_equator_(is_equator) {}

  // letter: names the function; from: names the components.
  void values(const SphereFunction &function, char letter, char from) {
    for (int v = 0, p = 0; v < function.num_values(); ++v) {
      const RingValue &value = function.values[v];
      const auto sum_to = [&](int end) {
        WeightedSum sum;
        for (; p < end; ++p)
          sum.add(1.0, text_from("q[%d] * %c%d", function.parts[p].column, from, function.parts[p].component));
        return sum.text();
      };
      const std::string even = sum_to(value.even_end);
      if (has_sides(value)) {
        const std::string odd = sum_to(value.parts_end);
        text_.line("      const V %ce%d = %s, %co%d = %s;", letter, v, even.c_str(), letter, v, odd.c_str());
        text_.line("      const V %c%dn = %ce%d + %co%d, %c%ds = %ce%d - %co%d;", letter, v, letter, v, letter, v,
                   letter, v, letter, v, letter, v);
      } else {
        text_.line("      const V %c%dn = %s;", letter, v, even.c_str());
      }
      p = value.parts_end;
    }
  }

  // Computes the values of `target` from those of two functions, and adds their parts to components.
  void product(const SphereFunction &target, const SphereFunction &first, char first_letter,
               const SphereFunction &second, char second_letter, char to) {
    for (int v = 0, t = 0, p = 0; v < target.num_values(); ++v) {
      const RingValue &value = target.values[v];
      WeightedSum north, south;
      for (; t < value.terms_end; ++t) {
        const CircleTerm &term = target.terms[t];
        for (const char side : {'n', 's'})
          (side == 'n' ? north : south)
              .add(term.coefficient, name(first, first_letter, term.first, side) + " * " +
                                         name(second, second_letter, term.second, side));
      }
      text_.line("      {");
      text_.line("      const V n = %s;", north.text().c_str());
      if (!is_equator_) text_.line("      const V s = %s;", south.text().c_str());
      text_.line("      const V e = n%s;", is_equator_ ? "" : " + s");
      if (has_sides(value)) text_.line("      const V o = n - s;");
      for (; p < value.parts_end; ++p)
        if (p < value.even_end || !is_equator_)
          text_.line("      %c%d += q[%d] * %c;", to, target.parts[p].component, target.parts[p].column,
                     p < value.even_end ? 'e' : 'o');
      text_.line("      }");
    }
  }

 private:
  bool has_sides(const RingValue &value) const { return !is_equator_ && value.parts_end > value.even_end; }
  std::string name(const SphereFunction &function, char letter, int v, char side) const {
    return letter + std::to_string(v) + (has_sides(function.values[v]) ? side : 'n');
  }

  GeneratedText &text_;
  bool is_equator_;
};

// f(ring) writes the statements for a ring.
template <class F>
void generate_rings(GeneratedText &text, const SphereGrid &grid, const F &f) {
  const int pairs = grid.num_rings - grid.has_equator;
  if (pairs > 0) {
    text.line("      for (int k = 0; k < %d; ++k) {", pairs);
    text.line("      const auto *q = u.coefficients + %d * k;", grid.num_columns);
    f(RingText(text, false));
    text.line("      }");
  }
  if (grid.has_equator) {
    text.line("      {");
    text.line("      const auto *q = u.coefficients + %d;", grid.num_columns * pairs);
    f(RingText(text, true));
    text.line("      }");
  }
}

void generate_grid_forward(GeneratedText &text, const ContractionSchedule &s, bool is_device) {
  const SphereGrid &grid = *s.grid;
  begin_kernel(text, "forward", is_device);
  list_inputs(text, s, is_device);
  for (int o = 0; o < s.num_outputs(); ++o) text.line("      V y%d{};", o);
  generate_rings(text, grid, [&](RingText ring) {
    ring.values(grid.first, 'f', 'a');
    if (!grid.is_square) ring.values(grid.second, 'g', 'a');
    ring.product(grid.out, grid.first, 'f', grid.is_square ? grid.first : grid.second, grid.is_square ? 'f' : 'g', 'y');
  });
  store_outputs(text, s, [](int o) { return "y" + std::to_string(o); });
  end_kernel(text);
}

void generate_grid_backward(GeneratedText &text, const ContractionSchedule &s, bool is_device) {
  const SphereGrid &grid = *s.grid;
  begin_kernel(text, "backward", is_device);
  list_inputs(text, s, is_device);
  list_cotangents(text, s);
  generate_rings(text, grid, [&](RingText ring) {
    ring.values(grid.first, 'f', 'a');
    if (!grid.is_square) ring.values(grid.second, 'g', 'a');
    ring.values(grid.out, 'h', 'c');
    if (grid.is_square) return ring.product(grid.first, grid.first, 'f', grid.out, 'h', 'd');
    ring.product(grid.first, grid.second, 'g', grid.out, 'h', 'd');
    ring.product(grid.second, grid.first, 'f', grid.out, 'h', 'd');
  });
  store_adjoints(text, s);
  end_kernel(text);
}

}    // namespace

ContractionProduct contraction_of(const std::string &name) {
  int l[3], end = 0;
  if (std::sscanf(name.c_str(), "gaunt_%1d_%1d_%1d%n", &l[0], &l[1], &l[2], &end) == 3 &&
      end == static_cast<int>(name.size()))
    return gaunt_product(1, l[0], l[1], l[2]).polynomials();
  const size_t first = name.find('_'), second = name.find('_', first + 1);
  const bool is_digits = name.find_first_not_of("0123456789_") == std::string::npos;
  if (!is_digits || first != 1 || second == std::string::npos || second < 3 || second + 2 != name.size() ||
      name.back() < '1' || name.back() > '0' + MAX_CONTRACTION_DEGREE)
    throw std::invalid_argument("expected the name of a contraction like 3_01_2 or gaunt_4_4_4, found '" + name + "'");
  std::vector<IrrepBlock> in, out;
  for (int l = 0; l <= name[0] - '0'; ++l) in.push_back({1, {l, l % 2 ? -1 : 1}});
  for (size_t k = 2; k < second; ++k) out.push_back({1, {name[k] - '0', (name[k] - '0') % 2 ? -1 : 1}});
  ContractionProduct product;
  product.irreps_in = Irreps(in);
  product.irreps_out = Irreps(out);
  for (int b = 0; b < product.irreps_out.size(); ++b)
    for (int degree = 1; degree <= name.back() - '0'; ++degree)
      add_support(product.irreps_in, b, product.irreps_out[b].irrep, degree, product);
  return product;
}

void generate_contraction_namespace(GeneratedText &text, const ContractionSchedule &schedule, bool is_device) {
  const std::string key = schedule.key(), device = is_device ? "device_" : "";
  text.line("namespace %scontraction_%s {", device.c_str(), key.c_str());
  text.line("namespace {");
  if (is_device) {
    text.line("struct Body {");
    text.line("  static constexpr const char *KEY = \"%s\";", key.c_str());
  }
  (schedule.grid ? generate_grid_forward : generate_forward)(text, schedule, is_device);
  (schedule.grid ? generate_grid_backward : generate_backward)(text, schedule, is_device);
  if (is_device) text.line("};");
  text.line("}    // namespace");
  for (const std::string type : {"float", "double"}) {
    const char *name = type == "float" ? "FLOAT" : "DOUBLE";
    const std::string kernel = (is_device ? "DeviceContractionKernel<" : "ContractionKernel<") + type + "> " + name,
                      functions = is_device ? "DeviceContractionOf<Body, " + type + ">::kernel()"
                                            : "{\"" + key + "\", forward<" + type + ">, backward<" + type + ">}";
    text.line("extern const %s_KERNEL;", kernel.c_str());
    text.line("const %s_KERNEL = %s;", kernel.c_str(), functions.c_str());
  }
  text.line("}    // namespace %scontraction_%s", device.c_str(), key.c_str());
}

}    // namespace equi
