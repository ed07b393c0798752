# SPDX-License-Identifier: MIT
"""Reads the files of TACE: exported models (.pt), whole models (.pt, .pth) and checkpoints of a training (.ckpt).

All are read as data; neither TACE nor torch is needed. Each contains the options of its model, from which the layers
follow. What the converter does not represent is refused by the name of the option.
"""

import re
from dataclasses import dataclass

import numpy as np

from ... import torch_archive, torch_modules
from ...errors import EquiError
from ...printable import printable
from ..common.origin import Origin, file_of, naming
from ..common.state import State
from ..common.unknown_keys import refuse_unknown
from .model import RESTRICTIONS

# Options that a file may lack, with the values of the package, section by section.
DEFAULTS = {
    "Lmax": 2, "lmax": 3, "parity": False, "num_channel": 64, "num_layers": 2, "fidelity": {"name": "PBE"},
    "node_embedding": {"type": "linear"}, "edge_embedding": {"type": "identity"}, "edge_update": {"type": "identity"},
    "radial_basis": {
        "bias": False, "radial_basis": "j0", "num_radial_basis": 8, "distance_transform": None, "cutoff_fn": "c2poly",
        "polynomial_cutoff": 5, "trainable": False, "apply_cutoff": True, "hidden": [64, 64, 64], "mlp_type": "mlp", "mlp_norm": None, "gaussian_width": 2.0,
    },
    "atomic_basis": {
        "type": "cgtp", "l1l2": None, "scatter_norm": "avg_num_neighbors", "nonlinear": "gate", "gate_m0": True, "scalar_act": None,
        "tensor_act": None,
    },
    "resnet": {"type": "BB", "linear_type": "aware", "use_first_resnet": False},
    "layer_norm": {"pre_norm_type": None, "final_norm_type": None, "use_first_pre_norm": False},
    "product_basis": {
        "type": "cgtp", "l1l2": None, "correlation": 2, "return_components": None, "num_expert": None, "num_channel_per_expert": None,
        "use_shared_expert": False, "nonlinear": None, "scalar_act": None, "agnostic": False,
    },
    "readout_emlp": {"bias": False, "hidden": [16], "use_alllayer": False},
    "scale_shift": {"enable": True, "scale_type": "rms_forces", "shift_type": None, "all_atoms": False, "scale_zbl": True},
    "short_range": {"zbl": {"enable": False, "trainable": False}},
    "long_range": {"les": {"enable": False}},
    "universal_embedding": {},
}  # fmt: skip
# Values that the converter represents. A list has a value for each layer.
NORMS = (None, "merge_rms_norm", "merge_layer_norm")
GATES = ("silu", "sigmoid", "tanh", "relu", "identity")  # e3nn divides them by a number that is known
CHOICES = {
    "node_embedding.type": ("linear", "spherical_tensor", "spherical_tensor_element2", "wigner_tensor", "wigner_tensor_element2"),
    "edge_embedding.type": ("identity", "linear", "nonlinear"),
    "edge_update.type": ("identity", "element2", "element2_v2"),
    "radial_basis.radial_basis": ("j0", "bessel", "gaussian"),
    "radial_basis.distance_transform": (None, "Agnesi"),
    "radial_basis.mlp_type": ("mlp", "mlp_v2"),
    "radial_basis.mlp_norm": (None, "layer_norm", "rms_norm"),
    "atomic_basis.type": ("cgtp", "normal", "spectral", "o2_cgtp", "co3"),
    "atomic_basis.l1l2": tuple(RESTRICTIONS),
    "atomic_basis.scatter_norm": (None, "identity", "avg_num_neighbors", "sqrt_avg_num_neighbors", "density", "no_cutoff_density"),
    "atomic_basis.scalar_act": (None, *GATES),
    "atomic_basis.tensor_act": (None, *GATES),
    "resnet.type": ("BB", "AB", "BAB"),
    "resnet.linear_type": ("aware", "agnostic", "identity"),
    "layer_norm.pre_norm_type": NORMS,
    "layer_norm.final_norm_type": NORMS,
    "product_basis.type": ("cgtp", "coupled"),
    "product_basis.l1l2": tuple(RESTRICTIONS),
    "product_basis.correlation": (1, 2, 3),
    "product_basis.scalar_act": (None, "silu", "sigmoid", "tanh", "relu", "mish", "gelu", "identity"),
}
FLAGS = (
    "parity", "radial_basis.bias", "radial_basis.trainable", "radial_basis.apply_cutoff", "atomic_basis.gate_m0", "resnet.use_first_resnet",
    "layer_norm.use_first_pre_norm", "product_basis.use_shared_expert", "product_basis.agnostic", "readout_emlp.bias",
    "readout_emlp.use_alllayer", "scale_shift.enable", "scale_shift.all_atoms", "scale_shift.scale_zbl", "short_range.zbl.enable",
)  # fmt: skip
WHOLE = {
    "Lmax": 0, "lmax": 0, "num_channel": 1, "num_layers": 1, "radial_basis.num_radial_basis": 1, "radial_basis.polynomial_cutoff": 2,
}  # with the least value  # fmt: skip
# Names of options that have one value for each layer.
OF_LAYERS = ("atomic_basis.type", "atomic_basis.nonlinear", "product_basis.type", "product_basis.correlation")
EDGE_FRAMES = "; models with edge frames, such as TECE and those with RRA in their names, have other layers"
WHY_NOT = {
    "atomic_basis.type": EDGE_FRAMES,
    "radial_basis.cutoff_fn": "",
    "radial_basis.distance_transform": ": its function is not one of the format",
}
# Options without effect on the energy of these layers: of layers that are refused, of training, or superseded by numbers of the file.
WITHOUT_EFFECT = {
    "": {
        "mmax", "mag_Lmax", "max_neighbors", "statistics", "target_property", "embedding_property", "atomic_numbers", "angular_basis",
        "node_update", "special", "dropout", "kwargs", "wrapper", "_target_", "cutoff", "normalizer",
    },
    "radial_basis": {"num_mag_radial_basis", "order", "dydynamic_cutoff_mu"},
    "atomic_basis": {
        "edge_nonlinear", "use_asymmetric_contraction", "use_radial_rotary_attention", "num_head", "edge_ace_hidden", "node_wise_hidden",
        "edge_wise_hidden", "use_o2_asymmetric_contraction", "so2_l1l3", "so2_linear_type", "use_so2_edge_ace", "so2_agnostic",
        "use_graph_softmax", "use_temperature", "use_radial_phase",
    },
    "product_basis": {"resolution"},
    "readout_emlp": {"use_one_body_magmoms"},
    "scale_shift": {"scale_trainable", "shift_trainable"},
    "long_range.les": {"les_arguments"},
}  # fmt: skip
# Options of other versions with the only value at which they have no effect.
NEUTRAL = {
    "radial_basis.use_dydynamic_cutoff": False, "radial_basis.r_min": 0.0, "readout_emlp.use_uie": False, "atomic_basis.edge_info_type": "mlp",
}  # fmt: skip
# Options that only models of tace 0.1 have.
OF_VERSION_1 = {"inter", "prod", "radial_mlp", "num_levels"}
WHY_NOT_VERSION_1 = "a model of tace 0.1 (TACEV1), whose Cartesian tensors are not supported: train it again with tace 0.2"
# In the metadata of a compiled package.
SIGN_OF_COMPILED = b"tace_format"
MODEL_CLASSES = ("tace.models.e3nnTACE", "tace.models._e3nn.e3nnTACE", "tace.models.compile.e3nnTACE")
WRAPPERS = ("tace.models.TensorModel", "tace.models.CompileTensorModel")
# Derivatives of the energy, for which the model has no numbers.
DERIVATIVES = {"energy", "forces", "stress", "virials", "hessian", "atomic_stresses", "atomic_virials", "edge_forces"}
CITATION = "Z. Xu et al., TACE: A unified Irreducible Cartesian Tensor Framework for Atomistic Machine Learning, arXiv:2509.14961"
# Names of parameters under which files of version 0.2.0 have them.
OLD_NAMES = re.compile(r"(representation\.interactions\.\d+)\.(alpha|beta|edge_density)\b")


