# SPDX-License-Identifier: MIT
"""Reads inference checkpoints of fairchem 2 (eSEN, UMA): an MLIPInferenceCheckpoint that torch.save has written.

The file is read as data; neither fairchem nor torch is needed.  What the converter does not represent is refused by name.
"""

from dataclasses import dataclass

import numpy as np

from ... import torch_archive
from ...errors import EquiError
from ...printable import printable
from ..common.numbers import whole_setting
from ..common.origin import Origin, file_of, naming
from ..common.unknown_keys import refuse_unknown
from .config import plain
from .system import CHARGES, SPINS

FAIR_LICENSE = "FAIR Chemistry License v1 (gated, with an acceptable use policy that also binds converted files)"
UMA_CITATION = "B. M. Wood et al., UMA: A Family of Universal Models for Atoms, arXiv:2506.23971"
ESEN_CITATION = "X. Fu et al., Learning Smooth and Expressive Interatomic Potentials for Physical Property Prediction, arXiv:2502.12147"
# Names of the published eSEN files, without their endings.
PUBLISHED_ESEN = {
    "esen_sm_conserving_all", "esen_sm_conserve", "esen_sm_odac25_filtered", "esen_sm_odac25_full", "esen_md_direct_all",
    "esen_sm_direct_all", "esen_md_direct",
}  # fmt: skip

# fairchem's defaults for options that a checkpoint does not name.
DEFAULTS = {
    "max_num_elements": 100, "sphere_channels": 128, "lmax": 2, "mmax": 2, "max_neighbors": 300, "cutoff": 5.0,
    "edge_channels": 128, "distance_function": "gaussian", "num_distance_basis": 512, "direct_forces": True,
    "direct_stress": False, "num_layers": 2, "hidden_channels": 128, "norm_type": "rms_norm_sh", "act_type": "gate",
    "ff_type": "grid", "chg_spin_emb_type": "pos_emb", "dataset_list": None, "dataset_mapping": None,
    "grid_resolution": None, "use_dataset_embedding": True, "charge_balanced_channels": None, "spin_balanced_channels": None,
}  # fmt: skip
MIXTURE_DEFAULTS = {
    "num_experts": 8, "use_composition_embedding": False, "moe_expert_coefficient_norm": "softmax", "moe_type": "so2",
    "model_version": 1.0,
}  # fmt: skip
# Options of training, of speed and of graphs that are made elsewhere, and names that fairchem itself does not use.
WITHOUT_EFFECT = {
    "model", "num_sphere_samples", "otf_graph", "use_pbc", "use_pbc_single", "regress_forces", "regress_stress",
    "regress_hessian", "hessian_vmap", "activation_checkpointing", "cs_emb_grad", "dataset_emb_grad", "use_cuda_graph_wigner",
    "use_quaternion_wigner", "radius_pbc_version", "always_use_pbc", "edge_chunk_size", "execution_mode", "moe_dropout",
    "use_global_embedding", "composition_dropout", "layers_moe", "moe_layer_type", "moe_single", "act",
}  # fmt: skip
MODEL_KEYS = {
    "_target_", "_convert_", "_recursive_", "backbone", "heads", "pass_through_head_outputs", "otf_graph", "freeze_backbone",
    "finetune_config", "supports_single_atoms", "model_id",
}  # fmt: skip
# It also mixes its experts by the number of atoms.
COUNTING_MODEL = "UMA-S-1.2"
BACKBONES = {"eSCNMDBackbone": False, "escnmd_backbone": False, "eSCNMDMoeBackbone": True, "escnmd_moe_backbone": True}
# Options for which the converter's layers represent only these values.
FIXED = {
    "distance_function": ("gaussian", "no other basis of distances is known"),
    "act_type": ("gate", "activations on a grid of the sphere depend on the frame of an edge, which fairchem draws at random"),
    "direct_forces": (False, "its forces come from a head of their own and are not the gradient of its energy"),
    "direct_stress": (False, "its stress comes from a head of its own and is not the derivative of its energy"),
    "moe_expert_coefficient_norm": ("softmax", "other norms of the experts' coefficients depend on what else is evaluated at once"),
    "moe_type": ("so2", "fairchem itself merges the experts of no other maps"),
}  # fmt: skip
# Lower bounds of whole numbers.
LEAST = {
    "max_num_elements": 2, "sphere_channels": 2, "lmax": 1, "mmax": 0, "max_neighbors": 1, "edge_channels": 1, "num_distance_basis": 2,
    "num_layers": 0, "hidden_channels": 1, "num_experts": 1,
}  # fmt: skip
NORMS = ("rms_norm_sh", "layer_norm_sh", "layer_norm")
ATOM_NETWORKS = ("spectral", "grid")
MAX_GRID = 64  # latitudes or longitudes


