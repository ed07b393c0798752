# SPDX-License-Identifier: MIT
"""What the oracles of the frameworks share: their ASE calculators, and imports without noise."""

import contextlib
import importlib.util
import sys
import types
import warnings

import numpy as np
from ase.calculators.calculator import Calculator, all_changes
from ase.stress import full_3x3_to_voigt_6_stress

from ...errors import EquiError
from .origin import Origin

SCATTER = "torch_scatter"


def loaded(source, load):
    """The checkpoint of a source, which may already be one."""
    return source if isinstance(source, Origin) else load(source)


@contextlib.contextmanager
def quiet():
    """Suppresses warnings inside this context."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def importing(need, errors=ImportError):
    """Imports a framework without warnings; raises EquiError, which begins with `need`, if one of the imports raises
    `errors`."""
    with quiet():
        try:
            yield
        except errors as error:
            raise EquiError(f"{need} ({error})") from error


def _sum_by_index(src, index, dim=0, dim_size=None, reduce="sum"):
    """Sums of the rows of src with the same index."""
    if dim != 0 or reduce not in ("sum", "add"):
        raise NotImplementedError(f"scatter along {dim} by {reduce}: install torch-scatter")
    rows = int(index.max()) + 1 if dim_size is None else int(dim_size)
    return src.new_zeros((rows, *src.shape[1:])).index_add(0, index, src)


@contextlib.contextmanager
def importing_scatter():
    """Replaces the package torch-scatter for imports inside this context, if it is not installed. PyPI has it as
    sources alone, and the frameworks use one of its functions."""
    if importlib.util.find_spec(SCATTER) is not None:
        yield
        return
    sys.modules[SCATTER] = types.ModuleType(SCATTER)
    sys.modules[SCATTER].scatter = _sum_by_index
    try:
        yield
    finally:
        del sys.modules[SCATTER]


@contextlib.contextmanager
def default_dtype(dtype):
    """Sets torch's default dtype inside this context."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class Oracle(Calculator):
    """A framework's modules as ASE calculator.  `elements` are the chemical symbols that the model knows."""

    elements = ()
    implemented_properties = ["energy", "free_energy", "energies", "forces", "stress"]

    def set_results(self, energy, forces, energies=None, stress=None, virial=None):
        """energies: of atoms, if the framework has them. virial: derivative [3, 3] of the energy by a strain, or
        stress: this divided by the volume. Both are omitted for structures without a volume."""
        self.results = {"energy": energy, "free_energy": energy, "forces": forces}
        if energies is not None:
            self.results["energies"] = np.asarray(energies).reshape(-1)
        volume = self.atoms.cell.volume
        if virial is not None and volume > 1e-3:
            stress = full_3x3_to_voigt_6_stress(virial / volume)
        if stress is not None and volume > 1e-3:
            self.results["stress"] = stress

    def set_results_of_edges(self, energies, slopes, i, j, vectors):
        """energies: of atoms; slopes [E, 3]: derivatives of their sum by the vectors [E, 3] from atoms i to atoms j."""
        forces = np.zeros((len(self.atoms), 3))
        np.add.at(forces, i, slopes)
        np.add.at(forces, j, -slopes)
        self.set_results(energies.sum(), forces, energies, virial=vectors.T @ slopes)

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        """Stores the structure; raises EquiError for elements that the model does not know."""
        super().calculate(atoms, properties, system_changes)
        unknown = sorted(set(self.atoms.get_chemical_symbols()) - set(self.elements))
        if unknown:
            raise EquiError(f"the model does not know {', '.join(unknown)}")
