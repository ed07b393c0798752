# SPDX-License-Identifier: MIT
# equi_generate and equi_kernels, the host kernels for AVX2, AVX-512 and NEON, and the generated kernels of the common
# path groups for these and for devices.

set(equi_flags_neon "")    # every aarch64 has it
set(equi_flags_avx2 -mavx2 -mfma)
set(equi_flags_avx512 -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma -mprefer-vector-width=512)
# How generated text is compiled, after other options. It is SIMD code already, its loops are unrolled where that pays
# (EQUI_UNROLL_SIMD): of what -O3 adds nothing more makes it faster, and takes four times as long, for the path group
# of l1 = 0 with all harmonics to l = 8 even minutes. Other compilers than g++ have no such choice of passes and are
# fast at -O3.
set(equi_text_options -O3)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(equi_text_options -O1 -fstrict-aliasing -fexpensive-optimizations -fgcse -frerun-cse-after-loop -fschedule-insns2)
  # Where products are moved into a branch, their factors stay in registers until then, of which AVX2 has 16.
  set(equi_text_options_avx2 -fno-tree-sink)
endif()
# The kernels that every build has: CMake must know the files before the generator exists. The index, which the
# generator writes, names them all, so that a missing one does not link.
set(common_kernels src/generator/common_kernels.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${common_kernels})
foreach(kind PATH_GROUP LAUNCH TABLE_LAUNCH EDGE_LAUNCH UVW CONTRACTION)
  file(STRINGS ${common_kernels} lines REGEX "^${kind}\\(")
  list(TRANSFORM lines REPLACE "^${kind}\\((.*)\\)$" "\\1" OUTPUT_VARIABLE equi_common_${kind})
endforeach()
foreach(kind LAUNCH TABLE_LAUNCH EDGE_LAUNCH)
  list(TRANSFORM equi_common_${kind} REPLACE ", *" "+")
endforeach()

# The generator has only its own rooms of the library, so that few changes cause it to be built again. After such a
# change only texts that differ are compiled: an unchanged one keeps its time, and a stamp records that it was made.
add_executable(equi_generate tools/equi_generate.cpp $<TARGET_OBJECTS:equi_generator>)
target_include_directories(equi_generate PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_options(equi_generate PRIVATE -Wall -Wextra)
# What the text of a kernel includes, for `equi compile`.
set(equi_kernel_headers
    kokkos/kernel_interface/contraction_kernel.h
    kokkos/kernel_interface/host_simd.h
    kokkos/kernel_interface/path_group_kernel.h
    src/generator/kernel_layout.h
    src/numbers/dual.h
    src/numbers/host_device.h)
foreach(header ${equi_kernel_headers})
  configure_file(${header} ${PROJECT_BINARY_DIR}/include/equi/${header} COPYONLY)
endforeach()
# How `equi compile` calls the compiler; and the stamp in the names of its libraries, a hash of all that the text of a
# kernel, its interface and its machine code depend on: the plugin takes no library of another version.
equi_with_includes(kernel_sources ${equi_kernel_headers} ${generator_sources})
list(TRANSFORM kernel_sources PREPEND ${PROJECT_SOURCE_DIR}/)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernel_sources})
set(hashes "")
foreach(source ${kernel_sources})
  file(SHA256 ${source} hash)
  string(APPEND hashes ${hash})
endforeach()
set(flags_definitions "")
set(stamps "")
foreach(target neon avx2 avx512)
  string(TOUPPER ${target} name)
  set(flags -std=c++17 ${equi_kernel_options} ${equi_flags_${target}} ${equi_text_options}
            ${equi_text_options_${target}} -fPIC -shared
            -fvisibility=hidden)
  list(JOIN flags " " flags)
  list(APPEND flags_definitions "EQUI_FLAGS_${name}=\"${flags}\"")
  string(SHA256 stamp "${hashes} ${flags}")
  string(SUBSTRING ${stamp} 0 16 stamp)
  list(APPEND stamps "EQUI_KERNEL_STAMP_${name}=\"${stamp}\"")
endforeach()
set_source_files_properties(kokkos/kernel_libraries/kernel_cache.cpp PROPERTIES COMPILE_DEFINITIONS "${stamps}")
# What `equi compile` and `equi schedule` ask.
add_library(equi_kernels_parts OBJECT tools/equi_kernels.cpp tools/model_check.cpp tools/model_kernels.cpp
                                      tools/model_radial.cpp)
