"""Writes mace-0.3.8.model.xz and mace-0.3.6-lammps.pt.xz, tiny random models as mace of that time wrote them, and next
to each its own energies, forces and stresses in float64.

    pip install --no-deps --target old mace-torch==0.3.8
    PYTHONPATH=old:../../tools:../python:../tools/converters python make_mace_old.py

in an environment of MACE (tools/requirements-mace.txt), and the same with mace-torch==0.3.6.  Debugging records of
compiled code are left out; nothing reads them.
"""

import io
import lzma
import sys
import tempfile
import zipfile
from pathlib import Path

import mace
import numpy as np
import torch
from equi_tools.frameworks.mace import oracle as mace_oracle
from test_mace import all_structures
from test_models import mace as mace_models

# e3nn packs its compiled code into the pickled module by this function.
torch_save = torch.jit.save
torch.jit.save = lambda module, buffer: save_without_debugging_records(module, buffer)

# Irreps of a convolution that the next layer has merged, a pair repulsion with a cutoff of its own, and a power that is
# a float; then TorchScript without heads.
OPTIONS = {
    "0.3.8": dict(
        elements=(1, 8), hidden="3x0e+3x1o", max_ell=2, correlation=2, first=mace_models.DENSITY,
        blocks=mace_models.DENSITY_RESIDUAL, distance_transform="Agnesi", zbl=True, radial_MLP=(5,), num_bessel=4, mlp=4,
        heads=("one", "two"),
    ),
    "0.3.6": dict(
        elements=(11, 17), hidden="3x0e+3x1o", max_ell=2, correlation=2, first=mace_models.PLAIN, radial_MLP=(5,), num_bessel=4,
        mlp=4, zbl=True,
    ),
}  # fmt: skip


def without_debugging_records(data):
    stripped = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(stripped, "w") as target:
        for name in source.namelist():
            if not name.endswith(".debug_pkl"):
                target.writestr(zipfile.ZipInfo(name), source.read(name))
    return stripped.getvalue()


def save_without_debugging_records(module, buffer):
    whole = io.BytesIO()
    torch_save(module, whole)
    buffer.write(without_debugging_records(whole.getvalue()))


def main():
    version = mace.__version__
    options, target = OPTIONS[version], Path(__file__).parent / f"mace-{version}"
    with tempfile.TemporaryDirectory() as folder:
        source = mace_models.make_model(Path(folder) / "made.model", **options)
        head = "two" if "heads" in options else None
        calculator = mace_oracle.float64_calculator(source, head)
        suffix, stored = ".model", Path(source).read_bytes()
        if version == "0.3.6":
            suffix, stored = "-lammps.pt", without_debugging_records(Path(mace_models.to_torchscript(source)).read_bytes())
        Path(f"{target}{suffix}.xz").write_bytes(lzma.compress(stored, preset=9 | lzma.PRESET_EXTREME))
    values = {}
    for n, atoms in enumerate(all_structures(calculator.elements, calculator.cutoff)):
        atoms.calc = calculator
        values[f"energy{n}"] = atoms.get_potential_energy()
        values[f"forces{n}"] = atoms.get_forces()
        if atoms.pbc.any():
            values[f"stress{n}"] = atoms.get_stress()
    np.savez_compressed(f"{target}.npz", **values)


if __name__ == "__main__":
    sys.exit(main())
