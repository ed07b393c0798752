# SPDX-License-Identifier: MIT
# EQUI_CUDA: the architecture of the GPUs that are compiled for, CMAKE_CUDA_ARCHITECTURES, checked before CMake tries
# the compiler with it. Sets equi_cuda_architecture, its number: "90-real" has machine code for 90 alone, "90" also
# what newer GPUs translate when they start, and "90-virtual" only that.

if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 CACHE STRING "One GPU architecture that Kokkos knows")
endif()
string(REGEX REPLACE "-(real|virtual)$" "" equi_cuda_architecture "${CMAKE_CUDA_ARCHITECTURES}")
set(equi_cuda_is_real OFF)
if(CMAKE_CUDA_ARCHITECTURES MATCHES "-real$")
  set(equi_cuda_is_real ON)
endif()
if(NOT equi_cuda_architecture IN_LIST EQUI_CUDA_ARCHITECTURES)
  list(JOIN EQUI_CUDA_ARCHITECTURES " " known)
  message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES: expected one of ${known}, found ${CMAKE_CUDA_ARCHITECTURES}; "
                      "with -real it has no code for newer GPUs")
endif()

set(EQUI_CUDA_OPTIMIZATION "-O3" CACHE STRING "Optimization of device code: without it, it compiles in half the time")
mark_as_advanced(EQUI_CUDA_OPTIMIZATION)

# As CMake looks for it.
set(nvcc ${CMAKE_CUDA_COMPILER})
if(NOT nvcc AND DEFINED ENV{CUDACXX})
  set(nvcc $ENV{CUDACXX})
endif()
if(NOT nvcc)
  find_program(EQUI_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(EQUI_NVCC)
  set(nvcc ${EQUI_NVCC})
endif()
if(nvcc)
  execute_process(COMMAND ${nvcc} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "compute_[0-9]+" known "${known}")
  list(TRANSFORM known REPLACE "compute_" "")
  if(known AND NOT equi_cuda_architecture IN_LIST known)
    list(SORT known COMPARE NATURAL)
    list(JOIN known " " known)
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES is ${CMAKE_CUDA_ARCHITECTURES}, and ${nvcc} compiles for ${known}. "
                        "CUDA 12 has 50 to 90, from 12.8 on also 100 and 120; CUDA 13 has 75 and newer ones")
  endif()
endif()
