# SPDX-License-Identifier: MIT
"""Reads models of so3krates-torch: a pickled module (.model), or a state_dict next to the settings of its training.

A file is read as data; neither so3krates-torch nor torch is needed. What the converter does not represent is refused by name.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ... import torch_modules
from ...errors import EquiError
from ...printable import printable
from ...torch_modules import Module
from ..common.numbers import whole_setting
from ..common.origin import Origin, digest, file_of, naming
from ..common.state import State
from ..common.unknown_keys import refuse_unknown

# What SO3LRCalculator of the package uses for files that leave it open, in Angstrom.
LONG_RANGE_CUTOFF, DISPERSION_DAMPING = 12.0, 2.0
CITATION = "A. Kabylda et al., doi:10.1021/jacs.5c09558; J. T. Frank et al., Nat. Commun. 15, 6539 (2024)"
# Licenses of published files by their hash: that in the package has the license of the package.
LICENSES = {"b5145564911ff983ed076ccb2bca5ce63454b74c9c8291092695463f1e6732be": "MIT"}

NETWORK = {
    "r_max": 4.5, "num_radial_basis_fn": 32, "degrees": None, "num_features": 128, "num_heads": 4, "num_layers": 3, "num_elements": 118,
    "avg_num_neighbors": None, "final_mlp_layers": 2, "energy_regression_dim": 128, "message_normalization": "avg_num_neighbors",
    "initialize_ev_to_zeros": True, "radial_basis_fn": "bernstein", "layer_normalization_1": False, "layer_normalization_2": False,
    "residual_mlp_1": False, "residual_mlp_2": False, "use_charge_embed": False, "use_spin_embed": False, "interaction_bias": True,
    "qk_non_linearity": "identity", "cutoff_fn": "cosine", "cutoff_p": 5, "activation_fn": "silu", "energy_activation_fn": "silu",
}  # fmt: skip
LONG_RANGE = {
    "zbl_repulsion_bool": True, "electrostatic_energy_bool": True, "electrostatic_energy_scale": 4.0, "dispersion_energy_bool": True,
    "dispersion_energy_scale": 1.2, "dispersion_energy_cutoff_lr_damping": None, "r_max_lr": None, "neighborlist_format_lr": "sparse",
    "use_pme": False,
}  # fmt: skip
# What a module keeps at its default, whatever the settings of its training say.
FIXED_IN_TRAINING = {"num_elements", "final_mlp_layers", "initialize_ev_to_zeros", "interaction_bias", "cutoff_p"}
WITHOUT_EFFECT = {
    "trainable_rbf", "atomic_type_shifts", "atomic_energy_shifts", "energy_learn_atomic_type_shifts", "energy_learn_atomic_type_scales",
    "layers_behave_like_identity_fn_at_init", "output_is_zero_at_init", "input_convention", "num_output_heads", "convert_to_multihead",
    "use_multihead", "pme_smearing", "pme_mesh_spacing", "compute_avg_num_neighbors", "variant",
}  # fmt: skip
# Attributes of a module with other names than the settings.
ATTRIBUTES = {
    "cutoff_fn": "cutoff_fn_name", "activation_fn": "activation_fn_name", "energy_activation_fn": "energy_activation_fn_name",
}
WHOLE = {
    "num_radial_basis_fn": 2, "num_features": 4, "num_heads": 1, "num_layers": 1, "num_elements": 1, "final_mlp_layers": 1,
}  # with the least value  # fmt: skip
NO_LONG_RANGE = dict.fromkeys(("zbl_repulsion_bool", "electrostatic_energy_bool", "dispersion_energy_bool"), False)
CLASSES = ("So3krates", "SO3LR", "MultiHeadSO3LR")
ENERGY = "atomic_energy_output_block"
FLAGS = (
    "initialize_ev_to_zeros", "layer_normalization_1", "layer_normalization_2", "residual_mlp_1", "residual_mlp_2", "use_charge_embed",
    "use_spin_embed", "interaction_bias", "zbl_repulsion_bool", "electrostatic_energy_bool", "dispersion_energy_bool", "use_pme",
)  # fmt: skip
CHOICES = {
    "message_normalization": ("avg_num_neighbors", "sqrt_num_features", "identity"),
    "radial_basis_fn": ("bernstein", "gaussian", "bessel"),
    "cutoff_fn": ("phys", "cosine", "polynomial"),
    "qk_non_linearity": ("identity",),
    "activation_fn": ("silu",),
    "energy_activation_fn": ("silu", "tanh", "relu"),
    "neighborlist_format_lr": ("sparse",),
}
LMAX = 4  # of the package's harmonics
# The package's tables of charges and Hirshfeld ratios have this number of rows, the first of which is no element.
ROWS_OF_CHARGES = 100
CHARGES, SPINS = (-100, 100), (1, 100)
NOT_MERGED = "a fine-tuning is not merged with the model; so3krates-torch merges it (torchkrates-merge)"
ADAPTED = ("lora_", "dora_", "vera_")


@dataclass
class Checkpoint(Origin):
    elements: list  # those whose energies were trained
    known: list  # all that the file has numbers of
    cutoff: float
    options: dict
    divisors: list  # of the scores of heads and of those of degrees, by layer
    heads: list  # of a file of several heads, else empty
    state: State
    is_module: bool  # whether the file holds a module, not only its numbers
    charge: int  # of the systems of the package's own results; None: 0
    spin: int  # their multiplicity; None: 1

    @property
    def has_far_energies(self):
        return has_far_energies(self.options)

    @property
    def remarks(self):
        if self.has_far_energies:
            radius = self.options["r_max_lr"]
            yield f"long-range energies end at {radius:g} Angstrom, for periodic structures and for molecules; there is no Ewald sum"

    def chosen(self, choice):
        return self.heads[self.head_index(choice)] if self.heads else None

    def head_index(self, name=None):
        """The number of the named head of a file of several heads."""
        if name is None and len(self.heads) > 1:
            raise EquiError(f"{self.source} has several heads, choose one: --head {' | '.join(self.heads)}")
        if name is not None and name not in self.heads:
            offered = f"only {', '.join(self.heads)}" if self.heads else "but one energy without a name"
            raise EquiError(f"{self.source} has no head '{printable(name, 60)}', {offered}")
        return self.heads.index(name) if name is not None else 0


def has_far_energies(options):
    """Whether there is a Coulomb or a dispersion energy."""
    return options["electrostatic_energy_bool"] or options["dispersion_energy_bool"]


def _expect(options, key, what, is_right):
    if not is_right:
        raise EquiError(f"option {key}: expected {what}, found {printable(str(options[key]), 60)}")


def _audit(options):
    """Refuses values that the converter does not represent."""
    if options["use_pme"]:
        raise EquiError("option use_pme true: an Ewald sum is not supported")
    for key, least in WHOLE.items():
        _expect(options, key, f"a whole number from {least} on", type(options[key]) is int and least <= options[key] <= 65536)
    for key in FLAGS:
        _expect(options, key, "true or false", type(options[key]) is bool)
    for key, known in CHOICES.items():
        _expect(options, key, " or ".join(known), options[key] in known)
    for key in ("r_max", "avg_num_neighbors", "electrostatic_energy_scale", "dispersion_energy_scale", "cutoff_p"):
        _expect(options, key, "a positive number", type(options[key]) in (int, float) and 0 < options[key] < 1e30)
    smooth = "a number from 2 on, for a cutoff function with a second derivative at 0"
    _expect(options, "cutoff_p", smooth, options["cutoff_fn"] != "polynomial" or options["cutoff_p"] >= 2)
    degrees, F = options["degrees"], options["num_features"]
    is_list = isinstance(degrees, (list, tuple)) and degrees and all(type(l) is int and 0 <= l <= LMAX for l in degrees)
    # The factors of norms are in ascending order in the package, whatever the order of its degrees.
    is_ascending = is_list and list(degrees) == sorted(set(degrees))
    _expect(options, "degrees", f"different whole numbers up to {LMAX} in ascending order", is_ascending)
    divisible = f"a multiple of 4, of num_heads ({options['num_heads']}) and of the number of degrees ({len(degrees)})"
    _expect(options, "num_features", divisible, all(F % n == 0 for n in (4, options["num_heads"], len(degrees))))
    dim = options["energy_regression_dim"]
    is_width = dim is None or (type(dim) is int and 2 <= dim <= 65536)
    _expect(options, "energy_regression_dim", "a whole number from 2 on, or nothing", is_width)
    _audit_long_range(options)


def _heads(state):
    """Names of the heads of a file of several: their numbers."""
    name = f"{ENERGY}.final_layer_bias"
    return [str(head) for head in range(len(state.array(name)))] if name in state else []


def _audit_long_range(options):
    if not has_far_energies(options):
        return
    _expect(options, "r_max_lr", "a cutoff of at least r_max", options["r_max_lr"] >= options["r_max"])
    damping = options["dispersion_energy_cutoff_lr_damping"]
    _expect(options, "dispersion_energy_cutoff_lr_damping", "a positive number below r_max_lr", 0 < damping < options["r_max_lr"])


def _options_of_module(model):
    """Settings of a pickled module, which keeps those of its construction as attributes."""
    has_more = model.class_name != "So3krates"
    options = {}
    for key in NETWORK | (LONG_RANGE if has_more else {}):
        name = ATTRIBUTES.get(key, key)
        if name in model.attributes:
            value = model.attributes[name]
            options[key] = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
        elif key != "use_pme":  # which older modules lack
            raise EquiError(f"attribute {name} of the module is missing")
    return LONG_RANGE | ({} if has_more else NO_LONG_RANGE) | options


def _options_of_training(stored, settings, ignore_keys):
    """The same of the settings of a training, those in a checkpoint and those that the user names; others are the package's defaults."""
    found = {}
    for part in (stored or {}, settings or {}):
        part = part.get("ARCHITECTURE", part)
        found |= part if isinstance(part, dict) else {}
    if found.get("degrees") is None:
        raise EquiError(
            "the file has the numbers of a model without its settings: give the .model file that was written next to it, or the "
            "settings of the training with --settings FILE.yaml (degrees: [1, 2, 3, 4] and others)"
        )
    refuse_unknown([key for key in found if key not in {*NETWORK, *LONG_RANGE, *WITHOUT_EFFECT, *ignore_keys}])
    options = NETWORK | LONG_RANGE | {key: value for key, value in found.items() if key in {*NETWORK, *LONG_RANGE} - FIXED_IN_TRAINING}
    if options["avg_num_neighbors"] is None:
        if options["message_normalization"] == "avg_num_neighbors" or not options["initialize_ev_to_zeros"]:
            raise EquiError(
                "setting avg_num_neighbors is missing: a training computes it from its data and stores it only in the .model file"
            )
        options["avg_num_neighbors"] = 1.0
    return options


