# SPDX-License-Identifier: MIT
"""The keyword forces of pair_style equi, with a file to which forces of a feature are added: comparisons with the
reference and among ranks, and refusals of what direct forces do not support."""

import numpy as np
import pytest
from equi_tools import document as document_rules
from equi_tools import equi_file
from lammps_script import FORCE_DUMP, rock_salt

ATOMS = rock_salt((2, 1, 1))
SCALE = 50.0  # makes forces of about 1 eV/Angstrom
# Sums in another order in float64, relative to the largest force.
TOLERANCE = 1e-11
NO_PRESSURE = "thermo_style custom step temp pe ke etotal"


def with_direct_forces(source, target):
    """Writes the model of a file with added forces: the vectors of the last feature with vectors, mixed by random
    numbers."""
    document, tensors = equi_file.read(source)
    document.pop("data_hash")
    found = [(layer["output"], layer["irreps_out"]) for layer in document["layers"]
             if layer["type"] == "gate" and 1 in document_rules.degrees(layer["irreps_out"])]  # fmt: skip
    name, irreps = found[-1]
    block = document_rules.degrees(irreps).index(1)
    irrep = irreps.split("+")[block].split("x")[1]
    mul = int(irreps.split("+")[block].split("x")[0])
    tensors = {**tensors, "direct": np.random.default_rng(3).standard_normal((mul, 1))}
    added = [
        {"type": "linear", "input": name, "irreps_in": irreps, "output": "force", "irreps_out": f"1x{irrep}", "biases": [], "per_species": False,
         "accumulate": False, "blocks": [{"in": block, "out": 0, "weight": "direct", "scale": 1.0}]},
        {"type": "direct_forces", "input": "force", "irreps_in": f"1x{irrep}", "block": 0, "scale": SCALE},
    ]  # fmt: skip
    last = [layer["type"] for layer in document["layers"]].index("scale_shift")
    document["layers"][last:last] = added
    equi_file.write(target, document, tensors)
    return target


@pytest.fixture
def script(lammps):
    """script(keywords, model): the commands that read a structure and set the pair style."""
    file = with_direct_forces(lammps.model("lmax3"), lammps.folder / "direct.equi")

    def lines(keywords, model=file):
        pair = lammps.pair("lmax3", ["Cl", "Na"], keywords)
        return ["units metal", *lammps.write(ATOMS), pair[0], f'pair_coeff * * "{model}" Cl Na']

    return lines


def results(lammps, lines, **options):
    """(energy, forces, output)"""
    run = lammps.run([*lines, NO_PRESSURE, *FORCE_DUMP, "run 0", 'print "ENERGY $(pe:%.17g)"'], **options)
    return run.values("ENERGY")[0, 0], run.dump("dump.forces")[:, 1:], run.output


def test_derivatives_of_the_energy_are_those_of_a_file_without_direct_forces(lammps, script):
    energy, forces, output = results(lammps, script("precision double"))
    expected = results(lammps, script("precision double", lammps.model("lmax3")))
    assert energy == expected[0] and (forces == expected[1]).all()
    assert "has direct ones, too (keyword forces)" in output and "keyword forces" not in expected[2]


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_direct_forces_are_those_of_the_reference(lammps, script, ranks):
    energy, forces, output = results(lammps, script("precision double radial exact forces direct"), ranks=ranks)
    expected = results(lammps, script("precision double radial exact forces direct reference yes"))
    derivative = results(lammps, script("precision double radial exact"))
    largest = np.abs(expected[1]).max()
    assert largest > 0.1 and np.abs(expected[1] - derivative[1]).max() > 0.1
    assert np.abs(forces - expected[1]).max() < TOLERANCE * largest
    assert abs(energy - derivative[0]) < TOLERANCE * abs(energy) and abs(expected[0] - energy) < TOLERANCE * abs(energy)
    assert "with forces direct the forces are no derivatives of the energy" in output


