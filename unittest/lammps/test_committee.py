# SPDX-License-Identifier: MIT
"""Several model files in pair_coeff: means and deviations against single runs, among ranks, and through LAMMPS's fixes."""

from pathlib import Path

import numpy as np
import pytest
from lammps_script import KEYWORDS, rock_salt
from test_decomposition import corner, oxide, sheared

ROOT = Path(__file__).resolve().parents[2]
# Relative to the largest number of its kind.
MEAN_TOLERANCE = 1e-12
RANK_TOLERANCE = 1e-11
PRODUCT_TOLERANCE = 1e-9  # second derivatives, with radial tables of 1e-10

# The members of a committee; models of one cutoff and one set of harmonics share their edges.
COMMITTEES = {
    "mace_and_nequip": (["potentials/nacl-mace", "potentials/nacl-nequip"], rock_salt()),
    "shared_edges": (["mace/plain", "matgl/bessel", "plain"], oxide()),
    "shared_pair_cutoffs": (["nequip/cutoffs", "nequip/plain", "nequip/cutoffs"], rock_salt()),
    "other_cutoff": (["sevennet-0", "nequip/basis"], rock_salt()),
}

VARIABLES = [
    "variable u atom sin(1.1*id+0.2)",
    "variable v atom cos(0.7*id)",
    "variable w atom sin(2.3*id+1.0)",
    "compute hvp all equi/hvp v_u v_v v_w",
    "compute energies all pe/atom",
    "compute stress all centroid/stress/atom NULL virial",
    "compute virial all pressure NULL virial",
    "thermo_style custom step pe c_virial[*]",
    "dump all all custom 1 dump.all id fx fy fz c_energies c_stress[*] c_hvp[*]",
    "dump_modify all sort id format float %.17g",
]
DEVIATIONS = [
    "compute deviation all equi/deviation",
    "fix deviation all pair 1 equi force_deviation 1",
    "dump deviation all custom 1 dump.deviation id c_deviation f_deviation",
    "dump_modify deviation sort id format float %.17g",
    "thermo_style custom step pe c_virial[*] c_deviation[*]",
]
RUN = ["run 0", 'print "RESULT $(pe:%.17g) ' + " ".join(f"$(c_virial[{k}]:%.17g)" for k in range(1, 7)) + '"']
SUMMARY = ['print "DEVIATION ' + " ".join(f"$(c_deviation[{k}]:%.17g)" for k in range(1, 5)) + '"']


def model_path(lammps, name):
    return ROOT / f"{name}.equi" if name.startswith("potentials/") else lammps.model(name)


def setup(lammps, names, atoms, keywords="precision double", files=None):
    symbols = sorted(set(atoms.get_chemical_symbols()))
    files = files or [model_path(lammps, name) for name in names]
    quoted = " ".join(f'"{file}"' for file in files)
    return ["units metal", *lammps.write(atoms), " ".join(["pair_style equi", keywords, *KEYWORDS]),
            f"pair_coeff * * {quoted} {' '.join(symbols)}"]  # fmt: skip


def evaluate(lammps, name, atoms):
    """The results of one model: energy and virial; forces, energies, stresses and products by atom."""
    run = lammps.run([*setup(lammps, [name], atoms), *VARIABLES, *RUN])
    return run.values("RESULT")[0], run.dump("dump.all")[:, 1:]


@pytest.mark.parametrize("name", COMMITTEES)
def test_the_committee_is_the_mean_of_its_members(lammps, name):
    names, atoms = COMMITTEES[name]
    singles = [evaluate(lammps, member, atoms) for member in names]
    run = lammps.run([*setup(lammps, names, atoms), *VARIABLES, *DEVIATIONS, *RUN, *SUMMARY])
    numbers, by_atom = run.values("RESULT")[0], run.dump("dump.all")[:, 1:]
    expected = np.mean([single[0] for single in singles], 0)
    assert np.abs(numbers - expected).max() <= MEAN_TOLERANCE * np.abs(expected).max()
    expected = np.mean([single[1] for single in singles], 0)
    for columns, tolerance in [(slice(0, 3), MEAN_TOLERANCE), (slice(3, 4), MEAN_TOLERANCE), (slice(4, 13), MEAN_TOLERANCE),
                               (slice(13, 16), PRODUCT_TOLERANCE)]:  # fmt: skip
        assert np.abs(by_atom[:, columns] - expected[:, columns]).max() <= tolerance * np.abs(expected[:, columns]).max()

    forces = np.array([single[1][:, :3] for single in singles])
    deviation = np.sqrt(((forces - forces.mean(0)) ** 2).sum(2).mean(0))
    assert deviation.max() > 1e-3
    found = run.dump("dump.deviation")[:, 1:]
    assert np.abs(found - deviation[:, None]).max() <= 1e-10 * deviation.max()
    energies = np.std([single[0][0] for single in singles]) / len(atoms)
    (summary,) = run.values("DEVIATION")
    assert summary == pytest.approx([deviation.max(), deviation.mean(), deviation.min(), energies], rel=1e-9)


