# SPDX-License-Identifier: MIT
"""What EquiformerV2 and eSCN of fairchem 1 share: their own heads for forces, the nearest neighbors of an atom, no
envelope, and activations at points in the frames of edges."""

import numpy as np

from ...errors import EquiError
from ...printable import printable
from ..common.layers import added, network
from ..common.sphere_points import component_scales, equal_angle_points
from ..fairchem.checkpoint import expect_fixed, options_with_defaults

# fairchem's, in Angstrom^2: neighbors whose squared distances differ by less are treated alike.
DEGENERACY_TOLERANCE = 0.01
FIXED = {
    "use_pbc": (True, "fairchem then takes any neighbors up to their greatest number"),
    "distance_function": ("gaussian", "no other basis of distances is known"),
}  # fmt: skip
# Training, speed, and graphs that are made elsewhere.
WITHOUT_EFFECT = {"name", "model", "use_pbc_single", "regress_forces", "otf_graph", "activation_checkpoint"}
BUFFERS = (
    "expand_index", "offset", "balance_degree_weight", "to_grid_mat", "from_grid_mat", "l_harmonic", "m_harmonic", "m_complex",
    "res_size", "to_m", "m_size",
)  # fmt: skip
FORCE_BLOCK = "force_block"


def is_kept(name):
    return name.rsplit(".", 1)[-1] not in BUFFERS


def has_forces(state):
    """Whether there are numbers of a head of forces."""
    return any(name.startswith(f"{FORCE_BLOCK}.") for name in state)


def read_options(config, defaults, fixed, without_effect, ignore_keys, where, elsewhere):
    """The options with defaults. A list with one entry for each resolution is replaced by its entry, under the names
    lmax and mmax. elsewhere: unknown keys of other sections."""
    options = options_with_defaults(config, defaults, WITHOUT_EFFECT | without_effect, ignore_keys, where, elsewhere)
    expect_fixed(options, FIXED | fixed)
    for key in ("lmax", "mmax"):
        found = options[f"{key}_list"]
        if not isinstance(found, list) or len(found) != 1:
            raise EquiError(f"{key}_list {printable(str(found), 60)} is not supported, only one resolution")
        options[key] = found[0]
    return options


def check_positive(options, keys):
    for key in keys:
        if type(options[key]) not in (int, float) or not 0 < options[key] < 1e6:
            raise EquiError(f"{key}: expected a positive number, found {printable(str(options[key]), 60)}")


def with_biases(matrices, biases):
    """A network with silu between its matrices; biases: as network() expects them, or None."""
    found = network(matrices, "silu")
    return found if biases is None else found | {"biases": [added(bias) if isinstance(bias, str) else bias for bias in biases]}


class DirectModel:
    """Part of converters: points, the radial basis and the document."""

    architecture = ""
    # Whether functions of all orders are scaled to equal mean squares, and those above mmax also for their omitted
    # components.
    by_component = False

    def points(self, mmax):
        """(names of the matrices to and from points, their number) for functions with |m| up to mmax."""
        lmax, both = self.lmax, self.options["resolution"]
        latitudes = both or 2 * (lmax + 1)
        longitudes = both or (2 * (mmax + 1) + 1 if mmax == lmax else 2 * mmax + 1)
        names = [f"points.{mmax}.{key}" for key in ("to", "from")]
        if names[0] not in self.table.tensors:
            values, weights = equal_angle_points(lmax, latitudes, longitudes, mmax)
            rescale, norm = component_scales(lmax, mmax) if self.by_component else (1.0, np.sqrt(4.0 * np.pi))
            self.table.add(names[0], values * rescale / norm)
            self.table.add(names[1], weights[:, None] * values * rescale * norm)
        return *names, latitudes * longitudes

    def at_points(self):
        to, back, count = self.points(self.mmax)
        return {"points": count, "to": to, "from": back, "activation": "silu"}

    def network_at_points(self, source, irreps_in, target, irreps_out, matrices, to=None, back=None, points=None, biases=None):
        """Dense layers with silu between them at points, by default those of functions with all m."""
        names = self.points(self.lmax) if to is None else (to, back, points)
        self.add("grid_network", source, irreps_in, target, irreps_out, points=names[2], to=names[0], **{"from": back or names[1]},
                 network=with_biases(matrices, biases))  # fmt: skip

    def sum_of_energies(self, source, irreps, matrices, biases, scale, extra=0.0):
        """A network of the scalars, times `scale`; extra: for each element, scaled as fairchem scales energies."""
        (task,) = self.tasks.values()
        self.add_readout(source, irreps, 0, with_biases(matrices, biases))
        ones = np.ones(len(self.elements))
        shift = task.rmsd * extra * ones + (0.0 if task.references is None else task.references[self.numbers])
        self.add_scale_shift(self.table.add("scale", task.rmsd * scale * ones), self.table.add("shift", shift))

    def direct_forces(self, source):
        """Scales the vectors of a feature, which fairchem normalizes."""
        self.add_layer("direct_forces", input=source, irreps_in="1x1e", block=0, scale=self.checkpoint.forces_rmsd)

    def gaussians(self):
        centers = np.linspace(0.0, self.checkpoint.cutoff, self.options["num_distance_basis"])
        return {
            "kind": "gaussian", "centres": self.table.add("distance_expansion.offset", centers),
            "width": self.options["width_in_spacings"] * float(centers[1] - centers[0]), "cutoff_function": {"kind": "none"},
            "apply_cutoff": False,
        }  # fmt: skip

    def body(self):
        self.state.finish()
        nearest = {"count": self.options["max_neighbors"]}
        if not self.options["enforce_max_neighbors_strictly"]:
            nearest["tolerance"] = DEGENERACY_TOLERANCE
        return self.finished(self.architecture, self.checkpoint.cutoff, self.lmax, False, self.gaussians(), nearest_neighbors=nearest)
