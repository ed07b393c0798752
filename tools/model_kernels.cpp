// SPDX-License-Identifier: MIT
#include "tools/model_kernels.h"

#include "src/generator/common_kernels.h"

#include <cstdio>
#include <stdexcept>

namespace equi {

namespace {

std::set<std::string> keys_of_build() {
  const KernelNames names = common_kernels();
  std::set<std::string> keys(names.units.begin(), names.units.end());
  keys.insert(names.uvw.begin(), names.uvw.end());
  keys.insert(names.contractions.begin(), names.contractions.end());
  return keys;
}

// f(number, polynomials, their schedule) for contractions and node products
template <class F>
void for_contractions(const Model &model, const F &f) {
  int number = 0;
  for (const Layer &layer : model.layers)
    if (const auto product = polynomials(layer)) f(number++, *product, make_contraction_schedule(*product));
}

// f(convolution number, convolution, unit)
template <class F>
void for_units(const Model &model, const F &f) {
  int number = 0;
  for (const Layer &layer : model.layers)
    if (const auto *c = std::get_if<Convolution>(&layer)) {
      for (const ProductUnit &unit : units_of(c->product)) f(number, *c, unit);
      ++number;
    }
}

}    // namespace

std::set<std::string> missing_kernels(const Model &model) {
  const std::set<std::string> have = keys_of_build();
  std::set<std::string> keys;
  for_units(model, [&](int, const Convolution &, const ProductUnit &unit) {
    const std::string key = unit.shape.key();
    if (!key.empty() && !have.count(key)) keys.insert(key);
  });
  for_contractions(model, [&](int, const ContractionProduct &, const ContractionSchedule &schedule) {
    if (!have.count(schedule.key())) keys.insert(schedule.key());
  });
  return keys;
}

std::string kernel_library_of(const std::string &key, const Model &model, const KernelTarget &target) {
  std::string text;
  for_units(model, [&](int, const Convolution &, const ProductUnit &unit) {
    if (unit.shape.key() == key && text.empty()) text = generate_unit_library(unit.shape, target);
  });
  for_contractions(model, [&](int, const ContractionProduct &, const ContractionSchedule &schedule) {
    if (schedule.key() == key && text.empty())
      text = as_library(generate_contraction(schedule, target), {{}, {}, {key}}, target);
  });
  if (text.empty()) throw std::invalid_argument(model.file + " has no kernel " + key);
  return text;
}

void print_schedule(const Model &model, const KernelTarget &target) {
  constexpr int ROWS = 6;    // a quintic table, which most models get
  const std::set<std::string> have = keys_of_build();
  std::printf("Per edge and channel, with quintic tables, float32, %s (%d lanes, %d registers%s).\n", target.name,
              target.lanes, target.registers, target.is_device() ? " per lane, one channel per lane" : "");
  std::printf(
      "CG: nonzero Clebsch-Gordan coefficients. M, D: nonzero entries / distinct ones. Form: where the radial weight "
      "is\n"
      "applied going forward, to the sender (w x), to the sum (w s) or as a matrix over the channels (uvw). Group: "
      "accumulators\nkept in registers together%s."
      "\n",
      target.is_device() ? "; forward, backward" : "");
  int number = -1;
  double layer_forward = 0.0, layer_backward = 0.0, layer_bytes = 0.0;
  const auto end_layer = [&] {
    if (number >= 0)
      std::printf(
          "  layer: %.0f flops forward, %.0f backward, %.0f bytes per edge and direction, intensity %.1f and %.1f "
          "flops/byte\n",
          layer_forward, layer_backward, layer_bytes, layer_forward / layer_bytes, layer_backward / layer_bytes);
    layer_forward = layer_backward = layer_bytes = 0.0;
  };
  for_units(model, [&](int n, const Convolution &c, const ProductUnit &unit) {
    const UnitShape &shape = unit.shape;
    if (n != number) {
      end_layer();
      number = n;
      std::printf("convolution %d: %s, harmonics to %d, %lld weights\n", n, c.product.irreps_in.to_string().c_str(),
                  c.product.lmax_edge, static_cast<long long>(c.product.num_weights()));
    }
    const UnitSchedule u = make_unit_schedule(shape, target);
    const IrrepBlock &in = c.product.irreps_in[unit.block],
                     &out = c.product.irreps_out[c.product.paths[unit.paths[0]].out];
    const int mul = in.mul, d1 = 2 * shape.l1 + 1, outputs = shape.is_uvw() ? out.mul : 0;
    const std::string to = shape.is_uvw() ? " to " + Irreps({out}).to_string() : "";
    std::printf("  input %s%s: %zu distinct M, %d distinct D, %s\n", Irreps({in}).to_string().c_str(), to.c_str(),
                u.forms.size(), u.num_d(),
                shape.key().empty()       ? "generic kernel"
                : have.count(shape.key()) ? "kernel of the build"
                                          : "'equi compile' makes its kernel");
    std::printf("    path   CG    M        D        form  group  accumulators\n");
    for (size_t q = 0; q < u.paths.size(); ++q) {
      const PathSchedule &p = u.paths[q];
      std::set<int> forms;
      for (const auto &m : p.m) forms.insert(m.form);
      const auto group_of = [&](const std::vector<UnitSchedule::Group> &groups) {
        int group = 0;
        while (groups[group].last <= static_cast<int>(q)) ++group;
        return std::to_string(group);
      };
      std::string group = shape.is_uvw() ? "-" : group_of(u.forward_groups);
      if (target.is_device() && !shape.is_uvw()) group += ", " + group_of(u.backward_groups);
      std::printf("    %d %d %d  %-4d  %3zu/%-3zu  %3zu/%-3zu  %s   %-5s  %d\n", shape.l1, p.l2, p.l3, p.num_couplings,
                  p.m.size(), p.is_diagonal() ? size_t(0) : forms.size(), p.d_entries.size(), p.d.size(),
                  shape.is_uvw()                      ? "uvw"
                  : p.is_diagonal() || !p.weight_last ? "w x"
                                                      : "w s",
                  group.c_str(), (shape.is_uvw() ? u.forward_outputs : 1) * (2 * p.l3 + 1));
    }
    const int forward = u.forward_products(ROWS, outputs), backward = u.backward_products(ROWS, outputs);
    // Table rows, the sender's channels; the cotangent and the output are shared by the atom's edges.
    const double weights = shape.is_uvw() ? outputs : static_cast<double>(unit.paths.size());
    const double bytes = 4.0 * mul * (ROWS * weights + d1);
    std::printf("    multiply-adds %d forward, %d backward; loads of table and sender %.0f bytes per edge\n", forward,
                backward, bytes);
    std::printf("    bound by multiply-adds at %d per cycle: %.0f cycles per edge forward, %.0f backward\n",
                target.products, static_cast<double>(forward) * mul / target.products,
                static_cast<double>(backward) * mul / target.products);
    if (target.is_device())
      for (const auto *groups : {&u.forward_groups, &u.backward_groups}) {
        std::printf("    numbers in registers %s:", groups == &u.forward_groups ? "forward" : "backward");
        for (const auto &g : *groups)
          std::printf(" %d", groups == &u.forward_groups ? u.forward_numbers(g) : u.backward_numbers(g));
        std::printf(" (room for %d in float64)\n", target.numbers());
      }
    layer_forward += 2.0 * forward * mul;
    layer_backward += 2.0 * backward * mul;
    layer_bytes += bytes;
  });
  end_layer();
  for_contractions(model, [&](int n, const ContractionProduct &product, const ContractionSchedule &s) {
    const int forward = s.forward_products(), backward = s.backward_products(), mul = product.mul();
    std::printf("contraction %d: %s to %s, degree %d, %s\n", n, product.irreps_in.to_string().c_str(),
                product.irreps_out.to_string().c_str(), s.degree,
                have.count(s.key()) ? "kernel of the build" : "'equi compile' makes its kernel");
    std::printf("    %d coefficients in %zu products of components per channel and species\n", s.num_entries(),
                s.nodes.size());
    std::printf("    per channel: multiply-adds %d forward, %d backward; loads of coefficients %d bytes\n", forward,
                backward, 4 * s.num_entries());
    std::printf("    bound by multiply-adds at %d per cycle: %.0f cycles per atom forward, %.0f backward\n",
                target.products, static_cast<double>(forward) * mul / target.products,
                static_cast<double>(backward) * mul / target.products);
  });
}

}    // namespace equi
