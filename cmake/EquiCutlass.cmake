# SPDX-License-Identifier: MIT
# equi_cutlass: the headers of CUTLASS, for products on the tensor cores of GPUs from architecture 80 on: installed ones
# (EQUI_CUTLASS_INCLUDE_DIR names their folder), else those of its Python package, unpacked into the cache.
find_path(EQUI_CUTLASS_INCLUDE_DIR cutlass/gemm/device/gemm.h)
mark_as_advanced(EQUI_CUTLASS_INCLUDE_DIR)
set(equi_cutlass_folder "${EQUI_CUTLASS_INCLUDE_DIR}")
if(NOT equi_cutlass_folder)
  set(folder ${EQUI_CACHE_DIR}/cutlass-${EQUI_CUTLASS_VERSION})
  set(equi_cutlass_folder ${folder}/cutlass_library/source/include)
  if(NOT EXISTS ${folder}/.complete)
    equi_say("fetching CUTLASS ${EQUI_CUTLASS_VERSION}")
    file(REMOVE_RECURSE ${folder})
    file(WRITE ${folder}/requirements.txt "nvidia-cutlass==${EQUI_CUTLASS_VERSION} --hash=sha256:${EQUI_CUTLASS_SHA256}\n")
    # pip compares with the hash before it unpacks anything.
    equi_run("fetching CUTLASS" ${EQUI_PYTHON_EXECUTABLE} -m pip install --disable-pip-version-check --no-deps
             --progress-bar off --only-binary :all: --require-hashes --no-compile --target ${folder} -r ${folder}/requirements.txt)
    file(TOUCH ${folder}/.complete)
  endif()
endif()
equi_say("CUTLASS: ${equi_cutlass_folder}")
add_library(equi_cutlass INTERFACE)
target_include_directories(equi_cutlass SYSTEM INTERFACE ${equi_cutlass_folder})
