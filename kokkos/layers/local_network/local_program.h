// SPDX-License-Identifier: MIT
// A local network as a program for the edges of some receivers: arrays, and operations on them, each of which has a
// forward and a backward pass. Both back ends run it. The numbers of the model are prepared here in float64.
//
// The program computes what the steps of the layer state, with fewer products:
//   - Features that depend only on the distance and the species come from tables. A table has a column for each number
//     that other steps read: not the features themselves, but their products with constant matrices.
//   - The output of a network is linear in its last hidden layer. Its last matrix is multiplied with the first ones of
//     the networks that read it, if that saves work.
//   - An environment is summed without the tensors of edges that it is the sum of.
// Arrays have rows of edges or of receivers, with blocks padded to multiples of CHANNEL_PAD channels. In the padding
// all numbers are 0. The backward pass writes adjoints in place of values that it needs no more.
#ifndef EQUI_LOCAL_PROGRAM_H
#define EQUI_LOCAL_PROGRAM_H

#include "src/evaluation/evaluator.h"
#include "src/functions/radial_function.h"
#include "src/layers/local_network.h"
#include "src/numbers/matrix.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace equi {

// Memory in which arrays are: that of a batch, or that of a block of threads (local_placement.h).
constexpr int NUM_LOCAL_MEMORIES = 2;

// Without padding, because it is copied to devices.
struct LocalArray {
  int width;              // numbers in a row
  int row;                // distance of rows
  int is_of_receivers;    // 0: its rows are those of edges
  int before;             // numbers in rows of earlier arrays of the same kind
  int adjoint;            // the array in which the backward pass stores its adjoint
  int memory = 0;
};

// Adjacent numbers in each row of an array.
struct LocalSlot {
  int array = -1, first = 0, width = 0;
};

// Offsets of constants in LocalProgram::lists and LocalProgram::numbers.
struct LocalTermList {
  int begin, entries, factors;    // LocalTerms; factors -1: none
};
struct LocalBlockList {
  int num_blocks, num_components, channels;
  int degree, component;    // LocalBlocks
};

// out (+)= in times a matrix.
struct LocalDenseStep {
  LocalSlot in, out;
  int matrix;
  bool add;
  // How the adjoint of `in` is written: added, perhaps after all of its array has been set to 0.
  bool add_adj = false, clears_adj = false;
};
struct LocalActivationStep {
  LocalSlot z;
  int h;
  Activation activation;
  double scale;
};
struct LocalFactorsStep {
  int array, of_receiver, of_sender;
};
struct LocalPairStep {
  int in, out, matrices, num_in;
};
struct LocalTensorStep {
  LocalSlot w;
  int x;
  LocalBlockList blocks;
};
// The sum of a tensor step that is not executed.
struct LocalEnvironmentStep {
  LocalSlot w;
  int sums, scale;
  LocalBlockList blocks;
};
struct LocalSumStep {
  int x, sums, scale;
  LocalBlockList blocks;
  bool add_adj = false;
};
struct LocalProductStep {
  int x, environment, out, m, m_adj;
  int num_in, num_environment, num_out, num_cells, channels;
  int weights;
  LocalTermList of_m, of_environment, of_out, of_in;
  bool add_x_adj = false, add_environment_adj = false;
};
struct LocalReadoutStep {
  LocalSlot h;
  int sums;              // an array for the numbers that edges add
  int weights, scale;    // scale: in LocalProgram::energy_scales
  bool add_adj = false, clears_adj = false;
};
using LocalStep = std::variant<LocalDenseStep, LocalActivationStep, LocalFactorsStep, LocalPairStep, LocalTensorStep,
                               LocalEnvironmentStep, LocalSumStep, LocalProductStep, LocalReadoutStep>;

// Functions of the distance at the begin of the program, and the array with their derivatives.
struct LocalTables {
  std::vector<RadialFunction> functions;    // one, or [receiver species * species + sender species]
  int values, slopes;
};
struct LocalBasis {
  RadialBasis basis;
  int values, slopes;
};

struct LocalProgram {
  int num_species;
  std::vector<LocalArray> arrays;
  int64_t edge_width = 0, receiver_width = 0;    // numbers in all rows of an edge, and of a receiver
  std::vector<LocalTables> tables;
  std::vector<LocalBasis> bases;
  std::vector<LocalStep> steps;
  std::vector<Matrix> matrices;
  std::vector<double> numbers, energy_scales;
  std::vector<int> lists;

  // scale: of energies, per species.
  LocalProgram(const LocalNetwork &network, int num_species, const std::vector<double> &scale,
               const EvaluatorOptions &options);
};

}    // namespace equi

#endif
