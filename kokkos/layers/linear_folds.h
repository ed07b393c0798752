// SPDX-License-Identifier: MIT
// Linear maps one behind another as one, where that saves a tenth of the operations of an atom.
//
// A feature that only linear layers write, and only linear layers and readouts of one matrix read, need not exist: with
// x = sum_k g_k W_k + b, a reader y = x R is y = sum_k g_k (W_k R) + b R. A part of x that depends on the species alone
// becomes a row per species in front of a linear layer, and behind a readout a shift of the energies. This is the case
// of the node features of MACE, which are the sum of its product's linear map and a self-connection.
#ifndef EQUI_LINEAR_FOLDS_H
#define EQUI_LINEAR_FOLDS_H

#include "src/model/model.h"

namespace equi {

// The same model with matrices multiplied, in float64. Features that no layer writes or reads any longer keep their
// numbers. What convolutions read, and so what ranks exchange, is as before.
Model fold_linears(const Model &model);

}    // namespace equi

#endif
