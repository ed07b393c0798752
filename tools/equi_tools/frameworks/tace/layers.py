# SPDX-License-Identifier: MIT
"""Linear maps, radial networks and norms of a TACE model as layers of an .equi file (doc/model_file.rst)."""

from math import sqrt

import numpy as np

from ...errors import EquiError
from ...irreps import SCALAR, Irreps
from ..common.e3nn_layers import ACTIVATION_CONSTANTS, expect_used, split_blocks, split_rows
from ..common.elements import chosen_elements
from ..common.layers import Layers, network
from .checkpoint import option

# e3nn's factors of activations; the identity has none.
CONSTANTS = ACTIVATION_CONSTANTS | {"identity": 1.0}
# The package's own factor of silu in networks of the kind mlp_v2, which it states in digits.
SCALED_SILU = 1.6791767923989418
NORM_EPSILON = 1e-5
RMS_EPSILON = float(np.finfo(np.float64).eps)  # of torch for numbers in float64
MAX_NORMALIZED_BLOCKS = 8


def with_channels(mul, irs):
    return Irreps((mul, ir) for ir in irs)


class TaceLayers(Layers):
    def __init__(self, checkpoint, head, elements):
        super().__init__(chosen_elements(elements, checkpoint.elements, checkpoint.source))
        self.checkpoint, self.config, self.state = checkpoint, checkpoint.config, checkpoint.state
        self.head = checkpoint.head_index(head)
        self.species = [checkpoint.elements.index(e) for e in self.elements]
        self.count = len(checkpoint.elements)  # of the model's own elements
        self.channels = self.config["num_channel"]
        product = self.config["product_basis"]
        self.experts = product["num_expert"] or 1
        self.per_expert = product["num_channel_per_expert"] or self.channels
        self.hidden = self.experts * self.per_expert

    def option(self, name):
        return option(self.config, name)

    def numbers(self, name):
        """Floating-point numbers of any shape."""
        return self.state.take(name, *self.state.array(name).shape)

    # ---- numbers of the package's linear maps

    def flat(self, name, shapes, *lead):
        """All weights [*lead, n] of a linear map, which the file has as one tensor or as one for each path."""
        if f"{name}.weight.0" not in self.state:
            return self.state.take(f"{name}.weight", *lead, sum(a * b for a, b in shapes))
        parts = [self.state.take(f"{name}.weight.{n}", *lead, *shape).reshape(*lead, -1) for n, shape in enumerate(shapes)]
        return np.concatenate(parts, axis=-1)

    def parts(self, name, irreps_in, irreps_out, kind="plain"):
        """({(i, j): (matrix [..., in, out], scale)}, {j: bias [..., channels]}) of a linear map between irreps.

        kind: plain, element (matrices and biases have a first axis, the model's elements) or expert (and a second one).
        """
        lead = {"plain": (), "element": (self.count,), "expert": (self.count, self.experts)}[kind]
        pairs = [(i, j) for i, (_, ir) in enumerate(irreps_in) for j, block in enumerate(irreps_out) if block.ir == ir]
        shapes = [(irreps_in[i].mul, irreps_out[j].mul) for i, j in pairs]
        weights, offset, matrices = self.flat(name, shapes, *lead), 0, {}
        for (i, j), shape in zip(pairs, shapes):
            size = shape[0] * shape[1]
            matrix = weights[..., offset : offset + size].reshape(*lead, *shape)
            matrices[i, j] = matrix, 1.0 / sqrt(irreps_in.count(irreps_out[j].ir))
            offset += size
        expect_used(f"{name}.weight", weights[(0,) * len(lead)], offset)
        scalars = [j for j, (_, ir) in enumerate(irreps_out) if ir == SCALAR]
        biases, width = {}, sum(irreps_out[j].mul for j in scalars)
        if f"{name}.bias" in self.state and width:
            # With separate matrices the biases of all elements are one row.
            array = self.numbers(f"{name}.bias")
            expect_used(f"{name}.bias", array, int(np.prod(lead)) * width)
            array, offset = array.reshape(*lead, width), 0
            for j in scalars:
                biases[j] = array[..., offset : offset + irreps_out[j].mul]
                offset += irreps_out[j].mul
        return matrices, biases

    def one(self):
        """The name of a feature that is 1, from which biases of elements are made."""
        if not any(layer.get("output") == "one" for layer in self.layers):
            self.add_species_embedding("one", "one", np.ones((len(self.elements), 1), np.float32))
        return "one"

    def element_biases(self, name, biases, target, irreps, factor=1.0):
        """Adds {block: [the model's elements, channels]} to a feature."""
        rows = {j: bias[self.species][:, None] for j, bias in biases.items() if np.any(bias)}
        found = [(0, j, self.table.add(f"{name}.bias.{j}", array), factor) for j, array in rows.items()]
        if found:
            self.add_linear(self.one(), "1x0e", target, irreps, found, per_species=True, accumulate=True)

    def linear(self, name, source, irreps_in, target, irreps_out, pieces=None, of_elements=False, accumulate=False, factor=1.0):
        """One linear map of the package as a layer. pieces: irreps of the source, if these are finer than those of the map."""
        kind = "element" if of_elements else "plain"
        irreps_in, irreps_out = Irreps(irreps_in), Irreps(irreps_out)
        pieces = Irreps(pieces or irreps_in)
        matrices, biases = self.parts(name, irreps_in, irreps_out, kind)
        split = ((i, j, matrix[self.species] if of_elements else matrix, factor * scale) for (i, j), (matrix, scale) in matrices.items())
        found = split_blocks(self.table, name, split, split_rows(name, irreps_in, pieces))
        own = [] if of_elements else [(j, self.table.add(f"{name}.bias.{j}", bias), factor) for j, bias in biases.items()]
        self.add_linear(source, pieces, target, irreps_out, found, own, per_species=of_elements, accumulate=accumulate)
        if of_elements:
            self.element_biases(name, biases, target, irreps_out, factor)

    # ---- networks of edges

    def radial_basis(self):
        options, prefix = self.config["radial_basis"], "representation.radial_basis"
        if options["radial_basis"] == "gaussian":
            # The package makes the centers from the cutoff of the options.
            centers = np.linspace(0.0, float(self.config["cutoff"]), options["num_radial_basis"])
            width = float(options["gaussian_width"] * centers[1])
            basis = {"kind": "gaussian", "centres": self.table.add("centres", centers), "width": width}
        else:
            numbers = self.state.take(f"{prefix}.radial_fn.bessel_weights", options["num_radial_basis"])
            basis = {
                "kind": "bessel", "wave_numbers": self.table.add("wave_numbers", numbers),
                "prefactor": self.state.number(f"{prefix}.radial_fn.prefactor"),
            }  # fmt: skip
        p = int(self.state.array(f"{prefix}.cutoff_fn.p"))
        basis["cutoff_function"] = {"kind": "polynomial", "p": p}
        if p < 2:
            raise EquiError(f"tensor {prefix}.cutoff_fn.p: {p} gives a cutoff function without a second derivative at 0")
        if not options["apply_cutoff"]:
            basis["apply_cutoff"] = False
        if options["distance_transform"] == "Agnesi":
            name = f"{prefix}.distance_transform"
            numbers = {key: self.state.number(f"{name}.{key}") for key in ("q", "p", "a")}
            basis["transform"] = {"kind": "agnesi", "r0": self.table.add("r0", 0.5 * self.pair_radii(f"{name}.covalent_radii"))} | numbers
        return basis

    def atomic_numbers(self):
        return self.state.array("atomic_numbers").reshape(-1)[self.species]

    def pair_radii(self, name):
        """Sum of the covalent radii of each pair of species."""
        radii = self.numbers(name).astype(np.float64)[self.atomic_numbers()]
        return radii[:, None] + radii[None, :]

    def dense(self, name, kind, widths, norms=None, has_biases=False):
        """[(matrix, scale, bias or None, norm or None, factor of the activation)] of one of the package's networks.

        kind: mlp or mlp_v2. norms: layer_norm, rms_norm or None.
        """
        steps, stride = [], 3 if norms else 2
        for n, (rows, columns) in enumerate(zip(widths, widths[1:])):
            place, is_last = f"{name}.mlp.{n * stride}", n == len(widths) - 2
            matrix = self.state.take(f"{place}.weight", rows, columns)
            bias = self.state.take(f"{place}.bias", columns) if has_biases else None
            gain = sqrt(2) if kind == "mlp" and n > 0 else 1.0
            norm = None
            if norms and not is_last:
                place = f"{name}.mlp.{n * stride + 1}"
                norm = [self.state.take(f"{place}.weight", columns)]
                norm.append(self.state.take(f"{place}.bias", columns) if norms == "layer_norm" else None)
            steps.append([matrix, gain / sqrt(rows), bias, norm, SCALED_SILU if kind == "mlp_v2" else 1.0])
        return steps

    def network_of(self, tag, steps, **more):
        """Steps of `dense` as a network of the format, activated by silu. Factors of activations go into the next scale."""
        weights, scales, biases, norms = [], [], [], []
        factor, doubled = 1.0, False
        for n, (matrix, scale, bias, norm, constant) in enumerate(steps):
            if doubled:
                # Only the first half of the doubled layer goes on.
                matrix = np.concatenate([matrix, np.zeros_like(matrix)])
            doubled = norm is not None and norm[1] is None
            if doubled:
                # The mean of z and -z is zero and their variance is the mean square of z: a norm without centering.
                matrix = np.concatenate([matrix, -matrix], axis=1)
                bias = None if bias is None else np.concatenate([bias, -bias])
                norm = [np.concatenate([norm[0], norm[0]]), np.zeros(2 * len(norm[0]), np.float32)]
            weights.append(self.table.add(f"{tag}.{n}", matrix))
            scales.append(scale * factor)
            biases.append(None if bias is None else self.table.add(f"{tag}.{n}.bias", bias))
            if norm is not None:
                names = {key: self.table.add(f"{tag}.{n}.norm.{key}", array) for key, array in zip(("weight", "bias"), norm)}
                norms.append(names | {"epsilon": RMS_EPSILON if doubled else NORM_EPSILON})
            else:
                norms.append(None)
            factor = constant
        more |= {"norms": norms} if any(norms) else {}
        return network(weights, "silu" if len(weights) > 1 else "identity", 1.0, scales, biases if any(biases) else None, **more)

    def edge_features(self, t):
        """What the networks of edges of layer t read: (width, width of the basis in it, their factor, rows of senders and receivers)."""
        of_basis = self.option("radial_basis.num_radial_basis") if self.option("edge_embedding.type") == "identity" else self.channels
        kind = self.option("edge_update.type")
        if kind == "identity":
            return of_basis, of_basis, 1.0, None
        width, rows = of_basis + 2 * self.channels, []
        for end in ("source", "target"):
            name = f"representation.edge_updates.{t}.{end}_embedding"
            if kind == "element2":
                found, scale = self.flat(name, [(self.count, self.channels)]).reshape(self.count, self.channels), 1 / sqrt(self.count)
                if f"{name}.bias" in self.state:
                    raise EquiError(f"tensor {name}.bias: biases of elements are not part of a TACE model of these options")
            else:
                found, scale = self.state.take(f"{name}.weight", self.count, self.channels), sqrt(width / self.channels)
            rows.append(found[self.species].astype(np.float64) * scale)
        return width, of_basis, sqrt(width / of_basis) if kind == "element2_v2" else 1.0, rows

    def edge_network(self, t, name, tag, hidden, outputs, kind, norms, has_biases, times_cutoff):
        """The radial network `name` of layer t, behind the embedding of edges."""
        width, of_basis, factor, rows = self.edge_features(t)
        steps = self.dense(name, kind, [width, *hidden, outputs], norms, has_biases)
        more = {"times_cutoff": True} if times_cutoff else {}
        first, embedding = steps[0][0], self.option("edge_embedding.type")
        of_radial, others = first[:of_basis], first[of_basis:]
        if factor != 1.0:
            of_radial = factor * of_radial.astype(np.float64)
        if embedding != "identity":
            functions = self.option("radial_basis.num_radial_basis")
            own = self.flat("representation.edge_embedding.radial_proj", [(functions, self.channels)]).reshape(functions, self.channels)
            if embedding == "nonlinear":
                steps.insert(0, [own, 1 / sqrt(functions), None, None, CONSTANTS["silu"]])
            else:
                of_radial = own.astype(np.float64) @ of_radial / sqrt(functions)
        if rows is not None:
            # The package's inputs are those of the receiver and of the sender, in this order.
            steps[0][0] = np.concatenate([of_radial, others[self.channels :], others[: self.channels]])
            for key, array in zip(("sender", "receiver"), rows):
                more[key] = self.once(f"representation.edge_updates.{t}.{key}", array)
        elif embedding == "linear":
            steps[0][0] = of_radial
        return self.network_of(tag, steps, **more)

    def once(self, name, array):
        return name if name in self.table.tensors else self.table.add(name, array)

    def norms_of_networks(self, width):
        """The norm of hidden layers of a network with so many inputs: layer_norm, rms_norm or None."""
        options = self.config["radial_basis"]
        if options["mlp_norm"] is not None:
            return options["mlp_norm"]
        return "layer_norm" if options["mlp_type"] == "mlp" and width != options["num_radial_basis"] else None

    def norm(self, name, kind, source, irs, target):
        """A norm of all blocks together."""
        if len(irs) > MAX_NORMALIZED_BLOCKS:
            raise EquiError(f"{name}: a norm of {len(irs)} irreps is not supported, at most {MAX_NORMALIZED_BLOCKS}")
        scale = self.table.add(f"{name}.scale", self.state.take(f"{name}.affine_weight", len(irs), self.channels))
        centered = kind == "merge_layer_norm" and SCALAR in irs
        bias = {"bias": self.table.add(f"{name}.bias", self.state.take(f"{name}.affine_bias", self.channels))} if centered else {}
        # The file has the weights of the squares, one for each component, in the precision of the training.
        firsts = np.cumsum([0, *(ir.dim for ir in irs)])[:-1]
        balance = self.state.take(f"{name}.balance_degree_weight", 1, sum(ir.dim for ir in irs))[0].astype(np.float64)
        weights = [float(balance[first] / self.channels) for first in firsts]
        groups = [(range(len(irs)), weights, centered)]
        self.add_spherical_norm(source, with_channels(self.channels, irs), target, groups, NORM_EPSILON, scale, **bias)
