# SPDX-License-Identifier: MIT
# What `cmake --install` copies, laid out as in a build folder, so that the model tool finds its parts:
#
#   bin/equi, bin/equi_kernels         the model tool and its program
#   lib/equiplugin.so                  for `plugin load` or LAMMPS_PLUGIN_PATH, with libequi_torch.so if it is built
#   lib/libequi.so, include/equi.h     the evaluation for programs in C: find_package(equi COMPONENTS c), target equi::c
#   lib/libequi_*.a, lib/cmake/equi    the evaluation on CPUs as a library: find_package(equi), target equi::equi
#   include/equi                       its headers, and those of the text that `equi compile` makes
#   share/equi                         Python packages of the model tool, potentials
#
# A Kokkos that was compiled here is copied to lib/equi/kokkos, where it meets no other one.

set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "Folder of libraries below the prefix; the model tool knows only lib")
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/equi)

target_compile_features(equi_core PUBLIC cxx_std_17)
set_target_properties(equi_core PROPERTIES EXPORT_NAME core)
set_target_properties(equi_kokkos PROPERTIES EXPORT_NAME equi)
install(TARGETS equi_core equi_kokkos EXPORT equi_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/equi)
install(EXPORT equi_targets FILE equi-targets.cmake NAMESPACE equi:: DESTINATION ${config_folder})
install(TARGETS equi_library EXPORT equi_c_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT equi_c_targets FILE equi-c-targets.cmake NAMESPACE equi:: DESTINATION ${config_folder})
install(FILES src/library/equi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
configure_package_config_file(cmake/equi-config.cmake.in ${PROJECT_BINARY_DIR}/equi-config.cmake
                              INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/equi-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/equi-config.cmake ${PROJECT_BINARY_DIR}/equi-config-version.cmake
        DESTINATION ${config_folder})
if(EQUI_KOKKOS_IS_OURS)
  install(DIRECTORY ${EQUI_KOKKOS_PREFIX}/include ${EQUI_KOKKOS_PREFIX}/lib
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/equi/kokkos)
endif()

# What a program needs to read a model, to build a neighborhood and to evaluate, and all that these headers include.
equi_with_includes(headers src/evaluation/native_evaluators.h src/model/model_file.h ${equi_kernel_headers})
foreach(header IN LISTS headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/equi/${folder})
endforeach()

install(TARGETS equi_kernels RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(PROGRAMS cmake/wrappers/installed_equi DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME equi)
install(DIRECTORY tools/equi_tools tools/equi_torch DESTINATION ${CMAKE_INSTALL_DATADIR}/equi/python
        FILES_MATCHING PATTERN *.py PATTERN *.json PATTERN __pycache__ EXCLUDE)
install(DIRECTORY potentials/ DESTINATION ${CMAKE_INSTALL_DATADIR}/equi/potentials FILES_MATCHING PATTERN *.equi)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY LICENSES DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(EQUI_PLUGIN)
  install(TARGETS equiplugin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(EQUI_TORCH)
  install(FILES $<TARGET_FILE:equi_torch> DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
endif()
