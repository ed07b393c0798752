// SPDX-License-Identifier: MIT
// Tiny models that compute charges, dipoles and polarizabilities, and one evaluation of these.
#ifndef EQUI_TEST_OBSERVABLES_H
#define EQUI_TEST_OBSERVABLES_H

#include "src/evaluation/born_charges.h"
#include "src/model/model_file.h"
#include "unittest/support/mixture_builder.h"
#include "unittest/support/model_cases.h"
#include "unittest/support/two_rank_exchange.h"

#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace equi {
namespace testing {

// The document of a model, with linear maps of the features that have vectors to observables of two units. A dipole has
// a part of each such feature; so the last one is that of two stages.
inline ModelDocument with_observables(ModelDocument d, bool with_charge = true) {
  std::mt19937_64 random(10);
  std::vector<std::pair<std::string, Irreps>> sources;
  for (const Json &layer : d.document["layers"]) {
    // A balance changes the feature in place.
    if (layer["type"] == "channel_balance" && !sources.empty() && sources.back().first == layer["input"])
      sources.back().first = layer["output"];
    if (layer["type"] != "gate") continue;
    sources.emplace_back(layer["output"], Irreps::parse(layer["irreps_out"]));
  }
  int number = 0;
  Json added = Json::array();
  for (const auto &[name, irreps] : sources) {
    const std::string to = "observables" + std::to_string(number++);
    std::vector<int> found(3, -1);
    for (int b = 0; b < irreps.size(); ++b) {
      const Irrep ir = irreps[b].irrep;
      if (ir.l < 3 && (ir.l == 1 || ir.p == 1) && found[ir.l] < 0) found[ir.l] = b;
    }
    Json blocks = Json::array();
    std::vector<IrrepBlock> out;
    std::vector<int> place(4, -1);
    const auto map = [&](int b, int as) {
      if (b < 0) return;
      place[as] = static_cast<int>(out.size());
      const std::string weight = to + "." + std::to_string(as);
      blocks.push_back({{"in", b}, {"out", place[as]}, {"weight", weight}, {"scale", 0.7}});
      random_tensor(d, random, weight, {irreps[b].mul, 1});
      out.push_back({1, irreps[b].irrep});
    };
    map(found[0], 0);    // charge
    map(found[0], 1);    // mean of the polarizability
    map(found[1], 2);
    map(found[2], 3);
    const std::string irreps_out = Irreps(out).to_string();
    added.push_back({{"type", "linear"},
                     {"input", name},
                     {"irreps_in", irreps.to_string()},
                     {"output", to},
                     {"irreps_out", irreps_out},
                     {"blocks", blocks},
                     {"biases", Json::array()},
                     {"per_species", false},
                     {"accumulate", false}});
    const auto observe = [&](const char *quantity, const std::vector<int> &of, const char *unit) {
      for (const int b : of)
        if (b < 0) return;
      added.push_back({{"type", "observable"},
                       {"input", to},
                       {"irreps_in", irreps_out},
                       {"name", quantity},
                       {"blocks", of},
                       {"unit", unit}});
    };
    if (with_charge) observe("charge", {place[0]}, "e");
    observe("dipole", {place[2]}, "Debye");
    observe("polarizability", {place[1], place[3]}, "Angstrom^3");
  }
  Json layers = Json::array();
  for (const Json &layer : d.document["layers"]) {
    if (layer["type"] == "scale_shift")
      for (const Json &more : added) layers.push_back(more);
    layers.push_back(layer);
  }
  d.document["layers"] = layers;
  return d;
}

// Models of rotations only, of both parities, with readouts of wide features, and with strong couplings of the atoms.
inline std::vector<TinyCase> observable_cases() {
  std::vector<TinyCase> cases(3);
  cases[0].name = "rotations_only";
  cases[0].options.hidden = {"5x0e+3x1e+2x2e", "7x0e+5x1e+3x2e"};
  cases[1].name = "parity";
  cases[1].options.parity = true;
  cases[1].options.elements = {"O", "H", "Si"};
  cases[1].options.hidden = {"13x0e+5x1o+2x2e", "5x0e+33x1o+3x2e", "5x0e+1x1o+1x2e"};
  cases[1].options.per_species_linear = true;
  cases[2].name = "contractions";
  cases[2].options.hidden = {"5x0e+5x1e+5x2e", "5x0e+5x1e+5x2e"};
  cases[2].options.contraction_degree = 2;
  cases[2].options.repulsion_inside = true;
  return cases;
}

inline Model observed_model(const TinyCase &tiny, bool with_charge = true) {
  return with_observables(make_tiny_model(tiny.options), with_charge).model();
}

// The numbers of the real atoms of an evaluation by one rank, [real atoms][Model::num_observable_numbers()].
inline std::vector<double> observables_of(Evaluator &evaluator, const Model &model, const ImageStructure &images) {
  NoExchange exchange;
  evaluator.set_neighborhood(images.neighborhood);
  std::vector<double> numbers(images.positions.size() * model.num_observable_numbers(), 0.0);
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
  request.observables = numbers.data();
  evaluator.evaluate(request, exchange);
  numbers.resize(static_cast<size_t>(images.neighborhood.num_receivers) * model.num_observable_numbers());
  return numbers;
}

// The same of the real atoms of a structure split among ranks, [real atoms][numbers].
inline std::vector<double> observables_of_ranks(const std::vector<std::unique_ptr<Evaluator>> &evaluators,
                                                const Model &model, const std::vector<RankPart> &parts, int num_real,
                                                RankGroup &group) {
  const size_t width = model.num_observable_numbers();
  std::vector<double> all(width * num_real, 0.0);
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (size_t r = 0; r < parts.size(); ++r)
    threads.emplace_back([&, r] {
      const RankPart &part = parts[r];
      std::vector<double> numbers(part.positions.size() * width, 0.0);
      EvaluationRequest request;
      request.positions = reinterpret_cast<const double(*)[3]>(part.positions.data());
      request.observables = numbers.data();
      {
        const std::lock_guard<std::mutex> lock(mutex);
        evaluators[r]->set_neighborhood(part.neighborhood);
      }
      evaluators[r]->evaluate(request, group.rank(static_cast<int>(r)));
      const std::lock_guard<std::mutex> lock(mutex);
      for (size_t a = 0; a < part.positions.size(); ++a)
        for (size_t k = 0; k < width && part.real_atom[a] >= 0; ++k)
          all[width * part.real_atom[a] + k] += numbers[width * a + k];
    });
  for (std::thread &t : threads) t.join();
  return all;
}

// Born charges of the real atoms by one rank; evaluator: of `derived`.
inline BornCharges born_charges_of(std::unique_ptr<Evaluator> evaluator, const Model &derived, const Structure &s,
                                   bool neutral = false) {
  const ImageStructure images = s.images(derived.reach());
  NoExchange exchange;
  BornEvaluation born(std::move(evaluator), derived);
  born.set_neighborhood(images.neighborhood);
  return born.evaluate(reinterpret_cast<const double(*)[3]>(images.positions.data()),
                       {s.periodic[0], s.periodic[1], s.periodic[2]}, neutral, exchange);
}

// The same of a structure split among ranks.
inline BornCharges born_charges_of_ranks(std::vector<std::unique_ptr<BornEvaluation>> &evaluations,
                                         const std::vector<RankPart> &parts, const Structure &s, bool neutral,
                                         RankGroup &group) {
  BornCharges all;
  all.charge.resize(s.size());
  all.born.resize(s.size());
  all.charge_derivative.resize(s.size());
  std::vector<std::thread> threads;
  std::mutex mutex;
  for (size_t r = 0; r < parts.size(); ++r)
    threads.emplace_back([&, r] {
      const RankPart &part = parts[r];
      {
        const std::lock_guard<std::mutex> lock(mutex);
        evaluations[r]->set_neighborhood(part.neighborhood);
      }
      const BornCharges one = evaluations[r]->evaluate(reinterpret_cast<const double(*)[3]>(part.positions.data()),
                                                       {s.periodic[0], s.periodic[1], s.periodic[2]}, neutral,
                                                       group.rank(static_cast<int>(r)));
      for (int i = 0; i < part.neighborhood.num_receivers; ++i) {
        const int real = part.real_atom[part.neighborhood.receiver[i]];
        all.charge[real] = one.charge[i];
        all.born[real] = one.born[i];
        all.charge_derivative[real] = one.charge_derivative[i];
      }
    });
  for (std::thread &t : threads) t.join();
  return all;
}

}    // namespace testing
}    // namespace equi

#endif
