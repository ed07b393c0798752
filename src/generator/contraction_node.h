// SPDX-License-Identifier: MIT
// A product in the tree of a symmetric contraction (contraction_schedule.h). It is plain data, because kernels use it
// too.
#ifndef EQUI_CONTRACTION_NODE_H
#define EQUI_CONTRACTION_NODE_H

namespace equi {

struct ContractionNode {
  int factor;         // the last factor, a component of the input
  int depth;          // number of factors
  int num_entries;    // outputs to which the product contributes
};

}    // namespace equi

#endif
