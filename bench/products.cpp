// SPDX-License-Identifier: MIT
// Measures the host's dense products on one core, for the shapes of linear layers and radial networks:
//
//   bench_products [generic|neon|avx2|avx512|amx]
#include "kokkos/host_kernels/packed_matrix.h"
#include "kokkos/plan/operation_count.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using namespace equi;

struct Shape {
  int in, out;
};
// Channels of NequIP, SevenNet-0 and MACE, also of several blocks; the first and the last product of a radial network;
// products of UMA-S by m.
constexpr Shape SHAPES[] = {{16, 16},  {32, 32},   {64, 64},   {96, 96},   {128, 128}, {128, 32},
                            {32, 128}, {224, 128}, {384, 128}, {128, 384}, {256, 256}, {8, 64},
                            {64, 640}, {768, 640}, {384, 384}, {512, 256}, {256, 128}};
constexpr int ROWS[] = {1, 8, 32, 64, 128, 192, 320};
constexpr int REPEATS = 15;

// The fastest of several runs, in GFLOP/s.
template <class R>
double rate(const PackedMatrix<R> &matrix, int rows) {
  const AlignedVector<R> a(static_cast<std::size_t>(rows) * matrix.in(), R(1));
  AlignedVector<R> c(static_cast<std::size_t>(rows) * matrix.out());
  const double operations = product_operations(rows, matrix.in(), matrix.out());
  const int turns = std::max(1, static_cast<int>(2e7 / operations));
  double least = 1e9;
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < turns; k++) matrix.multiply(rows, a.data(), c.data());
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / turns);
  }
  return operations / least * 1e-9;
}

template <class R>
void print_rates(const char *type, InstructionSet set) {
  std::printf("%s, %s, GFLOP/s for rows:", type, instruction_set_name(set));
  for (const int rows : ROWS) std::printf(" %6d", rows);
  std::printf("\n");
  for (const Shape &shape : SHAPES) {
    const std::vector<double> numbers(static_cast<std::size_t>(shape.in) * shape.out, 0.5);
    const PackedMatrix<R> matrix({shape.in, shape.out, numbers}, set);
    std::printf("  %4d to %4d channels        ", shape.in, shape.out);
    for (const int rows : ROWS) std::printf(" %6.1f", rate(matrix, rows));
    std::printf("\n");
  }
}

}    // namespace

int main(int argc, char **argv) {
  InstructionSet set = best_instruction_set();
  for (const InstructionSet named : INSTRUCTION_SETS)
    if (argc > 1 && std::strcmp(argv[1], instruction_set_name(named)) == 0) set = named;
  print_rates<float>("float", set);
  print_rates<double>("double", set);
}
