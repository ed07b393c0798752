// SPDX-License-Identifier: MIT
// Dense products of float32 on the tensor cores of NVIDIA GPUs, of architecture 80 and newer. Tensor cores multiply
// numbers of 11 bits and add in float32. Each operand is the sum of two such numbers, and three of the four products
// are added. Tensor cores round towards 0, so their sums are too small, by about as much with 32 terms as with 500.
// This loss is measured and added back; errors are then those of float32 (doc/gpu_roofline.rst).
#ifndef EQUI_DEVICE_DENSE_TENSOR_H
#define EQUI_DEVICE_DENSE_TENSOR_H

#include <cuda_runtime.h>

namespace equi {

// Rows of A are a_stride and rows of C c_stride numbers apart; those of B are adjacent.
struct TensorProduct32 {
  bool transpose_b;
  int m, n, k;
  const float *a, *b;
  float *c;
  int a_stride, c_stride;
  bool add;
};

// Whether the operands are arranged as tensor cores read them, four numbers at a time, and sums have at least 32
// terms. Shorter sums lose half as much as is added back.
bool fits_tensor_cores(const TensorProduct32 &p);

// Products on a stream of the current GPU.
class TensorCores {
 public:
  // Measures the loss of this GPU, once per process. Waits for the stream. Throws std::runtime_error if a call is
  // refused.
  TensorCores(cudaStream_t stream, int num_multiprocessors);
  // C = A B, or C += A B, on any stream of the GPU. Throws std::runtime_error if it is refused.
  void multiply(cudaStream_t stream, const TensorProduct32 &p) const;

 private:
  int num_multiprocessors_;
  float loss_;    // relative loss of a sum
};

}    // namespace equi

#endif
