// SPDX-License-Identifier: MIT
// Tiny models as files for all systems: experts, tasks and an embedding of the system in place of fixed numbers.
#ifndef EQUI_TEST_MIXTURE_BUILDER_H
#define EQUI_TEST_MIXTURE_BUILDER_H

#include "unittest/support/model_builder.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace equi {
namespace testing {

inline std::string random_tensor(ModelDocument &d, std::mt19937_64 &random, const std::string &name,
                                 const std::vector<int64_t> &shape) {
  std::normal_distribution<double> normal;
  int64_t size = 1;
  for (const int64_t n : shape) size *= n;
  DocumentTensor t{shape, std::vector<double>(size), true};
  for (double &v : t.values) v = normal(random);
  d.tensors[name] = t;
  return name;
}

// The embedding of species depends on shares of a charge and a spin.
inline ModelDocument with_shares(ModelDocument d) {
  std::mt19937_64 random(8);
  const int64_t species = d.document["elements"].size(), channels = d.tensors.at("embedding").shape[1];
  for (const std::string kind : {"charge", "spin"}) {
    const auto tensor = [&](const char *part, const std::vector<int64_t> &shape) {
      return random_tensor(d, random, kind + "." + part, shape);
    };
    d.document["mixture"]["shares"][kind] = {
        {"query", tensor("query", {species, 4})},
        {"key", tensor("key", {2, 4})},
        {"value", tensor("value", {2, channels})},
        {"scale", 0.5},
        {"epsilon", 0.01},
        {"weights", {tensor("first", {channels, 6}), tensor("second", {6, channels})}}};
  }
  d.document["mixture"]["tensors"] = {{"embedding", "shares"}};
  return d;
}

// The embedding of species has inputs: a charge from -2 to 2, and a temperature; the shift of energies is read from it.
inline ModelDocument with_inputs(ModelDocument d) {
  std::mt19937_64 random(9);
  const auto tensor = [&](const char *name, const std::vector<int64_t> &shape) {
    return random_tensor(d, random, name, shape);
  };
  const int64_t channels = d.tensors.at("embedding").shape[1];
  const Json temperature = {{"name", "elec_temp"},
                            {"meaning", "other"},
                            {"usual", 0.5},
                            {"weights", {tensor("in.first", {1, 3}), tensor("in.second", {3, 4})}},
                            {"biases", {tensor("in.first.bias", {3}), tensor("in.second.bias", {4})}}};
  const Json charge = {{"name", "total_charge"},
                       {"meaning", "charge"},
                       {"usual", 0},
                       {"rows", tensor("in.charge", {5, 2})},
                       {"first", -2}};
  d.document["mixture"] = {{"inputs",
                            {{"values", {temperature, charge}},
                             {"weight", tensor("in.weight", {6, channels})},
                             {"readout", tensor("in.readout", {channels})}}},
                           {"tensors", {{"embedding", "inputs"}, {"shift", "inputs_energy"}}}};
  return d;
}

// Charges from -2 to 2, spins from 0 to 2, the tasks a and b. The embedding of species depends on the system, the shift
// of energies on the task, and the first matrix of the first linear layer is a mixture of three experts.
inline ModelDocument with_mixture(ModelDocument d) {
  std::mt19937_64 random(7);
  const auto tensor = [&](const std::string &name, const std::vector<int64_t> &shape) {
    return random_tensor(d, random, name, shape);
  };
  const auto stack = [&](const std::string &name, int64_t number) {
    std::vector<int64_t> shape = d.tensors.at(name).shape;
    shape.insert(shape.begin(), number);
    return tensor(name, shape);
  };
  const int64_t species = d.document["elements"].size(), channels = d.tensors.at("embedding").shape[1];
  std::string matrix;
  for (const Json &layer : d.document["layers"])
    if (layer["type"] == "linear" && matrix.empty()) matrix = layer["blocks"][0]["weight"];
  d.document["mixture"] = {
      {"tasks", {{{"name", "a"}, {"spin", 0}}, {{"name", "b"}, {"spin", 1}}}},
      {"embedding",
       {{"charge", {{"rows", tensor("system.charge", {5, 3})}, {"first", -2}}},
        {"spin", {{"rows", tensor("system.spin", {3, 3})}, {"first", 0}}},
        {"task", tensor("system.task", {2, 3})},
        {"weight", tensor("system.weight", {9, channels})},
        {"bias", tensor("system.bias", {channels})}}},
      {"experts",
       {{"composition", tensor("composition", {species, 4})},
        {"weights", {tensor("mix.0", {4 + channels, 6}), tensor("mix.1", {6, 3})}},
        {"biases", {tensor("mix.0.bias", {6}), tensor("mix.1.bias", {3})}},
        {"least", 0.005}}},
      {"tensors", {{"embedding", "embedding"}, {stack("shift", 2), "task"}, {stack(matrix, 3), "experts"}}}};
  return d;
}

}    // namespace testing
}    // namespace equi

#endif
