# SPDX-License-Identifier: MIT
"""Reads SevenNet checkpoints into one canonical form.

Checkpoints of three years differ in the names of their tensors, in the order of the radial network's columns and in
the sign of their coupling coefficients. `load` audits the configuration: every key is known to be irrelevant or
handled, or the checkpoint is refused. It derives the model from the configuration, and returns it with a canonical
state: today's names, and columns in the sorted order of paths. The file is read as data; neither sevenn nor torch is
needed.
"""

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ... import torch_archive, torch_modules
from ...errors import EquiError
from ...printable import printable
from ..common.e3nn_layers import sign_of_coupling
from ..common.origin import Origin, naming
from ..common.state import State
from ..common.unknown_keys import refuse_unknown
from . import model as sevenn_model

ACTIVATIONS = ("silu", "tanh", "sigmoid", "relu", "abs", "ssp")
# Models are built as this version of sevenn builds them.
NEWEST_VERSION = (0, 13, 0)

# Configuration keys that describe the model. audit_config checks their values, or they act through the modules that
# sevenn builds from them.
MODEL_KEYS = set("""
    version _model_type chemical_species _chemical_species_by_atomic_number _number_of_species _type_map cutoff channel
    irreps_manual lmax lmax_edge lmax_node is_parity num_convolution_layer radial_basis cutoff_function act_radial
    act_scalar act_gate weight_nn_hidden_neurons conv_denominator avg_num_neigh train_denominator train_avg_num_neigh
    train_shift_scale optimize_by_reduce use_bias_in_linear readout_as_fcn readout_fcn_hidden_neurons
    readout_fcn_activation self_connection_type interaction_type _normalize_sph shift scale use_species_wise_shift_scale
    use_modality use_modal_node_embedding use_modal_self_inter_intro use_modal_self_inter_outro use_modal_output_block
    use_modal_wise_shift use_modal_wise_scale _modal_map _number_of_modalities modal_list default_modal
    use_flash_tp cuequivariance_config use_oeq _flash_lammps
    """.split())

# Keys about data, training and the machine.
OTHER_KEYS = set("""
    batch_size best_metric compute_statistics continue csv_log data_divide_ratio data_format data_format_args dataset_type
    dtype epoch error_record force_loss_weight is_train_stress loss loss_param optim_param optimizer per_epoch
    preprocess_num_cores random_seed save_by_label save_by_train_valid scheduler scheduler_param stress_loss_weight
    train_shuffle
    device is_ddp local_rank rank world_size ddp_backend when _num_workers num_workers _is_trace_stress
    use_testset use_weight data_weight data_modality data_shuffle format_outputs_for_ase structure_list
    opt_params fisher_information ewc_lambda
    rehearsal mem_batch_size mem_ratio info
    """.split())

# Checkpoints in the package sevenn, below pretrained_potentials.
SEVENNET_0 = ("SevenNet_0__11Jul2024/checkpoint_sevennet_0.pth", "jctc")
SHIPPED = {
    "7net-0": SEVENNET_0,
    "7net-0_11jul2024": SEVENNET_0,
    "7net-0_11july2024": SEVENNET_0,
    "7net-0_22may2024": ("SevenNet_0__22May2024/checkpoint_sevennet_0.pth", "jctc"),
    "7net-l3i5": ("SevenNet_l3i5/checkpoint_l3i5.pth", "jctc"),
    "7net-mf-0": ("SevenNet_MF_0/checkpoint_sevennet_mf_0.pth", "jacs"),
}
# Known to sevenn, but not inside its package: too large to ship.
DOWNLOADS = ("7net-mf-ompa", "7net-omat", "7net-omni", "7net-omni-i8", "7net-omni-i12")
CITATIONS = {
    "jctc": "Y. Park, J. Kim, S. Hwang, S. Han, J. Chem. Theory Comput. 20, 4857 (2024)",
    "jacs": "J. Kim, J. Kim, J. Kim, J. Lee, Y. Park, Y. Kang, S. Han, J. Am. Chem. Soc. 147, 1042 (2025)",
}


@dataclass
class Checkpoint(Origin):
    stored_config: dict  # unchanged from the file
    config: dict  # completed by sevenn's own defaults
    model: object  # a sevenn_model.Model: irreps and paths; the numbers are in state
    state: dict  # name -> array in the dtype of the training, columns sorted; without couplings
    path_signs: list  # per convolution: list of +1 or -1 per path, sign of the stored coupling relative to ours
    elements: list  # chemical symbols by species index

    @property
    def modalities(self):
        if not self.config.get("use_modality", False):
            return {}
        return dict(self.config["_modal_map"])

    def modality_index(self, name):
        """Index of the modality, None for a model without modalities; raises EquiError if the name does not fit."""
        known = self.modalities
        if not known:
            if name is not None:
                raise EquiError(f"{self.source} has no modalities: leave out '--modality {name}'")
            return None
        if name is None:
            raise EquiError(f"{self.source} has several modalities, choose one: --modality {' | '.join(known)}")
        if name not in known:
            raise EquiError(f"{self.source} has no modality '{name}', only {', '.join(known)}")
        return known[name]


def shipped_folder():
    """The folder of the checkpoints in the installed package sevenn, which this does not import; None without the
    package."""
    package = importlib.util.find_spec("sevenn")
    folders = (package.submodule_search_locations if package is not None else None) or []
    return next((Path(folder, "pretrained_potentials") for folder in folders), None)


def is_name(source):
    """Whether it is the name of a published checkpoint."""
    return _name(source) in (*SHIPPED, *DOWNLOADS)


def _name(source):
    return re.sub("^sevennet-", "7net-", source.lower())


def resolve(source):
    """(path, license, citation) of a file or of the name of a checkpoint in the package sevenn."""
    folder = shipped_folder()
    if os.path.isfile(source):
        path = Path(source).resolve()
        for place, citation in SHIPPED.values():
            if folder is not None and (folder / place).resolve() == path:
                return path, "MIT", CITATIONS[citation]
        return path, "unknown", "unknown"
    name = _name(source)
    if name in SHIPPED:
        if folder is None:
            raise EquiError(f"{source} comes with the package sevenn, which is not installed: pip install --no-deps sevenn")
        place, citation = SHIPPED[name]
        path = folder / place
        if not path.is_file():
            raise EquiError(f"{source}: the installed sevenn does not contain {path.name}; reinstall it")
        return path, "MIT", CITATIONS[citation]
    if name in DOWNLOADS:
        raise EquiError(
            f"{source} is not part of the sevenn package and would have to be downloaded: "
            "get its .pth from the source that 'equi models' lists, and give the file's name"
        )
    known = "7net-0, 7net-0_22May2024, 7net-l3i5, 7net-mf-0"
    raise EquiError(f"{source} is neither a file nor a checkpoint that comes with sevenn ({known}); 'equi models' lists others")


def audit_config(config, ignore_keys=()):
    """Refuses by name what this converter does not represent exactly."""

    def refuse(key, what):
        raise EquiError(f"{key}: {what}")

    def one_of(key, value, allowed):
        if value not in allowed:
            refuse(key, f"'{value}' is not supported, only {', '.join(sorted(map(str, allowed)))}")

    basis = config.get("radial_basis", {"radial_basis_name": "bessel"})
    envelope = config.get("cutoff_function", {"cutoff_function_name": "poly_cut"})
    _check_keys(config, basis, envelope, ignore_keys)
    one_of("_model_type", config.get("_model_type", "E3_equivariant_model"), ["E3_equivariant_model"])
    one_of("interaction_type", config.get("interaction_type", "nequip"), ["nequip"])
    if config.get("optimize_by_reduce") is False:
        refuse("optimize_by_reduce", "False is no longer supported by sevenn itself")
    connections = config.get("self_connection_type", "nequip")
    for kind in [connections] if isinstance(connections, str) else connections:
        one_of("self_connection_type", kind, ["nequip", "linear"])
    one_of("act_radial", config.get("act_radial", "silu"), ACTIVATIONS)
    if config.get("readout_as_fcn"):
        one_of("readout_fcn_activation", config.get("readout_fcn_activation", "relu"), ACTIVATIONS)
    for key in ("act_scalar", "act_gate"):
        for parity, value in config.get(key, {}).items():
            one_of(f"{key}.{parity}", value, ACTIVATIONS)
    one_of("radial_basis_name", basis.get("radial_basis_name"), ["bessel"])
    one_of("cutoff_function_name", envelope.get("cutoff_function_name"), ["poly_cut", "XPLOR"])
    num_modalities = config.get("_number_of_modalities", 0)
    if config.get("use_modality") and num_modalities < 2:
        refuse("_number_of_modalities", f"{num_modalities}: sevenn evaluates models of two or more modalities only")


def _check_keys(config, basis, envelope, ignore_keys):
    """Refuses all unknown keys at once."""
    known = MODEL_KEYS | OTHER_KEYS | set(ignore_keys)
    unknown = []
    for key in config:
        # "_cp": values of the checkpoint from which a training was continued.
        plain = re.sub("_cp$", "", str(key))
        if plain not in known and not re.fullmatch(r"(load|save)_\w+_path", plain):
            unknown.append(key)
    for section, values, allowed in (
        ("radial_basis", basis, {"radial_basis_name", "bessel_basis_num", "trainable_coeff"}),
        ("cutoff_function", envelope, {"cutoff_function_name", "poly_cut_p_value", "cutoff_on"}),
    ):
        unknown += [f"{section}.{key}" for key in values if key not in allowed and f"{section}.{key}" not in ignore_keys]
    refuse_unknown(unknown, "configuration key")


def check_version(config):
    """(version, its first three numbers) of sevenn; refuses a version that is newer than those whose options are
    known."""
    version = config.get("version")
    if not version:
        raise EquiError("version: the checkpoint does not say which sevenn wrote it; save it again with sevenn")
    numbers = sevenn_model.version_numbers(str(version))
    if numbers > NEWEST_VERSION:
        newest = ".".join(map(str, NEWEST_VERSION))
        raise EquiError(f"it was written by sevenn {version}, newer than the newest known ({newest})")
    return str(version), numbers


def _new_name(name):
    """Today's name of a tensor (names before spring 2024 contain blanks)."""
    head, _, rest = name.partition(".")
    special = {
        "EdgeEmbedding": "edge_embedding",
        "reducing nn input to hidden": "reduce_input_to_hidden",
        "reducing nn hidden to energy": "reduce_hidden_to_energy",
    }
    head = special.get(head, head.replace(" ", "_"))
    return f"{head}.{rest.replace('denumerator', 'denominator')}"


def _columns_in_creation_order(version):
    """Columns of the last radial matrix follow the creation of paths before 0.11.0 (and in its dev0), sorted paths
    since.

    The tensors do not show which order they have, so the version decides, as in sevenn itself.
    """
    return sevenn_model.version_numbers(version) < (0, 11, 0) or version.startswith("0.11.0.dev0")


# Constants of e3nn and of the accelerated back ends.
CONSTANT = re.compile(r"output_mask$|_w3j_\d+_\d+_\d+$|\.f\.tp\.(f_fx\.module\.c|module\.module\.f\.)")


def _numbers(model, raw):
    """Arrays by name, in the shapes of the model: each tensor of the checkpoint is used or known to be a constant."""
    shapes = model.shapes()
    for key in ("scale", "shift"):
        name = f"rescale_atomic_energy.{key}"
        shapes[name] = model.shape_of_scale(key, raw[name].size if name in raw else 1)
    # Versions differ in the dimensions of a tensor.
    reshaped = {name: raw[name].reshape(shape) for name, shape in shapes.items() if name in raw and raw[name].size == np.prod(shape)}
    return State(raw | reshaped, "the model that the configuration describes").fitted(shapes, CONSTANT.search)


def canonical_state(model, raw_state, columns_are_sorted):
    """(state, path signs): see Checkpoint. columns_are_sorted: whether columns of radial networks are in the order of sorted paths, in
    place of that of their creation."""
    raw = {}
    for name, tensor in raw_state.items():
        if not isinstance(tensor, np.ndarray):
            raise EquiError(f"tensor {name} is not a tensor")
        raw[_new_name(name)] = tensor
    state, signs = _numbers(model, raw), []
    for t, convolution in enumerate(model.convolutions):
        name = f"{t}_convolution"
        irreps_in, irreps_edge, irreps_mid = convolution.irreps_in, convolution.irreps_edge, convolution.irreps_mid
        key = f"{name}.{convolution.last_weight}"
        if not columns_are_sorted:
            begin = np.cumsum([0] + [irreps_in[i].mul for i, _, _ in convolution.created])
            columns = {path: range(begin[n], begin[n + 1]) for n, path in enumerate(convolution.created)}
            state[key] = state[key][:, [c for path in convolution.paths for c in columns[path]]]
        path_signs = []
        for i, j, k in convolution.paths:
            ls = irreps_in[i].ir.l, irreps_edge[j].ir.l, irreps_mid[k].ir.l
            stored = raw.get(f"{name}.convolution._compiled_main_left_right._w3j_{ls[0]}_{ls[1]}_{ls[2]}")
            # e3nn writes out couplings with l = 0; they have one sign. Checkpoints of accelerated back ends have no
            # buffers and use today's sign.
            special = 0 in ls or stored is None
            path_signs.append(1 if special else sign_of_coupling(stored, *ls, name))
        signs.append(path_signs)
    return state, signs


def load(source, ignore_keys=()):
    """The checkpoint behind a name or a file."""
    path, license, citation = resolve(source)
    with naming(source):
        return _checkpoint(source, path, torch_archive.read(path), ignore_keys, license, citation)


def _what_object_is(path, raw):
    """The reason to refuse a pickled object or TorchScript."""
    name = raw.name.removeprefix("__torch__.")
    if not name.startswith("sevenn."):
        return f"it is a pickled object of the class {printable(name, 80)}, which belongs to no framework that is supported"
    if not raw.name.startswith("__torch__."):
        return "it is a pickled model of sevenn: give the checkpoint (.pth) it was made from"
    extra = {key: printable(torch_modules.extra_file(path, key), 80) for key in ("version", "chemical_symbols_to_index")}
    of_version = f" {extra['version']}" if extra["version"] else ""
    symbols = f" for {' '.join(extra['chemical_symbols_to_index'].split())}" if extra["chemical_symbols_to_index"] else ""
    return (
        f"it is a model that sevenn{of_version} has deployed for its own pair styles{symbols}, frozen into one function "
        "in which the modules, "
        "their irreps and options are no longer to be seen: give the checkpoint (.pth) that 'sevenn get_model' made it from"
    )


def _checkpoint(source, path, raw, ignore_keys, license, citation):
    if isinstance(raw, torch_archive.Unknown):
        raise EquiError(_what_object_is(path, raw))
    content = [raw.get("config"), raw.get("model_state_dict")] if isinstance(raw, dict) else [None, None]
    if not any(content):
        raise EquiError(f"{source} is no model of the frameworks that are supported: 'equi convert --help' lists what SOURCE may be")
    if not all(content):
        raise EquiError(f"{source} is not a SevenNet checkpoint: no 'config' and 'model_state_dict' in it")
    version, numbers = check_version(raw["config"])
    audit_config(raw["config"], ignore_keys)
    config = sevenn_model.complete(raw["config"], numbers)
    model = sevenn_model.build(config)
    state, signs = canonical_state(model, raw["model_state_dict"], not _columns_in_creation_order(version))
    return Checkpoint(
        source=source,
        path=path,
        license=license,
        citation=citation,
        version=version,
        stored_config=raw["config"],
        config=config,
        model=model,
        state=state,
        path_signs=signs,
        elements=elements_of(config),
    )


def elements_of(config):
    """Chemical symbols by species index."""
    from ase.data import chemical_symbols

    type_map = {int(z): int(n) for z, n in config["_type_map"].items()}
    if sorted(type_map.values()) != list(range(len(type_map))):
        raise EquiError(f"_type_map: species indices are not 0..{len(type_map) - 1}")
    return [chemical_symbols[z] for z in sorted(type_map, key=type_map.get)]
