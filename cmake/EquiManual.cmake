# SPDX-License-Identifier: MIT
# The target `manual`: build/manual/index.html, the site of doc/. EQUI_MANUAL_COMMAND makes it, and fails with a warning of
# Sphinx, for example of a page that no table of contents names or of a link to a page that does not exist.

# An environment like that of a framework: no other build needs these packages.
list(APPEND frameworks manual)
equi_framework_environment(manual)

# Always from the beginning: the index of a site that is built in parts lacks the entries of pages that did not change.
set(EQUI_MANUAL_COMMAND
    ${EQUI_PYTHON_MANUAL_EXECUTABLE} -m sphinx --fail-on-warning --keep-going --nitpicky --quiet --builder html
    --fresh-env --write-all --doctree-dir ${PROJECT_BINARY_DIR}/manual-doctrees ${PROJECT_SOURCE_DIR}/doc ${PROJECT_BINARY_DIR}/manual)
add_custom_target(
  manual
  COMMAND ${EQUI_MANUAL_COMMAND}
  COMMENT "The manual: ${PROJECT_BINARY_DIR}/manual/index.html"
  VERBATIM)
add_dependencies(manual environment_manual)
