# SPDX-License-Identifier: MIT
"""Tiny random models for tests: checkpoints of torchmd-net, built by torchmd-net's own code.

`python -m test_models.torchmd DIR [NAME ...]` writes DIR/NAME.ckpt and DIR/NAME.equi for the named variants
(all by default).
"""

import sys
import warnings
from pathlib import Path

from equi_tools.frameworks.torchmd.oracle import import_torchmdnet

from . import command

# Together these reach every option of the converter; numbers of channels are odd on purpose. "unit" and "total_charge"
# are the user's statements about the file; "old" is the order of dimensions of older checkpoints; "elements": only
# ELEMENTS are converted.
CHARGES = {"model": "tensornet2", "output_model": "ScalarPlusWeightedCoulomb"}
VARIANTS = {
    "exp_normal": dict(embedding_dimension=5, num_layers=2),
    "gauss": dict(embedding_dimension=13, num_layers=1, rbf_type="gauss", num_rbf=16),
    "old": dict(embedding_dimension=8, num_layers=2, old=True, unit="kcal/mol", std=20.0),
    "old_gauss": dict(embedding_dimension=5, num_layers=1, old=True, rbf_type="gauss", unit="kJ/mol", std=90.0),
    "no_layers": dict(embedding_dimension=33, num_layers=0),
    "three_layers": dict(embedding_dimension=5, num_layers=3, cutoff_upper=3.7, unit="Hartree"),
    "charged": dict(embedding_dimension=5, num_layers=2, charge=True, total_charge=2.0),
    "charged_old": dict(embedding_dimension=5, num_layers=1, charge=True, total_charge=-1.0, old=True),
    "tanh": dict(embedding_dimension=5, num_layers=1, activation="tanh"),
    "ssp": dict(embedding_dimension=5, num_layers=2, activation="ssp"),
    "sigmoid": dict(embedding_dimension=5, num_layers=1, activation="sigmoid", rbf_type="gauss"),
    "swish": dict(embedding_dimension=5, num_layers=1, activation="swish", output_mlp_num_layers=2),
    "references": dict(
        embedding_dimension=5, num_layers=1, prior_model="Atomref", prior_args={"max_z": 20}, std=1.75, max_z=30, elements=True,
    ),
    "two_references": dict(
        embedding_dimension=5, num_layers=1,
        prior_model=[{"Atomref": {"max_z": 40, "trainable": True}}, {"Atomref": {"max_z": 40, "enable": False}}], trainable_rbf=True,
        static_shapes=True,
    ),
    "charges": dict(CHARGES, embedding_dimension=5, num_layers=2, q_dim=5, q_weights=[0.5, 0.3, 1.7], coulomb_cutoff=7.3,
        total_charge=0.25),
    "charges_old": dict(CHARGES, embedding_dimension=13, num_layers=1, q_dim=3, q_weights=[1.0, 2.0], coulomb_cutoff=3.6, old=True,
                        repulsion=True, unit="kcal/mol", std=3.0, output_mlp_num_layers=2, rbf_type="gauss"),
    "charges_of_clusters": dict(CHARGES, embedding_dimension=5, num_layers=2, q_dim=33, q_weights=[1.0, 1.0, 1.0], total_charge=-2.0),
    "charges_alone": dict(embedding_dimension=5, num_layers=1, model="tensornetv2_alt", q_dim=1, repulsion=True, total_charge=-1.0),
}  # fmt: skip
ELEMENTS = ["Na", "Cl", "O"]

# The shape of the published models.
BENCH = {
    "published": dict(embedding_dimension=128, num_layers=2, num_rbf=32, cutoff_upper=5.0, max_z=100),
    "published_charges": dict(CHARGES, embedding_dimension=128, num_layers=2, num_rbf=32, cutoff_upper=5.0, max_z=100, q_dim=16,
                              q_weights=[0.0, 0.0, 1.0], coulomb_cutoff=10.0),
}  # fmt: skip

