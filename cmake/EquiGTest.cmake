# SPDX-License-Identifier: MIT
# GTest::gtest_main: an installed GoogleTest (GTest_DIR names it), else its sources, installed or unpacked.

find_package(GTest ${EQUI_GTEST_MINIMUM} QUIET)
if(GTest_FOUND)
  equi_say("GoogleTest: ${GTest_VERSION} in ${GTest_DIR}")
else()
  set(source /usr/src/googletest) # where Debian has sources alone
  if(NOT EXISTS ${source}/CMakeLists.txt)
    equi_source_folder(source source ${EQUI_GTEST_FOLDER} ${EQUI_SOURCES})
  endif()
  set(INSTALL_GTEST OFF)
  set(BUILD_GMOCK OFF)
  add_subdirectory(${source} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  equi_say("GoogleTest: sources in ${source}")
endif()
