// SPDX-License-Identifier: MIT
// Makes the schedules of path groups and counts their operations and registers.
#include "src/generator/kernel_schedule.h"

#include "src/algebra/coupling.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace equi {

namespace {

// Couplings are accurate to 1e-14; entries that agree to this tolerance are equal.
constexpr double SAME = 1e-11;

// The last bits of the number are noise of the recursion. Rounds it to the exact value if that is a multiple of 1/4.
double cleaned(double v) {
  const double rounded = std::round(v * 4.0) / 4.0;
  return std::fabs(v - rounded) < SAME ? rounded : v;
}

// The index of +-form among the known ones, to which it is appended if new; sets the sign.
int find_form(std::vector<LinearForm> &known, LinearForm form, int &sign) {
  sign = form.terms[0].coefficient < 0.0 ? -1 : 1;
  for (auto &t : form.terms) t.coefficient *= sign;
  for (size_t f = 0; f < known.size(); ++f) {
    if (known[f].terms.size() != form.terms.size()) continue;
    bool same = true;
    for (size_t t = 0; t < form.terms.size() && same; ++t)
      same = known[f].terms[t].index == form.terms[t].index &&
             std::fabs(known[f].terms[t].coefficient - form.terms[t].coefficient) < SAME;
    if (same) return static_cast<int>(f);
  }
  known.push_back(form);
  return static_cast<int>(known.size()) - 1;
}

PathSchedule make_path_schedule(int l1, const PathGroupShape::Path &path, std::vector<LinearForm> &coupled) {
  PathSchedule s;
  s.l2 = path.l2;
  s.l3 = path.l3;
  s.scale = 0.0;
  std::vector<CouplingEntry> entries = coupling_entries(l1, path.l2, path.l3);
  s.num_couplings = static_cast<int>(entries.size());
  for (const CouplingEntry &c : entries) s.scale = std::max(s.scale, std::fabs(c.value));
  for (CouplingEntry &c : entries) c.value = cleaned(c.value / s.scale);
  const int d1 = 2 * l1 + 1, d2 = 2 * path.l2 + 1, d3 = 2 * path.l3 + 1;
  s.weight_last = d3 < d1;
  s.weight_last_gather = d1 < d3;

  for (int m1 = 0; m1 < d1; ++m1)
    for (int m3 = 0; m3 < d3; ++m3) {
      LinearForm form;
      for (const CouplingEntry &c : entries)
        if (c.m1 == m1 && c.m3 == m3) form.terms.push_back({path.l2 * path.l2 + c.m2, c.value});
      if (form.terms.empty()) continue;
      PathSchedule::Entry entry{m1, m3, -1, 1};
      if (!s.is_diagonal()) entry.coupled = find_form(coupled, form, entry.sign);
      s.m.push_back(entry);
    }
  for (int m1 = 0; m1 < d1; ++m1)
    for (int m2 = 0; m2 < d2; ++m2) {
      LinearForm form;
      for (const CouplingEntry &c : entries)
        if (c.m1 == m1 && c.m2 == m2) form.terms.push_back({c.m3, c.value});
      if (form.terms.empty()) continue;
      PathSchedule::DEntry entry{m1, m2, 0, 1};
      entry.d = find_form(s.d, form, entry.sign);
      s.d_entries.push_back(entry);
    }
  std::stable_sort(s.d_entries.begin(), s.d_entries.end(), [](const auto &a, const auto &b) { return a.d < b.d; });
  return s;
}

}    // namespace

std::string PathGroupShape::key() const {
  std::string key = (is_uvw() ? "uvw_" : "") + std::to_string(l1);
  if (l1 > 9) return "";
  for (const Path &p : paths) {
    if (p.l2 > 9 || p.l3 > 9) return "";
    key += "_" + std::to_string(p.l2) + std::to_string(p.l3);
  }
  return key;
}

PathGroupShape PathGroupShape::from_key(const std::string &key) {
  const auto fail = [&] { throw std::invalid_argument("expected a key like 1_01_10_11, found '" + key + "'"); };
  PathGroupShape shape;
  const bool is_uvw = key.rfind("uvw_", 0) == 0;
  if (is_uvw) shape.connection = Connection::uvw;
  std::istringstream parts(is_uvw ? key.substr(4) : key);
  std::string part;
  for (int n = 0; std::getline(parts, part, '_'); ++n) {
    for (char c : part)
      if (!std::isdigit(static_cast<unsigned char>(c))) fail();
    if (part.size() != (n == 0 ? 1u : 2u)) fail();
    if (n == 0)
      shape.l1 = part[0] - '0';
    else
      shape.paths.push_back({part[0] - '0', part[1] - '0'});
  }
  if (shape.key() != key || shape.paths.empty() || (is_uvw && shape.paths.size() > 1)) fail();
  return shape;
}

