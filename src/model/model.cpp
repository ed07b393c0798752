// SPDX-License-Identifier: MIT
#include "src/model/model.h"

#include <algorithm>
#include <stdexcept>

namespace equi {

int Model::species(const std::string &symbol) const {
  const auto it = std::find(elements.begin(), elements.end(), symbol);
  return it == elements.end() ? -1 : static_cast<int>(it - elements.begin());
}

int Model::num_convolutions() const {
  return static_cast<int>(std::count_if(layers.begin(), layers.end(), reads_senders));
}

Model Model::restricted_to(const std::vector<std::string> &symbols) const {
  std::vector<int> kept;
  for (const std::string &symbol : symbols) {
    const int s = species(symbol);
    if (s < 0) {
      std::string known;
      for (const std::string &e : elements) known += (known.empty() ? "" : " ") + e;
      throw std::invalid_argument(file + ": no element " + symbol + "; the model knows: " + known);
    }
    kept.push_back(s);
  }

  const KeptSpecies restriction{kept};
  Model m = *this;
  m.elements = symbols;
  m.composition.clear();
  if (!composition.empty())
    for (const int s : kept) m.composition.push_back(composition[s]);
  restriction.pairs(m.pair_cutoff);
  for (Layer &layer : m.layers) std::visit([&](auto &l) { l.restrict_to(restriction); }, layer);

  // A self-check structure stays if all its elements stay.
  const auto has_other_elements = [&](const ReferenceStructure &r) {
    return std::any_of(r.symbols.begin(), r.symbols.end(), [&](const std::string &e) { return m.species(e) < 0; });
  };
  m.self_check.erase(std::remove_if(m.self_check.begin(), m.self_check.end(), has_other_elements), m.self_check.end());
  return m;
}

Model Model::without_direct_forces() const {
  Model m = *this;
  const auto drop = [&](const auto &is_dropped) {
    const auto end = std::remove_if(m.layers.begin(), m.layers.end(), is_dropped);
    const bool any = end != m.layers.end();
    m.layers.erase(end, m.layers.end());
    return any;
  };
  drop([](const Layer &layer) { return std::holds_alternative<DirectForces>(layer); });
  std::vector<bool> is_read;
  const auto find_what_is_read = [&] {
    is_read.assign(features.size(), false);
    for (const Layer &layer : m.layers) ports(layer).for_inputs([&](int f) { is_read[f] = true; });
  };
  do find_what_is_read();
  while (drop([&](const Layer &layer) {
    const int output = ports(layer).output;
    return output >= 0 && !is_read[output];
  }));
  return m;
}

}    // namespace equi
