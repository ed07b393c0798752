# SPDX-License-Identifier: MIT
"""Makers of random models for tests, one module for each framework.

Each is a command, `python -m test_models.FRAMEWORK DIR [NAME ...]`, with `tools` and `unittest/python` in PYTHONPATH.
"""

import argparse
from pathlib import Path

from equi_tools.errors import EquiError


def atomic_numbers_of_many():
    """The elements of models for 89 elements, like published models of all elements."""
    return [z for z in range(1, 95) if not 84 <= z <= 88]


def many_elements():
    """The symbols of the same elements."""
    from ase.data import chemical_symbols

    return [chemical_symbols[z] for z in atomic_numbers_of_many()]


def convert_with_reference(source, target, **options):
    """`convert` with the framework's own values, for comparisons in tests."""
    from equi_tools.convert import convert

    return convert(source, target, reference=True, **options)


def command(argv, description, variants, others, make_source):
    """Writes DIR/NAME.equi, next to the framework's file, for the named models, by default for all of `variants`.

    others: models that are made only if they are named. make_source(name, directory, seed) writes the framework's
    file, and returns its path and the arguments of `convert` for it, as a dict of keywords.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    args.directory.mkdir(parents=True, exist_ok=True)
    known = [*variants, *others]
    unknown = [name for name in args.names if name not in known]
    if unknown:
        raise EquiError(f"no variant {', '.join(unknown)}; known: {', '.join(known)}")
    for name in args.names or variants:
        source, settings = make_source(name, args.directory, args.seed)
        target = args.directory / f"{name}.equi"
        convert_with_reference(source, target, **settings, license="MIT", citation="none: random numbers", quiet=True)
        print(target)
