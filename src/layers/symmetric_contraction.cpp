// SPDX-License-Identifier: MIT
// Reads the layer symmetric_contraction and counts its operations.
#include "src/layers/symmetric_contraction.h"

#include "src/base/printable.h"
#include "src/layers/layer_reader.h"

#include <cmath>
#include <string>
#include <vector>

namespace equi {

namespace {

void check_channels(const JsonField &field, const Irreps &irreps, int mul) {
  for (const IrrepBlock &b : irreps)
    if (b.mul != mul)
      field.fail("blocks of " + std::to_string(mul) + " channels, as the first block of the input",
                 Irreps({b}).to_string());
}

void read_entries(const JsonField &coupling, const ContractionProduct &product, ContractionTerm &term,
                  TensorReader &tensors) {
  std::vector<int> parity;    // parities of the components of one channel of the input
  for (const IrrepBlock &b : product.irreps_in) parity.insert(parity.end(), b.irrep.dim(), b.irrep.p);
  const Irrep &irrep = product.irreps_out[term.out].irrep;
  const int columns = term.degree + 3;
  const std::vector<double> rows = tensors.values(coupling, {ANY_LENGTH, columns});
  // Coefficients of all channels of one species.
  tensors.lay_out(coupling, static_cast<int64_t>(rows.size() / columns) * padded_channels(product.irreps_in[0]));
  for (size_t first = 0; first < rows.size(); first += columns) {
    const std::string where =
        "in row " + std::to_string(first / columns) + " of tensor " + printable(coupling.text(), SHOWN_NAME);
    const auto index = [&](int column, const char *what, int num) {
      const double v = rows[first + column];
      if (!(v >= 0.0 && v < num && v == std::floor(v)))
        coupling.fail(std::string(what) + ", a whole number from 0 to " + std::to_string(num - 1) + ", " + where,
                      text_of(v));
      return static_cast<int>(v);
    };
    ContractionEntry e;
    e.component = index(0, "a component", irrep.dim());
    e.path = index(1, "a path", term.num_paths);
    e.coefficient = rows[first + columns - 1];
    int sign = 1;
    for (int n = 0; n < term.degree; ++n) {
      e.factor[n] = index(2 + n, "a factor", product.num_components());
      if (n > 0 && e.factor[n] < e.factor[n - 1]) coupling.fail("factors in ascending order " + where, "another order");
      sign *= parity[e.factor[n]];
    }
    if (e.coefficient != 0.0 && sign != irrep.p)
      coupling.fail(std::string("factors of total parity ") + (irrep.p > 0 ? "e " : "o ") + where,
                    sign > 0 ? "e" : "o");
    term.entries.push_back(e);
  }
}

ContractionTerm read_term(const JsonField &field, const ContractionProduct &product, int out, TensorReader &tensors) {
  ContractionTerm term;
  term.out = out;
  term.degree = field["degree"].integer();
  const JsonField weight = field["weight"], coupling = field["coupling"];
  term.weight = tensors.matrices(weight, product.per_species, ANY_LENGTH, product.mul());
  term.num_paths = term.weight.front().rows;
  read_entries(coupling, product, term, tensors);
  return term;
}

}    // namespace

const FieldSpecs &SymmetricContraction::fields() {
  using namespace field;
  static const FieldSpecs fields = joined(
      input_and_output_fields(),
      {boolean("per_species", "whether weights have a first dimension, the species of the atom"),
       list("blocks", "blocks", 0, MAX_BLOCKS,
            object("",
                   {integer("out", "number of the output block"),
                    list("terms", "terms", 0, MAX_CONTRACTION_DEGREE,
                         object("",
                                {integer("degree", "number of factors", 1, MAX_CONTRACTION_DEGREE),
                                 tensor("weight", "[paths, mul]", "weights of the paths, or weights for each species"),
                                 tensor("coupling", "[rows, degree + 3]", "component, path, factors and coefficient")},
                                ""),
                         "polynomials of one degree")},
                   ""),
            "output blocks")});
  return fields;
}

SymmetricContraction SymmetricContraction::read(const JsonField &layer, LayerReader &reader) {
  SymmetricContraction c;
  c.input = reader.input(layer);
  c.output = reader.output(layer);
  ContractionProduct &product = c.product;
  product.irreps_in = reader.features()[c.input];
  product.irreps_out = reader.features()[c.output];
  product.per_species = layer["per_species"].boolean();
  check_channels(layer["irreps_in"], product.irreps_in, product.mul());
  check_channels(layer["irreps_out"], product.irreps_out, product.mul());
  check_product_size(layer, product.irreps_in, product.irreps_out, MAX_PRODUCT_COMPONENTS);

  const JsonField blocks = layer["blocks"];
  std::vector<bool> is_written(product.irreps_out.size(), false);
  for (size_t k = 0; k < blocks.size(); ++k) {
    const int out = blocks[k]["out"].integer(0, product.irreps_out.size() - 1);
    if (is_written[out]) blocks[k]["out"].fail("one entry per output block", "a second one");
    is_written[out] = true;
    const JsonField terms = blocks[k]["terms"];
    for (size_t t = 0; t < terms.size(); ++t)
      product.terms.push_back(read_term(terms[t], product, out, reader.tensors));
  }
  blocks.checked([&] { product.validate(); });
  return c;
}

void SymmetricContraction::restrict_to(const KeptSpecies &kept) {
  if (!product.per_species) return;
  for (ContractionTerm &term : product.terms) kept.each(term.weight);
}

LayerOperations SymmetricContraction::operations(const OperationContext &) const {
  return polynomial_operations(product);
}

}    // namespace equi
