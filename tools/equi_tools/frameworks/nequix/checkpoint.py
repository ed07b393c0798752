# SPDX-License-Identifier: MIT
"""Reads the files of Nequix: a line of JSON, the configuration, and behind it the numbers.

The back end JAX writes them as arrays in the form of .npy, one after another and without names (.nqx), the back end torch by
torch.save (.pt). Both are read as data; neither Nequix nor its back ends are needed. What the converter does not represent is
refused by name.
"""

import io
import json
from dataclasses import dataclass

import numpy as np

from ... import torch_archive
from ...errors import EquiError
from ...irreps import SCALAR, Irreps
from ...printable import printable
from ..common.e3nn_layers import taken_matrices
from ..common.origin import Origin, file_of, naming
from ..common.state import State
from ..common.unknown_keys import refuse_unknown
from .model import convolutions

MAX_JSON_BYTES = 1 << 20
# Keys by which a configuration is recognized.
SIGNS = {"hidden_irreps", "radial_mlp_size", "radial_polynomial_p"}
WHOLE = {"lmax": 0, "n_layers": 1, "radial_basis_size": 1, "radial_mlp_size": 1, "radial_mlp_layers": 0}  # with the least value
NUMBERS = ("cutoff", "radial_polynomial_p", "shift", "scale", "avg_n_neighbors")
FLAGS = ("index_weights", "layer_norm")
NEEDED = ("atomic_numbers", "hidden_irreps", *WHOLE, *NUMBERS, *FLAGS)
WITHOUT_EFFECT = {
    # superseded by numbers of the file; how a model begins, and how it is evaluated
    "atom_energies", "mlp_init_scale", "kernel", "checkpoint_grad_energy",
    # data and their statistics
    "train_path", "valid_path", "val_path", "valid_frac", "cache_dir", "avg_n_edges", "avg_n_nodes", "max_n_edges", "max_n_nodes",
    "extra_train_path", "extra_train_steps", "extra_val_path", "extra_val_frac", "n_graph",
    # training
    "state_path", "resume_from", "finetune_from", "wandb_run_id", "optimizer", "learning_rate", "warmup_epochs", "warmup_factor",
    "grad_clip_norm", "weight_decay", "batch_size", "n_epochs", "energy_weight", "force_weight", "stress_weight", "hessian_weight",
    "extra_energy_weight", "extra_force_weight", "extra_stress_weight", "loss_type", "log_every", "val_every", "ema_decay",
}  # fmt: skip
# Names under which the authors have published their models.
PUBLISHED = (
    "nequix-mp-1", "nequix-mp-1-pft", "nequix-mp-1-pft-no-cotrain", "nequix-omat-1", "nequix-oam-1", "nequix-oam-1-pft",
)  # fmt: skip
LICENSE = "MIT"
CITATION = "T. Koker et al., arXiv:2508.16067"
CITATION_OF_OTHERS = f"{CITATION}; arXiv:2601.07742"  # all but the first


@dataclass
class Checkpoint(Origin):
    elements: list
    cutoff: float
    config: dict
    backend: str  # that wrote the file: jax or torch
    convolutions: list
    numbers: dict  # arrays by name; of a linear map {(block in, block out): (matrix [in, out], scale)}


def begins_as_nequix(path):
    """Whether a file begins with the configuration of a Nequix model."""
    with open(path, "rb") as file:
        if file.read(1) != b"{":
            return False
        file.seek(0)
        line = file.readline(MAX_JSON_BYTES)
    try:
        config = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(config, dict) and SIGNS <= set(config)


class _Arrays:
    """The arrays of a .nqx file, which follow one another in the order in which they are asked for."""

    HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}

    def __init__(self, data):
        self.file = io.BytesIO(data)

    def take(self, name, *shape):
        try:
            version = np.lib.format.read_magic(self.file)
            found, is_transposed, dtype = self.HEADERS[version](self.file)
        except (ValueError, KeyError) as error:
            raise EquiError(f"array {name}: the file ends there, or is damaged ({error})") from error
        if found != shape or dtype not in (np.float16, np.float32, np.float64):
            raise EquiError(f"array {name}: expected numbers of the shape {list(shape)}, found {dtype} of {list(found)}")
        data = self.file.read(int(np.prod(shape)) * dtype.itemsize)
        if len(data) != np.prod(shape) * dtype.itemsize:
            raise EquiError(f"array {name}: the file ends within it")
        array = np.frombuffer(data, dtype).reshape(shape, order="F" if is_transposed else "C")
        return array.astype(np.float64 if dtype == np.float64 else np.float32)

    def linear(self, name, irreps_in, irreps_out, num_species=None):
        """Matrices, or a matrix for each species."""
        pairs = [(i, j) for i, (_, ir) in enumerate(irreps_in) for j, block in enumerate(irreps_out) if block.ir == ir]
        lead = () if num_species is None else (num_species,)
        # In the order of their names in a dictionary of JAX.
        pairs.sort(key=lambda pair: f"w[{pair[0]},{pair[1]}] ")
        return {
            (i, j): (self.take(f"{name} {i} to {j}", *lead, irreps_in[i].mul, irreps_out[j].mul), irreps_in[i].mul ** -0.5)
            for i, j in pairs
        }

    def finish(self):
        """Behind the numbers of the model there may be settings, which the configuration has, too."""


