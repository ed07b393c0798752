# SPDX-License-Identifier: MIT
# The options of the configure step, and what they and this project set for all targets.

option(EQUI_PLUGIN "Build the LAMMPS plugin equiplugin.so" ON)
option(EQUI_TORCH "Build the LibTorch reference (fetches about 2 GB unless Torch_DIR is given)" ON)
option(EQUI_TESTS "Build the tests" ON)
option(EQUI_EVALUATION "Everything; OFF: the core library and its tests alone, which need neither Kokkos nor LAMMPS" ON)
option(EQUI_CUDA "Evaluate on NVIDIA GPUs (needs nvcc; the device sources compile for minutes)" OFF)
option(EQUI_DEVICE "The kernels for GPUs in the plugin; without CUDA they run on the CPU, slowly and for tests (compiles for minutes; ON with equi/kk)" ${EQUI_CUDA})
option(EQUI_LAMMPS_KOKKOS "Build LAMMPS with its KOKKOS package, and pair_style equi/kk (10 to 15 minutes on two cores, once)" OFF)
option(EQUI_LAMMPS_BUILD "Build LAMMPS from LAMMPS_SOURCE_DIR, else from Debian's archive (some minutes, once; ON with EQUI_LAMMPS_KOKKOS)" ${EQUI_LAMMPS_KOKKOS})
option(EQUI_BENCH "Build bench_kernels (needs Google Benchmark; some minutes for kernels that no model needs)" OFF)
option(EQUI_WHEEL "The target wheel: a Python package of the plugin and the model tool (fetches tools, and with EQUI_TESTS 170 MB of packages)" OFF)
option(EQUI_SHARED "The plugin and the programs use libequi.so, so that the kernels exist once; they then need it next to them" ${EQUI_WHEEL})
option(EQUI_MANUAL "The target manual: the site of doc/ (fetches Sphinx and its theme, 19 MB)" OFF)
option(EQUI_DEBUG "Checks of indices, and memory that is NaN until it is written (slow, for tests)" OFF)
option(EQUI_SANITIZE "EQUI_DEBUG, and the compiler's address and undefined behavior sanitizers (slower still)" OFF)
option(EQUI_SANITIZE_THREADS "The compiler's thread sanitizer, with which Kokkos is built, too (needs clang++ and LLVM's OpenMP library)" OFF)
set(EQUI_CACHE_DIR ${PROJECT_SOURCE_DIR}/.cache CACHE PATH "Folder for everything that is fetched; it may be shared by build folders")
set(EQUI_REAL_MODELS "$ENV{EQUI_REAL_MODELS}" CACHE PATH "Folder with the published models of unittest/tools/converters/test_real_models.py; empty: this slow test is left out")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# By one name, whichever link leads to it: the Python environments in it know where they lie and are made again elsewhere.
file(REAL_PATH ${EQUI_CACHE_DIR} EQUI_CACHE_DIR)

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# The plugin and LAMMPS share a process: what one of them defines must not replace what the other one calls.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(EQUI_SHARED)
  # Version scripts choose what libequi.so and the plugin show.
  set(CMAKE_CXX_VISIBILITY_PRESET default)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN OFF)
endif()
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/static)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(EQUI_WHEEL)
  # The wheel is passed on: messages with the names of sources do not show the folders of this machine.
  set(equi_prefix_map -ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${PROJECT_BINARY_DIR}/=
                      -ffile-prefix-map=${EQUI_CACHE_DIR}/=)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${equi_prefix_map}>")
endif()
if(EQUI_SANITIZE)
  set(EQUI_DEBUG ON)
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
  add_compile_options(${sanitizers} -fno-omit-frame-pointer)
  add_link_options(${sanitizers})
  add_compile_definitions(EQUI_SANITIZE)
endif()
if(EQUI_SANITIZE_THREADS)
  if(EQUI_SANITIZE)
    message(FATAL_ERROR "EQUI_SANITIZE and EQUI_SANITIZE_THREADS exclude each other")
  endif()
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # libgomp waits in ways that a sanitizer does not see; of LLVM's OpenMP library Archer tells it.
    message(FATAL_ERROR "EQUI_SANITIZE_THREADS: expected clang++ with LLVM's OpenMP library, found ${CMAKE_CXX_COMPILER_ID}: set CMAKE_CXX_COMPILER")
  endif()
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  # As the driver for C links: without the sanitizer's operator new, for test programs that count allocations have their own.
  add_link_options(-fsanitize=thread --driver-mode=gcc -lstdc++ -lm)
endif()
if(EQUI_DEBUG)
  add_compile_definitions(EQUI_DEBUG _GLIBCXX_ASSERTIONS)
endif()
