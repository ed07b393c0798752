# SPDX-License-Identifier: MIT
"""Reads SevenNet checkpoints into one canonical form.

Checkpoints of three years differ in the names of their tensors, in the order of the radial network's columns and in the
sign of their coupling coefficients.  `load` audits the configuration (every key is known to be irrelevant or handled, or
the checkpoint is refused), builds the framework's own modules and returns them beside a canonical state: today's names,
columns in the sorted order of paths, couplings of e3nn >= 0.5.
"""

import copy
import hashlib
import logging
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..coupling import coupling
from ..errors import EquiError
from .e3nn_layers import sign_of_coupling

ACTIVATIONS = {"silu", "tanh", "sigmoid", "relu", "abs", "ssp"}

# Configuration keys that describe the model; their values are checked in audit_config or act through the modules that
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

# Keys about data, training and the machine, beyond those in sevenn's own lists of defaults.
OTHER_KEYS = set("""
    device is_ddp local_rank rank world_size ddp_backend when _num_workers num_workers _is_trace_stress
    use_testset use_weight data_weight data_modality data_shuffle format_outputs_for_ase structure_list
    opt_params fisher_information ewc_lambda
    rehearsal mem_batch_size mem_ratio info
    """.split())

SHIPPED = {
    "7net-0": ("SEVENNET_0_11Jul2024", "jctc"),
    "7net-0_11jul2024": ("SEVENNET_0_11Jul2024", "jctc"),
    "7net-0_11july2024": ("SEVENNET_0_11Jul2024", "jctc"),
    "7net-0_22may2024": ("SEVENNET_0_22May2024", "jctc"),
    "7net-l3i5": ("SEVENNET_l3i5", "jctc"),
    "7net-mf-0": ("SEVENNET_MF_0", "jacs"),
}
# Known to sevenn, but not inside its package: too large to ship.
DOWNLOADS = ("7net-mf-ompa", "7net-omat", "7net-omni", "7net-omni-i8", "7net-omni-i12")
CITATIONS = {
    "jctc": "Y. Park, J. Kim, S. Hwang, S. Han, J. Chem. Theory Comput. 20, 4857 (2024)",
    "jacs": "J. Kim, J. Kim, J. Kim, J. Lee, Y. Park, Y. Kang, S. Han, J. Am. Chem. Soc. 147, 1042 (2025)",
}


@dataclass
class Checkpoint:
    source: str  # as the user named it
    path: Path
    sha256: str
    license: str
    citation: str
    version: str  # of the sevenn that wrote it
    config: dict  # completed by sevenn's own defaults
    model: object  # sevenn's modules, read for their irreps and constants; the numbers are in state
    state: dict  # name -> tensor in the trainer's dtype, columns sorted; couplings exact in float64
    path_signs: list  # per convolution: list of +1 or -1 per path, sign of the stored coupling against ours
    elements: list  # chemical symbols by species index

    def build(self):
        """sevenn's modules, not yet filled with the checkpoint's numbers."""
        return _build(self.config)

    @property
    def modalities(self):
        if not self.config.get("use_modality", False):
            return {}
        return dict(self.config["_modal_map"])

    def modality_index(self, name):
        """Index of the modality, None for a model without; raises if the name does not fit."""
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


def import_sevenn():
    """The package, with its import noise silenced."""
    logging.getLogger("torch.distributed").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import sevenn
            import sevenn.checkpoint
            import sevenn.model_build
        except (ImportError, ValueError) as error:  # sevenn raises the latter where e3nn is too old
            raise EquiError(f"SevenNet sources need the package sevenn: pip install sevenn ({error})") from error
    return sevenn


def resolve(source):
    """(path, license, citation) of a file or of the name of a checkpoint that comes with sevenn."""
    if os.path.isfile(source):
        shipped = Path(source).resolve()
        sevenn = import_sevenn()
        for constant, citation in SHIPPED.values():
            if Path(getattr(sevenn._const, constant)).resolve() == shipped:
                return shipped, "MIT", CITATIONS[citation]
        return shipped, "unknown", "unknown"
    name = re.sub("^sevennet-", "7net-", source.lower())
    if name in SHIPPED:
        constant, citation = SHIPPED[name]
        path = Path(getattr(import_sevenn()._const, constant))
        if not path.is_file():
            raise EquiError(f"{source}: the installed sevenn does not contain {path.name}; reinstall it")
        return path, "MIT", CITATIONS[citation]
    if name in DOWNLOADS:
        raise EquiError(
            f"{source} is not part of the sevenn package and would have to be downloaded: "
            "get its .pth where 'equi models' says and give the file's name"
        )
    known = "7net-0, 7net-0_22May2024, 7net-l3i5, 7net-mf-0"
    raise EquiError(
        f"{source} is neither a file nor a checkpoint that comes with sevenn ({known}); 'equi models' says where others are"
    )


