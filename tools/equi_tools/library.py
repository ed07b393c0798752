# SPDX-License-Identifier: MIT
"""libequi.so in this process: the C interface of equi.h (doc/c_interface.rst) for numpy arrays.

Units are eV and Angstrom; stresses are positive under tension.
"""

import ctypes
import os
import weakref
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from .errors import EquiError
from .lammps_runner import build_folder

FILE = "libequi.so.1"
API_VERSION = 2


OBSERVABLES = {"charge": 1, "dipole": 3, "polarizability": 6, "spin": 1}  # numbers of an atom


@dataclass
class Result:
    energy: float
    energies: np.ndarray  # [N]
    forces: np.ndarray  # [N, 3]
    stress: np.ndarray  # [6]: xx yy zz yz xz xy, or None if it was not requested


def library_file():
    """The library of EQUI_LIBRARY, of the build folder or of the Python wheel; EquiError if there is none."""
    named = os.environ.get("EQUI_LIBRARY")
    path = Path(named) if named else build_folder().resolve() / "lib" / FILE
    if not path.is_file():
        raise EquiError(
            f"there is no {path}: install the wheel of equi, or build the target equi_library and set EQUI_BUILD_DIR to the "
            "build folder"
        )
    return path


@lru_cache
def _loaded(path):
    numbers, words = ctypes.c_void_p, ctypes.c_char_p
    try:
        library = ctypes.CDLL(str(path))
        functions = {
            "equi_api_version": (ctypes.c_int, []),
            "equi_last_error": (words, []),
            "equi_create": (ctypes.c_void_p, [words, words, words]),
            "equi_free": (None, [ctypes.c_void_p]),
            "equi_describe": (words, [ctypes.c_void_p]),
            "equi_set_atoms": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, numbers, numbers, numbers, numbers]),
            "equi_compute": (ctypes.c_int, [ctypes.c_void_p, *[numbers] * 5]),
            "equi_hessian": (ctypes.c_int, [ctypes.c_void_p, numbers]),
            "equi_compute_observable": (ctypes.c_int, [ctypes.c_void_p, words, numbers]),
            "equi_observable_unit": (words, [ctypes.c_void_p, words]),
            "equi_born_charges": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, numbers, numbers]),
        }
        for name, (result, arguments) in functions.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise EquiError(f"cannot load {path}: {error}") from error
    if library.equi_api_version() < API_VERSION:
        raise EquiError(f"{path} is too old: it has version {library.equi_api_version()} of equi.h, {API_VERSION} is needed")
    return library


def _pointer(array):
    return None if array is None else array.ctypes.data


class LibraryCalculator:
    """A model file in libequi.so, with the neighbor list of the structure that it evaluated last.

    `close` frees it; this also happens when it is garbage-collected, and before Python ends.
    """

    def __init__(self, model_file, symbols, keywords=""):
        """symbols: elements of the structures; keywords: as for pair_style equi, and `threads NUMBER`."""
        self._library = _loaded(library_file())
        self.symbols = list(dict.fromkeys(symbols))
        self._handle = self._library.equi_create(
            os.fsencode(model_file), " ".join(self.symbols).encode(), keywords.encode()
        )
        if not self._handle:
            raise self._failure()
        self.close = weakref.finalize(self, self._library.equi_free, self._handle)

    def _failure(self):
        return EquiError(self._library.equi_last_error().decode(errors="backslashreplace"))

    def _check(self, status):
        if status != 0:
            raise self._failure()

    def describe(self):
        """Lines about the model, precision, kernels and threads."""
        text = self._library.equi_describe(self._handle)
        if text is None:
            raise self._failure()
        return text.decode(errors="backslashreplace")

    def set_atoms(self, atoms):
        """Takes a structure of ASE, whose elements must be among `symbols`."""
        types = np.array([self.symbols.index(symbol) for symbol in atoms.symbols], np.intc)
        positions = np.ascontiguousarray(atoms.positions, float)
        cell, periodic = np.ascontiguousarray(atoms.cell.array, float), np.ascontiguousarray(atoms.pbc, np.intc)
        self._check(
            self._library.equi_set_atoms(
                self._handle, len(atoms), _pointer(types), _pointer(positions), _pointer(cell), _pointer(periodic)
            )
        )
        self._num_atoms = len(atoms)

    def compute(self, has_stress):
        """Result for the structure."""
        energy, energies = np.zeros(1), np.zeros(self._num_atoms)
        forces, stress = np.zeros((self._num_atoms, 3)), np.zeros(6) if has_stress else None
        self._check(
            self._library.equi_compute(
                self._handle, _pointer(energy), _pointer(energies), _pointer(forces), None, _pointer(stress)
            )
        )
        return Result(float(energy[0]), energies, forces, stress)

    def has_observable(self, name):
        """Whether the model computes "charge", "dipole", "polarizability" or "spin" of atoms."""
        return self._library.equi_observable_unit(self._handle, name.encode()) is not None

    def observable(self, name):
        """Charges [N] in e, dipoles [N, 3] in e Angstrom, polarizabilities [N, 6] (xx yy zz yz xz xy) of the atoms, or
        spins [N], electrons of spin up minus those of spin down.

        EquiError if the model has none.
        """
        values = np.zeros((self._num_atoms, OBSERVABLES[name]))
        self._check(self._library.equi_compute_observable(self._handle, name.encode(), _pointer(values)))
        return values[:, 0] if OBSERVABLES[name] == 1 else values

    def born_charges(self, neutral=False):
        """Born effective charges [N, 3, 3] in e, and derivatives of the total charge [N, 3] in e/Angstrom.

        The second index is that of the polarization, the third that of the position. neutral: charges are reduced by
        their mean, and Born charges sum to 0. EquiError if the model has neither charges nor dipoles.
        """
        born, derivatives = np.zeros((self._num_atoms, 3, 3)), np.zeros((self._num_atoms, 3))
        self._check(self._library.equi_born_charges(self._handle, neutral, _pointer(born), _pointer(derivatives)))
        return born, derivatives

    def hessian(self):
        """Second derivatives of the energy by positions [3N, 3N], eV/Angstrom^2."""
        size = 3 * self._num_atoms
        matrix = np.zeros((size, size))
        self._check(self._library.equi_hessian(self._handle, _pointer(matrix)))
        return matrix
