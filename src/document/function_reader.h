// SPDX-License-Identifier: MIT
// Readers of the functions that layers consist of.
#ifndef EQUI_FUNCTION_READER_H
#define EQUI_FUNCTION_READER_H

#include "src/algebra/irreps.h"
#include "src/document/field_spec.h"
#include "src/document/tensor_reader.h"
#include "src/functions/radial_function.h"

namespace equi {

Activation read_activation(const JsonField &field);
// The number of a 0e block.
int read_scalar_block(const JsonField &field, const Irreps &irreps);

// cutoff: the model's cutoff, in Angstrom.
RadialBasis read_radial_basis(const JsonField &field, double cutoff, TensorReader &tensors);

// The schemas of networks and of radial networks. has_input: the layer has an input that the radial network may read.
// may_activate_last: its outputs may be activated.
FieldSpecs network_fields();
FieldSpecs radial_fields(bool has_input, bool may_activate_last);

// The power of a polynomial cutoff function. Below 2 its second derivative is infinite at r = 0, and far above it the
// function is a step.
constexpr double MIN_CUTOFF_POWER = 2.0, MAX_CUTOFF_POWER = 1000.0;

// A network on the radial basis. It may also read rows of the two species or, if the layer has an input, a block of
// that input at either atom.
RadialFunction read_radial_function(const JsonField &field, const RadialBasis &basis, int64_t num_outputs,
                                    TensorReader &tensors, const Irreps *input = nullptr);

// The fields that all networks have, and norms.
Network read_network(const JsonField &field, int num_inputs, int64_t num_outputs, TensorReader &tensors);

}    // namespace equi

#endif