DEFAULTS = {
    "model": "tensornet", "num_rbf": 10, "rbf_type": "expnorm", "trainable_rbf": False, "activation": "silu", "cutoff_lower": 0.0,
    "cutoff_upper": 4.2, "max_z": 40, "max_num_neighbors": 64, "equivariance_invariance_group": "O(3)", "static_shapes": False,
    "precision": 32, "output_model": "Scalar", "output_mlp_num_layers": 0, "reduce_op": "sum", "prior_model": None,
    "prior_args": None, "atom_filter": -1, "derivative": True, "charge": False, "spin": False, "box_vecs": None,
    "remove_ref_energy": False, "lr": 1e-3, "batch_size": 8, "seed": 1,
}  # fmt: skip


def settings_of(name):
    """The user's statements about one of VARIANTS or BENCH: the settings of convert."""
    options = {**VARIANTS, **BENCH}[name]
    return {"unit": options.get("unit", "eV"), "charge": options.get("total_charge")}


def is_of_clusters(name):
    """Whether its energy is only one of clusters."""
    options = VARIANTS.get(name, {})
    return options.get("output_model") == CHARGES["output_model"] and "coulomb_cutoff" not in options


def elements_of(name):
    """The elements with which a variant is converted, or None for all."""
    return ELEMENTS if {**VARIANTS, **BENCH}[name].get("elements") else None


def _shake(model):
    """Random numbers in place of torchmd-net's regular initial ones; distances must matter."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "distance_expansion" in name:
                parameter.mul_(1 + 0.05 * torch.rand_like(parameter))
            elif name.endswith("norm.weight"):
                parameter.add_(0.3 * torch.randn_like(parameter))
            elif name.endswith("bias"):
                parameter.add_(0.2 * torch.randn_like(parameter))
                if name.endswith("q_mlp.layers.4.bias"):
                    # Shares of charges are squares. If the numbers were small differences, the shares would be mostly
                    # rounding in float32.
                    parameter[len(parameter) // 2 :].add_(0.7)
            elif "distance_proj" in name or "linears_scalar.0" in name:
                parameter.mul_(4.0)
            elif "atomref" in name:
                parameter.add_(torch.randn_like(parameter))


def make_checkpoint(path, seed=1, old=False, std=None, mean=None, unit="eV", total_charge=None, elements=False, **options):
    """Writes a checkpoint with random numbers, in the form of Lightning's training checkpoints. Returns its path as a
    string."""
    module, _ = import_torchmdnet()
    import torch

    hyper = {**DEFAULTS, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        statistics = {key: None if value is None else torch.tensor(value) for key, value in (("std", std), ("mean", mean))}
        named = {"tensornetv2_alt": "tensornet2"}.get(hyper["model"], hyper["model"])
        model = module.create_model(hyper | {"model": named}, **statistics)
        _shake(model)
    state = {f"model.{name}": value for name, value in model.state_dict().items()}
    if old:
        hyper["check_errors"] = True
        for name in state:
            last = name.endswith(("tensor_embedding.linears_scalar.1.weight", "tensor_embedding.linears_scalar.1.bias"))
            if last or (".linears_scalar.2." in name and hyper["model"] == "tensornet"):
                rows = state[name].shape[0] // 3
                state[name] = state[name].reshape(3, rows, -1).transpose(0, 1).reshape(state[name].shape)
    torch.save(
        {"epoch": 1, "global_step": 10, "pytorch-lightning_version": "2.6.6", "state_dict": state, "loops": {}, "callbacks": {},
         "optimizer_states": [], "lr_schedulers": [], "hparams_name": "hparams", "hyper_parameters": hyper},
        path,
    )  # fmt: skip
    return str(path)


def make_variant(name, directory, seed=1):
    """Path of the checkpoint of one of VARIANTS or BENCH."""
    return make_checkpoint(Path(directory) / f"{name}.ckpt", seed=seed, **{**VARIANTS, **BENCH}[name])


def main(argv=None):
    def source(name, directory, seed):
        return make_variant(name, directory, seed), {**settings_of(name), "elements": elements_of(name)}

    command(argv, __doc__, VARIANTS, BENCH, source)


if __name__ == "__main__":
    sys.exit(main())
