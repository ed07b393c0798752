# SPDX-License-Identifier: MIT
"""Atoms that come, go and change their types, boxes that change, replicas: whatever a run does to a system, a fresh
LAMMPS on one rank that reads its last state finds the same energy, pressure and forces.

If the random numbers of a command do not depend on the ranks, the whole run is also compared with that of one rank.
"""

import re

import numpy as np
import pytest
from ase.build import bulk
from lammps_script import FORCE_DUMP, rock_salt

# Sums are in another order.
SAME = 1e-11
# Rounding grows with the motion of the atoms.
SAME_AFTER_MOTION = 1e-8
SYMBOLS = ["Cl", "Na"]
SHOW = [f'print "STATE $(pe:%.17g) {" ".join(f"$({p}:%.17g)" for p in ("pxx", "pyy", "pzz", "pxy", "pxz", "pyz"))} $(atoms)"']
THERMO = ["thermo_style custom step atoms pe pxx pyy pzz pxy pxz pyz", "thermo_modify lost error", "compute_modify thermo_temp dynamic/dof yes"]


def start(lammps, atoms, keywords="precision double"):
    return ["units metal", *lammps.write(atoms, SYMBOLS), *lammps.pair("plain", SYMBOLS, keywords), *THERMO]


def state(run):
    """The last line that SHOW printed: (energy, pressures, number of atoms)."""
    *numbers, atoms = run.values("STATE")[-1]
    return numbers[0], np.array(numbers[1:]), int(atoms)


def fresh(lammps, data, box="p p p"):
    """The run of a LAMMPS that has read only the data file."""
    lines = ["units metal", "atom_style atomic", f"boundary {box}", "atom_modify map yes", f"read_data {data}", "neighbor 1.0 bin"]
    lines += [*lammps.pair("plain", SYMBOLS), *THERMO, FORCE_DUMP[0].replace("dump.forces", "dump.fresh"), FORCE_DUMP[1], "run 0", *SHOW]
    return lammps.run(lines)


# The state after the last step: nothing is set up again before it is written. The data file is written last, because
# it moves atoms between ranks without their forces.
WRITE = [*SHOW, "write_dump all custom dump.after id fx fy fz modify sort id format float %.17g", "write_data after.data nocoeff"]


def assert_is_fresh(lammps, run, box="p p p"):
    again = fresh(lammps, "after.data", box)
    (energy, pressure, atoms), (fresh_energy, fresh_pressure, fresh_atoms) = state(run), state(again)
    forces, fresh_forces = run.dump("dump.after"), again.dump("dump.fresh")
    assert atoms == fresh_atoms == len(forces)
    assert energy == pytest.approx(fresh_energy, rel=SAME)
    if "s" not in box:  # a shrink-wrapped box is fitted again when it is written
        assert np.abs(pressure - fresh_pressure).max() <= SAME * np.abs(fresh_pressure).max()
    assert np.array_equal(forces[:, 0], fresh_forces[:, 0])
    assert np.abs(forces - fresh_forces).max() <= SAME * np.abs(fresh_forces[:, 1:]).max()


def vacuum(atoms, thickness=9.0):
    """The crystal with empty space above it."""
    atoms = atoms.copy()
    atoms.set_cell(np.diag(atoms.cell.lengths() + [0.0, 0.0, thickness]))
    return atoms


MOVE = ["velocity all create 900 5 loop geom", "fix move all nve", "neigh_modify every 1 delay 0 check yes"]


# ---- the number of atoms ----