def audit_config(config, ignore_keys=()):
    """Refuses, by name, whatever this converter does not represent exactly."""
    from sevenn import _const

    def refuse(key, what):
        raise EquiError(f"{key}: {what}")

    def one_of(key, value, allowed):
        if value not in allowed:
            refuse(key, f"'{value}' is not supported, only {', '.join(sorted(map(str, allowed)))}")

    training = set(_const.DEFAULT_DATA_CONFIG) | set(_const.DEFAULT_TRAINING_CONFIG) | OTHER_KEYS | set(ignore_keys)
    for key in config:
        # "_cp": values of the checkpoint from which a training was continued.
        plain = re.sub("_cp$", "", str(key))
        if plain in MODEL_KEYS or plain in training or re.fullmatch(r"(load|save)_\w+_path", plain):
            continue
        refuse(
            key,
            "unknown configuration key, it may change the model; "
            f"if you know that it does not, add --ignore-key {key}",
        )
    if not config.get("version"):
        refuse("version", "the checkpoint does not say which sevenn wrote it; save it again with sevenn")
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
    basis = config.get("radial_basis", {"radial_basis_name": "bessel"})
    one_of("radial_basis_name", basis.get("radial_basis_name"), ["bessel"])
    envelope = config.get("cutoff_function", {"cutoff_function_name": "poly_cut"})
    one_of("cutoff_function_name", envelope.get("cutoff_function_name"), ["poly_cut", "XPLOR"])
    for section, values, allowed in (
        ("radial_basis", basis, {"radial_basis_name", "bessel_basis_num", "trainable_coeff"}),
        ("cutoff_function", envelope, {"cutoff_function_name", "poly_cut_p_value", "cutoff_on"}),
    ):
        for key in set(values) - allowed:
            refuse(f"{section}.{key}", "unknown option")
    num_modalities = config.get("_number_of_modalities", 0)
    if config.get("use_modality") and num_modalities < 2:
        refuse("_number_of_modalities", f"{num_modalities}: sevenn evaluates models of two or more modalities only")


def _new_name(name):
    """Today's name of a tensor (names before spring 2024 hold blanks)."""
    head, _, rest = name.partition(".")
    special = {
        "EdgeEmbedding": "edge_embedding",
        "reducing nn input to hidden": "reduce_input_to_hidden",
        "reducing nn hidden to energy": "reduce_hidden_to_energy",
    }
    head = special.get(head, head.replace(" ", "_"))
    return f"{head}.{rest.replace('denumerator', 'denominator')}"


def _columns_in_creation_order(version):
    """Columns of the last radial matrix follow the creation of paths before 0.11.0 (and in its dev0), sorted paths since.

    Nothing in the tensors tells the two apart, so here the version decides, as in sevenn itself.
    """
    numbers = tuple(int(re.match(r"\d+", part).group()) for part in version.split(".")[:3])
    return numbers < (0, 11, 0) or version.startswith("0.11.0.dev0")


