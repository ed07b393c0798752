# SPDX-License-Identifier: MIT
"""Born charges: compute equi/born on ranks and for groups, and the second derivatives at long waves, which depend on
their direction.

The models are made by hand: one charge of each atom is linear in the last features of a model of the build, and has an
Ewald sum. unittest/model/test_born_charges.cpp compares Born charges with differences of charges.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from equi_tools import equi_file
from equi_tools.ase import EquiCalculator
from equi_tools.lammps_runner import lammps_box
from lammps_script import rock_salt
from system_sums import tall
from test_decomposition import sheared

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "phonons"))
import phonons  # noqa: E402

TOLERANCE = 1e-9  # e, of Born charges printed with 17 digits; sums in another order
MODEL = "plain"
PREFACTOR = 180.95


def with_charge(source, target, has_ewald=True, width=0.9):
    """Writes the model `source` with a charge of each atom, which is an observable, and an Ewald sum."""
    document, tensors = equi_file.read(source)[:2]
    tensors, layers = dict(tensors), document["layers"]
    last = next(layer for layer in reversed(layers) if layer["type"] == "readout")
    channels = int(last["irreps_in"].split("+")[last["block"]].split("x")[0])
    tensors["charges.weight"] = np.random.default_rng(5).normal(0, 2.0 / np.sqrt(channels), (channels, 1))
    block = {"in": last["block"], "out": 0, "weight": "charges.weight", "scale": 1.0}
    linear = {"type": "linear", "input": last["input"], "irreps_in": last["irreps_in"], "output": "latent", "irreps_out": "1x0e"}
    linear |= {"blocks": [block], "biases": [], "per_species": False, "accumulate": False}
    charge = {"type": "observable", "input": "latent", "irreps_in": "1x0e", "name": "charge", "blocks": [0], "unit": "e"}
    ewald = {"type": "ewald", "input": "latent", "irreps_in": "1x0e", "weights": "ewald.weights", "prefactor": PREFACTOR}
    ewald |= {"width": width, "k_cutoff": 3.1, "k_set": "converged", "removes_self": True}
    if has_ewald:
        tensors["ewald.weights"] = np.ones(1)
    place = next(n for n, layer in enumerate(layers) if layer["type"] == "scale_shift")
    document["layers"] = [*layers[:place], linear, charge, *([ewald] if has_ewald else []), *layers[place:]]
    document["self_check"] = []
    equi_file.write(target, document, tensors)
    return target


@pytest.fixture
def setup(lammps):
    """Commands that read a structure and a model with charges."""

    def commands(atoms, keywords="precision double", **options):
        symbols = sorted(set(atoms.get_chemical_symbols()))
        path = with_charge(lammps.model(MODEL), lammps.folder / "charges.equi", **options)
        return ["units metal", *lammps.write(atoms), f"pair_style equi {keywords}", f"pair_coeff * * {path.name} {' '.join(symbols)}"]

    return commands


BORN = [
    "compute z all equi/born",
    "thermo_style custom step pe " + " ".join(f"c_z[{k}]" for k in range(1, 11)),
    "dump z all custom 1 dump.born id " + " ".join(f"c_z[{k}]" for k in range(1, 10)),
    "dump_modify z sort id format float %.17g",
    "run 0",
    "print 'SUM " + " ".join(f"$(c_z[{k}]:%.17g)" for k in range(1, 11)) + "'",
]


def born_of(run):
    """[N, 3, 3] of the dump, their sum [3, 3], and the largest derivative of the total charge."""
    (sums,) = run.values("SUM")
    return run.dump("dump.born")[:, 1:].reshape(-1, 3, 3), sums[:9].reshape(3, 3), sums[9]


@pytest.mark.parametrize("atoms", [rock_salt((2, 1, 1)), sheared(), tall()], ids=["rock_salt", "sheared", "tall"])
def test_ranks_and_the_calculator_compute_the_same(lammps, setup, atoms):
    lines = [*setup(atoms), *BORN]
    runs = [born_of(lammps.run(lines, ranks=ranks)) for ranks in (1, 2, 3)]
    born, sums, largest = runs[0]
    assert np.abs(born).max() > 0.1 and largest > 1e-3
    for other in runs[1:]:
        assert np.abs(other[0] - born).max() < TOLERANCE
        assert np.abs(other[1] - sums).max() < TOLERANCE * len(atoms) and abs(other[2] - largest) < TOLERANCE
    assert np.abs(born.sum(0) - sums).max() < TOLERANCE * len(atoms)

    calculator = EquiCalculator(lammps.folder / "charges.equi")
    found, derivatives = calculator.born_charges(atoms)
    turn = lammps_box(atoms).rotation  # turns vectors of the atoms into those of LAMMPS
    assert np.abs(turn.T @ found @ turn - born).max() < 1e-8  # tables are used
    assert np.linalg.norm(derivatives, axis=1).max() == pytest.approx(largest, abs=1e-8)
    assert np.abs(calculator.born_charges(atoms, neutral=True)[0].sum(0)).max() < 1e-10


def test_precision_reference_and_committee(lammps, setup):
    atoms = rock_salt()
    born = born_of(lammps.run([*setup(atoms, "precision double radial exact"), *BORN]))[0]
    reference = born_of(lammps.run([*setup(atoms, "precision double radial exact reference yes"), *BORN]))[0]
    assert np.abs(reference - born).max() < TOLERANCE
    # Born charges are computed in double precision; only the tables differ.
    mixed = born_of(lammps.run([*setup(atoms, "precision mixed"), *BORN]))[0]
    assert np.abs(mixed - born).max() < 1e-5
    lines = setup(atoms, "precision double radial exact")
    lines[-1] = lines[-1].replace("charges.equi", "charges.equi charges.equi")
    assert np.abs(born_of(lammps.run([*lines, *BORN]))[0] - born).max() < TOLERANCE


def test_a_group_and_neutral_charges(lammps, setup):
    atoms = rock_salt()
    more = ["group some type 1", "compute part some equi/born neutral no", "compute zero all equi/born neutral yes",
            "thermo_style custom step c_part[1] c_zero[1] c_z[1]",
            "dump part all custom 1 dump.part id c_part[1] c_zero[1] c_zero[2] c_zero[3] c_zero[4] c_zero[5] c_zero[6] c_zero[7] c_zero[8] c_zero[9]",
            "dump_modify part sort id format float %.17g"]  # fmt: skip
    lines = [*setup(atoms), *BORN[:4], *more, BORN[4], "run 1", BORN[5], "print 'PART $(c_part[1]:%.17g) $(c_zero[1]:%.17g)'"]
    run = lammps.run(lines)
    born = run.frames("dump.born")[-1][:, 1:].reshape(-1, 3, 3)
    part = run.frames("dump.part")[-1]
    mine = np.array([type == min(atoms.get_chemical_symbols()) for type in atoms.get_chemical_symbols()])
    assert np.abs(part[:, 1] - np.where(mine, born[:, 0, 0], 0.0)).max() < TOLERANCE
    neutral = part[:, 2:].reshape(-1, 3, 3)
    assert np.abs(neutral.sum(0)).max() < TOLERANCE
    assert np.abs(neutral - (born - born.mean(0))).max() < TOLERANCE  # in a periodic box
    assert np.abs(run.values("PART")[0] - [born[mine, 0, 0].sum(), 0.0]).max() < TOLERANCE


@pytest.mark.parametrize(
    "words, reason",
    [
        ("compute z all equi/born neutral", "keyword neutral needs a value"),
        ("compute z all equi/born periodic yes", "unknown keyword periodic; known are neutral"),
        ("equi_dynamical_matrix all eskm 1 direction 1 0", "direction needs three numbers"),
        ("equi_dynamical_matrix all eskm 1 direction 0 0 0", "must not be 0 0 0"),
        ("equi_dynamical_matrix all eskm 1 wave 0", "known are direction, file, binary, fold, translations"),
    ],
)
def test_wrong_words_are_refused(lammps, setup, words, reason):
    run = lammps.try_run([*setup(rock_salt()), words, "run 0"])
    assert run.returncode != 0 and reason in run.output


def test_models_without_charges_are_refused(lammps, setup):
    atoms = rock_salt()
    plain = ["units metal", *lammps.write(atoms), *lammps.pair(MODEL, ["Cl", "Na"])]
    run = lammps.try_run([*plain, "compute z all equi/born", "thermo_style custom step c_z[1]", "run 0"])
    assert run.returncode != 0 and "no model of pair style equi has a charge or dipole" in run.output
    along = "equi_dynamical_matrix all eskm 1 direction 0 0 1"
    assert "has no Ewald sum" in lammps.try_run([*plain, along]).output
    lines = setup(atoms)
    lines[-1] = lines[-1].replace("charges.equi", "charges.equi charges.equi")
    assert "not a committee" in lammps.try_run([*lines, along]).output
    # Displaced atoms change the total charge, so there is no limit of long waves.
    run = lammps.run([*setup(atoms), along])
    assert any("the total charge changes" in line for line in run.warnings)


def test_long_waves_along_a_direction(lammps, setup):
    """The matrix at Gamma with a direction is the limit of matrices of waves, from longer and longer boxes."""
    crystal = rock_salt(amplitude=0.0)
    write = "write_dump all custom atoms.dump id type mass x y z modify sort id format float %.16g"

    def matrix_of(repeat, more=""):
        atoms = crystal * (1, 1, repeat)
        run = lammps.run([*setup(atoms), f"equi_dynamical_matrix all eskm 1 binary yes file all.dyn {more}", write])
        assert not any("total charge" in line for line in run.warnings)
        n = 3 * len(atoms)
        return np.fromfile(run.folder / "all.dyn").reshape(n, n), phonons.read_dump(run.folder / "atoms.dump")

    plain, (cell, _, masses, positions) = matrix_of(1)
    limit, _ = matrix_of(1, "direction 0 0 2.5")
    field = limit - plain
    assert np.abs(field).max() > 1e-2 * np.abs(plain).max()
    waves = []
    for repeat in (8, 16, 32):
        matrix, (long_cell, _, _, places) = matrix_of(repeat)
        q = 2 * np.pi / long_cell[2, 2]
        d = np.zeros((24, 24))
        home = [int(np.abs(places - p).sum(1).argmin()) for p in positions]
        for a, i in enumerate(home):
            for j, place in enumerate(places):
                b = int(np.abs(phonons_wrapped(place - positions, cell)).sum(1).argmin())
                d[3 * a : 3 * a + 3, 3 * b : 3 * b + 3] += matrix[3 * i : 3 * i + 3, 3 * j : 3 * j + 3] * np.cos(
                    q * (place[2] - places[i][2])
                )
        waves.append(d)
    # Errors fall with the square of the wave vector: eliminate them twice.
    once = [(4 * b - a) / 3 for a, b in zip(waves, waves[1:])]
    twice = (16 * once[1] - once[0]) / 15
    errors = [np.abs(d - limit).max() / np.abs(field).max() for d in (waves[-1], once[-1], twice)]
    print(f"largest component of the field {np.abs(field).max():.3g} 1/ps^2, errors {errors}")
    assert errors[0] < 0.1 and errors[2] < 1e-5

    # The longitudinal mode is the one that the field raises.
    calculator = phonons.Crystal(cell, masses, positions)
    run = lammps.run([*setup(crystal), *BORN])
    born, permittivity = phonons.read_born_charges(run.folder / "dump.born"), 4 * np.pi * phonons.COULOMB / PREFACTOR
    calculator.set_born_charges(born, masses, permittivity, neutral=False)
    near = calculator.frequencies(plain, [0, 0, phonons.NEAR_GAMMA])
    squares = np.linalg.eigvalsh((limit + limit.T) / 2) / (2 * np.pi) ** 2
    for square in np.sign(near) * near**2:  # the modes of the primitive cell are among those of the cubic one
        assert np.abs(squares - square).min() < 1e-5 * (near**2).max()  # LAMMPS has five digits of a unit
    assert np.abs(near - calculator.frequencies(plain, [0, 0, 0])).max() > 1e-3 * np.abs(near).max()
    # Waves that fit into the supercell have no field of long waves.
    edge = 2 * np.pi / cell[0, 0]
    at_edge = calculator.frequencies(plain, [edge, 0, 0])
    calculator.field = None
    assert np.abs(at_edge - calculator.frequencies(plain, [edge, 0, 0])).max() < 1e-9 * np.abs(near).max()


def phonons_wrapped(vectors, cell):
    fractions = np.linalg.solve(np.asarray(cell).T, vectors.T).T
    return (fractions - np.round(fractions)) @ cell


def test_the_script_draws_bands_with_the_field(lammps, setup, monkeypatch, capsys):
    atoms = rock_salt((2, 2, 1), amplitude=0.0)
    lines = [*setup(atoms), "equi_dynamical_matrix all eskm 1 binary yes file exact.dyn", *BORN,
             "write_dump all custom atoms.dump id type mass x y z modify sort id format float %.16g"]  # fmt: skip
    born = born_of(lammps.run(lines))[0]
    monkeypatch.chdir(lammps.folder)
    words = ["phonons.py", "exact.dyn", "--born", "dump.born", "--permittivity", "2.25", "--latent", "--phonopy", "files"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(phonons, "MESH", 2)
    phonons.main()
    assert 'born_filename="BORN"' in capsys.readouterr().out and (lammps.folder / "phonons.png").stat().st_size > 10000
    # Physical charges: 1.5 times the latent ones; those of the two atoms of the primitive cell sum to 0.
    lines = (lammps.folder / "files" / "BORN").read_text().splitlines()
    assert float(lines[0]) == pytest.approx(phonons.COULOMB, rel=1e-6)
    permittivity, *charges = (np.array(line.split(), float).reshape(3, 3) for line in lines[1:])
    assert np.array_equal(permittivity, 2.25 * np.eye(3)) and len(charges) == 2
    kinds = np.array(atoms.get_chemical_symbols()) == "Na"
    means = 1.5 * np.array([born[kinds].mean(0), born[~kinds].mean(0)])
    means -= means.mean(0)
    assert min(np.abs(charges - means[order]).max() for order in ([0, 1], [1, 0])) < 1e-7
