# SPDX-License-Identifier: MIT
"""Tiny random models of Allegro for tests, built and written by the framework's own code: see test_models.command.

It runs in the environment of tools/requirements-nequip.txt.
"""

import sys

from . import many_elements
from .nequip import command_of_variants, energy_options, write_model

NA_CL = {"type_names": ["Na", "Cl"]}
SPLINE = {"num_splines": 16, "spline_span": 12}
# Asymmetric: an atom may be a neighbor of another that does not have it as a neighbor.
CUTOFFS = {"Na": {"Na": 3.1, "Cl": 3.9, "O": 3.6}, "Cl": {"Na": 4.1, "Cl": 3.5, "O": 4.2}, "O": 3.3}
NEIGHBORS = {"Na": 7.5, "Cl": 21.0, "O": 3.25}
OXIDE = {"type_names": ["Na", "Cl", "O"]}


def networks(depth, activation="silu", width=7):
    """Options of all three kinds of networks."""
    sizes = {"hidden_layers_depth": depth, "hidden_layers_width": width, "nonlinearity": activation}
    return {f"{kind}_mlp_{key}": value for kind in ("scalar_embed", "allegro", "readout") for key, value in sizes.items()}


# Together these reach every option of the converter. Multiplicities are odd on purpose, because kernels handle
# channels in groups of 4, 8 or 16. "kind" is that of the file, "types" the elements of the types' names, "spline" the
# options of a spline embedding, "bessel" those of the other one.
VARIANTS = {
    "tutorial": dict(**NA_CL, l_max=1, num_layers=2, num_scalar_features=64, num_tensor_features=32, **networks(1, width=64)),
    "plain": dict(**NA_CL, l_max=2, num_layers=2),
    "one_layer": dict(type_names=["Si"], l_max=2, num_layers=1),
    "lmax0": dict(**NA_CL, irreps_edge_sh="0e", tensor_track_allowed_irreps="0e", num_layers=2),
    "one_path": dict(**NA_CL, irreps_edge_sh="0e", tensor_track_allowed_irreps="0e", num_layers=1, tp_path_channel_coupling=False),
    "lmax1_parity": dict(**NA_CL, l_max=1, num_layers=4, parity=True, num_tensor_features=13),
    "lmax2_wide": dict(**OXIDE, l_max=2, num_layers=3, parity=False, num_scalar_features=13, num_tensor_features=33),
    "lmax3": dict(**NA_CL, l_max=3, num_layers=3, parity=False),
    "lmax3_parity": dict(**NA_CL, l_max=3, num_layers=3, parity=True, num_tensor_features=3),
    "lmax4": dict(**NA_CL, l_max=4, num_layers=2, num_tensor_features=3),
    "gaps": dict(
        **NA_CL, irreps_edge_sh="0e+1o+3o", tensor_track_allowed_irreps="0e+2e+1o+1e+3o", num_layers=3, num_tensor_features=4,
    ),
    "beyond_lmax": dict(**NA_CL, irreps_edge_sh="0e+1o", tensor_track_allowed_irreps="0e+1o+2e+2o+3o", num_layers=4),
    "even_harmonics": dict(**NA_CL, irreps_edge_sh="0e+1e+2e", tensor_track_allowed_irreps="0e+1e+2e", num_layers=3),
    "same_weights": dict(
        **NA_CL, irreps_edge_sh="0e+1o+2e", tensor_track_allowed_irreps="0e+1o+2e", num_layers=2, weight_individual_irreps=False,
    ),
    "uncoupled": dict(**NA_CL, l_max=2, num_layers=3, tp_path_channel_coupling=False),
    "depth0": dict(**NA_CL, l_max=1, num_layers=2, **networks(0)),
    "depth2": dict(**NA_CL, l_max=1, num_layers=2, **networks(2)),
    "depths": dict(
        **NA_CL, l_max=2, num_layers=2, scalar_embed_mlp_hidden_layers_depth=3, scalar_embed_mlp_hidden_layers_width=11,
        allegro_mlp_hidden_layers_depth=0, readout_mlp_hidden_layers_depth=2, readout_mlp_hidden_layers_width=5,
    ),
    "mish": dict(**NA_CL, l_max=1, num_layers=2, **networks(1, "mish")),
    "gelu": dict(**NA_CL, l_max=1, num_layers=2, **networks(2, "gelu")),
    "tanh": dict(**NA_CL, l_max=1, num_layers=2, **networks(1, "tanh")),
    "ssp": dict(**NA_CL, l_max=1, num_layers=2, **networks(1, "ssp")),
    "activations": dict(
        **NA_CL, l_max=2, num_layers=3, **networks(1) | {"scalar_embed_mlp_nonlinearity": "mish", "readout_mlp_nonlinearity": None,
                                                        "readout_mlp_hidden_layers_depth": 2},
    ),
    "linear": dict(**NA_CL, l_max=1, num_layers=2, **networks(2, None)),
    "linear_with_gains": dict(**NA_CL, l_max=1, num_layers=2, **networks(2, "None")),
    "backward": dict(
        **NA_CL, irreps_edge_sh="0e+1o+2e", tensor_track_allowed_irreps="0e+0o+1e+1o+2e+2o", num_layers=2, forward_normalize=False,
        **networks(2),
    ),
    "embedding": dict(**NA_CL, l_max=1, num_layers=2, radial_chemical_embed_dim=10, bessel={"num_bessels": 5, "polynomial_cutoff_p": 4.5}),
    "trainable": dict(
        **NA_CL, l_max=1, num_layers=2, bessel={"bessel_trainable": True}, per_type_energy_scales_trainable=True,
        per_type_energy_shifts_trainable=True, scales=1.5, shifts=-2.0,
    ),
    "no_scale_shift": dict(**NA_CL, l_max=1, num_layers=2, scales=None, shifts=None),
    "spline": dict(**OXIDE, l_max=2, num_layers=2, spline=SPLINE),
    "spline_narrow": dict(**NA_CL, l_max=1, num_layers=2, spline={"num_splines": 8, "spline_span": 1}),
    "spline_wide": dict(**NA_CL, l_max=1, num_layers=2, spline={"num_splines": 5, "spline_span": 5}, zbl=["Na", "Cl"]),
    "cutoffs": dict(**OXIDE, l_max=2, num_layers=2, per_edge_type_cutoff=CUTOFFS),
    "spline_cutoffs": dict(**OXIDE, l_max=1, num_layers=2, per_edge_type_cutoff=CUTOFFS, spline=SPLINE),
    "type_neighbors": dict(**OXIDE, l_max=1, num_layers=2, avg_num_neighbors=NEIGHBORS),
    "zbl": dict(**NA_CL, l_max=1, num_layers=2, zbl=["Na", "Cl"], zbl_p=5),
    "float64": dict(**NA_CL, l_max=2, num_layers=2, model_dtype="float64"),
    "type_names": dict(type_names=["a", "b"], types={"a": "Na", "b": "Cl"}, l_max=1, num_layers=2),
    "many_types": dict(type_names=many_elements, l_max=1, num_layers=2),
    "checkpoint": dict(**NA_CL, l_max=2, num_layers=2, kind="checkpoint"),
    "checkpoint_options": dict(
        **OXIDE, l_max=3, num_layers=3, kind="checkpoint", zbl=["Na", "Cl", "O"], per_edge_type_cutoff=CUTOFFS,
        avg_num_neighbors=NEIGHBORS, **networks(2, "mish"),
    ),
    "checkpoint_full": dict(
        **NA_CL, irreps_edge_sh="0e+1o+3o", tensor_track_allowed_irreps="0e+2e+1o+1e+3o", num_layers=3, kind="checkpoint", spline=SPLINE,
        forward_normalize=False, weight_individual_irreps=False,
    ),
    "torchscript": dict(**NA_CL, l_max=2, num_layers=3, kind="torchscript"),
    "torchscript_options": dict(
        **OXIDE, l_max=2, num_layers=2, kind="torchscript", zbl=["Na", "Cl", "O"], per_edge_type_cutoff=CUTOFFS,
        avg_num_neighbors=NEIGHBORS, spline=SPLINE, scales=None, **networks(1, "gelu"),
    ),
}  # fmt: skip