@dataclass
class Task:
    """The energy of one data set."""

    name: str  # name of the model's output: omat_energy
    rmsd: float  # eV
    references: np.ndarray  # eV by atomic number, or None


@dataclass
class Head:
    """The location of the numbers of an energy head."""

    prefix: str  # of its tensors: output_heads.NAME.head.
    experts: int = 0  # number of experts of its matrices, one of which belongs to a data set
    expert: int = 0


@dataclass
class Checkpoint(Origin):
    elements: list
    cutoff: float
    options: dict  # of the backbone, with defaults
    heads: dict  # their configurations by name
    passes_through: bool  # outputs have the names that heads give them, not the heads' names
    tasks: dict  # Task by the name of a data set
    model_id: str  # or None
    state: dict  # numbers for inference, without the names of wrappers
    charge: int  # of the whole system, in e
    spin: int  # multiplicity, or None for the default of the task
    composition: str  # formula, or None
    has_system: bool = True  # charge, spin and data set enter the features

    @property
    def extra_atoms(self):
        """What fairchem adds to the number of atoms when it divides sums over the composition of a system."""
        return 1 if self.model_id == COUNTING_MODEL else 0

    @property
    def num_experts(self):
        return self.options.get("num_experts", 0)

    def chosen(self, choice):
        return None if choice is None and self.is_for_all_systems else self.task_name(choice)

    def task_name(self, choice=None):
        """The data set whose energy is meant."""
        known = ", ".join(sorted(self.tasks))
        if choice is None:
            if len(self.tasks) > 1:
                raise EquiError(f"the model has several tasks, choose one: --task {known.replace(', ', ' | ')}")
            return next(iter(self.tasks))
        if choice not in self.tasks:
            raise EquiError(f"--task {printable(choice, 60)}: the model has {known}")
        return choice

    @property
    def is_for_all_systems(self):
        """Whether its experts are mixed by a composition that the user did not name."""
        return bool(self.num_experts and self.options["use_composition_embedding"] and self.composition is None)

    @staticmethod
    def usual_spin(task):
        return 1 if task == "omol" else 0

    def spin_of(self, task):
        return self.spin if self.spin is not None else self.usual_spin(task)

    def datasets(self):
        """Names of the embeddings by names of data sets."""
        return _mapping(self.options["dataset_mapping"], self.options["dataset_list"], "dataset_mapping")

    def head(self, task):
        """The Head of a data set's energy."""
        wanted, found = self.tasks[task].name, []
        for name in sorted(self.heads):
            outputs, head = _head(name, self.heads[name], task)
            if wanted == (outputs if self.passes_through else name):
                found.append(head)
        if len(found) != 1:
            raise EquiError(f"task {wanted}: expected one head that has this output, found {len(found)} of {len(self.heads)}")
        return found[0]


def _mapping(mapping, names, where):
    """A dict of names, or a list of names as such a dict."""
    if mapping is None and isinstance(names, list):
        mapping = {name: name for name in names}
    if not isinstance(mapping, dict) or not mapping or not all(isinstance(v, str) for v in mapping.values()):
        raise EquiError(f"{where}: expected names of data sets, found {printable(str(mapping), 60)}")
    return mapping


def last_part(path):
    return str(path).rsplit(".", 1)[-1]


def unknown_keys(config, known, where):
    """Those that are not known, each with its section."""
    return [(key, where) for key in config if key not in known]


def only_known(config, known, where):
    refuse_unknown(unknown_keys(config, known, where), can_pass=False)


