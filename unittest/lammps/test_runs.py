# SPDX-License-Identifier: MIT
"""Longer inputs: ensembles, hybrid styles, restarts, and actions between two runs."""

import numpy as np
import pytest
from lammps_script import FORCE_DUMP, rock_salt

# The same configuration, reached in two ways; sums may be in another order.
SAME = 1e-12


def start(lammps, atoms=None, keywords="precision double", model="nequip", units="units metal"):
    atoms = rock_salt((2, 1, 1)) if atoms is None else atoms
    return [units, *lammps.write(atoms, ["Cl", "Na"]), *lammps.pair(model, ["Cl", "Na"], keywords)]


def energies(run, name="ENERGY"):
    return run.values(name)[:, 0]


ENERGY = 'print "ENERGY $(pe:%.17g)"'


@pytest.mark.parametrize("ranks", [1, 2])
def test_nve_conserves_energy_and_momentum(lammps, ranks):
    run = lammps.run(
        [
            *start(lammps),
            "velocity all create 600 77 mom yes loop geom",
            "variable p equal sqrt(vcm(all,x)^2+vcm(all,y)^2+vcm(all,z)^2)",
            "fix 1 all nve",
            "timestep 0.0005",
            "thermo_style custom step etotal",
            'fix 2 all print 10 "TOTAL $(etotal:%.17g) $(v_p:%.17g) $(temp)" screen yes',
            "run 200",
        ],
        ranks=ranks,
    )
    total, momentum, temperature = run.values("TOTAL").T
    assert np.ptp(temperature) > 20
    # Velocity Verlet's own oscillation at this step is some 1e-5 of the kinetic energy, 1.2 eV.
    assert np.ptp(total) < 1e-3
    assert momentum.max() < 1e-11


@pytest.mark.parametrize("ranks", [1, 2])
def test_npt_changes_the_box(lammps, ranks):
    run = lammps.run(
        [
            *start(lammps, keywords="", atoms=rock_salt((2, 2, 2))),
            "velocity all create 600 77 mom yes loop geom",
            "fix 1 all npt temp 600 600 0.05 tri 1000 1000 0.2",
            "thermo_style custom step temp press pe vol xy xz yz",
            'print "VOLUME $(vol)"',
            "run 50",
            'print "VOLUME $(vol)"',
        ],
        ranks=ranks,
    )
    volume = run.values("VOLUME")[:, 0]
    assert np.isfinite(volume).all() and 1e-6 < abs(volume[1] / volume[0] - 1) < 0.3


def test_minimize_with_box_relax_ends_in_a_state_without_forces_and_stress(lammps):
    run = lammps.run(
        [
            *start(lammps, model="sevennet-0", keywords="precision double", atoms=rock_salt(amplitude=0.2)),
            "fix 1 all box/relax iso 0.0 vmax 0.01",
            "thermo_style custom step pe press",
            "run 0",
            ENERGY,
            "minimize 0 1e-4 300 3000",
            ENERGY,
            'print "END $(press) $(fmax) $(lx)"',
        ]
    )
    first, last = energies(run)
    ((pressure, force, length),) = run.values("END")
    assert last < first - 0.1
    assert abs(pressure) < 100 and force < 1e-2
    assert 5.4 < length < 5.9  # rock salt


def three_types(lammps, ranks, pair):
    """NaCl in the middle of a layer of argon-like atoms of a third type."""
    atoms = rock_salt((2, 1, 1))
    structure = lammps.write(atoms, ["Cl", "Na", "Ar"])
    run = lammps.run(
        [
            "units metal", *structure, "group argon id 1 4 10", "set group argon type 3", *pair,
            "compute each all pe/atom", "dump each all custom 1 dump.each id type c_each",
            "dump_modify each sort id format float %.17g", *FORCE_DUMP, "run 0", ENERGY,
        ],
        ranks=ranks,
    )  # fmt: skip
    return energies(run)[0], run.dump("dump.forces")[:, 1:], run.dump("dump.each")


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("style", ["hybrid", "hybrid/overlay", pytest.param("hybrid/scaled", marks=pytest.mark.plain)])
def test_hybrid_styles_add_up(lammps, style, ranks):
    """NaCl of equi, Lennard-Jones for the third type: the result is the sum of both."""
    model = lammps.model("lmax3")
    lj = ["pair_coeff 3 3 {}0.01 3.0", "pair_coeff 1*2 3 {}0.02 2.5"]
    equi_words, lj_words = "equi precision double", "lj/cut 4.0"
    if style == "hybrid/scaled":
        equi_words, lj_words = f"1.0 {equi_words}", f"1.0 {lj_words}"
    both = three_types(
        lammps, ranks,
        [f"pair_style {style} {equi_words} {lj_words}", f'pair_coeff * * equi "{model}" Cl Na NULL'] + [k.format("lj/cut ") for k in lj],
    )  # fmt: skip
    only_lj = three_types(lammps, 1, ["pair_style lj/cut 4.0", "pair_coeff 1*2 1*2 0 1"] + [k.format("") for k in lj])
    only_equi = three_types(
        lammps, 1,
        ["pair_style hybrid/overlay equi precision double zero 4.0", f'pair_coeff * * equi "{model}" Cl Na NULL', "pair_coeff * * zero"],
    )  # fmt: skip
    assert both[0] == pytest.approx(only_lj[0] + only_equi[0], rel=SAME)
    assert np.abs(both[1] - only_lj[1] - only_equi[1]).max() <= 1e-12 * np.abs(both[1]).max()
    argon = both[2][:, 1] == 3
    assert argon.sum() == 3
    assert np.all(only_equi[1][argon] == 0) and np.all(only_equi[2][argon, 2] == 0)
    assert np.abs(only_equi[1][~argon]).max() > 1e-3


@pytest.mark.parametrize("ranks", [1, 2])
def test_null_atoms_are_invisible(lammps, ranks):
    """Atoms of a NULL type change nothing for the others: the system after their deletion has the same results."""
    model = lammps.model("lmax3")
    with_argon = three_types(
        lammps, ranks,
        ["pair_style hybrid/overlay equi precision double zero 4.0", f'pair_coeff * * equi "{model}" Cl Na NULL', "pair_coeff * * zero"],
    )  # fmt: skip
    without = three_types(lammps, 1, ["delete_atoms group argon compress no", "pair_style equi precision double", f'pair_coeff * * "{model}" Cl Na O'])
    assert with_argon[0] == pytest.approx(without[0], rel=SAME)


@pytest.mark.parametrize("ranks", [1, 2])
def test_restart_continues_the_run(lammps, ranks):
    first = lammps.run(
        [
            *start(lammps), "velocity all create 900 5 loop geom", "fix 1 all nve", "run 10", "write_restart mid.restart",
            "run 10", ENERGY,
        ],
        ranks=ranks,
    )  # fmt: skip
    second = lammps.run(
        ["units metal", "atom_modify map yes", "read_restart mid.restart", *lammps.pair("nequip", ["Cl", "Na"]), "neighbor 1.0 bin",
         "fix 1 all nve", "run 10", ENERGY],
        ranks=ranks,
    )  # fmt: skip
    assert energies(second)[0] == pytest.approx(energies(first)[0], rel=1e-11)


def test_restart_needs_pair_coeff_again(lammps):
    lammps.run([*start(lammps), "run 0", "write_restart mid.restart"])
    run = lammps.try_run(["read_restart mid.restart", "run 0"])
    assert run.returncode != 0 and len(run.errors) == 1


@pytest.mark.parametrize("ranks", [1, 2])
def test_clear_and_begin_again(lammps, ranks):
    lines = [*start(lammps), "run 0", ENERGY]
    other = [*start(lammps, model="lmax3"), "run 0", ENERGY]
    a, b, c = energies(lammps.run([*lines, "clear", *other, "clear", *lines], ranks=ranks))
    assert a == c and a != b


@pytest.mark.parametrize("ranks", [1, 2])
def test_two_runs_equal_one(lammps, ranks):
    begin = [*start(lammps), "velocity all create 900 5 loop geom", "fix 1 all nve"]
    one = lammps.run([*begin, "run 20", ENERGY], ranks=ranks)
    two = lammps.run([*begin, "run 7", "run 13", ENERGY], ranks=ranks)
    assert energies(two)[0] == pytest.approx(energies(one)[0], rel=1e-11)


@pytest.mark.parametrize("ranks", [1, 2])
def test_changing_the_style_between_runs(lammps, ranks):
    lines = start(lammps)
    pairs = [lammps.pair("nequip", ["Cl", "Na"], words) for words in ("precision mixed", "precision double", "precision double radial exact")]
    middle = lammps.pair("lmax3", ["Cl", "Na"])
    run = lammps.run(
        [*lines, "run 0", ENERGY, *[k for p in (*pairs, middle, pairs[1]) for k in (*p, "run 0", ENERGY)]], ranks=ranks
    )
    first, mixed, double, exact, other, again = energies(run)
    assert first == double == again
    assert 0 < abs(mixed - double) < 1e-3 and 0 <= abs(exact - double) < 1e-6
    assert abs(other - double) > 1e-2


def test_changing_pair_coeff_exchanges_the_elements(lammps):
    lines = start(lammps)
    path = lammps.model("nequip")
    run = lammps.run([*lines, "run 0", ENERGY, f'pair_coeff * * "{path}" Na Cl', "run 0", ENERGY, lines[-1], "run 0", ENERGY])
    first, swapped, again = energies(run)
    assert first == again and abs(first - swapped) > 1e-6


def test_rerun_reproduces_the_energies_of_a_dump(lammps):
    begin = [*start(lammps), 'fix out all print 5 "ENERGY $(pe:%.17g)" screen yes']
    run = lammps.run(
        [
            *begin, "velocity all create 1500 5 loop geom", "fix 1 all nve", "dump d all custom 5 dump.rerun id type x y z ix iy iz",
            "dump_modify d format float %.17g", "run 20",
        ]
    )  # fmt: skip
    again = lammps.run([*start(lammps), "thermo_style custom step pe", "thermo_modify format float %.17g", "thermo 5",
                        "rerun dump.rerun dump x y z"])  # fmt: skip
    for energy in energies(run):
        values = [float(w) for line in again.output.splitlines() for w in line.split()[1:2] if w[:1] == "-" and "." in w]
        assert min(abs(v - energy) for v in values) <= 1e-11 * abs(energy)


@pytest.mark.parametrize("ranks,partition", [(2, "2x1"), (4, "2x2")])
def test_partitions_are_independent(lammps, ranks, partition):
    lines = start(lammps)
    at = next(k for k, line in enumerate(lines) if line.startswith("pair_style"))
    lines[at:at] = ["variable shift world 0.0 0.3", "group one id 1", "displace_atoms one move ${shift} 0 0 units box"]
    tail = ["run 0", 'print "ENERGY $(pe:%.17g)" file energy.${shift}']
    run = lammps.try_run(lines + tail, ranks=ranks, arguments=("-partition", partition))
    assert run.returncode == 0, run.output
    for shift in ("0.0", "0.3"):
        alone = [k.replace("variable shift world 0.0 0.3", f"variable shift index {shift}") for k in lines]
        expected = energies(lammps.run([*alone, "run 0", ENERGY]))[0]
        found = float((lammps.folder / f"energy.{shift}").read_text().split()[1])
        assert found == pytest.approx(expected, rel=SAME)


@pytest.mark.plain
def test_type_labels(lammps):
    lines = start(lammps)
    plain = lammps.run([*lines, "run 0", ENERGY])
    labels = ["labelmap atom 1 Cl 2 Na"]
    at = next(k for k, line in enumerate(lines) if line.startswith("pair_style"))
    labeled = lammps.run([*lines[:at], *labels, *lines[at:], "run 0", ENERGY])
    assert energies(plain)[0] == energies(labeled)[0]


@pytest.mark.parametrize("ranks", [1, 2])
def test_atoms_come_and_go_between_runs(lammps, ranks):
    extra = "create_atoms 2 single 1.4 1.5 1.3 units box"
    run = lammps.run(
        [
            *start(lammps), "group gone id 2 5", "run 0", ENERGY, "delete_atoms group gone compress no", "run 0", ENERGY, extra,
            "run 0", ENERGY, "reset_atoms id", "run 0", ENERGY,
        ],
        ranks=ranks,
    )  # fmt: skip
    first, fewer, more, renumbered = energies(run)
    direct = energies(
        lammps.run([*start(lammps), "group gone id 2 5", "delete_atoms group gone", extra, "run 0", ENERGY])
    )[0]
    assert len({first, fewer, more}) == 3
    assert more == pytest.approx(direct, rel=SAME) and renumbered == pytest.approx(direct, rel=SAME)


@pytest.mark.parametrize("ranks", [1, 2])
def test_sorting_atoms_does_not_matter(lammps, ranks):
    """Atoms are reordered during the run. The trajectory stays the same, up to the growth of rounding in 40 steps."""
    begin, results = start(lammps, atoms=rock_salt((2, 2, 1))), []
    for often in ("0 0", "5 2.0"):
        lines = ["units metal", f"atom_modify sort {often}", *begin[1:], "neigh_modify every 1 delay 0 check no"]
        lines += ["velocity all create 2000 5 loop geom", "fix 1 all nve", "run 40", ENERGY]
        results.append(energies(lammps.run(lines, ranks=ranks))[0])
    assert results[0] == pytest.approx(results[1], rel=1e-11)


def test_a_changed_box_and_moved_atoms_are_seen(lammps):
    """displace_atoms and change_box between two runs: no list or table of the old state is used."""
    moved = ["displace_atoms all random 0.2 0.2 0.2 33 units box", "change_box all x scale 1.05 y scale 0.97 remap units box"]
    two = lammps.run([*start(lammps), "run 0", *moved, "run 0", ENERGY])
    one = lammps.run([*start(lammps), *moved, "run 0", ENERGY])
    assert energies(two)[0] == pytest.approx(energies(one)[0], rel=SAME)
