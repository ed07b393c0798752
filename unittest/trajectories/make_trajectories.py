# SPDX-License-Identifier: MIT
"""Makes the reference trajectories with the frameworks' own modules in float64 and ASE's velocity-Verlet.

    PYTHONPATH=tools .cache/venv/bin/python unittest/trajectories/make_trajectories.py nacl_melt quartz ...
    PYTHONPATH=tools .cache/venv-mace/bin/python unittest/trajectories/make_trajectories.py mace_salt ...

Each needs the environment of its framework.
"""

import argparse
import datetime
import platform
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
import torch
from ase import Atoms, units
from ase.build import add_adsorbate, bulk, fcc111, molecule
from ase.calculators.singlepoint import SinglePointCalculator
from ase.geometry import get_distances
from ase.md.verlet import VelocityVerlet
from ase.spacegroup import crystal
from equi_tools import frameworks
from equi_tools.frameworks.common.oracle import default_dtype
from equi_tools.lammps_runner import lammps_box

import random_models
from reference_trajectory import MVV2E, TIMESTEP, Trajectory

STEPS = 100
EVERY = 10
# Angstrom/ps in ASE's units, sqrt(eV/amu), and the time unit in which force, mass and step are those of LAMMPS.
VELOCITY = np.sqrt(MVV2E)
ASE_TIMESTEP = TIMESTEP / VELOCITY


def salt(oxygens=4, seed=1):
    """Rock salt with some oxygen and large displacements, in a sheared cell of 32 atoms."""
    rng = np.random.default_rng(seed)
    atoms = bulk("NaCl", "rocksalt", 5.7, cubic=True) * (2, 2, 1)
    atoms.symbols[rng.choice(np.flatnonzero(atoms.symbols == "Cl"), oxygens, replace=False)] = "O"
    atoms.set_cell(atoms.cell.array + np.array([[0, 0, 0], [2.9, 0, 0], [-1.6, 2.2, 0]]), scale_atoms=True)
    atoms.positions += 0.2 * rng.standard_normal((len(atoms), 3))
    return atoms


def small_cell():
    """Eight atoms in a cell that is smaller than the cutoff in one direction, and than twice the cutoff in all."""
    atoms = bulk("NaCl", "rocksalt", 5.6).repeat((2, 2, 1))
    atoms.positions += 0.15 * np.random.default_rng(2).standard_normal((len(atoms), 3))
    return atoms


def melt():
    atoms = bulk("NaCl", "rocksalt", 6.2, cubic=True) * (2, 2, 2)
    atoms.positions += 0.45 * np.random.default_rng(3).standard_normal((len(atoms), 3))
    return atoms


def quartz():
    """Hot quartz in which aluminum, with sodium next to it, replaces one silicon of twelve: four elements, a hexagonal
    cell."""
    atoms = crystal(
        ["Si", "O"], [(0.4697, 0, 2 / 3), (0.4135, 0.2669, 0.7857)], spacegroup=154,
        cellpar=[4.913, 4.913, 5.405, 90, 90, 120],
    ) * (2, 2, 1)  # fmt: skip
    atoms.symbols[int(np.flatnonzero(atoms.symbols == "Si")[3])] = "Al"
    # The middle of the wide channel along c.
    atoms += Atoms("Na", positions=[atoms.cell.array.T @ [0.5, 0.5, 0.1]])
    atoms.positions += 0.05 * np.random.default_rng(4).standard_normal((len(atoms), 3))
    return atoms


def ethanol():
    """Molecules at random places and angles, none closer than 2 Angstrom to another."""
    rng = np.random.default_rng(5)
    atoms = Atoms(cell=[9.2, 8.8, 9.0], pbc=True)
    while len(atoms) < 45:
        part = molecule("CH3CH2OH")
        part.rotate(rng.uniform(0, 360), rng.standard_normal(3), center="COM")
        part.positions += rng.uniform(0, 1, 3) @ atoms.cell.array - part.get_center_of_mass()
        if len(atoms) == 0 or get_distances(part.positions, atoms.positions, atoms.cell, atoms.pbc)[1].min() > 2.0:
            atoms += part
    return atoms


def alloy():
    """Four metals at random on an fcc lattice with a vacancy."""
    rng = np.random.default_rng(6)
    atoms = bulk("Cu", "fcc", 3.85, cubic=True) * (3, 2, 2)
    atoms.symbols = rng.permutation(np.array(["Cu", "Ni", "Pd", "Au"]).repeat(12))
    del atoms[17]
    atoms.positions += 0.1 * rng.standard_normal((len(atoms), 3))
    return atoms


def surface():
    """Carbon monoxide and water on copper; periodic along the surface only."""
    atoms = fcc111("Cu", (3, 3, 3), vacuum=8.0)
    carbon_monoxide, water = molecule("CO"), molecule("H2O")
    carbon_monoxide.rotate(20, "x")
    add_adsorbate(atoms, carbon_monoxide, 1.85, "ontop", offset=(0, 0), mol_index=1)
    add_adsorbate(atoms, water, 2.4, "ontop", offset=(1, 1))
    atoms.pbc = [True, True, False]
    atoms.positions += 0.05 * np.random.default_rng(7).standard_normal((len(atoms), 3))
    return atoms


@dataclass(frozen=True)
class Recipe:
    model: str  # a name that a framework knows, or the file of a random model in this folder, without .xz
    structure: object  # makes the atoms
    temperature: float  # of the velocities, K
    seed: int  # of the velocities
    before: int = 0  # steps at twice this temperature before the first stored one


