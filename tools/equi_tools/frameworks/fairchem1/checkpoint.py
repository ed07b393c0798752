# SPDX-License-Identifier: MIT
"""Reads checkpoints of fairchem 1's trainers (eSEN, EquiformerV2 and V3, eSCN): a dict written by torch.save with the
configuration of the model, its numbers, normalizers and element references.

The file is read as data; neither fairchem nor torch is needed. What the converter does not represent is refused by
name.
"""

from dataclasses import dataclass

import numpy as np

from ... import torch_archive
from ...errors import EquiError
from ...printable import printable
from ..common.origin import file_of, naming
from ..fairchem import checkpoint as fairchem_checkpoint
from ..fairchem.checkpoint import (
    NORMS,
    Head,
    Task,
    check_grid,
    check_numbers,
    expect_fixed,
    last_part,
    only_known,
    options_with_defaults,
    unknown_keys,
)
from ..fairchem.config import plain
from . import equiformer_v2 as fairchem1_equiformer_v2
from . import equiformer_v3 as fairchem1_equiformer_v3
from . import escn as fairchem1_escn
from .direct import has_forces

OMAT24_LICENSE = "OMat24 license (gated, with an acceptable use policy that also binds converted files)"
# Names of the published files with this license, without their endings.
PUBLISHED = {"esen_30m_oam", "esen_30m_omat", "esen_30m_mptrj", "eqV2_31M_mp", *(f"eqV2_dens_{size}_mp" for size in ("31M", "86M", "153M")),
             *(f"eqV2_{size}_omat{more}" for size in ("31M", "86M", "153M") for more in ("", "_mp_salex"))}  # fmt: skip

# fairchem's defaults for options that a checkpoint does not name.
DEFAULTS = {
    "max_num_elements": 100, "sphere_channels": 128, "lmax": 2, "mmax": 2, "max_neighbors": 300, "cutoff": 5.0, "edge_channels": 128,
    "distance_function": "gaussian", "num_distance_basis": 512, "num_layers": 2, "hidden_channels": 128, "norm_type": "rms_norm_sh",
    "act_type": "s2", "mlp_type": "grid", "grid_resolution": None, "use_envelope": False,
}  # fmt: skip
# Options of training, of speed and of graphs that are made elsewhere. The head that is read uses gradients whatever
# `direct_forces` is.
WITHOUT_EFFECT = {
    "model", "otf_graph", "use_pbc", "use_pbc_single", "direct_forces", "regress_forces", "regress_stress",
    "activation_checkpointing",
}  # fmt: skip
MODEL_KEYS = {"name", "backbone", "heads", "otf_graph", "pass_through_head_outputs", "freeze_backbone", "finetune_config"}
# Options for which the converter's layers represent only these values.
FIXED = {
    "act_type": ("gate", "activations on a grid of the sphere depend on the frame of an edge, which fairchem draws at random"),
    "use_envelope": (True, "without the envelope the energy jumps where a neighbor crosses the cutoff"),
}  # fmt: skip
BASES = ("gaussian", "bessel")
# Heads with their own energies or without energies. They are not part of a potential, so their contributions are
# omitted.
ENERGY_HEAD = "esen_mlp_efs_head"
EQUIFORMER = "equiformer_v3"
# Models with their own heads for forces, by the name of the whole model; backbones add a part to it.
DIRECT = {"equiformer_v2": fairchem1_equiformer_v2, "escn": fairchem1_escn}
OF_BACKBONE = "_backbone"
# Names of the normalizers in older files.
OLD_NAMES = {"target": "energy", "grad_target": "forces"}


@dataclass
class Checkpoint(fairchem_checkpoint.Checkpoint):
    head_prefix: str = ""  # prefix of the tensors of the energy head
    architecture: str = "esen"  # or equiformer_v3, or one of DIRECT
    remarks: tuple = ()
    forces_rmsd: float = 1.0  # eV/Angstrom, of the head of forces of one of DIRECT

    def chosen(self, choice):
        return choice

    def head(self, task):
        return Head(self.head_prefix)


