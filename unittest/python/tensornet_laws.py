# SPDX-License-Identifier: MIT
"""What the tests of matgl, torchmd-net and fairchem share: structures that are difficult for an evaluation, and
comparisons with LAMMPS."""

import os
import subprocess
import sys

import numpy as np
from ase import Atoms
from ase.build import bulk, fcc100
from equi_evaluator import EquiEvaluator
from equi_tools import compare, equi_file, self_check

# Differences, as compare.difference returns them, for precision mixed. The features are float32.
MIXED_ENERGY = 1e-6
MIXED_FORCE = 1e-5
# One rank and several, in float64: sums are in another order.
RANKS = 1e-12
# The stress and the derivative of the energy by a strain, by central differences of fourth order.
STRAIN = 1e-7


def _rattled(atoms, seed, amplitude=0.1):
    atoms.positions += amplitude * np.random.default_rng(seed).standard_normal((len(atoms), 3))
    return atoms


def structures(elements, cutoff):
    """(name, Atoms): cells smaller than the cutoff, sheared ones, a slab, a wire, close and isolated atoms; of
    `elements`."""
    a, b, c = self_check.pick_elements(elements, 3)
    rocksalt = bulk("NaCl", "rocksalt", 5.3, cubic=True)
    rocksalt.symbols = [a, b] * 4
    sheared = rocksalt.copy()
    sheared.set_cell(sheared.cell.array + np.array([[0, 0, 0], [2.6, 0, 0], [-2.2, 3.1, 0]]), scale_atoms=True)
    vectors = [[2.1, 2.0, 0.1], [0.1, 2.2, 2.1], [2.0, 0, 2.3]]
    primitive = Atoms([a, b], cell=vectors, scaled_positions=[[0, 0, 0], [0.52, 0.47, 0.5]], pbc=True)
    left_handed = primitive.copy()
    left_handed.set_cell(primitive.cell.array[[1, 0, 2]])
    slab = fcc100("Cu", (2, 2, 3), a=4.1, vacuum=5.0)
    slab.symbols = [a, b, c] * 4
    slab.pbc = [True, True, False]
    wire = Atoms([a, b, b], positions=[[0, 0, 0], [1.6, 0.2, 0], [3.1, -0.2, 0.3]], cell=[5.0, 0, 0], pbc=[True, False, False])
    cluster = Atoms([a, b, c, a, b], positions=[[0, 0, 0], [1.9, 0.1, 0], [0.2, 2.0, 0.1], [0.1, 0.3, 2.1], [2.0, 1.9, 1.8]])
    lonely = Atoms([a, b, c], positions=[[0, 0, 0], [2.0, 0.3, 0.1], [30, 0, 0]])
    return [
        ("rocksalt", _rattled(rocksalt, 1)),
        ("sheared", _rattled(sheared, 2)),
        ("primitive", primitive),
        ("left_handed", left_handed),
        ("one_atom_cell", Atoms([a], cell=[[2.9, 0, 0], [0.4, 3.0, 0], [0, 0.5, 3.1]], pbc=True)),
        ("slab", _rattled(slab, 3)),
        ("wire", wire),
        ("cluster", cluster),
        ("dimer_0.8", Atoms([a, b], positions=[[0, 0, 0], [0.4, 0.5, np.sqrt(0.64 - 0.41)]])),
        ("near_cutoff", Atoms([a, b], positions=[[0, 0, 0], [0.97 * cutoff, 0.1, 0]])),
        ("isolated", Atoms([b], positions=[[0.3, 0.2, 0.1]])),
        ("one_of_three_lonely", lonely),
    ]


def native(path, precision="double", radial=None, ranks=0, keywords=()):
    return compare.Native(str(path), precision, radial, keywords, ranks, os.environ["EQUI_BUILD_DIR"])


def differences(path, calculator, named, precision="double", radial=None, keywords=()):
    """compare.Difference of LAMMPS from an ASE calculator for each structure. keywords: further ones of pair_style
    equi."""
    run, bars, found = native(path, precision, radial, keywords=keywords), compare.bars_for(precision, radial), []
    for name, atoms in self_check.oriented(equi_file.read(path)[0], named):
        result = run(atoms)
        atoms = atoms.copy()
        atoms.calc = calculator
        stress = atoms.get_stress() if atoms.cell.volume > 1e-3 else None
        found.append(compare.difference(name, result, atoms.get_potential_energy(), atoms.get_forces(), stress, bars))
    return found


def worst(found):
    """Largest differences of energy, force and stress."""
    return [max(getattr(d, key) or 0.0 for d in found) for key in ("energy", "force", "stress")]


def assert_within_bars(found):
    missed = [(d.name, d.missed(), d.energy, d.force, d.stress) for d in found if d.missed()]
    assert not missed, missed


