# SPDX-License-Identifier: MIT
"""Compares forces, virials and per-atom quantities with each other, and checks that units and boxes do not matter."""

import numpy as np
import pytest
from equi_tools.lammps_runner import NKTV2P_METAL
from lammps_script import FORCE_DUMP, rock_salt
from test_decomposition import heavy_salt, liquid, oxide, primitive, rutile, sheared

# Richardson's extrapolation of two central differences: error of order step^4, rounding about 1e-15 E/step.
STEP = 1e-3
DIFFERENCE_TOLERANCE = 1e-7  # relative to the largest component
SUM_TOLERANCE = 1e-12  # sums over atoms against totals, relative

CASES = {
    "sevennet_0": ("sevennet-0", rock_salt()),
    "parity": ("parity", liquid()),
    "lmax3": ("lmax3", rock_salt((2, 1, 1))),
    "lmax3_parity_nequip": ("lmax3_parity", oxide()),
    "sheared": ("nequip", sheared()),
    "box_below_cutoff": ("xplor", primitive()),
    "mace": ("mace/plain", oxide()),
    "mace_density": ("mace/density", heavy_salt()),
    "mace_weights_of_features": ("mace/attention_all", oxide()),
    "mace_nonlinear": ("mace/nonlinear_transform", rutile()),
    "framework_nequip": ("nequip/checkpoint_options", oxide()),
    "framework_allegro": ("allegro/checkpoint_options", oxide()),
}


def system(lammps, name, keywords="precision double"):
    model, atoms = CASES[name]
    symbols = sorted(set(atoms.get_chemical_symbols()))
    return ["units metal", *lammps.write(atoms), *lammps.pair(model, symbols, keywords)]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_forces_are_minus_the_gradient_of_the_energy(lammps, name, ranks):
    run = lammps.run(
        [
            *system(lammps, name),
            f"fix fine all numdiff 1 {STEP}",
            f"fix coarse all numdiff 1 {2 * STEP}",
            "dump both all custom 1 dump.both id fx fy fz f_fine[1] f_fine[2] f_fine[3] f_coarse[1] f_coarse[2] f_coarse[3]",
            "dump_modify both sort id format float %.17g",
            "run 0",
        ],
        ranks=ranks,
    )
    table = run.dump("dump.both")
    forces, fine, coarse = table[:, 1:4], table[:, 4:7], table[:, 7:10]
    numeric = (4 * fine - coarse) / 3
    largest = np.abs(forces).max()
    error = np.abs(forces - numeric).max() / largest
    print(f"{name} on {ranks} ranks: largest force {largest:.2e} eV/Angstrom, relative difference {error:.1e}")
    assert largest > 1e-3
    assert error <= DIFFERENCE_TOLERANCE


@pytest.mark.parametrize("name", ["sevennet_0", "lmax3", "sheared", "box_below_cutoff"])
def test_virial_is_the_derivative_of_the_energy_by_strain(lammps, name):
    run = lammps.run(
        [
            *system(lammps, name),
            "compute virial all pressure NULL virial",
            "compute energy all pe",
            f"fix fine all numdiff/virial 1 {STEP / 10}",
            f"fix coarse all numdiff/virial 1 {STEP / 5}",
            "thermo_style custom step pe c_virial[*] f_fine[*] f_coarse[*]",
            "run 0",
            'print "VIRIAL $(c_virial[1]:%.17g) $(c_virial[2]:%.17g) $(c_virial[3]:%.17g) $(c_virial[6]:%.17g) $(c_virial[5]:%.17g) '
            '$(c_virial[4]:%.17g)"',
            *[
                f'print "{fix.upper()} '
                + " ".join(f"$(f_{fix}[{k}]:%.17g)" for k in range(1, 7))
                + '"'
                for fix in ("fine", "coarse")
            ],
        ]
    )
    # fix numdiff/virial orders its components xx yy zz yz xz xy.
    (virial,), (fine,), (coarse,) = run.values("VIRIAL"), run.values("FINE"), run.values("COARSE")
    error = np.abs(virial - (4 * fine - coarse) / 3).max() / np.abs(virial).max()
    print(f"{name}: relative difference {error:.1e}")
    assert error <= DIFFERENCE_TOLERANCE


