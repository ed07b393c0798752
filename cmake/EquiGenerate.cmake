# SPDX-License-Identifier: MIT
# equi_generate and equi_kernels, the host kernels for AVX2 and AVX-512, and the generated kernels of the common units
# for both and for devices.

set(equi_flags_avx2 -mavx2 -mfma)
set(equi_flags_avx512 -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma -mprefer-vector-width=512)
# The units of kernel_generator.cpp (`equi_generate list`): CMake must know the files before the generator exists. The
# index, which the generator writes, names all of its units, so that a missing one does not link.
set(equi_units
    0_00_11
    0_00
    1_01_10_11
    1_10
    0_00_11_22
    1_01_10_11_12_21_22
    2_02_11_12_20_21_22
    2_20
    0_00_11_22_33
    1_01_10_11_12_21_22_23_32_33
    2_02_11_12_13_20_21_22_23_31_32_33
    3_03_12_13_21_22_23_30_31_32_33
    3_30
    1_01_10
    1_01_10_12_21
    2_02_11_20_22
    1_01_10_12_21_23_32
    2_02_11_13_20_22_31_33
    1_01_10_12_21_32
    2_02_11_20_22_31)

# The uvw paths of kernel_generator.cpp, likewise.
set(equi_uvw_units
    uvw_0_00
    uvw_0_11
    uvw_0_22
    uvw_1_01
    uvw_1_10
    uvw_1_11
    uvw_1_12
    uvw_1_21
    uvw_1_22
    uvw_2_02
    uvw_2_11
    uvw_2_12
    uvw_2_20
    uvw_2_21
    uvw_2_22)

# The contractions of contraction_generator.cpp, likewise.
set(equi_contractions 3_0_3 3_01_3 3_012_3 2_0_3 2_01_3)

add_executable(equi_generate tools/equi_generate.cpp)
target_link_libraries(equi_generate PRIVATE equi_core)
target_compile_options(equi_generate PRIVATE -Wall -Wextra)
# What the text of a kernel includes, for `equi compile`.
set(equi_kernel_headers
    kokkos/kernel_interface/contraction_kernel.h
    kokkos/kernel_interface/host_simd.h
    kokkos/kernel_interface/unit_kernel.h
    src/generator/kernel_layout.h
    src/numbers/dual.h
    src/numbers/host_device.h)
foreach(header ${equi_kernel_headers})
  configure_file(${header} ${PROJECT_BINARY_DIR}/include/equi/${header} COPYONLY)
endforeach()
# How `equi compile` calls the compiler; and the stamp in the names of its libraries, a hash of all that the text of a
# kernel, its interface and its machine code depend on: the plugin takes no library of another version. What SIMD code
# the text wants it says itself, and to search it for more takes a quarter of the time that the compiler needs.
set(kernel_sources
    ${equi_kernel_headers}
    src/algebra/coupling.cpp
    src/generator/contraction_generator.cpp
    src/generator/contraction_schedule.cpp
    src/generator/contraction_schedule.h
    src/generator/generated_text.h
    src/generator/kernel_generator.cpp
    src/generator/kernel_schedule.cpp
    src/generator/kernel_schedule.h
    src/generator/uvw_generator.cpp)
list(TRANSFORM kernel_sources PREPEND ${PROJECT_SOURCE_DIR}/)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernel_sources})
set(hashes "")
foreach(source ${kernel_sources})
  file(SHA256 ${source} hash)
  string(APPEND hashes ${hash})
endforeach()
# For long texts, instead of -O3, whose time grows faster than they do: the text is SIMD code already, but without the
# second option its products and sums are not contracted.
set(flags_large -O1 -fexpensive-optimizations -fschedule-insns2)
list(JOIN flags_large " " flags_large)
target_compile_definitions(equi_generate PRIVATE "EQUI_FLAGS_LARGE=\"${flags_large}\"")
set(stamps "")
foreach(target avx2 avx512)
  string(TOUPPER ${target} name)
  set(flags -std=c++17 ${equi_kernel_options} ${equi_flags_${target}} -fno-tree-slp-vectorize -fPIC -shared
            -fvisibility=hidden)
  list(JOIN flags " " flags)
  target_compile_definitions(equi_generate PRIVATE "EQUI_FLAGS_${name}=\"${flags}\"")
  string(SHA256 stamp "${hashes} ${flags} ${flags_large}")
  string(SUBSTRING ${stamp} 0 16 stamp)
  list(APPEND stamps "EQUI_KERNEL_STAMP_${name}=\"${stamp}\"")
endforeach()
set_source_files_properties(kokkos/host_kernels/kernel_cache.cpp PROPERTIES COMPILE_DEFINITIONS "${stamps}")
# The libraries that a user has, made or checked: what `equi compile` asks and tells.
add_executable(equi_kernels tools/equi_kernels.cpp)
target_link_libraries(equi_kernels PRIVATE equi_kokkos)
target_compile_options(equi_kernels PRIVATE -Wall -Wextra)

