# SPDX-License-Identifier: MIT
"""Makes random HIENet checkpoints, and converts them: see test_models.command.

It runs in the environment of tools/requirements-hienet.txt.
"""

import sys

from . import atomic_numbers_of_many, command

NUMBERS = [17, 8, 11]  # in an order of their own
DEFAULTS = {
    "version": "0.9.2", "_model_type": "E3_equivariant_model", "irreps_manual": ["13x0e", "17x0e+5x1e+3x2e", "5x0e"],
    "inv_features": [13, 13], "num_invariant_conv": 1, "use_comf_embedding": False, "use_edge_conv": False, "triplet_features": 16,
    "sh": "1x0e + 1x1e + 1x2e", "lmax": 2, "lmax_edge": -1, "lmax_node": -1, "is_parity": False, "use_cgcnn_embedding": False,
    "radial_basis": {"radial_basis_name": "bessel", "bessel_basis_num": 5},
    "cutoff_function": {"cutoff_function_name": "poly_cut", "poly_cut_p_value": 6}, "act_radial": "silu", "cutoff": 4.2,
    "weight_nn_hidden_neurons": [7, 9], "num_convolution_layer": 3, "act_scalar": {"e": "silu", "o": "tanh"},
    "act_gate": {"e": "silu", "o": "tanh"}, "conv_denominator": [3.7], "train_denominator": False, "train_shift_scale": False,
    "use_bias_in_linear": False, "readout_as_fcn": False, "self_connection_type": "linear", "_normalize_sph": True, "dropout": 0.04,
    "dropout_attn": 0.08, "use_denoising": False, "use_species_wise_shift_scale": True, "shift": [0.3, -0.2, 0.1], "scale": [1.7, 0.9, 1.2],
}  # fmt: skip
XPLOR = {"cutoff_function_name": "XPLOR", "cutoff_on": 3.1}
VARIANTS = {
    "one_attention": {},
    "two_attentions": dict(
        irreps_manual=["5x0e", "5x0e+3x0o+7x1o+1x1e+2x2e", "7x0e+3x1o+3x1e+2x2o", "33x0e"], inv_features=[5, 5, 5], num_invariant_conv=2,
        is_parity=True, cutoff_function=XPLOR,
    ),
    "three_attentions": dict(
        irreps_manual=["33x0e", "13x0e+5x1e", "2x0e"], inv_features=[33] * 4, num_invariant_conv=3, lmax=1, weight_nn_hidden_neurons=[9],
    ),
    "four_convolutions": dict(
        irreps_manual=["5x0e", "13x0e+5x1e+3x2e", "33x0e+5x1e+3x2e+2x3e", "5x0e+5x1e+3x2e+1x3e", "13x0e"], inv_features=[5, 5], lmax=3,
    ),
    "biases": dict(use_bias_in_linear=True, irreps_manual=["13x0e", "5x0e"], lmax=1),
    "no_attention": dict(num_invariant_conv=0, inv_features=[13], train_denominator=True, use_species_wise_shift_scale=False, shift=0.3, scale=1.7),
}  # fmt: skip
# All elements, in the shape of the published one.
LARGE = {
    "published": dict(
        irreps_manual=["384x0e", "512x0e+128x1e+64x2e", "512x0e+128x1e+64x2e+32x3e", "512x0e+128x1e+64x2e+32x3e", "512x0e"],
        inv_features=[384, 384], lmax=3, cutoff=5.0, radial_basis={"radial_basis_name": "bessel", "bessel_basis_num": 8},
        weight_nn_hidden_neurons=[64, 64], conv_denominator=[36.0], elements="many",
    ),
}  # fmt: skip


def config_of(name, **options):
    """The configuration of a variant."""
    from ase.data import chemical_symbols

    config = DEFAULTS | (VARIANTS | LARGE)[name] | options
    numbers = atomic_numbers_of_many() if config.pop("elements", None) else NUMBERS
    symbols = [chemical_symbols[number] for number in numbers]
    return config | {
        "chemical_species": symbols, "_number_of_species": len(numbers), "_type_map": {number: n for n, number in enumerate(numbers)},
        "_chemical_species_by_atomic_number": numbers,
    }  # fmt: skip


def make_checkpoint(path, config, seed=1):
    """A checkpoint with numbers at random; also those of norms and biases differ from one another."""
    import torch
    from equi_tools.frameworks.hienet import oracle

    torch.manual_seed(seed)
    modules = oracle.build(config)
    for name, parameter in modules.named_parameters():
        if name.endswith(("bn.weight", "bn_att.weight", ".denominator")):
            parameter.data.mul_(1.0 + 0.5 * torch.rand_like(parameter))
        elif name.endswith("bias") or "rescale" in name:
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    torch.save({"config": config, "model_state_dict": modules.state_dict(), "epoch": 1}, path)
    return path


def make_variant(name, directory, seed=1):
    return str(make_checkpoint(directory / f"{name}.pth", config_of(name), seed))


if __name__ == "__main__":
    command(sys.argv[1:], __doc__, VARIANTS, LARGE, lambda name, directory, seed: (make_variant(name, directory, seed), {}))
