// SPDX-License-Identifier: MIT
// Writes the products of paths that host and device kernels share.
#include "src/generator/path_text.h"

namespace equi {

namespace {

// "m[16] * " in the notation of a host, empty for M = 1.
std::string factor_of(const Dialect &dialect, int form) {
  return form < 0 ? "" : dialect.form(form) + " * ";
}

void generate_path(GeneratedText &text, const Dialect &dialect, const PathSchedule &p, int d1, int base,
                   bool is_gather) {
  const int d3 = 2 * p.l3 + 1, num_in = is_gather ? d3 : d1, num_out = is_gather ? d1 : d3;
  const char in = is_gather ? 'g' : 'x';
  const auto from = [&](const PathSchedule::Entry &m) { return is_gather ? m.m3 : m.m1; };
  const auto to = [&](const PathSchedule::Entry &m) { return is_gather ? m.m1 : m.m3; };
  if (p.is_diagonal()) {
    for (int k = 0; k < num_in; ++k) text.line("        a%d += w * %c%d;", base + k, in, k);
  } else if (is_gather ? p.weight_last_gather : p.weight_last) {
    for (int k = 0; k < num_out; ++k) {
      GeneratedSum s(dialect.number, text_of("s%d", k));
      for (const auto &m : p.m)
        if (to(m) == k) s.add(text, m.sign, factor_of(dialect, m.coupled) + in + std::to_string(from(m)));
      text.line("        a%d += w * s%d;", base + k, k);
    }
  } else {
    for (int k = 0; k < num_in; ++k) {
      text.line("        const %s t%d = w * %c%d;", dialect.number, k, in, k);
      for (const auto &m : p.m)
        if (from(m) == k)
          text.line("        a%d %s %st%d;", base + to(m), add_with(m.sign), factor_of(dialect, m.coupled).c_str(), k);
    }
  }
}

}    // namespace

std::string host_coupled(int number) {
  return text_of("m[%d]", EDGE_BLOCK * number);
}

std::string device_coupled(int number) {
  return text_of("m%d.v[%d]", number / 4, number % 4);
}

std::string text_of_form(const LinearForm &form, const std::string &name) {
  std::string sum;
  for (const auto &t : form.terms) sum += summand(t.coefficient, name + std::to_string(t.index), sum.empty());
  return sum;
}

void generate_products(GeneratedText &text, const Dialect &dialect, const PathGroupSchedule &u,
                       const PathGroupSchedule::Run &run, bool is_gather) {
  int base = 0;
  for (int q = run.first; q < run.last; ++q) {
    const PathSchedule &p = u.paths[q];
    text.line("        // l2 = %d, l3 = %d", p.l2, p.l3);
    text.line("        {");
    dialect.load(p, q);
    generate_path(text, dialect, p, 2 * u.shape.l1 + 1, base, is_gather);
    text.line("        }");
    if (!is_gather) base += 2 * p.l3 + 1;
  }
}

void add_gathered(GeneratedText &text, const Dialect &dialect, const PathSchedule &p, int d1) {
  generate_path(text, dialect, p, d1, 0, true);
}

void generate_coupled(GeneratedText &text, const Dialect &dialect, const PathSchedule &p,
                      const std::function<void(int)> &store) {
  for (int c = 0; c < 2 * p.l3 + 1; ++c) {
    GeneratedSum z(dialect.number, text_of("z%d", c));
    for (const auto &m : p.m)
      if (m.m3 == c) z.add(text, m.sign, factor_of(dialect, m.coupled) + text_of("x%d", m.m1));
    store(c);
  }
}

void add_coupled(GeneratedText &text, const Dialect &dialect, const PathSchedule &p, char to) {
  for (const auto &m : p.m)
    text.line("        %c%d %s %sh%d;", to, m.m1, add_with(m.sign), factor_of(dialect, m.coupled).c_str(), m.m3);
}

int num_components(const PathGroupSchedule &u, const PathGroupSchedule::Run &run) {
  int n = 0;
  for (int q = run.first; q < run.last; ++q) n += 2 * u.paths[q].l3 + 1;
  return n;
}

}    // namespace equi
