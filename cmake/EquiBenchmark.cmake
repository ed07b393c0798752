# SPDX-License-Identifier: MIT
# benchmark::benchmark: an installed Google Benchmark (benchmark_DIR names it), else Debian's package, unpacked.

find_package(benchmark ${EQUI_BENCHMARK_MINIMUM} QUIET)
if(benchmark_FOUND)
  equi_say("Google Benchmark: ${benchmark_VERSION} in ${benchmark_DIR}")
else()
  equi_debian_package(${EQUI_BENCHMARK_DEBIAN_PACKAGE} folder)
  equi_debian_package(${EQUI_BENCHMARK_DEBIAN_LIBRARY} library_folder)
  file(GLOB library ${library_folder}/usr/lib/*/libbenchmark.so.*debian)
  if(NOT library)
    message(FATAL_ERROR "${library_folder} has no libbenchmark.so")
  endif()
  find_package(Threads REQUIRED)
  add_library(benchmark::benchmark SHARED IMPORTED)
  set_target_properties(benchmark::benchmark PROPERTIES IMPORTED_LOCATION ${library})
  target_include_directories(benchmark::benchmark SYSTEM INTERFACE ${folder}/usr/include)
  target_link_libraries(benchmark::benchmark INTERFACE Threads::Threads)
  equi_say("Google Benchmark: Debian's ${EQUI_BENCHMARK_DEBIAN_PACKAGE} in ${folder}")
endif()

# equi_bench_path_groups(KEYS...): makes kernels of path groups beyond those of the build, and puts them where the plugin would look
# for them if the user's cache folder (XDG_CACHE_HOME) were EQUI_BENCH_KERNELS.
set(EQUI_BENCH_KERNELS ${PROJECT_BINARY_DIR}/bench)
function(equi_bench_path_groups)
  foreach(target avx2 avx512)
    foreach(key ${ARGN})
      set(text "")
      equi_generated_text(text "kernels ${key} for ${target}" ${PROJECT_BINARY_DIR}/generated/bench_${target}_${key}.cpp
                          library ${target} ${key})
      set(library bench_path_group_${target}_${key})
      add_library(${library} MODULE ${text})
      equi_make_texts(${library}_text text ${library})
      target_include_directories(${library} PRIVATE ${PROJECT_SOURCE_DIR})
      target_compile_options(${library} PRIVATE ${equi_kernel_options} ${equi_flags_${target}} ${equi_text_options})
      add_dependencies(${library} equi_kernels)
      add_custom_command(
        TARGET ${library} POST_BUILD
        COMMAND ${CMAKE_COMMAND} -E env XDG_CACHE_HOME=${EQUI_BENCH_KERNELS} $<TARGET_FILE:equi_kernels> store
                ${target} ${key} $<TARGET_FILE:${library}>
        VERBATIM)
      add_dependencies(bench_kernels ${library})
    endforeach()
  endforeach()
endfunction()
