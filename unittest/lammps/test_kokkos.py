# SPDX-License-Identifier: MIT
"""equi/kk under LAMMPS's package KOKKOS, compared with plain equi of the same plugin."""

import re

import numpy as np
import pytest
from ase import Atoms
from lammps_script import FORCE_DUMP, rock_salt
from test_decomposition import alone, corner, oxide, sheared

# Sums are in another order.
ENERGY_TOLERANCE = 1e-12  # relative
FORCE_TOLERANCE = 1e-10  # eV/Angstrom; relative if all forces are below 1 eV/Angstrom

MODELS = {
    "sevennet": ("sevennet-0", rock_salt((2, 1, 1))),
    "mace": ("mace/plain", oxide()),
    "nequip": ("nequip/checkpoint_options", oxide()),
    "allegro": ("allegro/checkpoint_options", oxide()),
}
PER_ATOM = [
    "compute energy all pe/atom",
    "compute stress all stress/atom NULL virial",
    "compute centroid all centroid/stress/atom NULL virial",
    "compute virial all pressure NULL virial",
    "compute sums all reduce sum c_energy c_stress[*] c_centroid[*]",
    "thermo_style custom step pe c_virial[*] c_sums[*]",
    "thermo_modify norm no",
]
DUMP = [
    "dump all all custom 1 dump.all id fx fy fz c_energy c_stress[*] c_centroid[*]",
    "dump_modify all sort id format float %.17g",
]
PRINT = 'print "RESULT $(pe:%.17g) ' + " ".join(f"$(c_virial[{k}]:%.17g)" for k in range(1, 7)) + '"'


def kokkos(threads=1, suffix=("-sf", "kk"), **options):
    """Arguments of LAMMPS; underscores of options are slashes of `package kokkos`."""
    # LAMMPS requires newton off for these two.
    newton = "off" if options.get("neigh") == "full" or options.get("neigh_thread") == "on" else "on"
    words = {"newton": newton, "neigh": "half", **options}
    package = [w for key, value in words.items() for w in (key.replace("_", "/"), value)]
    return ["-k", "on", "t", threads, *suffix, "-pk", "kokkos", *package]


def salt(lammps, atoms=None, keywords="precision double", model="nequip", setup=()):
    atoms = rock_salt((2, 1, 1)) if atoms is None else atoms
    symbols = sorted(set(atoms.get_chemical_symbols()))
    return ["units metal", *setup, *lammps.write(atoms, symbols), *lammps.pair(model, symbols, keywords)]


def numbers(lammps, lines, **options):
    """Energy and virial, and all quantities of atoms."""
    run = lammps.run([*lines, *PER_ATOM, *DUMP, "run 0", PRINT], **options)
    return run.values("RESULT")[0], run.dump("dump.all")


def assert_close(found, expected):
    (energy, *virial), table = found
    (expected_energy, *expected_virial), expected_table = expected
    assert abs(energy - expected_energy) <= ENERGY_TOLERANCE * abs(expected_energy)
    scale = np.abs(expected_virial).max()
    assert np.abs(np.subtract(virial, expected_virial)).max() <= ENERGY_TOLERANCE * scale
    for columns in (slice(1, 4), slice(4, 5), slice(5, 20)):
        largest = np.abs(expected_table[:, columns]).max()
        difference = np.abs(table[:, columns] - expected_table[:, columns]).max()
        assert difference <= FORCE_TOLERANCE * (min(1.0, largest) if columns.start < 4 else largest)


def assert_same_bits(found, expected):
    assert np.array_equal(found[0], expected[0]) and np.array_equal(found[1], expected[1])


# ---- one rank: the last bit ----


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", ["double", "mixed"])
@pytest.mark.parametrize("name", MODELS)
def test_one_rank_equals_plain_to_the_last_bit(lammps, name, precision, threads):
    model, atoms = MODELS[name]
    lines = salt(lammps, atoms, f"precision {precision}", model)
    plain = numbers(lammps, lines, threads=threads)
    for neigh in ("half", "full"):
        assert_same_bits(numbers(lammps, lines, threads=threads, arguments=kokkos(threads, neigh=neigh)), plain)
    assert np.abs(plain[1][:, 1:]).min(axis=0).max() > 0


