# SPDX-License-Identifier: MIT
"""Tiny random models for tests: genuine SevenNet checkpoints, built by sevenn's own model builder.

`python -m test_models.sevenn DIR [NAME ...]` writes DIR/NAME.pth and DIR/NAME.equi for the named variants (all by default).
"""

import datetime
import sys
import uuid
from pathlib import Path

import numpy as np

from . import command, many_elements

# Together these reach every option of the converter. Multiplicities are odd on purpose, because kernels handle
# channels in groups of 4, 8 or 16.
VARIANTS = {
    "plain": dict(
        elements=["Na", "Cl", "O"], is_parity=False, lmax=2, self_connection_type="linear",
        irreps_manual=["13x0e", "13x0e+5x1e+3x2e", "13x0e+5x1e+3x2e", "13x0e"],
    ),
    "one_element": dict(elements=["Si"], channel=5, lmax=1, num_convolution_layer=1),
    "parity": dict(elements=["H", "C", "O"], channel=5, lmax=2, num_convolution_layer=2, self_connection_type="linear"),
    "nequip": dict(elements=["Na", "Cl"], channel=5, lmax=1, num_convolution_layer=3, self_connection_type="nequip"),
    "nequip_so3": dict(
        elements=["Ba", "O", "Ti"], is_parity=False, self_connection_type=["nequip", "linear"],
        irreps_manual=["33x0e", "33x0e+13x1e", "5x0e"], lmax=1,
    ),
    "lmax3": dict(
        elements=["Na", "Cl", "Si", "O"], is_parity=False, lmax=3, self_connection_type="linear",
        irreps_manual=["13x0e", "13x0e+5x1e+5x2e+3x3e", "5x0e+3x1e+2x2e+1x3e", "13x0e"],
    ),
    "lmax3_parity": dict(elements=["Na", "O"], channel=3, lmax=3, num_convolution_layer=2, self_connection_type="nequip"),
    "lmax_edge": dict(elements=["Al", "O"], channel=5, lmax=1, lmax_edge=3, lmax_node=2, num_convolution_layer=3),
    "four_layers": dict(elements=["Cu", "Zr"], channel=4, lmax=1, num_convolution_layer=4, is_parity=False),
    "xplor": dict(
        elements=["Na", "Cl"], channel=8, lmax=2, num_convolution_layer=2,
        cutoff_function={"cutoff_function_name": "XPLOR", "cutoff_on": 3.1},
    ),
    "poly_p": dict(
        elements=["Na", "Cl"], channel=8, lmax=1, num_convolution_layer=2, cutoff=3.7,
        cutoff_function={"cutoff_function_name": "poly_cut", "poly_cut_p_value": 9},
        radial_basis={"radial_basis_name": "bessel", "bessel_basis_num": 5, "trainable_coeff": False},
    ),
    "biases": dict(elements=["Na", "Cl"], channel=5, lmax=1, num_convolution_layer=2, use_bias_in_linear=True),
    "readout_fcn": dict(
        elements=["Na", "Cl"], channel=7, lmax=1, num_convolution_layer=2, readout_as_fcn=True,
        readout_fcn_hidden_neurons=[9, 6], readout_fcn_activation="silu",
    ),
    "readout_relu": dict(
        elements=["Na", "Cl"], irreps_manual=["5x0e", "5x0e+2x1e", "4x0e+3x0e"], readout_as_fcn=True,
        readout_fcn_hidden_neurons=[9], readout_fcn_activation="relu", is_parity=False,
    ),
    "activations": dict(
        elements=["Na", "Cl"], channel=3, lmax=1, num_convolution_layer=4, act_radial="ssp",
        act_scalar={"e": "ssp", "o": "abs"}, act_gate={"e": "ssp", "o": "tanh"},
    ),
    "radial_deep": dict(
        elements=["Na", "Cl"], channel=5, lmax=1, num_convolution_layer=2, act_radial="tanh",
        weight_nn_hidden_neurons=[11, 7, 5],
    ),
    "radial_linear": dict(elements=["Na", "Cl"], channel=5, lmax=1, num_convolution_layer=2, weight_nn_hidden_neurons=[]),
    "raw_harmonics": dict(elements=["Na", "Cl"], channel=5, lmax=2, num_convolution_layer=2, _normalize_sph=False),
    "split_blocks": dict(
        elements=["Na", "Cl"], is_parity=False, lmax=1,
        irreps_manual=["4x0e+3x0e", "5x0e+2x0e+3x1e+1x1e", "4x0e+3x0e"], use_bias_in_linear=True,
    ),
    "odd_scalars_only": dict(
        elements=["Na", "Cl"], lmax=2, act_gate={"e": "silu", "o": "abs"}, self_connection_type="linear",
        irreps_manual=["5x0e", "5x0e+3x1o+2x2e", "5x0e+3x1o+3x1e+2x2e", "4x0o+3x1o+3x1e", "6x0e"],
    ),
    "trainable": dict(
        elements=["Na", "Cl"], channel=5, lmax=1, num_convolution_layer=2, train_denominator=True,
        train_shift_scale=True, conv_denominator=[11.5, 3.25],
    ),
    "global_scale": dict(elements=["Na", "Cl"], channel=5, lmax=1, num_convolution_layer=2, shift=-1.25, scale=1.75),
    "modal": dict(
        elements=["Na", "Cl", "O"], channel=5, lmax=1, num_convolution_layer=2, is_parity=False, modalities=["PBE", "SCAN"],
        use_modal_node_embedding=True, use_modal_self_inter_intro=True, use_modal_self_inter_outro=True,
        use_modal_output_block=True, use_modal_wise_shift=True, use_modal_wise_scale=True, use_bias_in_linear=True,
    ),
    "modal_few": dict(
        elements=["Na", "Cl"], channel=5, lmax=1, num_convolution_layer=2, modalities=["a", "b", "c"],
        use_modal_self_inter_intro=True, use_modal_wise_shift=True, self_connection_type="linear",
    ),
    "many_elements": dict(elements=None, channel=4, lmax=1, num_convolution_layer=2, is_parity=False),
}  # fmt: skip


