# SPDX-License-Identifier: MIT
"""Commands and computes with second derivatives: compared with autograd, LAMMPS's finite differences, and among
ranks."""


import numpy as np
import pytest
from ase.build import bulk
from equi_evaluator import EquiEvaluator
from equi_tools.lammps_runner import lammps_box
from lammps_script import rock_salt
from test_decomposition import corner, heavy_salt, liquid, oxide, primitive, rutile, sheared

# Relative to the largest component of H v.
EXACT_TOLERANCE = 1e-10
TABLE_TOLERANCE = 1e-6
RANK_TOLERANCE = 1e-12
# LAMMPS's dynamical_matrix evaluates forces at +-1e-3 Angstrom: its error is the third derivative of the forces over
# six, times 1e-6.
DIFFERENCE_TOLERANCE = 1e-4

CASES = {
    "sevennet_0": ("sevennet-0", rock_salt()),
    "sevennet_parity": ("parity", liquid()),
    "lmax3": ("lmax3", rock_salt((2, 1, 1))),
    "lmax3_parity": ("lmax3_parity", oxide()),
    "sheared": ("nequip", sheared()),
    "box_below_cutoff": ("sevennet-0", primitive()),
    "mace": ("mace/plain", oxide()),
    "mace_density": ("mace/density", heavy_salt()),
    "mace_nonlinear": ("mace/nonlinear_transform", rutile()),
    "mace_chebyshev": ("mace/chebyshev", rock_salt((2, 1, 1))),
    "mace_weights_of_features": ("mace/attention_all", oxide()),
    "mace_weights_of_features_late_cutoff": ("mace/attention_options", rock_salt()),
    "mace_weights_of_features_edge_irreps": ("mace/attention_edge_irreps", sheared()),
    "nequip": ("nequip/checkpoint_options", oxide()),
    "allegro": ("allegro/checkpoint_options", oxide()),
}

VARIABLES = [
    "variable u atom sin(1.1*id+0.2)",
    "variable v atom cos(0.7*id)",
    "variable w atom sin(2.3*id+1.0)",
    "compute hvp all equi/hvp v_u v_v v_w",
    "dump hvp all custom 1 dump.hvp id x y z c_hvp[1] c_hvp[2] c_hvp[3]",
    "dump_modify hvp sort id format float %.17g",
    "run 0",
]


def direction(num_atoms):
    n = np.arange(1, num_atoms + 1)
    return np.array([np.sin(1.1 * n + 0.2), np.cos(0.7 * n), np.sin(2.3 * n + 1.0)]).T


def setup(lammps, model, atoms, keywords="precision double"):
    symbols = sorted(set(atoms.get_chemical_symbols()))
    return ["units metal", *lammps.write(atoms), *lammps.pair(model, symbols, keywords)]


def product(lammps, model, atoms, keywords="precision double", ranks=1):
    run = lammps.run([*setup(lammps, model, atoms, keywords), *VARIABLES], ranks=ranks)
    return run.dump("dump.hvp")[:, 4:7]


@pytest.mark.parametrize("name", CASES)
def test_hessian_vector_products_equal_autograd(lammps, name):
    model, atoms = CASES[name]
    box = lammps_box(atoms)
    expected = EquiEvaluator(lammps.model(model)).hessian_vector(
        atoms.get_chemical_symbols(), box.positions, direction(len(atoms)), box.cell, box.periodic
    )
    largest = np.abs(expected).max()
    assert largest > 1e-3
    exact = np.abs(product(lammps, model, atoms, "precision double radial exact") - expected).max() / largest
    table = np.abs(product(lammps, model, atoms) - expected).max() / largest
    print(f"{name}: largest component {largest:.2e}, relative difference {exact:.1e} (exact), {table:.1e} (tables)")
    assert exact <= EXACT_TOLERANCE
    assert table <= TABLE_TOLERANCE


@pytest.mark.parametrize("model, atoms", [("sevennet-0", rock_salt((2, 1, 1))), ("mace/density", heavy_salt()),
                                          ("nequip", sheared()),
                                          pytest.param("sevennet-0", corner(), marks=pytest.mark.slow),
                                          pytest.param("mace/attention_all", oxide(), id="weights_of_features",
                                                       marks=pytest.mark.slow),
                                          pytest.param("mace/attention_options", corner(), id="weights_of_features_corner")])  # fmt: skip
