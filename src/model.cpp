#include "model.h"

#include <algorithm>
#include <stdexcept>

namespace equi {

int Model::species(const std::string &symbol) const {
  const auto it = std::find(elements.begin(), elements.end(), symbol);
  return it == elements.end() ? -1 : static_cast<int>(it - elements.begin());
}

int Model::num_convolutions() const {
  return static_cast<int>(std::count_if(layers.begin(), layers.end(),
                                        [](const Layer &layer) { return std::holds_alternative<Convolution>(layer); }));
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

  Model m = *this;
  m.elements = symbols;
  for (Layer &layer : m.layers) {
    if (auto *embedding = std::get_if<SpeciesEmbedding>(&layer)) {
      const Matrix old = std::move(embedding->weight);
      embedding->weight = Matrix{static_cast<int>(kept.size()), old.cols, {}};
      for (int s : kept) {
        const auto row = old.data.begin() + static_cast<size_t>(s) * old.cols;
        embedding->weight.data.insert(embedding->weight.data.end(), row, row + old.cols);
      }
    } else if (auto *linear = std::get_if<Linear>(&layer)) {
      if (!linear->per_species) continue;
      for (LinearBlock &block : linear->blocks) {
        std::vector<Matrix> weight;
        for (int s : kept) weight.push_back(block.weight[s]);
        block.weight = std::move(weight);
      }
    } else if (auto *last = std::get_if<ScaleShift>(&layer)) {
      std::vector<double> scale, shift;
      for (int s : kept) {
        scale.push_back(last->scale[s]);
        shift.push_back(last->shift[s]);
      }
      last->scale = std::move(scale);
      last->shift = std::move(shift);
    }
  }

  // A self-check structure stays if all its elements stay.
  const auto has_other_elements = [&](const ReferenceStructure &r) {
    return std::any_of(r.symbols.begin(), r.symbols.end(), [&](const std::string &e) { return m.species(e) < 0; });
  };
  m.self_check.erase(std::remove_if(m.self_check.begin(), m.self_check.end(), has_other_elements), m.self_check.end());
  return m;
}

}    // namespace equi