def is_of_a_trainer(found):
    return isinstance(found, dict) and isinstance(found.get("state_dict"), dict) and "normalizers" in found and "config" in found


def _options(config, ignore_keys, elsewhere):
    """The options of the backbone with defaults, under the names of fairchem 2. elsewhere: unknown keys of other
    sections."""
    kind = last_part(config.get("model"))
    if kind != "esen_backbone":
        known = ", ".join(("esen_backbone", *(f"{name}{OF_BACKBONE}" for name in DIRECT)))
        raise EquiError(f"backbone {printable(str(config.get('model')), 80)} is not supported, of fairchem 1 only {known}")
    options = options_with_defaults(config, DEFAULTS, WITHOUT_EFFECT, ignore_keys, "the backbone", elsewhere)
    expect_fixed(options, FIXED)
    if options["norm_type"] not in NORMS:
        raise EquiError(f"norm_type {printable(str(options['norm_type']), 60)} is not known, only {', '.join(NORMS)}")
    if options["distance_function"] not in BASES:
        raise EquiError(f"distance_function {printable(str(options['distance_function']), 60)} is not known, only {', '.join(BASES)}")
    check_numbers(options)
    check_grid(options, "mlp_type")
    return options | {"ff_type": options["mlp_type"], "charge_balanced_channels": [], "spin_balanced_channels": []}


def _model(config):
    """The options of a model; older files have its name next to them."""
    model = config.get("model") if isinstance(config, dict) else None
    if isinstance(model, str) and isinstance(config.get("model_attributes"), dict):
        model = {**config["model_attributes"], "name": model}
    if not isinstance(model, dict):
        raise EquiError(f"config: expected the options of a model, found {printable(str(model), 60)}")
    return model


def _architecture(model):
    """esen, equiformer_v3 or one of DIRECT; anything else counts as esen, whose reader refuses it."""
    name = model.get("name")
    backbone = model.get("backbone") if name == "hydra" else None
    kind = last_part(backbone.get("model")).removesuffix(OF_BACKBONE) if isinstance(backbone, dict) else name
    return kind if kind == EQUIFORMER or kind in DIRECT else "esen"


def _unknown_of_model(model, ignore_keys):
    return unknown_keys(model, {*MODEL_KEYS, *ignore_keys}, "config.model")


def _direct(model, architecture, ignore_keys):
    """(options, prefixes of the tensors of the backbone, of the energy head and, if there is one, of the head of
    forces) for one of DIRECT."""
    module = DIRECT[architecture]
    if model.get("name") != "hydra":
        return module.options_of(model, ignore_keys, False), ""
    if not isinstance(model.get("heads"), dict):
        raise EquiError("config: model: expected a backbone and heads; those of another checkpoint that it began with are not in the file")
    kinds = {str(name): last_part(head.get("module")) if isinstance(head, dict) else None for name, head in model["heads"].items()}
    heads = {name: model["heads"][name] for name, kind in kinds.items() if kind in module.ENERGY_HEADS}
    of_forces = [f"output_heads.{name}." for name, kind in kinds.items() if kind in module.FORCE_HEADS]
    if len(heads) != 1:
        raise EquiError(f"heads: expected one of {' or '.join(module.ENERGY_HEADS)}, found {len(heads)} of {len(model['heads'])}")
    ((name, head),) = heads.items()
    where = f"head {printable(name, 60)}"
    only_known(head, {"module", "reduce", "output_name", "use_amp"}, where)
    for key, only in (("reduce", "sum"), ("output_name", "energy")):
        if head.get(key, only) != only:
            raise EquiError(f"{where}: {key} {printable(str(head[key]), 60)} is not supported, only {only}")
    options = module.options_of(model["backbone"], ignore_keys, True, _unknown_of_model(model, ignore_keys))
    return options, "backbone.", f"output_heads.{name}.", *(of_forces if len(of_forces) == 1 else ())


