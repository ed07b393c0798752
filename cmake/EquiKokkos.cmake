# SPDX-License-Identifier: MIT
# Kokkos::kokkos: an installed one (Kokkos_ROOT names it), else built once into the cache from the copy of Kokkos
# inside a Python package's source archive. It is linked into the plugin alone, with hidden symbols, so that a LAMMPS
# with a Kokkos of its own can load the plugin. With EQUI_LAMMPS_KOKKOS it is a set of shared libraries instead, and
# LAMMPS and the plugin use the same. EQUI_KOKKOS_PREFIX: where it is installed. EQUI_KOKKOS_IS_OURS: whether it was
# built here.

option(EQUI_KOKKOS_HEADERS "Only configure the Kokkos in the cache: a test compiles against it, and links nothing" OFF)
mark_as_advanced(EQUI_KOKKOS_HEADERS)

# equi_mend(FILE OLD NEW): replaces a text that must be there exactly once.
function(equi_mend file old new)
  file(READ ${file} text)
  string(FIND "${text}" "${old}" first)
  string(FIND "${text}" "${old}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "${file}: expected '${old}' once")
  endif()
  string(REPLACE "${old}" "${new}" text "${text}")
  file(WRITE ${file} "${text}")
endfunction()

# equi_kokkos_source(OUT CUDA_VERSION): the unpacked source of Kokkos, in the cache. CUDA 13 (CUDA_VERSION, or empty)
# changed two functions that Kokkos calls, so it gets a copy of its own, of which the stamp says that it is mended.
function(equi_kokkos_source out cuda_version)
  set(cache source)
  if(cuda_version VERSION_GREATER_EQUAL 13)
    string(APPEND cache -cuda13)
  endif()
  equi_source_folder(kokkos ${cache} ${EQUI_KOKKOS_FOLDER} ${EQUI_SOURCES})
  set(${out} ${kokkos} PARENT_SCOPE)
  if(cuda_version VERSION_GREATER_EQUAL 13 AND NOT EXISTS ${kokkos}/.mended)
    set(file ${kokkos}/core/src/Cuda/Kokkos_Cuda_Instance.hpp)
    equi_mend(${file} "cudaGraphAddDependencies(graph, from, to, numDependencies)"
              "cudaGraphAddDependencies(graph, from, to, nullptr, numDependencies)")
    equi_mend(
      ${file} "cudaMemPrefetchAsync(devPtr, count, dstDevice, m_stream)"
      "cudaMemPrefetchAsync(devPtr, count, dstDevice < 0 ? cudaMemLocation{cudaMemLocationTypeHost, 0} : cudaMemLocation{cudaMemLocationTypeDevice, dstDevice}, 0, m_stream)"
    )
    file(TOUCH ${kokkos}/.mended)
  endif()
endfunction()

# equi_check_kokkos(): that a Kokkos of the user's is one that this build can use. Else a compiler would say so, late
# and in other words.
function(equi_check_kokkos)
  set(this "Kokkos ${Kokkos_VERSION} in ${Kokkos_DIR}")
  if(NOT EQUI_CUDA)
    if(Kokkos_ENABLE_CUDA)
      message(FATAL_ERROR "${this} is for CUDA: configure with EQUI_CUDA=ON, or name a Kokkos without CUDA in Kokkos_ROOT")
    endif()
    return()
  endif()
  if(NOT Kokkos_ENABLE_CUDA)
    message(FATAL_ERROR "${this} is for ${Kokkos_DEVICES}: EQUI_CUDA=ON needs one that was configured with Kokkos_ENABLE_CUDA=ON")
  endif()
  if(NOT Kokkos_ENABLE_COMPILE_AS_CMAKE_LANGUAGE)
    message(FATAL_ERROR "${this} was built with nvcc_wrapper as C++ compiler: EQUI_CUDA=ON needs one with CUDA as a language "
                        "of CMake (Kokkos_ENABLE_COMPILE_AS_CMAKE_LANGUAGE=ON)")
  endif()
  if(NOT EQUI_KOKKOS_ARCH_${equi_cuda_architecture} IN_LIST Kokkos_ARCH)
    message(FATAL_ERROR "${this} is for the GPUs ${Kokkos_ARCH}, and CMAKE_CUDA_ARCHITECTURES is "
                        "${CMAKE_CUDA_ARCHITECTURES} (${EQUI_KOKKOS_ARCH_${equi_cuda_architecture}}): both must be the same")
  endif()
  string(REGEX MATCH "^[0-9]+" theirs "${Kokkos_CXX_COMPILER_VERSION}")
  string(REGEX MATCH "^[0-9]+" ours "${CMAKE_CUDA_COMPILER_VERSION}")
  if(Kokkos_CXX_COMPILER_ID STREQUAL "NVIDIA" AND NOT theirs STREQUAL ours)
    message(FATAL_ERROR "${this} was built with CUDA ${Kokkos_CXX_COMPILER_VERSION}, and this build has CUDA "
                        "${CMAKE_CUDA_COMPILER_VERSION}: take one for both")
  endif()
endfunction()

if(Kokkos_ROOT OR Kokkos_DIR OR DEFINED ENV{Kokkos_ROOT})
  find_package(Kokkos ${EQUI_KOKKOS_MINIMUM} REQUIRED)
  kokkos_check(DEVICES OPENMP)
  equi_check_kokkos()
  get_filename_component(prefix ${Kokkos_DIR}/../../.. ABSOLUTE)
  set(EQUI_KOKKOS_IS_OURS OFF)
  equi_say("Kokkos: ${Kokkos_VERSION} in ${Kokkos_DIR} (given)")
else()
  set(EQUI_KOKKOS_IS_OURS ON)
  set(visibility -DCMAKE_CXX_VISIBILITY_PRESET=hidden -DCMAKE_VISIBILITY_INLINES_HIDDEN=ON)
  set(shared OFF)
  if(EQUI_LAMMPS_KOKKOS)
    set(visibility "")
    set(shared ON)
  endif()
  # One installation per compiler and per set of options, so that build folders can share a cache.
  set(options
      -DCMAKE_BUILD_TYPE=Release
      -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
      -DCMAKE_CXX_STANDARD=17
      ${visibility}
      -DCMAKE_POSITION_INDEPENDENT_CODE=ON
      -DCMAKE_INSTALL_LIBDIR=lib
      -DBUILD_SHARED_LIBS=${shared}
      -DKokkos_ENABLE_SERIAL=ON
      -DKokkos_ENABLE_OPENMP=ON)
  if(CMAKE_TOOLCHAIN_FILE)
    list(APPEND options -DCMAKE_TOOLCHAIN_FILE=${CMAKE_TOOLCHAIN_FILE})
  endif()
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    list(APPEND options -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  if(EQUI_WHEEL)
    list(APPEND options -DCMAKE_CXX_FLAGS=-ffile-prefix-map=${EQUI_CACHE_DIR}/=)
  endif()
  if(EQUI_SANITIZE_THREADS)
    list(APPEND options "-DCMAKE_CXX_FLAGS=-fsanitize=thread -g1")
  endif()
  if(EQUI_CUDA)
    # As a language of CMake, so that nvcc is called without Kokkos's wrapper.
    list(APPEND options -DKokkos_ENABLE_CUDA=ON -DKokkos_ENABLE_COMPILE_AS_CMAKE_LANGUAGE=ON
         -DCMAKE_CUDA_COMPILER=${CMAKE_CUDA_COMPILER} -DCMAKE_CUDA_STANDARD=17
         -DCMAKE_CUDA_ARCHITECTURES=${CMAKE_CUDA_ARCHITECTURES}
         -DKokkos_ARCH_${EQUI_KOKKOS_ARCH_${equi_cuda_architecture}}=ON)
  endif()
  string(SHA256 key "${options};${EQUI_KOKKOS_HEADERS};${CMAKE_CXX_COMPILER_VERSION};${CMAKE_CUDA_COMPILER_VERSION};${EQUI_KOKKOS_SHA256}")
  string(SUBSTRING ${key} 0 12 key)
  set(prefix ${EQUI_CACHE_DIR}/kokkos-${EQUI_KOKKOS_VERSION}-${key})
  if(NOT EXISTS ${prefix}/.complete)
    equi_kokkos_source(source "${CMAKE_CUDA_COMPILER_VERSION}")
    equi_run("configuring Kokkos" ${CMAKE_COMMAND} -G ${CMAKE_GENERATOR} -S ${source} -B ${prefix}/build
             -DCMAKE_INSTALL_PREFIX=${prefix} ${options})
    if(NOT EQUI_KOKKOS_HEADERS)
      equi_say("building Kokkos ${EQUI_KOKKOS_VERSION} (once, about a minute on the host, longer for CUDA)")
      equi_run("building Kokkos" ${CMAKE_COMMAND} --build ${prefix}/build --parallel ${EQUI_JOBS} --target install)
      file(REMOVE_RECURSE ${prefix}/build)
    endif()
    file(TOUCH ${prefix}/.complete)
  endif()
  # The folder of its build exists if nothing is installed.
  find_package(Kokkos REQUIRED NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH PATHS ${prefix} ${prefix}/build)
  # Otherwise the next configure would take it for one that the user named.
  unset(Kokkos_DIR CACHE)
  set(how "compiled from sources")
  if(EQUI_KOKKOS_HEADERS)
    set(how "configured only")
  endif()
  equi_say("Kokkos: ${Kokkos_VERSION} in ${prefix} (${how})")
endif()
set(EQUI_KOKKOS_PREFIX ${prefix})