def test_ranks_agree(lammps, model, atoms):
    one = product(lammps, model, atoms)
    for ranks, more in [(2, ""), (4, ""), (1, " deterministic yes"), (4, " deterministic yes")]:
        several = product(lammps, model, atoms, "precision double" + more, ranks)
        assert np.abs(several - one).max() <= RANK_TOLERANCE * np.abs(one).max(), (ranks, more)


def read_matrix(run, file, num_rows):
    return np.fromfile(run.folder / file).reshape(num_rows, -1)


@pytest.mark.parametrize("style", ["regular", "eskm"])
def test_dynamical_matrices_have_the_format_and_values_of_lammps(lammps, style):
    atoms = rock_salt()
    groups = ["group some id 2 3 7"]
    command = f"{style} 1e-3"
    run = lammps.run(
        [*setup(lammps, "sevennet-0", atoms), *groups]
        + [f"{name}dynamical_matrix some {command} file {name}text.dyn fold {fold}".replace("text", f"text{fold}")
           for name in ("", "equi_") for fold in ("no", "yes")]
        + [f"{name}dynamical_matrix all {command} binary yes file {name}all.dyn" for name in ("", "equi_")]
    )  # fmt: skip
    for fold, shape in (("no", (27, 3)), ("yes", (72, 3))):
        theirs = np.loadtxt(run.folder / f"text{fold}.dyn")
        ours = np.loadtxt(run.folder / f"equi_text{fold}.dyn")
        assert ours.shape == theirs.shape == shape
        assert np.abs(ours - theirs).max() <= DIFFERENCE_TOLERANCE * np.abs(ours).max()
        line = (run.folder / f"equi_text{fold}.dyn").read_text().splitlines()[0]
        assert all(len(word.split(".")[1]) == 8 for word in line.split())
    theirs, ours = read_matrix(run, "all.dyn", 24), read_matrix(run, "equi_all.dyn", 24)
    assert np.abs(ours - theirs).max() <= DIFFERENCE_TOLERANCE * np.abs(ours).max()
    assert np.abs(ours - ours.T).max() <= RANK_TOLERANCE * np.abs(ours).max()


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("command", ["equi_dynamical_matrix all regular 1", "equi_modes all 1", "equi_elastic"])
def test_gaps_in_ids_are_refused_with_the_command_that_closes_them(lammps, command, ranks):
    lines = [*setup(lammps, "plain", rock_salt()), "group gone id 3", "delete_atoms group gone compress no"]
    run = lammps.try_run([*lines, command], ranks=ranks)
    assert run.returncode != 0 and len(run.errors) == 1, run.output
    assert "IDs from 1 to the number of atoms without gaps: reset_atoms id numbers them anew" in run.errors[0]
    lammps.run([*lines, "reset_atoms id", command], ranks=ranks)


def sum_rule_error(matrix, masses):
    """Largest sum of force constants over the displaced atoms, relative to the largest force constant.

    Sums over the atoms on which forces act vanish for differences too, because forces sum to zero.
    """
    roots = np.sqrt(np.repeat(masses, 3))
    h = matrix * roots[:, None] * roots[None, :]
    return np.abs(h.reshape(-1, 3, len(h)).sum(0)).max() / np.abs(h).max()


def test_the_acoustic_sum_rule_holds_and_translations_of_the_crystal_are_found(lammps):
    atoms = bulk("NaCl", "rocksalt", 5.64, cubic=True) * (2, 1, 1)
    masses = atoms.get_masses()
    run = lammps.run(
        [*setup(lammps, "sevennet-0", atoms)]
        + [f"equi_dynamical_matrix all regular 1 binary yes file {word}.dyn translations {word}" for word in ("yes", "no")]
        + ["dynamical_matrix all regular 1e-2 binary yes file differences.dyn"]
    )
    assert "Translations that map the atoms onto themselves = 8" in run.output
    products = [int(line.split("=")[1]) for line in run.output.splitlines() if "Hessian-vector products" in line]
    assert products == [6, 48]
    few, all_rows = read_matrix(run, "yes.dyn", 48), read_matrix(run, "no.dyn", 48)
    # Equal up to the rounding of positions.
    assert np.abs(few - all_rows).max() <= 1e-10 * np.abs(few).max()
    ours = max(sum_rule_error(few, masses), sum_rule_error(all_rows, masses))
    theirs = sum_rule_error(read_matrix(run, "differences.dyn", 48), masses)
    print(f"acoustic sum rule, relative: {ours:.1e}, differences {theirs:.1e}")
    assert ours <= 1e-13 and ours <= 1e-3 * theirs


