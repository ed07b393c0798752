# SPDX-License-Identifier: MIT
"""Model tool of the LAMMPS pair style equi."""

__version__ = "0.2.0"
