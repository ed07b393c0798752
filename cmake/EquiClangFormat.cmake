# SPDX-License-Identifier: MIT
# EQUI_CLANG_FORMAT: clang-format of the version that the sources are formatted with, for other versions break lines
# elsewhere. The machine's own if it is of that major version, else fetched into the cache as a Python package.

set(EQUI_CLANG_FORMAT_EXECUTABLE "" CACHE FILEPATH "clang-format ${EQUI_CLANG_FORMAT_MAJOR}; empty: the machine's, else one in the cache folder")

# equi_is_clang_format(OUT PROGRAM): whether PROGRAM is of the wanted version.
function(equi_is_clang_format out program)
  execute_process(COMMAND ${program} --version OUTPUT_VARIABLE version RESULT_VARIABLE status ERROR_QUIET)
  set(${out} OFF PARENT_SCOPE)
  if(status EQUAL 0 AND version MATCHES "version ${EQUI_CLANG_FORMAT_MAJOR}\\.")
    set(${out} ON PARENT_SCOPE)
  endif()
endfunction()

set(EQUI_CLANG_FORMAT ${EQUI_CLANG_FORMAT_EXECUTABLE})
if(EQUI_CLANG_FORMAT)
  equi_is_clang_format(is_wanted ${EQUI_CLANG_FORMAT})
  if(NOT is_wanted)
    message(FATAL_ERROR "EQUI_CLANG_FORMAT_EXECUTABLE: expected clang-format ${EQUI_CLANG_FORMAT_MAJOR}, found ${EQUI_CLANG_FORMAT}")
  endif()
else()
  foreach(name clang-format-${EQUI_CLANG_FORMAT_MAJOR} clang-format)
    find_program(program ${name} NO_CACHE)
    if(program AND NOT EQUI_CLANG_FORMAT)
      equi_is_clang_format(is_wanted ${program})
      if(is_wanted)
        set(EQUI_CLANG_FORMAT ${program})
      endif()
    endif()
    unset(program)
  endforeach()
endif()
if(NOT EQUI_CLANG_FORMAT)
  equi_python_package(folder clang-format ${EQUI_CLANG_FORMAT_VERSION} ${EQUI_CLANG_FORMAT_SHA256})
  set(EQUI_CLANG_FORMAT ${folder}/clang_format/data/bin/clang-format)
endif()
equi_say("clang-format: ${EQUI_CLANG_FORMAT}")
