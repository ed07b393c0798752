// SPDX-License-Identifier: MIT
// Dense products of float32 on the tensor cores of NVIDIA GPUs, of architecture 80 and newer. These multiply numbers of
// 11 bits and add in float32. Each operand is taken as the sum of two such numbers, and three of the four products are
// added. Errors are as large as those of float32, but not at random: tensor cores round towards 0, so that results are
// too small by 2e-7 (doc/gpu_roofline.rst).
#ifndef EQUI_DEVICE_DENSE_TENSOR_H
#define EQUI_DEVICE_DENSE_TENSOR_H

#include <cuda_runtime.h>

namespace equi {

// Rows of A and C are a_stride and c_stride numbers apart, those of B follow one another.
struct TensorProduct32 {
  bool transpose_b;
  int m, n, k;
  const float *a, *b;
  float *c;
  int a_stride, c_stride;
  bool add;
};

// Whether the operands lie as the tensor cores read them, four numbers at a time.
bool fits_tensor_cores(const TensorProduct32 &p);
// C = A B, or C += A B, on a stream of a GPU with so many multiprocessors. Throws std::runtime_error if it is refused.
void multiply_on_tensor_cores(cudaStream_t stream, int num_multiprocessors, const TensorProduct32 &p);

}    // namespace equi

#endif
