# SPDX-License-Identifier: MIT
"""`equi data`: a structure of any format that ASE reads -> a LAMMPS data file, and an input script for it."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.data import atomic_numbers

from . import equi_file, lammps_runner, structures
from .compare import keywords_of_system
from .errors import EquiError
from .frameworks import formula

# What all scripts begin with. Half a femtosecond follows the bonds of hydrogen.
BEGINNING = """\
# {purpose}
#
#   lmp -in {script}
#
# Made by equi data. Variables are set on the command line, for example -var {example}.

variable        model index "{model}"
variable        data index "{data}"
{variables}
units           metal
atom_style      atomic
boundary        {boundary}
read_data       ${{data}}

pair_style      equi precision {precision}{system}
pair_coeff      * * ${{model}} {symbols}
"""
MOLECULAR_DYNAMICS = """\
variable        temperature index {temperature:g}
variable        steps index 1000
"""
RUN = """\
timestep        {timestep}
thermo          100
thermo_style    custom step temp pe etotal press {box}
dump            1 all custom 100 {name}.dump id type element x y z
dump_modify     1 element {symbols}
run             ${{steps}}
write_data      {data}.{name}
"""
# By kind of run: what it is for, an example of a variable, more variables, precision, and what follows the beginning.
SCRIPTS = {
    "relax": (
        "Relaxes {what} of {data}.",
        "steps 1000",
        "variable        steps index 1000\n",
        # Minimizers compare energies that differ little.
        "double",
        """
{relaxed_box}thermo          10
thermo_style    custom step pe fmax press {box}
min_style       cg
minimize        0.0 1.0e-3 ${{steps}} 10000
write_data      {data}.{name}
""",
    ),
    "nvt": (
        "Molecular dynamics of {data} at constant volume and temperature.",
        "temperature 600",
        MOLECULAR_DYNAMICS,
        "mixed",
        """
velocity        all create ${{temperature}} 4928459 mom yes rot no dist gaussian
fix             1 all nvt temp ${{temperature}} ${{temperature}} 0.1
"""
        + RUN,
    ),
    "npt": (
        "Molecular dynamics of {data} at constant pressure and temperature.",
        "temperature 600",
        MOLECULAR_DYNAMICS + "variable        pressure index {pressure:g}\n",
        "mixed",
        """