@pytest.mark.parametrize(
    "options",
    [
        dict(neigh_transpose="on"),
        dict(neigh_thread="on"),
        dict(sort="device"),
        dict(atom_map="device"),
        dict(comm="device"),
        dict(comm="host"),
        dict(suffix=("-sf", "kk/host")),
        dict(suffix=("-sf", "kk/device")),
    ],
    ids=lambda options: "_".join(f"{key}_{value if isinstance(value, str) else value[1]}" for key, value in options.items()),
)  # fmt: skip
def test_options_of_the_package_do_not_change_a_bit(lammps, options):
    lines = salt(lammps, sheared())
    plain = numbers(lammps, lines, threads=2)
    found = numbers(lammps, lines, threads=2, arguments=kokkos(2, **options))
    assert_same_bits(found, plain)


def test_plain_style_works_in_the_mode_of_the_package(lammps):
    lines = salt(lammps, sheared())
    plain = numbers(lammps, lines, threads=2)
    off = [line for command in lines for line in (["suffix off", command, "suffix on"] if "pair_style" in command else [command])]
    found = numbers(lammps, off, threads=2, arguments=kokkos(2))
    assert_same_bits(found, plain)


def test_motion_with_new_neighbor_lists_equals_plain_to_the_last_bit(lammps):
    """Without `velocity create`, whose temperature is a sum over threads, and with output at every step. Between
    outputs nve/kk joins the halves of two steps, which rounds differently."""
    lines = [*salt(lammps, rock_salt((2, 2, 1)), "precision mixed"), "neigh_modify every 3 delay 0 check no"]
    lines += ["velocity all ramp vx -20 20 z 0 10", "fix 1 all nve", "thermo 5", *FORCE_DUMP, "run 30"]
    plain = lammps.run(lines, threads=2).frames("dump.forces")
    found = lammps.run(lines, threads=2, arguments=kokkos(2)).frames("dump.forces")
    assert len(plain) == 31
    assert np.array_equal(found, plain)


# ---- several ranks ----

SYSTEMS = {
    "salt": dict(atoms=rock_salt((2, 2, 1))),
    "empty_ranks": dict(atoms=corner()),
    "lone_atoms": dict(atoms=alone()),
    "one_atom": dict(atoms=Atoms("NaCl", positions=[[1, 1, 1], [20, 20, 20]], cell=[40, 40, 40], pbc=True)),
    "box_below_cutoff": dict(atoms=rock_salt((1, 1, 1))),
    "slabs": dict(atoms=rock_salt((2, 1, 1)), grid="processors * 1 1"),
    "tiled": dict(atoms=rock_salt((2, 2, 1)), setup=["comm_style tiled"]),
}


