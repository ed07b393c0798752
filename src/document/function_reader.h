// SPDX-License-Identifier: MIT
// Readers of the functions that layers consist of.
#ifndef EQUI_FUNCTION_READER_H
#define EQUI_FUNCTION_READER_H

#include "src/algebra/irreps.h"
#include "src/document/tensor_reader.h"
#include "src/functions/radial_function.h"

namespace equi {

Activation read_activation(const JsonField &field);
double read_cutoff_power(const JsonField &field);    // of a polynomial cutoff function
// The number of a 0e block.
int read_scalar_block(const JsonField &field, const Irreps &irreps);

// cutoff: of the model, in Angstrom.
RadialBasis read_radial_basis(const JsonField &field, double cutoff, TensorReader &tensors);

// A network on the radial basis and perhaps on rows of the two species or, if the layer has an input, on a block of
// it at either atom. may_activate_last: whether its outputs may be activated, as those of layers with an input may.
RadialFunction read_radial_function(const JsonField &field, const RadialBasis &basis, int64_t num_outputs,
                                    TensorReader &tensors, const Irreps *input = nullptr,
                                    bool may_activate_last = false);

// The fields that all networks have, and norms; the caller refuses what else the field has.
Network read_network(const JsonField &field, int num_inputs, int64_t num_outputs, TensorReader &tensors);

}    // namespace equi

#endif
