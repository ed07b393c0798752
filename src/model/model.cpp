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

}    // namespace equi