def model_config(elements, modalities=None, **options):
    """The configuration that the `sevenn` command would store, for random statistics of a data set."""
    import sevenn
    from sevenn import _const
    from sevenn._keys import NUM_SPECIES
    from sevenn.nn.node_embedding import get_type_mapper_from_specie

    if elements is None:
        elements = many_elements()
    config = {k: v for section in (_const.DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG, _const.DEFAULT_DATA_CONFIG,
                                   _const.DEFAULT_TRAINING_CONFIG) for k, v in section.items()}  # fmt: skip
    config.setdefault("readout_fcn_hidden_neurons", [30, 30])
    config.setdefault("readout_fcn_activation", "relu")
    type_map = get_type_mapper_from_specie(elements)
    count = len(type_map)
    rng = np.random.default_rng(count)
    config.update(
        version=sevenn.__version__,
        _model_type="E3_equivariant_model",
        chemical_species=sorted(elements),
        _chemical_species_by_atomic_number=list(type_map),
        _type_map=type_map,
        cutoff=4.2,
        weight_nn_hidden_neurons=[9, 7],
        conv_denominator=2.5,
        shift=[float(v) for v in rng.uniform(-5, -1, count)],
        scale=[float(v) for v in rng.uniform(0.5, 1.5, count)],
        use_modality=False,
    )
    config[NUM_SPECIES] = count
    if modalities:
        config.update(
            use_modality=True,
            _modal_map={name: n for n, name in enumerate(modalities)},
            _number_of_modalities=len(modalities),
        )
        for key in ("shift", "scale"):
            if options.get(f"use_modal_wise_{key}"):
                config[key] = [[float(v) for v in rng.uniform(0.5, 1.5, count)] for _ in modalities]
    if "irreps_manual" in options:
        config["num_convolution_layer"] = len(options["irreps_manual"]) - 1
    config.update(options)
    return config


def make_checkpoint(path, seed=1, dtype=None, **options):
    """Writes a checkpoint with random numbers; options are those of model_config. Returns its path as a string."""
    from equi_tools.frameworks.sevenn.oracle import build, import_sevenn

    import_sevenn()
    import torch

    config = model_config(**options)
    torch.manual_seed(seed)
    model = build(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".bias") and parameter.numel():
                parameter.normal_()
            elif name.endswith("basis_function.coeffs"):
                parameter.mul_(1 + 0.05 * torch.rand_like(parameter))
    if dtype is not None:
        model = model.to(dtype)
    checkpoint = {
        "config": config,
        "epoch": 1,
        "model_state_dict": model.state_dict(),
        "optimizer_state_dict": {},
        "scheduler_state_dict": {},
        "time": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        "hash": uuid.uuid4().hex,
    }
    torch.save(checkpoint, path)
    return str(path)


def modality_of(name):
    """The modality with which one of VARIANTS is converted, or None."""
    modalities = VARIANTS[name].get("modalities")
    return modalities[-1] if modalities else None


def make_variant(name, directory, seed=1):
    """(checkpoint path, modality or None) of one of VARIANTS."""
    path = make_checkpoint(Path(directory) / f"{name}.pth", seed=seed, **VARIANTS[name])
    return path, modality_of(name)


def main(argv=None):
    def source(name, directory, seed):
        path, modality = make_variant(name, directory, seed)
        return path, {"modality": modality}

    command(argv, __doc__, VARIANTS, {}, source)


if __name__ == "__main__":
    sys.exit(main())