@pytest.mark.parametrize("ranks, moves", [(1, 20), (3, 0)])
def test_grand_canonical_monte_carlo(lammps, ranks, moves):
    """Insertions, deletions and translations by the energy of the whole system. On several ranks LAMMPS cannot combine
    the last two: it deletes atoms by their number on a rank, which a translation may change."""
    lines = [*start(lammps, rock_salt((1, 1, 2))), *MOVE, "group chlorine type 1"]
    lines += [f"fix swap chlorine gcmc 2 40 {moves} 1 4711 60000 -70.0 0.3 full_energy overlap_cutoff 0.7", "run 10"]
    lines += ['print "MOVES $(f_swap[2]) $(f_swap[4]) $(f_swap[6])"', *WRITE]
    run = lammps.run(lines, ranks=ranks)
    translations, insertions, deletions = run.values("MOVES")[0]
    assert (translations > 0) == (moves > 0) and insertions > 0 and deletions > 0
    assert_is_fresh(lammps, run)


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_trial_deletion_is_the_energy_without_the_atom(lammps, ranks):
    """Below some chemical potential, about E(N) - E(N-1), deletions are accepted, and above it they are not. The
    energy of the isolated atom does not contribute, because the atom stays in its place while LAMMPS decides."""
    atoms = rock_salt((1, 1, 2))
    chlorine = atoms.get_chemical_symbols().index("Cl")
    without, alone = atoms.copy(), atoms[[chlorine]]
    del without[chlorine]
    energies = [state(lammps.run([*start(lammps, part), "run 0", *SHOW]))[0] for part in (atoms, without, alone)]
    potential, step = energies[0] - energies[1], 0.25 * abs(energies[2])
    assert step > 0.1
    lines = [*start(lammps, atoms), *MOVE[2:], "group chlorine type 1"]
    for shift in (-step, step):
        gcmc = f"fix swap chlorine gcmc 1 20 0 1 4711 300 {potential + shift:.17g} 0.3 full_energy overlap_cutoff 2.5"
        run = lammps.run([*lines, gcmc, "run 1", 'print "MOVES $(f_swap[4]) $(f_swap[5]) $(f_swap[6])"', *WRITE], ranks=ranks)
        insertions, attempts, deletions = run.values("MOVES")[0]
        assert insertions == 0 and attempts > 0
        assert (deletions > 0) == (shift < 0)
        assert state(run)[2] == len(atoms) - deletions
        assert_is_fresh(lammps, run)


def test_a_trial_deletion_of_a_molecule_is_the_energy_without_it(lammps):
    """Two molecules that are far apart. With the energy of one as intra_energy, deletions are accepted only below a
    chemical potential of zero, and insertions above it."""
    (lammps.folder / "pair.mol").write_text("# NaCl\n\n2 atoms\n\nCoords\n\n1 0 0 0\n2 2.4 0 0\n\nTypes\n\n1 1\n2 2\n")
    box = ["units metal", "atom_style molecular", "atom_modify map yes", "region box block 0 16 0 16 0 16", "create_box 2 box"]
    box += ["mass 1 35.45", "mass 2 22.98977", "molecule pair pair.mol"]
    one = [*box, "create_atoms 0 single 4 4 4 mol pair 1 rotate 0 0 0 1 units box"]
    two = [*one, "create_atoms 0 single 4 12 12 mol pair 2 rotate 0 0 0 1 units box"]
    potential = [*lammps.pair("plain", SYMBOLS, "precision double"), *THERMO]
    energy = state(lammps.run([*one, *potential, "run 0", *SHOW]))[0]
    assert energy < -4.0
    for mu in (-1.5, 1.5):
        gcmc = f"fix swap gas gcmc 1 20 0 0 4711 300 {mu} 0.3 mol pair full_energy intra_energy {energy:.17g} overlap_cutoff 1.0 group gas"
        lines = [*two, *potential, "group gas molecule 1 2", gcmc, "run 1", 'print "MOVES $(f_swap[4]) $(f_swap[5]) $(f_swap[6])"']
        insertions, attempts, deletions = lammps.run(lines).values("MOVES")[0]
        assert attempts > 0 and (deletions > 0) == (mu < 0) and (insertions > 0) == (mu > 0)


@pytest.mark.parametrize("ranks", [1, 3])
def test_insertions_by_widom_leave_the_system_alone(lammps, ranks):
    lines = [*start(lammps, rock_salt((1, 1, 2))), "fix insert all widom 1 10 1 4711 60000 full_energy"]
    lines += ["run 3", 'print "WIDOM $(f_insert[1]:%.17g) $(f_insert[2]:%.17g)"', *WRITE]
    one = lammps.run(lines).values("WIDOM")[0]
    run = lammps.run(lines, ranks=ranks)
    assert run.values("WIDOM")[0] == pytest.approx(one, rel=SAME_AFTER_MOTION)
    assert run.values("WIDOM")[0, 1] > 0
    assert state(run)[2] == 16
    assert_is_fresh(lammps, run)


@pytest.mark.parametrize("ranks", [2, 3])
def test_deposition_equals_that_of_one_rank(lammps, ranks):
    lines = [*start(lammps, vacuum(rock_salt())), *MOVE, "region above block 0.1 5.5 0.1 5.5 10 13"]
    lines += ["fix rain all deposit 4 1 3 1234 region above near 1.6 vz -20 -20", "run 15", *WRITE]
    one = lammps.run(lines)
    first = state(one)
    run = lammps.run(lines, ranks=ranks)
    assert state(run)[2] == first[2] == 12
    assert state(run)[0] == pytest.approx(first[0], rel=SAME_AFTER_MOTION)
    assert_is_fresh(lammps, run)


