// SPDX-License-Identifier: MIT
// Where a block of threads, on a device, has the arrays of a local program while it runs all of its steps for a few
// receivers. The block's own memory (shared memory) is fast and small; the rest is in the memory of the batch.
//
// An array uses memory from the step that first writes it to the one that reads it last, so arrays share memory. If the
// backward pass overwrites an array before it reads it, the array has two places, one for each pass. If not all arrays
// fit, those whose numbers are used most often have places in the block's memory.
#ifndef EQUI_LOCAL_PLACEMENT_H
#define EQUI_LOCAL_PLACEMENT_H

#include "kokkos/layers/local_network/local_program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace equi {

// The places for blocks with at most so many edges.
struct LocalTile {
  int64_t most_edges;
  int edge_width, receiver_width;               // numbers in the block's memory, for an edge and for a receiver
  std::vector<LocalArray> forward, backward;    // the arrays of the program in each pass
};

// What a number type and an evaluation require.
struct LocalSizes {
  int planes, number;    // PLANES, and bytes of a plain number
  int num_y;
  int64_t constants;    // bytes in the block's memory besides rows and LocalArrays
  // Bytes of an edge besides its arrays: harmonics, their adjoints in float64, and what chunks have.
  int64_t of_edge() const { return num_y * planes * (8 + number) + 3 * number + 2 * 4; }
};

struct LocalPlacement {
  // Number of edges for which a block has all arrays in its memory, if they fit.
  static constexpr int64_t USUAL_EDGES = 64;

  // most: bytes that a block can have. requested: EvaluatorOptions::block_bytes.
  LocalPlacement(const LocalProgram &program, const LocalSizes &sizes, int64_t most, int64_t requested);

  int most_receivers = 1;                        // of a block
  int64_t bytes = 0;                             // of a block's memory
  int64_t edge_width = 0, receiver_width = 0;    // numbers of an edge and of a receiver in the memory of the batch
  // In ascending order. The last one is for all other blocks, and has nothing in their memory.
  std::vector<LocalTile> tiles;

  // Bytes of device memory that are read and written for an edge: by steps that are launches of their own, and by
  // blocks with USUAL_EDGES edges, which also read all matrices. Inputs and results are not counted.
  double bytes_of_steps = 0.0, bytes_of_blocks = 0.0;
  // Whether there are blocks. Unless they are requested, they must read and write much less, because they compute dense
  // products without tensor cores.
  bool is_used = false;
  std::string describe() const;
};

}    // namespace equi

#endif