std::vector<ProductPathGroup> path_groups_of(const TensorProduct &product) {
  std::vector<ProductPathGroup> path_groups;
  const auto orders = [&](int q) {
    return PathGroupShape::Path{product.paths[q].l2, product.irreps_out[product.paths[q].out].irrep.l};
  };
  const auto add = [&](int block, Connection connection, const std::vector<int> &paths) {
    ProductPathGroup &path_group = path_groups.emplace_back();
    path_group.block = block;
    path_group.shape.l1 = product.irreps_in[block].irrep.l;
    path_group.shape.connection = connection;
    for (int q : paths) path_group.shape.paths.push_back(orders(q));
    path_group.paths = paths;
  };
  for (int block = 0; block < product.irreps_in.size(); ++block) {
    std::vector<int> uvu, uvw;
    for (size_t q = 0; q < product.paths.size(); ++q)
      if (product.paths[q].in == block)
        (product.paths[q].connection == Connection::uvw ? uvw : uvu).push_back(static_cast<int>(q));
    std::stable_sort(uvu.begin(), uvu.end(), [&](int a, int b) { return orders(a) < orders(b); });
    if (!uvu.empty()) add(block, Connection::uvu, uvu);
    for (int q : uvw) add(block, Connection::uvw, {q});
  }
  return path_groups;
}

int PathGroupSchedule::num_d() const {
  size_t n = 0;
  for (const PathSchedule &p : paths) n += p.d.size();
  return static_cast<int>(n);
}

int PathGroupSchedule::coupling_products() const {
  return paths[0].is_diagonal() ? 0 : static_cast<int>(paths[0].m.size());
}

int PathGroupSchedule::forward_products(int rows_per_bin, int outputs) const {
  if (shape.is_uvw()) return coupling_products() + outputs * (rows_per_bin - 1 + 2 * paths[0].l3 + 1);
  int n = 0;
  for (const PathSchedule &p : paths) {
    n += rows_per_bin - 1 + static_cast<int>(p.m.size());
    if (!p.is_diagonal()) n += 2 * std::min(shape.l1, p.l3) + 1;
  }
  return n;
}

int PathGroupSchedule::backward_products(int rows_per_bin, int outputs) const {
  if (shape.is_uvw()) {
    const PathSchedule &p = paths[0];
    int d_products = 0;
    for (const LinearForm &form : p.d) d_products += static_cast<int>(form.terms.size());
    const int once =
        coupling_products() + d_products + (p.is_diagonal() ? 0 : 2 * static_cast<int>(p.d_entries.size()));
    // A scalar output needs the sums of the polynomial's rows, and then the polynomial.
    const int per_output = p.l3 == 0 ? rows_per_bin : 2 * rows_per_bin - 3 + 2 * (2 * p.l3 + 1) + 1;
    return once + outputs * per_output;
  }
  int n = 0;
  for (const PathSchedule &p : paths) {
    const int d1 = 2 * shape.l1 + 1, pairs = static_cast<int>(p.d_entries.size());
    n += 2 * rows_per_bin - 3 + 1;    // w, dw/df, dw/df (S.x)
    n += 2 * d1;                      // x_adj, S.x
    if (p.is_scalar_product())
      n += d1 + 2;    // y_adj; w g, w' g
    else if (!p.is_diagonal())
      n += 2 * pairs + d1;    // S, y_adj; w x
  }
  return n;
}

