# SPDX-License-Identifier: MIT
# Models made by the model tool: the shipped SevenNet models under build/models, and under build/models/tiny, mace,
# nequip and allegro (matgl, torchmd and fairchem, where they are built for) the small random ones that the tests use.
# equi_kernels tries each of them before it is put into its place. The target `demo` runs the demonstration.

set(models ${PROJECT_BINARY_DIR}/models)
file(MAKE_DIRECTORY ${models})
set(tool ${PROJECT_BINARY_DIR}/bin/equi)
set(tool_environment PYTHONPATH=${PROJECT_SOURCE_DIR}/tools EQUI_BUILD_DIR=${PROJECT_BINARY_DIR})
# The sources that decide what a file contains that is converted from a framework.
function(equi_converter_sources framework result)
  set(tools ${PROJECT_SOURCE_DIR}/tools/equi_tools)
  set(modules __init__ convert coupling equi_file irreps reference_values self_check structures torch_archive torch_modules)
  list(TRANSFORM modules PREPEND ${tools}/)
  list(TRANSFORM modules APPEND .py)
  file(GLOB own CONFIGURE_DEPENDS ${tools}/frameworks/*.py ${tools}/frameworks/common/*.py ${tools}/frameworks/${framework}/*.py)
  set(${result} ${modules} ${own} PARENT_SCOPE)
endfunction()
# Makers of random models, which need the model tool.
set(makers ${PROJECT_SOURCE_DIR}/unittest/python/test_models)
set(maker_environment PYTHONPATH=${PROJECT_SOURCE_DIR}/tools:${PROJECT_SOURCE_DIR}/unittest/python EQUI_BUILD_DIR=${PROJECT_BINARY_DIR})
equi_converter_sources(sevenn converter)

# equi_convert(SOURCE NAME): build/models/NAME.equi from a checkpoint that sevenn ships.
function(equi_convert source name)
  add_custom_command(
    OUTPUT ${models}/${name}.equi
    COMMAND ${tool} convert ${source} -o ${models}/${name}.equi
    DEPENDS ${converter}
    COMMENT "Converting ${source}"
    USES_TERMINAL VERBATIM)
endfunction()

equi_convert(7net-0 sevennet-0)
equi_convert(7net-l3i5 sevennet-l3i5)

add_custom_command(
  OUTPUT ${models}/tiny.stamp
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${models}/tiny
  COMMAND ${CMAKE_COMMAND} -E env ${maker_environment} ${EQUI_PYTHON_EXECUTABLE} -m test_models.sevenn ${models}/tiny
  COMMAND ${CMAKE_COMMAND} -E touch ${models}/tiny.stamp
  DEPENDS ${converter} ${makers}/__init__.py ${makers}/sevenn.py
  COMMENT "Making small models for the tests"
  VERBATIM)

# build/models/FAMILY: a random model of every variant of test_models.FAMILY, and the file converted from it. A family is
# a framework, or Allegro, whose models the framework nequip trains. Those of slow_frameworks are for the slow tests.
set(framework_of_allegro nequip)
set(random_models "")
set(slow_random_models "")
foreach(family IN LISTS known_frameworks ITEMS allegro)
  set(framework ${family})
  if(framework_of_${family})
    set(framework ${framework_of_${family}})
  endif()
  string(TOUPPER ${framework} name)
  # The tests of mlip write their models themselves.
  if(EQUI_PYTHON_${name}_EXECUTABLE AND EXISTS ${makers}/${family}.py)
    equi_converter_sources(${framework} sources)
    add_custom_command(
      OUTPUT ${models}/${family}.stamp
      COMMAND ${CMAKE_COMMAND} -E rm -rf ${models}/${family}
      COMMAND ${CMAKE_COMMAND} -E env ${maker_environment} OMP_NUM_THREADS=1
              ${EQUI_PYTHON_${name}_EXECUTABLE} -m test_models.${family} ${models}/${family}
      COMMAND ${CMAKE_COMMAND} -E touch ${models}/${family}.stamp
      DEPENDS ${sources} ${makers}/__init__.py ${makers}/${framework}.py ${makers}/${family}.py
      COMMENT "Making small ${family} models for the tests"
      VERBATIM)
    set(list random_models)
    if(framework IN_LIST slow_frameworks)
      set(list slow_random_models)
    endif()
    list(APPEND ${list} ${models}/${family}.stamp)
    # The stored random models of the reference trajectories.
    set(stored ${PROJECT_SOURCE_DIR}/unittest/trajectories)
    file(GLOB packed CONFIGURE_DEPENDS ${stored}/${family}*.xz)
    if(NOT packed)
      continue()
    endif()
    add_custom_command(
      OUTPUT ${PROJECT_BINARY_DIR}/trajectories/${family}.stamp
      COMMAND ${CMAKE_COMMAND} -E env ${tool_environment} OMP_NUM_THREADS=1
              ${EQUI_PYTHON_${name}_EXECUTABLE} ${stored}/random_models.py convert ${family} ${PROJECT_BINARY_DIR}/trajectories
      COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/trajectories/${family}.stamp
      DEPENDS ${sources} ${packed} ${stored}/random_models.py
      COMMENT "Converting the ${family} models of the reference trajectories"
      VERBATIM)
    list(APPEND ${list} ${PROJECT_BINARY_DIR}/trajectories/${family}.stamp)
  endif()
endforeach()

if(EQUI_TESTS)
  # What the tests need from outside, and the models; with the prefix slow_ that of the slow tests.
  add_custom_target(test_environments ALL)
  add_custom_target(slow_environments)
  add_dependencies(test_environments environment_torch)
  foreach(name IN LISTS known_frameworks ITEMS manual wheel)
    if(NOT TARGET environment_${name})
      continue()
    elseif(name IN_LIST slow_frameworks)
      add_dependencies(slow_environments environment_${name})
    else()
      add_dependencies(test_environments environment_${name})
    endif()
  endforeach()
  add_custom_target(test_models ALL DEPENDS ${models}/tiny.stamp ${models}/sevennet-0.equi ${models}/sevennet-l3i5.equi
                                            ${random_models})
  add_dependencies(test_models equi_kernels equi_library test_environments)
  add_custom_target(slow_models DEPENDS ${slow_random_models})
  add_dependencies(slow_models test_models slow_environments)
endif()

add_custom_target(
  demo
  COMMAND ${tool} demo --build-dir ${PROJECT_BINARY_DIR} --picture ${PROJECT_BINARY_DIR}/demo.png
  DEPENDS ${models}/sevennet-0.equi
  COMMENT "SevenNet-0 in LAMMPS: molecular dynamics of rock salt"
  USES_TERMINAL VERBATIM)
# It tries the model, and after the demonstration a user has all commands of the model tool.
add_dependencies(demo equi_kernels equi_library)
if(EQUI_PLUGIN)
  add_dependencies(demo equiplugin)
endif()
