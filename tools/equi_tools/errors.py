# SPDX-License-Identifier: MIT
"""The one exception of this package."""


class EquiError(Exception):
    """An error that the user can mend; the command line prints it in one line and exits with status 1."""