# Shapes for benchmarks: those of the tutorial of allegro, and about that of Allegro-OAM-L, whose small networks are not
# known.
BENCH = {
    "bench": dict(
        type_names=["H", "O"], l_max=1, num_layers=2, num_scalar_features=64, num_tensor_features=32, r_max=5.0, avg_num_neighbors=52.0,
        **networks(1, width=64),
    ),
    "bench_large": dict(
        type_names=many_elements, l_max=3, num_layers=4, parity=False, num_scalar_features=256, num_tensor_features=64, r_max=7.0,
        avg_num_neighbors=124.0, bessel={"num_bessels": 12, "polynomial_cutoff_p": 8},
        **networks(2, width=256) | {"allegro_mlp_hidden_layers_width": 1024, "readout_mlp_hidden_layers_depth": 1},
    ),
}  # fmt: skip


def builder_options(spline=None, bessel=None, **options):
    """(name of the builder of allegro, its arguments)."""
    small = {"num_scalar_features": 6, "num_tensor_features": 5, **networks(1)}
    config = small | energy_options(**options)
    config["radial_chemical_embed"] = {
        "_target_": f"allegro.nn.TwoBody{'Bessel' if spline is None else 'Spline'}ScalarEmbed", **(spline or bessel or {})
    }  # fmt: skip
    if spline is None and config["num_scalar_features"] % 2:
        # The embedding has two halves.
        config.setdefault("radial_chemical_embed_dim", config["num_scalar_features"] + 1)
    return "FullAllegroModel" if "irreps_edge_sh" in config else "AllegroModel", config


def _shake(model):
    """Random numbers in place of the framework's initial ones, whose sums over channels are nearly constant."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bessel_weights", ".scales", ".shifts")):
                parameter.mul_(1 + 0.05 * torch.rand_like(parameter))
                continue
            parameter.mul_(0.8 + 0.5 * torch.rand_like(parameter))
            # Distances must matter in every layer.
            if "basis_linear" in name or "class_embed" in name:
                parameter.mul_(3.0)


def make_model(path, kind="package", types=None, **options):
    """Writes a model with random numbers; options are those of builder_options. Returns its path as a string."""
    name, config = builder_options(**options)
    module = "allegro.model" if name == "AllegroModel" else "allegro.model.allegro_models"
    return write_model(path, kind, f"{module}.{name}", config, _shake)


def main(argv=None):
    command_of_variants(argv, __doc__, VARIANTS, BENCH, make_model)


if __name__ == "__main__":
    sys.exit(main())