@dataclass
class Checkpoint(Origin):
    elements: list
    cutoff: float
    config: dict  # complete
    heads: list
    average_neighbors: float
    state: State

    @property
    def remarks(self):
        """What the user should know about the conversion."""
        options = self.config["scale_shift"]
        if not options["enable"] or options["all_atoms"]:
            return ()
        return (
            "the package gives one atom without neighbors another energy than an atom far from others: it sets the scale and shift of such a "
            "structure to zero (all_atoms false)",
        )

    def head_index(self, name):
        """Number of a head; raises EquiError if the name does not fit."""
        if name is None and len(self.heads) == 1:
            return 0
        if name is None:
            raise EquiError(f"{self.source} has several levels of theory (fidelities), choose one: --head {' | '.join(self.heads)}")
        if name not in self.heads:
            raise EquiError(f"{self.source} has no head '{name}', only {', '.join(self.heads)}")
        return self.heads.index(name)

    def chosen(self, choice):
        return self.heads[self.head_index(choice)] if len(self.heads) > 1 else None


def option(config, name):
    """The value of an option by its path, such as radial_basis.bias."""
    for key in name.split("."):
        config = config[key]
    return config


def _completed(config, defaults):
    """The options of a file over those of the package. Sections are merged; a section that is missing is the package's."""
    found = dict(config)
    for key, value in defaults.items():
        if key not in config:
            found[key] = value
        elif isinstance(value, dict) and isinstance(config[key], dict) and key != "fidelity":
            found[key] = _completed(config[key], value)
    return found