std::vector<int> PathGroupSchedule::harmonics(const Run &run) const {
  std::vector<int> used;
  for (int q = run.first; q < run.last; ++q)
    for (const auto &entry : paths[q].d_entries)
      if (paths[q].l2 > 0) used.push_back(paths[q].l2 * paths[q].l2 + entry.m2);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

int PathGroupSchedule::forward_numbers(const Run &run, int channels) const {
  const int d1 = 2 * shape.l1 + 1;
  constexpr int FORMS = 4;                                                                  // one load
  if (shape.is_uvw()) return (forward_outputs + 1) * (2 * paths[0].l3 + 1) + d1 + FORMS;    // accumulators and z
  int accumulators = 0, products = 0;
  for (int q = run.first; q < run.last; ++q) {
    const int d3 = 2 * paths[q].l3 + 1;
    accumulators += d3;
    if (!paths[q].is_diagonal()) products = std::max(products, std::min(d1, d3));
  }
  return channels * (accumulators + d1 + products) + FORMS;
}

int PathGroupSchedule::backward_numbers(const Run &run, int channels) const {
  constexpr int WEIGHT = 2;                                                              // weight and its derivative
  if (shape.is_uvw()) return (backward_outputs + 2) * (2 * paths[0].l3 + 1) + WEIGHT;    // cotangents, h and dh
  const int sums = 1 + static_cast<int>(harmonics(run).size());                          // sums over the channels
  int kept = 0, products = 0;
  for (int q = run.first; q < run.last; ++q) {
    kept += static_cast<int>(paths[q].d.size());
    if (!paths[q].is_diagonal() && !paths[q].is_scalar_product()) products = std::max(products, 2 * paths[q].l2 + 1);
  }
  return sums + channels * (kept + 2 * shape.l1 + 1 + products);
}

namespace {

// Runs of paths, each as long as fits(run) allows; a single path always forms a run.
template <class F>
std::vector<PathGroupSchedule::Run> make_runs(int num_paths, const F &fits) {
  std::vector<PathGroupSchedule::Run> runs;
  for (int q = 0; q < num_paths; ++q) {
    if (runs.empty() || !fits(PathGroupSchedule::Run{runs.back().first, q + 1})) runs.push_back({q, q});
    runs.back().last = q + 1;
  }
  return runs;
}

}    // namespace

PathGroupSchedule make_path_group_schedule(const PathGroupShape &shape, const KernelTarget &target, bool of_duals) {
  const int numbers = target.numbers() / (of_duals ? 2 : 1);
  PathGroupSchedule u;
  u.shape = shape;
  for (const PathGroupShape::Path &path : shape.paths) {
    if (path.l3 < std::abs(shape.l1 - path.l2) || path.l3 > shape.l1 + path.l2)
      throw std::invalid_argument("a path of orders " + std::to_string(shape.l1) + ", " + std::to_string(path.l2) +
                                  ", " + std::to_string(path.l3) + " violates the triangle rule");
    u.paths.push_back(make_path_schedule(shape.l1, path, u.coupled));
  }
  const int num_paths = static_cast<int>(u.paths.size());
  if (shape.is_uvw()) {
    const int d3 = 2 * u.paths[0].l3 + 1;
    const auto most = [](const auto &fits) {
      int outputs = UVW_BLOCK;
      while (outputs > 1 && !fits(outputs)) outputs /= 2;
      return outputs;
    };
    if (target.is_device()) {
      u.forward_runs = u.backward_runs = {u.whole()};
      u.forward_outputs = most([&](int outputs) {
        u.forward_outputs = outputs;
        return u.forward_numbers(u.whole()) <= numbers;
      });
      u.backward_outputs = UVW_BLOCK;
    } else {
      // Backward also needs z, h, the fraction and four registers for weights and sums.
      u.forward_outputs = most([&](int outputs) { return outputs * d3 <= 3 * target.registers / 4; });
      u.backward_outputs = most([&](int outputs) { return (outputs + 2) * d3 + 5 <= target.registers; });
    }
  } else if (target.is_device()) {
    u.forward_runs = make_runs(num_paths, [&](const auto &run) { return u.forward_numbers(run) <= numbers; });
    u.backward_runs = make_runs(num_paths, [&](const auto &run) { return u.backward_numbers(run) <= numbers; });
    if (std::max(u.forward_numbers(u.whole(), 2), u.backward_numbers(u.whole(), 2)) <= numbers) u.lane_channels = 2;
  } else {
    // Accumulators may use three quarters of the registers. Slightly more spills a little, which costs less than
    // loading the sender again. The largest path group of order 2 (22 accumulators of 32 registers) stays whole.
    u.forward_runs = make_runs(num_paths, [&](const auto &run) {
      int accumulators = 0;
      for (int q = run.first; q < run.last; ++q) accumulators += 2 * u.paths[q].l3 + 1;
      return accumulators <= 3 * target.registers / 4;
    });
    u.backward_runs = {u.whole()};
  }
  return u;
}

const KernelTarget &kernel_target(const std::string &name) {
  for (const KernelTarget *t : {&AVX2_TARGET, &AVX512_TARGET, &NEON_TARGET, &WARP32_TARGET, &WAVE64_TARGET})
    if (name == t->name) return *t;
  throw std::invalid_argument("expected the target avx2, avx512, neon, warp32 or wave64, found '" + name + "'");
}

}    // namespace equi
