# SPDX-License-Identifier: MIT
"""Stands in for the build backend of source archives that are only fetched (equi_fetch_archive of EquiFetch.cmake).

pip asks a backend for the metadata of what it downloads. This one takes them from the archive and runs nothing of it.
"""
