# SPDX-License-Identifier: MIT
"""Refuses keys of a configuration that a reader does not know, all of them at once."""

from ...errors import EquiError
from ...printable import printable

MAX_SHOWN = 40


def refuse_unknown(unknown, noun="option", can_pass=True):
    """Raises if there are unknown keys. unknown: names, or pairs of a name and its section. can_pass: whether the user
    may vouch for them."""
    found = [entry if isinstance(entry, tuple) else (entry, None) for entry in unknown]
    if not found:
        return
    names = [printable(str(key), 60) for key, _ in found]
    shown = [f"{name} of {where}" if where else name for name, (_, where) in zip(names, found)][:MAX_SHOWN]
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    many = len(names) > 1
    message = f"{noun}{'s' if many else ''} {', '.join(shown)}{more} {'are' if many else 'is'} not known, "
    message += f"{'they' if many else 'it'} may change the energy"
    if can_pass:
        options = " ".join(f"--ignore-key {name}" for name in dict.fromkeys(names[:MAX_SHOWN]))
        message += f"; {options} lets {'them' if many else 'it'} pass"
    raise EquiError(message)
