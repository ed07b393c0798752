# SPDX-License-Identifier: MIT
"""Results do not depend on the decomposition into ranks: energy, pressure and forces agree to rounding.

Pressures are compared relative to the largest component of the tensor, because others may vanish by cancellation.
"""

import re
from dataclasses import dataclass, field

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.spacegroup import crystal
from equi_tools.lammps_runner import evaluate_with_ranks
from lammps_script import ARGUMENTS, KEYWORDS, Lammps, rock_salt

# Sums in another order: three digits above the rounding of the sums of the largest case.
ENERGY_TOLERANCE = 1e-12  # relative
PRESSURE_TOLERANCE = 1e-12  # relative to the largest component of the tensor
FORCE_TOLERANCE = 1e-10  # eV/Angstrom; relative if all forces are below 1 eV/Angstrom


@dataclass
class Case:
    model: str
    atoms: Atoms
    setup: list = field(default_factory=list)  # before the box exists
    after_data: list = field(default_factory=list)
    ranks: tuple = (2, 3, 4)
    symbols: list = None  # of pair_coeff, with NULL next to Lennard-Jones


def corner():
    """All atoms in one corner of a large box: most ranks own none."""
    atoms = rock_salt()
    atoms.set_cell([40.0, 40.0, 40.0])
    return atoms


def alone():
    """Atoms without neighbors, a dimer and a triangle, far apart in a periodic box."""
    positions = [[1, 1, 1], [12, 3, 25], [25, 25, 5], [26.5, 26.3, 5.4], [8, 20, 15], [9.9, 20.6, 15.3], [8.4, 21.8, 16.4]]
    return Atoms("NaClNaClNaClNa", positions=positions, cell=[30, 30, 30], pbc=True)


def sheared(repeat=(1, 2, 1)):
    """A cell so skewed that its images are far from a rectangular grid."""
    atoms = rock_salt(repeat)
    tilt = np.array([[0, 0, 0], [0.87, 0, 0], [-0.76, 0.85, 0]]) * np.diag(atoms.cell.array)
    atoms.set_cell(atoms.cell.array + tilt, scale_atoms=True)
    return atoms


def primitive():
    """Two atoms in a cell that is smaller than the cutoff in every direction."""
    atoms = bulk("NaCl", "rocksalt", 5.6)
    atoms.positions[1] += [0.11, -0.07, 0.19]
    return atoms