class _State(State):
    """The numbers of a .pt file, which have names."""

    def linear(self, name, irreps_in, irreps_out, num_species=None):
        """Matrices; the back end torch has none for each species."""
        return taken_matrices(self, name, irreps_in, irreps_out)

    def finish(self):
        super().finish(lambda name: ".tp." in name or name.endswith(".output_mask"))


def _state(source, data):
    with torch_archive.blaming(source):
        return _State(torch_archive.read_bytes(data), "a Nequix model")


def _numbers(arrays, config, found):
    """All numbers of a model, in the order of a .nqx file."""
    species = len(config["atomic_numbers"])
    numbers = {"atom_energies": arrays.take("atom_energies", species)}
    for t, convolution in enumerate(found):
        name, mid = f"layers.{t}", convolution.irreps_mid
        sizes = [config["radial_basis_size"], *[config["radial_mlp_size"]] * config["radial_mlp_layers"], mid.num_channels]
        for n, shape in enumerate(zip(sizes, sizes[1:])):
            key = f"{name}.radial_mlp.layers.{n}.weights"
            numbers[key] = arrays.take(key, *shape)
        for part, *irreps in (
            ("linear_1", convolution.irreps_in, convolution.irreps_in),
            ("linear_2", mid.simplify(), convolution.irreps_z),
            ("skip", convolution.irreps_in, convolution.irreps_z, species if config["index_weights"] else None),
        ):
            numbers[f"{name}.{part}"] = arrays.linear(f"{name}.{part}", *irreps)
        for b, block in enumerate(convolution.irreps_z if config["layer_norm"] else ()):
            key = f"{name}.layer_norm.affine_weight.{b}"
            numbers[key] = arrays.take(key, block.mul)
    out = found[-1].irreps_out
    numbers["readout"] = arrays.linear("readout", out, Irreps([(1, SCALAR)]))
    arrays.finish()
    return numbers


def _audit(config, ignore_keys):
    known = {*NEEDED, *WITHOUT_EFFECT, *ignore_keys}
    refuse_unknown([key for key in config if key not in known])
    missing = [key for key in NEEDED if key not in config]
    if missing:
        raise EquiError(f"option {missing[0]} of a Nequix model is missing")

    def expect(key, what, is_right):
        if not is_right:
            raise EquiError(f"option {key}: expected {what}, found {printable(str(config[key]), 60)}")

    for key, least in WHOLE.items():
        expect(key, f"a whole number from {least} on", type(config[key]) is int and least <= config[key] <= 65536)
    for key in NUMBERS:
        expect(key, "a number", type(config[key]) in (int, float) and abs(config[key]) < 1e30)
    for key in FLAGS:
        expect(key, "true or false", type(config[key]) is bool)
    expect("hidden_irreps", "irreps", isinstance(config["hidden_irreps"], str))
    for key in ("cutoff", "avg_n_neighbors"):
        expect(key, "a positive number", config[key] > 0)
    smooth = "a number from 2 on, for a cutoff function with a second derivative at 0"
    expect("radial_polynomial_p", smooth, config["radial_polynomial_p"] >= 2)
    numbers = config["atomic_numbers"]
    is_list = isinstance(numbers, list) and all(type(number) is int and 0 < number < 119 for number in numbers)
    expect("atomic_numbers", "different atomic numbers", is_list and numbers and len(set(numbers)) == len(numbers))


def load(source, ignore_keys=()):
    """The model in a file."""
    from ase.data import chemical_symbols

    path = file_of(source)
    with naming(source):
        line, _, rest = path.read_bytes().partition(b"\n")
        try:
            config = json.loads(line[:MAX_JSON_BYTES])
        except (ValueError, RecursionError) as error:
            raise EquiError(f"no line of JSON in front of the numbers: {error}") from error
        if not isinstance(config, dict):
            raise EquiError("expected an object of JSON in front of the numbers")
        _audit(config, ignore_keys)
        backend = "jax" if rest.startswith(np.lib.format.MAGIC_PREFIX) else "torch"
        if backend == "torch" and config["index_weights"]:
            raise EquiError("option index_weights true: the back end torch has no weights for each species")
        found = convolutions(config, backend)
        numbers = _numbers(_Arrays(rest) if backend == "jax" else _state(source, rest), config, found)
    name = path.resolve().stem
    return Checkpoint(
        source=source,
        path=path.resolve(),
        license=LICENSE if name in PUBLISHED else "unknown",
        citation=CITATION_OF_OTHERS if name in PUBLISHED[1:] else CITATION,
        elements=[chemical_symbols[number] for number in sorted(config["atomic_numbers"])],
        cutoff=float(config["cutoff"]),
        config=config,
        backend=backend,
        convolutions=found,
        numbers=numbers,
    )
