# SPDX-License-Identifier: MIT
"""Reads the checkpoints of eqnorm: the numbers of a model, its elements, and the scale and shifts of its energies.

The file is read as data; neither eqnorm nor torch is needed. It has no settings: eqnorm has a file of settings for each of its
models, by whose name it also chooses between two sorts of messages. What the converter does not represent is refused by name.
"""

import re
from dataclasses import dataclass

import numpy as np

from ... import torch_archive
from ...errors import EquiError
from ...irreps import SCALAR, Irreps
from ...printable import printable
from ..common.e3nn_layers import paths_to, sign_of_coupling
from ..common.origin import Origin, file_of, naming
from ..common.state import State
from ..common.unknown_keys import refuse_unknown

# Keys by which a checkpoint is recognized.
SIGNS = {"unique_elements", "energy_shift", "energy_scale", "ema_model_state_dict"}
# Whether the messages of a model are multiplied by the cutoff function once more.
VARIANTS = {"eqnorm-mptrj": False, "eqnorm-max-mptrj": True}
# The settings of both.
PUBLISHED = {
    "irreps_hidden": "128x0e+64x1o+32x2e+32x3o", "irreps_sh": "1x0e+1x1o+1x2e+1x3o", "num_convs": 4, "num_features": 128, "r_cutoff": 6.0,
    "num_basis": 8, "invariant_layers": 2, "invariant_neurons": 64, "poly_p": 6, "use_ema": True, "avg_nbr": 61.84,
}  # fmt: skip
WHOLE = {"num_convs": 1, "num_features": 2, "num_basis": 1, "invariant_layers": 0, "invariant_neurons": 1}  # with the least value
WITHOUT_EFFECT = {
    "variant", "DIPOLE", "POLAR", "STRESS", "energy_per_atom", "relative_energy", "shift", "scale", "grad_mode", "avg_atoms",
    "shift_trainable", "scale_trainable",
}  # fmt: skip
PREFIX = "e3nn_layer."


@dataclass
class Convolution:
    name: str  # of its tensors
    irreps_in: Irreps
    paths: list  # (block of irreps_in, l2, irrep), each a block of irreps_mid
    irreps_out: Irreps  # with the gates

    @property
    def irreps_mid(self):
        return Irreps((self.irreps_in[i].mul, ir) for i, _, ir in self.paths)


@dataclass
class Checkpoint(Origin):
    elements: list
    cutoff: float
    settings: dict
    times_cutoff: bool
    hidden: Irreps
    harmonics: Irreps
    convolutions: list  # pairs: to hidden irreps with gates, and to scalars that are added up
    state: State
    signs: dict  # of couplings by (l1, l2, l3), where the file has them
    scales: np.ndarray  # of energies, by species
    shifts: np.ndarray


def _complete(settings, name):
    """(settings, whether messages are multiplied by the cutoff function) of what the user names, or of the file's name."""
    variant = (settings or {}).get("variant", name)
    if variant not in VARIANTS:
        what = "the file does not say its settings, nor does its name, which is of no"
        if settings:
            what = f"{printable(str(variant), 60)} names no"
        raise EquiError(
            f"{what} model of eqnorm that is known, {' or '.join(VARIANTS)}: --settings takes one of these names, or a file with settings "
            "that is called after it, like eqnorm-mptrj.yaml"
        )
    own = {key: value for key, value in (settings or {}).items() if key != "variant"}
    return own or dict(PUBLISHED), VARIANTS[variant]


def _audit(settings):
    refuse_unknown([key for key in settings if key not in {*PUBLISHED, *WITHOUT_EFFECT}], "setting", can_pass=False)
    missing = [key for key in PUBLISHED if key not in settings]
    if missing:
        raise EquiError(f"setting {missing[0]} of eqnorm is missing")

    def expect(key, what, is_right):
        if not is_right:
            raise EquiError(f"setting {key}: expected {what}, found {printable(str(settings[key]), 60)}")

    for key, least in WHOLE.items():
        expect(key, f"a whole number from {least} on", type(settings[key]) is int and least <= settings[key] <= 65536)
    if settings["avg_nbr"] is None:
        raise EquiError(
            "setting avg_nbr null: messages are divided by the root of an atom's number of neighbors, which jumps; no layer does this"
        )
    for key in ("r_cutoff", "avg_nbr", "poly_p"):
        expect(key, "a positive number", type(settings[key]) in (int, float) and 0 < settings[key] < 1e30)
    expect("poly_p", "a number from 2 on, for a cutoff function with a second derivative at 0", settings["poly_p"] >= 2)
    expect("use_ema", "true or false", type(settings["use_ema"]) is bool)
    for key in ("shift_trainable", "scale_trainable"):
        if settings.get(key):
            raise EquiError(f"setting {key} true is not supported")


