# SPDX-License-Identifier: MIT
"""The same for source archives whose build backend is setuptools."""