@pytest.mark.parametrize("precision", ["double", "mixed"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_atoms_sum_up_to_the_system(lammps, precision, ranks):
    """Per-atom energies add up to pe; both per-atom virials to pressure times volume."""
    # 9 centroid components: xx yy zz xy xz yz yx zx zy.
    run = lammps.run(
        [
            *system(lammps, "sevennet_0" if precision == "double" else "lmax3", f"precision {precision}"),
            "compute energy all pe/atom",
            "compute stress all stress/atom NULL virial",
            "compute centroid all centroid/stress/atom NULL virial",
            "compute energies all reduce sum c_energy",
            "compute stresses all reduce sum c_stress[*]",
            "compute centroids all reduce sum c_centroid[*]",
            "compute virial all pressure NULL virial",
            "thermo_style custom step pe c_virial[*] c_energies c_stresses[*] c_centroids[*]",
            "thermo_modify norm no",
            "run 0",
            'print "ENERGY $(pe:%.17g) $(c_energies:%.17g)"',
            'print "VIRIAL ' + " ".join(f"$(vol*c_virial[{k}]:%.17g)" for k in range(1, 7)) + '"',
            'print "STRESS ' + " ".join(f"$(c_stresses[{k}]:%.17g)" for k in range(1, 7)) + '"',
            'print "CENTROID ' + " ".join(f"$(c_centroids[{k}]:%.17g)" for k in range(1, 10)) + '"',
        ],
        ranks=ranks,
    )
    ((pe, energies),) = run.values("ENERGY")
    (virial,), (stress,), (centroid,) = run.values("VIRIAL"), run.values("STRESS"), run.values("CENTROID")
    assert abs(pe - energies) <= SUM_TOLERANCE * abs(pe)
    scale = np.abs(virial).max()
    assert np.abs(virial + stress).max() <= SUM_TOLERANCE * scale
    assert np.abs(virial[:3] + centroid[:3]).max() <= SUM_TOLERANCE * scale
    # The total virial of a model that does not change with rotation is symmetric; in float32 only to its rounding.
    assert np.abs(virial[3:] + (centroid[3:6] + centroid[6:]) / 2).max() <= SUM_TOLERANCE * scale
    asymmetry = 1e-12 if precision == "double" else 1e-4
    assert np.abs(centroid[3:6] - centroid[6:]).max() <= asymmetry * scale


@pytest.mark.parametrize("ranks", [1, 2])
def test_heat_flux_with_centroid_stress_follows_its_definition(lammps, ranks):
    """J V = sum e_i v_i - sum S_i v_i, with the nine components of the centroid virial."""
    _, atoms = CASES["lmax3"]
    run = lammps.run(
        [
            *system(lammps, "lmax3"),
            "velocity all create 900 1234 loop geom",
            "compute ke all ke/atom",
            "compute pe all pe/atom",
            "compute centroid all centroid/stress/atom NULL virial",
            "compute flux all heat/flux ke pe centroid",
            "thermo_style custom step pe c_flux[*]",
            "dump all all custom 1 dump.flux id vx vy vz c_ke c_pe c_centroid[*]",
            "dump_modify all sort id format float %.17g",
            "run 0",
            'print "FLUX $(c_flux[1]:%.17g) $(c_flux[2]:%.17g) $(c_flux[3]:%.17g)"',
        ],
        ranks=ranks,
    )
    table = run.dump("dump.flux")
    v, energy, s = table[:, 1:4], table[:, 4] + table[:, 5], table[:, 6:15] / NKTV2P_METAL
    tensor = np.stack([s[:, [0, 3, 4]], s[:, [6, 1, 5]], s[:, [7, 8, 2]]], axis=1)
    expected = energy @ v - np.einsum("iab,ib->a", tensor, v)
    assert np.abs(tensor).max() > 1e-4 and len(table) == len(atoms)
    (flux,) = run.values("FLUX")
    # LAMMPS's constant of the pressure unit and its inverse agree to six digits.
    assert np.abs(flux - expected).max() <= 1e-6 * np.abs(expected).max()


def test_centroid_virial_does_not_depend_on_ranks(lammps):
    dump = [
        "compute centroid all centroid/stress/atom NULL virial",
        "dump all all custom 1 dump.centroid id c_centroid[*]",
        "dump_modify all sort id format float %.17g",
        "run 0",
    ]
    tables = [lammps.run(system(lammps, "lmax3") + dump, ranks=r).dump("dump.centroid")[:, 1:] for r in (1, 2, 3)]
    for table in tables[1:]:
        assert np.abs(table - tables[0]).max() <= 1e-12 * np.abs(tables[0]).max()


@pytest.mark.parametrize("ranks", [1, 3])
def test_newton_off_changes_nothing(lammps, ranks):
    """The pair style itself then returns the ghosts' contributions to their owners."""
    output = [
        "compute stress all stress/atom NULL virial",
        "compute centroid all centroid/stress/atom NULL virial",
        "dump all all custom 1 dump.all id fx fy fz c_stress[*] c_centroid[*]",
        "dump_modify all sort id format float %.17g",
        "run 0",
    ]
    lines = system(lammps, "lmax3") + output
    on, off = (lammps.run([lines[0], f"newton {n}", *lines[1:]], ranks=k).dump("dump.all")[:, 1:] for n, k in (("on", 1), ("off", ranks)))
    for columns in (slice(0, 3), slice(3, 18)):
        assert np.abs(on[:, columns] - off[:, columns]).max() <= 1e-12 * np.abs(on[:, columns]).max()


@pytest.mark.parametrize("name", ["lmax3", "sheared"])
def test_units_real_are_converted(lammps, name):
    # LAMMPS's own constants: kcal/mol per eV, and pressures of metal (bar) and real (atm).
    kcal_per_ev = 23.060549
    nktv2p_real = 68568.415
    output = [
        "compute virial all pressure NULL virial",
        "thermo_style custom step pe c_virial[*]",
        *FORCE_DUMP,
        "run 0",
        'print "RESULT $(pe:%.17g) ' + " ".join(f"$(c_virial[{k}]:%.17g)" for k in range(1, 7)) + '"',
    ]
    lines = system(lammps, name) + output
    metal = lammps.run(lines)
    (in_metal,), forces_metal = metal.values("RESULT"), metal.dump("dump.forces")
    real = lammps.run(["units real", *lines[1:]])
    (in_real,), forces_real = real.values("RESULT"), real.dump("dump.forces")
    assert in_real[0] == pytest.approx(in_metal[0] * kcal_per_ev, rel=1e-12)
    largest = np.abs(forces_real).max()
    assert np.abs(forces_real[:, 1:] - kcal_per_ev * forces_metal[:, 1:]).max() <= 1e-12 * largest
    expected = in_metal[1:] * kcal_per_ev * nktv2p_real / NKTV2P_METAL
    assert np.abs(in_real[1:] - expected).max() <= 1e-12 * np.abs(expected).max()
