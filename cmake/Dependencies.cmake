# SPDX-License-Identifier: MIT
# Every version and hash of what the build fetches, in one place. The Python packages are in
# tools/requirements.txt and tools/constraints.txt.

# Kokkos, nlohmann_json 3.11.3 and GoogleTest 1.15.2 come inside the source archive of a PyPI package, where machines
# without GitHub can reach them.
set(EQUI_KOKKOS_VERSION 4.7.00)
set(EQUI_KOKKOS_SHA256 e620f05c742905e2db705d875f1cac92ef0ed453f9e6734e9beda26cc0f9cce7)
set(EQUI_SOURCES pygenten 0.1.5 pygenten-0.1.5.tar.gz ${EQUI_KOKKOS_SHA256})
set(EQUI_KOKKOS_FOLDER pygenten-0.1.5/tpls/kokkos)
set(EQUI_JSON_FOLDER pygenten-0.1.5/tpls/json)
set(EQUI_GTEST_FOLDER pygenten-0.1.5/tpls/googletest)

# xxHash 0.8.4 comes inside that of its Python package.
set(EQUI_XXHASH_SOURCES xxhash 4.1.0 xxhash-4.1.0.tar.gz c9b288e4c1f5dae54417bc8a05e6f6daf505783d916b4783f4dd2f2e7d5db486)
set(EQUI_XXHASH_FOLDER xxhash-4.1.0/deps/xxhash)

# vesin, whose sources come with its Python package.
set(EQUI_VESIN_SOURCES vesin 0.6.2 vesin-0.6.2.tar.gz 8fc5000d74a13131fa21cd81d5e22e50f4195b7105574b35959ebe1720a02ea1)
set(EQUI_VESIN_SOURCES_FOLDER vesin-0.6.2/lib)

# CUTLASS for EQUI_CUDA: its headers come with its Python package.
set(EQUI_CUTLASS_VERSION 4.2.0.0)
set(EQUI_CUTLASS_SHA256 f9599ada45c7bcb6bf53f7d3f0a7d154183e53451c01bfa59eecd37dd4a693f6)

# LAMMPS for EQUI_LAMMPS_KOKKOS: the source archive of a Debian suite, which apt finds on machines of any suite.
set(EQUI_LAMMPS_VERSION 4Feb2025)
set(EQUI_LAMMPS_DEBIAN_SUITE trixie)
set(EQUI_LAMMPS_DEBIAN_PACKAGE lammps)
set(EQUI_LAMMPS_ARCHIVE lammps_20250204+dfsg.1.orig.tar.xz)
set(EQUI_LAMMPS_ARCHIVE_FOLDER lammps-4Feb2025)
set(EQUI_LAMMPS_SHA256 3671165bd52fad36734e0a9136c5bc5ecb225e03988f8c89aa13366a8b53b1c7)

# Oldest versions that are accepted where the machine has its own.
set(EQUI_KOKKOS_MINIMUM 4.6)
set(EQUI_JSON_MINIMUM 3.11)
set(EQUI_XXHASH_MINIMUM 0.8)
set(EQUI_GTEST_MINIMUM 1.12)
set(EQUI_BENCHMARK_MINIMUM 1.7)
set(EQUI_PYTHON_MINIMUM 3.11) # what numpy of tools/requirements.txt asks for

set(EQUI_BENCHMARK_DEBIAN_PACKAGE libbenchmark-dev)
set(EQUI_BENCHMARK_DEBIAN_LIBRARY libbenchmark1debian)

# What formats the sources: this major version, found or fetched (for x86_64 and aarch64) as the Python package.
set(EQUI_CLANG_FORMAT_MAJOR 14)
set(EQUI_CLANG_FORMAT_VERSION 14.0.6)
set(EQUI_CLANG_FORMAT_SHA256
    d7c1c5e404c58e55f0170f01b3c5611dce6c119e62b5d1020347e0ad97d5a047
    dbfd60528eb3bb7d7cfe8576faa70845fbf93601f815ef75163d36606e87f388)

# The architectures of GPUs that EQUI_CUDA may be built for, and Kokkos's names of them.
set(EQUI_CUDA_ARCHITECTURES 70 72 75 80 86 87 89 90 100 120)
set(EQUI_KOKKOS_ARCH_70 VOLTA70)
set(EQUI_KOKKOS_ARCH_72 VOLTA72)
set(EQUI_KOKKOS_ARCH_75 TURING75)
set(EQUI_KOKKOS_ARCH_80 AMPERE80)
set(EQUI_KOKKOS_ARCH_86 AMPERE86)
set(EQUI_KOKKOS_ARCH_87 AMPERE87)
set(EQUI_KOKKOS_ARCH_89 ADA89)
set(EQUI_KOKKOS_ARCH_90 HOPPER90)
set(EQUI_KOKKOS_ARCH_100 BLACKWELL100)
set(EQUI_KOKKOS_ARCH_120 BLACKWELL120)
