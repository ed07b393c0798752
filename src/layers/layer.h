// SPDX-License-Identifier: MIT
// Each layer of this room has, besides its numbers, these functions:
//   static L read(const JsonField &layer, LayerReader &reader);    from its entry in the document, all of it checked
//   Ports ports() const;
//   void restrict_to(const KeptSpecies &kept);    drops what it holds for other species
// A new layer is a header and a source here, a member of Layer (src/model/model.h) and a line in the table of types
// (src/model/model_file.cpp).
#ifndef EQUI_LAYER_H
#define EQUI_LAYER_H

#include "src/functions/radial_function.h"

#include <array>
#include <utility>
#include <vector>

namespace equi {

class JsonField;
class LayerReader;

// The features that a layer reads; -1: none.
constexpr int MAX_INPUTS = 2;
using InputFeatures = std::array<int, MAX_INPUTS>;

// Features are numbered; Model::features holds their irreps.
struct Ports {
  int input = -1, output = -1;    // the features that the layer reads and writes, -1: none
  bool keeps_input = false;    // the backward pass needs the values of what is read, which it replaces by their adjoint
  int second_input = -1;       // another feature that is read
  bool keeps_output = false;    // the backward pass needs the values of what is written; the layer alone writes them

  InputFeatures inputs() const { return {input, second_input}; }
  template <class F>
  void for_inputs(const F &f) const {
    for (const int feature : inputs())
      if (feature >= 0) f(feature);
  }
};

// Restricts what a layer holds for each species to a subset of them.
struct KeptSpecies {
  const std::vector<int> &kept;    // in their new order

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
    rows(f.receiver_factor);
    rows(f.sender_factor);
  }
};

}    // namespace equi

#endif
