# SPDX-License-Identifier: MIT
"""Reads the folders in which matgl saves potentials: the options in model.json, the numbers in state.pt.

Both are read as data; neither matgl nor torch is needed. What the converter does not represent is refused by name.
"""

import json
from dataclasses import dataclass
from math import pi, sqrt
from pathlib import Path

import numpy as np

from ... import torch_archive
from ...errors import EquiError
from ...printable import printable
from ..common.origin import Origin, digest, naming
from ..common.tensornet_layers import Model, activation_of, bessel_basis, exp_normal_basis, gaussian_basis
from ..common.unknown_keys import refuse_unknown
from ..common.versions import stated_version

MAX_JSON_BYTES = 1 << 24
VERSIONS = {"TensorNet": 2, "QET": 1}
POTENTIAL_VERSION = 3
# matgl 2.2.0 changed the atoms at which messages are summed.
CHANGE_OF_SUMS = (2, 2)
OTHER_MODELS = {
    "M3GNet": "it has three-body terms of its own",
    "CHGNet": "it has three-body terms of its own",
    "MEGNet": "it predicts properties, not energies of atoms",
    "SO3Net": "it is another architecture",
    "TransformedTargetModel": "it predicts a transformed property",
}
# Options of a Potential, and of a TensorNet, that are checked or that do not change energies.
POTENTIAL_OPTIONS = {
    "model", "data_mean", "data_std", "element_refs", "calc_forces", "calc_stresses", "calc_hessian", "calc_magmom", "calc_charge",
    "calc_repuls", "zbl_trainable", "debug_mode", "compile_model", "compile_mode",
}  # fmt: skip
MODEL_OPTIONS = {
    "element_types", "units", "ntypes_state", "dim_state_embedding", "dim_state_feats", "include_state", "nblocks", "num_rbf",
    "max_n", "max_l", "rbf_type", "use_smooth", "activation_type", "cutoff", "equivariance_invariance_group", "dtype", "width",
    "readout_type", "task_type", "field", "is_intensive", "ntargets", "use_warp",
    # of a readout that only intensive models have
    "niters_set2set", "nlayers_set2set",
}  # fmt: skip
# Numbers that change no energy: constants of the basis, which the options state too, a cache of old versions, and a
# layer whose output matgl's DGL modules drop.
INERT = ("model.bond_expansion.", "model.elec_pot.", "element_refs.onehot", "model.tensor_embedding.emb3.")
QET_OPTIONS = {"is_sigma_train", "is_hardness_envs", "include_magmom", "return_features"}
DEFAULTS = {
    "units": 64, "ntypes_state": None, "dim_state_feats": None, "include_state": False, "nblocks": 2, "num_rbf": 32, "max_n": 3,
    "max_l": 3, "rbf_type": "Gaussian", "use_smooth": False, "activation_type": "swish", "cutoff": 5.0,
    "equivariance_invariance_group": "O(3)", "width": 0.5, "task_type": "regression", "is_intensive": True, "ntargets": 1,
}  # fmt: skip


@dataclass
class Checkpoint(Origin):
    kind: str  # TensorNet or QET
    elements: list
    cutoff: float
    options: dict  # of the TensorNet
    potential: dict  # options of the Potential
    state: dict  # all tensors of state.pt
    # Whether messages are summed at the other atoms of the edges, as matgl before 2.2.0 did; in its modules for PyG
    # those of the embedding alone.
    is_reversed: bool = False
    has_reversed_interactions: bool = False
    charge: float = None  # of the whole structure; None: that of a run

    @property
    def remarks(self):
        if self.is_reversed:
            yield (
                "the potential was trained by matgl before 2.2.0, which summed messages at the other atoms of the edges, and is evaluated "
                "as there; matgl 2.2.0 and newer evaluate such numbers as another potential"
            )

    def tensornet(self):
        """The Model of tensornet_layers, with names without `model.`."""
        state = {}
        for name, value in self.state.items():
            inner = name.replace("_orig_mod.", "")
            if not inner.startswith(INERT):
                state[inner.removeprefix("model.")] = value
        options = self.options
        return Model(
            channels=options["units"],
            num_layers=options["nblocks"],
            cutoff=self.cutoff,
            activation=activation_of(options["activation_type"]),
            group=options["equivariance_invariance_group"],
            basis=self.basis(),
            elements=self.elements,
            rows=list(range(len(self.elements))),
            num_rows=len(self.elements),
            state=state,
            channel_first=True,
            total_charge=self.charge,
            reversed_embedding=self.is_reversed,
            reversed_interactions=self.has_reversed_interactions,
        )

    def basis(self):
        options = self.options
        kind, number = str(options["rbf_type"]).lower(), self._basis_numbers
        if kind == "gaussian":
            # matgl stores the width as a float32.
            return gaussian_basis(number("centers"), float(np.float32(options["width"])))
        if kind == "expnorm":
            return exp_normal_basis(number("means"), number("betas"), self.cutoff)
        if kind != "sphericalbessel":
            raise EquiError(f"rbf_type {options['rbf_type']} is not supported, only SphericalBessel, Gaussian and ExpNorm")
        if options["use_smooth"]:
            return bessel_basis(options["max_n"] + 1, self.cutoff, smooth_bessel(options["max_n"], self.cutoff))
        if options["max_l"] != 1:
            raise EquiError(
                f"rbf_type SphericalBessel with max_l {options['max_l']} and without use_smooth is not supported: only the functions "
                "of l = 0 are (max_l 1), or use_smooth"
            )
        return bessel_basis(options["max_n"], self.cutoff, np.eye(options["max_n"]) * sqrt(2 / self.cutoff))

    def _basis_numbers(self, name):
        found = [value for key, value in self.state.items() if key.endswith(f"bond_expansion.rbf.{name}")]
        if len(found) != 1 or np.shape(found[0]) != (self.options["num_rbf"],):
            raise EquiError(f"tensor model.bond_expansion.rbf.{name} is missing or has another size than num_rbf")
        return found[0]


