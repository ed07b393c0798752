# SPDX-License-Identifier: MIT
"""What an input script and other commands of LAMMPS may do with the pair style, and what must still hold
afterwards."""

import re

import numpy as np
import pytest
from ase import Atoms
from equi_tools.lammps_runner import NKTV2P_METAL
from lammps_script import FORCE_DUMP, rock_salt
from test_decomposition import sheared

# The same configuration, reached in two ways; sums may be in another order.
SAME = 1e-12
RANKS = pytest.mark.parametrize("ranks", [1, 3])
RESULT = [
    "compute virial all pressure NULL virial",
    "thermo_style custom step pe c_virial[*]",
    "thermo_modify norm no",
    *FORCE_DUMP,
    "run 0",
]
PRINT = 'print "RESULT $(pe:%.17g) ' + " ".join(f"$(c_virial[{k}]:%.17g)" for k in range(1, 7)) + '"'
ENERGY = 'print "ENERGY $(pe:%.17g)"'


def start(lammps, atoms, pair, symbols=None, before_pair=()):
    return ["units metal", *lammps.write(atoms, symbols), *before_pair, *pair]


def salt(lammps, atoms=None, keywords="precision double", model="plain"):
    atoms = rock_salt((1, 1, 2)) if atoms is None else atoms
    return start(lammps, atoms, lammps.pair(model, ["Cl", "Na"], keywords), ["Cl", "Na"])


def result(lammps, lines, **options):
    """(energy, virial pressure, forces)"""
    run = lammps.run([*lines, *RESULT, PRINT], **options)
    (numbers,) = run.values("RESULT")
    return numbers[0], numbers[1:], run.dump("dump.forces")[:, 1:]


def assert_same(a, b, tolerance=SAME):
    for x, y in zip(a, b):
        assert np.abs(np.asarray(x) - y).max() <= tolerance * np.abs(x).max()


# ---- what the energy is ----


def test_a_supercell_has_the_energy_of_its_cells(lammps):
    cell = sheared()
    small, large = result(lammps, salt(lammps, cell)), result(lammps, salt(lammps, cell * (2, 1, 1)), ranks=3)
    assert_same((2 * small[0], small[1], np.concatenate([small[2]] * 2)), large)


@RANKS
def test_atoms_that_see_nobody_add_their_own_energies(lammps, ranks):
    def energy(atoms, n=1):
        pair = lammps.pair("lmax3", ["Cl", "Na"])
        return result(lammps, start(lammps, atoms, pair, ["Cl", "Na"]), ranks=n)[0]

    dimer = Atoms("NaCl", positions=[[0, 0, 0], [1.2, 1.5, 0.9]])
    lone = {symbol: energy(Atoms(symbol, positions=[[0, 0, 0]])) for symbol in ("Na", "Cl")}
    apart = dimer + Atoms("NaClNa", positions=[[30, 0, 0], [0, 25, 0], [20, 20, 33]])
    expected = energy(dimer) + 2 * lone["Na"] + lone["Cl"]
    assert energy(apart, ranks) == pytest.approx(expected, rel=SAME)
    assert abs(energy(dimer) - lone["Na"] - lone["Cl"]) > 1e-3


def test_a_thicker_skin_adds_no_neighbors(lammps):
    lines = salt(lammps)
    assert_same(result(lammps, lines), result(lammps, [*lines, "neighbor 3.5 bin"], ranks=2))


@RANKS
def test_an_element_may_have_several_types(lammps, ranks):
    one = result(lammps, salt(lammps))
    atoms = rock_salt((1, 1, 2))
    split = ["group first id 1:7", "group sodium type 2", "group both intersect first sodium", "set group both type 3", "mass 3 22.99"]
    lines = start(lammps, atoms, lammps.pair("plain", ["Cl", "Na", "Na"]), ["Cl", "Na"], split)
    lines = [k.replace("read_data data.structure", "read_data data.structure extra/atom/types 1") for k in lines]
    assert_same(one, result(lammps, lines, ranks=ranks))