def _canonical_state(model, raw_state, version):
    """(state, path signs): see Checkpoint. Every tensor of the checkpoint is used or known to be a constant."""
    import torch

    raw = {_new_name(name): tensor for name, tensor in raw_state.items()}
    wanted = model.state_dict()
    state, signs = {}, []
    convolutions = [(name, module) for name, module in model._modules.items() if name.endswith("_convolution")]
    for name, tensor in wanted.items():
        coupled = re.search(r"_w3j_(\d+)_(\d+)_(\d+)$", name)
        if coupled:
            state[name] = torch.tensor(np.array(coupling(*map(int, coupled.groups()))))
        elif name.endswith("output_mask") or tensor.numel() == 0:
            state[name] = tensor
        elif name not in raw:
            raise EquiError(f"tensor {name} is missing in the checkpoint")
        elif raw[name].numel() != tensor.numel():
            raise EquiError(f"tensor {name} has shape {tuple(raw[name].shape)}, expected {tuple(tensor.shape)}")
        else:
            state[name] = raw[name].detach().cpu().clone().reshape(tensor.shape)
    for name, tensor in raw.items():
        # Constants of e3nn and of the accelerated back ends; everything else must have found its place.
        constant = r"output_mask$|_w3j_\d+_\d+_\d+$|\.f\.tp\.(f_fx\.module\.c|module\.module\.f\.)"
        if name not in state and tensor.numel() > 0 and not re.search(constant, name):
            raise EquiError(f"tensor {name} is not part of the model that the configuration describes")

    for name, module in convolutions:
        irreps_in, irreps_edge = (module.convolution_kwargs[k] for k in ("irreps_in1", "irreps_in2"))
        irreps_mid = module.convolution_kwargs["irreps_out"]
        paths = [tuple(p[:3]) for p in module.convolution_kwargs["instructions"]]
        last = len(module.weight_nn.hs) - 2
        key = f"{name}.weight_nn.layer{last}.weight"
        if _columns_in_creation_order(version):
            created = [tuple(p[:3]) for p in module._instructions_before_sort]
            begin = np.cumsum([0] + [irreps_in[i].mul for i, _, _ in created])
            columns = {p: range(begin[n], begin[n + 1]) for n, p in enumerate(created)}
            state[key] = state[key][:, [c for p in paths for c in columns[p]]].contiguous()
        path_signs = []
        for i, j, k in paths:
            ls = irreps_in[i].ir.l, irreps_edge[j].ir.l, irreps_mid[k].ir.l
            stored = raw.get(f"{name}.convolution._compiled_main_left_right._w3j_{ls[0]}_{ls[1]}_{ls[2]}")
            # Couplings with l = 0 are written out by e3nn and have one sign; checkpoints of accelerated back ends
            # have no buffers and use today's sign.
            special = 0 in ls or stored is None
            path_signs.append(1 if special else sign_of_coupling(stored, *ls, name))
        signs.append(path_signs)
    return state, signs


def _build(config):
    from sevenn.model_build import build_E3_equivariant_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build_E3_equivariant_model(copy.deepcopy(config)).eval()


def load(source, ignore_keys=()):
    """The checkpoint behind a name or a file."""
    sevenn = import_sevenn()
    import torch

    path, license, citation = resolve(source)
    data = path.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raw = torch.load(path, weights_only=False, map_location="cpu")
    except Exception as error:
        raise EquiError(f"{source}: torch cannot read it: {str(error).splitlines()[0]}") from error
    if isinstance(raw, torch.nn.Module):
        raise EquiError(f"{source} is a deployed or pickled model: give the checkpoint (.pth) it was made from")
    if not isinstance(raw, dict) or not raw.get("config") or not raw.get("model_state_dict"):
        raise EquiError(f"{source} is not a SevenNet checkpoint: no 'config' and 'model_state_dict' in it")
    try:
        audit_config(raw["config"], ignore_keys)
    except EquiError as error:
        raise EquiError(f"{source}: {error}") from error
    version = str(raw["config"]["version"])
    if sevenn.checkpoint.Version(version) > sevenn.checkpoint.Version(sevenn.__version__):
        raise EquiError(
            f"{source} was written by sevenn {version}, newer than the one installed ({sevenn.__version__})"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = sevenn.checkpoint._config_cp_routine(copy.deepcopy(raw["config"]))
        # The accelerated back ends compute the same function from the same numbers.
        config.update(cuequivariance_config={}, use_flash_tp=False, use_oeq=False)
        model = _build(config)
    except Exception as error:
        raise EquiError(f"{source}: sevenn cannot build its model: {type(error).__name__}: {error}") from error
    try:
        state, signs = _canonical_state(model, raw["model_state_dict"], version)
    except EquiError as error:
        raise EquiError(f"{source}: {error}") from error

    from ase.data import chemical_symbols

    type_map = {int(z): int(n) for z, n in config["_type_map"].items()}
    if sorted(type_map.values()) != list(range(len(type_map))):
        raise EquiError(f"{source}: _type_map: species indices are not 0..{len(type_map) - 1}")
    elements = [chemical_symbols[z] for z in sorted(type_map, key=type_map.get)]
    return Checkpoint(
        source=str(source),
        path=path,
        sha256=hashlib.sha256(data).hexdigest(),
        license=license,
        citation=citation,
        version=version,
        config=config,
        model=model,
        state=state,
        path_signs=signs,
        elements=elements,
    )
