// SPDX-License-Identifier: MIT
// The entry of equi_kernels. It has no constructors of global objects: with EQUI_SHARED the program is linked for older
// versions of the C library, where only those of shared libraries run.
extern "C" int equi_kernels_main(int argc, char **argv);

int main(int argc, char **argv) {
  return equi_kernels_main(argc, argv);
}