set(folder ${PROJECT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${folder})
# Of generated text only addresses are checked, and by calls: a unit with all checks in line compiles five times as long.
set(generated_options "")
if(EQUI_SANITIZE)
  set(generated_options -fno-sanitize=undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND generated_options --param=asan-instrumentation-with-call-threshold=0)
  endif()
endif()

# Beside the generic kernels, which any CPU runs, one source compiled for each; host_kernels.cpp chooses at run time.
set(EQUI_INSTRUCTION_SETS "avx2;avx512" CACHE STRING "Instruction sets of x86-64 that kernels are compiled for (each some minutes)")
set(equi_host_targets "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(equi_host_targets ${EQUI_INSTRUCTION_SETS})
endif()
foreach(target ${equi_host_targets})
  if(NOT target MATCHES "^avx(2|512)$")
    message(FATAL_ERROR "EQUI_INSTRUCTION_SETS: expected avx2 and avx512, separated by semicolons, found ${target}")
  endif()
  string(TOUPPER ${target} name)
  set_property(SOURCE kokkos/host_kernels/host_kernels.cpp kokkos/host_kernels/kernel_library.cpp APPEND PROPERTY COMPILE_DEFINITIONS EQUI_HAS_${name})
endforeach()
foreach(target ${equi_host_targets})
  set(sources "")
  foreach(kind unit contraction)
    set(names ${equi_${kind}s})
    if(kind STREQUAL "unit")
      list(APPEND names ${equi_uvw_units})
    endif()
    foreach(name ${names})
      set(file ${folder}/${kind}_${target}_${name}.cpp)
      add_custom_command(
        OUTPUT ${file}
        COMMAND equi_generate ${kind} ${target} ${name} ${file}
        DEPENDS equi_generate
        COMMENT "Generating ${kind} kernels ${name} for ${target}")
      list(APPEND sources ${file})
    endforeach()
  endforeach()
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${equi_flags_${target}};${generated_options}")
  target_sources(equi_kokkos PRIVATE ${sources})
  set(index ${folder}/kernels_${target}.cpp)
  add_custom_command(OUTPUT ${index} COMMAND equi_generate index ${target} ${index} DEPENDS equi_generate
                     COMMENT "Listing kernels for ${target}")
  set(sources ${index} kokkos/host_kernels/host_kernels_${target}.cpp)
  target_sources(equi_kokkos PRIVATE ${sources})
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${equi_flags_${target}}")
endforeach()

# Kernels for devices, in a few sources, so that they compile side by side and not each pays for Kokkos's headers.
set(equi_device_target warp32)
if("HIP" IN_LIST Kokkos_DEVICES)
  set(equi_device_target wave64)
endif()
set(num_parts 4)
set(number 0)
foreach(unit ${equi_units} ${equi_uvw_units})
  math(EXPR part "${number} % ${num_parts}")
  list(APPEND units_of_part_${part} ${unit})
  if(unit IN_LIST equi_units)
    list(APPEND edge_units_of_part_${part} ${unit})
  endif()
  math(EXPR number "${number} + 1")
endforeach()
# equi_device_unit_sources(PREFIX WHAT): in equi_device_${PREFIX}units the sources with the kernels of the units in
# ${PREFIX}units_of_part_*, and their list. WHAT: told while they are made.
math(EXPR last "${num_parts} - 1")
function(equi_device_unit_sources prefix what)
  set(files ${folder}/${prefix}units_${equi_device_target}.cpp)
  add_custom_command(
    OUTPUT ${files}
    COMMAND equi_generate ${prefix}index ${equi_device_target} ${files}
    DEPENDS equi_generate
    COMMENT "Listing ${what} for ${equi_device_target}")
  foreach(part RANGE ${last})
    set(file ${folder}/${prefix}units_${equi_device_target}_${part}.cpp)
    list(JOIN ${prefix}units_of_part_${part} "," keys)
    add_custom_command(
      OUTPUT ${file}
      COMMAND equi_generate ${prefix}unit ${equi_device_target} ${keys} ${file}
      DEPENDS equi_generate
      COMMENT "Generating ${what} for ${equi_device_target}, part ${part}")
    list(APPEND files ${file})
  endforeach()
  set(equi_device_${prefix}units ${files} PARENT_SCOPE)
endfunction()
equi_device_unit_sources("" "unit kernels")
equi_device_unit_sources(edge_ "unit kernels with weights of edges")    # for training
set(file ${folder}/contractions_${equi_device_target}.cpp)
list(JOIN equi_contractions "," names)
add_custom_command(
  OUTPUT ${file}
  COMMAND equi_generate contraction ${equi_device_target} ${names} ${file}
  DEPENDS equi_generate
  COMMENT "Generating contraction kernels for ${equi_device_target}")
list(APPEND equi_device_units ${file})
