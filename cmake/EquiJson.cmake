# SPDX-License-Identifier: MIT
# nlohmann_json::nlohmann_json: an installed one (nlohmann_json_DIR names it), else Debian's package, unpacked.

find_package(nlohmann_json ${EQUI_JSON_MINIMUM} QUIET)
if(nlohmann_json_FOUND)
  equi_say("JSON library: nlohmann_json ${nlohmann_json_VERSION} in ${nlohmann_json_DIR}")
else()
  equi_debian_package(${EQUI_JSON_DEBIAN_PACKAGE} folder)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE ${folder}/usr/include)
  equi_say("JSON library: Debian's ${EQUI_JSON_DEBIAN_PACKAGE} in ${folder}")
endif()
