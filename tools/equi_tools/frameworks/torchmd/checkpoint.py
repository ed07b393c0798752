# SPDX-License-Identifier: MIT
"""Reads the checkpoints that torchmd-net writes during training (.ckpt): hyper-parameters and numbers in one file.

The file is read as data; neither torchmd-net nor torch is needed.  What the converter does not represent is refused by name.
"""

import re
from dataclasses import dataclass

import numpy as np

from ... import torch_archive
from ...errors import EquiError
from ...printable import printable
from ..common.origin import Origin, file_of, naming
from ..common.tensornet_layers import Model, activation_of, exp_normal_basis, gaussian_basis
from ..common.unknown_keys import refuse_unknown
from ..common.versions import stated_version

# Hyper-parameters that change the model's results. The others that torchmd-train stores concern training, data,
# hardware and other architectures.
NEEDED = ("model", "embedding_dimension", "num_layers", "num_rbf", "rbf_type", "activation", "cutoff_upper", "max_z")
LOOKED_AT = {
    *NEEDED, "cutoff_lower", "equivariance_invariance_group", "output_model", "reduce_op", "prior_model",
    "prior_args", "atom_filter", "charge", "check_errors", "box_vecs", "q_dim", "q_weights", "repulsion", "coulomb_cutoff",
    "output_mlp_num_layers",
}  # fmt: skip
WITHOUT_EFFECT = {
    # training and data
    "load_model", "conf", "num_epochs", "batch_size", "inference_batch_size", "lr", "lr_patience", "lr_metric", "lr_min", "lr_factor",
    "lr_warmup_steps", "early_stopping_patience", "early_stopping_monitor", "reset_trainer", "weight_decay", "ema_alpha_y",
    "ema_alpha_neg_dy", "ngpus", "num_nodes", "log_dir", "splits", "train_size", "val_size", "test_size", "test_interval",
    "save_interval", "seed", "num_workers", "redirect", "gradient_clipping", "remove_ref_energy", "checkpoint_monitor",
    "load_weights", "dataset", "dataset_root", "dataset_arg", "coord_files", "embed_files", "energy_files", "force_files",
    "dataset_preload_limit", "y_weight", "neg_dy_weight", "train_loss", "train_loss_arg", "standardize", "wandb_use", "wandb_name",
    "wandb_project", "wandb_resume_from_id", "tensorboard_use", "accelerator", "devices", "strategy", "overfit_batches",
    # evaluation: numbers of neighbors that are a limit, precision, shapes; a spin, which TensorNet does not read
    "max_num_neighbors", "precision", "static_shapes", "derivative", "trainable_rbf", "spin",
    # other architectures
    "neighbor_embedding", "aggr", "distance_influence", "attn_activation", "num_heads", "vector_cutoff",
    "coulomb_max_num_neighbors", "coulomb_neighbor_strategy",
}  # fmt: skip
CHANGE_OF_ORDER = (3, 0)
COULOMB = "ScalarPlusWeightedCoulomb"
TENSORNET2 = ("tensornet2", "tensornetv2_alt", "tensornet-nqe")
OTHER_MODELS = {
    **dict.fromkeys(("graph-network", "transformer", "equivariant-transformer"), "it is another architecture"),
}
OTHER_PRIORS = {
    "LearnableAtomref": "torchmd-net 3.1 cannot make it from a checkpoint",
    "ZBL": "its repulsion has a cutoff of its own", "D2": "its dispersion has a cutoff of its own",
    "Coulomb": "charges that the data set states are not part of a LAMMPS pair style's input",
}  # fmt: skip


