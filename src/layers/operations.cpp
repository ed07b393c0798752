// SPDX-License-Identifier: MIT
// Counts the operations of path groups, contractions and networks.
#include "src/layers/operations.h"

namespace equi {

Operations path_group_operations(const PathGroupSchedule &schedule, int channels, int rows_per_bin, int outputs) {
  return 2.0 * channels *
         Operations{static_cast<double>(schedule.forward_products(rows_per_bin, outputs)),
                    static_cast<double>(schedule.backward_products(rows_per_bin, outputs))};
}

Operations contraction_operations(const ContractionSchedule &schedule, int channels) {
  return 2.0 * channels *
         Operations{static_cast<double>(schedule.forward_products()),
                    static_cast<double>(schedule.backward_products())};
}

Operations network_operations(const Network &network) {
  Operations n;
  for (size_t k = 0; k < network.weights.size(); ++k) {
    const Matrix &w = network.weights[k];
    const double products = product_operations(1, w.rows, w.cols);
    n = n + Operations{products + (network.has_bias(k) ? w.cols : 0), products};
    if (k + 1 < network.weights.size() && network.activation != Activation::identity)
      n = n + w.cols * Operations{2.0, 2.0};    // the activation and its scale, the derivative and its product
    if (k < network.norms.size() && !network.norms[k].weight.empty()) n = n + w.cols * Operations{7.0, 8.0};
  }
  return n;
}

LayerOperations polynomial_operations(const ContractionProduct &product) {
  return {contraction_operations(make_contraction_schedule(product), product.mul()), {}};
}

}    // namespace equi
