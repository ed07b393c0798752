# SPDX-License-Identifier: MIT
"""eSEN and UMA models of fairchem (the backbones eSCNMDBackbone of fairchem 2 and esen_backbone of fairchem 1, an energy head) ->
document and tensors of an .equi file (doc/model_file.rst).

A file of a UMA model without a composition is one for all systems, with the matrices of all experts. In others charge, spin and task
are folded into the embedding of the species and the biases of norms, and the matrices of experts are mixed for one composition, in
float64. All other numbers are fairchem's, transposed where its matrices are.
"""

import numpy as np
from ase.data import atomic_numbers

from ...errors import EquiError
from ..common.esen_layers import EsenLayers
from ..common.layers import network
from ..common.state import State
from .system import composition_of, describe, merge

# fairchem's constants: the width of a Gaussian in spacings, the power of the envelope.
WIDTH_IN_SPACINGS = 2.0
ENVELOPE_POWER = 5
# Numbers that fairchem makes anew, which older files hold.
MADE_ANEW = ("expand_index", "offset", "balance_degree_weight", "coefficient_index")


class Converter(EsenLayers):
    """checkpoint: of fairchem_checkpoint; task: the data set whose energy is meant, None where there is one."""

    kind = "eSEN or UMA"
    prefix = "backbone."

    def __init__(self, checkpoint, task=None, elements=None):
        self.checkpoint, self.options, self.num_experts = checkpoint, checkpoint.options, checkpoint.num_experts
        chosen = [checkpoint.task_name(task)] if task is not None or not checkpoint.is_for_all_systems else sorted(checkpoint.tasks)
        self.tasks, self.heads = {name: checkpoint.tasks[name] for name in chosen}, [checkpoint.head(name) for name in chosen]
        self.state = State(self._numbers_of_the_tasks(), self.kind)
        self.composition = composition_of(checkpoint)
        super().__init__(self._elements(elements))
        self.numbers = [atomic_numbers[e] for e in self.elements]

    def _numbers_of_the_tasks(self):
        """All numbers but those of other heads and other data sets."""
        kept = {}
        for name, value in self.checkpoint.state.items():
            last = name.rsplit(".", 1)[-1]
            other_head = name.startswith("output_heads.") and not name.startswith(tuple(head.prefix for head in self.heads))
            if not other_head and last not in MADE_ANEW and not last.startswith("Jd_"):
                kept[name] = value
        return kept

    def _elements(self, elements):
        known = list(self.checkpoint.elements)
        for task in self.tasks.values():
            if task.references is not None:
                known = known[: len(task.references) - 1]
        composition = self.composition
        if composition is not None:
            known = [e for e in known if e in composition]
        elements = elements or known
        unknown = [e for e in elements if e not in known]
        if unknown:
            why = "its composition has no" if composition is not None else "does not know"
            raise EquiError(f"--elements: {self.checkpoint.source}: {why} {', '.join(unknown)}")
        if len(set(elements)) != len(elements):
            raise EquiError("--elements: an element is named twice")
        if composition is not None and len(elements) != len(composition):
            raise EquiError(f"--elements: the composition has {', '.join(composition)}, all of which are needed")
        return elements

    def rows_of_elements(self, name, width):
        return self.state.take(name, self.options["max_num_elements"], width)[self.numbers]

    def balance(self, source, t):
        """The name of the feature with sums over all atoms that are the charge of the system, and the spin multiplicity less one."""
        for kind in ("charge", "spin"):
            channels = self.options[f"{kind}_balanced_channels"]
            if not channels:
                continue
            target, name = f"{kind}{t}", f"ones.{len(channels)}.{kind}"
            if name not in self.table.tensors:
                self.made[self.table.add(name, np.ones(len(channels)))] = kind
            irreps = self.irreps(self.channels)
            self.add("channel_balance", source, irreps, target, irreps, block=0, first=channels[0], target=name)
            source = target
        return source

    def of_tasks(self, name, arrays):
        """The tensor of an array for each task, which is stored once if all of them are the same."""
        if any(not np.array_equal(array, arrays[0]) for array in arrays):
            self.made[name] = "task"
            return self.table.add(name, np.stack(arrays))
        return self.table.add(name, arrays[0])

    def head_matrix(self, head, name, out, width):
        """A matrix [in, out] of a head, which may have one for each kind of data set."""
        if not head.experts:
            return self.state.take(f"{head.prefix}{name}.weight", out, width).T
        return self.state.take(f"{head.prefix}{name}.weights", head.experts, out, width)[head.expert].T

    def energies(self, source):
        irreps = self.irreps(self.channels)
        self.norm("backbone.norm", source, "last")
        widths, weights, biases = (self.channels, self.hidden, self.hidden, 1), [], []
        for k, n in enumerate((0, 2, 4)):
            name, shape = f"energy_block.{n}", (widths[k + 1], widths[k])
            weights.append(self.of_tasks(f"head.{n}.weight", [self.head_matrix(head, name, *shape) for head in self.heads]))
            bias = self.of_tasks(f"head.{n}.bias", [self.state.take(f"{head.prefix}{name}.bias", shape[0]) for head in self.heads])
            biases.append(bias)
        self.add_readout("last", irreps, 0, network(weights, "silu", biases=biases))
        ones, references = np.ones(len(self.elements)), [task.references for task in self.tasks.values()]
        scales = [task.rmsd * ones for task in self.tasks.values()]
        shifts = [0.0 * ones if found is None else found[self.numbers] for found in references]
        self.add_scale_shift(self.of_tasks("scale", scales), self.of_tasks("shift", shifts))

    def document(self):
        """The architecture part of the document, and the tensors."""
        cutoff = self.checkpoint.cutoff
        self.energies(self.add_features())
        name, neighbors = "UMA" if self.num_experts else "eSEN", self.options["max_neighbors"]
        body, tensors = self.finished(name, cutoff, self.lmax, False, self.radial_basis(cutoff), max_neighbors=neighbors)
        if not self.checkpoint.has_system:
            self.state.finish()
            return body, tensors
        mixture = describe(self.checkpoint, self.state, list(self.tasks), self.numbers, self.table)
        self._leave_other_systems()
        self.state.finish()
        body["mixture"] = mixture | {"tensors": self.made}
        if self.checkpoint.is_for_all_systems:
            return body, tensors
        (task,) = self.tasks
        return merge(body, tensors, task, self.checkpoint.charge, self.checkpoint.spin_of(task), self.composition)

    def radial_basis(self, cutoff):
        size, envelope = self.options["num_distance_basis"], {"kind": "polynomial", "p": ENVELOPE_POWER}
        if self.options["distance_function"] == "bessel":
            name = "backbone.distance_expansion.rbf.frequencies"
            frequencies = self.state.take(name, size).astype(np.float64)
            # sqrt(2/c^3) / (r/c) sin(f r/c) times the envelope.
            return {"kind": "bessel", "wave_numbers": self.table.add(name, frequencies / cutoff), "prefactor": float(np.sqrt(2.0 / cutoff)),
                    "cutoff_function": envelope}  # fmt: skip
        centers = np.linspace(0.0, cutoff, size)
        return {
            "kind": "gaussian",
            "centres": self.table.add("backbone.distance_expansion.offset", centers),
            "width": WIDTH_IN_SPACINGS * float(centers[1] - centers[0]),
            "cutoff_function": envelope,
            "apply_cutoff": False,
        }

    def _leave_other_systems(self):
        """Embeddings of other data sets are no part of this model."""
        for name in self.state.source:
            if name.startswith("backbone.dataset_embedding.dataset_emb_dict."):
                self.state.taken.add(name)


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded model."""
    return Converter(checkpoint, choice, elements).document()
