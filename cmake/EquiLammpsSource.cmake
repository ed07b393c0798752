# SPDX-License-Identifier: MIT
# EQUI_LAMMPS_BUILD: a LAMMPS that is built once into the cache with the MPI of the Python environment; with
# EQUI_LAMMPS_KOKKOS it has the KOKKOS package and the Kokkos of EquiKokkos.cmake. Sets lammps_source, its source tree
# (LAMMPS_SOURCE_DIR, else Debian's archive), and lammps_build, the folder with its program.

set(lammps_source ${LAMMPS_SOURCE_DIR})
if(NOT lammps_source)
  set(lammps_source ${EQUI_CACHE_DIR}/${EQUI_LAMMPS_ARCHIVE_FOLDER})
  set(stamp ${lammps_source}/.${EQUI_LAMMPS_SHA256})
  if(NOT EXISTS ${stamp})
    equi_debian_source(${EQUI_LAMMPS_DEBIAN_PACKAGE} ${EQUI_LAMMPS_DEBIAN_SUITE} ${EQUI_LAMMPS_ARCHIVE}
                       ${EQUI_LAMMPS_SHA256})
    file(REMOVE_RECURSE ${lammps_source})
    set(patterns LICENSE cmake/* lib/* python/* src/* tools/*)
    list(TRANSFORM patterns PREPEND ${EQUI_LAMMPS_ARCHIVE_FOLDER}/)
    file(ARCHIVE_EXTRACT INPUT ${EQUI_CACHE_DIR}/archives/${EQUI_LAMMPS_ARCHIVE} DESTINATION ${EQUI_CACHE_DIR}
         PATTERNS ${patterns})
    file(MAKE_DIRECTORY ${lammps_source}/potentials)    # its build folder wants to link to it
    file(TOUCH ${stamp})
  endif()
endif()

set(compiler ${CMAKE_CXX_COMPILER})
if(EQUI_CUDA)
  # LAMMPS calls its compiler for CUDA as a C++ compiler.
  set(compiler ${EQUI_KOKKOS_PREFIX}/bin/nvcc_wrapper)
endif()
set(options
    -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${compiler}
    -DCMAKE_CXX_STANDARD=17
    -DBUILD_SHARED_LIBS=ON
    -DBUILD_MPI=ON
    -DBUILD_OMP=ON
    -DMPI_CXX_COMPILER=${EQUI_PYTHON_PREFIX}/bin/mpicxx)
set(packages EXTRA-COMPUTE EXTRA-FIX MANYBODY MC MOLECULE PHONON PLUGIN REPLICA)
if(EQUI_LAMMPS_KOKKOS)
  list(APPEND packages KOKKOS)
  list(APPEND options -DEXTERNAL_KOKKOS=ON -DKokkos_ROOT=${EQUI_KOKKOS_PREFIX})
endif()
if(EQUI_CUDA)
  # A Kokkos that was built with CUDA as a language of CMake does not name these to a C++ compiler.
  list(APPEND options "-DCMAKE_CXX_FLAGS=-arch=sm_${equi_cuda_architecture} --extended-lambda")
  # The library of the driver, which Kokkos needs, is not on machines without a GPU.
  list(APPEND options -DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined)
endif()
foreach(package IN LISTS packages)
  list(APPEND options -DPKG_${package}=ON)
endforeach()
foreach(library CURL FFMPEG GZIP JPEG PNG)
  list(APPEND options -DWITH_${library}=OFF)
endforeach()
if(CMAKE_CXX_COMPILER_LAUNCHER)
  list(APPEND options -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
list(APPEND options ${EQUI_LAMMPS_OPTIONS})
string(SHA256 key "${options};${lammps_source};${CMAKE_GENERATOR};${CMAKE_CXX_COMPILER_VERSION};${CMAKE_CUDA_COMPILER_VERSION}")
string(SUBSTRING ${key} 0 12 key)
set(lammps_build ${EQUI_CACHE_DIR}/lammps-${key})
if(NOT EXISTS ${lammps_build}/.complete)
  equi_say("building LAMMPS from ${lammps_source} in ${lammps_build} (once, ten to fifteen minutes on two cores, with CUDA two hours)")
  set(environment "")
  if(EQUI_CUDA)
    set(environment ${CMAKE_COMMAND} -E env NVCC_WRAPPER_DEFAULT_COMPILER=${CMAKE_CXX_COMPILER})
  endif()
  equi_run("configuring LAMMPS" ${environment} ${CMAKE_COMMAND} -G ${CMAKE_GENERATOR} -S ${lammps_source}/cmake
           -B ${lammps_build} ${options})
  # Its progress is shown. An interrupted build goes on where it was.
  execute_process(COMMAND ${environment} ${CMAKE_COMMAND} --build ${lammps_build} --parallel ${EQUI_JOBS} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "LAMMPS could not be built (${status}); the messages are above")
  endif()
  file(TOUCH ${lammps_build}/.complete)
endif()
