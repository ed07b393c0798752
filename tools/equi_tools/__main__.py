# SPDX-License-Identifier: MIT
"""`python -m equi_tools` is the command `equi`."""

import sys

from .cli import main

sys.exit(main())
