// SPDX-License-Identifier: MIT
#include "src/model/model.h"

#include <algorithm>
#include <stdexcept>

namespace equi {

namespace {

// Drops what a layer holds for other species than the kept ones, which take their order.
struct Restriction {
  const std::vector<int> &kept;

  template <class T>
  void each(std::vector<T> &per_species) const {
    std::vector<T> chosen;
    for (int s : kept) chosen.push_back(per_species[s]);
    per_species = std::move(chosen);
  }
  // [species, n], or empty.
  void rows(Matrix &m) const {
    if (m.data.empty()) return;
    Matrix chosen{static_cast<int>(kept.size()), m.cols, {}};
    for (int s : kept) {
      const auto row = m.data.begin() + static_cast<size_t>(s) * m.cols;
      chosen.data.insert(chosen.data.end(), row, row + m.cols);
    }
    m = std::move(chosen);
  }
  // [species, species], or empty.
  void pairs(Matrix &m) const {
    if (m.data.empty()) return;
    const int num = static_cast<int>(kept.size());
    Matrix chosen{num, num, {}};
    for (int a : kept)
      for (int b : kept) chosen.data.push_back(m(a, b));
    m = std::move(chosen);
  }
  void radial(RadialFunction &f) const {
    pairs(f.basis.pair_r0);
    pairs(f.basis.pair_cutoff);
    rows(f.sender);
    rows(f.receiver);
  }

  void operator()(SpeciesEmbedding &l) const { rows(l.weight); }
  void operator()(Linear &l) const {
    if (!l.per_species) return;
    for (LinearBlock &block : l.blocks) each(block.weight);
  }
  void operator()(Convolution &l) const { radial(l.radial); }
  void operator()(Gate &) const {}
  void operator()(DensityNormalization &l) const { radial(l.density); }
  void operator()(SymmetricContraction &l) const {
    if (!l.product.per_species) return;
    for (ContractionTerm &term : l.product.terms) each(term.weight);
  }
  void operator()(Readout &) const {}
  void operator()(PairRepulsion &l) const {
    pairs(l.prefactor);
    pairs(l.length);
    pairs(l.cutoff);
  }
  void operator()(ScaleShift &l) const {
    each(l.scale);
    each(l.shift);
  }
};

}    // namespace

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

  const Restriction restrict {kept};
  Model m = *this;
  m.elements = symbols;
  restrict.pairs(m.pair_cutoff);
  for (Layer &layer : m.layers) std::visit(restrict, layer);

  // A self-check structure stays if all its elements stay.
  const auto has_other_elements = [&](const ReferenceStructure &r) {
    return std::any_of(r.symbols.begin(), r.symbols.end(), [&](const std::string &e) { return m.species(e) < 0; });
  };
  m.self_check.erase(std::remove_if(m.self_check.begin(), m.self_check.end(), has_other_elements), m.self_check.end());
  return m;
}

}    // namespace equi
