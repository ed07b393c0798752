// SPDX-License-Identifier: MIT
#include "src/layers/pair_repulsion.h"

#include "src/base/model_limits.h"
#include "src/functions/repulsion_function.h"
#include "src/layers/layer_reader.h"

namespace equi {

namespace {

constexpr int MAX_EXPONENTIALS = 64;

std::vector<double> read_numbers(const JsonField &field) {
  const size_t num = field.size_between(1, MAX_EXPONENTIALS, "numbers");
  std::vector<double> values;
  for (size_t k = 0; k < num; ++k) values.push_back(field[k].number());
  return values;
}

}    // namespace

PairRepulsion PairRepulsion::read(const JsonField &layer, LayerReader &reader) {
  layer.only_keys({"type", "prefactor", "length", "cutoff", "p", "coefficients", "exponents"});
  PairRepulsion r;
  r.prefactor = reader.tensors.pairs(layer["prefactor"]);
  r.length = reader.tensors.pairs_between(layer["length"], MIN_LENGTH, MAX_LENGTH);
  r.cutoff = reader.tensors.pairs_between(layer["cutoff"], MIN_LENGTH, MAX_CUTOFF);
  r.p = read_cutoff_power(layer["p"]);
  r.coefficients = read_numbers(layer["coefficients"]);
  r.exponents = read_numbers(layer["exponents"]);
  layer["exponents"].size(r.coefficients.size(), "exponents, one per coefficient");
  for (size_t k = 0; k < r.exponents.size(); ++k) layer["exponents"][k].number(0.0, MAX_STEEPNESS);
  return r;
}

void PairRepulsion::restrict_to(const KeptSpecies &kept) {
  kept.pairs(prefactor);
  kept.pairs(length);
  kept.pairs(cutoff);
}

double PairRepulsion::energy(int receiver, int sender, double r, double *derivative, double *second) const {
  if (derivative) *derivative = 0.0;
  if (second) *second = 0.0;
  if (r >= cutoff(receiver, sender)) return 0.0;    // what is not a number goes on
  const Jet e = repulsion_function(Jet::variable(r), prefactor(receiver, sender), length(receiver, sender),
                                   cutoff(receiver, sender), p, static_cast<int>(coefficients.size()),
                                   coefficients.data(), exponents.data());
  if (derivative) *derivative = e.d[1];
  if (second) *second = e.d[2];
  return e.value();
}

}    // namespace equi
