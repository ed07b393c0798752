# SPDX-License-Identifier: MIT
"""What charge, spin, task and composition of a system do to eSEN and UMA models: a vector that is added to the scalars, and matrices
that are mixed of those of experts.  All of it is computed in float64 and is constant while a simulation runs.
"""

import numpy as np

from ..errors import EquiError
from ..printable import printable

CHARGE_OFFSET = 100  # the row of charge 0
NUM_CHARGES, NUM_SPINS = 201, 101
# What fairchem adds to each of the softmax's coefficients.
LEAST_COEFFICIENT = 0.005


def silu(x):
    return x / (1.0 + np.exp(-x))


def formula_counts(text):
    """Numbers of atoms by symbol of a formula like NaCl or Na108Cl108."""
    from ase.formula import Formula

    try:
        counts = Formula(text).count()
    except Exception as error:  # ase raises several kinds
        raise EquiError(f"--composition {printable(text, 60)}: expected a chemical formula such as NaCl or Li6PS5Cl") from error
    if not counts or any(n < 1 for n in counts.values()):
        raise EquiError(f"--composition {printable(text, 60)}: expected a chemical formula such as NaCl or Li6PS5Cl")
    divisor = int(np.gcd.reduce(list(counts.values())))
    return {symbol: n // divisor for symbol, n in counts.items()}


class System:
    """One system of a Checkpoint: its `task`, charge and spin, and of mixtures of experts its composition."""

    def __init__(self, checkpoint, state, task):
        self.checkpoint, self.options, self.state, self.task = checkpoint, checkpoint.options, state, task
        self.charge, self.spin = checkpoint.charge, checkpoint.spin_of(task)
        self.counts = None
        if self.options.get("use_composition_embedding") and checkpoint.num_experts:
            if checkpoint.composition is None:
                raise EquiError(
                    "the model has experts that are mixed by the fractions of the elements (UMA): name the composition of the system, "
                    "such as --composition NaCl; one .equi file holds for one composition"
                )
            self.counts = formula_counts(checkpoint.composition)
            unknown = [symbol for symbol in self.counts if symbol not in checkpoint.elements]
            if unknown:
                raise EquiError(f"--composition {checkpoint.composition}: the model does not know {', '.join(unknown)}")
        self.embedding = self._embedding()
        self.coefficients = self._coefficients() if checkpoint.num_experts else None

    def _matrix(self, name, out, width):
        return self.state.take(f"{name}.weight", out, width).astype(np.float64), self.state.take(f"{name}.bias", out)

    def _of_number(self, name, number, row, rows):
        """The embedding of charge or spin."""
        width, name = self.options["sphere_channels"], f"backbone.{name}_embedding"
        if self.options["chg_spin_emb_type"] == "rand_emb":
            return self.state.take(f"{name}.rand_emb.weight", rows, width)[row]
        if width % 2:
            raise EquiError(f"sphere_channels {width}: embeddings of charge and spin have even numbers of channels")
        angles = 2 * np.pi * number * self.state.take(f"{name}.W", width // 2).astype(np.float64)
        # A spin of zero stands for one that is not given.
        absent = name.endswith("spin_embedding") and number == 0
        return np.zeros(width) if absent else np.concatenate([np.sin(angles), np.cos(angles)])

    def _embedding(self):
        """[channels]: what is added to the scalars of all atoms."""
        width = self.options["sphere_channels"]
        rows = [
            self._of_number("charge", self.charge, CHARGE_OFFSET + self.charge, NUM_CHARGES),
            self._of_number("spin", self.spin, self.spin, NUM_SPINS),
        ]
        if self.options["use_dataset_embedding"]:
            mapping = self.checkpoint.datasets()
            if self.task not in mapping:
                raise EquiError(f"task {self.task} has no embedding; the model has those of {', '.join(mapping)}")
            rows.append(self.state.take(f"backbone.dataset_embedding.dataset_emb_dict.{mapping[self.task]}.weight", 1, width)[0])
        weight, bias = self._matrix("backbone.mix_csd", width, len(rows) * width)
        return silu(weight @ np.concatenate(rows).astype(np.float64) + bias)

    def _coefficients(self):
        """[experts]: the softmax of a network of composition and embedding, and a constant."""
        from ase.data import atomic_numbers

        width, experts = self.options["sphere_channels"], self.checkpoint.num_experts
        given = [self.embedding]
        if self.counts is not None:
            rows = self.state.take("backbone.composition_embedding.weight", self.options["max_num_elements"], width)
            total = sum(n * rows[atomic_numbers[symbol]].astype(np.float64) for symbol, n in self.counts.items())
            given.insert(0, total / sum(self.counts.values()))
        x = np.concatenate(given)
        for layer, out in ((0, 2 * experts), (2, 2 * experts), (4, experts)):
            weight, bias = self._matrix(f"backbone.routing_mlp.{layer}", out, len(x))
            x = silu(weight @ x + bias)
        exponentials = np.exp(x - x.max())
        return exponentials / exponentials.sum() + LEAST_COEFFICIENT

    def matrix(self, name, out, width):
        """The matrix of that name, mixed of those of the experts where it has experts."""
        experts = f"{name}.weights"
        if experts not in self.state.source:
            return self.state.take(f"{name}.weight", out, width)
        if self.coefficients is None:
            raise EquiError(f"tensor {experts}: matrices of experts in a model without experts")
        mixed = np.zeros((out, width))
        for coefficient, matrix in zip(self.coefficients, self.state.take(experts, len(self.coefficients), out, width)):
            mixed += coefficient * matrix
        return mixed
