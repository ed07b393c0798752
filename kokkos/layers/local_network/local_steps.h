// SPDX-License-Identifier: MIT
// The steps of a local program for a chunk, forward and backward, as sequences of kernels. The host runs them, launches
// on a device run them one by one, and a block of threads runs them all.
#ifndef EQUI_LOCAL_STEPS_H
#define EQUI_LOCAL_STEPS_H

#include "kokkos/kernel_interface/local_rows.h"
#include "kokkos/layers/local_network/local_chunk.h"
#include "kokkos/layers/local_network/local_program.h"

#include <cstdint>

// A function for hosts and devices that calls functions of only one of them, which a template argument chooses.
#ifdef __CUDACC__
#define EQUI_EITHER_SIDE _Pragma("nv_exec_check_disable") EQUI_FUNCTION
#else
#define EQUI_EITHER_SIDE EQUI_FUNCTION
#endif

namespace equi {

// The constants of a program, where the kernels read them.
template <class R>
struct LocalConstants {
  struct Table {
    int values, slopes;    // LocalTables
    int coefficients;
    const R *powers;    // LocalTable
    RadialFinder find;
  };
  struct Basis {
    int values, slopes;    // LocalBasis
    bool per_pair;
    const BasisFunctions *functions;    // one, or one per pair
  };
  const R *numbers;
  const double *energy_scales;
  const int *lists;
  const Table *tables;
  int num_tables;
  const Basis *bases;
  int num_bases;
};

// Work, which runs kernels, has
//   run(label, count, kernel)       kernel.row(lanes, r) for each row r
//   for_numbers(label, count, f)    f(r) for each r
//   clear(size, numbers)
//   multiply(rows, matrix, is_transposed, from, to, add)
// The last one computes to (+)= from times a matrix of the program, or its transpose. Each call sees what the earlier
// ones have written.
template <class T, class Work>
struct LocalSteps {
  using R = Real<T>;
  const Work &work;
  const LocalChunk<T> &chunk;
  const LocalConstants<R> &constants;

  // ---- functions of the distance
  EQUI_EITHER_SIDE void begin() const {
    work.for_numbers("equi:receivers", chunk.count, LocalReceivers{chunk.edges, chunk.receiver});
    const LocalPairs pairs{chunk.edges, chunk.sender_species, chunk.num_species};
    for (int k = 0; k < constants.num_tables; k++) {
      const auto &t = constants.tables[k];
      work.for_numbers("equi:places", chunk.count,
                       LocalPlaces<T>{pairs, t.find, chunk.distance, chunk.bin, chunk.place});
      work.run("equi:local_table", chunk.count,
               LocalTable<T>{t.powers, t.coefficients, width(t.values), chunk.bin, chunk.place, chunk.array(t.values),
                             chunk.array(t.slopes)});
    }
    for (int k = 0; k < constants.num_bases; k++) {
      const auto &b = constants.bases[k];
      work.for_numbers("equi:local_basis", chunk.count,
                       LocalBasisRow<T>{pairs, b.functions, b.per_pair, width(b.values), chunk.distance,
                                        chunk.array(b.values), chunk.array(b.slopes)});
    }
  }
  // After the backward pass.
  EQUI_EITHER_SIDE void end() const {
    for (int k = 0; k < constants.num_tables; k++) add_distance(constants.tables[k].values, constants.tables[k].slopes);
    for (int k = 0; k < constants.num_bases; k++) add_distance(constants.bases[k].values, constants.bases[k].slopes);
  }

  // ---- steps and their adjoints
  EQUI_EITHER_SIDE void forward(const LocalDenseStep &s) const {
    work.multiply(num_rows(), s.matrix, false, chunk.array(s.in), chunk.array(s.out), s.add);
  }
  EQUI_EITHER_SIDE void backward(const LocalDenseStep &s) const {
    if (s.clears_adj) clear(s.in);
    work.multiply(num_rows(), s.matrix, true, chunk.adjoint(s.out), chunk.adjoint(s.in), s.add_adj);
  }