def _divisors(options):
    """Divisors of the scores of heads and of degrees."""
    F, N = options["num_features"], options["avg_num_neighbors"]
    return {
        "avg_num_neighbors": (N, N), "identity": (1.0, 1.0),
        "sqrt_num_features": (sqrt(F // options["num_heads"]), sqrt(F // len(options["degrees"]))),
    }[options["message_normalization"]]  # fmt: skip


def _divisors_of_module(model, options):
    """Those of each layer: a module keeps the ones that it was made with, even if a later training changes the number of neighbors."""
    blocks = [getattr(model.euclidean_transformers, str(t)).euclidean_attention_block for t in range(options["num_layers"])]
    for block in blocks:
        if block.class_name != "EuclideanAttentionBlock":
            raise EquiError(f"layers {block.class_name}: {NOT_MERGED}")
    return [(float(block.att_norm_inv), float(block.att_norm_ev)) for block in blocks]


def _trained(scales):
    """Rows of the elements whose energies have a trained scale; all if none has."""
    found = np.flatnonzero(scales != 1.0)
    return found if len(found) else np.arange(len(scales))


def load(source, ignore_keys=(), settings=None, coulomb_cutoff=None, dispersion_damping=None, charge=None, spin=None):
    """The model in a file. settings: those of a training, for files without them. The others, in Angstrom, replace what the file
    says of long-range energies. charge and spin are only those of the package's own results."""
    from ase.data import chemical_symbols

    path = file_of(source)
    with naming(source):
        found = torch_modules.read(path)
        is_module = isinstance(found, Module)
        if is_module:
            if found.class_name not in CLASSES:
                raise EquiError(f"expected a model of the classes {', '.join(CLASSES)}, found one of {printable(found.class_name, 60)}")
            if settings:
                raise EquiError("--settings: the file has the settings of its model; leave it out")
            options, numbers = _options_of_module(found), dict([*found.named_parameters(), *found.named_buffers()])
        elif isinstance(found, dict):
            numbers = found.get("model", found)
            options = _options_of_training(found.get("config"), settings, ignore_keys)
        else:
            raise EquiError(f"expected a module or a state_dict, found {type(found).__name__}")
        adapted = [name for name in numbers if any(part in name for part in ADAPTED)]
        if adapted:
            raise EquiError(f"tensor {adapted[0]}: {NOT_MERGED}")
        damping = "dispersion_energy_cutoff_lr_damping"
        for key, given, default in (("r_max_lr", coulomb_cutoff, LONG_RANGE_CUTOFF), (damping, dispersion_damping, DISPERSION_DAMPING)):
            options[key] = given if given is not None else options[key] if options[key] is not None else default
        _audit(options)
        state = State(numbers, "a model of so3krates-torch")
        heads = _heads(state)
        scales = np.asarray(state.array(f"{ENERGY}.energy_scales" + ("" if heads else ".weight"))).reshape(-1)
        rows = _trained(scales)
        known = len(scales)
        if has_far_energies(options):
            known = min(known, ROWS_OF_CHARGES - 1)
        divisors = _divisors_of_module(found, options) if is_module else [_divisors(options)] * options["num_layers"]
    sha256 = digest(path)
    return Checkpoint(
        source=source,
        path=path.resolve(),
        sha256=sha256,
        license=LICENSES.get(sha256, "unknown"),
        citation=CITATION,
        elements=[chemical_symbols[row + 1] for row in rows if row < known],
        known=chemical_symbols[1 : known + 1],
        cutoff=float(options["r_max"]),
        options=options,
        divisors=divisors,
        heads=heads,
        state=state,
        is_module=is_module,
        charge=whole_setting(charge, "charge", CHARGES),
        spin=whole_setting(spin, "spin", SPINS),
    )