def _irreps(settings, key):
    """One block of each order from 0 on, of parity (-1)^l: eqnorm takes the number of a block for its order."""
    irreps = Irreps(str(settings[key]).replace(" ", ""))
    expected = [ir for _, ir in Irreps.spherical_harmonics(len(irreps) - 1)]
    if not irreps or [ir for _, ir in irreps] != expected or not all(mul for mul, _ in irreps):
        raise EquiError(f"setting {key} {irreps}: expected a block of channels for each of 0e, 1o, 2e, ... up to an order")
    return irreps


def _convolutions(settings, hidden, harmonics):
    lmax, scalars = harmonics.lmax, Irreps([(settings["num_features"], SCALAR)])
    irreps, found = scalars, []
    gates = sum(mul for mul, ir in hidden if ir.l > 0)
    gated = Irreps([(hidden[0].mul + gates, SCALAR), *hidden[1:]])
    for t in range(settings["num_convs"]):
        for n, irreps_in, irreps_out in ((4 * t, irreps, gated), (4 * t + 2, hidden, scalars)):
            found.append(Convolution(f"layers.{n}", irreps_in, paths_to(irreps_in, lmax, irreps_out), irreps_out))
        irreps = hidden
    return found


def _of_species(value, key, count):
    """A number for each species; the file has these, or one for all."""
    numbers = np.asarray(value)
    if numbers.dtype not in (np.float32, np.float64) or numbers.size not in (1, count):
        raise EquiError(f"{key}: expected a number, or one for each of {count} elements, found {printable(str(value), 60)}")
    return np.broadcast_to(numbers.reshape(-1), (count,)).astype(np.float64)


def is_checkpoint(strings):
    """Whether a pickle with these strings is one of eqnorm."""
    return set(strings) >= SIGNS


def load(source, ignore_keys=(), settings=None):
    """The model in a file. settings: {"variant": name of a model of eqnorm, ...settings in its file}."""
    from ase.data import chemical_symbols

    path = file_of(source)
    with naming(source):
        found, times_cutoff = _complete(settings, path.resolve().stem)
        _audit(found)
        hidden, harmonics = _irreps(found, "irreps_hidden"), _irreps(found, "irreps_sh")
        if hidden.lmax > harmonics.lmax:
            raise EquiError(f"setting irreps_hidden {hidden}: no message of the first layer has an order above {harmonics.lmax}")
        raw = torch_archive.read(path)
        if not isinstance(raw, dict) or not SIGNS <= set(raw):
            raise EquiError(f"expected a checkpoint of eqnorm with {', '.join(sorted(SIGNS))}")
        elements = np.asarray(raw["unique_elements"]).reshape(-1)
        if elements.dtype.kind != "i" or np.any(np.diff(elements) <= 0) or not all(0 < z < len(chemical_symbols) for z in elements):
            raise EquiError("unique_elements: expected different atomic numbers in ascending order")
        numbers = raw["ema_model_state_dict" if found["use_ema"] else "model_state_dict"]
        if not isinstance(numbers, dict) or not all(str(name).startswith(PREFIX) for name in numbers):
            raise EquiError(f"expected tensors whose names begin with {PREFIX}")
        numbers = {name.removeprefix(PREFIX): array for name, array in numbers.items()}
        signs = {}
        for name, array in numbers.items():
            if coupled := re.search(r"\._w3j_(\d)_(\d)_(\d)$", name):
                orders = tuple(map(int, coupled.groups()))
                signs[orders] = sign_of_coupling(array, *orders, name)
        scales, shifts = (_of_species(raw[key], key, len(elements)) for key in ("energy_scale", "energy_shift"))
    return Checkpoint(
        source=source,
        path=path.resolve(),
        elements=[chemical_symbols[number] for number in elements],
        cutoff=float(found["r_cutoff"]),
        settings=found,
        times_cutoff=times_cutoff,
        hidden=hidden,
        harmonics=harmonics,
        convolutions=_convolutions(found, hidden, harmonics),
        state=State(numbers, "an eqnorm model"),
        signs=signs,
        scales=scales,
        shifts=shifts,
    )
