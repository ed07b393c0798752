# SPDX-License-Identifier: MIT
"""Allegro models -> document and tensors of an .equi file (doc/model_file.rst): one layer local_network, whose steps
are those of the model. The features of its edges get numbers in the order in which they are made."""

from math import sqrt

import numpy as np

from ...irreps import Irreps
from ..common.layers import irreps_text
from .allegro_model import SPLINE
from .converter import Converter


class AllegroConverter(Converter):
    def __init__(self, checkpoint, elements):
        super().__init__(checkpoint, elements)
        self.allegro = self.stages["allegro"]
        self.edge = self.harmonics()
        self.scalars, self.mul = (checkpoint.config[f"num_{kind}_features"] for kind in ("scalar", "tensor"))
        self.features, self.steps = [], []

    def harmonics(self):
        return Irreps(self.stages["tensor_embed"].sh.irreps_out)

    @property
    def is_spline(self):
        return self.checkpoint.config["radial_chemical_embed"]["_target_"] == SPLINE

    def feature(self, irreps):
        """The number of a new feature."""
        self.features.append(irreps_text(irreps))
        return len(self.features) - 1

    def channels(self, irreps):
        """Irreps of the tensors of edges, of multiplicity 1, with the channels of the model."""
        return Irreps((self.mul, ir) for _, ir in irreps)

    def step(self, kind, irreps, **fields):
        """A step that makes a feature, whose number is returned."""
        output = self.feature(irreps)
        self.steps.append({"step": kind, "output": output, **fields})
        return output

    def dense(self, name, mlp, inputs, widths, columns=None):
        """inputs: (feature, block) of scalars. widths: of the blocks of the output."""
        blocks = [(width, (0, 1)) for width in widths]
        return self.step("dense", Irreps(blocks), inputs=[list(i) for i in inputs], network=self.network(name, mlp, columns))

    def weight_columns(self, is_individual):
        """Columns of weights of harmonics in the order of irreps, then channels; allegro's are in the opposite order."""
        kinds = len(self.edge) if is_individual else 1
        return [u * kinds + k for k in range(kinds) for u in range(self.mul)]

    def tensor(self, source, block, is_individual):
        return self.step("tensor", self.channels(self.edge), input=[source, block], shared=not is_individual)

    def radial_basis(self):
        embedding = self.checkpoint.config["radial_chemical_embed"]
        if self.is_spline:
            # These functions vanish at the cutoff by themselves.
            basis = {"kind": "cosine_bump", "size": embedding["num_splines"], "span": embedding["spline_span"]}
            return basis | {"cutoff_function": {"kind": "none"}} | self.own_cutoffs()
        module = self.stages["radial_chemical_embed"].bessel_encode
        return self.bessel("radial_chemical_embed.bessel_encode", module, 1.0) | self.own_cutoffs()

    def two_body_scalars(self):
        name, types = "radial_chemical_embed", len(self.checkpoint.type_names)
        if self.is_spline:
            name = f"{name}.spline.class_embed.weight"
            splines = self.checkpoint.config["radial_chemical_embed"]["num_splines"]
            weights = self.state[name].reshape(types, types, -1, splines)[np.ix_(self.species, self.species)]
            table = self.table.add(name, weights.transpose(0, 1, 3, 2))
            return self.step("scalars", f"{weights.shape[2]}x0e", pair_weights=table, scale=1.0)
        linear = self.network(f"{name}.type_embed.basis_linear", self.stages[name].type_embed.basis_linear)
        rows = {}
        for key, kind in (("receiver", "center"), ("sender", "neighbor")):
            tensor = f"{name}.type_embed.{kind}_embed.weight"
            rows[key] = self.table.add(tensor, self.state[tensor][self.species])
        dim = self.state[f"{name}.type_embed.basis_linear.mlp.0.weight"].shape[1]
        return self.step("scalars", f"{dim}x0e", weights=linear["weights"][0], scale=linear["scales"][0], **rows)

    def by_species(self, name, factor=1.0):
        """1/sqrt(number of neighbors) times a factor: a number, or the name of a tensor of the species of the receiver."""
        norms = factor * self.state[f"{name}.norm_const"].reshape(-1).astype(np.float64)
        return float(norms[0]) if norms.size == 1 else self.table.add(f"{name}.norm_const", norms[self.species])

    def product(self, t, source, environment):
        module, name = self.allegro.tps.submodules[str(t)], f"allegro.tps.{t}.weights"
        weights = self.state[name].reshape(self.mul if module.path_channel_coupling else 1, len(module.paths))
        irreps = Irreps(module.irreps_out)
        paths = [
            {
                "input": i, "environment": j, "output": k, "scale": sign * sqrt(irreps[k].ir.dim),
                "weights": self.table.add(f"{name}.{p}", weights[:, p]),
            }
            for p, ((i, j, k), sign) in enumerate(zip(module.paths, self.checkpoint.path_signs[t]))
        ]  # fmt: skip
        return self.step("product", self.channels(irreps), input=source, environment=environment, paths=paths)

    def document(self):
        radial_basis, embed = self.radial_basis(), self.stages["tensor_embed"]
        latents, weighter = list(self.allegro.latents), self.allegro._env_weighter
        of_weights = self.weight_columns(weighter.weight_individual_irreps)
        columns = [*range(self.scalars), *(self.scalars + c for c in of_weights)]
        widths = [self.scalars, len(of_weights)]
        scale = self.by_species("allegro.avg_num_neighbors_norm")

        two_body = self.two_body_scalars()
        name = "scalar_embed_mlp.mlp_module"
        two_body = self.dense(name, self.stages["scalar_embed_mlp"].mlp_module, [(two_body, 0)], [self.scalars])
        name, first = "tensor_embed.env_embed_linear", self.weight_columns(True)
        x = self.tensor(self.dense(name, embed.env_embed_linear, [(two_body, 0)], [len(first)], first), 0, True)
        name = "allegro.first_layer_env_embed_projection"
        q = self.dense(name, self.allegro.first_layer_env_embed_projection, [(two_body, 0)], widths, columns)
        collected = [(q, 0)]
        for t, latent in enumerate(latents):
            weighted = self.tensor(q, 1, weighter.weight_individual_irreps)
            environment = self.step("sum", self.channels(self.edge), input=weighted, scale=scale)
            x = self.product(t, x, environment)
            is_last = t + 1 == len(latents)
            inputs, name = [*collected, (x, 0)], f"allegro.latents.{t}"
            q = self.dense(name, latent, inputs, widths[:1] if is_last else widths, None if is_last else columns)
            collected.append((q, 0))
        energies = self.network("edge_readout.mlp_module", self.stages["edge_readout"].mlp_module)
        factor = self.by_species("edge_eng_sum.norm_module", 1 / sqrt(2))
        self.steps.append({"step": "readout", "inputs": [list(i) for i in collected], "network": energies, "scale": factor})
        self.add_layer("local_network", features=self.features, steps=self.steps)
        return self.with_atoms("Allegro", self.edge, radial_basis)