def test_what_is_asked_for_does_not_change_the_forces(lammps):
    """Steps with and without energy, virial and per-atom quantities move atoms identically, to the last bit. Both have
    output at every step: between outputs nve/kk joins the halves of two steps, which rounds differently."""
    dump = [line.replace("custom 1", "custom 4") for line in FORCE_DUMP]
    motion = ["velocity all create 900 5 loop geom", "fix 1 all nve", *dump]
    quiet = lammps.run([*salt(lammps), *motion, "thermo_style custom step", "thermo 1", "run 8"]).frames("dump.forces")
    asked = ["compute s all centroid/stress/atom NULL virial", "compute e all pe/atom", "compute r all reduce sum c_s[*] c_e"]
    loud = lammps.run([*salt(lammps), *motion, *asked, "thermo_style custom step pe press c_r[*]", "thermo 1", "run 8"])
    assert len(quiet) == 3
    assert np.array_equal(quiet, loud.frames("dump.forces"))


def test_the_centroid_virial_has_the_position_first(lammps):
    """An end of a bent molecule sees only the middle, so half of bond x force is its virial: xy = bond_x force_y /
    2."""
    angle = np.radians([15.0, 135.0])
    ends = 2.6 * np.stack([np.cos(angle), np.sin(angle), [0.2, -0.1]], axis=1)
    atoms = Atoms("NaClNa", positions=[ends[0], [0, 0, 0], ends[1]])
    assert atoms.get_distance(0, 2) > 4.2  # the cutoff
    lines = [*salt(lammps, atoms, model="lmax3"), "compute s all centroid/stress/atom NULL virial"]
    lines += ["dump d all custom 1 dump.s id x y z fx fy fz c_s[*]", "dump_modify d sort id format float %.17g", "run 0"]
    table = lammps.run(lines).dump("dump.s")[:, 1:]
    positions, forces, stress = table[:, :3], table[:, 3:6], table[:, 6:] / NKTV2P_METAL
    for end in (0, 2):
        expected = -0.5 * np.outer(positions[end] - positions[1], forces[end])
        # xx yy zz xy xz yz yx zx zy
        found = stress[end][[0, 3, 4, 6, 1, 5, 7, 8, 2]].reshape(3, 3)
        # The order matters, though little: the force is nearly along the bond.
        assert np.abs(expected - expected.T).max() > 1e-5 * np.abs(expected).max()
        assert np.abs(found - expected).max() <= 1e-12 * np.abs(expected).max()


# ---- together with other styles ----


@RANKS
def test_two_models_work_side_by_side(lammps, ranks):
    """Each has its own layers, tables and buffers."""
    atoms = rock_salt((1, 1, 2))
    pair = ["pair_style hybrid/overlay equi precision double equi precision double"]
    pair += [f'pair_coeff * * equi {k} "{lammps.model(m)}" Cl Na' for k, m in ((1, "plain"), (2, "lmax3"))]
    both = result(lammps, start(lammps, atoms, pair), ranks=ranks)
    plain, lmax3 = (result(lammps, salt(lammps, atoms, model=m)) for m in ("plain", "lmax3"))
    assert_same(both, [a + b for a, b in zip(plain, lmax3)])


@RANKS
def test_per_atom_virials_pass_through_a_hybrid_style(lammps, ranks):
    pair = ["pair_style hybrid/overlay equi precision double lj/cut 5.0", "pair_coeff * * lj/cut 0.01 2.5"]
    pair += [f'pair_coeff * * equi "{lammps.model("lmax3")}" Cl Na']
    sums = ["compute s all stress/atom NULL virial", "compute t all reduce sum c_s[*]", "compute p all pressure NULL virial"]
    sums += ["thermo_style custom step c_p[*] c_t[*]", "run 0"]
    sums += [f'print "{n.upper()} ' + " ".join(f"$({w}c_{n}[{k}]:%.17g)" for k in range(1, 7)) + '"' for n, w in (("p", "vol*"), ("t", "-"))]
    run = lammps.run([*start(lammps, rock_salt((1, 1, 2)), pair), *sums], ranks=ranks)
    (pressure,), (total,) = run.values("P"), run.values("T")
    assert np.abs(pressure - total).max() <= SAME * np.abs(pressure).max()


