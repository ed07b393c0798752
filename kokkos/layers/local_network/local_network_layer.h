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
#include "src/layers/local_network.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace equi {

template <class Backend>
class LocalNetworkLayer : public BatchLayer<typename Backend::Batch> {
  using T = typename Backend::Number;
  using R = Real<T>;
  using Batch = typename Backend::Batch;
  using Work = typename Backend::Work;
  using Target = typename Backend::Target;
  using Chunk = LocalChunk<T>;
  template <class N>
  using Array = typename Backend::template Array<N>;

 public:
  LocalNetworkLayer(const typename Backend::Context &context, const LocalNetwork &layer)
      : program_(layer, context.model.num_species(), context.pair_scale, context.options),
        rows_(context.target(), program_) {
    Backend::copy(context.target(), std::vector<R>(program_.numbers.begin(), program_.numbers.end()), numbers_);
    Backend::copy(context.target(), program_.energy_scales, energy_scales_);
    Backend::copy(context.target(), program_.lists, lists_);
    for (LocalTables &tables : program_.tables) add_tables(context, std::move(tables.functions));
    for (const LocalBasis &basis : program_.bases) add_basis(context.target(), basis.basis);
  }

  void forward(Batch &batch) override {
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      rows_.for_chunks(batch, d, [&](const Chunk &chunk) {
        const Work &work = batch.evaluation.work();
        begin(work, chunk);
        for (const LocalStep &step : program_.steps)
          std::visit([&](const auto &s) { forward_step(work, chunk, s); }, step);
        if (!batch.evaluation.has_backward) return;
        for (auto step = program_.steps.rbegin(); step != program_.steps.rend(); ++step)
          std::visit([&](const auto &s) { backward_step(work, chunk, s); }, *step);
        end(work, chunk);
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
    int coefficients;
    bool has_pairs;
    Array<R> powers;
    Array<RadialTable::Piece> pieces;
    Array<RadialFinder::Table> tables;
    Array<int> pairs;
    auto members() const { return std::tie(powers, pieces, tables, pairs); }
  };
  struct Basis {
    bool per_pair;
    Array<double> numbers;
    Array<BasisFunctions> functions;
    auto members() const { return std::tie(numbers, functions); }
  };

  void add_tables(const typename Backend::Context &context, std::vector<RadialFunction> functions) {
    const int num_species = context.model.num_species();
    std::vector<int> pairs(functions.size() > 1 ? functions.size() : 0);
    for (size_t k = 0; k < pairs.size(); k++) pairs[k] = static_cast<int>(k);
    const EdgeTables<R> tables(RadialSet(std::move(functions), std::move(pairs), num_species, context.options),
                               RadialWindows());
    description_ += (description_.empty() ? "" : ", ") + tables.set.describe();
    Tables &to = tables_.emplace_back();
    to.coefficients = tables.set.num_coefficients();
    to.has_pairs = !tables.set.has_one_table();
    std::vector<RadialTable::Piece> pieces;
    std::vector<RadialFinder::Table> of_sets;
    tables.set.find_tables(pieces, of_sets);
    Backend::copy(context.target(), tables.powers, to.powers);
    Backend::copy(context.target(), pieces, to.pieces);
    Backend::copy(context.target(), of_sets, to.tables);
    Backend::copy(context.target(), tables.set.pairs(), to.pairs);
  }
  void add_basis(const Target &target, const RadialBasis &basis) {
    description_ = "functions of the distance by their networks";
    Basis &to = bases_.emplace_back();
    to.per_pair = basis.depends_on_pair();
    std::vector<RadialBasis> of_pairs;
    const int num = to.per_pair ? program_.num_species : 1;
    for (int i = 0; i < num; i++)
      for (int j = 0; j < num; j++) of_pairs.push_back(basis.for_pair(i, j));
    Backend::copy(target, numbers_of(basis), to.numbers);
    std::vector<BasisFunctions> functions;
    for (const RadialBasis &b : of_pairs) {
      functions.push_back(basis_functions(b));
      functions.back().numbers = to.numbers.data();
    }
    Backend::copy(target, functions, to.functions);
  }

  const R *numbers(int offset) const { return numbers_.data() + offset; }
  const int *list(int offset) const { return lists_.data() + offset; }
  LocalTerms<R> terms(const LocalTermList &t) const {
    return {list(t.begin), list(t.entries), t.factors < 0 ? nullptr : numbers(t.factors)};
  }
  LocalBlocks blocks(const LocalBlockList &b) const {
    return {b.num_blocks, b.num_components, b.channels, list(b.degree), list(b.component)};
  }
  template <class Kernel>
  void run(const Work &work, const char *label, int64_t rows, const Kernel &kernel) const {
    rows_.run(work, label, rows, kernel);
  }
  void clear(const Work &work, const Chunk &chunk, const LocalSlot &slot) const {
    const LocalRows<T> all = chunk.adjoint(slot.array);
    rows_.clear(work, PLANES<T> * all.plane, all.data);
  }

  // ---- functions of the distance
  void begin(const Work &work, const Chunk &chunk) const {
    Backend::for_numbers(work, "equi:receivers", chunk.count, LocalReceivers{chunk.edges, chunk.receiver()});
    const LocalPairs pairs{chunk.edges, chunk.sender_species, chunk.num_species};
    for (size_t k = 0; k < tables_.size(); k++) {
      const Tables &t = tables_[k];
      const LocalTables &of_program = program_.tables[k];
      Backend::for_numbers(work, "equi:places", chunk.count,
                           LocalPlaces<T>{pairs,
                                          {t.has_pairs ? t.pairs.data() : nullptr, t.pieces.data(), t.tables.data()},
                                          chunk.distance,
                                          chunk.bin(),
                                          chunk.place()});
      run(work, "equi:local_table", chunk.count,
          LocalTable<T>{t.powers.data(), t.coefficients, program_.arrays[of_program.values].width, chunk.bin(),
                        chunk.place(), chunk.array(of_program.values), chunk.array(of_program.slopes)});
    }
    for (size_t k = 0; k < bases_.size(); k++) {
      const Basis &b = bases_[k];
      const LocalBasis &of_program = program_.bases[k];
      Backend::for_numbers(
          work, "equi:local_basis", chunk.count,
          LocalBasisRow<T>{pairs, b.functions.data(), b.per_pair, program_.arrays[of_program.values].width,
                           chunk.distance, chunk.array(of_program.values), chunk.array(of_program.slopes)});
    }
  }
  void end(const Work &work, const Chunk &chunk) const {
    const auto add = [&](int values, int slopes) {
      run(work, "equi:local_r", chunk.count,
          LocalDistance<T>{chunk.edges, program_.arrays[values].width, chunk.adjoint(values), chunk.array(slopes),
                           chunk.harmonics.y_adj, chunk.harmonics.num_y});
    };
    for (const LocalTables &t : program_.tables) add(t.values, t.slopes);
    for (const LocalBasis &b : program_.bases) add(b.values, b.slopes);
  }

  // ---- steps and their adjoints
  void forward_step(const Work &work, const Chunk &chunk, const LocalDenseStep &s) const {
    rows_.multiply(work, chunk, s.matrix, false, chunk.array(s.in), chunk.array(s.out), s.add);
  }
  void backward_step(const Work &work, const Chunk &chunk, const LocalDenseStep &s) const {
    if (s.clears_adj) clear(work, chunk, s.in);
    rows_.multiply(work, chunk, s.matrix, true, chunk.adjoint(s.out), chunk.adjoint(s.in), s.add_adj);
  }

  void forward_step(const Work &work, const Chunk &chunk, const LocalActivationStep &s) const {
    run(work, "equi:activation", chunk.count,
        LocalActivation<T>{s.activation, static_cast<R>(s.scale), s.z.width, chunk.array(s.z), chunk.array(s.h)});
  }
  void backward_step(const Work &work, const Chunk &chunk, const LocalActivationStep &s) const {
    run(work, "equi:activation", chunk.count, LocalMultiply<T>{s.z.width, chunk.array(s.z), chunk.adjoint(s.h)});
  }

  void forward_step(const Work &work, const Chunk &chunk, const LocalFactorsStep &s) const {
    run(work, "equi:local_pairs", chunk.count,
        LocalFactors<T>{chunk.edges, chunk.sender_species, numbers(s.of_receiver), numbers(s.of_sender),
                        program_.arrays[s.array].width, chunk.array(s.array)});
  }
  void backward_step(const Work &work, const Chunk &chunk, const LocalFactorsStep &s) const {
    forward_step(work, chunk, s);
  }

  LocalPairProduct<T> pair_product(const Chunk &chunk, const LocalPairStep &s, bool is_transposed) const {
    return {chunk.edges,         chunk.sender_species, chunk.num_species,  s.num_in,     program_.arrays[s.out].width,
            numbers(s.matrices), chunk.array(s.in),    chunk.array(s.out), is_transposed};
  }
  void forward_step(const Work &work, const Chunk &chunk, const LocalPairStep &s) const {
    run(work, "equi:local_pairs", chunk.count, pair_product(chunk, s, false));
  }
  void backward_step(const Work &work, const Chunk &chunk, const LocalPairStep &s) const {
    run(work, "equi:local_pairs", chunk.count, pair_product(chunk, s, true));
  }

  void forward_step(const Work &work, const Chunk &chunk, const LocalTensorStep &s) const {
    run(work, "equi:tensors", chunk.count,
        LocalTensor<T>{chunk.edges, blocks(s.blocks), chunk.harmonics, chunk.array(s.w), chunk.array(s.x)});
  }
  void backward_step(const Work &work, const Chunk &chunk, const LocalTensorStep &s) const {
    run(work, "equi:tensors", chunk.count,
        LocalTensorAdjoint<T>{chunk.edges, blocks(s.blocks), chunk.harmonics, chunk.array(s.w), chunk.adjoint(s.x),
                              false});
  }

  template <class Step>
  LocalSum<T> sum(const Chunk &chunk, const Step &s, LocalRows<T> w, LocalRows<T> x) const {
    return {chunk.edges, blocks(s.blocks), chunk.harmonics, w, x, numbers(s.scale), chunk.array(s.sums)};
  }
  template <class Step>
  void scale_adjoint(const Work &work, const Chunk &chunk, const Step &s) const {
    run(work, "equi:local_sum", chunk.edges.num_receivers,
        LocalScale<T>{chunk.edges, numbers(s.scale), program_.arrays[s.sums].width, chunk.adjoint(s.sums)});
  }
  template <class Step>
  int64_t num_sums(const Chunk &chunk, const Step &s) const {
    return int64_t(chunk.edges.num_receivers) * s.blocks.num_components;
  }
  void forward_step(const Work &work, const Chunk &chunk, const LocalEnvironmentStep &s) const {
    run(work, "equi:local_sum", num_sums(chunk, s), sum(chunk, s, chunk.array(s.w), {}));
  }
  void backward_step(const Work &work, const Chunk &chunk, const LocalEnvironmentStep &s) const {
    scale_adjoint(work, chunk, s);
    run(work, "equi:tensors", chunk.count,
        LocalTensorAdjoint<T>{chunk.edges, blocks(s.blocks), chunk.harmonics, chunk.array(s.w), chunk.adjoint(s.sums),
                              true});
  }
  void forward_step(const Work &work, const Chunk &chunk, const LocalSumStep &s) const {
    run(work, "equi:local_sum", num_sums(chunk, s), sum(chunk, s, {}, chunk.array(s.x)));
  }
  void backward_step(const Work &work, const Chunk &chunk, const LocalSumStep &s) const {
    scale_adjoint(work, chunk, s);
    run(work, "equi:local_sum", chunk.count,
        LocalSpread<T>{chunk.edges, program_.arrays[s.x].width, chunk.adjoint(s.sums), chunk.adjoint(s.x), s.add_adj});
  }

  void forward_step(const Work &work, const Chunk &chunk, const LocalProductStep &s) const {
    run(work, "equi:coupling", int64_t(chunk.edges.num_receivers) * s.num_cells,
        LocalCoupling<T>{s.num_cells, s.channels, terms(s.of_m), numbers(s.weights), chunk.array(s.environment),
                         chunk.array(s.m), false});
    run(work, "equi:products", chunk.count,
        LocalProduct<T>{chunk.edges, s.num_out, s.channels, terms(s.of_out), chunk.array(s.x), chunk.array(s.m),
                        chunk.array(s.out), false});
  }
  void backward_step(const Work &work, const Chunk &chunk, const LocalProductStep &s) const {
    // The adjoint of x may take its place, so that of M comes first.
    run(work, "equi:products", int64_t(chunk.edges.num_receivers) * s.num_out,
        LocalProductAdjoint<T>{chunk.edges, s.num_out, s.channels, terms(s.of_out), chunk.array(s.x),
                               chunk.adjoint(s.out), chunk.array(s.m_adj)});
    run(work, "equi:products", chunk.count,
        LocalProduct<T>{chunk.edges, s.num_in, s.channels, terms(s.of_in), chunk.adjoint(s.out), chunk.array(s.m),
                        chunk.adjoint(s.x), s.add_x_adj});
    run(work, "equi:coupling", int64_t(chunk.edges.num_receivers) * s.num_environment,
        LocalCoupling<T>{s.num_environment, s.channels, terms(s.of_environment), numbers(s.weights),
                         chunk.array(s.m_adj), chunk.adjoint(s.environment), s.add_environment_adj});
  }

  void forward_step(const Work &work, const Chunk &chunk, const LocalReadoutStep &s) const {
    run(work, "equi:readout", chunk.edges.num_receivers,
        LocalReadout<T>{chunk.edges, s.h.width, numbers(s.weights), energy_scales_.data() + s.scale, chunk.array(s.h),
                        chunk.energy});
  }
  void backward_step(const Work &work, const Chunk &chunk, const LocalReadoutStep &s) const {
    if (s.clears_adj) clear(work, chunk, s.h);
    run(work, "equi:readout", chunk.count,
        LocalReadoutAdjoint<T>{chunk.edges, s.h.width, numbers(s.weights), energy_scales_.data() + s.scale,
                               chunk.adjoint(s.h), s.add_adj});
  }

  LocalProgram program_;
  typename Backend::template Choose<HostLocalRows<T>, DeviceLocalRows<T>> rows_;
  Array<R> numbers_;
  Array<double> energy_scales_;
  Array<int> lists_;
  std::vector<Tables> tables_;
  std::vector<Basis> bases_;
  std::string description_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const LocalNetwork &layer) {
  return std::make_unique<LocalNetworkLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif
