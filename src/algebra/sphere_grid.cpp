// SPDX-License-Identifier: MIT
// Builds the grid on which a Gaunt product is exact: rings, tables and terms.
#include "src/algebra/sphere_grid.h"

#include "src/algebra/spherical_harmonics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <numeric>

namespace equi {

namespace {

int column_of(int l, int m) {
  return l * (l + 1) / 2 + std::abs(m);
}

// ---- rings ----

struct Ring {
  double y, weight;    // the weights of all rings of the sphere sum to 1
};

// Gauss's nodes with y >= 0, computed by Newton's method.
std::vector<Ring> rings_of_hemisphere(int num_nodes) {
  const double pi = std::acos(-1.0);
  std::vector<Ring> rings;
  for (int k = 0; k < (num_nodes + 1) / 2; ++k) {
    double y = 2 * k + 1 == num_nodes ? 0.0 : std::cos(pi * (k + 0.75) / (num_nodes + 0.5)), slope = 1.0;
    for (int step = 0; step < 8; ++step) {
      double last = 1.0, p = y;
      for (int n = 2; n <= num_nodes; ++n) {
        const double next = ((2 * n - 1) * y * p - (n - 1) * last) / n;
        last = p;
        p = next;
      }
      slope = num_nodes * (y * p - last) / (y * y - 1.0);
      if (y > 0.0) y -= p / slope;
    }
    rings.push_back({y, 1.0 / ((1.0 - y * y) * slope * slope)});
  }
  return rings;
}

// ---- functions ----

struct GridComponent {
  int number, l, m;
};

// The components of these blocks in one channel.
std::vector<GridComponent> components_of(const Irreps &irreps, const std::vector<int> &blocks) {
  std::vector<GridComponent> components;
  for (const int b : blocks) {
    const int l = irreps[b].irrep.l;
    for (int m = -l; m <= l; ++m) components.push_back({irreps.offset(b) / irreps[0].mul + l + m, l, m});
  }
  return components;
}

SphereFunction make_function(const std::vector<GridComponent> &components, int lmax) {
  SphereFunction function;
  for (int m = -lmax; m <= lmax; ++m) {
    const size_t before = function.parts.size();
    RingValue value{m, 0, 0, 0};
    for (int is_odd = 0; is_odd < 2; ++is_odd) {
      for (const GridComponent &c : components)
        if (c.m == m && (c.l + std::abs(m)) % 2 == is_odd) function.parts.push_back({c.number, column_of(c.l, m)});
      (is_odd ? value.parts_end : value.even_end) = static_cast<int>(function.parts.size());
    }
    if (function.parts.size() > before) function.values.push_back(value);
  }
  return function;
}

// Four times the mean over a circle of the product of the three functions of sphere_grid_tables.h. The function of m =
// 0, which is 1, counts half, because the table has its values doubled.
double circle_mean(int m1, int m2, int m3) {
  int m[3] = {m1, m2, m3};
  std::sort(m, m + 3);
  const bool has_sines = m[0] < 0;
  if (m[2] < 0 || (has_sines && m[1] >= 0)) return 0.0;    // one sine or three
  if (has_sines) {
    const int a = -m[0], b = -m[1];
    return m[2] == a - b ? 1.0 : m[2] == a + b ? -1.0 : 0.0;
  }
  if (m[2] == 0) return 0.5;
  return m[0] + m[1] == m[2] ? 1.0 : 0.0;
}

// Adds the terms of `target`. of_square: the values of `first` are also those of the second factor, and two equal terms
// become one with twice the coefficient. doubled: each term counts twice.
void add_terms(SphereFunction &target, const SphereFunction &first, const SphereFunction &second, bool of_square,
               bool doubled) {
  for (RingValue &value : target.values) {
    for (int a = 0; a < first.num_values(); ++a)
      for (int b = of_square ? a : 0; b < second.num_values(); ++b) {
        const double mean = circle_mean(first.values[a].m, second.values[b].m, value.m);
        const bool twice = doubled || (of_square && b > a);
        if (mean != 0.0) target.terms.push_back({a, b, twice ? 2.0 * mean : mean});
      }
    value.terms_end = static_cast<int>(target.terms.size());
  }
}

// Operations of a function on two rings, or on the equator.
struct RingCount {
  int parts = 0;    // includes the sums and differences of even and odd parts
  int terms = 0;
};
RingCount count(const SphereFunction &function, bool is_equator) {
  RingCount n;
  int begin = 0;
  for (const RingValue &value : function.values) {
    const int odd = value.parts_end - value.even_end;
    n.parts += is_equator ? value.even_end - begin : value.parts_end - begin + (odd > 0 ? 2 : 0);
    begin = value.parts_end;
  }
  n.terms = (is_equator ? 1 : 2) * static_cast<int>(function.terms.size());
  return n;
}

// The sum over rings of f(first, second, out).
template <class F>
int sum_over_rings(const SphereGrid &grid, const F &f) {
  const int pairs = grid.num_rings - grid.has_equator;
  return pairs * f(count(grid.first, false), count(grid.second, false), count(grid.out, false)) +
         grid.has_equator * f(count(grid.first, true), count(grid.second, true), count(grid.out, true));
}

}    // namespace

SphereGridView SphereGrid::view() const {
  return {first.view(), second.view(), out.view(), is_square, num_rings, has_equator, num_columns};
}

int SphereGrid::forward_products() const {
  return sum_over_rings(*this,
                        [](RingCount a, RingCount b, RingCount c) { return a.parts + b.parts + c.parts + c.terms; });
}

// Counts the values of factors and cotangent, and the adjoints of the factors.
int SphereGrid::backward_products() const {
  return sum_over_rings(*this, [](RingCount a, RingCount b, RingCount c) {
    return 2 * (a.parts + b.parts) + c.parts + a.terms + b.terms;
  });
}

SphereGrid make_sphere_grid(const SphereFunctions &functions, const Irreps &irreps_in, const Irreps &irreps_out) {
  std::vector<int> outputs(irreps_out.size());
  std::iota(outputs.begin(), outputs.end(), 0);
  const std::vector<GridComponent> of_first = components_of(irreps_in, functions.first),
                                   of_second = components_of(irreps_in, functions.second),
                                   of_out = components_of(irreps_out, outputs);
  const auto order_of = [](const std::vector<GridComponent> &components) {
    int l = 0;
    for (const GridComponent &c : components) l = std::max(l, c.l);
    return l;
  };
  const int lmax[3] = {order_of(of_first), order_of(of_second), order_of(of_out)};

  SphereGrid grid;
  grid.is_square = functions.first == functions.second;
  grid.first = make_function(of_first, lmax[0]);
  grid.out = make_function(of_out, lmax[2]);
  if (grid.is_square) {
    add_terms(grid.out, grid.first, grid.first, true, false);
    add_terms(grid.first, grid.first, grid.out, false, true);
  } else {
    grid.second = make_function(of_second, lmax[1]);
    add_terms(grid.out, grid.first, grid.second, false, false);
    add_terms(grid.first, grid.second, grid.out, false, false);
    add_terms(grid.second, grid.first, grid.out, false, false);
  }

  // The three factors of a ring share its weight.
  const int degree = lmax[0] + lmax[1] + lmax[2], num_nodes = degree / 2 + 1, order = *std::max_element(lmax, lmax + 3);
  const std::vector<Ring> rings = rings_of_hemisphere(num_nodes);
  grid.num_rings = static_cast<int>(rings.size());
  grid.has_equator = num_nodes % 2 == 1;
  grid.num_columns = column_of(order, order) + 1;
  std::vector<double> harmonics(static_cast<size_t>(order + 1) * (order + 1));
  for (size_t k = 0; k < rings.size(); ++k) {
    const double y = rings[k].y, vec[3] = {0.0, y, std::sqrt(1.0 - y * y)};    // phi = 0: all cosines are 1
    spherical_harmonics(order, vec, harmonics.data(), nullptr);
    const double weight = std::cbrt(rings[k].weight / 4.0);
    for (int l = 0; l <= order; ++l)
      for (int m = 0; m <= l; ++m)
        grid.table.push_back((m == 0 ? 2.0 : 1.0) * weight * harmonics[static_cast<size_t>(l) * l + l + m]);
  }
  return grid;
}

}    // namespace equi