def test_a_table_tolerance_does_without_the_word_table(lammps):
    """A hybrid style interprets `table` as the pair style of that name, and its tolerance as an argument of that
    style."""
    atoms = rock_salt()
    pair = ["pair_style hybrid/overlay equi radial 1e-4 precision double", f'pair_coeff * * equi "{lammps.model("plain")}" Cl Na']
    short = result(lammps, start(lammps, atoms, pair))
    assert_same(short, result(lammps, salt(lammps, atoms, "precision double radial table 1e-4")), 1e-15)
    assert short[0] != result(lammps, salt(lammps, atoms))[0]


# ---- while atoms move ----


def test_atoms_that_change_ranks_leave_no_trace(lammps):
    """Atoms are hot, lists rebuilt and borders shifted often: one rank and three get the same final state."""
    lines = [*salt(lammps, rock_salt((2, 2, 2))), "neigh_modify every 1 delay 0 check no", "velocity all create 3000 5 loop geom"]
    lines += ["fix 1 all nve", "fix 2 all balance 7 1.0 shift xyz 5 1.05", "run 50", "dump d all custom 1 dump.x id xu yu zu"]
    lines += ["dump_modify d sort id format float %.17g", "run 0"]
    one, three = (lammps.run(lines, ranks=n).dump("dump.x") for n in (1, 3))
    # Rounding of 1e-14 grows with the motion of the atoms.
    assert np.abs(one - three).max() < 1e-9


@pytest.mark.parametrize("ranks", [1, 2])
def test_types_exchanged_by_monte_carlo_are_noticed(lammps, ranks):
    """Types change in the middle of a run; a fresh start must find the same energy."""
    lines = [*salt(lammps), "neigh_modify delay 100000 every 1 check no", "thermo 1"]
    lines += ["fix swap all atom/swap 1 5 1234 50000 ke no types 1 2", "run 3", ENERGY, 'print "ACCEPTED $(f_swap[2])"']
    run = lammps.run([*lines, "unfix swap", "run 0", ENERGY], ranks=ranks)
    assert run.values("ACCEPTED")[0, 0] > 0
    after, fresh = run.values("ENERGY")[:, 0]
    assert after == pytest.approx(fresh, rel=SAME)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_type_that_changes_while_the_list_stays_is_noticed(lammps, ranks):
    """Ghosts on another rank keep the former type of the atom."""
    lines = [*salt(lammps), "thermo 1", "run 1", ENERGY, "set atom 3 type 1", "run 1 pre no", ENERGY, "run 0", ENERGY]
    run = lammps.try_run(lines, ranks=ranks)
    if ranks > 1:
        assert run.returncode != 0 and "leave pre no out of the run command" in run.output, run.output[-2000:]
        return
    before, after, fresh = run.values("ENERGY")[:, 0]
    assert before != after
    assert after == pytest.approx(fresh, rel=SAME)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_without_setup_goes_on(lammps, ranks):
    lines = [*salt(lammps), "velocity all create 900 5 loop geom", "fix 1 all nve"]
    whole, parts = (
        lammps.run([*lines, *runs, ENERGY], ranks=ranks).values("ENERGY")[0, 0] for runs in (["run 20"], ["run 10", "run 10 pre no"])
    )
    assert parts == pytest.approx(whole, rel=SAME)


# Between runs: effects of commands on the order of atoms and on ghosts, and whether a run without setup can go on.
BETWEEN_RUNS = {
    "write_data": (["write_data after.data"], False),
    "write_restart": (["write_restart after.restart"], False),
    "sorted_ids": (["reset_atoms id sort yes"], False),
    "moved": (["displace_atoms all random 0.01 0.01 0.01 5"], False),
    "new_list": (["compute pairs all rdf 10 cutoff 3.0", "write_data after.data"], False),
    "dump": (["write_dump all custom after.dump id x y z"], True),
    "velocities": (["velocity all scale 300"], True),
    "modes": (["unfix 1", "equi_modes all 1 products 20", "fix 1 all nve"], True),
    "setup": (["write_data after.data", "run 0"], True),
}  # fmt: skip


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", BETWEEN_RUNS)
def test_a_run_without_setup_does_not_use_the_list_of_other_atoms(lammps, name, ranks):
    """Lists are rebuilt seldom, so atoms have left the box since the last one, and others have come near its faces."""
    commands, goes_on = BETWEEN_RUNS[name]
    lines = [*salt(lammps, rock_salt((2, 1, 1))), "neigh_modify every 1 delay 100000 check no", "velocity all create 2500 5 loop geom"]
    lines += ["fix 1 all nve", "run 40", *commands, "run 1 pre no", ENERGY, "run 0", ENERGY]
    run = lammps.try_run(lines, ranks=ranks)
    if goes_on:
        after, fresh = run.values("ENERGY")[:, 0]
        assert after == pytest.approx(fresh, rel=SAME)
    else:
        assert run.returncode != 0 and "leave pre no out of the run command" in run.output, run.output[-2000:]


@pytest.mark.parametrize("precision", ["mixed", "double"])
def test_energy_oscillates_with_the_square_of_the_time_step(lammps, precision):
    """The remaining variation of the total energy is that of velocity Verlet, so forces are derivatives of the
    energy."""
    lines = [*salt(lammps, rock_salt((1, 1, 2), amplitude=0.05), f"precision {precision}"), "velocity all create 600 99 loop geom"]
    lines += ["fix 1 all nve", "thermo_style custom step etotal", "thermo_modify norm no"]
    swing = []
    for step, every in ((0.002, 5), (0.001, 10)):
        output = [f"timestep {step}", f'fix 2 all print {every} "TOTAL $(etotal:%.17g)" screen yes', f"run {40 * every}"]
        swing.append(np.ptp(lammps.run([*lines, *output]).values("TOTAL")))
    assert 3.3 < swing[0] / swing[1] < 4.7


# ---- destroyed and set up again ----


@pytest.mark.parametrize("ranks", [1, 2])
def test_other_pair_styles_in_between(lammps, ranks):
    lines = salt(lammps)
    pair = lines[-2:]
    others = ["pair_style none", "pair_style lj/cut 5.0", "pair_coeff * * 0.01 2.0", "run 0"]
    run = lammps.run([*lines, "run 0", ENERGY, *others, *pair, "run 0", ENERGY], ranks=ranks)
    first, second = run.values("ENERGY")[:, 0]
    assert first == second


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_plugin_can_be_unloaded_and_loaded_again(lammps, ranks):
    lines = salt(lammps)
    library = lammps.build_dir / "lib" / "equiplugin.so"
    again = ["plugin unload pair equi", f'plugin load "{library}"', *lines[-2:]]
    run = lammps.run([*lines, "run 0", ENERGY, *again, "run 0", ENERGY], ranks=ranks)
    first, second = run.values("ENERGY")[:, 0]
    assert first == second


def test_new_keywords_keep_the_coefficients(lammps):
    """As with LAMMPS's own styles, a new pair_style changes settings; omitted keywords return to their defaults."""
    words = ["pair_style equi radial 1e-3", "pair_style equi", "pair_style equi precision double"]
    run = lammps.run([*salt(lammps), "run 0", ENERGY, *(k for w in words for k in (w, "run 0", ENERGY))])
    double, coarse, mixed, again = run.values("ENERGY")[:, 0]
    assert double == again
    assert len({double, coarse, mixed}) == 3
    assert mixed == lammps.run([*salt(lammps, keywords=""), "run 0", ENERGY]).values("ENERGY")[0, 0]


def test_warnings_and_the_description_come_once(lammps):
    lines = [*salt(lammps), "mass 1 1.0", "mass 2 23.0", "run 0", "run 0", "run 0"]
    output = lammps.run(lines).output
    assert len(re.findall("Atom type 1 is mapped to Cl but has mass 1 ", output)) == 1
    assert "Atom type 2" not in output
    assert len(re.findall("sevenn SevenNet model", output)) == 1


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_file_is_looked_up_in_lammps_potentials(lammps, ranks, monkeypatch):
    monkeypatch.setenv("LAMMPS_POTENTIALS", str(lammps.model("plain").parent))
    lines = [k.replace(str(lammps.model("plain")), "plain.equi") for k in salt(lammps)]
    found = lammps.run([*lines, "run 0", ENERGY], ranks=ranks)
    given = lammps.run([*salt(lammps), "run 0", ENERGY])
    assert found.values("ENERGY")[0, 0] == pytest.approx(given.values("ENERGY")[0, 0], rel=SAME)