def _numbers_of_a_direct_model(state, module, prefixes):
    """The numbers of a backbone and its heads, by names without prefixes."""
    found = {}
    for name, value in state.items():
        for prefix in prefixes:
            short = name.removeprefix(prefix)
            if name.startswith(prefix) and module.is_kept(short):
                found[short] = value
                break
    return found


def _hydra(model, ignore_keys):
    """(options of the backbone, prefix of the tensors of the energy head)."""
    if model.get("name") != "hydra":
        name = printable(str(model.get("name")), 60)
        raise EquiError(
            f"model {name} is not supported, of fairchem 1 only eSEN (esen_backbone with {ENERGY_HEAD}), {EQUIFORMER}, "
            f"{', '.join(DIRECT)}"
        )
    if not isinstance(model.get("backbone"), dict) or not isinstance(model.get("heads"), dict):
        raise EquiError("config: model: expected a backbone and heads; those of another checkpoint that it began with are not in the file")
    options = _options(model["backbone"], ignore_keys, _unknown_of_model(model, ignore_keys))
    kinds = {str(name): last_part(head.get("module")) if isinstance(head, dict) else None for name, head in model["heads"].items()}
    heads = [name for name, kind in kinds.items() if kind == ENERGY_HEAD]
    if len(heads) != 1 or len(kinds) != 1:
        found = ", ".join(printable(str(kind), 40) for kind in kinds.values())
        raise EquiError(
            f"heads {found}: expected {ENERGY_HEAD} alone, whose forces are the gradient of its energy; those of other heads are not"
        )
    if not model.get("pass_through_head_outputs", False):
        raise EquiError(
            f"pass_through_head_outputs False is not supported: the energy of {ENERGY_HEAD} has no name by which its "
            "normalizer is found"
        )
    only_known(model["heads"][heads[0]], {"module"}, f"head {printable(heads[0], 60)}")
    return options, f"output_heads.{heads[0]}."


def _number(found, where):
    if isinstance(found, np.ndarray) and found.size == 1:
        found = found.reshape(()).item()
    if type(found) not in (int, float) or not np.isfinite(found):
        raise EquiError(f"{where}: expected a number, found {printable(str(found), 60)}")
    return float(found)


def _normalizers(found):
    """(mean, rmsd) in eV by the name of the normalized quantity."""
    if not isinstance(found, dict):
        raise EquiError(f"normalizers: expected those of energy and forces, found {printable(str(found), 60)}")
    normalizers = {}
    for key, state in found.items():
        where = f"normalizers: {printable(str(key), 60)}"
        if not isinstance(state, dict) or not {"mean"} < set(state) <= {"mean", "rmsd", "std"}:
            raise EquiError(f"{where}: expected mean and rmsd, found {printable(str(state), 60)}")
        rmsd = state["std"] if "std" in state else state["rmsd"]
        normalizers[OLD_NAMES.get(key, key)] = _number(state["mean"], where), _number(rmsd, where)
    return normalizers


def _direct_task(normalizers, references, with_forces):
    """(the energy, size of the forces, notes) of a model with its own heads for forces. A constant that is added once
    to the energy of a structure is omitted."""
    normalizers = _normalizers(normalizers)
    (mean, rmsd), of_forces = normalizers.get("energy", (0.0, 1.0)), normalizers.get("forces", (0.0, 1.0))
    if with_forces and of_forces[0] != 0.0:
        raise EquiError(f"normalizers: forces: the mean is {of_forces[0]:g}, which has no direction")
    others = "which are left out"
    if with_forces:
        others = "those of forces are taken with `forces direct` of pair_style, that of the stress is left out"
    notes = [
        f"forces and stress are derivatives of the energy: they are not those of the heads that fairchem trains for them; {others}",
        "neither energy nor forces are smooth: an atom sees only its nearest neighbors, no envelope ends their sum, and activations at "
        "points depend on the frames of edges; energy is not conserved",
    ]
    if mean != 0.0:
        notes.append(f"fairchem adds {mean:g} eV once to the energy of a structure, whatever its size; here this is left out")
    return Task("energy", rmsd, _references(references)), of_forces[1], tuple(notes)


