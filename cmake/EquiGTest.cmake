# SPDX-License-Identifier: MIT
# GTest::gtest_main: an installed GoogleTest (GTest_DIR names it), else Debian's sources, installed or unpacked.

find_package(GTest ${EQUI_GTEST_MINIMUM} QUIET)
if(GTest_FOUND)
  equi_say("GoogleTest: ${GTest_VERSION} in ${GTest_DIR}")
else()
  set(source /usr/src/googletest)
  if(NOT EXISTS ${source}/CMakeLists.txt)
    equi_debian_package(${EQUI_GTEST_DEBIAN_PACKAGE} folder)
    set(source ${folder}/usr/src/googletest)
  endif()
  set(INSTALL_GTEST OFF)
  set(BUILD_GMOCK OFF)
  add_subdirectory(${source} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  equi_say("GoogleTest: sources in ${source}")
endif()
