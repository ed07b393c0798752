// SPDX-License-Identifier: MIT
// The radial functions of a model's convolutions, as numbers for a plot.
#ifndef EQUI_MODEL_RADIAL_H
#define EQUI_MODEL_RADIAL_H

#include "src/model/model.h"

#include <string>

namespace equi {

// Prints numbers for each convolution that multiplies paths. The first line is "convolution LAYER PATHS"; LAYER is the
// position in the list of layers. Then `count` distances up to the cutoff follow, each with a line "r rms least largest
// rms least ...". These are for each path the root mean square over its channels, the smallest and the largest weight.
// If the radial network reads features, there is only the line "convolution LAYER 0". Throws std::invalid_argument for
// an element that the model does not know.
void print_radial(const Model &model, const std::string &receiver, const std::string &sender, int count);

}    // namespace equi

#endif
