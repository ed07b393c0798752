# SPDX-License-Identifier: MIT
"""Makes models with the installed version of allegro (0.4 or newer), in float64, and stores the results of its own
modules.

`python made_by_allegro.py DIR` writes, for each of OPTIONS that the version has, DIR/NAME.ckpt, DIR/NAME.nequip.pth and
DIR/NAME.nequip.zip of the same model, and DIR/NAME.npz.
"""

import sys
from pathlib import Path

import allegro
import made_by_nequip
from allegro.model import allegro_models
from test_models.allegro import CUTOFFS, NA_CL, NEIGHBORS, OXIDE, _shake, builder_options, networks

VERSION = tuple(map(int, allegro.__version__.split(".")[:3]))
OLD_EMBEDDING = (0, 5, 0)  # older ones have other options of the embedding
PER_TYPE = (0, 8, 1)  # first with numbers of neighbors of each type
ZBL = {"_target_": "nequip.nn.pair_potential.ZBL", "units": "metal", "chemical_species": ["Na", "Cl"]}
# Options with given values, and options that are left to the version's defaults.
OPTIONS = {
    "parity": dict(**NA_CL, l_max=2, parity=True, num_layers=3, avg_num_neighbors=60.0),
    "no_parity": dict(**NA_CL, l_max=3, parity=False, num_layers=2, **networks(2, "mish")),
    "zbl": dict(**NA_CL, l_max=1, num_layers=2, pair_potential=ZBL, bessel={"polynomial_cutoff_p": 8, "bessel_trainable": True}),
    "cutoffs": dict(**OXIDE, l_max=1, num_layers=2, per_edge_type_cutoff=CUTOFFS, tp_path_channel_coupling=False),
    "full": dict(
        **NA_CL, irreps_edge_sh="0e+1o+3o", tensor_track_allowed_irreps="0e+2e+1o+1e+3o", num_layers=3, forward_normalize=False,
        weight_individual_irreps=False, avg_num_neighbors=60.0,
    ),
    "even": dict(**NA_CL, irreps_edge_sh="0e+1e+2e", tensor_track_allowed_irreps="0e+1e+2e", num_layers=2),
    "spline": dict(**NA_CL, l_max=1, num_layers=2, spline={}, pair_potential=ZBL),
    "neighbors": dict(**OXIDE, l_max=1, num_layers=2, avg_num_neighbors=NEIGHBORS),
}  # fmt: skip


def as_of_then(config):
    """Options with the names of allegro 0.4."""
    renamed = {"hidden_layers_depth": 2, "hidden_layers_width": 64, "nonlinearity": "silu"}
    two_body = {f"two_body_mlp_{key}": config.pop(f"scalar_embed_mlp_{key}", default) for key, default in renamed.items()}
    config["scalar_embed"] = config.pop("radial_chemical_embed") | two_body | {"two_body_embedding_dim": 6}
    if "parity" in config:
        config["parity_setting"] = "o3_full" if config.pop("parity") else "o3_restricted"
    return config


def main(folder):
    made_by_nequip.prepare()
    for name, options in OPTIONS.items():
        if name == "spline" and VERSION < OLD_EMBEDDING or name == "neighbors" and VERSION < PER_TYPE:
            continue
        builder, config = builder_options(model_dtype="float64", **options)
        if VERSION < OLD_EMBEDDING:
            config = as_of_then(config)
        module = "allegro.model" if builder == "AllegroModel" else allegro_models.__name__
        made_by_nequip.make(Path(folder), name, f"{module}.{builder}", config, _shake, ["allegro"])


if __name__ == "__main__":
    main(sys.argv[1])