def smooth_bessel(count, cutoff):
    """The smooth spherical Bessel functions as sums of sin(n pi r / cutoff) / r: [functions, functions + 1]."""
    first = np.zeros((count, count + 1))
    for k in range(count):
        factor = (-1) ** k * sqrt(2) * pi / cutoff**1.5 * (k + 1) * (k + 2) / sqrt((k + 1) ** 2 + (k + 2) ** 2)
        for n in (k + 1, k + 2):
            first[k, n - 1] = factor * cutoff / (n * pi)
    # They are made orthogonal one after another.
    result, d = first.copy(), 1.0
    for k in range(1, count):
        e = k**2 * (k + 2) ** 2 / (4 * (k + 1) ** 4 + 1)
        d, before = 1 - e / d, d
        result[k] = (first[k] + sqrt(e / before) * result[k - 1]) / sqrt(d)
    return result


def is_folder_of_matgl(path):
    """Whether a path is a folder of matgl, or one of the files that matgl writes."""
    folder = folder_of(path)
    try:
        with open(folder / "model.json", "rb") as file:
            return b"matgl" in file.read(MAX_JSON_BYTES)
    except OSError:
        return False


def folder_of(source):
    path = Path(source)
    return path.parent if path.name in ("model.json", "model.pt", "state.pt") else path


