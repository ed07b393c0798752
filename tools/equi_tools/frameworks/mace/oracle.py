# SPDX-License-Identifier: MIT
"""MACE's own modules as ASE calculators: the accuracy oracle of tests and of `equi compare`."""

import contextlib
import os
import warnings

import numpy as np
from ase.calculators.calculator import all_changes

from ... import symmetric_basis
from ...coupling import coupling
from ...errors import EquiError
from ..common.e3nn_layers import sign_of_coupling
from ..common.oracle import Oracle, default_dtype, importing, loaded, quiet
from . import checkpoint as mace_checkpoint
from . import dipoles, polar
from . import inputs as system_inputs


def import_mace():
    """The package, with its import noise silenced."""
    import io
    import logging

    # e3nn 0.4.4 reads its tables with torch.load, whose former default could read any object.
    os.environ.setdefault("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    logging.getLogger("torch.distributed").setLevel(logging.ERROR)
    need = "MACE's own results need the package mace-torch: pip install mace-torch"
    with importing(need), contextlib.redirect_stdout(io.StringIO()):
        import mace
        import mace.modules
    return mace


def modules_of(checkpoint):
    """mace's own modules, or their TorchScript, read by torch: this runs the code of the file. Each call returns new
    ones."""
    import_mace()
    import torch

    if checkpoint.model.class_name == polar.CLASS:
        with importing("PolarMACE needs a version of graph-longrange that fits mace: pip install graph-longrange==0.4.0"):
            import graph_longrange  # noqa: F401
    with quiet():
        try:
            if checkpoint.model.is_script:
                model = torch.jit.load(str(checkpoint.path), map_location="cpu")
                return model.model if checkpoint.fixed_head is not None else model
            return torch.load(checkpoint.path, map_location="cpu", weights_only=False)
        except Exception as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise EquiError(f"{checkpoint.source}: torch cannot read it: {first}") from error


def _make_exact(model, checkpoint, precision):
    """Replaces couplings that the file holds rounded; those of a float64 file stay unchanged.

    precision: the name of the file's dtype of each buffer.
    """
    import re

    import torch

    for name, buffer in model.named_buffers():
        coupled = re.search(r"_w3j_(\d+)_(\d+)_(\d+)$", name)
        contracted = re.search(r"products\.(\d+)\..*contractions\.(\d+)\.U_matrix_(\d+)$", name)
        exact = None
        if coupled:
            ls = [int(l) for l in coupled.groups()]
            exact = sign_of_coupling(buffer.numpy(), *ls, name, precision[name]) * coupling(*ls)
            if np.abs(exact - buffer.numpy()).max() < mace_checkpoint.EXACT:
                exact = None
        elif contracted:
            found = checkpoint.couplings.get(tuple(int(n) for n in contracted.groups()))
            if found is not None and found.rounded:
                exact = symmetric_basis.expand(found.matrix, found.irreps, found.out, found.degree)
        elif name == "change_of_basis":
            exact = dipoles.tensor_basis()
        if exact is not None:
            with torch.no_grad():
                buffer.copy_(torch.from_numpy(np.ascontiguousarray(exact)).reshape(buffer.shape))


def _differentiable_chebyshev(model, checkpoint):
    """torch has no derivative of its Chebyshev polynomials; this evaluates the same polynomials by their recurrence.
    Those of TorchScript cannot be replaced."""
    import types

    import torch

    if checkpoint.model.radial_embedding.bessel_fn.class_name != "ChebychevBasis":
        return
    if checkpoint.model.is_script:
        raise EquiError(
            f"{checkpoint.source}: the forces of this TorchScript are not the derivatives of its energy, because torch does not "
            "differentiate its Chebyshev polynomials: compare with the .model file it was made from"
        )
    basis = model.radial_embedding.bessel_fn

    def forward(self, x):
        polynomials = [torch.ones_like(x), x]
        while len(polynomials) <= self.num_basis:
            polynomials.append(2 * x * polynomials[-1] - polynomials[-2])
        return torch.cat(polynomials[1:], dim=-1)

    basis.forward = types.MethodType(forward, basis)


class Float64Calculator(Oracle):
    """The framework's modules in float64 with exact coupling coefficients, on a neighbor list of ASE."""

    def __init__(self, checkpoint, head=None):
        super().__init__()
        self.head = checkpoint.head_index(head)
        self.elements = checkpoint.elements
        self.cutoff = checkpoint.cutoff
        self.values = _values(checkpoint)
        self.has_energy = checkpoint.model.class_name not in ("AtomicDipolesMACE", "AtomicDielectricMACE")
        self.observed = {}  # mace's charges, dipoles and polarizabilities of the last structure, in its units
        self.is_latent = checkpoint.latent is not None
        self.is_polar = checkpoint.model.class_name == polar.CLASS
        self.field = np.zeros(3)  # V/A, which acts on the charges of a PolarMACE
        with quiet():
            model = modules_of(checkpoint)
            precision = {name: str(buffer.dtype).removeprefix("torch.") for name, buffer in model.named_buffers()}
            model = model.double().eval()
        for parameter in model.parameters():
            parameter.requires_grad = False
        _make_exact(model, checkpoint, precision)
        _differentiable_chebyshev(model, checkpoint)
        if self.is_polar:
            _make_bases_exact(model)
        self.model = model

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        import torch
        from ase.neighborlist import neighbor_list

        atoms = self.atoms
        n = len(atoms)
        receiver, sender, shift = neighbor_list("ijS", atoms, self.cutoff)
        species = torch.tensor([self.elements.index(s) for s in atoms.get_chemical_symbols()])
        double = torch.float64
        # mace's vectors point from sender to receiver: r_i - (r_j + S).
        data = {
            "positions": torch.tensor(atoms.positions, dtype=double),
            "cell": torch.tensor(atoms.cell.array, dtype=double),
            "edge_index": torch.tensor(np.array([sender, receiver]), dtype=torch.long),
            "unit_shifts": torch.tensor(-shift, dtype=double),
            "shifts": torch.tensor(-shift @ atoms.cell.array, dtype=double),
            "node_attrs": torch.nn.functional.one_hot(species, len(self.elements)).to(double),
            "batch": torch.zeros(n, dtype=torch.long),
            "ptr": torch.tensor([0, n]),
            "head": torch.tensor([self.head]),
            "charges": torch.zeros(n, dtype=double),  # as mace's own calculator has them
            "pbc": torch.tensor(atoms.pbc).unsqueeze(0),
        }
        data |= {name: torch.tensor([value], dtype=double) for name, value in self.values.items()}
        with default_dtype(double), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.is_latent:
                return self.calculate_latent(data)
            if self.is_polar:
                return self.calculate_polar(data)
            out = self.model(data, compute_force=self.has_energy, compute_virials=self.has_energy)
            self.observed = {
                name: out[name].detach().numpy()
                for name in ("charges", "dipole", "atomic_dipoles", "polarizability")
                if out.get(name) is not None
            }
            if not self.has_energy:
                return self.set_results(0.0, np.zeros((n, 3)), np.zeros(n), virial=np.zeros((3, 3)))
            energies = out["node_energy"].detach().numpy() + self.energies_of_inputs(data)
        # mace's virials are minus dE/dstrain; mace's own stress is that of a cell which is enlarged in directions
        # without periodicity.
        virial = -out["virials"].detach().numpy().reshape(3, 3)
        self.set_results(out["energy"].item(), out["forces"].detach().numpy(), energies, virial=virial)

    def energies_of_inputs(self, data):
        """The energies of atoms that the model reads from its inputs, which mace's own energies of atoms lack."""
        if not hasattr(self.model, "embedding_readout"):
            return 0.0
        import torch

        heads = data["head"][data["batch"]]
        features = self.model.node_embedding(data["node_attrs"])
        features = features + self.model.joint_embedding(data["batch"], {name: data[name] for name in self.values})
        found = self.model.embedding_readout(features, heads)
        return found[torch.arange(len(heads)), heads].detach().numpy()

    def calculate_latent(self, data):
        """mace's stress of a MACELES lacks what the latent energy depends on the cell itself, and its energies of atoms
        lack that energy. Here the stress is the derivative by a strain of positions and cell, and an atom has half of
        its charge times the derivative by it."""
        import torch

        out = self.model(data, compute_force=True, training=True)
        energy, charges = out["les_energy"].sum(), out["latent_charges"]
        self.observed = {"charges": charges.detach().numpy().reshape(-1)}
        (potential,) = torch.autograd.grad(energy, charges, retain_graph=True, allow_unused=True)
        energies = out["node_energy"].detach() + (0.0 if potential is None else 0.5 * (charges * potential).detach())
        virial = self.derivative_by_strain(data)
        self.set_results(out["energy"].item(), out["forces"].detach().numpy(), energies.numpy() + self.energies_of_inputs(data), virial=virial)

    def derivative_by_strain(self, data):
        """[3, 3], or None for a structure that is not periodic in three directions. A difference would jump where a wave
        vector crosses the sphere of the sum."""
        import torch

        if not all(self.atoms.pbc):
            return None
        strain = torch.eye(3, dtype=torch.float64, requires_grad=True)
        moved = {key: data[key].detach() @ strain.T for key in ("positions", "cell", "shifts")}
        energy = self.model(data | moved, compute_force=False)["energy"].sum()
        (virial,) = torch.autograd.grad(energy, strain)
        return 0.5 * (virial + virial.T).numpy()

    def virial_by_strain(self, data):
        """[3, 3], or None for a structure that is not periodic in three directions."""
        import torch

        if not all(self.atoms.pbc):
            return None
        virial = np.zeros((3, 3))
        for a, b in [(a, b) for a in range(3) for b in range(3)]:

            def at(step):
                strain = torch.eye(3, dtype=torch.float64)
                strain[a, b] += step
                moved = {key: data[key] @ strain.T for key in ("positions", "cell", "shifts")}
                return self.model(self.with_cell(data | moved), compute_force=False)["energy"].item()

            h = 5e-4
            virial[a, b] = (8 * (at(h / 2) - at(-h / 2)) - (at(h) - at(-h))) / (6 * h)
        return 0.5 * (virial + virial.T)

    def with_cell(self, data):
        """data with what PolarMACE reads of the cell."""
        import torch

        if not self.is_polar:
            return data
        # An open system has no wave vectors. mace itself makes those of a large cell and does not use them.
        cell = data["cell"].reshape(3, 3) if any(self.atoms.pbc) else torch.eye(3, dtype=torch.float64)
        data = data | {"cell": cell}
        return data | {"rcell": 2 * np.pi * torch.linalg.inv(cell).T, "volume": torch.abs(torch.linalg.det(cell)).reshape(1)}

    def calculate_polar(self, data):
        """mace's stress of a PolarMACE lacks what the charges' energy depends on the cell itself, and its energies of
        atoms lack the charges' energies."""
        import torch

        boundary = tuple(self.atoms.pbc)
        if boundary not in ((True, True, True), (True, True, False), (False, False, False)):
            raise EquiError("PolarMACE: only structures with three periodic directions, with the first two, or with none are supported")
        # mace's field is minus the physical one. The dipole of a slab has its origin at the mean height, and the cell is
        # that of the atoms: mace 0.3.16 makes another one, which depends on the coordinates' origin.
        field = torch.tensor(-np.asarray(self.field, float)).reshape(1, 3)
        more = {"fermi_level": torch.zeros(1, dtype=torch.float64), "external_field": field}
        is_slab = boundary == (True, True, False)
        center = self.atoms.positions.mean(0) * (0.0, 0.0, float(is_slab))
        more["positions"] = data["positions"] - torch.tensor(center)
        data = self.with_cell(data | more)
        out = self.model(data, compute_force=True)
        dipoles = out["density_coefficients"].detach().numpy()[:, 1:4]
        self.observed = {name: out[name].detach().numpy() for name in ("charges", "spins", "dipole")}
        if dipoles.shape[1]:
            self.observed["atomic_dipoles"] = dipoles[:, [2, 0, 1]]  # mace has y, z, x
        self.observed["dipole"] = self.observed["dipole"].reshape(3) + self.observed["charges"].sum() * center
        virial = None
        if all(boundary):
            with _frozen_waves(data["cell"]):
                virial = self.virial_by_strain(data)
        energy, forces = out["energy"].item(), out["forces"].detach().numpy()
        if is_slab:  # the center depends on the positions
            pull = self.observed["charges"].sum() * self.field[2]
            energy -= pull * center[2]
            forces[:, 2] += (pull - forces[:, 2].sum()) / len(forces)
        self.set_results(energy, forces, virial=virial)


@contextlib.contextmanager
def _frozen_waves(cell):
    """Inside this context PolarMACE keeps the integers of the wave vectors of this cell: otherwise some would enter or
    leave the sphere as it is strained, and the energy would jump."""
    import torch
    from mace.modules import extensions

    original = extensions.compute_k_vectors_flat

    def frozen(cutoff, strained, rcell):
        first = cell.reshape(1, 3, 3)
        vectors, _, batch, mask = original(cutoff, first, 2 * np.pi * torch.linalg.inv(first).transpose(1, 2))
        vectors = torch.round(vectors @ first[0].T / (2 * np.pi)) @ rcell.reshape(3, 3)
        return vectors, (vectors**2).sum(1), batch, mask

    extensions.compute_k_vectors_flat = frozen
    try:
        yield
    finally:
        extensions.compute_k_vectors_flat = original


def _make_bases_exact(model):
    """Replaces constants of the Gaussian functions of charges and potentials that the file holds rounded."""
    import torch
    from graph_longrange.gto_utils import DisplacedGTOExternalFieldBlock, GTOBasis, GTOInternalFieldtoFeaturesBlock
    from graph_longrange.realspace_electrostatics import (
        RealSpaceFiniteDiffereneEnergy,
        RealSpaceFiniteDifferenceElectrostaticFeatures,
    )

    descriptor = model.electric_potential_descriptor
    multipoles = [model.atomic_multipoles_smearing_width], model.atomic_multipoles_max_l, "multipoles"
    fields = list(model.field_feature_widths), model.field_feature_max_l, "receiver"
    with default_dtype(torch.float64):
        for module, name, (widths, degree, normalize) in (
            (descriptor, "density_basis", multipoles), (descriptor, "feature_basis", fields), (model.coulomb_energy, "density_basis", multipoles)
        ):  # fmt: skip
            setattr(module, name, GTOBasis(max_l=degree, sigmas=widths, kspace_cutoff=module.kspace_cutoff, normalize=normalize))
        width, degree = model.atomic_multipoles_smearing_width, model.atomic_multipoles_max_l
        open_features = RealSpaceFiniteDifferenceElectrostaticFeatures(degree, width, model.field_feature_max_l, list(model.field_feature_widths))
        of_fields = model.field_feature_max_l, list(model.field_feature_widths), "receiver"
        for module, exact in (
            (descriptor.realspace_features, open_features),
            (model.coulomb_energy.realspace_energy, RealSpaceFiniteDiffereneEnergy(degree, width)),
            (model.external_field_contribution, DisplacedGTOExternalFieldBlock(*of_fields)),
            (descriptor.non_periodic_correction_terms.displaced_interactions, GTOInternalFieldtoFeaturesBlock(*of_fields)),
        ):
            for name, buffer in exact.named_buffers(recurse=False):
                getattr(module, name).copy_(buffer)


def _values(checkpoint):
    """The numbers of the whole system by name."""
    return system_inputs.usual_values(checkpoint.inputs) if checkpoint.values is None else checkpoint.values


def float64_calculator(source, head=None):
    """ASE calculator of a source (file or loaded Checkpoint) in float64 with exact coupling coefficients."""
    return Float64Calculator(loaded(source, mace_checkpoint.load), head)


def framework_calculator(source, head=None):
    """mace's own calculator in the dtype of the file, as its users run it."""
    import_mace()
    from mace.calculators import MACECalculator

    checkpoint = loaded(source, mace_checkpoint.load)
    if checkpoint.model.is_script:
        raise EquiError(f"{checkpoint.source}: mace's calculator does not read TorchScript: give the .model file")
    values = _values(checkpoint)

    class Calculator(MACECalculator):
        """Takes the numbers of the whole system from the conversion, not from the atoms."""

        def calculate(self, atoms=None, *arguments, **options):
            atoms = (self.atoms if atoms is None else atoms).copy()
            atoms.info.update(values)
            # In open systems graph-longrange has arrays of this type.
            with default_dtype(next(self.models[0].parameters()).dtype):
                super().calculate(atoms, *arguments, **options)

    options = {"info_keys": {name: name for name in values}} if values else {}
    if checkpoint.model.class_name == polar.CLASS:
        options["model_type"] = polar.CLASS
    kind = Calculator if values else MACECalculator
    with quiet():
        return kind(models=[modules_of(checkpoint)], device="cpu", head=checkpoint.heads[checkpoint.head_index(head)], **options)