def test_dynamical_matrices_do_not_depend_on_ranks(lammps):
    atoms = rock_salt()
    lines = [*setup(lammps, "sevennet-0", atoms), "equi_dynamical_matrix all eskm 1 binary yes file all.dyn"]
    one = read_matrix(lammps.run(lines), "all.dyn", 24)
    two = read_matrix(lammps.run(lines, ranks=2), "all.dyn", 24)
    assert np.abs(two - one).max() <= RANK_TOLERANCE * np.abs(one).max()


def tables_of_modes(run, counts):
    """The lines that each equi_modes has printed for this many modes: rows of number, eigenvalue, frequency and
    residual."""
    tables = run.output.split("eigenvalue (THz^2")[1:]
    return [
        np.array([[float(x) for x in line.split()] for line in table.splitlines()[1 : 1 + count]])
        for table, count in zip(tables, counts, strict=True)
    ]


@pytest.mark.parametrize("ranks", [1, 2])
def test_lowest_modes_are_those_of_the_matrix(lammps, ranks):
    atoms = rock_salt((2, 1, 1), amplitude=0.05)
    count = 8
    run = lammps.run(
        [
            *setup(lammps, "sevennet-0", atoms),
            "group most id <> 1 15",
            "equi_dynamical_matrix all eskm 1 binary yes file all.dyn",
            "equi_dynamical_matrix most eskm 1 binary yes file most.dyn",
            f"equi_modes all {count} file all.dump tolerance 1e-7",
            f"equi_modes most {count} file most.dump tolerance 1e-7",
        ],
        ranks=ranks,
    )
    for found, group, num_atoms in zip(tables_of_modes(run, (count, count)), ("all", "most"), (16, 15), strict=True):
        matrix = read_matrix(run, f"{group}.dyn", 3 * num_atoms)
        values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
        assert np.abs(found[:, 1] - values[:count]).max() <= 1e-7 * values[-1]
        frequencies = np.sign(values) * np.sqrt(np.abs(values)) / (2 * np.pi)
        assert found[count - 1, 2] == pytest.approx(frequencies[count - 1], abs=1e-4)
        # Displacements of a mode, times the root of the mass, are an eigenvector.
        frame = run.frames(f"{group}.dump")[count - 1]
        assert frame.shape == (num_atoms, 8)
        assert np.sum(frame[:, 5:8] ** 2) == pytest.approx(1.0, abs=1e-8)
        masses = atoms.get_masses()[frame[:, 0].astype(int) - 1]
        x = (frame[:, 5:8] * np.sqrt(masses)[:, None]).ravel()
        residual = np.linalg.norm(matrix @ x - found[count - 1, 1] * x) / np.linalg.norm(x)
        assert residual <= 1e-6 * values[-1]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("change, is_refused", [
    ("create_atoms 1 random 3 7 NULL", True),
    ("delete_atoms group some compress no", True),
    ("displace_atoms all random 0.1 0.1 0.1 1", True),
    ("set group all type 1", True),
    ("minimize 1e-4 1e-4 2 4", False),
    ("velocity all scale 500", False),
])  # fmt: skip
@pytest.mark.parametrize("asked", ['print "flux $(c_flux[1])"', "write_dump all custom dump.hvp id c_hvp[1]"])
def test_computes_between_runs_refuse_atoms_that_have_changed(lammps, asked, change, is_refused, ranks):
    lines = [
        *setup(lammps, "plain", rock_salt()), "velocity all create 300 1", "group some id 1 2 5", *VARIABLES[:3],
        "compute hvp all equi/hvp v_u v_v v_w", "compute flux all equi/heat/flux", "run 1", change, asked,
    ]  # fmt: skip
    run = lammps.try_run(lines, ranks=ranks)
    assert (run.returncode != 0) == is_refused
    assert ("atoms have changed since forces were last computed" in run.output) == is_refused