def options_with_defaults(config, defaults, without_effect, ignore_keys, where, elsewhere=()):
    """Those options that have defaults; refuses others, except those without effect and those that the user lets pass.
    elsewhere: unknown keys of other sections."""
    refuse_unknown([*elsewhere, *unknown_keys(config, {*defaults, *without_effect, *ignore_keys}, where)])
    return defaults | {key: value for key, value in config.items() if key in defaults}


def expect_fixed(options, fixed):
    """Refuses options with values that the converter's layers do not represent; fixed: {name: (value, reason)}."""
    for key, (value, reason) in fixed.items():
        if key in options and options[key] != value:
            raise EquiError(f"{key} {printable(str(options[key]), 60)} is not supported, only {value}: {reason}")


def _head(name, config, task):
    """(name of its energy of a data set or None, Head) of the head in a configuration."""
    kind, where = last_part(config.get("module")), f"head {printable(name, 60)}"
    prefix = f"output_heads.{name}."
    if kind == "MLP_EFS_Head":
        only_known(config, {"module", "reduce", "prefix", "wrap_property"}, where)
        _check_sum(config, where)
        return (f"{config['prefix']}_energy" if config.get("prefix") else "energy"), Head(prefix)
    if kind not in ("DatasetSpecificMoEWrapper", "DatasetSpecificSingleHeadWrapper"):
        return None, None
    only_known(config, {"module", "head_cls", "head_kwargs", "wrap_property", "dataset_names", "dataset_mapping"}, where)
    if last_part(config.get("head_cls")) != "MLP_EFS_Head":
        return None, None
    arguments = config.get("head_kwargs") or {}
    only_known(arguments, {"reduce", "prefix", "wrap_property"}, where)
    _check_sum(arguments, where)
    mapping = _mapping(config.get("dataset_mapping"), config.get("dataset_names"), where)
    head = Head(f"{prefix}head.")
    if task not in mapping:
        return None, None
    if kind == "DatasetSpecificMoEWrapper":
        head.experts, head.expert = len(mapping), sorted(set(mapping.values())).index(mapping[task])
    inner = f"{arguments['prefix']}_energy" if arguments.get("prefix") else "energy"
    return f"{task}_{inner}", head


def _check_sum(config, where):
    if config.get("reduce", "sum") != "sum":
        raise EquiError(f"{where}: reduce {printable(str(config['reduce']), 60)}: only sums of energies of atoms are supported")


def _numbers(config, where):
    """The tensor that a configuration with _target_ and _args_ makes, in float64."""
    if isinstance(config, np.ndarray):
        return config.astype(np.float64)
    if isinstance(config, dict):
        only_known(config, {"_target_", "_args_", "data"}, where)
        kinds = {"torch.DoubleTensor": np.float64, "torch.FloatTensor": np.float32, "torch.Tensor": np.float32, "torch.tensor": np.float64}
        kind = kinds.get(config.get("_target_"))
        values = config.get("data", (config.get("_args_") or [None])[0])
        if kind is not None and isinstance(values, list) and all(type(v) in (int, float) for v in values):
            return np.array(values, kind).astype(np.float64)
    raise EquiError(f"{where}: expected a list of numbers, found {printable(str(config), 60)}")


def _normalizer(config, where):
    """(mean, rmsd) in eV."""
    if not isinstance(config, dict) or last_part(config.get("_target_")) not in ("Normalizer", "create_normalizer"):
        raise EquiError(f"{where}: expected a Normalizer, found {printable(str(config), 60)}")
    only_known(config, {"_target_", "mean", "rmsd"}, where)
    found = (config.get("mean", 0.0), config.get("rmsd", 1.0))
    if not all(type(v) in (int, float) and np.isfinite(v) for v in found):
        raise EquiError(f"{where}: expected numbers, found {printable(str(found), 60)}")
    return float(found[0]), float(found[1])


def _tasks(configs):
    """Task by data set; refuses those whose forces or stresses are not the derivatives of their energy."""
    if not isinstance(configs, list) or not all(isinstance(config, dict) for config in configs):
        raise EquiError("tasks_config: expected a list of tasks")
    tasks = {}
    for config in configs:
        if config.get("property") != "energy":
            continue
        name = str(config.get("name"))
        where = f"task {printable(name, 60)}"
        mean, rmsd = _normalizer(config.get("normalizer"), where)
        if mean != 0.0:
            raise EquiError(
                f"{where}: the mean of its normalizer is {mean:g}, which fairchem adds once to the energy of a structure, whatever its "
                "size; the energies of atoms cannot do that"
            )
        references = config.get("element_references")
        if references is not None:
            if not isinstance(references, dict) or last_part(references.get("_target_")) != "ElementReferences":
                raise EquiError(f"{where}: element_references of another kind than ElementReferences are not known")
            references = _numbers(references.get("element_references"), f"{where}: element_references")
        for dataset in config.get("datasets") or []:
            if dataset in tasks:
                raise EquiError(f"{where}: {printable(str(dataset), 60)} has two energies")
            tasks[dataset] = Task(name, rmsd, references)
    for config in configs:
        if config.get("property") not in ("forces", "stress"):
            continue
        mean, rmsd = _normalizer(config.get("normalizer"), f"task {printable(str(config.get('name')), 60)}")
        for dataset in config.get("datasets") or []:
            if dataset in tasks and (mean, rmsd) != (0.0, tasks[dataset].rmsd):
                raise EquiError(
                    f"task {printable(str(config.get('name')), 60)}: its normalizer (mean {mean:g}, rmsd {rmsd:g}) is not that of the "
                    f"energy (rmsd {tasks[dataset].rmsd:g}), so that it is not the derivative of the energy"
                )
    if not tasks:
        raise EquiError("tasks_config: no task with an energy")
    return tasks


def _backbone(config, model_id, ignore_keys, elsewhere):
    """The options of the backbone with defaults; refuses what is not represented exactly, and unknown keys
    elsewhere."""
    if not isinstance(config, dict):
        raise EquiError("model_config: no backbone in it")
    kind = last_part(config.get("model"))
    if kind not in BACKBONES:
        raise EquiError(
            f"backbone {printable(str(config.get('model')), 80)} is not supported, only eSCNMDBackbone (eSEN) and "
            "eSCNMDMoeBackbone (UMA)"
        )
    defaults = DEFAULTS | (MIXTURE_DEFAULTS if BACKBONES[kind] else {})
    stated = defaults | config
    if stated.get("num_experts") and model_id is None and stated["model_version"] not in (1.1, "1.1"):
        raise EquiError("a UMA model without a model_id (UMA 1.0), which fairchem 2.22 and newer refuse too")
    options = options_with_defaults(config, defaults, WITHOUT_EFFECT, ignore_keys, "the backbone", elsewhere)
    if options.get("num_experts") == 0:
        for key in MIXTURE_DEFAULTS:
            del options[key]
    expect_fixed(options, FIXED)
    if options["norm_type"] not in NORMS:
        raise EquiError(f"norm_type {printable(str(options['norm_type']), 60)} is not known, only {', '.join(NORMS)}")
    if options["chg_spin_emb_type"] not in ("rand_emb", "pos_emb"):
        raise EquiError(
            f"chg_spin_emb_type {printable(str(options['chg_spin_emb_type']), 60)} is not supported, only rand_emb and pos_emb"
        )
    check_numbers(options)
    check_grid(options, "ff_type")
    for key in ("charge_balanced_channels", "spin_balanced_channels"):
        options[key] = _balanced_channels(options[key], key, options["sphere_channels"])
    return options


def check_numbers(options):
    for key, least in LEAST.items():
        if key in options and (type(options[key]) is not int or not least <= options[key] <= 65536):
            raise EquiError(f"{key}: expected a whole number of at least {least}, found {printable(str(options[key]), 60)}")
    if options["mmax"] > options["lmax"]:
        raise EquiError(f"mmax {options['mmax']} is greater than lmax {options['lmax']}")
    if type(options["cutoff"]) not in (int, float) or not 0 < options["cutoff"] < 1e6:
        raise EquiError(f"cutoff: expected a positive number, found {printable(str(options['cutoff']), 60)}")


def check_grid(options, key):
    """The kind of the networks of atoms, the option `key`, and the grid on which they are evaluated, if there is
    one."""
    if options[key] not in ATOM_NETWORKS:
        raise EquiError(f"{key} {printable(str(options[key]), 60)} is not known, only {' and '.join(ATOM_NETWORKS)}")
    check_resolution(options, "grid_resolution")


def check_resolution(options, key):
    """The points each way of a grid, or None."""
    found, least = options[key], 2 * (options["lmax"] + 1)
    if found is not None and (type(found) is not int or found % 2 or not least <= found <= MAX_GRID):
        raise EquiError(f"{key}: expected an even number from {least} to {MAX_GRID}, found {printable(str(found), 60)}")


def check_counts(options, keys):
    for key in keys:
        if type(options[key]) is not int or not 1 <= options[key] <= 65536:
            raise EquiError(f"{key}: expected a whole number of at least 1, found {printable(str(options[key]), 60)}")


def _balanced_channels(found, key, channels):
    """The channels in order; they follow one another."""
    numbers = [] if found is None else found
    if not isinstance(numbers, list) or any(type(n) is not int for n in numbers):
        raise EquiError(f"{key}: expected a list of channels, found {printable(str(found), 60)}")
    numbers = sorted(numbers)
    if numbers and (numbers[0] < 0 or numbers[-1] >= channels or numbers != list(range(numbers[0], numbers[-1] + 1))):
        raise EquiError(f"{key}: expected channels from 0 to {channels - 1} that follow one another, found {printable(str(found), 60)}")
    return numbers


def state_of(found, key):
    """The numbers of a state dict, the entry `key` of a file, by their names in the model without the names of
    wrappers."""
    if not isinstance(found, dict) or not found:
        raise EquiError(f"no {key} in it, whose numbers fairchem evaluates")
    state = {}
    for name, value in found.items():
        while name.startswith("module."):
            name = name.removeprefix("module.")
        if name != "n_averaged":
            state[name] = value
    return state


def load(source, ignore_keys=(), charge=None, spin=None, composition=None):
    """The model in a checkpoint. The user states the system: its charge, its spin multiplicity and its composition, if
    experts are mixed by it."""
    path = file_of(source)
    found = torch_archive.read(path)
    is_checkpoint = isinstance(found, torch_archive.Unknown) and last_part(found.name) == "MLIPInferenceCheckpoint"
    if not is_checkpoint or not isinstance(found.state, dict):
        raise EquiError(f"{source} is not an inference checkpoint of fairchem 2: no MLIPInferenceCheckpoint in it")
    from ase.data import chemical_symbols

    with naming(source):
        model, tasks = plain(found.state.get("model_config")), plain(found.state.get("tasks_config"))
        if not isinstance(model, dict) or not isinstance(model.get("heads"), dict):
            raise EquiError("model_config: expected a backbone and heads")
        model_id = model.get("model_id")
        elsewhere = unknown_keys(model, {*MODEL_KEYS, *ignore_keys}, "model_config")
        options = _backbone(model.get("backbone"), model_id, ignore_keys, elsewhere)
        is_uma = bool(options.get("num_experts"))
        if composition is not None and not options.get("use_composition_embedding"):
            raise EquiError(
                f"--composition {printable(composition, 60)}: the model has no experts that are mixed by composition; " "leave it out"
            )
        if composition is not None and model_id == COUNTING_MODEL:
            raise EquiError(
                f"--composition {printable(composition, 60)}: the experts of {COUNTING_MODEL} are mixed by the number "
                "of atoms, too; leave it out, and "
                "LAMMPS mixes them when a run starts"
            )
        return Checkpoint(
            source=source,
            path=path.resolve(),
            license=FAIR_LICENSE if is_uma or path.stem in PUBLISHED_ESEN else "unknown",
            citation=UMA_CITATION if is_uma else ESEN_CITATION,
            elements=chemical_symbols[1 : min(options["max_num_elements"], len(chemical_symbols))],
            cutoff=float(options["cutoff"]),
            options=options,
            heads={str(name): head for name, head in model["heads"].items() if isinstance(head, dict)},
            passes_through=bool(model.get("pass_through_head_outputs", False)),
            tasks=_tasks(tasks),
            model_id=model_id,
            state=state_of(found.state.get("ema_state_dict"), "ema_state_dict"),
            charge=whole_setting(charge, "charge", CHARGES) or 0,
            spin=whole_setting(spin, "spin", SPINS),
            composition=composition,
        )
