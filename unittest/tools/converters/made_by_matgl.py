# SPDX-License-Identifier: MIT
"""Makes potentials with the installed version of matgl, and stores its results for them in float64.

`python made_by_matgl.py DIR` writes DIR/NAME and DIR/NAME.npz. MATGL_BACKEND=DGL selects matgl's modules for DGL, in
versions that have them.
"""

import os
import sys
import types
from pathlib import Path

WITH_DGL = os.environ.get("MATGL_BACKEND") == "DGL"
if WITH_DGL:
    # Only DGL's graphs are needed; this part of DGL exists only for old versions of Torch.
    sys.modules["dgl.graphbolt"] = types.ModuleType("dgl.graphbolt")

import matgl
import old_versions
import tensornet_laws as laws
from test_models.matgl import SMOOTH, class_of, make_model

OPTIONS = {
    "smooth": dict(units=5, nblocks=2, **SMOOTH),
    "gaussian": dict(units=13, nblocks=1, num_rbf=16, width=0.75, activation_type="tanh"),
    "so3": dict(units=5, nblocks=2, equivariance_invariance_group="SO(3)", activation_type="softplus2", **SMOOTH),
    "exp_normal": dict(units=8, nblocks=2, num_rbf=12, rbf_type="ExpNorm", activation_type="sigmoid"),
    "bessel": dict(units=5, nblocks=1, rbf_type="SphericalBessel", max_l=1, max_n=5),
}
# In the other versions a TensorNet does not provide the distances that the repulsion needs.
WITH_DISTANCES = {"repulsion": dict(units=5, nblocks=1, calc_repuls=True, **SMOOTH)}

WITH_CHARGES = {
    "qet": dict(kind="QET", units=5, nblocks=2, is_hardness_envs=True, **SMOOTH),
    "qet_elements": dict(kind="QET", units=13, nblocks=1, is_sigma_train=True, include_magmom=True, num_rbf=8, width=0.75),
}


def main(folder):
    matgl.set_default_dtype("float", 64)
    from matgl.apps.pes import Potential
    from matgl.ext.ase import PESCalculator

    has_charges = class_of("QET") is not None
    for name, options in (OPTIONS | (WITH_DISTANCES if WITH_DGL else {}) | (WITH_CHARGES if has_charges else {})).items():
        source = make_model(Path(folder) / name, dtype=matgl.float_th, **options)
        potential = Potential.load(source)
        calculator = PESCalculator(potential, stress_unit="eV/A3", use_voigt=True)
        named = [(title, atoms) for title, atoms in laws.structures(["Na", "Cl", "O"], 4.2)
                 if atoms.pbc.all() or not atoms.pbc.any() and len(atoms) > 1]  # fmt: skip
        if name in WITH_CHARGES:
            named = [(title, atoms) for title, atoms in named if len(atoms) > 1]  # older versions fail for one atom
        old_versions.store(Path(folder) / f"{name}.npz", calculator, named, old_versions.is_periodic)


if __name__ == "__main__":
    main(sys.argv[1])