def _task(normalizers, references):
    """The energy; refuses forces or stresses that are not its derivatives."""
    normalizers = _normalizers(normalizers)
    mean, rmsd = normalizers.get("energy", (0.0, 1.0))
    if mean != 0.0:
        raise EquiError(
            f"normalizers: energy: the mean is {mean:g}, which fairchem adds once to the energy of a structure, whatever its size; the "
            "energies of atoms cannot do that"
        )
    for kind in ("forces", "stress"):
        # A model without stress has no normalizer of stress.
        found = normalizers.get(kind, (0.0, 1.0) if kind == "forces" else (0.0, rmsd))
        if found != (0.0, rmsd):
            raise EquiError(
                f"normalizers: {kind}: mean {found[0]:g} and rmsd {found[1]:g} are not those of the energy (rmsd {rmsd:g}), so that they "
                "are not the derivative of the energy"
            )
    return Task("energy", rmsd, _references(references))


def _references(references):
    """Energies of elements by atomic number in eV, or None."""
    references = references or {}
    for key in references:
        if key != "energy":
            raise EquiError(f"elementrefs: {printable(str(key), 60)}: only references of the energy are known")
    state = references.get("energy")
    if state is None:
        return None
    numbers = state.get("element_references") if isinstance(state, dict) else None
    if not isinstance(numbers, np.ndarray) or numbers.ndim != 1:
        raise EquiError(f"elementrefs: energy: expected a list of numbers, found {printable(str(state), 60)}")
    return numbers.astype(np.float64)


def load(source, ignore_keys=()):
    """The model in a checkpoint."""
    path = file_of(source)
    found = torch_archive.read(path)
    if not is_of_a_trainer(found):
        raise EquiError(f"{source} is not a checkpoint of fairchem 1: no config, state_dict and normalizers in it")
    from ase.data import chemical_symbols

    with naming(source):
        model, notes, prefix, forces_rmsd = _model(plain(found["config"])), (), "", 1.0
        architecture = _architecture(model)
        state = fairchem_checkpoint.state_of(found["state_dict"], "state_dict")
        tasks = found["normalizers"], found.get("elementrefs")
        if architecture in DIRECT:
            citation = DIRECT[architecture].CITATION
            options, *prefixes = _direct(model, architecture, ignore_keys)
            state = _numbers_of_a_direct_model(state, DIRECT[architecture], prefixes)
            task, forces_rmsd, notes = _direct_task(*tasks, has_forces(state))
        elif architecture == EQUIFORMER:
            citation, options = fairchem1_equiformer_v3.CITATION, fairchem1_equiformer_v3.options_of(model, ignore_keys)
            state = {name: value for name, value in state.items() if fairchem1_equiformer_v3.is_kept(name)}
            task = _task(*tasks)
        else:
            citation, (options, prefix) = fairchem_checkpoint.ESEN_CITATION, _hydra(model, ignore_keys)
            task = _task(*tasks)
        return Checkpoint(
            source=source,
            path=path.resolve(),
            license=OMAT24_LICENSE if path.stem in PUBLISHED else "unknown",
            citation=citation,
            elements=chemical_symbols[1 : min(options["max_num_elements"], len(chemical_symbols))],
            cutoff=float(options["cutoff"]),
            options=options,
            heads={},
            passes_through=True,
            tasks={"energy": task},
            model_id=None,
            # Like fairchem's calculator: files for continuing a training also have averaged numbers (EMA), which are
            # not read.
            state=state,
            charge=0,
            spin=None,
            composition=None,
            has_system=False,
            head_prefix=prefix,
            architecture=architecture,
            remarks=notes,
            forces_rmsd=forces_rmsd,
        )
