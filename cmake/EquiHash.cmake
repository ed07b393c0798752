# SPDX-License-Identifier: MIT
# equi_xxhash: the headers of xxHash, installed ones (EQUI_XXHASH_INCLUDE_DIR names their folder), else its sources,
# unpacked. Its functions are compiled into the file that calls them, so that nothing is linked. EQUI_XXHASH_LICENSE:
# the text of its license, which an installed one may lack.
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
  set(EQUI_XXHASH_LICENSE ${equi_xxhash_folder}/../share/doc/libxxhash-dev/copyright)
  equi_say("xxHash: version ${equi_xxhash_version} in ${equi_xxhash_folder}")
else()
  equi_source_folder(equi_xxhash_folder source ${EQUI_XXHASH_FOLDER} ${EQUI_XXHASH_SOURCES})
  set(EQUI_XXHASH_LICENSE ${equi_xxhash_folder}/LICENSE)
  equi_say("xxHash: ${equi_xxhash_folder}")
endif()
add_library(equi_xxhash INTERFACE)
target_include_directories(equi_xxhash SYSTEM INTERFACE ${equi_xxhash_folder})
