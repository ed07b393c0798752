# SPDX-License-Identifier: MIT
"""Reads the runs in a log file of LAMMPS: thermodynamic output, drift of the energy, and the use of time."""

import re
from dataclasses import dataclass

import numpy as np

from .errors import EquiError

# By units of LAMMPS: picoseconds per unit of time, eV per unit of energy, the default timestep.
UNITS = {"metal": (1.0, 1.0, 0.001), "real": (0.001, 0.0433641, 1.0)}
# Columns that should stay constant: the conserved quantity, which includes thermostats and barostats, and the energy,
# which only NVE conserves.
ECONSERVE, ETOTAL = "Econserve", "TotEng"
# Fixes that exchange energy with the atoms and account for it in econserve.
THERMOSTATS = r"(?:nvt|npt|nph|langevin|temp/\w+|press/\w+|nvt/\w+|npt/\w+|nph/\w+|deform|box/relax|ttm\S*|gle|rigid/n[vp]\w+)"


@dataclass
class RunOfLog:
    """One `run` or `minimize` of a log."""

    columns: dict  # name: values, a row for each line of thermodynamic output
    atoms: int
    picoseconds: np.ndarray  # of the rows, from the first one on; None for a minimization
    units: str  # metal or real
    to_ev: float  # eV of the log's unit of energy
    breakdown: dict  # section: (seconds, percent), empty for a run that has not ended
    thermostats: tuple = ()  # styles of fixes that change the energy

    def conserved(self):
        """(name, values) of the column that should stay constant, None without one: a thermostat changes the energy."""
        names = [ECONSERVE] if self.thermostats else [ECONSERVE, ETOTAL]
        return next(((name, self.columns[name]) for name in names if name in self.columns), None)

    def last(self):
        """The last row."""
        return {name: float(values[-1]) for name, values in self.columns.items()}

    def means(self):
        """The mean of each column over the second half of the rows."""
        return {name: float(values[len(values) // 2 :].mean()) for name, values in self.columns.items()}

    def drift(self):
        """Slope of a straight line through the conserved column in meV per atom and ps, None without such a column."""
        if self.picoseconds is None or self.conserved() is None or len(self.picoseconds) < 3 or not np.ptp(self.picoseconds):
            return None
        slope = np.polyfit(self.picoseconds, self.conserved()[1], 1)[0]
        return float(1e3 * slope * self.to_ev / self.atoms)


def _table(lines):
    """Columns of a table of numbers after a line of names; the table ends at the first line that is not part of it."""
    names, rows = lines[0].split(), []
    for line in lines[1:]:
        words = line.split()
        if line.startswith(("WARNING", "Pair style equi")):
            continue
        try:
            row = [float(word) for word in words]
        except ValueError:
            break
        if len(row) != len(names):
            break
        rows.append(row)
    return dict(zip(names, np.array(rows).T)) if rows else None


def _breakdown(text):
    section = text.partition("MPI task timing breakdown")[2].partition("\n\n")[0]
    rows = (re.split(r"\s*\|\s*", line.strip()) for line in section.splitlines() if line.count("|") == 5)
    # Average over the ranks, and the share of the total.
    return {row[0]: (float(row[2]), float(row[5])) for row in rows if row[0] != "Section"}


def _thermostats(text):
    """Styles of the fixes in effect after these lines that change the energy of the atoms."""
    styles = {}
    for word, name, style in re.findall(r"^ *(fix|unfix) +(\S+)(?: +\S+ +(\S+))?", text, re.M):
        styles.pop(name, None)
        if word == "fix" and re.fullmatch(THERMOSTATS + r"(?:/kk|/omp)?", style):
            styles[name] = style
    return tuple(styles.values())


def _last(pattern, text):
    found = re.findall(pattern, text, re.M)
    return found[-1] if found else None


def read(path):
    """The runs in a log, as RunOfLog; EquiError if there are none."""
    try:
        with open(path, errors="replace") as stream:
            text = stream.read()
    except OSError as error:
        raise EquiError(f"cannot read {path}: {error.strerror}") from error
    starts = [match.start() for match in re.finditer(r"^ *Step +[A-Z].*$", text, re.M)]
    runs = []
    for start, end in zip(starts, [*starts[1:], len(text)]):
        before, own = text[:start], text[start:end]
        columns = _table(own.splitlines())
        atoms = _last(r"with (\d+) atoms", own[: own.find("\n\n")]) or _last(r"^ *(\d+) atoms$", before)
        if columns is None or atoms is None:
            continue
        units = _last(r"^ *(?:units|Unit style *:) +(\w+)", before) or "lj"
        if units not in UNITS:
            raise EquiError(f"{path}: expected units metal or real, found {units}")
        to_ps, to_ev, usual = UNITS[units]
        step = float(_last(r"^ *(?:timestep|Time step *:) +([\d.eE+-]+)\s*$", before) or usual)
        command = _last(r"^ *(run|minimize)\s", before)
        times = None if command == "minimize" else (columns["Step"] - columns["Step"][0]) * step * to_ps
        runs.append(RunOfLog(columns, int(atoms), times, units, to_ev, _breakdown(own), _thermostats(before)))
    if not runs:
        raise EquiError(f"{path}: no table of thermodynamic output that begins with Step, as of thermo_style one or custom")
    return runs
