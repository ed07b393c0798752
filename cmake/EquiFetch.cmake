# SPDX-License-Identifier: MIT
# Helpers for fetching at configure time. Everything goes under EQUI_CACHE_DIR; a finished piece leaves a stamp, so
# that a second configure needs no network.

# equi_say(WORDS...): prints one line that says where a dependency comes from or what is being fetched.
function(equi_say)
  string(JOIN "" text ${ARGV})
  message(STATUS "equi: ${text}")
endfunction()

# One configure step or script at a time fills a cache that several build folders share; the others wait here until it
# ends, for its process may live on: `ctest --build-and-test` builds and tests in the same one. A file system without
# locks is no reason to stop, nor is a finished cache that cannot be written to.
file(MAKE_DIRECTORY ${EQUI_CACHE_DIR})
set(lock ${EQUI_CACHE_DIR}/.lock)
execute_process(COMMAND ${CMAKE_COMMAND} -E touch ${lock} RESULT_VARIABLE status ERROR_QUIET)
if(status EQUAL 0)
  file(LOCK ${lock} GUARD PROCESS TIMEOUT 0 RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    equi_say("waiting for another configure step that uses ${EQUI_CACHE_DIR}")
    file(LOCK ${lock} GUARD PROCESS RESULT_VARIABLE status)
  endif()
  if(NOT status EQUAL 0)
    equi_say("${EQUI_CACHE_DIR} cannot be locked (${status}): configure one build folder at a time")
  elseif(NOT CMAKE_SCRIPT_MODE_FILE)
    cmake_language(EVAL CODE "cmake_language(DEFER DIRECTORY [[${CMAKE_SOURCE_DIR}]] CALL file LOCK [[${lock}]] RELEASE)")
  endif()
endif()

# EQUI_JOBS: how many compilers the configure step runs at a time.
set(EQUI_JOBS $ENV{CMAKE_BUILD_PARALLEL_LEVEL})
if(NOT EQUI_JOBS)
  execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/jobs OUTPUT_VARIABLE EQUI_JOBS OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()

# equi_run(WHAT COMMAND...): runs a command of the configure step, its output kept in a log; stops with the end of that
# log if it fails.
function(equi_run what)
  string(MAKE_C_IDENTIFIER "${what}" name)
  set(log ${EQUI_CACHE_DIR}/logs/${name}.log)
  file(MAKE_DIRECTORY ${EQUI_CACHE_DIR}/logs)
  execute_process(
    COMMAND ${ARGN}
    OUTPUT_FILE ${log}
    ERROR_FILE ${log}
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    file(READ ${log} text)
    string(LENGTH "${text}" length)
    if(length GREATER 3000)
      math(EXPR begin "${length} - 3000")
      string(SUBSTRING "${text}" ${begin} -1 text)
    endif()
    message(FATAL_ERROR "${what} failed (${status}); the whole output is in ${log}:\n${text}")
  endif()
endfunction()

# equi_debian_package(NAME OUT_FOLDER): unpacks a Debian package into the cache, without root and without installing
# it. Works through apt's sources; private package lists are fetched where the machine has none.
function(equi_debian_package name out)
  set(folder ${EQUI_CACHE_DIR}/debian/${name})
  set(${out} ${folder} PARENT_SCOPE)
  if(EXISTS ${folder}/.complete)
    return()
  endif()
  find_program(EQUI_APT_GET apt-get)
  find_program(EQUI_DPKG_DEB dpkg-deb)
  if(NOT EQUI_APT_GET OR NOT EQUI_DPKG_DEB)
    message(FATAL_ERROR "${name} is not installed on this machine, and there is no apt-get that could fetch it: install it, or name its folder")
  endif()
  equi_say("fetching the Debian package ${name}")
  set(download ${EQUI_CACHE_DIR}/debian/download)
  # Also what an interrupted attempt left: a half package must not be taken for a whole one.
  file(REMOVE_RECURSE ${folder} ${download})
  file(MAKE_DIRECTORY ${download} ${folder})
  execute_process(COMMAND ${EQUI_APT_GET} -q download ${name} WORKING_DIRECTORY ${download} RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(NOT status EQUAL 0)
    set(private ${EQUI_CACHE_DIR}/debian/apt)
    file(MAKE_DIRECTORY ${private}/lists/partial ${private}/cache/archives/partial)
    set(options -o Dir::State::Lists=${private}/lists -o Dir::Cache=${private}/cache -o APT::Sandbox::User=root)
    equi_run("apt-get update" ${EQUI_APT_GET} -q ${options} update)
    equi_run("apt-get download ${name}" ${CMAKE_COMMAND} -E chdir ${download} ${EQUI_APT_GET} -q ${options} download ${name})
  endif()
  file(GLOB archive ${download}/${name}_*.deb)
  list(GET archive 0 archive)
  equi_run("unpacking ${name}" ${EQUI_DPKG_DEB} -x ${archive} ${folder})
  file(TOUCH ${folder}/.complete)
endfunction()

# equi_find_archive(OUT FILE SHA256): whether FILE is there with this hash; a file with another one is removed.
function(equi_find_archive out file sha256)
  set(${out} OFF PARENT_SCOPE)
  if(EXISTS ${file})
    file(SHA256 ${file} found)
    if(found STREQUAL sha256)
      set(${out} ON PARENT_SCOPE)
      return()
    endif()
    equi_say("${file} is damaged and is fetched again")
    file(REMOVE ${file})
  endif()
endfunction()

# equi_check_archive(FILE SHA256): what was fetched must be there with this hash.
function(equi_check_archive file sha256)
  set(found "no such file")
  if(EXISTS ${file})
    file(SHA256 ${file} found)
  endif()
  if(NOT found STREQUAL sha256)
    message(FATAL_ERROR "${file}: expected SHA256 ${sha256}, found ${found}")
  endif()
endfunction()

# equi_fetch_archive(PACKAGE VERSION ARCHIVE SHA256): the source archive of a Python package, in
# EQUI_CACHE_DIR/archives. pip compares the hash before it opens the archive. It would then ask the package's build
# backend for the name and the version, and fetch that backend with its dependencies: cmake/metadata_only has others of
# their names, so that nothing is run.
function(equi_fetch_archive package version archive sha256)
  set(folder ${EQUI_CACHE_DIR}/archives)
  set(file ${folder}/${archive})
  equi_find_archive(is_there ${file} ${sha256})
  if(is_there)
    return()
  endif()
  equi_say("fetching ${archive}")
  set(list ${folder}/${archive}.requirement.txt)
  file(WRITE ${list} "${package}==${version} --hash=sha256:${sha256}\n")
  equi_run(
    "fetching ${archive}" ${CMAKE_COMMAND} -E env PYTHONPATH=${CMAKE_CURRENT_FUNCTION_LIST_DIR}/metadata_only
    ${EQUI_PYTHON_EXECUTABLE} -m pip download --disable-pip-version-check --progress-bar off --no-deps --require-hashes
    --no-build-isolation --no-binary ${package} --dest ${folder} -r ${list})
  file(REMOVE ${list})
  equi_check_archive(${file} ${sha256})
endfunction()

# equi_python_package(OUT PACKAGE VERSION SHA256...): the unpacked wheel of a Python package, in EQUI_CACHE_DIR. There
# is a hash for each of its wheels that may be taken.
function(equi_python_package out package version)
  set(folder ${EQUI_CACHE_DIR}/${package}-${version})
  set(${out} ${folder} PARENT_SCOPE)
  if(EXISTS ${folder}/.complete)
    return()
  endif()
  equi_say("fetching ${package} ${version}")
  file(REMOVE_RECURSE ${folder})
  list(TRANSFORM ARGN PREPEND " --hash=sha256:" OUTPUT_VARIABLE hashes)
  string(JOIN "" requirement "${package}==${version}" ${hashes})
  file(WRITE ${folder}/requirements.txt "${requirement}\n")
  # pip compares with the hashes before it unpacks anything.
  equi_run("fetching ${package}" ${EQUI_PYTHON_EXECUTABLE} -m pip install --disable-pip-version-check --no-deps
           --progress-bar off --only-binary :all: --require-hashes --no-compile --target ${folder} -r ${folder}/requirements.txt)
  file(TOUCH ${folder}/.complete)
endfunction()

# equi_source_folder(OUT CACHE FOLDER PACKAGE VERSION ARCHIVE SHA256): the unpacked FOLDER of such an archive, in
# EQUI_CACHE_DIR/CACHE.
function(equi_source_folder out cache folder package version archive sha256)
  set(sources ${EQUI_CACHE_DIR}/${cache})
  set(${out} ${sources}/${folder} PARENT_SCOPE)
  string(REPLACE "/" "-" name ${folder})
  if(EXISTS ${sources}/.${name}.${sha256})
    return()
  endif()
  equi_fetch_archive(${package} ${version} ${archive} ${sha256})
  file(REMOVE_RECURSE ${sources}/${folder})
  file(ARCHIVE_EXTRACT INPUT ${EQUI_CACHE_DIR}/archives/${archive} DESTINATION ${sources} PATTERNS ${folder}/*)
  file(TOUCH ${sources}/.${name}.${sha256})
endfunction()

# equi_debian_source(PACKAGE SUITE ARCHIVE SHA256): the original source archive of a Debian package, in
# EQUI_CACHE_DIR/archives. The suite need not be the machine's: its list is fetched from where the machine's own come
# from. What is trusted is the hash of the archive.
function(equi_debian_source package suite archive sha256)
  set(file ${EQUI_CACHE_DIR}/archives/${archive})
  equi_find_archive(is_there ${file} ${sha256})
  if(is_there)
    return()
  endif()
  find_program(EQUI_APT_GET apt-get)
  if(NOT EQUI_APT_GET)
    message(FATAL_ERROR "there is no apt-get that could fetch ${archive}: put it into ${EQUI_CACHE_DIR}/archives")
  endif()
  execute_process(COMMAND ${EQUI_APT_GET} indextargets --format "$(REPO_URI)" "Created-By: Packages"
                  OUTPUT_VARIABLE sites OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(REPLACE "\n" ";" sites "${sites}")
  list(REMOVE_DUPLICATES sites)
  equi_say("fetching ${archive} of Debian ${suite}")
  set(private ${EQUI_CACHE_DIR}/debian/apt-${suite})
  set(options -o Dir::State::Lists=${private}/lists -o Dir::Cache=${private}/cache -o APT::Sandbox::User=root
      -o Dir::Etc::SourceList=${private}/sources.list -o Dir::Etc::SourceParts=${private}/none)
  file(MAKE_DIRECTORY ${EQUI_CACHE_DIR}/archives)
  foreach(site ${sites})
    file(REMOVE_RECURSE ${private})
    file(MAKE_DIRECTORY ${private}/lists/partial ${private}/cache/archives/partial ${private}/none)
    file(WRITE ${private}/sources.list "deb-src [trusted=yes] ${site} ${suite} main\n")
    execute_process(COMMAND ${EQUI_APT_GET} -q ${options} update OUTPUT_QUIET ERROR_QUIET)
    execute_process(COMMAND ${EQUI_APT_GET} -q ${options} source --download-only --tar-only ${package}
                    WORKING_DIRECTORY ${EQUI_CACHE_DIR}/archives OUTPUT_QUIET ERROR_QUIET)
    file(REMOVE_RECURSE ${private})
    if(EXISTS ${file})
      break()
    endif()
  endforeach()
  equi_check_archive(${file} ${sha256})
endfunction()
