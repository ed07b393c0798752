# SPDX-License-Identifier: MIT
"""Makes models with an older version of tace, and stores what its calculator computes: TARGET/NAME.pt and .npz.

    python made_by_tace.py TARGET

test_tace.py runs it with that version in front of the packages of the environment.
"""

import copy
import sys
from pathlib import Path

import old_versions
import tensornet_laws as laws
import torch
from tace.interface.ase import TACEAseCalc
from tace.lightning import create_model, export_tace
from test_models import tace as tace_models

STRUCTURES = ("sheared", "cluster")
# Variants of test_models.tace without options that older versions lack.
VARIANTS = {"example": {}, "defaults": {}, "three_factors": {}, "experts": {"edge_update": {"type": "element2"}}}


def main(target):
    named = [(title, atoms) for title, atoms in laws.structures(["O", "Na", "Cl"], 4.2) if title in STRUCTURES]
    for name, options in VARIANTS.items():
        config = tace_models.config_of(name, **options)
        for section, key in (("radial_basis", "mlp_type"), ("radial_basis", "mlp_norm"), ("product_basis", "scalar_act")):
            config[section].pop(key, None)
        config["atomic_basis"].setdefault("nonlinear", "sigmoid_gate")
        torch.manual_seed(1)
        model = create_model(copy.deepcopy(config), config["statistics"], config["target_property"], [])
        tace_models.vary(model)
        export_tace(model.eval(), str(target / f"{name}.pt"))
        calculator = TACEAseCalc(str(target / f"{name}.pt"), dtype="float64", device="cpu")
        old_versions.store(target / f"{name}.npz", calculator, named, has_stress=old_versions.is_periodic)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