def test_a_compute_waits_for_a_fix_that_has_numbers_of_some_steps(lammps):
    run = lammps.try_run(
        [
            *setup(lammps, "plain", rock_salt()),
            "variable zero atom 0.0",
            "fix mean all ave/atom 1 2 4 vx",
            "compute h all equi/hvp f_mean v_zero v_zero",
            "compute sum all reduce sum c_h[1]",
            "thermo_style custom step c_sum",
            "thermo 2",
            "run 4",
        ]
    )
    assert run.returncode != 0 and "fix mean has numbers of each 4 steps, and none of step 2" in run.output


# The translations, with which the search begins, have larger eigenvalues.
@pytest.mark.parametrize("ranks", [1, 2])
def test_few_modes_of_an_unstable_crystal_are_the_negative_ones(lammps, ranks):
    atoms = bulk("NaCl", "rocksalt", 4.4, cubic=True) * (2, 1, 1)
    counts = (1, 2, 3)
    run = lammps.run(
        [
            *setup(lammps, "sevennet-0", atoms),
            "equi_dynamical_matrix all eskm 1 binary yes file all.dyn",
            *[f"equi_modes all {count} file {count}.dump tolerance 1e-7" for count in counts],
        ],
        ranks=ranks,
    )
    matrix = read_matrix(run, "all.dyn", 3 * len(atoms))
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
    assert values[counts[-1] - 1] < -1e-3 * values[-1]
    for found in tables_of_modes(run, counts):
        count = len(found)
        assert np.abs(found[:, 1] - values[:count]).max() <= 1e-7 * values[-1]


def test_a_compute_reads_computes_and_fixes_and_leaves_out_other_atoms(lammps):
    run = lammps.run(
        [
            *setup(lammps, "sevennet-0", rock_salt()),
            "group some id 1 2 5",
            *VARIABLES[:3],
            "compute u all property/atom id type mass",
            "fix s all store/state 0 v_u v_v v_w",
            "compute from_compute some equi/hvp c_u[1] c_u[2] c_u[3]",
            "compute from_fix some equi/hvp f_s[1] f_s[2] f_s[3]",
            "compute from_variable some equi/hvp v_u v_v v_w",
            "dump all all custom 1 dump.all id c_from_fix[*] c_from_variable[*] c_from_compute[*]",
            "dump_modify all sort id format float %.17g",
            "run 0",
        ]
    )
    table = run.dump("dump.all")
    assert np.array_equal(table[:, 1:4], table[:, 4:7])
    assert np.abs(table[[0, 1, 4], 1:]).min() > 0 and np.abs(table[[2, 3, 5, 6, 7], 1:]).max() == 0


@pytest.mark.parametrize(
    "lines, words",
    [
        (["equi_dynamical_matrix all regular"], ["displacement"]),
        (["equi_dynamical_matrix all other 1"], ["regular or eskm", "other"]),
        (["equi_dynamical_matrix nobody eskm 1"], ["nobody"]),
        (["equi_dynamical_matrix all eskm 1 fold"], ["fold", "value"]),
        (["equi_dynamical_matrix all eskm 1 scale 2"], ["scale", "file, binary, fold, translations"]),
        (["equi_modes all 0"], ["positive"]),
        (["equi_modes all 25"], ["25 modes", "8 atoms"]),
        (["equi_modes all 2 mode 3"], ["mode", "file, tolerance, products, seed"]),
        (["compute h all equi/hvp v_a v_b"], ["three components"]),
        (["compute h all equi/hvp x y z"], ["v_NAME", "found x"]),
        (["compute h all equi/hvp v_a v_a v_a", "dump 1 all custom 1 dump.h c_h[1]", "run 0"], ["v_a"]),
        (["pair_style zero 5.0", "pair_coeff * *", "equi_modes all 1"], ["pair style equi as the only pair style"]),
    ],
)
def test_what_cannot_be_done_is_refused(lammps, lines, words):
    run = lammps.try_run([*setup(lammps, "sevennet-0", rock_salt()), *lines])
    assert run.returncode != 0 and run.errors
    assert all(word in run.errors[0] for word in words), run.errors
