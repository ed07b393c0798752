# SPDX-License-Identifier: MIT
"""The irreps, paths and shapes of a Nequix model, by its configuration."""

from dataclasses import dataclass

from ...errors import EquiError
from ...irreps import SCALAR, Irreps
from ..common.e3nn_layers import paths_to


def grouped(irreps):
    """Sorted irreps, each of them one block."""
    return irreps.sort()[0].simplify()


@dataclass
class Convolution:
    irreps_in: Irreps
    paths: list  # (block of irreps_in, l2, irrep), each a block of irreps_mid
    irreps_z: Irreps  # of what is normalized: its last scalars are the gates
    irreps_out: Irreps

    @property
    def irreps_mid(self):
        return Irreps((self.irreps_in[i].mul, ir) for i, _, ir in self.paths)


def hidden_irreps(config, backend):
    """Those of a configuration. Refuses what the back end does not evaluate, and an order in which it would confuse blocks."""
    irreps = Irreps(config["hidden_irreps"].replace(" ", ""))
    if any(block.mul == 0 for block in irreps) or irreps.count(SCALAR) == 0 or any(ir.l == 0 and ir.p < 0 for _, ir in irreps):
        raise EquiError(f"hidden_irreps {irreps}: expected blocks with channels, 0e among them and not 0o")
    if irreps != grouped(irreps):
        raise EquiError(
            f"hidden_irreps {irreps}: expected each irrep once and in ascending order, {grouped(irreps)}: Nequix itself confuses "
            "the blocks of others"
        )
    # Those that the products of scalars with harmonics make.
    first = Irreps.spherical_harmonics(config["lmax"])
    missing = [str(ir) for _, ir in irreps if ir not in first]
    if backend == "jax" and missing:
        raise EquiError(f"hidden_irreps {irreps}: no message of the first layer has {missing[0]}, which the back end JAX needs")
    return irreps


def convolutions(config, backend):
    """All of a model."""
    hidden = hidden_irreps(config, backend)
    irreps, found = Irreps([(len(config["atomic_numbers"]), SCALAR)]), []
    for t in range(config["n_layers"]):
        is_last = t + 1 == config["n_layers"]
        out = Irreps(block for block in hidden if block.ir == SCALAR or not is_last)
        gates = [(block.mul, SCALAR) for block in out if block.ir.l > 0]
        found.append(Convolution(irreps, paths_to(irreps, config["lmax"], out), grouped(out + Irreps(gates)), out))
        irreps = out
    return found