@pytest.mark.parametrize("atoms, newton", [(rock_salt(), "on"), (corner(), "on"), (sheared(), "off")],
                         ids=["crystal", "empty_ranks", "newton_off"])  # fmt: skip
def test_ranks_agree(lammps, atoms, newton):
    names = ["plain", "mace/plain", "sevennet-0"]

    def run(ranks):
        done = lammps.run([f"newton {newton}", *setup(lammps, names, atoms), *VARIABLES, *DEVIATIONS, *RUN, *SUMMARY], ranks=ranks)
        return done.values("RESULT")[0], done.dump("dump.all")[:, 1:4], done.dump("dump.deviation")[:, 1:], done.values("DEVIATION")[0]

    one = run(1)
    for ranks in (2, 4):
        for a, b in zip(run(ranks), one):
            assert np.abs(a - b).max() <= RANK_TOLERANCE * np.abs(b).max(), ranks


def test_a_member_that_is_named_twice_deviates_by_nothing(lammps):
    run = lammps.run([*setup(lammps, ["potentials/nacl-mace"] * 2, rock_salt()), *VARIABLES, *DEVIATIONS, *RUN, *SUMMARY])
    assert (run.dump("dump.deviation")[:, 1:] == 0.0).all() and (run.values("DEVIATION") == 0.0).all()


def test_a_run_stops_where_the_members_disagree(lammps):
    lines = [
        *setup(lammps, ["potentials/nacl-mace", "potentials/nacl-nequip"], rock_salt((2, 2, 2)), ""),
        "compute deviation all equi/deviation",
        "variable worst equal c_deviation[1]",
        "velocity all create 6000 1 loop geom",
        "fix nve all nve",
        "fix stop all halt 1 v_worst > 1.0 error continue",
        "thermo 1",
        "thermo_style custom step temp pe v_worst",
        "run 500",
        'print "STOPPED $(step) $(v_worst)"',
    ]
    step, worst = lammps.run(lines, ranks=2).values("STOPPED")[0]
    assert 0 < step < 500 and worst > 1.0


def test_forces_of_the_committee_pass_the_check(lammps):
    run = lammps.run([*setup(lammps, *COMMITTEES["mace_and_nequip"], "precision double check yes"), "run 0"])
    assert run.output.count("force check: 4 components") == 1


def test_types_without_an_element_have_no_deviation(lammps):
    atoms = rock_salt((2, 1, 1))
    lines = setup(lammps, ["potentials/nacl-mace", "potentials/nacl-nequip"], atoms)
    lines[-2:] = [
        "pair_style hybrid/overlay equi precision double lj/cut 3.0",
        lines[-1].replace("pair_coeff * *", "pair_coeff * * equi").replace("Cl Na", "NULL Na"),
        "pair_coeff * * lj/cut 0.01 2.0",
    ]
    run = lammps.run([*lines, "compute virial all pressure NULL virial", *DEVIATIONS, "run 0"])
    deviation = run.dump("dump.deviation")[:, 1:]
    chlorine = np.array(atoms.get_chemical_symbols()) == "Cl"
    assert (deviation[chlorine] == 0.0).all() and (deviation[~chlorine] > 0.0).all()


@pytest.mark.parametrize("names, symbols, words", [
    (["sevennet-0", "potentials/nacl-mace"], "O O", "nacl-mace.equi does not know element O"),
    (["sevennet-0", "sevennet-0"], "Na", "names 1 elements for 2 atom types"),
])  # fmt: skip
def test_refusals_name_the_model(lammps, names, symbols, words):
    lines = setup(lammps, names, rock_salt())
    lines[-1] = lines[-1].removesuffix("Cl Na") + symbols
    run = lammps.try_run([*lines, "run 0"])
    assert run.returncode != 0 and words in run.output


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("change, is_refused", [
    ("create_atoms 1 random 500 77 NULL", True),
    ("delete_atoms group some compress no", True),
    ("velocity all create 300 1", False),
])  # fmt: skip
def test_deviations_of_other_atoms_than_those_of_the_forces_are_refused(lammps, change, is_refused, ranks):
    names, atoms = COMMITTEES["mace_and_nequip"]
    lines = [
        *setup(lammps, names, atoms), *DEVIATIONS[:1], "group some id 1 3", "run 0", change,
        "write_dump all custom dump.now id c_deviation",
    ]  # fmt: skip
    run = lammps.try_run(lines, ranks=ranks)
    assert (run.returncode != 0) == is_refused
    assert ("atoms have changed since forces were last computed" in run.output) == is_refused


def test_deviations_of_a_single_model_are_refused(lammps):
    lines = setup(lammps, ["potentials/nacl-mace"], rock_salt())
    run = lammps.try_run([*lines, "compute deviation all equi/deviation", "thermo_style custom step c_deviation[1]", "run 0"])
    assert run.returncode != 0 and "need several model files in pair_coeff" in run.output
    run = lammps.try_run([*lines, "fix deviation all pair 1 equi force_deviation 1", "run 0"])
    assert run.returncode != 0 and "force_deviation" in run.output