def _unknown(config, section=""):
    """Pairs of a key and its section that neither the converter reads nor are without effect."""
    defaults = option(DEFAULTS, section) if section else DEFAULTS
    known = set(defaults) | WITHOUT_EFFECT.get(section, set())
    for key, value in config.items():
        name = f"{section}.{key}" if section else key
        if name in ("universal_embedding", "fidelity"):
            continue
        if name in NEUTRAL:
            if value != NEUTRAL[name]:
                raise EquiError(f"option {name}: {printable(str(value), 60)} is not supported, only {NEUTRAL[name]}")
        elif key not in known:
            yield (key, f"section {section}") if section else key
        elif isinstance(value, dict) and isinstance(defaults.get(key), dict):
            yield from _unknown(value, name)


def _class_of(config):
    """The name of a class in a section, or None."""
    return config.get("_target_") if isinstance(config, dict) else None


def _audit(config, properties, ignore_keys):
    """Refuses options by name that the converter does not represent exactly; returns the complete ones."""
    outer = config.get("kwargs") if isinstance(config.get("kwargs"), dict) else {}
    if str(_class_of(config)).endswith("TACEV1") or not OF_VERSION_1.isdisjoint(config):
        raise EquiError(WHY_NOT_VERSION_1)
    for what, found, known in (
        ("_target_", _class_of(config) or _class_of(outer), MODEL_CLASSES),
        ("wrapper", _class_of(config.get("wrapper")) or _class_of(outer.get("wrapper")), WRAPPERS),
    ):
        if found is not None and found not in known:
            raise EquiError(f"option {what}: {printable(str(found), 60)} is not supported, only {known[0]}")
    _refuse_other_energies(config, properties)
    unknown = [entry for entry in _unknown(config) if (entry[0] if isinstance(entry, tuple) else entry) not in ignore_keys]
    refuse_unknown(unknown)
    found = _completed(config, DEFAULTS)

    def refuse(name, what):
        raise EquiError(f"option {name}: expected {what}, found {printable(str(option(found, name)), 60)}")

    for name, section in DEFAULTS.items():
        if isinstance(section, dict) and name != "fidelity" and not isinstance(found[name], dict):
            refuse(name, "a section")
    for name, least in WHOLE.items():
        if type(option(found, name)) is not int or not least <= option(found, name) <= 65536:
            refuse(name, f"a whole number from {least} on")
    for name in FLAGS:
        if type(option(found, name)) is not bool:
            refuse(name, "true or false")
    for name in OF_LAYERS:
        section, key = name.split(".")
        value = found[section][key]
        found[section] = found[section] | {key: list(value) if isinstance(value, (list, tuple)) else [value] * found["num_layers"]}
        if len(found[section][key]) != found["num_layers"]:
            refuse(name, f"a value for each of {found['num_layers']} layers")
    for name, choices in CHOICES.items():
        value = option(found, name)
        values = value if name in OF_LAYERS or name == "atomic_basis.scalar_act" and isinstance(value, list) else [value]
        for one in values:
            if not any(type(one) is type(choice) and one == choice for choice in choices):
                shown = ", ".join("none" if choice is None else str(choice) for choice in choices)
                raise EquiError(f"option {name}: {printable(str(one), 60)} is not supported, only {shown}{WHY_NOT.get(name, '')}")
    _audit_values(found, refuse)
    return found