target_link_libraries(equi_kernels_parts PRIVATE equi_kokkos)
target_compile_definitions(equi_kernels_parts PRIVATE ${flags_definitions})
target_compile_options(equi_kernels_parts PRIVATE -Wall -Wextra)
add_executable(equi_kernels tools/equi_kernels_main.cpp)
set_target_properties(equi_kernels PROPERTIES BUILD_RPATH_USE_ORIGIN ON)    # the Python wheel has it, too

set(folder ${PROJECT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${folder})
# equi_generated_text(FILES WHAT FILE ARGUMENTS...): appends FILE, which equi_generate writes when it is called with
# the arguments and FILE, to the list FILES. WHAT: printed meanwhile.
function(equi_generated_text files what file)
  add_custom_command(
    OUTPUT ${file}.stamp
    BYPRODUCTS ${file}
    COMMAND equi_generate ${ARGN} ${file}
    COMMAND ${CMAKE_COMMAND} -E touch ${file}.stamp
    DEPENDS equi_generate
    COMMENT "Generating ${what}")
  set_source_files_properties(${file} PROPERTIES GENERATED ON)
  list(APPEND ${files} ${file})
  set(${files} ${${files}} PARENT_SCOPE)
endfunction()
# equi_make_texts(NAME FILES LIBRARIES...): the target NAME makes these texts before the libraries are compiled.
function(equi_make_texts name files)
  list(TRANSFORM ${files} APPEND .stamp OUTPUT_VARIABLE stamps)
  add_custom_target(${name} DEPENDS ${stamps})
  foreach(library ${ARGN})
    add_dependencies(${library} ${name})
  endforeach()
endfunction()
# Generated text is only checked for addresses, and by calls: a path group with all checks in line compiles five times
# as long.
set(generated_options ${equi_text_options})
if(EQUI_SANITIZE)
  set(generated_options -fno-sanitize=undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND generated_options --param=asan-instrumentation-with-call-threshold=0)
  endif()
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND generated_options -Wno-unused-const-variable)    # a text has the numbers that any of its kernels may use
endif()

# Beside the generic kernels, which any CPU runs, one source compiled for each; host_kernels.cpp chooses at run time.
set(known_sets "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(known_sets avx2 avx512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(known_sets neon)
endif()
set(EQUI_INSTRUCTION_SETS "${known_sets}" CACHE STRING "Instruction sets that kernels are compiled for; native: the best that this machine has")
set(equi_host_targets ${EQUI_INSTRUCTION_SETS})
if(EQUI_INSTRUCTION_SETS STREQUAL "native")
  set(equi_host_targets ${known_sets})
  if("avx2" IN_LIST known_sets)
    file(READ /proc/cpuinfo cpu)
    set(equi_host_targets "")
    if(cpu MATCHES "avx512f" AND cpu MATCHES "avx512dq" AND cpu MATCHES "avx512bw" AND cpu MATCHES "avx512vl")
      set(equi_host_targets avx512)
    elseif(cpu MATCHES "avx2" AND cpu MATCHES "fma")
      set(equi_host_targets avx2)
    endif()
  endif()
endif()
foreach(target ${equi_host_targets})
  if(NOT target IN_LIST known_sets)
    message(FATAL_ERROR "EQUI_INSTRUCTION_SETS: expected native, or of ${known_sets} some, separated by semicolons, found ${target}")
  endif()
  string(TOUPPER ${target} name)
  set_property(SOURCE kokkos/host_kernels/host_kernels.cpp kokkos/kernel_libraries/kernel_library.cpp
               APPEND PROPERTY COMPILE_DEFINITIONS EQUI_HAS_${name})
endforeach()
set(texts "")
foreach(target ${equi_host_targets})
  set(sources "")
  foreach(key ${equi_common_PATH_GROUP} ${equi_common_UVW})
    equi_generated_text(sources "path group kernels ${key} for ${target}" ${folder}/path_group_${target}_${key}.cpp path_group ${target} ${key})
  endforeach()
  foreach(name ${equi_common_CONTRACTION})
    equi_generated_text(sources "contraction kernels ${name} for ${target}" ${folder}/contraction_${target}_${name}.cpp
                        contraction ${target} ${name})
  endforeach()
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS
                              "${equi_flags_${target}};${generated_options};${equi_text_options_${target}}")
  set(index "")
  equi_generated_text(index "the list of kernels for ${target}" ${folder}/kernels_${target}.cpp index ${target})
  list(APPEND texts ${sources} ${index})
  set(others ${index} kokkos/host_kernels/host_kernels_${target}.cpp)
  set_source_files_properties(${others} PROPERTIES COMPILE_OPTIONS "${equi_flags_${target}}")
  target_sources(equi_kokkos PRIVATE ${sources} ${others})
