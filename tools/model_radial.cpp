// SPDX-License-Identifier: MIT
// Prints the radial functions of a model's convolutions.
#include "tools/model_radial.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <variant>
#include <vector>

namespace equi {

namespace {

void print_summary(double r, const std::vector<double> &weights, const std::vector<int> &columns) {
  std::printf("%.6g", r);
  const double *w = weights.data();
  for (const int n : columns) {
    double squares = 0.0;
    for (int k = 0; k < n; ++k) squares += w[k] * w[k];
    const auto [least, largest] = std::minmax_element(w, w + n);
    std::printf(" %.6g %.6g %.6g", std::sqrt(squares / n), *least, *largest);
    w += n;
  }
  std::printf("\n");
}

}    // namespace

void print_radial(const Model &model, const std::string &receiver, const std::string &sender, int count) {
  const int i = model.species(receiver), j = model.species(sender);
  if (i < 0 || j < 0) throw std::invalid_argument("the model does not know " + (i < 0 ? receiver : sender));
  if (count < 1) throw std::invalid_argument("expected a positive number of distances");
  for (size_t layer = 0; layer < model.layers.size(); ++layer) {
    const auto *convolution = std::get_if<Convolution>(&model.layers[layer]);
    if (!convolution) continue;
    const RadialFunction &any = convolution->radial;
    std::vector<int> columns;
    if (!any.reads_features())
      for (size_t path = 0; path < convolution->product.paths.size(); ++path)
        columns.push_back(static_cast<int>(convolution->product.num_weights(static_cast<int>(path))));
    std::printf("convolution %zu %zu\n", layer, columns.size());
    if (columns.empty()) continue;
    const RadialFunction f = any.depends_on_pair() ? any.for_pair(i, j) : any;
    std::vector<double> weights(f.num_outputs());
    // The first distance; atoms of a run are never closer. Nearer to zero, bases of Bessel functions are large.
    constexpr double FIRST = 0.5;
    const double last = f.basis.cutoff, first = std::min(FIRST, 0.1 * last);
    for (int k = 0; k < count; ++k) {
      const double r = count > 1 ? first + (last - first) * k / (count - 1) : last;
      f.derivatives(r, 0, -1, weights.data());
      print_summary(r, weights, columns);
    }
  }
}

}    // namespace equi