def _refuse_other_energies(config, properties):
    """Parts of an energy that no layer has, and results that are not derivatives of the energy."""
    if "energy" not in properties:
        raise EquiError("option target_property: the model has no energy")
    others = sorted(str(name) for name in properties if name not in DERIVATIVES)
    if others:
        raise EquiError(f"option target_property: {printable(others[0], 60)} is not supported, only {', '.join(sorted(DERIVATIVES))}")
    embedding = config.get("universal_embedding")
    for name, section in embedding.items() if isinstance(embedding, dict) else ():
        if isinstance(section, dict) and section.get("enable"):
            raise EquiError(f"option universal_embedding.{printable(str(name), 60)}.enable: True is not supported, only False")
    les = config.get("long_range")
    les = les.get("les") if isinstance(les, dict) else None
    if isinstance(les, dict) and les.get("enable"):
        raise EquiError("option long_range.les.enable: True is not supported, only False")


def _audit_values(found, refuse):
    """Checks options whose values are neither numbers nor choices, and those that go only with some others."""
    radial, atomic, product = found["radial_basis"], found["atomic_basis"], found["product_basis"]
    for name in ("radial_basis.hidden", "readout_emlp.hidden"):
        widths = option(found, name)
        if not isinstance(widths, (list, tuple)) or not all(type(width) is int and 0 < width <= 4096 for width in widths):
            refuse(name, "a list of whole numbers from 1 to 4096")
    # The package takes any other name for c2poly.
    if radial["cutoff_fn"] in ("mollifier", "cosine", "c3poly"):
        raise EquiError(f"option radial_basis.cutoff_fn: {radial['cutoff_fn']} is not supported, only c2poly")
    if radial["radial_basis"] == "gaussian":
        width = radial["gaussian_width"]
        if type(width) not in (int, float) or not 0 < width < 1e6:
            refuse("radial_basis.gaussian_width", "a positive number")
        if radial["num_radial_basis"] < 2:
            refuse("radial_basis.num_radial_basis", "at least 2 for gaussian")
    if found["edge_update"]["type"] == "element2_v2" and radial["apply_cutoff"]:
        raise EquiError("option edge_update.type: element2_v2 needs radial_basis.apply_cutoff false")
    if found["edge_update"]["type"] != "identity" and found["edge_embedding"]["type"] == "nonlinear":
        kind = found["edge_update"]["type"]
        raise EquiError(f"option edge_embedding.type: nonlinear is not supported with edge_update.type {kind}, only identity, linear")
    if isinstance(atomic["scalar_act"], list) and len(atomic["scalar_act"]) != 2:
        refuse("atomic_basis.scalar_act", "an activation, or those of 0e and 0o")
    for one in atomic["nonlinear"]:
        if one is not None and not isinstance(one, str):
            refuse("atomic_basis.nonlinear", "none or gate")
    for key in ("num_expert", "num_channel_per_expert"):
        if product[key] is not None and (type(product[key]) is not int or not 1 <= product[key] <= 4096):
            refuse(f"product_basis.{key}", "none or a whole number from 1 on")
    components = product["return_components"]
    if components is not None and (not isinstance(components, (list, tuple)) or not all(type(c) in (int, str) for c in components)):
        refuse("product_basis.return_components", "none or a list of orders")
    if product["nonlinear"] is not None and set(product["correlation"]) != {2}:
        raise EquiError("option product_basis.nonlinear: the gate needs correlation 2 in all layers")
    if product["agnostic"] and ((product["num_expert"] or 1) > 1 or product["use_shared_expert"]):
        raise EquiError("option product_basis.agnostic: True does not go with experts")