def liquid():
    """Molecules at different angles: several species in any surroundings."""
    atoms = Atoms(cell=[9, 9, 9], pbc=True)
    for k in range(6):
        part = molecule(["CH4", "H2O", "CO"][k % 3])
        part.rotate(50 * k, (1, 2, 3 + k))
        part.translate([4.5 * (k % 2), 4.5 * (k // 2 % 2), 4.5 * (k // 4)])
        atoms += part
    return atoms


def oxide():
    atoms = rock_salt((2, 1, 1))
    atoms.symbols[atoms.symbols == "Cl"] = "O"
    return atoms


def heavy_salt():
    atoms = rock_salt((2, 1, 1))
    atoms.symbols = np.where(atoms.symbols == "Na", "K", "Rb")
    return atoms


def rutile():
    """Two crossing chains of octahedra, with a heavy atom on every fourth site of titanium."""
    atoms = crystal(["Ti", "O"], [(0, 0, 0), (0.305, 0.305, 0)], spacegroup=136, cellpar=[4.59, 4.59, 2.96, 90, 90, 90])
    atoms = atoms.repeat((2, 2, 2))
    atoms.symbols[np.flatnonzero(atoms.symbols == "Ti")[::4]] = "Ba"
    atoms.rattle(0.1, seed=3)
    return atoms


def alloy():
    atoms = bulk("Cu", "fcc", 3.8, cubic=True).repeat((2, 2, 2))
    atoms.symbols[::3] = "Zr"
    atoms.rattle(0.1, seed=4)
    return atoms


TILED = dict(setup=["comm_style tiled"], after_data=["balance 1.0 rcb"])
EXCLUDED_GROUPS = ["group a id 1:5", "group b id 6:12", "neigh_modify exclude group a b"]

CASES = {
    "sevennet_0": Case("sevennet-0", rock_salt((2, 1, 1)), ranks=(2, 4)),
    "sevennet_0_tiled": Case("sevennet-0", rock_salt((2, 2, 2)), **TILED, ranks=(3,)),
    "sevennet_0_alone": Case("sevennet-0", alone(), ranks=(2,)),
    "l3i5": Case("sevennet-l3i5", rock_salt(), ranks=(2,)),
    "parity": Case("parity", liquid()),
    "lmax3": Case("lmax3", rock_salt((2, 2, 1))),
    "lmax3_parity_nequip": Case("lmax3_parity", oxide()),
    "nequip": Case("nequip", rock_salt((2, 2, 2))),
    "nequip_tiled": Case("nequip", rock_salt((2, 2, 2)), **TILED),
    "mace": Case("mace/plain", oxide()),
    "mace_tiled": Case("mace/float32", rock_salt((2, 2, 2)), **TILED, ranks=(2, 4)),
    "mace_density_and_repulsion": Case("mace/density", heavy_salt(), ranks=(2, 4)),
    "mace_nonlinear_four_neighborhoods": Case("mace/nonlinear_transform", rutile(), ranks=(2, 4)),
    "mace_four_layers": Case("mace/four_layers", alloy(), ranks=(2, 4)),
    "mace_weights_of_features": Case("mace/attention_all", oxide(), ranks=(2, 4)),
    "mace_weights_of_features_tiled": Case("mace/attention_edge_irreps", rock_salt((2, 2, 2)), **TILED, ranks=(3,)),
    "mace_weights_of_features_empty_ranks": Case("mace/attention_options", corner(), ranks=(2, 4)),
    "mace_empty_ranks": Case("mace/no_cutoff", corner(), ranks=(2, 4)),
    "mace_box_below_cutoff": Case("mace/ell3", primitive(), ranks=(2,)),
    "framework_nequip": Case("nequip/checkpoint_options", oxide(), ranks=(2, 4)),
    "framework_nequip_tiled": Case("nequip/torchscript_options", oxide(), **TILED, ranks=(2, 4)),
    "framework_nequip_empty_ranks": Case("nequip/float64", corner(), ranks=(2, 4)),
    "framework_allegro": Case("allegro/checkpoint_options", oxide(), ranks=(2, 4)),
    "framework_allegro_tiled": Case("allegro/torchscript_options", oxide(), **TILED, ranks=(2, 4)),
    "framework_allegro_empty_ranks": Case("allegro/float64", corner(), ranks=(2, 4)),
    "newton_off": Case("nequip", rock_salt((2, 2, 2)), setup=["newton off"], ranks=(2, 4)),
    "newton_off_tiled": Case("mace/plain", oxide(), setup=["newton off", *TILED["setup"]], after_data=TILED["after_data"], ranks=(3,)),
    "newton_off_empty_ranks": Case("nequip", corner(), setup=["newton off"], ranks=(2, 4)),
    "newton_off_box_below_cutoff": Case("lmax3", primitive(), setup=["newton off"], ranks=(2,)),
    "corner_balanced": Case("lmax3", corner(), after_data=["balance 1.0 shift xyz 20 1.0"], ranks=(4,)),
    "slabs_thinner_than_the_cutoff": Case("nequip", rock_salt((2, 2, 2)), setup=["processors 4 1 1"], ranks=(4,)),
    "pencils": Case("nequip", rock_salt((2, 2, 2)), setup=["processors 1 2 2"], ranks=(4,)),
    "thin_and_tiled": Case(
        "lmax3", rock_salt((1, 1, 2)), setup=["comm_style tiled", "processors 1 1 4"],
        after_data=["balance 1.0 shift z 20 1.0"], ranks=(4,),
    ),
    "empty_ranks": Case("nequip", corner()),
    "empty_ranks_tiled": Case("nequip", corner(), setup=["comm_style tiled"]),
    "alone": Case("nequip", alone()),
    "alone_tiled": Case("plain", alone(), **TILED),
    "box_below_cutoff": Case("nequip", primitive()),
    "box_below_cutoff_lmax3": Case("lmax3", primitive(), ranks=(2,)),
    "sheared": Case("nequip", sheared()),
    "sheared_tiled": Case("lmax3", sheared((2, 2, 2)), **TILED, ranks=(3,)),
    "gaps_between_ids": Case(
        "nequip", rock_salt((2, 1, 1)), after_data=["group gone id 3 7:9", "delete_atoms group gone compress no"]
    ),
    "excluded_pairs": Case("nequip", rock_salt((2, 1, 1)), after_data=EXCLUDED_GROUPS),
    "excluded_types": Case("nequip", rock_salt((2, 1, 1)), after_data=["neigh_modify exclude type 1 1"], ranks=(2,)),
    "more_ghosts_than_needed": Case("nequip", rock_salt((2, 1, 1)), after_data=["comm_modify cutoff 11.0"]),
    "one_type_is_null": Case("nequip", rock_salt((2, 1, 1)), symbols=["NULL", "Na"], ranks=(2, 4)),
}  # fmt: skip


def evaluate(build_dir, case, ranks):
    path = Lammps(build_dir, ".").model(case.model)
    # A grid of processors belongs to a number of ranks.
    setup = [line for line in case.setup if ranks > 1 or not line.startswith("processors")]
    pair_commands = None
    if case.symbols:
        pair_commands = [
            " ".join(["pair_style hybrid/overlay equi precision double", *KEYWORDS, "lj/cut 3.0"]),
            f'pair_coeff * * equi "{path}" {" ".join(case.symbols)}',
            "pair_coeff 1 * lj/cut 0.01 2.0",
        ]
    return evaluate_with_ranks(
        case.atoms, path, ranks=ranks, build_dir=build_dir, setup_commands=setup, after_data=case.after_data,
        pair_commands=pair_commands, extra_keywords=KEYWORDS, timeout=240, arguments=ARGUMENTS,
    )  # fmt: skip


_one_rank = {}


def one_rank(build_dir, name):
    if name not in _one_rank:
        _one_rank[name] = evaluate(build_dir, CASES[name], 1)
    return _one_rank[name]


def assert_equal(result, expected):
    assert np.isfinite(expected.energy) and np.isfinite(expected.forces).all()
    assert abs(result.energy - expected.energy) <= ENERGY_TOLERANCE * abs(expected.energy)
    largest = np.abs(expected.forces).max()
    assert np.abs(result.forces - expected.forces).max() <= FORCE_TOLERANCE * min(1.0, largest)
    assert np.abs(result.energies - expected.energies).max() <= ENERGY_TOLERANCE * abs(expected.energy)
    scale = np.abs(expected.stress).max()
    assert np.abs(result.stress - expected.stress).max() <= PRESSURE_TOLERANCE * scale


PARAMETERS = [(name, ranks) for name, case in CASES.items() for ranks in case.ranks]


@pytest.mark.parametrize("name,ranks", PARAMETERS, ids=[f"{n}-{r}" for n, r in PARAMETERS])
def test_ranks_agree_with_one_rank(build_dir, name, ranks):
    expected = one_rank(build_dir, name)
    result = evaluate(build_dir, CASES[name], ranks)
    scale = np.abs(expected.stress).max()
    print(
        f"{name} on {ranks} ranks: energy {abs(result.energy / expected.energy - 1):.1e} relative, "
        f"pressure {np.abs(result.stress - expected.stress).max() / scale:.1e} relative, "
        f"forces {np.abs(result.forces - expected.forces).max():.1e} eV/Angstrom"
    )
    assert_equal(result, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_eight_ranks_agree_with_one_rank(build_dir, name):
    case = CASES[name]
    # Grids of processors exist only for the rank counts of the default set.
    setup = ["processors 8 1 1" if line.startswith("processors") else line for line in case.setup]
    case = Case(case.model, case.atoms, setup, case.after_data, symbols=case.symbols)
    assert_equal(evaluate(build_dir, case, 8), one_rank(build_dir, name))


def test_excluding_pairs_changes_the_energy(build_dir):
    """Otherwise the cases with exclusions would prove nothing."""
    whole = evaluate(build_dir, Case("nequip", CASES["excluded_pairs"].atoms), 1)
    assert abs(whole.energy - one_rank(build_dir, "excluded_pairs").energy) > 1e-4
    assert abs(whole.energy - one_rank(build_dir, "excluded_types").energy) > 1e-4


def sent_per_atom(lammps, cells):
    """MB that a rank sends in a step, divided by its atoms, when all of them are neighbors of the other rank."""
    atoms = rock_salt((cells, 2, 2))
    atoms.positions[:, 0] += 1.41  # no plane of atoms between ranks
    atoms.wrap()
    lines = ["units metal", "processors 2 1 1", *lammps.write(atoms, ["Na", "Cl"]), *lammps.pair("sevennet-0", ["Na", "Cl"])]
    output = lammps.run([*lines, "run 0"], ranks=2).output
    return float(re.search(r"at most ([0-9.]+) MB/step", output)[1]) / (len(atoms) / 2)


def test_each_remote_atom_is_sent_once(lammps):
    """In a thin box LAMMPS makes many copies of it."""
    thin, thick = sent_per_atom(lammps, 1), sent_per_atom(lammps, 3)
    assert thin == pytest.approx(thick, rel=2e-3)
