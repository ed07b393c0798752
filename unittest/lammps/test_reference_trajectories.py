"""100 steps at constant energy against trajectories that the frameworks made (unittest/trajectories)."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms, units
from equi_tools import equi_file
from equi_tools.lammps_runner import NKTV2P_METAL, Box, equi_commands, write_data
from lammps_script import KEYWORDS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trajectories"))

import reference_trajectory  # noqa: E402
from reference_trajectory import MVV2E, TIMESTEP  # noqa: E402

NAMES = sorted(file.stem for file in reference_trajectory.FOLDER.glob("*.npz"))


@dataclass
class Differences:
    """Largest absolute differences over all frames, atoms and components."""

    position: float  # Angstrom
    velocity: float  # Angstrom/ps
    force: float  # eV/Angstrom
    energy: float  # eV, of all atoms
    stress: float  # eV/Angstrom^3

    def over(self, bars):
        """Names of what is over its bar; NaN is over every bar."""
        return [name for name, bar in vars(bars).items() if not getattr(self, name) <= bar]


# In `double` both sides compute the same function in float64; the default radial table adds 1e-10. The promise is 1e-6
# Angstrom; the bars are lower, so that they see a weight that is wrong in its seventh digit.
DOUBLE = Differences(position=1e-8, velocity=1e-6, force=1e-7, energy=1e-7, stress=1e-9)
EXACT = Differences(position=1e-8, velocity=1e-6, force=1e-7, energy=1e-7, stress=1e-9)
MIXED = Differences(position=1e-4, velocity=1e-2, force=1e-3, energy=1e-3, stress=1e-5)


def model_of(lammps, trajectory):
    """The converted file of the model that the trajectory was made with."""
    made = trajectory.made
    sevennet = made["model"] == "7net-0"
    file = lammps.model("sevennet-0" if sevennet else f"trajectories/{Path(made['model']).stem}")
    found = equi_file.read(file)[0]["provenance"]["sha256"]
    assert found == made["sha256"], f"{file} was converted from another file than the {made['model']} of the trajectory"
    return file


def structure(trajectory):
    return Atoms(trajectory.symbols.tolist(), positions=trajectory.positions[0], cell=trajectory.cell, pbc=trajectory.pbc)


def run(lammps, trajectory, pair, symbols, **options):
    """What LAMMPS makes of the first frame, in the arrays and units of the trajectory."""
    # Not through lammps_box: the trajectory is in LAMMPS's frame already, and shall not be rounded once more.
    box = Box(trajectory.cell, trajectory.positions[0], trajectory.pbc, np.eye(3))
    write_data(lammps.folder / "data.structure", structure(trajectory), symbols, box)
    with open(lammps.folder / "data.structure", "a") as file:
        file.write("\nVelocities\n\n")
        file.writelines(f"{n} {v[0]:.17g} {v[1]:.17g} {v[2]:.17g}\n" for n, v in enumerate(trajectory.velocities[0], 1))
    masses = dict(zip(trajectory.symbols, trajectory.masses))
    every = np.diff(trajectory.steps)[0]
    virial = " ".join(f"$(c_virial[{k}]:%.17g)" for k in range(1, 7))
    lines = [
        "units metal", "atom_style atomic", "boundary " + " ".join("p" if p else "f" for p in trajectory.pbc),
        "atom_modify map yes", "box tilt large", "read_data data.structure",
        *[f"mass {n} {masses[symbol]:.17g}" for n, symbol in enumerate(symbols, 1)],
        "neighbor 1.0 bin", *pair,
        f"timestep {TIMESTEP}", "fix 1 all nve", "compute virial all pressure NULL virial",
        f"thermo {every}", "thermo_style custom step pe c_virial[*]", "thermo_modify norm no",
        f'fix 2 all print {every} "FRAME $(step) $(pe:%.17g) {virial}" screen yes',
        f"dump all all custom {every} dump.all id xu yu zu vx vy vz fx fy fz",
        "dump_modify all sort id format float %.17g",
        f"run {trajectory.steps[-1]}",
    ]  # fmt: skip
    result = lammps.run(lines, **options)
    printed = result.values("FRAME")
    frames = np.array(result.frames("dump.all"))
    assert np.array_equal(printed[:, 0], trajectory.steps) and frames.shape[0] == len(trajectory.steps)
    return {
        "position": frames[:, :, 1:4],
        "velocity": frames[:, :, 4:7],
        "force": frames[:, :, 7:10],
        "energy": printed[:, 1],
        # LAMMPS's order is xx yy zz xy xz yz, and its pressure minus the stress.
        "stress": -printed[:, 2:][:, [0, 1, 2, 5, 4, 3]] / NKTV2P_METAL,
    }


def differences(lammps, name, precision="double", radial=None, ranks=1, model=None):
    trajectory = reference_trajectory.load(name)
    symbols = sorted(set(trajectory.symbols))
    pair = equi_commands(model or model_of(lammps, trajectory), symbols, precision, radial, KEYWORDS)
    found = run(lammps, trajectory, pair, symbols, ranks=ranks)
    expected = {
        "position": trajectory.positions,
        "velocity": trajectory.velocities,
        "force": trajectory.forces,
        "energy": trajectory.energies,
        "stress": trajectory.stresses,
    }
    result = Differences(**{key: np.abs(found[key] - expected[key]).max() for key in expected})
    values = ", ".join(f"{key} {value:.1e}" for key, value in vars(result).items())
    print(f"{name}, {precision}, radial {radial or 'default'}, {ranks} ranks: {values}")
    return result


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("name", NAMES)
def test_double_follows_the_framework(lammps, name, ranks):
    assert differences(lammps, name, ranks=ranks).over(DOUBLE) == []


@pytest.mark.parametrize("name", NAMES)
def test_exact_radial_functions_follow_the_framework(lammps, name):
    assert differences(lammps, name, radial="exact").over(EXACT) == []


@pytest.mark.parametrize("name", NAMES)
def test_mixed_follows_the_framework(lammps, name):
    assert differences(lammps, name, "mixed").over(MIXED) == []