def _read(path):
    """(options, numbers by name, properties, statistics, numbers of the exponential average or None) of a file."""
    raw = torch_archive.read(path)
    if isinstance(raw, torch_archive.Unknown):
        root = torch_modules.plain(raw)
        if root.class_name.endswith("ModelV1"):
            raise EquiError(WHY_NOT_VERSION_1)
        if root.class_name not in ("TensorModel", "CompileTensorModel") or "readout_fn" not in root.submodules:
            is_of_lammps = "Lammps" in root.class_name
            way = "give the file from which tace-export-lammps made it" if is_of_lammps else "export it with tace-export-eval"
            raise EquiError(f"it contains an object of {printable(root.qualified_name, 60)}, not a model of TACE: {way}")
        model = root.readout_fn
        numbers = dict(model.named_parameters()) | dict(model.named_buffers())
        return model.model_config, numbers, model.target_property, model.statistics, None
    if not isinstance(raw, dict) or not isinstance(raw.get("state_dict"), dict):
        raise EquiError("expected a model or a checkpoint of TACE with 'state_dict'")
    if "hyper_parameters" in raw:
        settings = _entries(raw["hyper_parameters"])
        cfg = _entries(settings.get("cfg"))
        config, properties = option(cfg, "model.config"), option(cfg, "loss.loss_property")
        prefix, statistics = "model.readout_fn.", settings.get("statistics")
        average = _entries(raw["ema_state_dict"])["shadow_params"] if "ema_state_dict" in raw else None
    else:
        config, properties, statistics, average = raw.get("cfg"), raw.get("target_property"), raw.get("statistics"), None
        prefix = "readout_fn."
    numbers = {name.removeprefix(prefix): array for name, array in raw["state_dict"].items() if str(name).startswith(prefix)}
    if not numbers:
        raise EquiError(f"no tensor of its state_dict has a name that begins with {prefix}")
    return config, numbers, properties, statistics, average


def _entries(value):
    """The dict of a section, also of a class that derives from dict."""
    if isinstance(value, torch_archive.Unknown):
        value = value.items or value.state
    if not isinstance(value, dict):
        raise EquiError("the settings of the training are not those of TACE")
    return value


def is_constant(name):
    """Whether a tensor only repeats constants of the modules."""
    return bool(
        name.endswith((".output_mask", ".num_elements", "._bias_index", "._bias_mask", ".balance_degree_weight", ".expand_index", ".offset"))
        or re.search(r"\._w3j_|(^|\.)(o3|o2|co3)_angular_basis\.|\.(tp|eqx_tp|fused_tp|\w*reshape\w*|harmonic_degrees)(\.|$)", name)
        or name in ("representation.atomic_numbers", "scale_shift.atomic_numbers", "representation.radial_basis.cutoff_fn.cutoff",
                    "representation.radial_basis.radial_fn.cutoff")
        or re.search(r"\.distance_transform\.covalent_radii$", name)
    )  # fmt: skip


def _is_parameter(name, array, config):
    """Whether a tensor of a state_dict is trained: buffers have no average."""
    if not np.size(array) or is_constant(name):
        return False
    if name.endswith((".bessel_weights", ".zeros")):
        return config["radial_basis"]["trainable"]
    if name in ("zbl.a_exp", "zbl.a_prefactor"):
        return bool(config["short_range"]["zbl"]["trainable"])
    if name in ("scale_shift.scale", "scale_shift.shift"):
        return bool(config["scale_shift"].get(f"{name.rpartition('.')[2]}_trainable"))
    return name not in ("cutoff", "atomic_numbers", "atomic_energy_layer.atomic_energy") and not re.match(
        r"(zbl\.|representation\.radial_basis\.)", name
    )


def _averaged(numbers, average, config):
    """The numbers of a training with those of its exponential average, which stand in the order of the parameters."""
    if average is None:
        return numbers
    names = [name for name, array in numbers.items() if _is_parameter(name, array, config)]
    shapes = [np.shape(numbers[name]) for name in names]
    if not isinstance(average, (list, tuple)) or [np.shape(array) for array in average] != shapes:
        raise EquiError(f"ema_state_dict: its {len(average)} tensors are not those of the {len(names)} parameters")
    return numbers | dict(zip(names, average))


def _heads(config):
    """The names of the levels of theory, or their numbers if names are missing or repeated."""
    fidelity = config["fidelity"]
    # The package takes the number of keys of a single section for that of the heads; only the first has energies.
    entries = fidelity if isinstance(fidelity, (list, tuple)) else [fidelity]
    names = [str(entry.get("name")) if isinstance(entry, dict) and entry.get("name") else None for entry in entries]
    if not names:
        raise EquiError("option fidelity: expected one section or more")
    return names if None not in names and len(set(names)) == len(names) else [str(n) for n in range(len(names))]


def _average_neighbors(statistics):
    """The mean over the data sets, as the package computes it."""
    sets = statistics if isinstance(statistics, (list, tuple)) else [statistics]
    found = [_entries(one).get("avg_num_neighbors") for one in sets]
    if not found or not all(isinstance(number, (int, float)) and number > 0 for number in found):
        raise EquiError(f"statistics: expected avg_num_neighbors of each data set, found {printable(str(found), 60)}")
    return sum(found) / len(found)


def load(source, ignore_keys=()):
    """The model in a file."""
    from ase.data import chemical_symbols

    path = file_of(source)
    with naming(source):
        if path.suffix == ".pt2":
            raise EquiError(
                "it is compiled by AOTInductor (.pt2), and its layers cannot be read back; give the file that it was compiled from (.pt)"
            )
        try:
            config, numbers, properties, statistics, average = _read(path)
        except (KeyError, AttributeError, TypeError) as error:
            raise EquiError(f"its settings are not those of a model of TACE: {type(error).__name__}: {error}") from error
        if not isinstance(config, dict) or not isinstance(properties, (list, tuple, set)):
            raise EquiError("its settings are not those of a model of TACE: no options (cfg) or no target_property")
        config = _audit(config, properties, ignore_keys)
        if tuned := next((name for name in numbers if ".lora_" in name), None):
            raise EquiError(f"tensor {tuned}: the model has low-rank updates (LoRA): merge them with tace-convert-lora")
        numbers = {OLD_NAMES.sub(r"\1.scatter_norm.\2", str(name)): array for name, array in _averaged(numbers, average, config).items()}
        state = State(numbers, "a TACE model of these options")
        z = state.array("atomic_numbers").reshape(-1)
        if z.dtype.kind != "i" or np.any(np.diff(z) <= 0) or not z.size or not 0 < z[0] <= z[-1] < len(chemical_symbols):
            raise EquiError("atomic_numbers: expected different atomic numbers in ascending order")
        cutoff = state.number("cutoff")
        average_neighbors = _average_neighbors(statistics if statistics is not None else config.get("statistics"))
    return Checkpoint(
        source=source,
        path=path.resolve(),
        citation=CITATION,
        elements=[chemical_symbols[number] for number in z],
        cutoff=cutoff,
        config=config,
        heads=_heads(config),
        average_neighbors=average_neighbors,
        state=state,
    )
