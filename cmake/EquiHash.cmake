# SPDX-License-Identifier: MIT
# equi_xxhash: the headers of xxHash, installed ones (EQUI_XXHASH_INCLUDE_DIR names their folder), else Debian's
# package, unpacked. Its functions are compiled into the file that calls them, so that nothing is linked.
find_path(EQUI_XXHASH_INCLUDE_DIR xxhash.h)
mark_as_advanced(EQUI_XXHASH_INCLUDE_DIR)
set(equi_xxhash_folder "${EQUI_XXHASH_INCLUDE_DIR}")
set(equi_xxhash_version "")
if(equi_xxhash_folder)
  # XXH3 has its final form since version 0.8.
  file(STRINGS ${equi_xxhash_folder}/xxhash.h lines REGEX "define XXH_VERSION_(MAJOR|MINOR|RELEASE)")
  string(REGEX REPLACE "[^;]*_(MAJOR|MINOR|RELEASE) +([0-9]+)[^;]*" "\\2" numbers "${lines}")
  list(JOIN numbers "." equi_xxhash_version)
endif()
if(equi_xxhash_folder AND equi_xxhash_version VERSION_GREATER_EQUAL EQUI_XXHASH_MINIMUM)
  equi_say("xxHash: version ${equi_xxhash_version} in ${equi_xxhash_folder}")
else()
  equi_debian_package(${EQUI_XXHASH_DEBIAN_PACKAGE} folder)
  set(equi_xxhash_folder ${folder}/usr/include)
  equi_say("xxHash: Debian's ${EQUI_XXHASH_DEBIAN_PACKAGE} in ${folder}")
endif()
add_library(equi_xxhash INTERFACE)
target_include_directories(equi_xxhash SYSTEM INTERFACE ${equi_xxhash_folder})
