# SPDX-License-Identifier: MIT
"""The element that a mass belongs to, for files that identify atoms only by masses."""

from ase.data import atomic_masses, atomic_numbers, chemical_symbols

from .errors import EquiError

# Old tables of atomic masses differ from today's by at most 0.055 % (germanium). CH2, 14.027, differs from nitrogen by
# 0.14 %, and CH4 from oxygen by 0.28 %.
SAME_MASS = 6e-4
# Masses of isotopes are written with all their digits, and OH differs from oxygen-17 by 0.046 %.
SAME_ISOTOPE = 3e-4
# A mass is not ambiguous if the nearest element is this much nearer than the next one: a calcium of 40.1, but not one
# of 40.
CLEARLY_NEARER = 5.0
# Names that stand for an element with another mass.
NAMED_ISOTOPES = {"D": ("H", 2.014), "T": ("H", 3.016)}
# Stable isotopes of light elements, and tritium, that differ from the standard mass, in u.
ISOTOPES = {
    "H": (2.0141, 3.0160), "He": (3.0160,), "Li": (6.0151, 7.0160), "B": (10.0129, 11.0093), "C": (13.0034,), "N": (15.0001,),
    "O": (16.9991, 17.9992), "Ne": (21.9914,), "Mg": (23.9850, 24.9858, 25.9826), "Si": (28.9765, 29.9738), "S": (32.9715, 33.9679),
    "Cl": (34.9689, 36.9659), "Fe": (53.9396, 56.9354),
}  # fmt: skip


def standard_mass(symbol):
    return float(atomic_masses[atomic_numbers[symbol]])


def species(name):
    """(element, mass) of a chemical symbol, D or T; None for other names."""
    if name in NAMED_ISOTOPES:
        return NAMED_ISOTOPES[name]
    return (name, standard_mass(name)) if name in atomic_numbers and name != "X" else None


def is_standard(mass, symbol, tolerance=SAME_MASS):
    return abs(mass - standard_mass(symbol)) <= tolerance * standard_mass(symbol)


def _half_of_last_digit(mass):
    digits = next((k for k in range(6) if round(mass, k) == mass), 6)
    return 0.5 * 10.0**-digits * (1 + 1e-9)


def _candidates(mass):
    """List of (difference, symbol), nearest first: elements with this mass, which may be rounded, and isotopes. A
    whole number is never the mass of an isotope."""
    found = {}
    for symbol in chemical_symbols[1:]:
        if is_standard(mass, symbol) or abs(mass - standard_mass(symbol)) <= _half_of_last_digit(mass):
            found[symbol] = abs(mass - standard_mass(symbol))
    for symbol, masses in ISOTOPES.items():
        for isotope in masses:
            if mass != round(mass) and abs(mass - isotope) <= SAME_ISOTOPE * isotope:
                found[symbol] = abs(mass - isotope)
    return sorted((difference, symbol) for symbol, difference in found.items())


def element_of_mass(mass, label=None):
    """The symbol of the element with this mass in u; EquiError if there is none, or more than one. label: an element
    that decides between several."""
    found = _candidates(mass)
    if label in [symbol for _, symbol in found]:
        return label
    if not found:
        nearest = min(chemical_symbols[1:], key=lambda symbol: abs(standard_mass(symbol) - mass))
        raise EquiError(f"the mass {mass:g} is that of no element (the nearest is {nearest} with {standard_mass(nearest):g})")
    if len(found) > 1 and found[1][0] <= CLEARLY_NEARER * found[0][0]:
        raise EquiError(f"the mass {mass:g} may be that of {' or '.join(symbol for _, symbol in found)}")
    return found[0][1]


def isotope_name(mass, symbol):
    """A name that distinguishes an isotope from the element: D, T, C13; the symbol if the mass is within 1 % of the
    standard one."""
    if is_standard(mass, symbol, 0.01):
        return symbol
    for name, (element, isotope) in NAMED_ISOTOPES.items():
        if symbol == element and abs(mass - isotope) <= SAME_ISOTOPE * isotope:
            return name
    return f"{symbol}{round(mass)}"
