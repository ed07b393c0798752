# SPDX-License-Identifier: MIT
# libequi.so: the evaluation with the C interface equi.h, without LAMMPS (target equi_library).
#
# equi_evaluation: what the plugin and the programs link to. With EQUI_SHARED it is libequi.so, so that the kernels exist
# once; otherwise each has its own copy of what it needs and can be passed on alone.
include(EquiVesin)

# equi_export(TARGET VERSIONS): the symbols that a library shows, as a version script of the linker.
function(equi_export target versions)
  set(script ${PROJECT_BINARY_DIR}/${target}.map)
  file(CONFIGURE OUTPUT ${script} CONTENT "${versions}\n" @ONLY)
  target_link_options(${target} PRIVATE -Wl,--version-script=${script})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
endfunction()

# equi_link_for_old_systems(TARGET): links the wheel's binaries with stubs of older system libraries (old_system.py).
if(EQUI_WHEEL)
  set(equi_old_system ${PROJECT_BINARY_DIR}/old_system)
  equi_run("making stubs of old system libraries" ${EQUI_PYTHON_EXECUTABLE}
           ${PROJECT_SOURCE_DIR}/tools/wheel/old_system.py ${equi_old_system})
endif()
function(equi_link_for_old_systems target)
  if(EQUI_WHEEL)
    # What libraries of this system need in turn is newer, and theirs to find.
    target_link_options(${target} PRIVATE -L${equi_old_system} -Wl,--allow-shlib-undefined
                                          -Wl,--push-state,--no-as-needed
                                          ${equi_old_system}/libpthread.so.0 ${equi_old_system}/libdl.so.2 -Wl,--pop-state)
  endif()
endfunction()

equi_select(library_sources "^src/library/")
add_library(equi_calculator OBJECT ${library_sources})
target_link_libraries(equi_calculator PUBLIC equi_core PRIVATE equi_vesin)
target_compile_options(equi_calculator PRIVATE -Wall -Wextra)
target_compile_definitions(equi_calculator PRIVATE EQUI_VERSION="${PROJECT_VERSION}" $<$<BOOL:${EQUI_DEVICE}>:EQUI_DEVICE>)

add_library(equi_library SHARED $<TARGET_OBJECTS:equi_calculator> $<TARGET_OBJECTS:equi_vesin>)
# SOVERSION changes only if a function of equi.h is changed or removed.
set_target_properties(equi_library PROPERTIES OUTPUT_NAME equi VERSION 1 SOVERSION 1 EXPORT_NAME c LINKER_LANGUAGE CXX
                                              BUILD_RPATH_USE_ORIGIN ON)
target_include_directories(equi_library INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src/library>)
target_link_libraries(equi_library PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
if(EQUI_DEVICE)
  target_link_libraries(equi_library PRIVATE equi_device)
endif()
set(equi_evaluation equi_core equi_kokkos)
if(EQUI_SHARED)
  # Everything, also what the C interface does not use. Symbols of other libraries stay hidden.
  target_link_libraries(equi_library PRIVATE -Wl,--whole-archive $<TARGET_FILE:equi_kokkos> $<TARGET_FILE:equi_core>
                                             -Wl,--no-whole-archive Kokkos::kokkos)
  add_dependencies(equi_library equi_kokkos equi_core)
  equi_export(equi_library "EQUI_1 { global: equi_*; _Z*4equi*; local: *; };")
  target_sources(equi_library PRIVATE $<TARGET_OBJECTS:equi_kernels_parts>)
  target_link_libraries(equi_kernels PRIVATE equi_library)
  target_include_directories(equi_library INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  set(equi_evaluation equi_library)
else()
  target_sources(equi_kernels PRIVATE $<TARGET_OBJECTS:equi_kernels_parts>)
  target_link_libraries(equi_kernels PRIVATE equi_kokkos)
  target_link_libraries(equi_library PRIVATE equi_kokkos equi_core)
  equi_export(equi_library "EQUI_1 { global: equi_*; local: *; };")
endif()
foreach(target equi_library equi_kernels)
  equi_link_for_old_systems(${target})
endforeach()
if(EQUI_WHEEL)
  # The linker would leave what the old system lacks to the new one.
  target_link_options(equi_library PRIVATE -Wl,-z,defs)
endif()
