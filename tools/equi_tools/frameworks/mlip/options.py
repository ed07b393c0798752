# SPDX-License-Identifier: MIT
"""What the options of mlip's architectures have in common: which are known, and what is refused by name."""

from ...errors import EquiError
from ...printable import printable
from ..common.unknown_keys import refuse_unknown

SUPPORTED = "MACE, NequIP and eSEN"
# Options of every architecture that are refused if they have another value than this one, and why.
REFUSED = {
    "predict_partial_charges": (False, "charges are not part of the .equi format"),
    "use_coulomb_term": (False, "charges are not part of the .equi format"),
}  # fmt: skip
# Options that every architecture has, but not in older versions.
OPTIONAL = {"use_total_charge_embedding", "embed_activation"}
# These choose how mlip computes, or are superseded by the statistics of the data set.
IGNORED = {"num_species", "deterministic_scatter_ops"}


def whole(options, key, least):
    value = options.get(key)
    if type(value) is not int or not least <= value <= 65536:
        raise EquiError(f"config.{key}: expected a whole number from {least} on, found {printable(str(value), 60)}")
    return value


def widths(options, key):
    """Widths of the hidden layers of a network."""
    found = options[key]
    if not isinstance(found, list) or not all(type(n) is int and 0 < n <= 65536 for n in found):
        raise EquiError(f"option {key}: expected a list of whole numbers")


def number(values, key, least=None, where="dataset_info"):
    value = values.get(key)
    if type(value) not in (int, float) or not abs(value) < 1e30 or (least is not None and not value > least):
        raise EquiError(f"{where}.{key}: expected a number, found {printable(str(value), 60)}")
    return float(value)


def known_alone(options, kind, taken, ignored, refused):
    """Refuses unknown options, all at once, missing ones, and values in `refused`: {name: (the value that is supported, reason)}."""
    refused = REFUSED | refused
    known = taken | OPTIONAL | IGNORED | ignored | set(refused)
    refuse_unknown([(key, kind) for key in options if key not in known], can_pass=False)
    missing = sorted(taken - set(options))
    if missing:
        raise EquiError(f"option {missing[0]} of {kind} is missing; of mlip only {SUPPORTED}, saved by version 0.2.5, are supported")
    for key, (allowed, why) in refused.items():
        if options.get(key, allowed) != allowed:
            raise EquiError(f"option {key} {printable(str(options[key]), 60)} is not supported: {why}")


def check_statistics(statistics):
    """Checks the statistics of the data set, for all architectures."""
    if statistics.get("long_range_cutoff_angstrom") is not None:
        raise EquiError("dataset_info.long_range_cutoff_angstrom: interactions beyond the cutoff are not supported")
    for key, least in (("graph_cutoff_angstrom", 0), ("avg_num_neighbors", 0), ("scaling_mean", None), ("scaling_stdev", None)):
        number(statistics, key, least)
    if statistics.get("avg_r_min_angstrom") is not None:
        number(statistics, "avg_r_min_angstrom", 0)
