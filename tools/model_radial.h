// SPDX-License-Identifier: MIT
// The radial functions of a model's convolutions, as numbers for a plot.
#ifndef EQUI_MODEL_RADIAL_H
#define EQUI_MODEL_RADIAL_H

#include "src/model/model.h"

#include <string>

namespace equi {

// Prints for each convolution that multiplies paths a line "convolution LAYER PATHS", and then for `count` distances up
// to the cutoff a line "r rms least largest rms least ...": of each path the root mean square over its channels, the
// least and the largest weight. Of those whose radial network reads features there is the line "convolution LAYER 0"
// alone. LAYER: position in the list of layers. Throws std::invalid_argument for an element that the model does not
// know.
void print_radial(const Model &model, const std::string &receiver, const std::string &sender, int count);

}    // namespace equi

#endif
