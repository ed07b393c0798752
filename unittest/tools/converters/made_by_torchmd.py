# SPDX-License-Identifier: MIT
"""Makes checkpoints with the version of torchmd-net on the path, and stores the results of its modules in float64.

`python made_by_torchmd.py DIR` writes DIR/NAME.ckpt and DIR/NAME.npz. ASE provides the neighbors, so torchmd-net's
compiled extension, which fits only one version of Torch, is not needed.
"""

import importlib.util
import sys
import types
from pathlib import Path

import old_versions
import tensornet_laws as laws
from equi_tools.frameworks.torchmd import oracle as torchmd_oracle
from equi_tools.frameworks.torchmd.checkpoint import load
from test_models import torchmd as torchmd_models

CHARGES = dict(torchmd_models.CHARGES, embedding_dimension=5, num_layers=2, q_dim=3, q_weights=[0.5, 0.3, 1.7])
OPTIONS = {
    "exp_normal": dict(embedding_dimension=5, num_layers=2, trainable_rbf=True),
    "gauss": dict(embedding_dimension=13, num_layers=1, rbf_type="gauss", activation="tanh"),
    "charged": dict(embedding_dimension=5, num_layers=2, charge=True, total_charge=2.0, activation="ssp"),
    "references": dict(embedding_dimension=5, num_layers=1, prior_model="Atomref", prior_args={"max_z": 40}, std=1.75),
    "charges": dict(CHARGES, coulomb_cutoff=7.3),
    "charges_of_clusters": CHARGES,
}


def import_modules(package):
    """(torchmdnet.models.model, torchmdnet.models.utils) without their neighbor search, which is compiled up to 2.4,
    and in Triton or Warp later."""
    if (package / "extensions" / "warp_ops").is_dir():
        return torchmd_oracle.import_torchmdnet()
    for name in ("torchmdnet.extensions", "torchmdnet.extensions.ops"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].get_neighbor_pairs_kernel = sys.modules[name].is_current_stream_capturing = None
    from torchmdnet.models import model, utils

    return model, utils


def main(folder):
    package = Path(importlib.util.find_spec("torchmdnet").origin).parent
    modules = import_modules(package)
    torchmd_oracle.import_torchmdnet = torchmd_models.import_torchmdnet = lambda: modules
    has_charges = (package / "models" / "tensornet2.py").is_file()
    has_cutoff_of_charges = "coulomb_cutoff" in (package / "models" / "model.py").read_text()
    # Training stores all options of its command; this one shows the order of dimensions.
    stored = {"check_errors": True} if "--check_errors" in (package / "scripts" / "train.py").read_text() else {}
    for name, options in OPTIONS.items():
        of_clusters = "q_dim" in options and "coulomb_cutoff" not in options
        if ("q_dim" in options and not has_charges) or ("coulomb_cutoff" in options and not has_cutoff_of_charges):
            continue
        path = torchmd_models.make_checkpoint(Path(folder) / f"{name}.ckpt", **options, **stored)
        calculator = torchmd_oracle.TorchMDModules(load(path, charge=options.get("total_charge")), "float64")
        named = [(title, atoms) for title, atoms in laws.structures(["Na", "Cl", "O"], 4.2)
                 if not of_clusters or not atoms.pbc.any() and title != "one_of_three_lonely"]  # fmt: skip
        old_versions.store(Path(folder) / f"{name}.npz", calculator, named)


if __name__ == "__main__":
    main(sys.argv[1])
