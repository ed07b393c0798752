# SPDX-License-Identifier: MIT
# nlohmann_json::nlohmann_json: an installed one (nlohmann_json_DIR names it), else its sources, unpacked.
# EQUI_JSON_LICENSE: the text of its license, which an installed one may lack.

find_package(nlohmann_json ${EQUI_JSON_MINIMUM} QUIET)
if(nlohmann_json_FOUND)
  get_target_property(include nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)
  set(EQUI_JSON_LICENSE ${include}/../share/doc/nlohmann-json3-dev/copyright)
  equi_say("JSON library: nlohmann_json ${nlohmann_json_VERSION} in ${nlohmann_json_DIR}")
else()
  equi_source_folder(folder source ${EQUI_JSON_FOLDER} ${EQUI_SOURCES})
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE ${folder}/single_include)
  set(EQUI_JSON_LICENSE ${folder}/LICENSE.MIT)
  equi_say("JSON library: nlohmann_json in ${folder}")
endif()
