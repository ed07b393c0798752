// SPDX-License-Identifier: MIT
// Solves linear systems by the method of conjugate directions.
#include "src/hessian/conjugate_directions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace equi {

namespace {

using Vector = std::vector<double>;

// v . vectors[k] for each k, over all ranks.
Vector dots(const SymmetricOperator &a, const Vector &v, const std::vector<Vector> &vectors) {
  Vector result;
  for (const Vector &w : vectors) result.push_back(std::inner_product(v.begin(), v.end(), w.begin(), 0.0));
  a.sum_over_ranks(result);
  return result;
}

void add(Vector &to, double factor, const Vector &from) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}

}    // namespace

LinearSolutions solve_by_conjugate_directions(const SymmetricOperator &a, std::vector<Vector> residuals,
                                              double residual, int max_products) {
  LinearSolutions solutions;
  for (const Vector &b : residuals) solutions.x.emplace_back(b.size(), 0.0);
  std::vector<Vector> directions, products;    // normalized: direction . product = 1
  for (;;) {
    Vector squares;
    for (const Vector &r : residuals) squares.push_back(std::inner_product(r.begin(), r.end(), r.begin(), 0.0));
    a.sum_over_ranks(squares);
    const size_t worst = std::max_element(squares.begin(), squares.end()) - squares.begin();
    solutions.residual = std::sqrt(squares[worst]);
    solutions.converged = solutions.residual <= residual;
    if (solutions.converged || solutions.products == max_products) return solutions;

    Vector p = residuals[worst], q(residuals[worst].size());
    for (int pass = 0; pass < 2; ++pass) {    // the second pass removes what rounding left
      const Vector overlaps = dots(a, p, products);
      for (size_t k = 0; k < directions.size(); ++k) add(p, -overlaps[k], directions[k]);
    }
    a.multiply(p, q);
    ++solutions.products;
    const double curvature = dots(a, p, {q}).front();
    solutions.positive = curvature > 0.0;
    if (!solutions.positive) return solutions;
    for (double &number : p) number /= std::sqrt(curvature);
    for (double &number : q) number /= std::sqrt(curvature);
    const Vector steps = dots(a, p, residuals);
    for (size_t m = 0; m < residuals.size(); ++m) {
      add(solutions.x[m], steps[m], p);
      add(residuals[m], -steps[m], q);
    }
    directions.push_back(std::move(p));
    products.push_back(std::move(q));
  }
}

}    // namespace equi