@pytest.mark.parametrize("comm", ["device", "host", "no"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_ranks_agree_with_plain_on_one_rank(lammps, name, comm):
    system = SYSTEMS[name]
    plain = numbers(lammps, salt(lammps, system["atoms"], setup=system.get("setup", ())))
    for ranks, neigh in ((2, "half"), (4, "full")):
        setup = [*system.get("setup", ()), *([system["grid"]] if "grid" in system else [])]
        lines = salt(lammps, system["atoms"], setup=setup)
        found = numbers(lammps, lines, ranks=ranks, arguments=kokkos(comm=comm, neigh=neigh))
        assert_close(found, plain)


@pytest.mark.parametrize("comm", ["device", "no"])
@pytest.mark.parametrize("name", MODELS)
def test_models_agree_on_two_ranks_with_two_threads(lammps, name, comm):
    model, atoms = MODELS[name]
    lines = salt(lammps, atoms, model=model)
    assert_close(numbers(lammps, lines, ranks=2, threads=2, arguments=kokkos(2, comm=comm)), numbers(lammps, lines))


def test_hooks_of_the_device_send_what_the_classic_ones_send(lammps):
    """float32 rows, two numbers to a double, agree to the last bit."""
    lines = salt(lammps, rock_salt((2, 2, 1)), "precision mixed")
    classic, device = (numbers(lammps, lines, ranks=4, arguments=kokkos(comm=comm)) for comm in ("no", "device"))
    assert_same_bits(classic, device)


# ---- what users run ----

RUNS = {
    "nvt": ["velocity all create 900 5 loop geom", "fix 1 all nvt temp 900 900 0.1", "run 30"],
    "npt": ["velocity all create 900 5 loop geom", "fix 1 all npt temp 900 900 0.1 iso 0 0 1.0", "run 30"],
    "minimize": ["minimize 0 1e-3 30 300"],
    "ave_atom": [
        "velocity all create 900 5 loop geom",
        "fix 1 all nve",
        "compute s all stress/atom NULL virial",
        "compute e all pe/atom",
        "fix average all ave/atom 2 5 10 fx fy fz c_s[*] c_e",
        "compute sums all reduce sum f_average[*]",
        "compute squares all reduce sumsq f_average[*]",
        "thermo_style custom step pe c_sums[*] c_squares[*]",
        "run 10",
        'print "OTHER ' + " ".join(f"$(c_{name}[{k}]:%.17g)" for name in ("sums", "squares") for k in range(4, 11)) + '"',
    ],
    "heat_flux": [
        "velocity all create 900 5 loop geom",
        "fix 1 all nve",
        "compute ke all ke/atom",
        "compute e all pe/atom",
        "compute s all centroid/stress/atom NULL virial",
        "compute flux all heat/flux ke e s",
        "thermo_style custom step pe c_flux[*]",
        "run 10",
        'print "OTHER $(c_flux[1]:%.17g) $(c_flux[2]:%.17g) $(c_flux[3]:%.17g)"',
    ],
}  # fmt: skip


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", RUNS)
def test_runs_agree_with_plain(lammps, name, ranks, keywords="precision double"):
    def run(words, **options):
        lines = [*salt(lammps, rock_salt((2, 1, 1)), words, "plain"), "thermo_modify norm no", *RUNS[name]]
        lines += ["thermo_style one", "run 0 post no", 'print "END $(pe:%.17g) $(press:%.17g) $(temp:%.17g) $(vol:%.17g)"']
        return lammps.run(lines, **options)

    plain, found = run("precision double"), run(keywords, ranks=ranks, arguments=kokkos(comm="device"))
    for word in ("END", "OTHER") if f'"OTHER' in "".join(RUNS[name]) else ("END",):
        (expected,), (result,) = plain.values(word), found.values(word)
        # Rounding of 1e-14 grows with the motion; pressures are differences of large numbers.
        assert np.abs(result - expected).max() <= 1e-8 * np.abs(expected).max()


def test_styles_are_those_of_the_package(lammps):
    """Otherwise the runs above would prove little."""
    lines = [*salt(lammps), "velocity all create 900 5 loop geom", "fix 1 all nvt temp 900 900 0.1", "run 1", "info fixes"]
    output = lammps.run(lines, arguments=kokkos()).output
    assert "pair equi/kk, perpetual" in output and "style = nvt/kk" in output


@pytest.mark.parametrize("ranks", [1, 2])
def test_hybrid_styles_of_the_package(lammps, ranks):
    atoms = rock_salt((2, 1, 1))
    pair = ["pair_style hybrid/overlay equi precision double lj/cut 5.0", "pair_coeff * * lj/cut 0.01 2.5"]
    pair += [f'pair_coeff * * equi "{lammps.model("plain")}" Cl Na']
    lines = [*salt(lammps, atoms)[:-2], *pair]
    plain = numbers(lammps, lines)
    assert_close(numbers(lammps, lines, ranks=ranks, arguments=kokkos(comm="device")), plain)


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_check_of_forces_passes(lammps, ranks, keywords="precision double"):
    run = lammps.run([*salt(lammps, keywords=f"{keywords} check yes"), "run 0"], ranks=ranks, arguments=kokkos(comm="device"))
    assert all(check in run.output for check in ("system check: law", "force check:")) and "FAILED" not in run.output


# ---- the evaluation on a device, here with the kernels for GPUs on the CPU ----

ON_DEVICE = "precision double kernels device"
# From this tolerance on the kernels for CPUs keep all coefficients of tables in float64, like those for devices.
SAME_TABLES = "radial 1e-11"
WIDE = rock_salt((6, 2, 1))  # two halves of it have atoms that see no other rank


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", ["double", "mixed"])
@pytest.mark.parametrize("name", MODELS)
def test_neighborhood_of_the_device_is_that_of_the_host(lammps, name, precision, threads):
    """Plain equi copies the host's form of LAMMPS's lists to the same kernels."""
    model, atoms = MODELS[name]
    lines = salt(lammps, atoms, f"precision {precision} kernels device", model)
    plain = numbers(lammps, lines, threads=threads)
    # With several threads the package's sort on the device orders the atoms of a bin by chance, and so do sums.
    sort = dict(sort="device") if threads == 1 else {}
    for options in (dict(neigh="half"), dict(neigh="full"), dict(neigh_transpose="on"), dict(atom_map="device", **sort)):
        assert_same_bits(numbers(lammps, lines, threads=threads, arguments=kokkos(threads, **options)), plain)


@pytest.mark.parametrize("ranks,comm,neigh", [(1, "device", "half"), (2, "device", "full"), (3, "host", "half"), (4, "no", "full"), (4, "device", "half")])
@pytest.mark.parametrize("name", SYSTEMS)
def test_device_agrees_with_plain(lammps, name, ranks, comm, neigh):
    system = SYSTEMS[name]
    setup = [*system.get("setup", ()), *([system["grid"]] if "grid" in system and ranks > 1 else [])]
    plain = numbers(lammps, salt(lammps, system["atoms"], f"precision double {SAME_TABLES}", setup=setup))
    lines = salt(lammps, system["atoms"], f"{ON_DEVICE} {SAME_TABLES}", setup=setup)
    found = numbers(lammps, lines, ranks=ranks, arguments=kokkos(comm=comm, neigh=neigh))
    assert_close(found, plain)
    assert np.abs(found[1] - plain[1]).max() <= 1e-12 * np.abs(plain[1]).max()


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("name", MODELS)
def test_models_on_the_device_agree_with_plain(lammps, name, ranks):
    model, atoms = MODELS[name]
    plain = numbers(lammps, salt(lammps, atoms, f"precision double {SAME_TABLES}", model))
    lines = salt(lammps, atoms, f"{ON_DEVICE} {SAME_TABLES}", model)
    assert_close(numbers(lammps, lines, ranks=ranks, threads=2, arguments=kokkos(2, comm="device")), plain)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", RUNS)
def test_runs_on_the_device_agree_with_plain(lammps, name, ranks):
    test_runs_agree_with_plain(lammps, name, ranks, ON_DEVICE)


@pytest.mark.parametrize("precision", ["double", "mixed"])
def test_ways_of_the_exchange_do_not_change_a_bit(lammps, precision):
    """Hooks of the device or of the host, with other work or without."""
    def run(comm, words):
        return numbers(lammps, salt(lammps, WIDE, f"precision {precision} kernels device {words}"), ranks=2, arguments=kokkos(comm=comm))

    expected = run("device", "overlap no exchange host")
    for comm, words in (("device", ""), ("no", ""), ("no", "exchange device"), ("device", "exchange host"), ("device", "overlap no")):
        assert_same_bits(run(comm, words), expected)


@pytest.mark.parametrize("ranks", [1, 2])
def test_steps_that_are_recorded_do_not_change_a_bit(lammps, ranks):
    """With virials at some steps, new neighbor lists, and thousands of candidates that become edges or cease to be."""
    motion = ["velocity all create 2000 5 loop geom", "fix 1 all nve", "thermo 3", "neigh_modify delay 0 every 1 check yes", "run 30"]

    def run(words):
        lines = [*salt(lammps, WIDE, f"precision mixed kernels device {words}"), *motion]
        return numbers(lammps, lines, ranks=ranks, arguments=kokkos(comm="device"))

    assert_same_bits(run("graphs yes"), run("graphs no"))


def exchange_line(lammps, words, **options):
    run = lammps.run([*salt(lammps, WIDE, f"precision double {words}"), "run 0"], ranks=2, arguments=kokkos(**options))
    (line,) = re.findall(r"equi: exchange .*communication \((.*)\), at most .*, ([0-9.]+) % of the bytes beside other work", run.output)
    return line


@pytest.mark.parametrize("kernels", ["host", "device"])
def test_the_log_says_which_hooks_are_used(lammps, kernels):
    for comm, words, hooks in (
        ("device", "", "device"), ("host", "", "host"), ("no", "", "host"), ("no", "exchange device", "device"),
        ("device", "exchange host", "host"), ("device", "exchange auto", "device"),
    ):  # fmt: skip
        assert exchange_line(lammps, f"kernels {kernels} {words}", comm=comm)[0] == hooks


def test_exchanges_go_beside_other_work(lammps):
    """All exchanges of features overlap with other work; those of the forces that newton off sends home do not."""
    assert exchange_line(lammps, "kernels device", comm="device")[1] == "100.0"
    assert exchange_line(lammps, "kernels device", comm="no")[1] == "100.0"
    assert exchange_line(lammps, "kernels device overlap no", comm="device")[1] == "0.0"
    assert exchange_line(lammps, "kernels host", comm="device")[1] == "0.0"
    assert 50.0 < float(exchange_line(lammps, "kernels device", comm="device", neigh="full")[1]) < 100.0


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_check_of_forces_passes_on_the_device(lammps, ranks):
    test_the_check_of_forces_passes(lammps, ranks, ON_DEVICE)


# ---- what is refused ----


def test_device_hooks_need_a_communication_that_has_them(lammps):
    lines = salt(lammps, keywords="exchange device", setup=["comm_style tiled"])
    run = lammps.try_run(lines + ["run 0"], arguments=kokkos())
    assert run.returncode != 0 and "exchange device needs comm style brick" in run.errors[0]
    run = lammps.try_run(salt(lammps, keywords="exchange device") + ["run 0"])
    assert run.returncode != 0 and "exchange device needs the style equi/kk" in run.errors[0]


@pytest.mark.parametrize("style", ["equi/kk", "equi/kk/host", "equi/kk/device"])
def test_without_the_package_switched_on_it_is_refused(lammps, style):
    run = lammps.try_run([line.replace("pair_style equi", f"pair_style {style}") for line in salt(lammps)])
    assert run.returncode != 0 and len(run.errors) == 1
    assert "requires the KOKKOS package to be enabled: start LAMMPS with -k on" in run.errors[0]


# ---- second derivatives ----

NUM_MODES = 8  # three of these are translations
PRODUCTS = [
    "variable u atom sin(1.1*id+0.2)",
    "variable v atom cos(0.7*id)",
    "variable w atom sin(2.3*id+1.0)",
    "compute hvp all equi/hvp v_u v_v v_w",
    "dump hvp all custom 2 dump.hvp id c_hvp[*] fx fy fz",
    "dump_modify hvp sort id format float %.17g",
    "velocity all create 300 5 loop geom",
    "fix 1 all nve",
    "run 4",
    "equi_dynamical_matrix all eskm 1 binary yes file all.dyn",
    f"equi_modes all {NUM_MODES} tolerance 1e-8",
]


def second_derivatives(lammps, atoms, keywords, model, **options):
    """Products with a vector and forces at three steps of a run, the dynamical matrix, and its lowest eigenvalues."""
    run = lammps.run([*salt(lammps, atoms, keywords, model), *PRODUCTS], **options)
    products = np.concatenate([frame[:, 1:] for frame in run.frames("dump.hvp")])
    table = run.output.split("frequency (THz)   residual\n")[1]
    eigenvalues = [float(line.split()[1]) for line in table.splitlines()[:NUM_MODES]]
    return products, np.fromfile(run.folder / "all.dyn"), np.array(eigenvalues)


@pytest.mark.parametrize("name, ranks, threads, suffix, keywords", [
    ("sevennet", 1, 2, "kk", ""), ("sevennet", 3, 1, "kk", ""), ("sevennet", 1, 2, "kk", " kernels device"),
    ("sevennet", 2, 1, "kk/host", " kernels device"), ("sevennet", 4, 1, "kk", " kernels device"),
    ("mace", 2, 1, "kk", f" kernels device exchange host {SAME_TABLES}"), ("nequip", 2, 1, "kk", " kernels device radial exact"),
])  # fmt: skip
def test_second_derivatives_agree_with_plain(lammps, name, ranks, threads, suffix, keywords):
    model, atoms = MODELS[name]
    words = keywords.replace(" kernels device", "").replace(" exchange host", "")
    expected = second_derivatives(lammps, atoms, "precision double" + words, model)
    found = second_derivatives(
        lammps, atoms, "precision double" + keywords, model, ranks=ranks, threads=threads,
        arguments=kokkos(threads, suffix=("-sf", suffix), comm="device"),
    )  # fmt: skip
    for ours, plain, tolerance in zip(found, expected, (1e-10, 1e-10, 1e-7), strict=True):
        assert ours.shape == plain.shape
        assert np.abs(ours - plain).max() <= tolerance * np.abs(plain).max() > 0
