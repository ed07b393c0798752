# SPDX-License-Identifier: MIT
"""eqnorm model -> document and tensors of an .equi file (doc/model_file.rst).

A block has two convolutions of one feature: the first makes the next feature, the second scalars that are added up for the
energy. Behind each is a norm with a weight for each channel.
"""

from math import sqrt

import numpy as np

from ...document import LMAX_SUPPORTED
from ...errors import EquiError
from ...irreps import SCALAR
from ..common.e3nn_layers import ACTIVATION_CONSTANTS, gate_terms, split_blocks, split_rows, taken_matrices
from ..common.elements import chosen_elements
from ..common.layers import Layers, fan_in, network, path

EPSILON = 1e-12
SILU = ("silu", ACTIVATION_CONSTANTS["silu"])


def is_buffer(name):
    """Tensors that e3nn makes itself."""
    return name.endswith(".output_mask") or "._w3j_" in name


class _Converter(Layers):
    def __init__(self, checkpoint, elements):
        super().__init__(chosen_elements(elements, checkpoint.elements, checkpoint.source))
        self.checkpoint = checkpoint
        self.settings = checkpoint.settings
        self.state = checkpoint.state
        self.species = [checkpoint.elements.index(e) for e in self.elements]

    def linear(self, name, source, irreps_in, target, irreps_out, pieces=None, accumulate=False):
        """pieces: irreps of the source, if these are finer than irreps_in."""
        matrices = taken_matrices(self.state, name, irreps_in, irreps_out)
        rows = split_rows(name, irreps_in, pieces or irreps_in)
        blocks = split_blocks(self.table, name, ((*pair, *found) for pair, found in matrices.items()), rows)
        self.add_linear(source, pieces or irreps_in, target, irreps_out, blocks, accumulate=accumulate)

    def dense(self, name, sizes, columns=None, **more):
        """e3nn's FullyConnectedNet. columns: of the last matrix, in the order of the result."""
        matrices = [self.state.take(f"{name}.layer{n}.weight", *shape) for n, shape in enumerate(zip(sizes, sizes[1:]))]
        if columns is not None:
            matrices[-1] = matrices[-1][:, columns]
        tensors = [self.table.add(f"{name}.layer{n}", matrix) for n, matrix in enumerate(matrices)]
        return network(tensors, *(SILU if len(matrices) > 1 else ()), scales=fan_in(matrices), **more)

    def convolution(self, convolution, x, z):
        """One with what skips it, and the norm behind both."""
        name, settings = convolution.name, self.settings
        irreps_in, mid, irreps_out = convolution.irreps_in, convolution.irreps_mid, convolution.irreps_out
        y, m = f"{z}_y", f"{z}_m"
        self.linear(f"{name}.linear_1", x, irreps_in, y, irreps_in)
        # The columns of the radial network are in the order in which e3nn made the paths, before it sorted them.
        paths = convolution.paths
        made = sorted(range(len(paths)), key=lambda q: (*paths[q][:2], paths[q][2].l))
        ends = dict(zip(made, np.cumsum([mid[q].mul for q in made])))
        columns = np.concatenate([np.arange(ends[q] - mid[q].mul, ends[q]) for q in range(len(paths))])
        sizes = [settings["num_basis"], *[settings["invariant_neurons"]] * settings["invariant_layers"], mid.num_channels]
        more = {"times_cutoff": True} if self.checkpoint.times_cutoff else {}
        radial = self.dense(f"{name}.fc", sizes, columns, **more)
        signs, scale = self.checkpoint.signs, sqrt(settings["avg_nbr"])
        found = [
            path(i, l2, q, signs.get((irreps_in[i].ir.l, l2, ir.l), 1) * sqrt(ir.dim) / scale) for q, (i, l2, ir) in enumerate(paths)
        ]
        self.add_convolution(y, irreps_in, m, mid, found, radial)
        self.linear(f"{name}.sc", x, irreps_in, f"{z}_sum", irreps_out)
        self.linear(f"{name}.linear_2", m, mid.simplify(), f"{z}_sum", irreps_out, pieces=mid, accumulate=True)
        self.norm(f"{name}.ln", f"{z}_sum", irreps_out, z)

    def norm(self, name, source, irreps, target):
        """The file has the weights of its squares, a row for each component, in float32."""
        widest = max(mul for mul, _ in irreps)
        rows = self.state.take(f"{name}.balance_weight", sum(ir.dim for _, ir in irreps), widest).astype(np.float64) / widest
        weights, scales, first = [], [], 0
        for b, (mul, ir) in enumerate(irreps):
            own = rows[first : first + ir.dim, :mul]
            first += ir.dim
            if np.any(own != own[0]):
                raise EquiError(f"tensor {name}.balance_weight: weights of components of order {ir.l} differ")
            weights.append(self.table.add(f"{name}.weights.{b}", own[0]))
            scales.append(self.table.add(f"{name}.scale.{b}", self.state.take(f"{name}.affine_weight.{b}", mul)))
        self.add_spherical_norm(source, irreps, target, [(range(len(irreps)), weights, False)], EPSILON, scales)

    def document(self):
        checkpoint, settings, cutoff = self.checkpoint, self.settings, self.checkpoint.cutoff
        lmax, count, width = checkpoint.harmonics.lmax, len(checkpoint.elements), settings["num_features"]
        if lmax > LMAX_SUPPORTED:
            raise EquiError(f"setting irreps_sh {checkpoint.harmonics}: at most order {LMAX_SUPPORTED} is supported")
        numbers = self.state.take("besssel_basis.bessel_weights", settings["num_basis"])
        radial_basis = {
            "kind": "bessel",
            "wave_numbers": self.table.add("wave_numbers", numbers.astype(np.float64) / cutoff),
            "prefactor": 2 / cutoff,
            "cutoff_function": {"kind": "polynomial", "p": settings["poly_p"]},
        }
        rows = self.state.take("embedding.linear.weight", count * width).reshape(count, width)
        self.add_species_embedding("x0", "embedding", rows[self.species], 1 / sqrt(count))
        x, scalars = "x0", f"{width}x0e"
        same = [(0, 0, self.table.add("identity", np.eye(width, dtype=np.float32)), 1.0)]
        self.add_linear(x, scalars, "sum", scalars, same)
        others = len(checkpoint.hidden) - 1
        for t in range(settings["num_convs"]):
            to_hidden, to_scalars = checkpoint.convolutions[2 * t : 2 * t + 2]
            self.convolution(to_hidden, x, f"z{t}")
            x = f"x{t + 1}"
            terms = gate_terms(to_hidden.name, to_hidden.irreps_out, checkpoint.hidden, SCALAR, [SILU], [SILU] * others)
            self.add_gate(f"z{t}", to_hidden.irreps_out, x, checkpoint.hidden, terms)
            self.convolution(to_scalars, x, f"s{t}")
            self.add_activation(f"s{t}", f"a{t}", to_scalars.irreps_out, "silu")
            self.add_linear(f"a{t}", scalars, "sum", scalars, same, accumulate=True)
        self.add_readout("sum", scalars, 0, self.dense("output_block", [width, width // 2, 1]))
        self.add_scale_shift(
            self.table.add("scale", checkpoint.scales[self.species]), self.table.add("shift", checkpoint.shifts[self.species])
        )
        self.state.finish(is_buffer)
        return self.finished("eqnorm", cutoff, lmax, True, radial_basis)


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded model."""
    return _Converter(checkpoint, elements).document()
