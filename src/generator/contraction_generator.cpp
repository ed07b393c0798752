// SPDX-License-Identifier: MIT
#include "src/generator/contraction_generator.h"

#include "src/algebra/coupling.h"

#include <algorithm>
#include <cmath>
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

// Entries of a contraction of all couplings, with a coefficient of 1 each.
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

  // Symmetrized: the products of one set of factors are one.
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
    text.line("      const auto y%d = u.out.data[%d] + row * u.out.width[%d] + lane;", block, block, block);
  }
  if (!is_device) text.line("      const auto *c = u.coefficients + lane;");
}

// On a host for all atoms of the call and the registers of a channel block, on a device for one atom and one channel.
void begin_kernel(GeneratedText &text, const char *name, bool is_device) {
  text.line("template <class T>");
  if (is_device) {
    text.line("KOKKOS_FUNCTION void %s(const DeviceContractionCall<T> &u, int64_t row, int lane, const T *c) const {",
              name);
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

// The product of a node as a name: that of a single factor is the factor.
std::string product_name(int depth, int factor) {
  return depth == 1 ? "a" + std::to_string(factor) : "p" + std::to_string(depth);
}

void generate_forward(GeneratedText &text, const ContractionSchedule &s, bool is_device) {
  // A few sums for each output, so that an addition need not wait for the one before.
  const int num_outputs = s.num_outputs(), num_sums = std::max(1, 4 / num_outputs);
  begin_kernel(text, "forward", is_device);
  list_inputs(text, s, is_device);
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
  int o = 0;
  for (size_t b = 0; b < s.out_l.size(); ++b)
    for (int m = 0; m <= 2 * s.out_l[b]; ++m, ++o) {
      std::string sum = "o" + std::to_string(o) + "_0";
      for (int k = 1; k < num_sums; ++k) sum += " + o" + std::to_string(o) + "_" + std::to_string(k);
      text.line("      store(y%d + %d * u.out.stride[%d], %s);", static_cast<int>(b), m, static_cast<int>(b),
                sum.c_str());
    }
  end_kernel(text);
}

// Node by node as the generic kernel (host_contraction_impl.h) does it.
void generate_backward(GeneratedText &text, const ContractionSchedule &s, bool is_device) {
  begin_kernel(text, "backward", is_device);
  list_inputs(text, s, is_device);
  int o = 0;
  for (size_t b = 0; b < s.out_l.size(); ++b)
    for (int m = 0; m <= 2 * s.out_l[b]; ++m)
      text.line("      const V g%d = load(y%d + %d * u.out.stride[%d]);", o++, static_cast<int>(b), m,
                static_cast<int>(b));
  for (int i = 0; i < s.num_inputs(); ++i) text.line("      V d%d{};", i);
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
      text.line("      %s%d %s g%d * load(c + %d * CHANNEL_PAD);", k == 0 ? "V v" : "v", depth,
                k == 0 ? "=" : "+=", s.outputs[entry], entry);
  }
  while (depth > 0) leave();
  int component = 0;
  for (size_t b = 0; b < s.in_l.size(); ++b)
    for (int m = 0; m <= 2 * s.in_l[b]; ++m)
      text.line("      store(x%d + %d * u.x.stride[%d], d%d);", static_cast<int>(b), m, static_cast<int>(b),
                component++);
  end_kernel(text);
}

}    // namespace

ContractionProduct contraction_of(const std::string &name) {
  const size_t first = name.find('_'), second = name.find('_', first + 1);
  const bool is_digits = name.find_first_not_of("0123456789_") == std::string::npos;
  if (!is_digits || first != 1 || second == std::string::npos || second < 3 || second + 2 != name.size() ||
      name.back() < '1' || name.back() > '0' + MAX_CONTRACTION_DEGREE)
    throw std::invalid_argument("expected the name of a contraction like 3_01_2, found '" + name + "'");
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
  generate_forward(text, schedule, is_device);
  generate_backward(text, schedule, is_device);
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
