# SPDX-License-Identifier: MIT
# equi_cutlass: the headers of CUTLASS, for products on the tensor cores of GPUs from architecture 80 on: installed
# ones (EQUI_CUTLASS_INCLUDE_DIR names their folder), else those of its Python package, unpacked into the cache.
find_path(EQUI_CUTLASS_INCLUDE_DIR cutlass/gemm/device/gemm.h)
mark_as_advanced(EQUI_CUTLASS_INCLUDE_DIR)
set(equi_cutlass_folder "${EQUI_CUTLASS_INCLUDE_DIR}")
if(NOT equi_cutlass_folder)
  equi_python_package(folder nvidia-cutlass ${EQUI_CUTLASS_VERSION} ${EQUI_CUTLASS_SHA256})
  set(equi_cutlass_folder ${folder}/cutlass_library/source/include)
endif()
equi_say("CUTLASS: ${equi_cutlass_folder}")
add_library(equi_cutlass INTERFACE)
target_include_directories(equi_cutlass SYSTEM INTERFACE ${equi_cutlass_folder})