  EQUI_EITHER_SIDE void forward(const LocalActivationStep &s) const {
    work.run("equi:activation", chunk.count,
             LocalActivation<T>{s.activation, static_cast<R>(s.scale), s.z.width, chunk.array(s.z), chunk.array(s.h)});
  }
  EQUI_EITHER_SIDE void backward(const LocalActivationStep &s) const {
    work.run("equi:activation", chunk.count, LocalMultiply<T>{s.z.width, chunk.array(s.z), chunk.adjoint(s.h)});
  }

  EQUI_EITHER_SIDE void forward(const LocalFactorsStep &s) const {
    work.run("equi:local_pairs", chunk.count,
             LocalFactors<T>{chunk.edges, chunk.sender_species, numbers(s.of_receiver), numbers(s.of_sender),
                             width(s.array), chunk.array(s.array)});
  }
  EQUI_EITHER_SIDE void backward(const LocalFactorsStep &s) const { forward(s); }

  EQUI_EITHER_SIDE void forward(const LocalPairStep &s) const {
    work.run("equi:local_pairs", chunk.count, pair_product(s, false));
  }
  EQUI_EITHER_SIDE void backward(const LocalPairStep &s) const {
    work.run("equi:local_pairs", chunk.count, pair_product(s, true));
  }

  EQUI_EITHER_SIDE void forward(const LocalTensorStep &s) const {
    work.run("equi:tensors", chunk.count,
             LocalTensor<T>{chunk.edges, blocks(s.blocks), chunk.harmonics, chunk.array(s.w), chunk.array(s.x)});
  }
  EQUI_EITHER_SIDE void backward(const LocalTensorStep &s) const {
    work.run("equi:tensors", chunk.count,
             LocalTensorAdjoint<T>{chunk.edges, blocks(s.blocks), chunk.harmonics, chunk.array(s.w), chunk.adjoint(s.x),
                                   false});
  }

  EQUI_EITHER_SIDE void forward(const LocalEnvironmentStep &s) const {
    work.run("equi:local_sum", num_sums(s), sum(s, chunk.array(s.w), {}));
  }
  EQUI_EITHER_SIDE void backward(const LocalEnvironmentStep &s) const {
    scale_adjoint(s.sums, s.scale);
    work.run("equi:tensors", chunk.count,
             LocalTensorAdjoint<T>{chunk.edges, blocks(s.blocks), chunk.harmonics, chunk.array(s.w),
                                   chunk.adjoint(s.sums), true});
  }
  EQUI_EITHER_SIDE void forward(const LocalSumStep &s) const {
    work.run("equi:local_sum", num_sums(s), sum(s, {}, chunk.array(s.x)));
  }
  EQUI_EITHER_SIDE void backward(const LocalSumStep &s) const {
    scale_adjoint(s.sums, s.scale);
    work.run("equi:local_sum", chunk.count,
             LocalSpread<T>{chunk.edges, width(s.x), chunk.adjoint(s.sums), chunk.adjoint(s.x), s.add_adj});
  }

  EQUI_EITHER_SIDE void forward(const LocalProductStep &s) const {
    work.run("equi:coupling", int64_t(chunk.edges.num_receivers) * s.num_cells,
             LocalCoupling<T>{s.num_cells, s.channels, terms(s.of_m), numbers(s.weights), chunk.array(s.environment),
                              chunk.array(s.m), false});
    work.run("equi:products", chunk.count,
             LocalProduct<T>{chunk.edges, s.num_out, s.channels, terms(s.of_out), chunk.array(s.x), chunk.array(s.m),
                             chunk.array(s.out), false});
  }
  EQUI_EITHER_SIDE void backward(const LocalProductStep &s) const {
    // The adjoint of x may take its place, so that of M comes first.
    work.run("equi:products", int64_t(chunk.edges.num_receivers) * s.num_out,
             LocalProductAdjoint<T>{chunk.edges, s.num_out, s.channels, terms(s.of_out), chunk.array(s.x),
                                    chunk.adjoint(s.out), chunk.array(s.m_adj)});
    work.run("equi:products", chunk.count,
             LocalProduct<T>{chunk.edges, s.num_in, s.channels, terms(s.of_in), chunk.adjoint(s.out), chunk.array(s.m),
                             chunk.adjoint(s.x), s.add_x_adj});
    work.run("equi:coupling", int64_t(chunk.edges.num_receivers) * s.num_environment,
             LocalCoupling<T>{s.num_environment, s.channels, terms(s.of_environment), numbers(s.weights),
                              chunk.array(s.m_adj), chunk.adjoint(s.environment), s.add_environment_adj});
  }

