# SPDX-License-Identifier: MIT
"""examples/water_spectra: dipoles and polarizabilities next to a potential, and the spectra of what is known: oscillators, and
the vibrations of one molecule."""

import sys
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms, units
from ase.build import molecule
from ase.optimize import BFGS
from equi_tools.ase import EquiCalculator

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "water_spectra"))
import spectra  # noqa: E402

POTENTIAL, DIELECTRIC = (ROOT / "potentials" / name for name in ("water.equi", "water-dielectric.equi"))
SUM = 1e-9  # sums of some hundred atoms in another order, in units of the quantity
PRINTED = " ".join(f"$(c_mu[{k}]:%.15g)" for k in (1, 2, 3)) + " " + " ".join(f"$(c_alpha[{k}]:%.15g)" for k in range(1, 7))
PAIR = [
    "pair_style hybrid/overlay equi precision double equi precision double", f'pair_coeff * * equi 1 "{POTENTIAL}" O H',
    f'pair_coeff * * equi 2 "{DIELECTRIC}" O H', "compute mu all equi/dipole", "compute alpha all equi/polarizability",
]  # fmt: skip


def droplet(count=5, seed=1):
    rng, atoms = np.random.default_rng(seed), Atoms()
    for n in range(count):
        one = molecule("H2O")
        one.rotate(rng.uniform(0, 360), rng.standard_normal(3))
        one.translate(2.9 * np.array([n % 2, n // 2 % 2, n // 4]) + 0.1 * rng.standard_normal(3))
        atoms += one
    return atoms


def observed(lammps, atoms, ranks=1):
    """Dipole and polarizability, in the frame of the atoms."""
    commands = ["units metal", *lammps.write(atoms, ["O", "H"]), *PAIR, "thermo_style custom step pe c_mu[1] c_alpha[1]", "run 0"]
    found = lammps.run([*commands, f'print "FOUND {PRINTED}"'], ranks=ranks).values("FOUND")[0]
    xx, yy, zz, xy, xz, yz = found[3:]
    return found[:3], np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def test_dipole_and_polarizability_turn_with_the_molecules(lammps):
    atoms = droplet()
    dipole, alpha = observed(lammps, atoms)
    assert np.linalg.norm(dipole) > 0.1 and np.trace(alpha) / 3 / 5 == pytest.approx(1.4, abs=0.3)
    turned = atoms.copy()
    turned.rotate(50, (1, 2, 3))
    matrix = np.linalg.lstsq(atoms.positions, turned.positions, rcond=None)[0].T
    other_dipole, other_alpha = observed(lammps, turned)
    assert np.abs(other_dipole - matrix @ dipole).max() < SUM
    assert np.abs(other_alpha - matrix @ alpha @ matrix.T).max() < SUM
    # Without charges a dipole does not depend on the origin.
    calculator = EquiCalculator(DIELECTRIC, precision="double", threads=1)
    for shift in (0.0, 100.0):
        atoms.positions += shift
        atoms.calc = calculator
        assert np.all(atoms.get_charges() == 0.0)
        assert np.abs(atoms.get_dipole_moment() - dipole).max() < SUM


def test_ranks_compute_the_same(lammps):
    box = droplet(12)
    box.set_cell([9.0, 9.0, 12.0])
    box.pbc = True
    one, other = observed(lammps, box), observed(lammps, box, ranks=2)
    for first, second in zip(one, other):
        assert np.abs(first - second).max() < SUM


def oscillators(frequencies, amplitude, interval, count):
    """Rows of spectra.dat: each component of the dipole and of the polarizability is a sum of oscillators."""
    rng, time = np.random.default_rng(3), interval * np.arange(count)
    columns = [
        sum(amplitude * np.cos(2 * np.pi * spectra.LIGHT * f * time + rng.uniform(0, 2 * np.pi)) for f in frequencies) for _ in range(9)
    ]
    return np.column_stack([4 * np.arange(count), np.full(count, 1900.0), np.full(count, 300.0), *columns])


def test_known_oscillators_have_their_bands_and_their_strength():
    frequencies, amplitude, interval = (700.0, 1640.0, 3400.0), 0.1, 0.002
    table = oscillators(frequencies, amplitude, interval, 20000)
    axis, found = spectra.spectra(table, interval, 400)
    for name, spectrum in found.items():
        for frequency, band in zip(frequencies, spectra.BANDS.values()):
            assert spectra.position(axis, spectrum, band) == pytest.approx(frequency, abs=2.0), name
    # The integral over a band: 3 components with the mean square of dM/dt.
    for frequency, (low, high) in zip(frequencies, spectra.BANDS.values()):
        inside = (axis > low) & (axis < high)
        area = found["infrared"][inside].sum() * (axis[1] - axis[0])
        rate = 2 * np.pi * spectra.LIGHT * frequency * amplitude
        energy = spectra.BOLTZMANN * 300
        expected = 3 * rate**2 / 2 / (2 * spectra.LIGHT) / (6 * spectra.VACUUM * spectra.LIGHT * 1900 * energy)
        assert area == pytest.approx(expected, rel=0.03)


def test_an_isotropic_motion_is_not_in_the_depolarized_spectrum():
    table = oscillators((1640.0,), 0.1, 0.002, 4000)
    table[:, 7:9], table[:, 9:12] = table[:, 6:7], 0.0
    _, found = spectra.spectra(table, 0.002, 200)
    assert np.abs(found["VH"]).max() < 1e-12 * found["VV"].max()


def test_one_molecule_has_the_frequencies_of_its_normal_modes(lammps):
    """The spectrum of small vibrations, and second derivatives of the same potential."""
    atoms = molecule("H2O")
    atoms.set_masses([15.999, 1.008, 1.008])
    atoms.calc = EquiCalculator(POTENTIAL, precision="double", threads=1)
    BFGS(atoms, logfile=None).run(fmax=1e-5)
    root = np.sqrt(np.repeat(atoms.get_masses(), 3))
    values = np.linalg.eigvalsh(atoms.calc.hessian(atoms).reshape(9, 9) / np.outer(root, root))[-3:]
    modes = np.sqrt(values) * units._hbar * 1e10 / np.sqrt(units._e * units._amu) / units.invcm

    timestep, every, steps = 0.00025, 8, 24000
    run = [
        "units metal", *lammps.write(atoms, ["O", "H"]), "mass 1 15.999", "mass 2 1.008", *PAIR,
        "velocity all create 4 4928459 mom yes rot yes dist gaussian", f"timestep {timestep}", "fix 1 all nve",
        f"fix out all ave/time {every} 1 {every} c_mu[1] c_mu[2] c_mu[3] c_alpha[*] format ' %.12g' file out.dat", f"run {steps}",
    ]  # fmt: skip
    lammps.run(run)
    numbers = np.loadtxt(lammps.folder / "out.dat")
    table = np.insert(numbers, 1, [[1000.0], [4.0]], axis=1)
    axis, found = spectra.spectra(table, timestep * every, 700)
    spectrum = found["infrared"]
    bend = spectra.position(axis, spectrum, (1200, 2000))
    assert bend == pytest.approx(modes[0], abs=4.0)
    # The two stretches may be closer than the width of a band: their mean frequency lies between them.
    assert modes[1] - 8 < spectra.position(axis, spectrum, (2800, 4200)) < modes[2] + 8
