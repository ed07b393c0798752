# SPDX-License-Identifier: MIT
"""What the converters of all frameworks built on e3nn share: e3nn's modules as layers.

Functions accept irreps as lists of (mul, ir) with `ir.l` and `ir.p`, like those of e3nn.
"""

from math import sqrt

import numpy as np

from ... import torch_archive
from ...coupling import coupling
from ...errors import EquiError
from ...irreps import Irrep
from .layers import activated, gated

# e3nn divides an activation by its root mean square for normally distributed arguments, and estimates this from a
# million random numbers of one seed. These are its factors, as versions 0.4 to 0.6 compute them on CPUs.
ACTIVATION_CONSTANTS = {
    "relu": float.fromhex("0x1.6a95371d3cc5ep+0"), "silu": float.fromhex("0x1.adde87bf8e3e3p+0"),
    "tanh": float.fromhex("0x1.97feea4a85186p+0"), "abs": float.fromhex("0x1.0048c8ca47b65p+0"),
    "ssp": float.fromhex("0x1.e0d2056a949acp+0"), "sigmoid": float.fromhex("0x1.d8c1b1a2cc34cp+0"),
}  # fmt: skip

# e3nn for JAX computes it over a million quantiles of the normal distribution; these are its factors in float64.
JAX_ACTIVATION_CONSTANTS = {
    "silu": float.fromhex("0x1.ad332bc093dedp+0"), "tanh": float.fromhex("0x1.97b09ccbb67b8p+0"),
    "relu": float.fromhex("0x1.6a0b109d1a15bp+0"), "sigmoid": float.fromhex("0x1.d8a279ae45fe2p+0"),
}  # fmt: skip

# Error of a coupling in each precision; other conventions and damaged buffers differ by tenths.
ROUNDED = {"float64": 1e-5, "float32": 1e-5, "float16": 2e-3, "bfloat16": 8e-3}


def sign_of_coupling(stored, l1, l2, l3, where, precision=None):
    """+1 or -1: the sign of a framework's coupling buffer, an array, relative to ours; e3nn changed it in 0.5.

    precision: the dtype that its numbers were rounded to, if it is not that of the buffer.
    """
    exact = coupling(l1, l2, l3)
    tolerance = ROUNDED.get(precision or torch_archive.precision(stored), 0.0)
    stored = np.asarray(stored, np.float64)
    for sign in (1, -1):
        if stored.shape == exact.shape and np.abs(sign * stored - exact).max() < tolerance:
            return sign
    raise EquiError(f"{where}: coupling buffer of ({l1},{l2},{l3}) is neither convention known")


def paths_to(irreps, lmax, target, place=None):
    """[(block, l2, ir)] of the products of `irreps` with harmonics up to lmax that make an irrep of `target`.

    They are sorted by place(ir), by default in e3nn's order of irreps.
    """
    found = [
        (i, l2, ir)
        for i, (_, source) in enumerate(irreps)
        for l2 in range(lmax + 1)
        for ir in source * Irrep(l2, (-1) ** l2)
        if ir in target
    ]
    return sorted(found, key=lambda path: path[2] if place is None else place(path[2]))


def split_rows(name, merged, fine):
    """For each block of `merged` the list of (block of `fine`, first row, last row + 1)."""
    pieces, k = [], 0
    for mul, ir in merged:
        rows, begin = [], 0
        while begin < mul:
            if k == len(fine) or fine[k].ir != ir or begin + fine[k].mul > mul:
                raise EquiError(f"{name}: irreps {merged} are not those of its input, {fine}")
            rows.append((k, begin, begin + fine[k].mul))
            begin += fine[k].mul
            k += 1
        pieces.append(rows)
    if k != len(fine):
        raise EquiError(f"{name}: irreps {merged} are not those of its input, {fine}")
    return pieces


def matrices_of(name, flat, irreps_in, irreps_out, width=None):
    """{(i, j): (matrix, scale)} of the flat weights of e3nn's Linear, or, with the width of the second operand, of a
    species product."""
    offset, found = 0, {}
    for i, (mul_in, ir_in) in enumerate(irreps_in):
        for j, (mul_out, ir_out) in enumerate(irreps_out):
            if ir_in != ir_out:
                continue
            shape = (mul_in, mul_out) if width is None else (mul_in, width, mul_out)
            size = int(np.prod(shape))
            fan_in = (width or 1) * sum(mul for mul, ir in irreps_in if ir == ir_out)
            found[i, j] = flat[offset : offset + size].reshape(shape), 1.0 / sqrt(fan_in)
            offset += size
    expect_used(name, flat, offset)
    return found


def taken_matrices(state, name, irreps_in, irreps_out):
    """The same for the Linear `name` of a State."""
    size = sum(mul * out.mul for mul, ir in irreps_in for out in irreps_out if out.ir == ir)
    return matrices_of(f"{name}.weight", state.take(f"{name}.weight", size), irreps_in, irreps_out)


def split_blocks(table, name, matrices, rows):
    """Blocks of add_linear. matrices: (block in, block out, matrix [..., in, out], scale). rows: as of split_rows."""
    return [
        (k, j, table.add(f"{name}.{k}.{j}", matrix[..., begin:end, :]), scale)
        for i, j, matrix, scale in matrices
        for k, begin, end in rows[i]
    ]


def expect_used(name, flat, used):
    if flat.size != used:
        raise EquiError(f"tensor {name} has {flat.size} numbers, its irreps ask for {used}")


def gate_terms(name, irreps_z, irreps_x, gate_ir, scalar_acts, gate_acts):
    """Terms of e3nn's Gate: its input is the stable sort of (scalars, gates, gated), its output scalars, then gated.

    gate_ir: irrep of the gates; scalar_acts, gate_acts: (activation, scale) per scalar block and per gated block.
    """
    scalars = [(k, b) for k, b in enumerate(irreps_x) if b.ir.l == 0]
    others = [(k, b) for k, b in enumerate(irreps_x) if b.ir.l > 0]
    # (irrep, channels, role) in the order that decides the positions in z.
    entries = [(b.ir, b.mul, ("scalar", k)) for k, b in scalars]
    entries += [(gate_ir, b.mul, ("gate", k)) for k, b in others]
    entries += [(b.ir, b.mul, ("gated", k)) for k, b in others]
    place, used = {}, [0] * len(irreps_z)
    block_of = {ir: n for n, (_, ir) in enumerate(irreps_z)}
    for ir, mul, role in entries:
        place[role] = (block_of[ir], used[block_of[ir]])
        used[block_of[ir]] += mul
    if used != [mul for mul, _ in irreps_z] or len(block_of) != len(irreps_z):
        raise EquiError(f"internal: {name} does not use all of {irreps_z}")
    terms = []
    for (k, _), (activation, scale) in zip(scalars, scalar_acts):
        block, offset = place["scalar", k]
        terms.append(activated(k, activation, scale, block, offset))
    for (k, _), (activation, scale) in zip(others, gate_acts):
        block, offset = place["gated", k]
        gate_in, gate_offset = place["gate", k]
        terms.append(gated(k, block, offset, gate_in, gate_offset, activation, scale))
    return terms