endforeach()
equi_make_texts(equi_host_texts texts equi_kokkos)
# Products by matrix units, which CPUs with AVX-512 may have, too.
set(equi_has_amx OFF)
if("avx512" IN_LIST equi_host_targets)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag("-mamx-tile -mamx-bf16" EQUI_COMPILES_AMX)
  if(EQUI_COMPILES_AMX)
    set(equi_has_amx ON)
    set(source kokkos/host_kernels/host_kernels_amx.cpp)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${equi_flags_avx512};-mamx-tile;-mamx-bf16")
    target_sources(equi_kokkos PRIVATE ${source})
    set_property(SOURCE kokkos/host_kernels/host_kernels.cpp APPEND PROPERTY COMPILE_DEFINITIONS EQUI_HAS_AMX)
  endif()
endif()

# Kernels for devices, in a few sources, so that they compile side by side and not each pays for Kokkos's headers.
set(equi_device_target warp32)
if("HIP" IN_LIST Kokkos_DEVICES)
  set(equi_device_target wave64)
endif()
set(num_parts 4)
set(launches ${equi_common_LAUNCH} ${equi_common_TABLE_LAUNCH} ${equi_common_UVW})
set(edge_launches ${equi_common_LAUNCH} ${equi_common_EDGE_LAUNCH})
foreach(key ${equi_common_PATH_GROUP} ${equi_common_UVW})
  list(APPEND launches dual:${key})
endforeach()
foreach(prefix "" edge_)
  set(number 0)
  foreach(launch ${${prefix}launches})
    math(EXPR part "${number} % ${num_parts}")
    list(APPEND ${prefix}path_groups_of_part_${part} ${launch})
    math(EXPR number "${number} + 1")
  endforeach()
endforeach()
math(EXPR last "${num_parts} - 1")
# equi_device_path_group_texts(FILES PREFIX WHAT): appends to FILES the sources with the kernels of the path groups in
# ${PREFIX}path_groups_of_part_*, and their list. WHAT: printed while they are made.
function(equi_device_path_group_texts files prefix what)
  equi_generated_text(${files} "the list of ${what} for ${equi_device_target}"
                      ${folder}/${prefix}path_groups_${equi_device_target}.cpp ${prefix}index ${equi_device_target})
  foreach(part RANGE ${last})
    list(JOIN ${prefix}path_groups_of_part_${part} "," keys)
    equi_generated_text(${files} "${what} for ${equi_device_target}, part ${part}"
                        ${folder}/${prefix}path_groups_${equi_device_target}_${part}.cpp ${prefix}path_group ${equi_device_target} ${keys})
  endforeach()
  set(${files} ${${files}} PARENT_SCOPE)
endfunction()
# equi_add_device_texts(PATH_GROUPS EDGE_PATH_GROUPS WHAT): the sources of the kernels, and of those with weights of
# edges, for training.
function(equi_add_device_texts path_groups edge_path_groups what)
  set(${path_groups} "")
  set(${edge_path_groups} "")
  equi_device_path_group_texts(${path_groups} "" "path group kernels${what}")
  equi_device_path_group_texts(${edge_path_groups} edge_ "path group kernels with weights of edges${what}")
  list(JOIN equi_common_CONTRACTION "," names)
  equi_generated_text(${path_groups} "contraction kernels${what} for ${equi_device_target}"
                      ${folder}/contractions_${equi_device_target}.cpp contraction ${equi_device_target} ${names})
  set(${path_groups} ${${path_groups}} PARENT_SCOPE)
  set(${edge_path_groups} ${${edge_path_groups}} PARENT_SCOPE)
endfunction()
equi_add_device_texts(equi_device_path_groups equi_device_edge_path_groups "")
