# SPDX-License-Identifier: MIT
"""Conservation of energy and momentum, and memory, at usual sizes."""

import re

import numpy as np
import pytest
from ase.build import bulk

# Slope of a straight line through the total energy.
DRIFT = 1e-3  # meV/atom/ps
# Velocity of the center of mass, Angstrom/ps: every precision sums forces in float64 as opposite pairs.
CENTER_VELOCITY = 1e-11
BYTES_PER_ATOM = 100e3


def drift(lammps, precision, steps, repeat=3):
    """(slope in meV/atom/ps, its standard error, largest velocity of the center of mass) of hot rock salt."""
    atoms = bulk("NaCl", "rocksalt", 5.8, cubic=True) * (repeat, repeat, repeat)
    run = lammps.run(
        [
            "units metal", *lammps.write(atoms), *lammps.pair("sevennet-0", ["Cl", "Na"], f"precision {precision}"),
            # Half of the kinetic energy becomes vibrations of the perfect crystal.
            "velocity all create 2000 4928459 mom yes loop geom", "fix 1 all nve", "timestep 0.001",
            "thermo_style custom step etotal", "thermo_modify norm no",
            "variable p equal sqrt(vcm(all,x)^2+vcm(all,y)^2+vcm(all,z)^2)",
            'fix 2 all print 10 "TOTAL $(step*dt) $(etotal:%.17g) $(v_p:%.17g)" screen yes', f"run {steps}",
        ],
        threads=2, timeout=7200,
    )  # fmt: skip
    time, energy, momentum = run.values("TOTAL").T
    # While the crystal heats up, the discretized energy has another difference from the true one.
    late = time >= min(1.0, time[-1] / 4)
    (slope, _), covariance = np.polyfit(time[late], energy[late], 1, cov=True)
    factor = 1e3 / len(atoms)
    return slope * factor, np.sqrt(covariance[0, 0]) * factor, momentum.max()


@pytest.mark.slow
def test_nve_of_20_ps_does_not_drift(lammps):
    slope, error, momentum = drift(lammps, "mixed", 20000)
    print(f"mixed: {slope:.2e} +- {error:.1e} meV/atom/ps, center of mass {momentum:.1e} Angstrom/ps")
    assert momentum < CENTER_VELOCITY
    if abs(slope) > DRIFT:
        in_double, error_in_double, _ = drift(lammps, "double", 20000)
        print(f"double: {in_double:.2e} +- {error_in_double:.1e} meV/atom/ps")
        assert abs(slope) <= abs(in_double) + 2 * np.hypot(error, error_in_double)


def test_nve_of_half_a_picosecond_does_not_drift(lammps):
    """In this short time a fit resolves only a larger slope; a wrong force would show as 1 meV/atom/ps and more."""
    slope, error, momentum = drift(lammps, "mixed", 500, repeat=2)
    print(f"mixed: {slope:.2e} +- {error:.1e} meV/atom/ps, center of mass {momentum:.1e} Angstrom/ps")
    assert abs(slope) < 0.1 + 3 * error and error < 0.1
    assert momentum < CENTER_VELOCITY


def peak_bytes(lammps, repeat):
    """Largest resident size of a LAMMPS in a few steps."""
    atoms = bulk("NaCl", "rocksalt", 5.64, cubic=True) * repeat
    lines = [
        "units metal", *lammps.write(atoms), *lammps.pair("sevennet-0", ["Cl", "Na"], "precision mixed"),
        "velocity all create 600 1 loop geom", "fix 1 all nve", "run 3",
        "info memory",
    ]  # fmt: skip
    output = lammps.run(lines, threads=2).output
    return 1e6 * float(re.search(r"Maximum resident set size: +([\d.]+) Mbyte", output).group(1))


def test_memory_per_atom(lammps):
    small, large = peak_bytes(lammps, (4, 4, 4)), peak_bytes(lammps, (8, 8, 8))
    per_atom = (large - small) / (4096 - 512)
    print(f"peak {small / 1e6:.0f} MB for 512 atoms, {large / 1e6:.0f} MB for 4096: {per_atom / 1e3:.1f} kB/atom")
    assert 1e3 < per_atom <= BYTES_PER_ATOM
