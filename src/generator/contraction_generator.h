// SPDX-License-Identifier: MIT
// Writes the kernels of a symmetric contraction as straight-line C++, with one statement per product of its tree. On a
// grid it writes a loop over the rings, with one statement per ring value. The rules of kernel_generator.h for path
// groups hold for them too.
#ifndef EQUI_CONTRACTION_GENERATOR_H
#define EQUI_CONTRACTION_GENERATOR_H

#include "src/generator/contraction_schedule.h"
#include "src/generator/generated_text.h"

#include <string>

namespace equi {

// "3_01_2" has one input block per order 0 to 3 of natural parity, p = (-1)^l, output blocks of order 0 and 1, and
// degree 2. It contains all products that a coupling of the factors can make. It has one channel, one path,
// coefficients of 1 and no weights. "gaunt_3_2_4" is the Gaunt product of functions of orders to 3 and to 2, to orders
// up to 4, with one channel. Throws std::invalid_argument for another text.
ContractionProduct contraction_of(const std::string &name);

// A namespace contraction_KEY with the kernels and their ContractionKernel<float> and ContractionKernel<double>. For
// devices it is device_contraction_KEY with the DeviceContractionKernels.
void generate_contraction_namespace(GeneratedText &text, const ContractionSchedule &schedule, bool is_device);

}    // namespace equi

#endif
