# SPDX-License-Identifier: MIT
"""Makes random TACE models, and converts them: see test_models.command.

It runs in the environment of tools/requirements-tace.txt.
"""

import copy
import sys

from . import atomic_numbers_of_many, command

NUMBERS = [8, 11, 17]
DEFAULTS = {key: {} for key in (
    "node_embedding", "edge_embedding", "edge_update", "product_basis", "short_range", "long_range", "universal_embedding",
)} | {
    "atomic_basis": {"type": "cgtp"}, "cutoff": 4.2, "Lmax": 1, "lmax": 2, "num_layers": 2, "num_channel": 5, "target_property": ["energy", "forces", "stress"],
    "max_neighbors": None, "fidelity": [{"name": "PBE", "atomic_energy": None}],
    "radial_basis": {"num_radial_basis": 5, "hidden": [7, 9], "polynomial_cutoff": 6},
    "readout_emlp": {"hidden": [7]}, "scale_shift": {"scale_type": "rms_forces_by_element", "shift_type": "mean_delta", "all_atoms": True},
}  # fmt: skip
TWO_LEVELS = [{"name": "PBE"}, {"name": "r2SCAN"}]
VARIANTS = {
    # as the package's example asks for it, with fewer channels
    "example": {
        "Lmax": 2, "lmax": 3, "num_layers": 3, "edge_update": {"type": "element2"},
        "radial_basis": {"apply_cutoff": False, "bias": True, "polynomial_cutoff": 5},
        "atomic_basis": {"nonlinear": "sigmoid_gate", "gate_m0": False}, "scale_shift": {"all_atoms": False, "scale_zbl": False},
    },
    "defaults": {
        "num_channel": 13, "fidelity": TWO_LEVELS, "readout_emlp": {"hidden": [7, 3], "bias": True, "use_alllayer": True},
        "short_range": {"zbl": {"enable": True}},
    },
    "three_factors": {
        "Lmax": 1, "lmax": 2, "product_basis": {"correlation": 3}, "resnet": {"type": "AB", "linear_type": "agnostic"},
        "atomic_basis": {"scatter_norm": "density"}, "layer_norm": {"final_norm_type": "merge_layer_norm", "pre_norm_type": "merge_layer_norm"},
        "radial_basis": {"apply_cutoff": False, "mlp_norm": "layer_norm"}, "fidelity": TWO_LEVELS,
    },
    "experts": {
        "num_channel": 7, "product_basis": {
            "nonlinear": "silu_bilineargate", "num_expert": 3, "num_channel_per_expert": 5, "use_shared_expert": True, "scalar_act": "tanh",
        },
        "resnet": {"type": "BAB", "linear_type": "aware", "use_first_resnet": True},
        "layer_norm": {"pre_norm_type": "merge_rms_norm", "use_first_pre_norm": True, "final_norm_type": "merge_rms_norm"},
        "edge_update": {"type": "element2_v2"}, "radial_basis": {"apply_cutoff": False, "mlp_type": "mlp_v2", "mlp_norm": "rms_norm", "bias": True},
    },
    "parity": {
        "parity": True, "Lmax": 1, "lmax": 1, "num_layers": 3, "resnet": {"type": "BAB", "linear_type": "identity"},
        "atomic_basis": {"gate_m0": False, "scalar_act": ["silu", "tanh"], "tensor_act": "tanh", "scatter_norm": "no_cutoff_density"},
        "layer_norm": {"pre_norm_type": "merge_layer_norm"}, "edge_embedding": {"type": "linear"}, "radial_basis": {"mlp_type": "mlp_v2"},
        "scale_shift": {"enable": False},
    },
    "scalars": {
        "Lmax": 0, "lmax": 0, "num_layers": 1, "num_channel": 33, "product_basis": {"correlation": 2, "agnostic": True, "num_channel_per_expert": 5},
        "radial_basis": {"radial_basis": "gaussian", "num_radial_basis": 9, "gaussian_width": 1.3, "hidden": [7], "apply_cutoff": False},
        "edge_update": {"type": "element2"}, "edge_embedding": {"type": "linear"}, "atomic_basis": {"nonlinear": None, "scatter_norm": None},
        "readout_emlp": {"hidden": []},
    },
    "tensors": {
        "Lmax": 3, "lmax": 4, "num_layers": 4, "num_channel": 3, "node_embedding": {"type": "spherical_tensor_element2"},
        "edge_embedding": {"type": "nonlinear"}, "product_basis": {"correlation": [1, 2, 2, 1], "l1l2": "<=", "return_components": [0, 1]},
        "atomic_basis": {"nonlinear": ["gate", None, "gate", None], "scatter_norm": "sqrt_avg_num_neighbors", "l1l2": "<="},
        "radial_basis": {"distance_transform": "Agnesi", "trainable": True, "hidden": [7], "apply_cutoff": False},
        "layer_norm": {"final_norm_type": "merge_layer_norm"},
    },
    "parity_three": {
        "parity": True, "Lmax": 1, "lmax": 1, "neighbors": 2.0, "num_channel": 3, "product_basis": {"correlation": 3},
        "radial_basis": {"apply_cutoff": False},
    },
    "one_element": {
        "elements": [14], "neighbors": 2.0, "num_channel": 13, "num_layers": 1, "Lmax": 2, "lmax": 2,
        "product_basis": {"nonlinear": "silu_bilineargate", "agnostic": True},
        "short_range": {"zbl": {"enable": True, "trainable": True}}, "scale_shift": {"scale_zbl": False},
    },
}  # fmt: skip
# The energies of these random models would be too large for the bars of precision mixed, which are in eV.
SIZES = {"parity": 0.25, "scalars": 0.1}
# All elements, in the shape of the example with its 48 channels.
LARGE = {
    "published": {
        "elements": "many", "cutoff": 6.0, "Lmax": 2, "lmax": 3, "num_layers": 3, "num_channel": 48, "edge_update": {"type": "element2"},
        "radial_basis": {"apply_cutoff": False, "bias": True, "polynomial_cutoff": 5, "num_radial_basis": 8, "hidden": [64, 64]},
        "atomic_basis": {"gate_m0": False}, "readout_emlp": {"hidden": [16]},
    },
}  # fmt: skip