  EQUI_EITHER_SIDE void forward(const LocalReadoutStep &s) const {
    work.run("equi:readout", chunk.count,
             LocalReadout<T>{s.h.width, numbers(s.weights), chunk.array(s.h), chunk.array(s.sums)});
    work.run("equi:readout", chunk.edges.num_receivers,
             LocalEnergy<T>{chunk.edges, constants.energy_scales + s.scale, chunk.array(s.sums), chunk.energy});
  }
  EQUI_EITHER_SIDE void backward(const LocalReadoutStep &s) const {
    if (s.clears_adj) clear(s.h);
    work.run("equi:readout", chunk.count,
             LocalReadoutAdjoint<T>{chunk.edges, s.h.width, numbers(s.weights), constants.energy_scales + s.scale,
                                    chunk.adjoint(s.h), s.add_adj});
  }

 private:
  EQUI_FUNCTION int width(int array) const { return chunk.arrays[array].width; }
  EQUI_FUNCTION int64_t num_rows() const { return PLANES<T> * chunk.rows; }
  EQUI_FUNCTION const R *numbers(int offset) const { return constants.numbers + offset; }
  EQUI_FUNCTION const int *list(int offset) const { return constants.lists + offset; }
  EQUI_FUNCTION LocalTerms<R> terms(const LocalTermList &t) const {
    return {list(t.begin), list(t.entries), t.factors < 0 ? nullptr : numbers(t.factors)};
  }
  EQUI_FUNCTION LocalBlocks blocks(const LocalBlockList &b) const {
    return {b.num_blocks, b.num_components, b.channels, list(b.degree), list(b.component)};
  }
  EQUI_EITHER_SIDE void clear(const LocalSlot &slot) const {
    const LocalRows<T> all = chunk.adjoint(slot.array);
    work.clear(PLANES<T> * all.plane, all.data);
  }
  EQUI_EITHER_SIDE void add_distance(int values, int slopes) const {
    work.run("equi:local_r", chunk.count,
             LocalDistance<T>{chunk.edges, width(values), chunk.adjoint(values), chunk.array(slopes),
                              chunk.harmonics.y_adj, chunk.harmonics.num_y});
  }
  EQUI_FUNCTION LocalPairProduct<T> pair_product(const LocalPairStep &s, bool is_transposed) const {
    return {chunk.edges,         chunk.sender_species, chunk.num_species,  s.num_in,     width(s.out),
            numbers(s.matrices), chunk.array(s.in),    chunk.array(s.out), is_transposed};
  }
  template <class Step>
  EQUI_FUNCTION LocalSum<T> sum(const Step &s, LocalRows<T> w, LocalRows<T> x) const {
    return {chunk.edges, blocks(s.blocks), chunk.harmonics, w, x, numbers(s.scale), chunk.array(s.sums)};
  }
  EQUI_EITHER_SIDE void scale_adjoint(int sums, int scale) const {
    work.run("equi:local_sum", chunk.edges.num_receivers,
             LocalScale<T>{chunk.edges, numbers(scale), width(sums), chunk.adjoint(sums)});
  }
  template <class Step>
  EQUI_FUNCTION int64_t num_sums(const Step &s) const {
    return int64_t(chunk.edges.num_receivers) * s.blocks.num_components;
  }
};

}    // namespace equi

#endif
