// SPDX-License-Identifier: MIT
// Restricts models to a subset of their elements or layers.
#include "src/model/model.h"

#include <algorithm>
#include <stdexcept>

namespace equi {

bool any_layer(const std::vector<Layer> &layers, bool LayerTraits::*trait) {
  return std::any_of(layers.begin(), layers.end(), [&](const Layer &layer) { return traits(layer).*trait; });
}

bool depends_on_axes(const std::vector<Layer> &layers, OpenSum sum) {
  return std::any_of(layers.begin(), layers.end(), [&](const Layer &layer) {
    const auto *found = std::get_if<Potential>(&layer);
    return found && found->depends_on_axes(sum);
  });
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

namespace {

// For each layer, whether it is among those that fulfill `is_kept` or leads to one of them. A layer without an output
// is kept if it fulfills `is_kept`; others need a reader.
template <class F>
std::vector<bool> layers_that_lead_to(const Model &model, const F &is_kept) {
  const std::vector<Layer> &layers = model.layers;
  std::vector<bool> kept(layers.size());
  std::transform(layers.begin(), layers.end(), kept.begin(),
                 [&](const Layer &layer) { return ports(layer).output >= 0 || is_kept(layer); });
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<bool> is_read(model.features.size(), false);
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

Model with_layers(const Model &model, const std::vector<bool> &kept) {
  Model m = model;
  m.layers.clear();
  for (size_t k = 0; k < kept.size(); ++k)
    if (kept[k]) m.layers.push_back(model.layers[k]);
  return m;
}

// Observables in the order of their numbers.
const std::vector<std::string> ALL_OBSERVABLES = {"charge", "dipole", "polarizability", "spin"};

const Observable *find_observable(const Model &model, const std::string &name) {
  for (const Layer &layer : model.layers)
    if (const auto *found = std::get_if<Observable>(&layer); found && found->name == name) return found;
  return nullptr;
}

}    // namespace

std::vector<bool> Model::layers_of_energy() const {
  return layers_that_lead_to(*this, [](const Layer &layer) { return !traits(layer).gives_forces; });
}

Model Model::without_direct_forces() const {
  return with_layers(*this, layers_of_energy());
}

std::vector<std::string> Model::observables() const {
  std::vector<std::string> found;
  for (const std::string &name : ALL_OBSERVABLES)
    if (find_observable(*this, name)) found.push_back(name);
  return found;
}

std::string Model::unit_of(const std::string &observable) const {
  const Observable *found = find_observable(*this, observable);
  return found ? found->unit : "";
}

int Model::num_observable_numbers() const {
  int sum = 0;
  for (const std::string &name : observables()) sum += Observable::width(name);
  return sum;
}

int Model::observable_offset(const std::string &observable) const {
  int offset = 0;
  for (const std::string &name : observables()) {
    if (name == observable) return offset;
    offset += Observable::width(name);
  }
  return -1;
}

Model Model::without_observables() const {
  if (!any_layer(layers, &LayerTraits::is_observable)) return *this;
  return with_layers(
      *this, layers_that_lead_to(*this, [](const Layer &layer) { return !std::holds_alternative<Observable>(layer); }));
}

Model Model::for_observables(const std::string &observable) const {
  return with_layers(*this, layers_that_lead_to(*this, [&](const Layer &layer) {
    const auto *found = std::get_if<Observable>(&layer);
    return found && (observable.empty() || found->name == observable);
  }));
}

Model Model::for_observable_derivatives() const {
  Model m = with_layers(*this, layers_that_lead_to(*this, [](const Layer &layer) {
    const auto *found = std::get_if<Observable>(&layer);
    return found && (found->name == "charge" || found->name == "dipole");
  }));
  if (m.observables().empty())
    throw std::invalid_argument(file + ": the model has neither charges nor dipoles as observables");
  for (Layer &layer : m.layers)
    if (auto *found = std::get_if<Observable>(&layer)) found->is_weighted = true;
  return m;
}

Model Model::with_charges_in_field(const std::array<double, 3> &field) const {
  Model m = *this;
  for (Layer &layer : m.layers)
    if (auto *found = std::get_if<Potential>(&layer)) found->field = field;
  return m;
}

Model Model::with_field(const std::array<double, 3> &field) const {
  if (field == std::array<double, 3>{}) return without_observables();
  if (Model m = with_charges_in_field(field); has_field_of_charges(m.layers)) return m.without_observables();
  if (!find_observable(*this, "dipole")) throw std::invalid_argument(file + ": the model has no dipole");
  if (find_observable(*this, "charge"))
    throw std::invalid_argument(file +
                                ": the dipole of the model has a part of charges, whose energy in a field is not "
                                "supported");
  Model m = with_layers(*this, layers_that_lead_to(*this, [](const Layer &layer) {
    const auto *found = std::get_if<Observable>(&layer);
    return !found || found->name == "dipole";
  }));
  for (Layer &layer : m.layers)
    if (auto *found = std::get_if<Observable>(&layer)) found->field = field;
  // The energy in a field is not scaled: its layers follow scale_shift.
  std::stable_partition(m.layers.begin(), m.layers.end(),
                        [](const Layer &layer) { return !std::holds_alternative<Observable>(layer); });
  return m;
}

}    // namespace equi
