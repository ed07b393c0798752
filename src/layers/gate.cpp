// SPDX-License-Identifier: MIT
// Reads the layer gate and counts its operations.
#include "src/layers/gate.h"

#include "src/layers/layer_reader.h"

#include <string>

namespace equi {

namespace {

// Whether a(x) is an even or odd function, as required for activations of odd scalars.
bool has_parity(Activation a) {
  return a == Activation::identity || a == Activation::tanh || a == Activation::abs;
}

// The first of `num` channels inside a block.
int read_channels(const JsonField &field, const IrrepBlock &block, int num) {
  const int offset = field.integer();
  if (offset > block.mul - num)
    field.fail(std::to_string(num) + " channels from the offset on within " + Irreps({block}).to_string());
  return offset;
}

GateTerm read_term(const JsonField &t, const Irreps &in, const Irreps &out, std::vector<bool> &is_written) {
  GateTerm term;
  term.out = t["out"].integer(0, out.size() - 1);
  if (is_written[term.out]) t["out"].fail("one term per output block", "a second one");
  is_written[term.out] = true;
  const IrrepBlock &bo = out[term.out];
  term.in = t["in"].integer(0, in.size() - 1);
  term.offset = read_channels(t["offset"], in[term.in], bo.mul);
  if (in[term.in].irrep.l != bo.irrep.l)
    t["in"].fail("a block with the l of " + Irreps({bo}).to_string(), Irreps({in[term.in]}).to_string());
  term.activation = read_activation(t["activation"]);
  term.scale = t["scale"].number();

  // The parity of the output block is not compared. Frameworks keep an odd label where an even function such as abs has
  // been applied to odd scalars. Later layers follow the label, not the law of inversion.
  Irrep activated = in[term.in].irrep;
  if (t.has("gate_in")) {
    term.gate_in = t["gate_in"].integer(0, in.size() - 1);
    const IrrepBlock &bg = in[term.gate_in];
    if (bg.irrep.l != 0) t["gate_in"].fail("a block of scalars", Irreps({bg}).to_string());
    term.gate_offset = read_channels(t["gate_offset"], bg, bo.mul);
    activated = bg.irrep;
  } else {
    if (t.has("gate_offset")) t["gate_offset"].fail("no such field without gate_in");
    if (bo.irrep.l != 0) t.fail("gate_in for a block with l > 0", "none");
  }
  if (activated.p < 0 && !has_parity(term.activation)) t["activation"].fail("an even or odd function for odd scalars");
  return term;
}

}    // namespace

const FieldSpecs &Gate::fields() {
  using namespace field;
  static const FieldSpecs fields =
      joined(input_and_output_fields(),
             {list("terms", "terms", 1, MAX_BLOCKS,
                   object("",
                          {integer("out", "number of the output block"), integer("in", "number of the input block"),
                           integer("offset", "its first channel"),
                           optional(integer("gate_in", "number of the block with the gates; none if it is absent")),
                           optional(integer("gate_offset", "first channel of the gates")),
                           activation("activation", "of the scalars or of the gates"),
                           number("scale", "factor of the activation")},
                          ""),
                   "one term per output block")});
  return fields;
}

Gate Gate::read(const JsonField &layer, LayerReader &reader) {
  Gate gate;
  gate.input = reader.input(layer);
  gate.output = reader.output(layer);
  const Irreps &in = reader.features()[gate.input], &out = reader.features()[gate.output];
  const JsonField terms = layer["terms"];
  terms.size(out.size(), "terms, one per output block");
  std::vector<bool> is_written(out.size(), false);
  for (size_t k = 0; k < terms.size(); ++k) gate.terms.push_back(read_term(terms[k], in, out, is_written));
  return gate;
}

LayerOperations Gate::operations(const OperationContext &context) const {
  Operations n;
  for (const GateTerm &term : terms) {
    const IrrepBlock &out = context.features[output][term.out];
    const double d = 2 * out.irrep.l + 1;
    // Activation and scale. A gate's adjoint is a sum over components.
    n = n + out.mul * (term.gate_in < 0 ? Operations{2.0, 2.0} : Operations{2.0 + d, 3.0 + 3.0 * d});
  }
  return {n, {}};
}

}    // namespace equi
