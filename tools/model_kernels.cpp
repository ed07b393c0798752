// SPDX-License-Identifier: MIT
// Collects the kernels that a model needs, and prints their schedules and operations.
#include "tools/model_kernels.h"

#include "kokkos/plan/linear_folds.h"
#include "kokkos/plan/operation_count.h"
#include "src/generator/common_kernels.h"

#include <cstdio>
#include <stdexcept>

namespace equi {

namespace {

std::set<std::string> keys_of_build() {
  const KernelNames names = common_kernels();
  std::set<std::string> keys(names.path_groups.begin(), names.path_groups.end());
  keys.insert(names.uvw.begin(), names.uvw.end());
  keys.insert(names.contractions.begin(), names.contractions.end());
  return keys;
}

// Calls f(number, polynomials, their schedule) for contractions and node products.
template <class F>
void for_contractions(const Model &model, const F &f) {
  int number = 0;
  for (const Layer &layer : model.layers)
    if (const auto product = polynomials(layer)) f(number++, *product, make_contraction_schedule(*product));
}

// Calls f(convolution number, convolution, path_group).
template <class F>
void for_path_groups(const Model &model, const F &f) {
  int number = 0;
  for (const Layer &layer : model.layers)
    if (const auto *c = std::get_if<Convolution>(&layer)) {
      for (const ProductPathGroup &path_group : path_groups_of(c->product)) f(number, *c, path_group);
      ++number;
    }
}

}    // namespace

std::set<std::string> missing_kernels(const Model &model) {
  const std::set<std::string> have = keys_of_build();
  std::set<std::string> keys;
  for_path_groups(model, [&](int, const Convolution &, const ProductPathGroup &path_group) {
    const std::string key = path_group.shape.key();
    if (!key.empty() && !have.count(key)) keys.insert(key);
  });
  for_contractions(model, [&](int, const ContractionProduct &, const ContractionSchedule &schedule) {
    if (!have.count(schedule.key())) keys.insert(schedule.key());
  });
  return keys;
}

std::string kernel_library_of(const std::string &key, const Model &model, const KernelTarget &target) {
  std::string text;
  for_path_groups(model, [&](int, const Convolution &, const ProductPathGroup &path_group) {
    if (path_group.shape.key() == key && text.empty()) text = generate_path_group_library(path_group.shape, target);
  });
  for_contractions(model, [&](int, const ContractionProduct &, const ContractionSchedule &schedule) {
    if (schedule.key() != key || !text.empty()) return;
    KernelNames names;
    names.contractions = {key};
    text = as_library(generate_contraction(schedule, target), names, target);
  });
  if (text.empty()) throw std::invalid_argument(model.file + " has no kernel " + key);
  return text;
}

void print_schedule(const Model &model, const KernelTarget &target) {
  const std::set<std::string> have = keys_of_build();
  std::printf("Per edge and channel, with quintic tables, float32, %s (%d lanes, %d registers%s).\n", target.name,
              target.lanes, target.registers, target.is_device() ? " per lane, one channel per lane" : "");
  std::printf(
      "CG: nonzero Clebsch-Gordan coefficients. M, D: nonzero entries / distinct ones. Weight: where a forward "
      "pass\napplies the radial weight, to the sender (w x), to the sum (w s) or as a matrix over the channels (uvw). "
      "Run:\nnumber of the paths whose accumulators are in registers together%s.\n",
      target.is_device() ? ", forward and backward" : "");
  int number = -1;
  Operations layer;
  double layer_bytes = 0.0;
  const auto end_layer = [&] {
    if (number >= 0)
      std::printf(
          "  layer: %.0f flops forward, %.0f backward, %.0f bytes per edge and direction, intensity %.1f and %.1f "
          "flops/byte\n",
          layer.forward, layer.backward, layer_bytes, layer.forward / layer_bytes, layer.backward / layer_bytes);
    layer = {};
    layer_bytes = 0.0;
  };
  for_path_groups(model, [&](int n, const Convolution &c, const ProductPathGroup &path_group) {
    const PathGroupShape &shape = path_group.shape;
    if (n != number) {
      end_layer();
      number = n;
      std::printf("convolution %d: %s, harmonics to %d, %lld weights\n", n, c.product.irreps_in.to_string().c_str(),
                  c.product.lmax_edge, static_cast<long long>(c.product.num_weights()));
    }
    const PathGroupSchedule u = make_path_group_schedule(shape, target);
    const IrrepBlock &in = c.product.irreps_in[path_group.block],
                     &out = c.product.irreps_out[c.product.paths[path_group.paths[0]].out];
    const int mul = in.mul, d1 = 2 * shape.l1 + 1, outputs = shape.is_uvw() ? out.mul : 0;
    const std::string to = shape.is_uvw() ? " to " + Irreps({out}).to_string() : "";
    std::printf("  input %s%s: %zu distinct M, %d distinct D, %s\n", Irreps({in}).to_string().c_str(), to.c_str(),
                u.coupled.size(), u.num_d(),
                shape.key().empty()       ? "generic kernel"
                : have.count(shape.key()) ? "kernel of the build"
                                          : "'equi compile' makes its kernel");
    std::printf("    path   CG    M        D        weight  run    accumulators\n");
    for (size_t q = 0; q < u.paths.size(); ++q) {
      const PathSchedule &p = u.paths[q];
      std::set<int> coupled;
      for (const auto &m : p.m) coupled.insert(m.coupled);
      const auto run_of = [&](const std::vector<PathGroupSchedule::Run> &runs) {
        int run = 0;
        while (runs[run].last <= static_cast<int>(q)) ++run;
        return std::to_string(run);
      };
      std::string run = shape.is_uvw() ? "-" : run_of(u.forward_runs);
      if (target.is_device() && !shape.is_uvw()) run += ", " + run_of(u.backward_runs);
      std::printf("    %d %d %d  %-4d  %3zu/%-3zu  %3zu/%-3zu  %s     %-5s  %d\n", shape.l1, p.l2, p.l3,
                  p.num_couplings, p.m.size(), p.is_diagonal() ? size_t(0) : coupled.size(), p.d_entries.size(),
                  p.d.size(),
                  shape.is_uvw()                      ? "uvw"
                  : p.is_diagonal() || !p.weight_last ? "w x"
                                                      : "w s",
                  run.c_str(), (shape.is_uvw() ? u.forward_outputs : 1) * (2 * p.l3 + 1));
    }
    const int forward = u.forward_products(QUINTIC_ROWS, outputs),
              backward = u.backward_products(QUINTIC_ROWS, outputs);
    // Bytes of table rows and of the sender's channels; the atom's edges share the cotangent and the output.
    const double weights = shape.is_uvw() ? outputs : static_cast<double>(path_group.paths.size());
    const double bytes = 4.0 * mul * (QUINTIC_ROWS * weights + d1);
    std::printf("    multiply-adds %d forward, %d backward; loads of table and sender %.0f bytes per edge\n", forward,
                backward, bytes);
    std::printf("    bound by multiply-adds at %d per cycle: %.0f cycles per edge forward, %.0f backward\n",
                target.products, static_cast<double>(forward) * mul / target.products,
                static_cast<double>(backward) * mul / target.products);
    if (target.is_device())
      for (const auto *runs : {&u.forward_runs, &u.backward_runs}) {
        std::printf("    numbers in registers %s:", runs == &u.forward_runs ? "forward" : "backward");
        for (const auto &g : *runs)
          std::printf(" %d", runs == &u.forward_runs ? u.forward_numbers(g) : u.backward_numbers(g));
        std::printf(" (room for %d in float64)\n", target.numbers());
      }
    layer = layer + path_group_operations(u, mul, QUINTIC_ROWS, outputs);
    layer_bytes += bytes;
  });
  end_layer();
  for_contractions(model, [&](int n, const ContractionProduct &product, const ContractionSchedule &s) {
    const int forward = s.forward_products(), backward = s.backward_products(), mul = product.mul();
    std::printf("contraction %d: %s to %s, degree %d, %s\n", n, product.irreps_in.to_string().c_str(),
                product.irreps_out.to_string().c_str(), s.degree,
                have.count(s.key()) ? "kernel of the build" : "'equi compile' makes its kernel");
    if (product.functions)
      for (const GauntForm form : {GauntForm::tree, GauntForm::grid}) {
        const ContractionSchedule other = make_contraction_schedule(product, form);
        std::printf("    Gaunt product by a %s: multiply-adds %d forward, %d backward%s\n",
                    other.grid ? "grid" : "tree", other.forward_products(), other.backward_products(),
                    other.grid.has_value() == s.grid.has_value() ? ", taken" : "");
      }
    if (s.grid)
      std::printf("    %d rings of the sphere\n", s.grid->num_nodes());
    else
      std::printf("    %d coefficients in %zu products of components per channel and species\n", s.num_entries(),
                  s.nodes.size());
    std::printf("    per channel: multiply-adds %d forward, %d backward; loads of coefficients %zu bytes\n", forward,
                backward, 4 * (s.grid ? s.grid->table.size() : static_cast<size_t>(s.num_entries())));
    std::printf("    bound by multiply-adds at %d per cycle: %.0f cycles per atom forward, %.0f backward\n",
                target.products, static_cast<double>(forward) * mul / target.products,
                static_cast<double>(backward) * mul / target.products);
  });
}

void print_operations(const Model &whole) {
  const Model model = whole.without_direct_forces();
  const auto count = [](const Model &m) { return count_operations(m, make_evaluation_plan(m, false), AVX512_TARGET); };
  const auto line = [](const LayerOperations &n) {
    std::printf("%.0f %.0f %.0f %.0f\n", n.per_atom.forward, n.per_atom.both(), n.per_edge.forward, n.per_edge.both());
  };
  const OperationCount counted = count(model);
  size_t next = 0;
  for (const bool is_evaluated : whole.layers_of_energy())
    line(is_evaluated ? counted.layers[next++] : LayerOperations());
  line(count(fold_linears(model)).total());
}

}    // namespace equi
