// SPDX-License-Identifier: MIT
// Networks on the edges of each receiver. The forward pass of a batch includes the backward pass, if one is requested:
// the cotangent of an energy is known, and nothing is kept of an edge.
#ifndef EQUI_LOCAL_NETWORK_LAYER_H
#define EQUI_LOCAL_NETWORK_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layers/edge_network/edge_tables.h"
#include "kokkos/layers/local_network/device_local_rows.h"
#include "kokkos/layers/local_network/host_local_rows.h"
#include "kokkos/layers/local_network/local_chunk.h"
#include "kokkos/layers/local_network/local_program.h"
#include "kokkos/layers/local_network/local_steps.h"
#include "src/layers/local_network.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace equi {

template <class Backend>
class LocalNetworkLayer : public BatchLayer<typename Backend::Batch> {
  using T = typename Backend::Number;
  using R = Real<T>;
  using Batch = typename Backend::Batch;
  using Target = typename Backend::Target;
  template <class N>
  using Array = typename Backend::template Array<N>;

 public:
  LocalNetworkLayer(const typename Backend::Context &context, const LocalNetwork &layer)
      : program_(layer, context.model.num_species(), context.pair_scale, context.options),
        rows_(context.target(), program_) {
    Backend::copy(context.target(), std::vector<R>(program_.numbers.begin(), program_.numbers.end()), numbers_);
    Backend::copy(context.target(), program_.energy_scales, energy_scales_);
    Backend::copy(context.target(), program_.lists, lists_);
    for (LocalTables &tables : program_.tables) add_tables(context, tables);
    for (const LocalBasis &basis : program_.bases) add_basis(context.target(), basis);
    constants_ = {numbers_.data(),
                  energy_scales_.data(),
                  lists_.data(),
                  of_tables_.data(),
                  static_cast<int>(of_tables_.size()),
                  of_bases_.data(),
                  static_cast<int>(of_bases_.size())};
    if (const std::string steps = rows_.prepare(context, constants_); !steps.empty()) description_ += "; " + steps;
  }

  void forward(Batch &batch) override {
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      rows_.for_chunks(batch, d, [&](const LocalChunk<T> &chunk) {
        const auto work = rows_.work(batch.evaluation.work());
        const LocalSteps<T, std::remove_const_t<decltype(work)>> steps{work, chunk, constants_};
        steps.begin();
        for (const LocalStep &step : program_.steps) std::visit([&](const auto &s) { steps.forward(s); }, step);
        if (!batch.evaluation.has_backward) return;
        for (auto step = program_.steps.rbegin(); step != program_.steps.rend(); ++step)
          std::visit([&](const auto &s) { steps.backward(s); }, *step);
        steps.end();
      });
  }
  void for_batch_arrays(int64_t num_atoms, int64_t num_edges, const ArrayVisitor &f) override {
    rows_.for_batch_arrays(num_atoms, num_edges, f);
  }
  int64_t edge_scratch_size(int64_t num_edges) const override { return rows_.edge_scratch_size(num_edges); }
  void for_memory(const MemoryVisitor &f) const override {
    visit_memory(f, rows_, numbers_, energy_scales_, lists_, tables_, bases_);
  }
  std::string describe() const override { return "local network: " + description_; }

 private:
  struct Tables {
    Array<R> powers;
    Array<RadialTable::Piece> pieces;
    Array<RadialFinder::Table> tables;
    Array<int> pairs;
    auto members() const { return std::tie(powers, pieces, tables, pairs); }
  };
  struct Basis {
    Array<double> numbers;
    Array<BasisFunctions> functions;
    auto members() const { return std::tie(numbers, functions); }
  };

  void add_tables(const typename Backend::Context &context, LocalTables &of_program) {
    std::vector<RadialFunction> functions = std::move(of_program.functions);
    const int num_species = context.model.num_species();
    std::vector<int> pairs(functions.size() > 1 ? functions.size() : 0);
    for (size_t k = 0; k < pairs.size(); k++) pairs[k] = static_cast<int>(k);
    const EdgeTables<R> tables(RadialSet(std::move(functions), std::move(pairs), num_species, context.options),
                               RadialWindows());
    description_ += (description_.empty() ? "" : ", ") + tables.set.describe();
    Tables &to = tables_.emplace_back();
    std::vector<RadialTable::Piece> pieces;
    std::vector<RadialFinder::Table> of_sets;
    tables.set.find_tables(pieces, of_sets);
    Backend::copy(context.target(), tables.powers, to.powers);
    Backend::copy(context.target(), pieces, to.pieces);
    Backend::copy(context.target(), of_sets, to.tables);
    Backend::copy(context.target(), tables.set.pairs(), to.pairs);
    of_tables_.push_back(
        {of_program.values,
         of_program.slopes,
         tables.set.num_coefficients(),
         to.powers.data(),
         {tables.set.has_one_table() ? nullptr : to.pairs.data(), to.pieces.data(), to.tables.data()}});
  }
  void add_basis(const Target &target, const LocalBasis &of_program) {
    const RadialBasis &basis = of_program.basis;
    description_ = "functions of the distance by their networks";
    Basis &to = bases_.emplace_back();
    const bool per_pair = basis.depends_on_pair();
    std::vector<RadialBasis> of_pairs;
    const int num = per_pair ? program_.num_species : 1;
    for (int i = 0; i < num; i++)
      for (int j = 0; j < num; j++) of_pairs.push_back(basis.for_pair(i, j));
    Backend::copy(target, numbers_of(basis), to.numbers);
    std::vector<BasisFunctions> functions;
    for (const RadialBasis &b : of_pairs) {
      functions.push_back(basis_functions(b));
      functions.back().numbers = to.numbers.data();
    }
    Backend::copy(target, functions, to.functions);
    of_bases_.push_back({of_program.values, of_program.slopes, per_pair, to.functions.data()});
  }

  LocalProgram program_;
  typename Backend::template Choose<HostLocalRows<T>, DeviceLocalRows<T>> rows_;
  Array<R> numbers_;
  Array<double> energy_scales_;
  Array<int> lists_;
  std::vector<Tables> tables_;
  std::vector<Basis> bases_;
  std::vector<typename LocalConstants<R>::Table> of_tables_;
  std::vector<typename LocalConstants<R>::Basis> of_bases_;
  LocalConstants<R> constants_;
  std::string description_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const LocalNetwork &layer) {
  return std::make_unique<LocalNetworkLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif
