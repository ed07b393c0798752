# SPDX-License-Identifier: MIT
"""Irreps of O(3) and SO(3), with the order and the text of e3nn, as far as the converters of its models need them.

An irrep is a pair (l, p), p = 1 for even and -1 for odd; irreps are a tuple of blocks (mul, ir).
"""

import re
from collections import namedtuple
from itertools import groupby

from .errors import EquiError

BLOCK = re.compile(r"(?:(\d+)x)?(\d+)([eoy])", re.ASCII)
PARITY = {1: "e", -1: "o"}


class Irrep(namedtuple("Irrep", "l p")):
    """Compares as a tuple: 0o is before 0e."""

    __slots__ = ()

    @property
    def dim(self):
        return 2 * self.l + 1

    def __mul__(self, other):
        """The irreps of a product, in ascending order of l."""
        return [Irrep(l, self.p * other.p) for l in range(abs(self.l - other.l), self.l + other.l + 1)]

    def __str__(self):
        return f"{self.l}{PARITY[self.p]}"

    __repr__ = __str__


class Block(namedtuple("Block", "mul ir")):
    """Channels of one irrep."""

    __slots__ = ()

    @property
    def dim(self):
        return self.mul * self.ir.dim

    def __str__(self):
        return f"{self.mul}x{self.ir}"

    __repr__ = __str__


SCALAR = Irrep(0, 1)


def _blocks_of_text(text):
    for word in text.split("+"):
        found = BLOCK.fullmatch(word.strip())
        if not found:
            raise EquiError(f"'{text}' are not irreps")
        mul, l, p = found.groups()
        parity = (-1) ** int(l) if p == "y" else 1 if p == "e" else -1
        yield int(mul or 1), (int(l), parity)


class Irreps(tuple):
    """Constructed from text such as 16x0e+8x1o, or from blocks (mul, (l, p))."""

    __slots__ = ()

    def __new__(cls, blocks=()):
        if isinstance(blocks, str):
            blocks = _blocks_of_text(blocks) if blocks.strip() else ()
        return super().__new__(cls, (Block(int(mul), Irrep(int(ir[0]), int(ir[1]))) for mul, ir in blocks))

    @classmethod
    def spherical_harmonics(cls, lmax, p=-1):
        """1x0e+1x1o+1x2e+..., or all even for p = 1."""
        return cls((1, (l, p**l)) for l in range(lmax + 1))

    def __add__(self, other):
        return Irreps(tuple(self) + tuple(other))

    def __getitem__(self, index):
        return Irreps(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    def __contains__(self, ir):
        return any(block.ir == ir and block.mul > 0 for block in self)

    @property
    def dim(self):
        return sum(block.dim for block in self)

    @property
    def num_channels(self):
        return sum(block.mul for block in self)

    @property
    def lmax(self):
        return max(block.ir.l for block in self)

    def count(self, ir):
        return sum(block.mul for block in self if block.ir == ir)

    def simplify(self):
        """Merges adjacent blocks of the same irrep, and removes blocks without channels."""
        kept = [block for block in self if block.mul > 0]
        return Irreps((sum(block.mul for block in group), ir) for ir, group in groupby(kept, lambda block: block.ir))

    def sort(self):
        """(sorted irreps, the position of each block among them); blocks of the same irrep keep their order."""
        order = sorted(range(len(self)), key=lambda n: (self[n].ir, n))
        places = [0] * len(self)
        for place, n in enumerate(order):
            places[n] = place
        return Irreps(self[n] for n in order), places

    def __str__(self):
        return "+".join(map(str, self))

    __repr__ = __str__


def products(irreps, other):
    """The irreps of all products of two irreps, sorted and simplified."""
    found = Irreps((a.mul * b.mul, ir) for a in irreps for b in other for ir in a.ir * b.ir)
    return found.sort()[0].simplify()


def gate_input(scalars, gates, gated):
    """The input of e3nn's Gate: its parts, sorted and simplified."""
    return (scalars.simplify() + gates.simplify() + gated.simplify()).sort()[0].simplify()
