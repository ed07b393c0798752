// SPDX-License-Identifier: MIT
// Reads the layer convolution and counts its operations.
#include "src/layers/convolution.h"

#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

#include <algorithm>
#include <string>
#include <vector>

namespace equi {

namespace {

constexpr int MAX_POWER = 16;

TensorProductPath read_path(const JsonField &p, const TensorProduct &product, bool edge_parity) {
  TensorProductPath path;
  path.in = p["in"].integer(0, product.irreps_in.size() - 1);
  path.l2 = p["l"].integer(0, product.lmax_edge);
  path.out = p["out"].integer(0, product.irreps_out.size() - 1);
  path.scale = p["scale"].number();
  if (p.has("connection") && p["connection"].text() == "uvw") path.connection = Connection::uvw;
  const int parity = product.irreps_in[path.in].irrep.p * (edge_parity && path.l2 % 2 ? -1 : 1);
  if (parity != product.irreps_out[path.out].irrep.p)
    p.fail(std::string("parity ") + (parity > 0 ? "e" : "o") + " of its output block",
           Irreps({product.irreps_out[path.out]}).to_string());
  return path;
}

}    // namespace

const FieldSpecs &Convolution::fields() {
  using namespace field;
  static const FieldSpecs fields = joined(
      input_and_output_fields(),
      {list("paths", "paths", 1, MAX_PATHS,
            object("",
                   {integer("in", "number of the input block"), integer("l", "degree of the harmonics"),
                    integer("out", "number of the output block"), number("scale", "factor, with all normalization"),
                    optional(integer("r_power", "power of the distance; 0 if it is absent", 0, MAX_POWER)),
                    optional(word("connection", {"uvu", "uvw"}, "of channels; uvu if it is absent"))},
                   ""),
            "paths of the tensor product"),
       object("radial", radial_fields(/*has_input=*/true, /*may_activate_last=*/true),
              "radial network with the weights of the paths")});
  return fields;
}

Convolution Convolution::read(const JsonField &layer, LayerReader &reader) {
  Convolution c;
  c.input = reader.input(layer);
  c.output = reader.output(layer);
  TensorProduct &tp = c.product;
  tp.irreps_in = reader.features()[c.input];
  tp.irreps_out = reader.features()[c.output];
  tp.lmax_edge = reader.lmax_edge;

  const JsonField paths = layer["paths"];
  std::vector<int> powers;
  for (size_t q = 0; q < paths.size(); ++q) {
    const JsonField p = paths[q];
    tp.paths.push_back(read_path(p, tp, reader.edge_parity));
    powers.push_back(p.has("r_power") ? p["r_power"].integer() : 0);
  }
  paths.checked([&] { tp.validate(); });
  reader.count_weights(paths, tp.num_weights());
  c.radial = read_radial_function(layer["radial"], reader.basis, tp.num_weights(), reader.tensors, &tp.irreps_in);

  const bool has_power = std::any_of(powers.begin(), powers.end(), [](int power) { return power != 0; });
  if (has_power && c.radial.reads_features())
    paths.fail("no r_power where the radial network reads a block of the input", "one");
  const bool has_uvw = std::any_of(tp.paths.begin(), tp.paths.end(),
                                   [](const TensorProductPath &p) { return p.connection == Connection::uvw; });
  if (has_uvw && c.radial.reads_features())
    paths.fail("uvu paths where the radial network reads a block of the input", "uvw");
  if (has_power)
    for (size_t q = 0; q < powers.size(); ++q)
      c.radial.r_power.insert(c.radial.r_power.end(), tp.num_weights(static_cast<int>(q)), powers[q]);
  return c;
}

LayerOperations Convolution::operations(const OperationContext &context) const {
  Operations n;
  const bool has_network = radial.reads_features();
  for (const ProductPathGroup &group : path_groups_of(product)) {
    const PathGroupSchedule schedule = make_path_group_schedule(group.shape, context.target);
    const int out = product.paths[group.paths[0]].out;
    n = n + path_group_operations(schedule, product.irreps_in[group.block].mul, has_network ? 1 : context.rows_per_bin,
                                  group.shape.is_uvw() ? product.irreps_out[out].mul : 0);
  }
  if (has_network) n = n + network_operations(radial.network);
  // The activation, the column's constant and the cutoff function; backward also the adjoint of the cutoff function.
  if (has_network && radial.output == RadialFunction::Output::activated)
    n = n + radial.num_outputs() * Operations{4.0, 6.0};
  // The product of query and key, its norm, the sigmoid and the product with the value, and their adjoints.
  if (has_network && radial.gate) n = n + radial.num_outputs() * Operations{14.0, 18.0};
  return {{}, n};
}

}    // namespace equi