@dataclass
class Checkpoint(Origin):
    elements: list
    cutoff: float
    options: dict  # hyper-parameters
    state: dict  # names without `model.`
    atomrefs: list  # numbers of the priors that add energies of atoms
    charge: float  # of the whole structure; None: 0, or for TensorNet2 the charge of a run
    coulomb_cutoff: float = None  # of Coulomb energies; None: these are those of all pairs

    stated_unit = None

    @property
    def remarks(self):
        if not self.is_order_known:
            yield (
                "the checkpoint does not say whether torchmd-net 2.6.2 wrote it, which ordered its numbers otherwise "
                "than 3.0 and newer: if so, convert it with --framework-version 2.6.2"
            )

    @property
    def is_channel_first(self):
        """Whether it was written before torchmd-net 3.0 changed the order of dimensions. 2.6.2 removed the option."""
        return "check_errors" in self.options or (self.version != "unknown" and _numbers(self.version) < CHANGE_OF_ORDER)

    @property
    def is_order_known(self):
        """Whether the order is known: 2.6.2, which leaves it open, cannot have written the file, or the user states
        the version. 2.6.2 had no cutoff of charges."""
        return self.version != "unknown" or self.is_channel_first or "coulomb_cutoff" in self.options

    @property
    def has_charges(self):
        return self.options["model"] in TENSORNET2

    @property
    def has_coulomb(self):
        return self.options.get("output_model") == COULOMB

    @property
    def output_layers(self):
        """Further hidden layers of the output network; Scalar ignores the option."""
        return self.options.get("output_mlp_num_layers", 0) if self.has_coulomb else 0

    def tensornet(self):
        """The Model of tensornet_layers."""
        options = self.options
        state = {name.removeprefix("representation_model."): value for name, value in self.state.items()}
        # Boxes and limits of neighbor lists.
        lists = ("distance.", "distance_expansion.", "output_model.distance.")
        state = {name: value for name, value in state.items() if not name.startswith(lists)}
        return Model(
            channels=options["embedding_dimension"],
            num_layers=options["num_layers"],
            cutoff=self.cutoff,
            activation=activation_of(options["activation"]),
            group=options.get("equivariance_invariance_group", "O(3)"),
            basis=self.basis(),
            elements=self.elements,
            rows=list(range(1, len(self.elements) + 1)),
            num_rows=options["max_z"],
            state=state,
            channel_first=self.is_channel_first,
            self_edges=True,
            charge_factor=1.0 if self.has_charges else 1 + 0.1 * (self.charge or 0.0),
            activated_output=True,
            charge_channels=self.options["q_dim"] if self.has_charges else 0,
            total_charge=self.charge,
        )

    def basis(self):
        kind = self.options["rbf_type"]
        if kind == "expnorm":
            return exp_normal_basis(self._basis_numbers("means"), self._basis_numbers("betas"), self.cutoff)
        if kind == "gauss":
            return gaussian_basis(self._basis_numbers("offset"), -float(self._basis_numbers("coeff", ())))
        raise EquiError(f"rbf_type {printable(str(kind), 60)} is not supported, only expnorm and gauss")

    def _basis_numbers(self, name, shape=None):
        found = self.state.get(f"representation_model.distance_expansion.{name}")
        shape = (self.options["num_rbf"],) if shape is None else shape
        if np.shape(found) != shape:
            raise EquiError(f"tensor distance_expansion.{name}: expected the shape {list(shape)}, found {list(np.shape(found))}")
        return found


def _audit(options, ignore_keys):
    """Refuses what is not represented exactly."""
    for key in NEEDED:
        if key not in options:
            raise EquiError(f"hyper-parameter {key} is missing")
    model = options["model"]
    if model != "tensornet" and model not in TENSORNET2:
        reason = OTHER_MODELS.get(model, "it is not known")
        raise EquiError(f"model {printable(str(model), 60)} is not supported, only tensornet and tensornet2: {reason}")
    known = {*LOOKED_AT, *WITHOUT_EFFECT, *ignore_keys}
    refuse_unknown([key for key in options if key not in known], "hyper-parameter")
    output = options.get("output_model", "Scalar")
    if output != "Scalar" and not (output == COULOMB and model in TENSORNET2):
        is_coulomb = "Coul" in str(output)
        reason = "its charges and Coulomb energies belong to TensorNet2" if is_coulomb else "it is no sum of energies of atoms"
        raise EquiError(f"output_model {printable(str(output), 60)} is not supported, only Scalar: {reason}")
    if model in TENSORNET2:
        _audit_charges(options, output)
    if options.get("reduce_op", "sum") not in ("sum", "add"):
        raise EquiError(f"reduce_op {options['reduce_op']}: only sums of energies of atoms are supported")
    if options.get("atom_filter", -1) > -1:
        raise EquiError("atom_filter: a model that leaves out atoms is not supported")
    if options.get("box_vecs") is not None:
        raise EquiError("box_vecs: a model that has a box of its own is not supported")
    group = options.get("equivariance_invariance_group", "O(3)")
    if group == "SO(3)":
        raise EquiError(
            "equivariance_invariance_group SO(3): the two ways in which torchmd-net 3.1 evaluates it (with and without warp) take "
            "the product of matrices in opposite orders and disagree, so that there is nothing to be exact to"
        )
    if group != "O(3)":
        raise EquiError(f"equivariance_invariance_group {printable(str(group), 60)} is not known")
    if options.get("cutoff_lower", 0.0) != 0.0:
        raise EquiError(
            f"cutoff_lower {printable(str(options['cutoff_lower']), 60)} is not supported, only 0: atoms nearer than that do not see each "
            "other, and no cutoff function of an .equi file begins at a distance"
        )
    for key, least in (("embedding_dimension", 2), ("num_layers", 0), ("num_rbf", 1), ("max_z", 2)):
        if type(options[key]) is not int or not least <= options[key] <= 65536:
            raise EquiError(f"{key}: expected a whole number from {least} on, found {printable(str(options[key]), 60)}")
    cutoff = options["cutoff_upper"]
    if type(cutoff) not in (int, float) or not 0 < cutoff < 1e6:
        raise EquiError(f"cutoff_upper: expected a positive number, found {printable(str(cutoff), 60)}")


def _audit_charges(options, output):
    """Options that TensorNet2 has in addition to TensorNet's."""
    if type(options.get("q_dim")) is not int or not 1 <= options["q_dim"] <= 65536:
        raise EquiError(f"q_dim: expected a whole number of channels, found {printable(str(options.get('q_dim')), 60)}")
    if output != COULOMB:
        return
    layers = options.get("output_mlp_num_layers", 0)
    if type(layers) is not int or not 0 <= layers <= 64:
        raise EquiError(f"output_mlp_num_layers: expected a whole number, found {printable(str(layers), 60)}")
    cutoff = options.get("coulomb_cutoff")
    if cutoff is not None and (type(cutoff) not in (int, float) or not 0 < cutoff < 1e6):
        raise EquiError(f"coulomb_cutoff: expected a positive number, found {printable(str(cutoff), 60)}")


def _coulomb_cutoff(options, given):
    """The value of the checkpoint, or the user's instead, as torchmd-net allows."""
    if given is None:
        return options.get("coulomb_cutoff")
    if options.get("output_model") != COULOMB:
        raise EquiError(f"--coulomb-cutoff {given:g}: the model has no Coulomb energy")
    if not 0 < given < 1e6:
        raise EquiError(f"--coulomb-cutoff {given:g}: expected a positive number of Angstrom")
    return given


def _atomrefs(options):
    """Numbers of the priors that add energies of atoms; refuses other priors."""
    priors = options.get("prior_model") or []
    named = []
    for prior in priors if isinstance(priors, list) else [priors]:
        named += list(prior.items()) if isinstance(prior, dict) else [(prior, {})]
    args = options.get("prior_args")
    if args is not None:
        args = args if isinstance(args, list) else [args]
        named = [(name, given) for (name, _), given in zip(named, args)]
    found = []
    for n, (name, given) in enumerate(named):
        if name != "Atomref":
            raise EquiError(
                f"prior_model {printable(str(name), 60)} is not supported, only Atomref: {OTHER_PRIORS.get(name, 'it is not known')}"
            )
        if not isinstance(given, dict) or (given or {}).get("enable", True):
            found.append(n)
    return found


def _numbers(version):
    return tuple(int(number) for number in version.split(".")[:2])


def load(source, ignore_keys=(), charge=None, coulomb_cutoff=None, framework_version=None):
    """The model in a checkpoint. The user may state the total charge, the cutoff of the Coulomb energy and the version
    of torchmd-net that wrote the file."""
    path = file_of(source)
    found = torch_archive.read(path)
    options, state = (found.get(key) if isinstance(found, dict) else None for key in ("hyper_parameters", "state_dict"))
    if isinstance(options, torch_archive.Unknown):
        options = options.items  # a dict of Lightning's own
    if not isinstance(options, dict) or not isinstance(state, dict):
        raise EquiError(f"{source} is not a checkpoint of torchmd-net: no 'hyper_parameters' and 'state_dict' in it")
    with naming(source):
        _audit(options, ignore_keys)
        atomrefs = _atomrefs(options)
        coulomb_cutoff = _coulomb_cutoff(options, coulomb_cutoff)
        version = stated_version(framework_version, "2.6.2")
        if charge and not options.get("charge") and options["model"] not in TENSORNET2:
            raise EquiError(f"--charge {charge:g}: the model was trained without charges")
    from ase.data import chemical_symbols

    # The output network had other names in older versions.
    old = re.compile(r"^(output_model\.output_network)\.(\d+)\.")
    return Checkpoint(
        source=source,
        path=path.resolve(),
        version=version,
        elements=chemical_symbols[1 : min(options["max_z"], len(chemical_symbols))],
        cutoff=float(options["cutoff_upper"]),
        options=options,
        state={old.sub(r"\1.layers.\2.", name.removeprefix("model.")): value for name, value in state.items()},
        atomrefs=atomrefs,
        charge=None if charge is None else float(charge),
        coulomb_cutoff=None if coulomb_cutoff is None else float(coulomb_cutoff),
    )