def _options(path):
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise EquiError("more than 16 MB, which is no list of options")
        document = json.loads(path.read_text())
    except OSError as error:
        raise EquiError(f"cannot read it: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise EquiError(f"not a JSON document: {error}") from error
    if not isinstance(document, dict):
        raise EquiError("not an object")
    return document


def _audit(document, ignore_keys, framework_version):
    """(class, options and reversed messages of the model, options of the Potential); refuses what is not represented
    exactly."""
    kind = document.get("@class")
    if kind != "Potential":
        raise EquiError(f"it holds a {printable(str(kind), 60)}, not a Potential: only potentials of energies are supported")
    potential = document.get("kwargs")
    model = potential.get("model") if isinstance(potential, dict) else None
    if not isinstance(model, dict) or not isinstance(model.get("init_args"), dict):
        raise EquiError("a Potential without the options of its model")
    name, version = model.get("@class"), model.get("@model_version")
    if name not in VERSIONS:
        reason = OTHER_MODELS.get(name, "it is not known")
        raise EquiError(f"model {printable(str(name), 60)} is not supported, only TensorNet and QET: {reason}")
    if type(version) is not int or not 1 <= version <= VERSIONS[name]:
        raise EquiError(f"@model_version {version} of {name} is not known, only {VERSIONS[name]}")
    if document.get("@model_version", 0) > POTENTIAL_VERSION:
        raise EquiError(f"@model_version {document['@model_version']} of Potential is not known, only up to {POTENTIAL_VERSION}")
    are_reversed = _reversed(document, model, framework_version)
    known_options, defaults = MODEL_OPTIONS, DEFAULTS
    if name == "QET":
        known_options = MODEL_OPTIONS | QET_OPTIONS
        defaults = DEFAULTS | {"is_intensive": False} | dict.fromkeys(QET_OPTIONS, False)
    sections = ((POTENTIAL_OPTIONS, potential, "Potential"), (known_options, model["init_args"], name))
    refuse_unknown([(key, name) for known, given, name in sections for key in given if key not in known | set(ignore_keys)])
    return name, defaults | model["init_args"], are_reversed, potential


def _reversed(document, model, framework_version):
    """(whether messages of the embedding are summed at the other atoms, and whether those of interactions are).
    framework_version: a result of stated_version()."""
    name, module, version = model["@class"], str(model.get("@module", "")), model["@model_version"]
    if framework_version != "unknown":
        is_old = tuple(int(n) for n in framework_version.split(".")[:2]) < CHANGE_OF_SUMS
        if name == "TensorNet" and is_old != (version == 1):
            raise EquiError(f"--framework-version {framework_version} does not write @model_version {version} of TensorNet")
    elif name == "TensorNet" and version == 1:
        raise EquiError(
            "@model_version 1 of TensorNet: matgl before 2.2.0 summed its messages at the wrong atoms, and its authors declared "
            "such weights void; use a model that matgl 2.2.0 or newer trained, or evaluate this one as matgl did then with "
            "--framework-version 2.1.0"
        )
    elif name == "QET" and module.endswith("_dgl") and document.get("@model_version", 0) > 2:
        raise EquiError(
            "QET of matgl's modules for DGL: matgl 2.2.0 changed the atoms at which messages are summed, and the file does not say which "
            "version trained it; state it with --framework-version 2.1.0 or 2.2.0"
        )
    else:
        # The options of the Potential are those of matgl 2.0 or older if its version is 2.
        is_old = name == "QET" and module.endswith("_dgl")
    return is_old, is_old and not module.endswith("_pyg")


def _check(kind, options, potential):
    if options["is_intensive"]:
        raise EquiError("is_intensive: the model predicts a property of the whole structure, not a sum of energies of atoms")
    if options["task_type"] != "regression" or options["ntargets"] != 1:
        raise EquiError(f"task_type {options['task_type']} with {options['ntargets']} targets is not a model of energies")
    if options["include_state"] or options["ntypes_state"] is not None or options["dim_state_feats"] is not None:
        raise EquiError("include_state: the model takes features of the whole structure, which a LAMMPS pair style does not have")
    if options["equivariance_invariance_group"] not in ("O(3)", "SO(3)"):
        raise EquiError(f"equivariance_invariance_group {options['equivariance_invariance_group']} is not known")
    for key in ("calc_charge", "calc_magmom"):
        if potential.get(key) and kind != "QET":
            raise EquiError(f"{key}: charges and magnetic moments are not part of the .equi format")
    for key in ("units", "nblocks", "num_rbf", "max_n", "max_l"):
        least = 0 if key == "nblocks" else 1
        if type(options[key]) is not int or not least <= options[key] <= 65536:
            raise EquiError(f"{key}: expected a whole number from {least} on, found {printable(str(options[key]), 60)}")
    for key in ("cutoff", "width"):
        if type(options[key]) not in (int, float) or not 0 < options[key] < 1e6:
            raise EquiError(f"{key}: expected a positive number, found {printable(str(options[key]), 60)}")
    elements = options.get("element_types")
    if not isinstance(elements, list) or not elements or not all(isinstance(e, str) for e in elements):
        raise EquiError("element_types: expected a list of chemical symbols")


def load(source, ignore_keys=(), charge=None, framework_version=None):
    """The potential in a folder; `source` may also be one of its files. The user may state the total charge and the
    version of matgl that trained it."""
    path = folder_of(source)
    with naming(path / "model.json"):
        version = stated_version(framework_version, "2.1.0")
        kind, options, are_reversed, potential = _audit(_options(path / "model.json"), ignore_keys, version)
        _check(kind, options, potential)
        if charge and kind != "QET":
            raise EquiError(f"--charge {charge:g}: a TensorNet of matgl has no total charge")
    numbers = path / "state.pt"
    if not numbers.is_file():
        raise EquiError(f"{path}: no state.pt next to model.json")
    state = torch_archive.read(numbers)
    if not isinstance(state, dict) or not all(isinstance(value, np.ndarray) for value in state.values()):
        raise EquiError(f"{numbers}: not a dict of tensors")
    return Checkpoint(
        source=source,
        path=path.resolve(),
        sha256=digest(numbers),
        version=version,
        kind=kind,
        elements=list(options["element_types"]),
        cutoff=float(options["cutoff"]),
        options=options,
        potential=potential,
        state=state,
        is_reversed=are_reversed[0],
        has_reversed_interactions=are_reversed[1],
        charge=charge if kind == "QET" else 0.0,
    )
