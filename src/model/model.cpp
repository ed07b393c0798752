// SPDX-License-Identifier: MIT
// Restricts models to a subset of their elements or layers.
#include "src/model/model.h"

#include <algorithm>
#include <stdexcept>

namespace equi {

bool any_layer(const std::vector<Layer> &layers, bool LayerTraits::*trait) {
  return std::any_of(layers.begin(), layers.end(), [&](const Layer &layer) { return traits(layer).*trait; });
}

double far_cutoff(const std::vector<Layer> &layers) {
  double largest = 0.0;
  for (const Layer &layer : layers) largest = std::max(largest, traits(layer).far_cutoff);
  return largest;
}

Model::EnergyScale Model::energy_scale() const {
  const auto *layer = find_layer<ScaleShift>(layers);
  if (layer) return {layer->scale, layer->shift};
  return {std::vector<double>(num_species(), 1.0), std::vector<double>(num_species(), 0.0)};
}

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

std::vector<bool> Model::layers_of_energy() const {
  std::vector<bool> kept(layers.size());
  std::transform(layers.begin(), layers.end(), kept.begin(),
                 [](const Layer &layer) { return !traits(layer).gives_forces; });
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<bool> is_read(features.size(), false);
    for (size_t k = 0; k < layers.size(); ++k)
      if (kept[k]) ports(layers[k]).for_inputs([&](int f) { is_read[f] = true; });
    for (size_t k = 0; k < layers.size(); ++k) {
      const int output = ports(layers[k]).output;
      if (!kept[k] || output < 0 || is_read[output]) continue;
      kept[k] = false;
      changed = true;
    }
  }
  return kept;
}

Model Model::without_direct_forces() const {
  Model m = *this;
  const std::vector<bool> kept = layers_of_energy();
  m.layers.clear();
  for (size_t k = 0; k < layers.size(); ++k)
    if (kept[k]) m.layers.push_back(layers[k]);
  return m;
}

}    // namespace equi
