# SPDX-License-Identifier: MIT
# equi_libtorch: headers and CPU libraries of Torch; the Torch of the Python environment, which the target
# environment_torch fetches, unless Torch_DIR names another one (its folder share/cmake/Torch). Only the two CPU
# libraries are linked: Torch's own CMake config would also ask for the CUDA toolkit that the package was built with.
# equi_libtorch_cuda: Torch's streams and devices, in a build for CUDA with a Torch for CUDA.

set(Torch_DIR "" CACHE PATH "share/cmake/Torch of a LibTorch; empty: the Torch of the Python environment")
set(is_package OFF)
if(Torch_DIR)
  get_filename_component(torch ${Torch_DIR}/../../.. ABSOLUTE)
  equi_say("LibTorch: ${torch} (given)")
else()
  set(torch ${EQUI_PYTHON_PACKAGES}/torch)
  equi_say("LibTorch: ${torch} (Python package)")
  if(NOT EQUI_PYTHON)
    set(is_package ON)
  endif()
  if(EQUI_CUDA AND is_package)
    equi_make_main_environment(ON)    # now: what it is built for decides about the targets below
  endif()
endif()
add_library(equi_libtorch INTERFACE)
if(is_package)
  add_dependencies(equi_libtorch environment_torch)
else()
  foreach(file include/ATen/ATen.h lib/libtorch_cpu.so lib/libc10.so)
    if(NOT EXISTS ${torch}/${file})
      message(FATAL_ERROR "no LibTorch in ${torch}: ${file} is missing")
    endif()
  endforeach()
endif()
target_include_directories(equi_libtorch SYSTEM INTERFACE ${torch}/include ${torch}/include/torch/csrc/api/include)
# As options: a build tool would look for the files before they are fetched.
target_link_libraries(equi_libtorch INTERFACE -Wl,${torch}/lib/libtorch_cpu.so -Wl,${torch}/lib/libc10.so
                                              -Wl,-rpath,${torch}/lib)

if(EQUI_CUDA AND NOT EXISTS ${torch}/lib/libc10_cuda.so)
  equi_say("LibTorch: without CUDA, so torch.ops.equi runs on the CPU alone")
elseif(EQUI_CUDA)
  add_library(equi_libtorch_cuda INTERFACE)
  target_link_libraries(equi_libtorch_cuda INTERFACE equi_libtorch ${torch}/lib/libc10_cuda.so CUDA::cudart)
endif()
