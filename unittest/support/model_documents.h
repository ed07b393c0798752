// SPDX-License-Identifier: MIT
// Documents of tiny models, and functions by which tests of the reader damage them.
#ifndef EQUI_TEST_MODEL_DOCUMENTS_H
#define EQUI_TEST_MODEL_DOCUMENTS_H

#include "unittest/support/expect_refusal.h"
#include "unittest/support/model_builder.h"

#include <functional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace equi {
namespace testing {

inline TinyModelOptions rich_options() {
  TinyModelOptions o;
  o.elements = {"O", "Si", "Al"};
  o.parity = true;
  o.biases = true;
  o.per_species_linear = true;
  o.embedding_channels = 13;
  o.hidden = {"5x0e+3x0o+13x1o+2x1e+2x2e", "33x0e+4x1o", "7x0e"};
  o.readout_hidden = {6};
  o.r_power = true;
  return o;
}

// Indices in the document of rich_options: 0 embedding; then sc, lin1, convolution, lin2, gate per interaction.
inline constexpr int EMBEDDING = 0, SC = 1, LIN1 = 2, CONVOLUTION = 3, LIN2 = 4, GATE = 5, LAYERS_PER_INTERACTION = 5;
inline constexpr int READOUT = 1 + 3 * LAYERS_PER_INTERACTION, SCALE_SHIFT = READOUT + 1;

inline Json &layer(ModelDocument &d, int i) {
  return d.document["layers"][i];
}

// What MACE and NequIP need.
inline TinyModelOptions family_options() {
  TinyModelOptions o;
  o.elements = {"O", "Si", "Al"};
  o.parity = true;
  o.hidden = {"5x0e+5x1o", "13x0e"};
  o.xplor = false;
  o.transform = "agnesi";
  o.late_cutoff = true;
  o.sender_columns = 2;
  o.receiver_columns = 3;
  o.norms = true;
  o.density = true;
  o.contraction_degree = 3;
  o.repulsion_inside = o.repulsion_outside = true;
  return o;
}

// The first layer of a type.
inline int find_layer(const ModelDocument &d, const std::string &type) {
  const Json &layers = d.document["layers"];
  for (size_t k = 0; k < layers.size(); ++k)
    if (layers[k]["type"] == type) return static_cast<int>(k);
  throw std::logic_error("the model has no layer " + type);
}

template <class L>
const L &first_layer(const Model &m) {
  for (const Layer &l : m.layers)
    if (const L *found = std::get_if<L>(&l)) return *found;
  throw std::logic_error("the model has no such layer");
}
template <class L>
const L &first_layer(Model &&) = delete;    // would not outlive the model

inline void expect_refusal(const std::function<void(ModelDocument &)> &damage, const std::vector<std::string> &parts) {
  ModelDocument d = make_tiny_model(rich_options());
  damage(d);
  expect_refusal(d.bytes(), parts);
}

// The same for the JSON value at a path of the document.
inline void expect_refused_value(const std::string &pointer, const Json &value, const std::vector<std::string> &parts) {
  expect_refusal([&](ModelDocument &d) { d.document[Json::json_pointer(pointer)] = value; }, parts);
}

inline void expect_refusal(const TinyModelOptions &options, const std::function<void(ModelDocument &)> &damage,
                           const std::vector<std::string> &parts) {
  ModelDocument d = make_tiny_model(options);
  d.model();
  damage(d);
  expect_refusal(d.bytes(), parts);
}

// A value within the first layer of a type of family_options(), refused with a message about that field.
inline void expect_refused_in(const std::string &type, const std::string &pointer, const Json &value,
                              std::vector<std::string> parts) {
  expect_refusal(
      family_options(),
      [&](ModelDocument &d) {
        const int k = find_layer(d, type);
        d.document["layers"][k][Json::json_pointer(pointer)] = value;
        parts.push_back("layers[" + std::to_string(k) + "]");
      },
      parts);
}

inline std::string at(int i) {
  return "/layers/" + std::to_string(i);
}

inline Json example_structure() {
  return {{"name", "cell"},
          {"symbols", {"Si", "O"}},
          {"cell", {{4.0, 0, 0}, {0, 4.0, 0}, {0, 0, 4.0}}},
          {"pbc", {true, true, true}},
          {"positions", {{0, 0, 0}, {2, 2, 2}}},
          {"energy", -3.5},
          {"forces", {{0.1, 0, 0}, {-0.1, 0, 0}}},
          {"stress", {1, 2, 3, 4, 5, 6}}};
}

}    // namespace testing
}    // namespace equi

#endif
