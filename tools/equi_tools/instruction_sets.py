# SPDX-License-Identifier: MIT
"""The instruction sets for which kernels are compiled."""

import platform

# The instruction sets of this machine's processors; a later one is faster.
TARGETS = ("neon",) if platform.machine() in ("aarch64", "arm64") else ("avx2", "avx512")
