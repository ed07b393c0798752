# SPDX-License-Identifier: MIT
"""The irreps and paths of TACE's layers, as its options decide them."""

from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne

from ...irreps import SCALAR, Irrep, Irreps

# Restrictions of the orders of both factors of a product.
RESTRICTIONS = {None: lambda a, b: True, "<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}


def product_irreps(first, second, parity, lmax):
    """The irreps up to lmax of all products of two lists of irreps. parity: also those that are not of parity (-1)^l."""
    found = {ir for a in first for b in second for ir in a * b}
    return sorted(ir for ir in found if ir.l <= lmax and (parity or ir.p == (-1) ** ir.l))


def paths_between(first, second, outputs, restriction, identical=False):
    """[(irrep of the first factor, of the second, irrep of the product)] in the order of their weights, the factors by number.

    identical: whether both factors are the same feature, whose products with itself to odd l1 + l2 - l3 are zero.
    """
    is_allowed = RESTRICTIONS[restriction]
    return [
        (i, j, ir)
        for ir in outputs
        for i, a in enumerate(first)
        for j, b in enumerate(second)
        if ir in a * b and is_allowed(a.l, b.l) and not (identical and i == j and (a.l + b.l - ir.l) % 2)
    ]


@dataclass
class Block:
    """An interaction and the product that follows. Irreps are lists; each has the same number of channels."""

    number: int
    inputs: list
    paths: list  # of the convolution: (number of an irrep of `inputs`, l2, irrep)
    mid: list  # irreps of the atomic basis
    correlation: int
    outputs: list


def target_irreps(config):
    """Those of the last layer: 0e, and others that the user wants to see."""
    found = {SCALAR}
    for component in config["product_basis"]["return_components"] or ():
        l = component if type(component) is int else Irreps(str(component))[0].ir.l
        found.add(Irrep(l, (-1) ** l) if type(component) is int or not config["parity"] else Irreps(str(component))[0].ir)
    return sorted(found)


def blocks(config, first):
    """All Blocks of a model whose node embedding has the irreps `first`."""
    lmax, of_nodes, parity = config["lmax"], config["Lmax"], config["parity"]
    harmonics = [Irrep(l, (-1) ** l) for l in range(lmax + 1)]
    found, inputs = [], list(first)
    for t in range(config["num_layers"]):
        correlation = config["product_basis"]["correlation"][t]
        is_last = t == config["num_layers"] - 1
        mid = product_irreps(inputs, harmonics, parity, of_nodes if correlation == 1 else lmax)
        if is_last:
            outputs = target_irreps(config)
        elif correlation == 1:
            outputs = [ir for ir in mid if ir.l <= of_nodes]
        else:
            outputs = product_irreps(mid, mid, parity, of_nodes)
        paths = paths_between(inputs, harmonics, mid, config["atomic_basis"]["l1l2"])
        found.append(Block(t, inputs, paths, mid, correlation, outputs))
        inputs = outputs
    return found
