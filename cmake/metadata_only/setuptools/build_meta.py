# SPDX-License-Identifier: MIT
"""The hook of PEP 517 that pip calls in the unpacked archive."""

from scikit_build_core.build import prepare_metadata_for_build_wheel as prepare_metadata_for_build_wheel