@pytest.mark.parametrize("ranks", [1, 3])
def test_evaporation(lammps, ranks):
    lines = [*start(lammps, rock_salt((1, 1, 2))), *MOVE, "region all block INF INF INF INF INF INF"]
    run = lammps.run([*lines, "fix dry all evaporate 3 2 all 49892", "run 15", *WRITE], ranks=ranks)
    assert state(run)[2] < 16
    assert_is_fresh(lammps, run)


@pytest.mark.parametrize("ranks", [1, 2])
def test_all_atoms_leave_and_others_come(lammps, ranks):
    """A system that is empty for a while."""
    lines = [*start(lammps, rock_salt()), *MOVE, "run 2", "delete_atoms group all compress no", "run 2", *SHOW]
    lines += ["create_atoms 1 single 1.0 1.1 1.2", "create_atoms 2 single 3.0 1.3 1.4", "velocity all create 300 7 loop geom", "run 5", *WRITE]
    run = lammps.run(lines, ranks=ranks)
    assert [row[-1] for row in run.values("STATE")] == [0, 2]
    assert_is_fresh(lammps, run)


@pytest.mark.parametrize("ranks", [1, 3])
def test_types_that_are_swapped(lammps, ranks):
    lines = [*start(lammps, rock_salt((1, 1, 2))), *MOVE, "fix swap all atom/swap 2 5 1234 60000 ke no types 1 2", "run 10"]
    run = lammps.run([*lines, 'print "SWAPS $(f_swap[2])"', *WRITE], ranks=ranks)
    assert run.values("SWAPS")[0, 0] > 0
    assert_is_fresh(lammps, run)


# ---- the box ----

BOXES = {
    "high_pressure": ["fix move all npt temp 600 600 0.05 tri 1 400000 0.05"],
    "volume_that_grows": ["fix move all nve", "fix box all deform 1 x scale 1.3 y scale 1.3 z scale 1.3 remap x"],
    "shear_with_flips": ["fix move all nve", "fix box all deform 1 xy erate 20 remap x flip yes"],
    "box_that_follows_atoms": ["fix move all nvt temp 600 600 0.05"],
}


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("name", BOXES)
def test_boxes_that_change(lammps, name, ranks):
    lines = start(lammps, rock_salt((2, 2, 1) if ranks > 1 else (1, 1, 1)))
    box = "p p s" if name == "box_that_follows_atoms" else "p p p"
    lines = [f"boundary {box}" if line.startswith("boundary") else line for line in lines]
    tilted = ["change_box all triclinic"] if name in ("high_pressure", "shear_with_flips") else []
    lines += [*tilted, "velocity all create 900 5 loop geom", "neigh_modify every 1 delay 0 check yes", *BOXES[name], "run 60"]
    if "fix box" in BOXES[name][-1]:  # it changes the box after the forces of a step, and this step is the last
        lines += ["unfix box", "run 1"]
    assert_is_fresh(lammps, lammps.run([*lines, *WRITE], ranks=ranks), box)


@pytest.mark.parametrize("ranks", [1, 3])
def test_replicas_of_a_cell_have_its_energy(lammps, ranks):
    lines = [*start(lammps, rock_salt()), "run 0", *SHOW, "change_box all triclinic", "replicate 2 1 2", "run 0", *WRITE]
    run = lammps.run(lines, ranks=ranks)
    (cell, *_), (cells, *_) = run.values("STATE")
    assert cells == pytest.approx(4 * cell, rel=SAME)
    assert_is_fresh(lammps, run)


BALANCES = {
    "brick": ["fix even all balance 5 1.0 shift xyz 10 1.01"],
    "tiled": ["comm_style tiled", "fix even all balance 5 1.0 rcb"],
    "weights": ["comm_style tiled", "fix even all balance 5 1.0 rcb weight neigh 0.8", "balance 1.0 rcb weight group 1 all 1.0"],
}


@pytest.mark.parametrize("name", BALANCES)
def test_ranks_that_are_balanced_leave_the_run_alone(lammps, name):
    """Half of the box is empty, and hot atoms spread into it."""
    atoms = vacuum(rock_salt((1, 1, 2)), thickness=12.0)
    lines = [*start(lammps, atoms), *MOVE, "velocity all create 4000 5 loop geom"]
    end = ["run 30", *WRITE]
    one = state(lammps.run([*lines, *end]))
    run = lammps.run([*lines, *BALANCES[name], *end], ranks=4)
    assert state(run)[0] == pytest.approx(one[0], rel=SAME_AFTER_MOTION)
    assert_is_fresh(lammps, run)


