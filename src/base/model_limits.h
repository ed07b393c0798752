// SPDX-License-Identifier: MIT
// The bounds of what a model may request, several times what the largest published models need. Without them a small
// file could make its reader compute for hours or use all memory: its numbers are sizes, and it may name a tensor many
// times. doc/model_file.rst ("Limits") lists them for authors of files.
#ifndef EQUI_MODEL_LIMITS_H
#define EQUI_MODEL_LIMITS_H

#include <cstddef>
#include <cstdint>

namespace equi {

// The container and its document.
constexpr uint64_t MAX_HEADER_BYTES = uint64_t(1) << 24;
constexpr int MAX_NESTING = 32;    // arrays and objects within each other
constexpr size_t MAX_ELEMENTS = 118;
constexpr int MAX_FORMULA_ATOMS = 1000000;    // atoms of one element
// Files for all systems: the magnitude of a charge, a spin or a number of further atoms; the number of tasks.
constexpr int MAX_SYSTEM_NUMBER = 1000000, MAX_TASKS = 1024;
constexpr size_t MAX_SYSTEM_INPUTS = 64;
constexpr size_t MAX_PROVENANCE = 64;     // entries
constexpr double MAX_MAGNITUDE = 1e30;    // magnitude of any number: float32 must hold it
constexpr double MIN_DIVISOR = 1e-30;     // smallest divisor: float32 must hold its reciprocal

// Features and layers.
constexpr int MAX_LAYERS = 1024;
constexpr int MAX_BLOCKS = 2048;                        // per feature
constexpr int MAX_CHANNELS = 1 << 16;                   // per block
constexpr int64_t MAX_COMPONENTS = int64_t(1) << 19;    // per feature
// Components of all features. Each block uses a multiple of PADDED_CHANNELS channels in memory.
constexpr int64_t MAX_ALL_COMPONENTS = int64_t(1) << 22;
constexpr int PADDED_CHANNELS = 16;

// Sizes that the back ends support. The reader refuses larger ones, so a file that has been read is never refused
// later.
constexpr int LMAX_SUPPORTED = 8;         // l of features and harmonics: couplings are accurate up to here (coupling.h)
constexpr int MAX_PRODUCT_BLOCKS = 24;    // blocks of the inputs or of the output of a contraction or a node product
constexpr int MAX_PRODUCT_COMPONENTS = 64;    // components of one channel of these
constexpr int MAX_GAUNT_COMPONENTS = 162;     // components of a channel of a Gaunt product's inputs: two to l = 8
constexpr int MAX_NORMALIZED_BLOCKS = 8;      // blocks that a norm reads: they fit into a GPU's memory for arguments
constexpr int MAX_ATTENTION_GROUPS = LMAX_SUPPORTED + 1;    // groups of pair attention
constexpr int MAX_READOUT_MATRICES = 8;    // after matrices without an activation between them have been multiplied
constexpr int MAX_EXCHANGED_RUNS = 32;     // runs of blocks of one irrep, in a feature that is read at senders

// Tensor products: 738 paths lead from both parities of l = 0 to 8 to all others.
constexpr int MAX_PATHS = 4096;
constexpr int64_t MAX_WEIGHTS = int64_t(1) << 17;        // columns of a radial function
constexpr int64_t MAX_ALL_WEIGHTS = int64_t(1) << 18;    // columns of all convolutions

// Functions on the sphere.
constexpr int MAX_POINTS = 4096;

// Networks.
constexpr int MAX_MATRICES = 64;
constexpr int MAX_WIDTH = 4096;    // width of inputs and hidden layers

// The radial basis: lengths in Angstrom.
constexpr double MIN_CUTOFF = 0.1, MAX_CUTOFF = 50.0;
constexpr double MIN_LENGTH = 1e-3, MAX_LENGTH = 1e3;    // radii of atoms, widths of functions
constexpr int MAX_FUNCTIONS = 2048;
constexpr double MAX_PHASE = 1000.0;        // phase of a Bessel function at the cutoff: 300 half waves
constexpr int MAX_NEAREST = 65536;          // nearest neighbors that an atom uses
constexpr double MAX_STEEPNESS = 1000.0;    // steepness of a transform

// Structures of the self-check, which are all evaluated when a run begins.
constexpr size_t MAX_STRUCTURES = 64;
constexpr size_t MAX_STRUCTURE_ATOMS = 1024;
constexpr size_t MAX_STRUCTURE_ELEMENTS = 16;            // each pair of elements may have its own radial table
constexpr double MAX_STRUCTURE_PAIRS = 1 << 20;          // pairs of all structures, with periodic images
constexpr double MAX_POSITION = 1e5;                     // Angstrom, also for the vectors of the cell
constexpr int64_t MAX_STRUCTURE_COMPONENTS = 1 << 27;    // components of all features of all atoms

// Limits of the numbers read from tensors, and of those that matrices need in the layout of kernels. Each is a base and
// a multiple of the numbers in the file.
constexpr int64_t TENSOR_BASE = int64_t(1) << 20, TENSOR_MULTIPLE = 4;
constexpr int64_t LAYOUT_BASE = int64_t(1) << 25, LAYOUT_MULTIPLE = 16;

}    // namespace equi

#endif
