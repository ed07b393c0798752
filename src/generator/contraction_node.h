// SPDX-License-Identifier: MIT
// A product in the tree of a symmetric contraction (contraction_schedule.h). It is plain data, because kernels use it
// too.
#ifndef EQUI_CONTRACTION_NODE_H
#define EQUI_CONTRACTION_NODE_H

namespace equi {

struct ContractionNode {
  int factor;         // its last one, a component of the input
  int depth;          // number of factors
  int num_entries;    // outputs to which it contributes
};

}    // namespace equi

#endif