def _merged(config, more):
    found = copy.deepcopy(config)
    for key, value in more.items():
        found[key] = _merged(found[key], value) if isinstance(value, dict) and isinstance(found.get(key), dict) else copy.deepcopy(value)
    return found


def config_of(name, **options):
    """The options of a variant, with statistics of as many data sets as it has levels of theory."""
    config = _merged(_merged(DEFAULTS, (VARIANTS | LARGE)[name]), options)
    numbers, neighbors = config.pop("elements", NUMBERS), config.pop("neighbors", 11.3)
    numbers = atomic_numbers_of_many() if numbers == "many" else numbers
    config["statistics"] = [
        {
            "atomic_numbers": numbers, "avg_num_neighbors": neighbors + 2.0 * n, "available": True,
            "atomic_energy": {z: -1.3 - 0.1 * n - 0.01 * z for z in numbers},
            "rms_forces_by_element": {z: 1.1 + 0.2 * n + 0.01 * z for z in numbers},
            "mean_delta": {z: 0.3 - 0.1 * n + 0.02 * z for z in numbers},
        }
        for n in range(len(config["fidelity"]))
    ]  # fmt: skip
    return config


def make_model(config, seed=1, size=1.0):
    """The package's modules with numbers at random; also those of norms and biases differ from one another. size: of energies."""
    import torch
    from equi_tools.frameworks.tace import oracle

    oracle.import_tace()
    from tace.lightning import create_model

    torch.manual_seed(seed)
    model = create_model(copy.deepcopy(config), config["statistics"], config["target_property"], [])
    vary(model, size)
    return model.eval()


def vary(model, size=1.0):
    """Changes numbers that are zero, one or small when a training begins."""
    import torch

    for name, parameter in model.named_parameters():
        is_of_norm = ".mlp." in name and parameter.ndim == 1 and name.endswith(".weight")
        if name.endswith(("affine_weight", "bessel_weights", "zbl.a_exp", "zbl.a_prefactor")) or is_of_norm:
            parameter.data.mul_(1.0 + 0.2 * torch.rand_like(parameter))
        elif "embedding" in name and "edge_updates" in name:
            parameter.data.add_(0.5 * torch.randn_like(parameter))
        elif name.endswith(("bias", ".alpha", ".beta")):
            parameter.data.add_(0.3 * torch.rand_like(parameter))
        if "energy_readouts" in name:
            parameter.data.mul_(size)


def make_file(path, config, seed=1, model=None):
    """A model as tace-export-eval writes it."""
    from tace.lightning import export_tace

    export_tace(model or make_model(config, seed), str(path))
    return path


def make_variant(name, directory, seed=1):
    config = config_of(name)
    model = make_model(config, seed, SIZES.get(name, 1.0))
    path = make_file(directory / f"{name}.pt", config, model=model)
    heads = [level["name"] for level in config["fidelity"]]
    return str(path), {"head": heads[-1]} if len(heads) > 1 else {}


if __name__ == "__main__":
    command(sys.argv[1:], __doc__, VARIANTS, LARGE, make_variant)
