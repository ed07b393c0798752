# equi_blas: OpenBLAS of the Python package scipy-openblas32, whose symbols carry a prefix and so never meet another
# BLAS in the process. The library is copied next to the plugin, which finds it there.
# -DEQUI_BLAS=system takes the machine's BLAS with a cblas.h instead.

set(EQUI_BLAS wheel CACHE STRING "BLAS: 'wheel' (scipy-openblas32) or 'system'")
set_property(CACHE EQUI_BLAS PROPERTY STRINGS wheel system)
add_library(equi_blas INTERFACE)
if(EQUI_BLAS STREQUAL "system")
  find_package(BLAS REQUIRED)
  find_path(EQUI_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas x86_64-linux-gnu REQUIRED)
  target_include_directories(equi_blas SYSTEM INTERFACE ${EQUI_CBLAS_INCLUDE})
  target_link_libraries(equi_blas INTERFACE BLAS::BLAS)
  equi_say("BLAS: ${BLAS_LIBRARIES}")
else()
  set(folder ${EQUI_PYTHON_PACKAGES}/scipy_openblas32)
  set(library ${PROJECT_BINARY_DIR}/lib/libscipy_openblas.so)
  configure_file(${folder}/lib/libscipy_openblas.so ${library} COPYONLY)
  target_include_directories(equi_blas SYSTEM INTERFACE ${folder}/include)
  target_compile_definitions(equi_blas INTERFACE EQUI_BLAS_PREFIX=scipy_ EQUI_BLAS_OPENBLAS)
  target_link_libraries(equi_blas INTERFACE ${library})
  equi_say("BLAS: OpenBLAS of scipy-openblas32 in ${folder}")
endif()