@pytest.mark.parametrize("keywords", ["forces direct deterministic yes", "forces direct newton"])
def test_other_ways_give_the_same(lammps, script, keywords):
    lines = script("precision double radial exact " + keywords.removesuffix(" newton"))
    if keywords.endswith("newton"):
        lines.insert(1, "newton off")
    _, forces, _ = results(lammps, lines, ranks=2)
    _, expected, _ = results(lammps, script("precision double radial exact forces direct"))
    assert np.abs(forces - expected).max() < TOLERANCE * np.abs(expected).max()


def test_the_last_pair_style_says_which_forces(lammps, script):
    *before, pair_style, pair_coeff = script("precision double forces direct")
    lines = [*before, "pair_style equi precision double", pair_coeff, pair_style]
    assert (results(lammps, lines)[1] == results(lammps, script("precision double forces direct"))[1]).all()


def test_a_committee_has_the_mean(lammps, script):
    lines = script("precision double forces direct")
    _, expected, _ = results(lammps, lines)
    lines[-1] = lines[-1].replace(' "', ' "direct.equi" "', 1)
    _, forces, _ = results(lammps, lines)
    assert np.abs(forces - expected).max() < TOLERANCE * np.abs(expected).max()


def test_runs_and_minimizations_work_and_are_checked(lammps, script):
    lines = [*script("forces direct check yes"), NO_PRESSURE, "velocity all create 300 4", "fix 1 all nvt temp 300 300 0.1", "thermo 5", "run 10",
             "unfix 1", "minimize 0 1e-3 5 20"]  # fmt: skip
    output = lammps.run(lines).output
    assert "force check: not of direct forces" in output and "difference quotient" not in output


PRESSURES = {
    "default columns": ["run 0"],
    "column": ["thermo_style custom step pe pxy", "run 0"],
    "enthalpy": ["thermo_style custom step enthalpy", "run 0"],
    "barostat": [NO_PRESSURE, "fix 1 all npt temp 300 300 0.1 iso 0 0 1", "run 0"],
    "relaxation of the box": [NO_PRESSURE, "fix 1 all box/relax iso 0", "minimize 0 1e-3 1 2"],
    "compute": [NO_PRESSURE, "compute p all pressure NULL virial", "run 0"],
    "stress of atoms": [NO_PRESSURE, "compute s all stress/atom NULL", "run 0"],
}


@pytest.mark.parametrize("case", PRESSURES)
def test_what_asks_for_a_pressure_is_refused(lammps, script, case):
    run = lammps.try_run([*script("forces direct"), *PRESSURES[case]], ranks=2)
    assert run.returncode != 0 and len(run.errors) == 1
    assert "with direct forces there is no virial" in run.output and "has no pressure" in run.output


def test_a_pressure_that_nobody_announced_is_no_number(lammps, script):
    lines = [*script("forces direct"), NO_PRESSURE, "variable p equal c_thermo_press", "run 0", 'print "PRESSURE ${p}"']
    assert np.isnan(lammps.run(lines).values("PRESSURE")).all()


DERIVATIVES = {
    "matrix": "equi_dynamical_matrix all regular 1e-6 file matrix",
    "product": "compute h all equi/hvp v_u v_u v_u",
    "heat flux": "compute h all equi/heat/flux",
}


@pytest.mark.parametrize("case", DERIVATIVES)
def test_there_are_no_derivatives(lammps, script, case):
    run = lammps.try_run([*script("forces direct"), NO_PRESSURE, "variable u atom 1.0", DERIVATIVES[case], "run 0"])
    assert run.returncode != 0 and "direct forces" in run.output


@pytest.mark.parametrize(
    "keywords, text",
    [("forces", "keyword forces needs a value: energy or direct"), ("forces both", "keyword forces must be energy or direct, not both")],
)
def test_bad_values_are_refused(lammps, script, keywords, text):
    assert text in lammps.try_run(script(keywords)).output


def test_a_file_without_direct_forces_is_refused(lammps, script):
    run = lammps.try_run(script("forces direct", lammps.model("lmax3")), ranks=2)
    assert run.returncode != 0 and "expected a layer direct_forces" in run.output