def assert_mixed(found, energies_in_mean_square=False):
    """Checks each difference against its bar; on request, for energies, instead their mean square over the
    structures."""
    if energies_in_mean_square:
        assert np.mean([d.energy**2 for d in found]) <= MIXED_ENERGY**2, [(d.name, d.energy) for d in found]
    for d in found:
        assert energies_in_mean_square or d.energy <= MIXED_ENERGY, d
        assert d.force <= MIXED_FORCE and (d.stress is None or d.stress <= MIXED_FORCE), d


def strain_error(path, atoms, step=2e-3):
    """Largest difference of the stress from the derivative of the energy by strains, over the largest component of the stress."""
    run = native(path, radial="exact")
    stress = run(atoms).stress
    numeric = np.zeros(6)
    for k, (i, j) in enumerate([(0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)]):
        for factor, weight in ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12)):
            strain = np.eye(3)
            strain[i, j] += factor * step / 2
            strain[j, i] += factor * step / 2
            deformed = atoms.copy()
            deformed.set_cell(atoms.cell.array @ strain, scale_atoms=True)
            numeric[k] += weight / step * run(deformed).energy / atoms.cell.volume
    assert np.abs(stress).max() > 1e-3, "the structure does not test the stress"
    return np.abs(stress - numeric).max() / np.abs(stress).max()


def rank_error(path, atoms, ranks, radial=None):
    """Largest difference between one and several ranks of energy per atom and force, forces relative where they exceed one."""
    one, several = (native(path, radial=radial, ranks=n)(atoms) for n in (1, ranks))
    scale = max(1.0, np.abs(one.forces).max())
    return max(abs(one.energy - several.energy) / len(atoms), np.abs(one.forces - several.forces).max() / scale)


def assert_every_number_matters(path, folder, noticed, may_be_zero=(), atoms=None):
    """Checks that a second reader notices a change of about 1e-3 in any tensor: energy or forces change by more than
    `noticed`. Numbers of a tensor change by different factors, because a norm hides a common one. Tensors of zeros are
    skipped, except those named in may_be_zero. atoms: used instead of a structure of the self-check."""
    evaluator = EquiEvaluator(path)
    document, tensors = evaluator.document, {key: t.numpy() for key, t in evaluator.tensors.items()}
    if atoms is None:
        entry = document["self_check"][1]
        atoms = Atoms(entry["symbols"], entry["positions"], cell=entry["cell"], pbc=entry["pbc"])
    cell = atoms.cell.array if atoms.pbc.any() else None

    def forces(file):
        energy, values, _, _ = EquiEvaluator(file).evaluate(atoms.get_chemical_symbols(), atoms.positions, cell, atoms.pbc)
        return np.concatenate([[energy], values.reshape(-1)])

    expected = forces(path)
    for changed in tensors:
        t = tensors[changed]
        spoiled = {**tensors, changed: t * (1.001 + 5e-4 * np.cos(np.arange(t.size)).reshape(t.shape))}
        equi_file.write(folder / "spoiled.equi", document, spoiled)
        if changed in may_be_zero or np.any(t):
            assert np.abs(forces(folder / "spoiled.equi") - expected).max() > noticed, changed


def assert_born_charges_are_differences(calculator, cluster, atom=1, step=1e-3):
    """Checks the Born charges of an atom of a cluster with a fixed total charge by differences of the dipole. calculator:
    an EquiCalculator with exact radial functions."""
    born, of_charge = calculator.born_charges(cluster)

    def dipole(axis, length):
        moved = cluster.copy()
        moved.positions[atom, axis] += length
        return calculator.get_property("charges", moved) @ moved.positions

    for axis in range(3):
        p, m, pp, mm = (dipole(axis, n * step) for n in (1, -1, 2, -2))
        expected = (8 * (p - m) - (pp - mm)) / (12 * step)
        assert np.abs(born[atom, :, axis] - expected).max() < 1e-7 * max(1.0, np.abs(expected).max())
    assert np.abs(born[atom]).max() > 1e-3 and np.abs(of_charge).max() < 1e-9


def assert_compare_agrees(source, path, atoms, folder, capsys):
    """Runs `equi compare` on a structure."""
    from ase.io import write
    from equi_tools.cli import main

    write(folder / "atoms.xyz", atoms)
    words = ["compare", str(path), str(source), str(folder / "atoms.xyz"), "--precision", "double", "--radial", "exact"]
    assert main(words) == 0, capsys.readouterr()


def assert_reads_without(modules, framework, sources, least_layers, **options):
    """A process that has none of these modules converts each file. framework: its name in `frameworks`; options: of its load()."""
    script = (
        "import sys\n"
        f"for name in {tuple(modules)!r}: sys.modules[name] = None\n"
        "from equi_tools import frameworks\n"
        f"for source in {[str(source) for source in sources]!r}:\n"
        f"    checkpoint = frameworks.{framework}.load(source, **{options!r})\n"
        f"    print(len(frameworks.{framework}.convert(checkpoint)[0]['layers']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    numbers = [int(line) for line in done.stdout.split()]
    assert len(numbers) == len(sources) and min(numbers) > least_layers, numbers