velocity        all create ${{temperature}} 4928459 mom yes rot no dist gaussian
fix             1 all npt temp ${{temperature}} ${{temperature}} 0.1 {freedom} ${{pressure}} ${{pressure}} 1.0
"""
        + RUN,
    ),
}


@dataclass
class Job:
    """What was written, for people and programs."""

    data: str
    atoms: int
    types: dict  # chemical symbol by atom type, from 1 on
    boundary: str
    pair_coeff: str
    script: str = None
    notes: tuple = ()


def _box(atoms):
    """The structure in a box of LAMMPS whose vectors are as little skewed as LAMMPS wants them."""
    box = lammps_runner.lammps_box(atoms)  # of a right-handed cell
    cell, periodic = box.cell.copy(), box.periodic
    for i, j in ((1, 0), (2, 1), (2, 0)):
        if periodic[i] and periodic[j]:
            cell[i] -= np.round(cell[i, j] / cell[j, j]) * cell[j]
    return lammps_runner.lammps_box(Atoms(positions=box.positions, cell=cell, pbc=periodic))


def _structure(path):
    """(Atoms, notes) of the last structure in a file."""
    frames = structures.read_files([path])
    name, atoms = frames[-1]
    notes = [f"{path} holds {len(frames)} structures: this is the last one"] if len(frames) > 1 else []
    occupancy = atoms.info.get("occupancy") or {}
    for site in occupancy.values():
        if len(site) > 1 or any(part < 1.0 for part in site.values()):
            raise EquiError(f"{name}: a site is occupied by {site} on average: make a supercell with whole atoms first")
    if "X" in atoms.get_chemical_symbols():
        raise EquiError(f"{name}: an atom is of no chemical element")
    if not len(atoms):
        raise EquiError(f"{name} holds no atoms")
    if atoms.constraints:
        notes.append("fixed atoms are not fixed in a data file: use fix setforce on a group")
    return atoms, notes


def _order(atoms, order):
    """Chemical symbols by atom type: as given, else by first appearance, as in a POSCAR."""
    found = list(dict.fromkeys(atoms.get_chemical_symbols()))
    if order is None:
        return found
    unknown = [symbol for symbol in order if symbol not in atomic_numbers or symbol == "X"]
    if unknown or len(set(order)) < len(order):
        raise EquiError(f"--order: expected chemical symbols, each once, found {' '.join(order)}")
    missing = [symbol for symbol in found if symbol not in order]
    if missing:
        raise EquiError(f"--order: {', '.join(missing)} of the structure is missing")
    return order


def _document(name, symbols, atoms):
    """The document of the model; what the structure has must be what the model holds for."""
    document, _ = equi_file.read(equi_file.find(name))
    unknown = [symbol for symbol in symbols if symbol not in document["elements"]]
    if unknown:
        raise EquiError(f"{name} does not know {', '.join(unknown)}")
    if not structures.fits(document, atoms):
        raise EquiError(f"{name} holds for the composition {formula(document['composition'])} alone, the structure is {atoms.get_chemical_formula()}")
    return document


def _system(document, task, charge, spin):
    """The keywords of pair_style for a file for all systems."""
    if document is not None and "mixture" in document:
        return "".join(f" {word}" for word in keywords_of_system(document, task, charge, spin))
    if (task, charge, spin) != (None, None, None):
        raise EquiError("--task, --charge, --spin: only files for all systems take them, named with --model FILE.equi")
    return ""


def _name_in_script(name, folder):
    """The model as a script in `folder` names it."""
    if not Path(name).is_file():
        return Path(name).name  # found in LAMMPS_POTENTIALS, as the pair style will
    return name if os.path.isabs(name) else os.path.relpath(name, folder)


def _script(kind, job, model, system, triclinic, temperature, pressure):
    """The text of an input script."""
    periodic = [word == "p" for word in job.boundary.split()]
    if kind == "npt" and not all(periodic):
        raise EquiError("--run npt: the structure is not periodic in all directions: use nvt")
    freedom = "tri" if triclinic else "aniso"
    purpose, example, variables, precision, body = SCRIPTS[kind]
    symbols = " ".join(job.types.values())
    words = {
        "script": Path(job.script).name, "model": model, "system": system, "data": Path(job.data).name, "name": kind,
        "example": example, "boundary": job.boundary, "symbols": symbols, "precision": precision, "freedom": freedom,
        "temperature": temperature, "pressure": pressure, "timestep": "0.0005" if "H" in symbols.split() else "0.001",
        "box": "lx ly lz vol" if all(periodic) else "",
        "what": "atoms and cell" if all(periodic) else "the atoms",
        "relaxed_box": f"fix             1 all box/relax {freedom} 0.0 vmax 0.001 nreset 20\n" if all(periodic) else "",
    }  # fmt: skip
    words["purpose"], words["variables"] = purpose.format(**words), variables.format(**words)
    lines = (BEGINNING + body).format(**words).split("\n")
    return "\n".join(line.rstrip() for line in lines)


def make(source, output, supercell=(1, 1, 1), order=None, model=None, run=None, temperature=300.0, pressure=0.0, task=None,
         charge=None, spin=None):  # fmt: skip
    """Writes the data file, and the script in.RUN beside it if `run` names one of SCRIPTS; returns a Job. task, charge, spin: of a model
    that is one for all systems."""
    target = equi_file.check_output(output, [source, *([] if model is None else [equi_file.find(model)])])
    if run is not None and model is None:
        raise EquiError(f"--run {run}: name the model of the script with --model FILE.equi")
    if min(supercell) < 1:
        raise EquiError(f"--supercell: expected three positive numbers, found {' '.join(map(str, supercell))}")
    atoms, notes = _structure(source)
    symbols = _order(atoms, order)
    folder = Path(output).parent
    document = _document(model, symbols, atoms) if model is not None else None
    system = _system(document, task, charge, spin)
    chosen = _name_in_script(model, folder) if model is not None else "FILE.equi"
    # An empty cell has no vectors to repeat along.
    repeated = [n for n, p in zip(supercell, atoms.pbc) if n > 1 and not p]
    if repeated:
        raise EquiError("--supercell: the structure is not periodic in a direction that is to be repeated")
    atoms = atoms.repeat(supercell)
    box = _box(atoms)
    triclinic = bool(np.abs(box.cell[np.tril_indices(3, -1)]).max() > 1e-9 * np.abs(box.cell).max())
    job = Job(
        str(output), len(box.positions), dict(enumerate(symbols, 1)), " ".join("p" if p else "f" for p in box.periodic),
        f"pair_coeff * * {chosen} {' '.join(symbols)}", None if run is None else str(folder / f"in.{run}"), tuple(notes),
    )  # fmt: skip
    text = None if run is None else _script(run, job, chosen, system, triclinic, temperature, pressure)
    if text is not None:
        script = equi_file.check_output(job.script)
        if script == target:
            raise EquiError(f"cannot write {output}: the script has this name; choose another one")
        if script.exists() and script.read_text(errors="replace") != text:
            raise EquiError(f"{job.script} is there already and differs: move it away first")
    equi_file.replace(output, [lammps_runner.data_file(atoms, symbols, box, labels=True, triclinic=triclinic).encode()])
    if text is not None:
        equi_file.replace(job.script, [text.encode()])
    return job


def facts(job):
    return asdict(job)


def text(found):
    """The facts for people."""
    lines = [f"{found['data']}: {found['atoms']} atoms, types {' '.join(f'{n} {s}' for n, s in found['types'].items())}"]
    lines += [f"boundary {found['boundary']}", found["pair_coeff"]]
    if found["script"] is not None:
        lines.append(f"{found['script']}: run it in its folder with  lmp -in {Path(found['script']).name}")
    return "\n".join(lines + list(found["notes"]))
