// SPDX-License-Identifier: MIT
// Merges consecutive linear maps where that saves at least a tenth of an atom's operations.
//
// A feature is unnecessary if only linear layers write it, and only linear layers and readouts of one matrix read
// it. With x = sum_k g_k W_k + b, a reader y = x R is y = sum_k g_k (W_k R) + b R. A part of x that depends only on
// the species becomes a row per species in front of a linear layer. Behind a readout it becomes a shift of the
// energies. This applies to the node features of MACE, which are the sum of its product's linear map and a
// self-connection.
#ifndef EQUI_LINEAR_FOLDS_H
#define EQUI_LINEAR_FOLDS_H

#include "src/model/model.h"

namespace equi {

// Returns the same model with matrices multiplied, in float64. Features that no layer writes or reads any longer
// keep their numbers. What convolutions read, and therefore what ranks exchange, does not change.
Model fold_linears(const Model &model);

}    // namespace equi

#endif