# ---- steps ----


@pytest.mark.parametrize("ranks", [1, 2])
def test_respa_makes_the_steps_of_verlet(lammps, ranks):
    """No force acts in the inner steps, so positions change as in one outer step."""
    lines = [*start(lammps, rock_salt((1, 1, 2))), *MOVE]
    verlet = state(lammps.run([*lines, "run 20", *SHOW], ranks=ranks))
    respa = state(lammps.run([*lines, "run_style respa 2 2 bond 1 pair 2", "run 20", *SHOW], ranks=ranks))
    assert respa[0] == pytest.approx(verlet[0], rel=SAME_AFTER_MOTION)


@pytest.mark.parametrize("fix", ["temp/csvr 900 900 0.1 77", "temp/berendsen 900 900 0.1"])
def test_thermostats_on_three_ranks(lammps, fix):
    run = lammps.run([*start(lammps, rock_salt((1, 1, 2))), *MOVE, f"fix heat all {fix}", "run 20", *WRITE], ranks=3)
    assert_is_fresh(lammps, run)


# ---- replicas ----


def partition_energies(run):
    """{data file: energy} written by the partitions."""
    found = {}
    for path in sorted(run.folder.glob("energy.*")):
        found[f"after.{path.suffix[1:]}"] = float(path.read_text().split()[1])
    return found


@pytest.mark.parametrize("ranks,partition", [(3, "3x1"), (6, "3x2")])
def test_elastic_bands_end_in_states_of_the_model(lammps, ranks, partition):
    begin = start(lammps, rock_salt())
    lines = ["variable u uloop 3", *begin, "fix band all neb 1.0", "timestep 0.001"]
    lines += ["min_style quickmin", "neb 0.0 1e-4 10 5 5 final final.coords", "write_data after.$u nocoeff"]
    lines += ['print "ENERGY $(pe:%.17g)" file energy.$u']
    (lammps.folder / "final.coords").write_text("1\n1 0.9 0.8 0.7\n")
    run = lammps.try_run(lines, ranks=ranks, arguments=("-partition", partition))
    assert run.returncode == 0, run.output[-3000:]
    energies = partition_energies(run)
    assert len(energies) == 3 and len({round(e, 6) for e in energies.values()}) == 3
    for name, energy in energies.items():
        assert state(fresh(lammps, name))[0] == pytest.approx(energy, rel=SAME)


@pytest.mark.parametrize("ranks,partition", [(2, "2x1"), (4, "2x2")])
def test_tempering_exchanges_temperatures_alone(lammps, ranks, partition):
    begin = start(lammps, rock_salt())
    lines = ["variable u uloop 2", "variable t world 900 5000", *begin, "velocity all create $t 5 loop geom", "fix heat all nvt temp $t $t 0.05"]
    lines += ["temper 40 4 $t heat 3847 58382", "write_data after.$u nocoeff", 'print "ENERGY $(pe:%.17g)" file energy.$u']
    run = lammps.try_run(lines, ranks=ranks, arguments=("-partition", partition))
    assert run.returncode == 0, run.output[-3000:]
    # Newer versions write columns of fixed width.
    temperatures = re.findall(r"^ *\d+ +([01]) +([01])$", (lammps.folder / "log.lammps").read_text(), re.M)
    assert len(set(temperatures)) == 2, temperatures
    for name, energy in partition_energies(run).items():
        assert state(fresh(lammps, name))[0] == pytest.approx(energy, rel=SAME)


# ---- for long ----


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_memory_stays_flat(lammps, ranks):
    """10,000 steps in which the number of atoms changes 1,000 times."""
    lines = [*start(lammps, bulk("NaCl", "rocksalt", 5.8, cubic=True), keywords=""), *MOVE, "fix heat all langevin 900 900 0.1 77"]
    lines += [
        "group sodium type 2", "variable k loop 500", "label change",
        "delete_atoms random count 1 yes sodium NULL ${k}1", "run 10 post no",
        "create_atoms 2 random 1 ${k}2 NULL overlap 1.6 maxtry 1000", "group sodium type 2", "run 10 post no",
        "info memory", "next k", "jump SELF change",
    ]  # fmt: skip
    output = lammps.run(lines, ranks=ranks, timeout=3600).output
    sizes = [float(v) for v in re.findall(r"Maximum resident set size: +([\d.]+) Mbyte", output)]
    assert len(sizes) == 500
    print(f"MB after 20, 2000 and 10,000 steps: {sizes[0]:.1f} {sizes[100]:.1f} {sizes[-1]:.1f}")
    assert sizes[-1] - sizes[100] < 2.0
