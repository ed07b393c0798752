// SPDX-License-Identifier: MIT
// Block Lanczos with full orthogonalization and thick restarts. The basis grows by the residuals of the wanted Ritz
// vectors, and shrinks to the lowest of these when it is full. Blocks find equal eigenvalues.
#include "src/hessian/lowest_eigenpairs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace equi {

namespace {

using Vector = std::vector<double>;

// Eigenvalues and eigenvectors (columns of u) of a small symmetric matrix [n][n] by Jacobi's rotations; ascending.
void diagonalize(int n, Vector a, Vector &values, Vector &u) {
  u.assign(static_cast<size_t>(n) * n, 0.0);
  for (int i = 0; i < n; ++i) u[i * n + i] = 1.0;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0.0, all = 0.0;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) (i == j ? all : off) += a[i * n + j] * a[i * n + j];
    if (off <= 1e-32 * (all + off)) break;
    for (int p = 0; p < n; ++p)
      for (int q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0.0) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
        const double t = (theta >= 0.0 ? 1.0 : -1.0) / (std::fabs(theta) + std::sqrt(theta * theta + 1.0));
        const double c = 1.0 / std::sqrt(t * t + 1.0), s = t * c;
        for (int k = 0; k < n; ++k) {
          const double x = a[k * n + p], y = a[k * n + q];
          a[k * n + p] = c * x - s * y;
          a[k * n + q] = s * x + c * y;
        }
        for (int k = 0; k < n; ++k) {
          const double x = a[p * n + k], y = a[q * n + k];
          a[p * n + k] = c * x - s * y;
          a[q * n + k] = s * x + c * y;
          const double v = u[k * n + p], w = u[k * n + q];
          u[k * n + p] = c * v - s * w;
          u[k * n + q] = s * v + c * w;
        }
      }
  }
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int i, int j) { return a[i * n + i] < a[j * n + j]; });
  const Vector unsorted = u;
  values.resize(n);
  for (int j = 0; j < n; ++j) {
    values[j] = a[order[j] * n + order[j]];
    for (int i = 0; i < n; ++i) u[i * n + j] = unsorted[i * n + order[j]];
  }
}

// sum_k coefficient[k * stride] * vectors[k]
Vector combine(const std::vector<Vector> &vectors, const double *coefficient, int stride) {
  Vector sum(vectors.front().size(), 0.0);
  for (size_t k = 0; k < vectors.size(); ++k)
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += coefficient[k * stride] * vectors[k][i];
  return sum;
}

class Basis {
 public:
  explicit Basis(const SymmetricOperator &a) : a_(a) {}

  int size() const { return static_cast<int>(v_.size()); }
  const std::vector<Vector> &vectors() const { return v_; }
  const std::vector<Vector> &products() const { return w_; }

  // Adds the part of x that is new to the basis, if there is one, and its product with A.
  bool add(Vector x) {
    constexpr double NOTHING_NEW = 1e-10;
    if (!normalize(x, 0.0)) return false;
    for (int pass = 0; pass < 2; ++pass) {
      const Vector overlap = dots(x);
      for (int k = 0; k < size(); ++k)
        for (size_t i = 0; i < x.size(); ++i) x[i] -= overlap[k] * v_[k][i];
    }
    if (!normalize(x, NOTHING_NEW)) return false;
    w_.emplace_back(x.size());
    a_.multiply(x, w_.back());
    v_.push_back(std::move(x));
    ++products_;
    return true;
  }
  int num_products() const { return products_; }

  // Ritz values and vectors of the matrix A between the basis vectors.
  void ritz(Vector &values, Vector &u) const {
    const int n = size();
    Vector t(static_cast<size_t>(n) * n);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) t[i * n + j] = std::inner_product(v_[i].begin(), v_[i].end(), w_[j].begin(), 0.0);
    a_.sum_over_ranks(t);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < i; ++j) t[i * n + j] = t[j * n + i] = 0.5 * (t[i * n + j] + t[j * n + i]);
    diagonalize(n, t, values, u);
  }

  // Keeps the span of the first `kept` columns of u.
  void shrink(int kept, const Vector &u) {
    std::vector<Vector> v, w;
    for (int k = 0; k < kept; ++k) {
      v.push_back(combine(v_, &u[k], size()));
      w.push_back(combine(w_, &u[k], size()));
    }
    v_ = std::move(v);
    w_ = std::move(w);
  }

 private:
  Vector dots(const Vector &x) const {
    Vector d;
    for (const Vector &v : v_) d.push_back(std::inner_product(v.begin(), v.end(), x.begin(), 0.0));
    a_.sum_over_ranks(d);
    return d;
  }
  // False if x is shorter than `least`, or zero.
  bool normalize(Vector &x, double least) const {
    Vector square{std::inner_product(x.begin(), x.end(), x.begin(), 0.0)};
    a_.sum_over_ranks(square);
    const double length = std::sqrt(square[0]);
    if (!(length > least)) return false;
    for (double &c : x) c /= length;
    return true;
  }

  const SymmetricOperator &a_;
  std::vector<Vector> v_, w_;
  int products_ = 0;
};

}    // namespace

Eigenpairs lowest_eigenpairs(const SymmetricOperator &a, std::vector<Vector> start, const EigenOptions &options,
                             const std::function<void(int, int)> &progress) {
  // A few more than sought, so the last of them is not separated from equal ones.
  const int sought = options.count + options.num_known, block = sought + std::max(2, sought / 4),
            most = std::max(6 * block, 60);
  Basis basis(a);
  for (Vector &x : start) basis.add(std::move(x));
  Eigenpairs result;
  double largest = 0.0;
  for (;;) {
    Vector values, u;
    basis.ritz(values, u);
    const int n = basis.size(), num = std::min(block, n);
    for (const double v : values) largest = std::max(largest, std::fabs(v));
    std::vector<Vector> residuals;
    Vector squares;
    for (int k = 0; k < num; ++k) {
      Vector r = combine(basis.products(), &u[k], n);
      const Vector x = combine(basis.vectors(), &u[k], n);
      for (size_t i = 0; i < r.size(); ++i) r[i] -= values[k] * x[i];
      squares.push_back(std::inner_product(r.begin(), r.end(), r.begin(), 0.0));
      residuals.push_back(std::move(r));
    }
    a.sum_over_ranks(squares);
    const auto is_done = [&](int k) { return std::sqrt(squares[k]) <= options.tolerance * largest; };
    int done = 0;
    while (done < std::min(sought, num) && is_done(done)) ++done;
    progress(basis.num_products(), std::min(options.count, done));

    bool grows = false;
    if (done < sought && basis.num_products() < options.max_products) {
      if (n + num > most) {
        basis.shrink(std::min(2 * block, n), u);
        // The Ritz vectors are the basis now, and the residuals remain orthogonal to them.
      }
      for (int k = 0; k < num; ++k)
        if (!is_done(k)) grows = basis.add(std::move(residuals[k])) || grows;
    }
    if (grows) continue;
    // Converged, out of products, or the basis spans everything that the start vectors can reach.
    result.converged = done >= std::min(sought, num);
    result.products = basis.num_products();
    for (int k = 0; k < std::min(options.count, num); ++k) {
      result.values.push_back(values[k]);
      result.residuals.push_back(std::sqrt(squares[k]) / largest);
      result.vectors.push_back(combine(basis.vectors(), &u[k], n));
    }
    return result;
  }
}

}    // namespace equi