SEVENNET = "7net-0"
RECIPES = {
    "nacl_melt": Recipe(SEVENNET, melt, 2000, 11, before=150),
    "quartz": Recipe(SEVENNET, quartz, 1500, 12),
    "ethanol": Recipe(SEVENNET, ethanol, 400, 13),
    "alloy": Recipe(SEVENNET, alloy, 1500, 14),
    "surface": Recipe(SEVENNET, surface, 600, 15),
    "mace_salt": Recipe("mace.model", salt, 600, 16),
    "mace_nonlinear_salt": Recipe("mace_nonlinear.model", lambda: salt(7, 9), 600, 17),
    "mace_small_cell": Recipe("mace.model", small_cell, 600, 18),
    "nequip_salt": Recipe("nequip.ckpt", salt, 1200, 19),
    "nequip_cutoffs_salt": Recipe("nequip_cutoffs.ckpt", lambda: salt(7, 9), 1200, 20),
    "nequip_small_cell": Recipe("nequip.ckpt", small_cell, 900, 21),
}

def in_frame_of_lammps(atoms):
    box = lammps_box(atoms)
    return Atoms(atoms.get_chemical_symbols(), positions=box.positions, cell=box.cell, pbc=box.periodic)


def run(atoms, calculator, temperature, rng, steps):
    """Frames of velocity-Verlet with new velocities, every EVERY steps; each has its energy, forces and stress."""
    atoms = atoms.copy()
    atoms.calc = calculator
    masses = atoms.get_masses()[:, None]
    velocities = rng.standard_normal((len(atoms), 3)) * np.sqrt(units.kB * temperature / masses)
    atoms.set_velocities(velocities - (masses * velocities).sum(axis=0) / masses.sum())
    dynamics, frames = VelocityVerlet(atoms, ASE_TIMESTEP), []

    def store():
        frames.append(atoms.copy())
        results = dict(energy=atoms.get_potential_energy(), forces=atoms.get_forces(), stress=atoms.get_stress())
        frames[-1].calc = SinglePointCalculator(frames[-1], **{key: np.copy(value) for key, value in results.items()})

    dynamics.attach(store, interval=EVERY)
    dynamics.run(steps)
    return frames


def difference_in_float32(atoms, expected, framework, source):
    """Largest force difference from the framework's calculator as its users run it; this shows that the modules are
    the same."""
    atoms = atoms.copy()
    atoms.calc = framework.framework_calculator(source)
    return float(np.abs(atoms.get_forces() - expected).max())


def make(name):
    recipe = RECIPES[name]
    # SevenNet-0 is float32: its modules are converted to float64. The random models are float64 and run as users run
    # them.
    own = recipe.model != SEVENNET
    with ExitStack() as stack:
        source = stack.enter_context(random_models.unpacked(recipe.model)) if own else recipe.model
        framework = frameworks.require(source)
        checkpoint = framework.load(source)
        calculator = framework.framework_calculator(source) if own else framework.float64_calculator(checkpoint)
        if own:
            # Constants of mace's pair repulsion have this dtype, not the model's.
            stack.enter_context(default_dtype(torch.float64))
        atoms = in_frame_of_lammps(recipe.structure())
        rng = np.random.default_rng(recipe.seed)
        if recipe.before:
            atoms = in_frame_of_lammps(run(atoms, calculator, 2 * recipe.temperature, rng, recipe.before)[-1])
        frames = run(atoms, calculator, recipe.temperature, rng, STEPS)
        checked = {}
        if not own:
            checked["force_difference_in_float32"] = difference_in_float32(atoms, frames[0].get_forces(), framework, source)
            assert checked["force_difference_in_float32"] < 1e-3
    return Trajectory(
        symbols=np.array(atoms.get_chemical_symbols()),
        masses=atoms.get_masses(),
        cell=atoms.cell.array,
        pbc=atoms.pbc,
        steps=np.arange(0, STEPS + 1, EVERY),
        positions=np.array([a.positions for a in frames]),
        velocities=np.array([a.get_velocities() / VELOCITY for a in frames]),
        forces=np.array([a.get_forces() for a in frames]),
        energies=np.array([a.get_potential_energy() for a in frames]),
        stresses=np.array([a.get_stress() for a in frames]),
        made={
            "model": recipe.model,
            "sha256": checkpoint.sha256,
            "calculator": f"{type(calculator).__module__}.{type(calculator).__name__}, float64",
            "versions": {p: version(p) for p in (framework.requirement, "torch", "e3nn", "ase", "numpy")}
            | {"python": platform.python_version()},
            "date": datetime.date.today().isoformat(),
            "command": f"make_trajectories.py {name}",
            "timestep": f"{TIMESTEP} ps, with {MVV2E} eV per amu (Angstrom/ps)^2",
            "temperature": f"{recipe.temperature} K",
            **checked,
        },
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=RECIPES, metavar="NAME", help=", ".join(RECIPES))
    args = parser.parse_args()
    for name in args.names:
        trajectory = make(name)
        trajectory.save(name)
        forces, moved = trajectory.forces, trajectory.positions[-1] - trajectory.positions[0]
        print(
            f"{name}: {len(trajectory.symbols)} atoms, forces up to {np.abs(forces).max():.1f} eV/Angstrom, "
            f"moved by up to {np.abs(moved).max():.2f} Angstrom",
            flush=True,
        )


if __name__ == "__main__":
    main()
