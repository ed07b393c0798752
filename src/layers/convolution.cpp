// SPDX-License-Identifier: MIT
#include "src/layers/convolution.h"

#include "src/base/model_limits.h"
#include "src/base/printable.h"
#include "src/layers/layer_reader.h"

#include <algorithm>
#include <string>
#include <vector>

namespace equi {

namespace {

constexpr int MAX_POWER = 16;

Connection read_connection(const JsonField &field) {
  const std::string &name = field.text();
  if (name != "uvu" && name != "uvw") field.fail("uvu or uvw", "'" + printable(name, SHOWN_NAME) + "'");
  return name == "uvw" ? Connection::uvw : Connection::uvu;
}

TensorProductPath read_path(const JsonField &p, const TensorProduct &product, bool edge_parity) {
  p.only_keys({"in", "l", "out", "scale", "r_power", "connection"});
  TensorProductPath path;
  path.in = p["in"].integer(0, product.irreps_in.size() - 1);
  path.l2 = p["l"].integer(0, product.lmax_edge);
  path.out = p["out"].integer(0, product.irreps_out.size() - 1);
  path.scale = p["scale"].number();
  if (p.has("connection")) path.connection = read_connection(p["connection"]);
  const int parity = product.irreps_in[path.in].irrep.p * (edge_parity && path.l2 % 2 ? -1 : 1);
  if (parity != product.irreps_out[path.out].irrep.p)
    p.fail(std::string("parity ") + (parity > 0 ? "e" : "o") + " of its output block",
           Irreps({product.irreps_out[path.out]}).to_string());
  return path;
}

}    // namespace

Convolution Convolution::read(const JsonField &layer, LayerReader &reader) {
  layer.only_keys({"type", "input", "irreps_in", "output", "irreps_out", "paths", "radial"});
  Convolution c;
  c.input = reader.input(layer);
  c.output = reader.output(layer);
  TensorProduct &tp = c.product;
  tp.irreps_in = reader.features()[c.input];
  tp.irreps_out = reader.features()[c.output];
  tp.lmax_edge = reader.lmax_edge;

  const JsonField paths = layer["paths"];
  paths.size_between(1, MAX_PATHS, "paths");
  std::vector<int> powers;
  for (size_t q = 0; q < paths.size(); ++q) {
    const JsonField p = paths[q];
    tp.paths.push_back(read_path(p, tp, reader.edge_parity));
    powers.push_back(p.has("r_power") ? p["r_power"].integer(0, MAX_POWER) : 0);
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

}    // namespace equi
