# SPDX-License-Identifier: MIT
# equi_blas: OpenBLAS of the Python package scipy-openblas32, whose symbols carry a prefix and so never meet another
# BLAS in the process. The library is copied next to the plugin, which finds it there.
# -DEQUI_BLAS=system takes the machine's OpenBLAS instead, -DEQUI_BLAS_LIBRARY=... one of the user's. EQUI_BLAS_RPATH:
# the folder of such a library. CMake leaves folders inside the source tree out of run paths, and the default cache
# folder is one of them.

set(EQUI_BLAS wheel CACHE STRING "OpenBLAS: 'wheel' (scipy-openblas32) or 'system'")
set_property(CACHE EQUI_BLAS PROPERTY STRINGS wheel system)
set(EQUI_BLAS_LIBRARY "" CACHE FILEPATH "Library of an OpenBLAS; empty: as EQUI_BLAS says")
set(EQUI_BLAS_INCLUDE "" CACHE PATH "Folder of the cblas.h that belongs to EQUI_BLAS_LIBRARY; empty: searched for")
add_library(equi_blas INTERFACE)

if(EQUI_BLAS_LIBRARY OR EQUI_BLAS STREQUAL "system")
  set(library ${EQUI_BLAS_LIBRARY})
  if(NOT library)
    find_library(library openblas NO_CACHE)
  endif()
  set(include ${EQUI_BLAS_INCLUDE})
  if(NOT include)
    find_path(include cblas.h PATH_SUFFIXES openblas openblas-pthread openblas-openmp NO_CACHE)
  endif()
  if(NOT library OR NOT include)
    message(FATAL_ERROR "BLAS: expected OpenBLAS with its cblas.h, found the library '${library}' and cblas.h in "
                        "'${include}'; name them with EQUI_BLAS_LIBRARY and EQUI_BLAS_INCLUDE, or leave EQUI_BLAS at 'wheel'")
  endif()
  # Products are called from inside threads, so the library must have a setting by which it makes no threads of its own.
  # Another cblas.h does not declare the function, another BLAS does not have it.
  try_compile(
    works SOURCE_FROM_CONTENT blas.cpp "#include <cblas.h>\nint main() { openblas_set_num_threads(1); }\n"
    CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${include}
    LINK_LIBRARIES ${library}
    OUTPUT_VARIABLE output NO_CACHE)
  if(NOT works)
    message(FATAL_ERROR "BLAS: expected OpenBLAS, found another BLAS or a broken one in ${library} with "
                        "${include}/cblas.h:\n${output}")
  endif()
  target_include_directories(equi_blas SYSTEM INTERFACE ${include})
  target_compile_definitions(equi_blas INTERFACE EQUI_BLAS_OPENBLAS)
  target_link_libraries(equi_blas INTERFACE ${library})
  get_filename_component(EQUI_BLAS_RPATH ${library} DIRECTORY)
  equi_say("BLAS: OpenBLAS ${library} with ${include}/cblas.h")
elseif(EQUI_BLAS STREQUAL "wheel")
  set(folder ${EQUI_PYTHON_PACKAGES}/scipy_openblas32)
  set(library ${PROJECT_BINARY_DIR}/lib/libscipy_openblas.so)
  configure_file(${folder}/lib/libscipy_openblas.so ${library} COPYONLY)
  target_include_directories(equi_blas SYSTEM INTERFACE ${folder}/include)
  target_compile_definitions(equi_blas INTERFACE EQUI_BLAS_PREFIX=scipy_ EQUI_BLAS_OPENBLAS)
  target_link_libraries(equi_blas INTERFACE ${library})
  equi_say("BLAS: OpenBLAS of scipy-openblas32 in ${folder}")
else()
  message(FATAL_ERROR "EQUI_BLAS: expected 'wheel' or 'system', found '${EQUI_BLAS}'")
endif()
