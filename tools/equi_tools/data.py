# SPDX-License-Identifier: MIT
"""`equi data`: converts a structure of any format that ASE reads to a LAMMPS data file with an input script."""

import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.data import covalent_radii

from . import equi_file, lammps_runner, masses, structures
from .compare import keywords_of_system
from .errors import EquiError
from .lammps_runner import AtomType
from .printable import formula

# Masses of one element that differ by less are one type. Tables of masses differ by less, isotopes by more.
SAME_TYPE = 1e-3
# Fraction of the sum of the covalent radii. Bonds are longer; the pair style checks the first structure likewise.
LEAST_DISTANCE = 0.6
RATTLE_SEED = 20261128
# The beginning of all scripts. Half a femtosecond resolves bonds of hydrogen.
BEGINNING = """\
# {purpose}
#
#   lmp -in {script}
#
# Made by equi data. Variables are set on the command line, for example -var {example}.

variable        model index {model_value}
variable        data index {data_value}
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
thermo_style    custom step temp pe etotal econserve press {box}
dump            1 all custom 100 {name}.dump id type element x y z
dump_modify     1 element {symbols}
run             ${{steps}}
write_data      {written}
"""
# Before the dynamics, if it is asked for.
RELAXATION = """\
{relaxed_box}minimize        0.0 1.0e-2 1000 10000
{unfix}reset_timestep  0

"""
# By kind of run: its purpose, an example of a variable, more variables, precision, and the text after the beginning.
SCRIPTS = {
    "relax": (
        "Relaxes {what} of {data}.",
        "steps 1000",
        "variable        steps index 1000\n",
        # Minimizers compare energies that differ by little.
        "double",
        """
{box_relax}thermo          10
thermo_style    custom step pe fmax press {box}
min_style       cg
minimize        0.0 1.0e-3 ${{steps}} 10000
write_data      {written}
""",
    ),
    "nvt": (
        "Molecular dynamics of {data} at constant volume and temperature.",
        "temperature 600",
        MOLECULAR_DYNAMICS,
        "mixed",
        """
{relaxation}velocity        all create ${{temperature}} 4928459 mom yes rot no dist gaussian
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
{relaxation}velocity        all create ${{temperature}} 4928459 mom yes rot no dist gaussian
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
    labels: dict  # type label by atom type: the symbol, or that of an isotope
    masses: dict  # u, by atom type
    boundary: str
    pair_coeff: str
    script: str = None
    notes: tuple = ()


def _box(atoms):
    """The structure in a box of LAMMPS whose vectors are as little skewed as LAMMPS requires."""
    box = lammps_runner.lammps_box(atoms)  # the box of a right-handed cell
    cell, periodic = box.cell.copy(), box.periodic
    for i, j in ((1, 0), (2, 1), (2, 0)):
        if periodic[i] and periodic[j]:
            cell[i] -= np.round(cell[i, j] / cell[j, j]) * cell[j]
    return lammps_runner.lammps_box(Atoms(positions=box.positions, cell=cell, pbc=periodic))


def _structure(path, symbols, cell=None):
    """(Atoms, notes) of the last structure in a file. cell: three lengths, and perhaps three angles, of a periodic cell
    in place of that of the file."""
    _, atoms, count = structures.read_last(path, symbols)
    notes = [f"{path} holds {count} structures: this is the last one"] if count > 1 else []
    notes += [atoms.info["note"]] if "note" in atoms.info else []
    if cell is not None:
        try:
            atoms.set_cell(cell)
        except AssertionError:
            raise EquiError(f"--cell: no cell has these angles: {' '.join(f'{angle:g}' for angle in cell[3:])}") from None
        atoms.pbc = True
        structures.check("the structure in this cell", atoms)
    if not atoms.pbc.any():
        dropped = "the cell of the file is dropped" if atoms.cell.rank == 3 else "the file has no cell"
        notes.append(f"{dropped}: no direction is periodic, and the atoms are surrounded by vacuum; --cell gives them a periodic cell")
    if atoms.constraints:
        notes.append("fixed atoms are not fixed in a data file: use fix setforce on a group")
    radii = covalent_radii[atoms.numbers]
    first, second, distances = structures.near_pairs(atoms, 2 * LEAST_DISTANCE * radii.max())
    ratios = distances / (radii[first] + radii[second])
    if ratios.min(initial=1.0) < LEAST_DISTANCE:
        n = np.argmin(ratios)
        i, j = sorted((first[n], second[n]))
        notes.append(f"atoms {i + 1} ({atoms.symbols[i]}) and {j + 1} ({atoms.symbols[j]}) are only {distances[n]:.3g} Angstrom apart")
    return atoms, notes


def _found_types(atoms):
    """(AtomTypes, index of each atom's type): one for each element and mass, by first appearance."""
    types, indices = [], np.empty(len(atoms), int)
    found = {}
    for n, (symbol, mass) in enumerate(zip(atoms.get_chemical_symbols(), atoms.get_masses().tolist())):
        if (symbol, mass) not in found:
            same = [k for k, kind in enumerate(types) if kind.symbol == symbol and abs(kind.mass - mass) <= SAME_TYPE * kind.mass]
            found[symbol, mass] = same[0] if same else len(types)
            if not same:
                label, used = masses.isotope_name(mass, symbol), [kind.label for kind in types]
                suffixes = [label, *(f"{label}_{k}" for k in range(2, len(types) + 2))]
                types.append(AtomType(symbol, mass, next(name for name in suffixes if name not in used)))
        indices[n] = found[symbol, mass]
    return types, indices


def _types(atoms, order):
    """(AtomTypes, type of each atom from 1 on): in the order of given elements or labels, or else by first appearance,
    as in a POSCAR. Elements that the structure lacks have types, too."""
    found, indices = _found_types(atoms)
    if order is None:
        return found, indices + 1
    labels = [kind.label for kind in found]
    unknown = [name for name in order if name not in labels and masses.species(name) is None]
    if unknown or len(set(order)) < len(order):
        raise EquiError(f"--order: expected chemical symbols, each once, found {' '.join(order)}")
    chosen = []
    for name in order:
        of_element = [kind for kind in found if kind.symbol == name and (kind.label == name or kind.label not in order)]
        absent = [AtomType(*masses.species(name), name)] if name not in labels and not of_element else []
        chosen += of_element or [kind for kind in found if kind.label == name] or absent
    missing = [kind.label for kind in found if kind not in chosen]
    if missing:
        raise EquiError(f"--order: {', '.join(missing)} of the structure is missing")
    return chosen, np.array([chosen.index(kind) + 1 for kind in found])[indices]


def _document(name, symbols, atoms):
    """The document of the model; refuses a structure that the model does not hold for."""
    document, _ = equi_file.read(equi_file.find(name))
    unknown = [symbol for symbol in symbols if symbol not in document["elements"]]
    if unknown:
        raise EquiError(f"{name} does not know {', '.join(unknown)}")
    if not structures.fits(document, atoms):
        raise EquiError(
            f"{name} holds for the composition {formula(document['composition'])} alone, the structure is "
            f"{atoms.get_chemical_formula()}"
        )
    return document


def _system(document, task, charge, spin, inputs):
    """The keywords of pair_style for a file for all systems."""
    if document is not None and "mixture" in document:
        return "".join(f" {word}" for word in keywords_of_system(document, task, charge, spin, inputs))
    if (task, charge, spin, inputs) != (None, None, None, None):
        raise EquiError("--task, --charge, --spin, --system: only files for all systems accept them, named with --model FILE.equi")
    return ""


def _name_in_script(name, folder):
    """The model by the name that a script in `folder` uses."""
    if not Path(name).is_file():
        return Path(name).name  # found in LAMMPS_POTENTIALS, also by the pair style
    return name if os.path.isabs(name) else os.path.relpath(name, folder)


def _in_script(name):
    """A file's name as LAMMPS reads it in a command: in quotes if it has a space or another special character."""
    if set(name) & set("\"'\n"):
        raise EquiError(f"{name}: LAMMPS cannot read a name with quotes: rename the file")
    return name if re.fullmatch(r"[^\s$&#*?]+", name) else f'"{name}"'


def _value(name):
    """The same as the value of a variable, which loses its outer quotes."""
    word = _in_script(name)
    return f"'{word}'" if word.startswith('"') else f'"{word}"'


def _script(kind, job, model, system, triclinic, temperature, pressure, relaxed):
    """The text of an input script. relaxed: whether it relaxes the structure before the dynamics."""
    periodic = [word == "p" for word in job.boundary.split()]
    if kind == "npt" and not all(periodic):
        raise EquiError("--run npt: the structure is not periodic in all directions: use nvt")
    freedom = "tri" if triclinic else "aniso"
    purpose, example, variables, precision, body = SCRIPTS[kind]
    symbols = " ".join(job.types.values())
    words = {
        "script": Path(job.script).name, "data": Path(job.data).name, "model_value": _value(model), "system": system, "name": kind,
        "data_value": _value(Path(job.data).name), "written": _in_script(f"{Path(job.data).name}.{kind}"),
        "example": example, "boundary": job.boundary, "symbols": symbols, "precision": precision, "freedom": freedom,
        "temperature": temperature, "pressure": pressure, "timestep": "0.0005" if "H" in symbols.split() else "0.001",
        "box": "lx ly lz vol density" if all(periodic) else "",
        "what": "atoms and cell" if all(periodic) else "the atoms",
        "box_relax": f"fix             1 all box/relax {freedom} 0.0 vmax 0.001 nreset 20\n" if all(periodic) else "",
    }  # fmt: skip
    box = words["box_relax"] if kind == "npt" else ""
    words["relaxation"] = RELAXATION.format(relaxed_box=box, unfix="unfix           1\n" if box else "") if relaxed else ""
    words["purpose"], words["variables"] = purpose.format(**words), variables.format(**words)
    lines = (BEGINNING + body).format(**words).split("\n")
    return "\n".join(line.rstrip() for line in lines)


def make(source, output, supercell=(1, 1, 1), order=None, model=None, run=None, temperature=300.0, pressure=0.0, task=None,
         charge=None, spin=None, elements=None, cell=None, rattle=0.0, relaxed=False, force=False,
         system=None):  # fmt: skip
    """Writes the data file, and next to it the script in.RUN if `run` names one of SCRIPTS; returns a Job. task,
    charge, spin, system (numbers by name): for a model that is one for all systems. elements: those of the atom types
    of a LAMMPS file that is read. cell: three lengths in Angstrom, and perhaps three angles in degrees, of a periodic
    cell. rattle: standard deviation of random displacements in Angstrom. relaxed: the script relaxes the structure
    before the dynamics. force: overwrites another script."""
    target = equi_file.check_output(output, [source, *([] if model is None else [equi_file.find(model)])])
    if run is not None and model is None:
        raise EquiError(f"--run {run}: name the model of the script with --model FILE.equi")
    if relaxed and run not in ("nvt", "npt"):
        raise EquiError("--relaxed: only scripts of dynamics relax the structure before: add --run nvt or --run npt")
    if cell is not None and (len(cell) not in (3, 6) or min(cell) <= 0):
        raise EquiError(f"--cell: expected three lengths in Angstrom, and perhaps three angles, found {' '.join(f'{x:g}' for x in cell)}")
    if min(supercell) < 1:
        raise EquiError(f"--supercell: expected three positive numbers, found {' '.join(map(str, supercell))}")
    atoms, notes = _structure(source, elements, cell)
    types, numbers = _types(atoms, order)
    symbols = [kind.symbol for kind in types]
    folder = Path(output).parent
    document = _document(model, symbols, atoms) if model is not None else None
    system = _system(document, task, charge, spin, system)
    chosen = _name_in_script(model, folder) if model is not None else "FILE.equi"
    # An empty cell has no vectors to repeat along.
    repeated = [n for n, p in zip(supercell, atoms.pbc) if n > 1 and not p]
    if repeated:
        raise EquiError("--supercell: the structure is not periodic in a direction that is to be repeated")
    atoms, numbers = atoms.repeat(supercell), np.tile(numbers, np.prod(supercell))
    if rattle:
        atoms.positions += rattle * np.random.default_rng(RATTLE_SEED).standard_normal((len(atoms), 3))
    box = _box(atoms)
    triclinic = bool(np.abs(box.cell[np.tril_indices(3, -1)]).max() > 1e-9 * np.abs(box.cell).max())
    job = Job(
        str(output), len(box.positions), *(
            {n: getattr(kind, name) for n, kind in enumerate(types, 1)} for name in ("symbol", "label", "mass")
        ), lammps_runner.boundary(box.periodic),
        f"pair_coeff * * {_in_script(chosen)} {' '.join(symbols)}", None if run is None else str(folder / f"in.{run}"), tuple(notes),
    )  # fmt: skip
    text = None if run is None else _script(run, job, chosen, system, triclinic, temperature, pressure, relaxed)
    if text is not None:
        script = equi_file.check_output(job.script)
        if script == target:
            raise EquiError(f"cannot write {output}: the script has this name; choose another one")
        if not force and script.exists() and script.read_text(errors="replace") != text:
            raise EquiError(f"{job.script} exists already and differs: move it away first, or overwrite it with --force")
    equi_file.replace(output, [lammps_runner.data_file(numbers, types, box, labels=True, triclinic=triclinic).encode()])
    if text is not None:
        equi_file.replace(job.script, [text.encode()])
    return job


def facts(job):
    return asdict(job)


def text(found):
    """The facts for people."""
    types = [f"{n} {symbol}" for n, symbol in found["types"].items()]
    kept = [
        f"{n} {found['labels'][n]} {mass:g}" for n, mass in found["masses"].items()
        if not masses.is_standard(mass, found["types"][n], SAME_TYPE)
    ]  # fmt: skip
    lines = [f"{found['data']}: {found['atoms']} atoms, types {' '.join(types)}"]
    if kept:
        lines.append(f"masses of the file are kept: {', '.join(kept)}")
    lines += [f"boundary {found['boundary']}", found["pair_coeff"]]
    if found["script"] is not None:
        lines.append(f"{found['script']}: run it in its folder with  lmp -in {Path(found['script']).name}")
    return "\n".join(lines + list(found["notes"]))
