# SPDX-License-Identifier: MIT
# equi_vesin: the neighbor lists of vesin on CPUs, compiled from the source archive of its Python package into the
# library that uses them. Its own build would also compile its part for GPUs. EQUI_VESIN_FOLDER names other sources of
# vesin (the folder with include/ and src/).
set(EQUI_VESIN_FOLDER "" CACHE PATH "Sources of vesin 0.6, with include/ and src/; empty: those of its Python package are fetched")
mark_as_advanced(EQUI_VESIN_FOLDER)
set(equi_vesin_folder "${EQUI_VESIN_FOLDER}")
if(NOT equi_vesin_folder)
  equi_source_folder(equi_vesin_folder source ${EQUI_VESIN_SOURCES_FOLDER} ${EQUI_VESIN_SOURCES})
endif()
equi_say("neighbor lists: vesin in ${equi_vesin_folder}")
# The archive lacks the text of its license.
set(EQUI_VESIN_LICENSE ${PROJECT_SOURCE_DIR}/LICENSES/BSD-3-Clause-vesin.txt)

set(equi_vesin_sources vesin threadpool cpu_cell_list verlet vesin_cuda_stub)
list(TRANSFORM equi_vesin_sources REPLACE "(.+)" "${equi_vesin_folder}/src/\\1.cpp")
find_package(Threads REQUIRED)
add_library(equi_vesin OBJECT EXCLUDE_FROM_ALL ${equi_vesin_sources})
target_include_directories(equi_vesin SYSTEM PUBLIC ${equi_vesin_folder}/include)
target_compile_options(equi_vesin PRIVATE -w)
target_link_libraries(equi_vesin PUBLIC Threads::Threads)
