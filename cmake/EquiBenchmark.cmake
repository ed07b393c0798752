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

# equi_bench_units(KEYS...): makes kernels of units beyond those of the build, in the folder in which the plugin would
# look for them if the user's cache folder (XDG_CACHE_HOME) were EQUI_BENCH_KERNELS.
set(EQUI_BENCH_KERNELS ${PROJECT_BINARY_DIR}/bench)
function(equi_bench_units)
  file(STRINGS ${PROJECT_SOURCE_DIR}/kokkos/unit_kernel.h abi REGEX "^constexpr int UNIT_KERNEL_ABI")
  string(REGEX MATCH "[0-9]+" abi "${abi}")
  foreach(target avx2 avx512)
    foreach(key ${ARGN})
      set(file ${PROJECT_BINARY_DIR}/generated/bench_${target}_${key}.cpp)
      add_custom_command(
        OUTPUT ${file}
        COMMAND equi_generate library ${target} ${key} ${file}
        DEPENDS equi_generate
        COMMENT "Generating kernels ${key} for ${target}")
      set(library bench_unit_${target}_${key})
      add_library(${library} MODULE ${file})
      target_include_directories(${library} PRIVATE ${PROJECT_SOURCE_DIR}/kokkos ${PROJECT_SOURCE_DIR}/src)
      target_compile_options(${library} PRIVATE ${equi_kernel_options} ${equi_flags_${target}})
      set_target_properties(
        ${library} PROPERTIES PREFIX "" OUTPUT_NAME kernel-${abi}-${target}-${key}
                              LIBRARY_OUTPUT_DIRECTORY ${EQUI_BENCH_KERNELS}/equi/kernels)
      add_dependencies(bench_kernels ${library})
    endforeach()
  endforeach()
endfunction()
