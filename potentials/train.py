#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a small potential for any material on structures of label.py, and writes an .equi file.

    python train.py nacl.equi --family mace --data crystal.xyz melt.xyz --held-out held-out.xyz
    python train.py nacl.equi --family nequip --data crystal.xyz --pool melt.xyz --rounds 2 --add 40 --held-out held-out.xyz

The families are those of mace-torch, nequip, nequip-allegro, sevenn and matgl (tensornet); each runs in the Python environment of its
framework, with torch.ops.equi for the convolutions (doc/training.rst) in all but Allegro and TensorNet, which have none.

With --latent-charges a MACE model learns charges of atoms from energies and forces alone (MACELES).

All models have mirror symmetry, except with --no-parity. SevenNet's features of order l then have the parity of l.

With --pool a committee of two selects: two models with different random numbers learn from the data for a few epochs,
and the structures of the pool on whose forces they disagree most join the data. After the last round the first of the two
learns from all of them. Each epoch is kept in OUTPUT.checkpoint, and --resume continues from it, also with more data than
before. The last lines are the errors on the held-out data by the kinds that label.py names, as a table.
"""

import argparse
import math
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import torch
from ase.data import atomic_numbers, chemical_symbols
from ase.neighborlist import neighbor_list
from start import check_folder_of, structures_in

GPA = 160.21766  # of one eV/Angstrom^3
# Weights of the mean squares of energies (eV/atom), forces (eV/Angstrom) and virials (eV/atom).
WEIGHTS = (100.0, 10.0, 10.0)
# Weight of the mean square difference of latent charges from those of --latent-charges, 1/e^2. The potential at ions is several
# volts, so charges that vary by some percent make forces of eV/Angstrom: without a weight a training gives charges up.
CHARGE_WEIGHT = 1000.0
# The lowest rate of the schedule over the highest.
LAST_RATE = 1e-3


class Family:
    """What a model adds to the steps of all families."""

    def begin(self, graphs):
        """Before the first epoch of a training."""

    def own_loss(self):
        """What joins the loss of the batch that came last."""
        return 0.0

    def finish(self, graphs):
        """After the last epoch."""

    def options_of_convert(self):
        return []


class Mace(Family):
    suffix, dtype, has_convolutions = ".model", torch.float32, True

    def __init__(self, words, elements, statistics):
        # e3nn 0.4 reads a file of its own in a way that newer torch refuses by default.
        os.environ.setdefault("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
        from e3nn import o3
        from mace import modules

        hidden = o3.Irreps([(words.channels, (l, (-1) ** l)) for l in range(words.lmax + 1)])
        block = modules.interaction_classes["RealAgnosticResidualInteractionBlock"]
        self.elements, self.n_elements = elements, len(elements)
        self.model = self.make(words, dict(
            r_max=words.cutoff, num_bessel=8, num_polynomial_cutoff=5, max_ell=words.edge_lmax, num_interactions=words.layers,
            correlation=words.correlation, interaction_cls_first=block, interaction_cls=block, num_elements=len(elements),
            atomic_numbers=[atomic_numbers[e] for e in elements], hidden_irreps=hidden, MLP_irreps=o3.Irreps("16x0e"),
            radial_MLP=[words.width] * 2, gate=torch.nn.functional.silu, atomic_energies=np.array(statistics["energies"]),
            avg_num_neighbors=statistics["neighbors"], atomic_inter_scale=statistics["force"], atomic_inter_shift=0.0,
        ))  # fmt: skip

    def make(self, words, options):
        from mace import modules

        return modules.ScaleShiftMACE(**options)

    def data_of(self, graph):
        return {
            "positions": graph["positions"].clone(),
            "cell": graph["cell"].reshape(-1, 3),
            "edge_index": graph["edges"],
            "unit_shifts": graph["shifts"],
            "shifts": (graph["shifts"][:, None] @ graph["cell"][graph["batch"][graph["edges"][0]]])[:, 0],
            "node_attrs": torch.nn.functional.one_hot(graph["species"], self.n_elements).to(self.dtype),
            "batch": graph["batch"],
            "ptr": torch.nn.functional.pad(torch.cumsum(graph["n"], 0), (1, 0)),
            "head": torch.zeros(len(graph["n"]), dtype=torch.long),
        }

    def __call__(self, graph):
        out = self.model(self.data_of(graph), training=self.model.training, compute_force=True, compute_stress=True)
        return out["energy"], out["forces"], out["stress"]

    def save(self, path):
        torch.save(self.model, path)


class MaceWithCharges(Mace):
    """MACELES: atoms have charges, and these a Coulomb energy of all images (doc/latent_ewald.rst)."""

    def make(self, words, options):
        import latent_ewald

        latent_ewald.install()
        from mace.modules.extensions import MACELES

        self.words = words
        return MACELES(les_arguments={"spread": words.charge_width, "grid": words.charge_grid}, **options)

    def data_of(self, graph):
        return {**super().data_of(graph), "pbc": torch.ones(len(graph["n"]), 3, dtype=torch.bool)}

    def __call__(self, graph):
        out = self.model(self.data_of(graph), training=self.model.training, compute_force=True, compute_stress=True)
        self.deviations = out["latent_charges"] - self.stated(graph["species"])
        # mace's stress lacks the derivative of the sum over wave vectors by the cell.
        strain = torch.zeros_like(graph["cell"], requires_grad=True)
        moved = torch.eye(3, dtype=self.dtype) + strain
        energy = self.model.les(
            latent_charges=out["latent_charges"], positions=(graph["positions"][:, None] @ moved[graph["batch"]])[:, 0],
            cell=graph["cell"] @ moved, batch=graph["batch"],
        )["E_lr"]  # fmt: skip
        (gradient,) = torch.autograd.grad(energy.sum(), strain, create_graph=self.model.training)
        return out["energy"], out["forces"], out["stress"] + gradient / torch.linalg.det(graph["cell"]).abs()[:, None, None]

    def stated(self, species):
        return torch.tensor([self.words.latent_charges[element] for element in self.elements])[species]

    def charges(self, graph):
        return self.model(self.data_of(graph), compute_force=False)["latent_charges"]

    def begin(self, graphs):
        """Lets the charges begin where --latent-charges says: they enter energies squared, so small ones hardly learn."""
        batch = batch_of(graphs[:4])
        wanted = self.stated(batch["species"])
        optimizer = torch.optim.Adam(self.model.les_readouts.parameters(), lr=0.05)
        for _ in range(150):
            optimizer.zero_grad()
            (self.charges(batch) - wanted).square().mean().backward()
            optimizer.step()
        # The energies of the elements are those of what the charges leave.
        counts = np.array([np.bincount(graph["species"], minlength=self.n_elements) for graph in graphs])
        rest = [float(graph["energy"] - self.model.les.energy(self.stated(graph["species"]), graph["positions"], graph["cell"][0])) for graph in graphs]
        energies = torch.tensor(np.linalg.lstsq(counts, np.array(rest), rcond=1e-8)[0], dtype=self.dtype)
        buffer = self.model.atomic_energies_fn.atomic_energies
        buffer.copy_(energies.reshape(buffer.shape))

    def own_loss(self):
        return CHARGE_WEIGHT * self.deviations.square().mean()

    def finish(self, graphs):
        charges = [(graph["species"], self.charges(batch_of([graph])).detach()) for graph in graphs]
        mean = lambda k: torch.cat([q[species == k] for species, q in charges]).mean()
        print("charges, e: " + ", ".join(f"{element} {mean(k):.3f}" for k, element in enumerate(self.elements)))

    def options_of_convert(self):
        return ["--les-sigma", str(self.words.charge_width), "--les-dl", str(self.words.charge_grid)]


class NequIP(Family):
    # The type is that of positions and energies; the network's own is float32.
    suffix, dtype, has_convolutions = ".nequip.pth", torch.float64, True

    def __init__(self, words, elements, statistics):
        from nequip.model import NequIPGNNModel
        from nequip.utils.global_state import set_global_state

        set_global_state()
        self.model = NequIPGNNModel(
            seed=words.seed, model_dtype="float32", type_names=elements, r_max=words.cutoff, num_layers=words.layers,
            l_max=words.lmax, parity=not words.no_parity, num_features=words.channels, num_bessels=8, polynomial_cutoff_p=6,
            radial_mlp_depth=1, radial_mlp_width=words.width, avg_num_neighbors=statistics["neighbors"],
            per_type_energy_scales=statistics["force"], per_type_energy_shifts=dict(zip(elements, statistics["energies"])),
        )  # fmt: skip

    def __call__(self, graph):
        data = {
            "pos": graph["positions"].clone(),
            "cell": graph["cell"].clone(),
            "edge_index": graph["edges"],
            "edge_cell_shift": graph["shifts"],
            "atom_types": graph["species"],
            "batch": graph["batch"],
            "num_atoms": graph["n"],
        }
        out = self.model(data)
        return out["total_energy"].reshape(-1), out["forces"], out["stress"]

    def save(self, path):
        from nequip.model.inference_models.torchscript import save_torchscript_model

        save_torchscript_model(self.model, {**self.model.metadata, "allow_tf32": "0"}, path, "cpu")


class Allegro(NequIP):
    has_convolutions = False

    def __init__(self, words, elements, statistics):
        from allegro.model import AllegroModel
        from nequip.utils.global_state import set_global_state

        set_global_state()
        kinds = ("scalar_embed", "allegro", "readout")
        networks = {f"{kind}_mlp_hidden_layers_{key}": value for kind in kinds for key, value in (("depth", 1), ("width", 2 * words.width))}
        embedding = {"_target_": "allegro.nn.TwoBodyBesselScalarEmbed", "num_bessels": 8, "polynomial_cutoff_p": 6}
        self.model = AllegroModel(
            seed=words.seed, model_dtype="float32", type_names=elements, r_max=words.cutoff, num_layers=words.layers,
            l_max=words.lmax, parity=not words.no_parity, num_scalar_features=2 * words.width, num_tensor_features=words.channels,
            radial_chemical_embed=embedding, radial_chemical_embed_dim=2 * words.width, **networks,
            avg_num_neighbors=statistics["neighbors"], per_type_energy_scales=statistics["force"],
            per_type_energy_shifts=dict(zip(elements, statistics["energies"])),
        )  # fmt: skip


def natural_parity(words):
    """Irreps of SevenNet's features, from the embedding to the last layer: order l has the parity of l."""
    features = "+".join(f"{words.channels}x{l}{'eo'[l % 2]}" for l in range(words.lmax + 1))
    return [f"{words.channels}x0e"] + [features] * (words.layers - 1) + [f"{words.channels}x0e"]


class SevenNet(Family):
    suffix, dtype, has_convolutions = ".pth", torch.float32, True

    def __init__(self, words, elements, statistics):
        from sevenn._const import model_defaults
        from sevenn.model_build import build_E3_equivariant_model

        numbers = sorted(atomic_numbers[e] for e in elements)
        energy_of = {atomic_numbers[e]: energy for e, energy in zip(elements, statistics["energies"])}
        self.numbers = torch.tensor([atomic_numbers[e] for e in elements])
        self.config = {
            **model_defaults({}),
            "version": "0.13.0",
            "_model_type": "E3_equivariant_model",
            "cutoff": words.cutoff,
            "channel": words.channels,
            "lmax": words.lmax,
            "is_parity": not words.no_parity,
            "irreps_manual": False if words.no_parity else natural_parity(words),
            "num_convolution_layer": words.layers,
            "weight_nn_hidden_neurons": [words.width] * 2,
            "self_connection_type": "linear",
            "radial_basis": {"radial_basis_name": "bessel", "bessel_basis_num": 8},
            "cutoff_function": {"cutoff_function_name": "XPLOR", "cutoff_on": words.cutoff - 0.5},
            "chemical_species": sorted(elements),
            "_chemical_species_by_atomic_number": numbers,
            "_number_of_species": len(numbers),
            "_type_map": {z: n for n, z in enumerate(numbers)},
            "shift": [energy_of[z] for z in numbers],
            "scale": statistics["force"],
            "conv_denominator": [statistics["neighbors"] ** 0.5] * words.layers,
            "dtype": "single",
        }
        self.model = build_E3_equivariant_model(dict(self.config))
        self.model.set_is_batch_data(True)

    def start(self, path):
        """Takes the weights of a SevenNet .equi file of the same shape, with parity or without; EquiError if it does not fit."""
        from sevennet_weights import copy_weights

        copy_weights(self.model, path, [chemical_symbols[z] for z in self.config["_chemical_species_by_atomic_number"]], self.config["cutoff"])

    def __call__(self, graph):
        numbers, (senders, receivers) = self.numbers[graph["species"]], graph["edges"]
        shifts = (graph["shifts"][:, None] @ graph["cell"][graph["batch"][senders]])[:, 0]
        volume = torch.linalg.det(graph["cell"]).abs()
        data = {
            "x": numbers,
            "atomic_numbers": numbers,
            "pos": graph["positions"],
            "edge_index": graph["edges"],
            "edge_vec": graph["positions"][receivers] - graph["positions"][senders] + shifts,
            "cell_volume": volume,
            "num_atoms": graph["n"],
            "batch": graph["batch"],
        }
        out = self.model(data)
        xx, yy, zz, xy, yz, zx = (-out["inferred_stress"]).T  # pressure in sevenn's order
        stress = torch.stack([xx, xy, zx, xy, yy, yz, zx, yz, zz], 1).reshape(-1, 3, 3)
        return out["inferred_total_energy"], out["inferred_force"], stress

    def save(self, path):
        rest = {"epoch": 0, "optimizer_state_dict": {}, "scheduler_state_dict": {}, "time": "", "hash": ""}
        torch.save({"config": self.config, "model_state_dict": self.model.state_dict(), **rest}, path)


class TensorNet(Family):
    suffix, dtype, has_convolutions = ".matgl", torch.float32, False  # the suffix of a folder

    def __init__(self, words, elements, statistics):
        from matgl.apps.pes import Potential
        from matgl.models import TensorNet as Network

        network = Network(
            element_types=tuple(elements), units=words.channels, nblocks=words.layers, cutoff=words.cutoff, is_intensive=False,
            rbf_type="SphericalBessel", use_smooth=True, max_n=8, use_warp=False,
        )  # fmt: skip
        self.model = Potential(network, data_std=statistics["force"], element_refs=statistics["energies"])

    def __call__(self, graph):
        from torch_geometric.data import Batch

        batch, cell = graph["batch"], graph["cell"]
        fractional = (graph["positions"][:, None] @ torch.linalg.inv(cell)[batch])[:, 0]
        structures = Batch(
            node_type=graph["species"], frac_coords=fractional, edge_index=graph["edges"], pbc_offset=graph["shifts"], batch=batch,
            ptr=torch.nn.functional.pad(torch.cumsum(graph["n"], 0), (1, 0)),
        )  # fmt: skip
        energy, forces, stress, _ = self.model(structures, cell)
        return energy, forces, stress.reshape(-1, 3, 3) / GPA

    def save(self, path):
        self.model.save(path)


FAMILIES = {"mace": Mace, "nequip": NequIP, "allegro": Allegro, "sevennet": SevenNet, "tensornet": TensorNet}


def labeled_in(path):
    """The structures of a file, which have energies and forces."""
    found = structures_in(path)
    for atoms in found:
        if atoms.calc is None or not {"energy", "forces"} <= atoms.calc.results.keys():
            sys.exit(f"{path} has a structure without energy or forces: label.py writes both")
    return found


def geometry_of(atoms, elements, cutoff, dtype):
    """What a model reads of a structure."""
    i, j, shifts = neighbor_list("ijS", atoms, cutoff)
    return {
        "n": torch.tensor([len(atoms)]),
        "positions": torch.tensor(atoms.positions, dtype=dtype),
        "cell": torch.tensor(atoms.cell.array, dtype=dtype)[None],
        "edges": torch.tensor(np.array([i, j])),
        "shifts": torch.tensor(shifts, dtype=dtype),
        "species": torch.tensor([elements.index(s) for s in atoms.get_chemical_symbols()]),
    }


def graph_of(atoms, elements, cutoff, dtype):
    return {
        **geometry_of(atoms, elements, cutoff, dtype),
        "energy": torch.tensor([atoms.get_potential_energy()], dtype=dtype),
        "forces": torch.tensor(atoms.get_forces(), dtype=dtype),
        "stress": torch.tensor(atoms.get_stress(voigt=False), dtype=dtype)[None],
    }


def batch_of(graphs):
    batch = {key: torch.cat([g[key] for g in graphs]) for key in graphs[0] if key != "edges"}
    first = np.cumsum([0] + [len(g["positions"]) for g in graphs])
    batch["edges"] = torch.cat([g["edges"] + int(offset) for g, offset in zip(graphs, first)], 1)
    batch["batch"] = torch.repeat_interleave(torch.arange(len(graphs)), batch["n"])
    return batch


def statistics_of(graphs, elements):
    """Energies of the elements by least squares, size of the forces, neighbors per atom."""
    counts = np.array([np.bincount(g["species"], minlength=len(elements)) for g in graphs])
    energies = np.linalg.lstsq(counts, np.array([float(g["energy"]) for g in graphs]), rcond=1e-8)[0]
    return {
        "energies": energies.tolist(),
        "force": float(torch.cat([g["forces"] for g in graphs]).square().mean().sqrt()),
        "neighbors": float(np.mean([g["edges"].shape[1] / len(g["positions"]) for g in graphs])),
    }


def differences(model, graph):
    """Energy per atom (eV), forces (eV/A) and virial per atom (eV) minus those of the labels."""
    energy, forces, stress = model(graph)
    volume = torch.linalg.det(graph["cell"]).abs() / graph["n"]
    return (
        (energy - graph["energy"]) / graph["n"],
        forces - graph["forces"],
        (stress - graph["stress"]) * volume[:, None, None],
    )


def errors(model, graphs):
    """Root mean square errors: energy in meV/atom, forces in meV/A, stress in GPa."""
    model.model.eval()
    found = [[part.detach() for part in differences(model, batch_of([g]))] for g in graphs]
    volume = [float(torch.linalg.det(g["cell"]).abs() / g["n"]) for g in graphs]
    rms = lambda parts: float(torch.cat([p.reshape(-1) for p in parts]).square().mean().sqrt())
    return 1000 * rms([d[0] for d in found]), 1000 * rms([d[1] for d in found]), rms([d[2] / v for d, v in zip(found, volume)]) * GPA


def share_of_rate(progress):
    """Factor of the rate, after that part of the training: from 1 to LAST_RATE along a cosine."""
    return LAST_RATE + (1 - LAST_RATE) * (1 + math.cos(math.pi * progress)) / 2


def train(model, graphs, epochs, words, held_out, checkpoint=None, kept=None):
    """Adam with a rate that falls along a cosine from words.rate, one step for each batch."""
    optimizer = torch.optim.Adam(model.model.parameters(), lr=words.rate, amsgrad=True)
    steps = -(-len(graphs) // words.batch)
    state = {"epoch": 0}
    if checkpoint and words.resume:
        state = torch.load(checkpoint, weights_only=True)
        model.model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    start, first = time.time(), state["epoch"]
    for epoch in range(first + 1, epochs + 1):
        model.model.train()
        order = np.random.default_rng((words.seed, epoch)).permutation(len(graphs))
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = words.rate * share_of_rate((epoch - 1 + step / steps) / epochs)
            parts = differences(model, batch_of([graphs[k] for k in order[step * words.batch : (step + 1) * words.batch]]))
            loss = sum(weight * part.square().mean() for weight, part in zip(WEIGHTS, parts)) + model.own_loss()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.model.parameters(), 10.0)
            optimizer.step()
        if checkpoint:
            parts = {"model": model.model, "optimizer": optimizer}
            state = {"epoch": epoch, **kept, **{name: part.state_dict() for name, part in parts.items()}}
            torch.save(state, checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)
        if held_out and (epoch == 1 or epoch % words.report == 0 or epoch == epochs):
            text = "{:.2f} meV/atom, {:.1f} meV/A, {:.3f} GPa".format(*errors(model, held_out))
            passed = time.time() - start
            rest = passed / (epoch - first) * (epochs - epoch)
            print(f"epoch {epoch} of {epochs}, {passed:.0f} s, about {rest:.0f} s left: held-out structures {text}", flush=True)


def disagreement(members, graph):
    """The largest difference of the two members' forces on an atom, eV/Angstrom."""
    forces = [member(batch_of([graph]))[1].detach() for member in members]
    return float((forces[0] - forces[1]).norm(dim=1).max())


def select(members, graphs, pool, words):
    """The numbers of the structures of the pool on which the members disagree most, after each round of training."""
    chosen = []
    for n in range(words.rounds):
        for member in members:
            train(member, graphs + [pool[k] for k in chosen], words.round_epochs, words, [])
            member.model.eval()
        values = {k: disagreement(members, g) for k, g in enumerate(pool) if k not in chosen}
        new = sorted(values, key=values.get, reverse=True)[: words.add]
        chosen += new
        differ, median = np.mean([values[k] for k in new]), np.median(list(values.values()))
        print(f"round {n + 1}: {len(new)} of {len(values)} structures join, on which the members differ by {differ:.3f} eV/A; "
              f"the median of all is {median:.3f}", flush=True)  # fmt: skip
    return chosen


def print_table(model, graphs, kinds):
    print("| structures | number | energy, meV/atom | forces, meV/Angstrom | stress, GPa | size of the forces |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind in [*dict.fromkeys(kinds), "all"]:
        some = [g for g, k in zip(graphs, kinds) if kind in (k, "all")]
        energy, force, stress = errors(model, some)
        size = 1000 * float(torch.cat([g["forces"] for g in some]).square().mean().sqrt())
        print(f"| {kind} | {len(some)} | {energy:.1f} | {force:.0f} | {stress:.2f} | {size:.0f} |")


def charge_of_element(word):
    element, _, charge = word.partition("=")
    return element, float(charge)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", metavar="FILE.equi")
    parser.add_argument("--family", choices=FAMILIES, default="mace", help="default: %(default)s")
    parser.add_argument("--data", nargs="+", required=True, metavar="DATA.xyz", help="labeled structures to learn from")
    parser.add_argument("--held-out", nargs="+", required=True, metavar="DATA.xyz", help="those of the table of errors")
    parser.add_argument("--pool", nargs="+", default=[], metavar="DATA.xyz", help="those that a committee selects from")
    parser.add_argument("--rounds", type=int, default=1, help="of selection (default: %(default)s)")
    parser.add_argument("--add", type=int, default=40, metavar="N", help="structures selected in each round (default: %(default)s)")
    parser.add_argument("--round-epochs", type=int, default=10, metavar="N", help="of both members in each round (default: %(default)s)")
    parser.add_argument("--cutoff", type=float, default=5.0, metavar="R", help="Angstrom (default: %(default)s)")
    parser.add_argument("--channels", type=int, default=16, help="default: %(default)s")
    parser.add_argument("--lmax", type=int, default=1, help="of the features, all but tensornet (default: %(default)s)")
    parser.add_argument("--edge-lmax", type=int, default=2, help="of the edges, mace (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--correlation", type=int, default=3, help="mace (default: %(default)s)")
    parser.add_argument("--width", type=int, default=32, help="of the radial networks, all but tensornet; allegro has twice as many scalars "
                        "(default: %(default)s)")  # fmt: skip
    parser.add_argument("--latent-charges", nargs="+", type=charge_of_element, metavar="ELEMENT=CHARGE", help="mace: atoms have charges, with "
                        "the Coulomb energy of all images; they begin at these numbers, e, and stay near them")  # fmt: skip
    parser.add_argument("--charge-width", type=float, default=1.0, metavar="R", help="of the charges, Angstrom (default: %(default)s)")
    parser.add_argument("--charge-grid", type=float, default=1.5, metavar="R", help="2 pi over the largest wave number of their sum, Angstrom "
                        "(default: %(default)s)")  # fmt: skip
    parser.add_argument("--no-parity", action="store_true", help="nequip, sevennet: features without parity, so mirror images differ; "
                        "allegro: only features with the parity of the harmonics")  # fmt: skip
    parser.add_argument("--start", metavar="FILE.equi", help="sevennet: begin with the weights of this file, of the same shape; a file "
                        "without parity also starts a model with it")  # fmt: skip
    parser.add_argument("--epochs", type=int, default=100, help="0: the weights of --start stay as they are (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=4, help="structures in a step (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=0.01, help="of Adam at the begin (default: %(default)s)")
    parser.add_argument("--operators", choices=["equi", "framework"], default="equi", help="of the convolutions (default: %(default)s)")
    parser.add_argument("--report", type=int, default=10, metavar="N", help="epochs between two lines (default: %(default)s)")
    parser.add_argument("--resume", action="store_true", help="continue from OUTPUT.checkpoint, with the same model and pool")
    parser.add_argument("--seed", type=int, default=1, help="of all random numbers (default: %(default)s)")
    parser.add_argument("--license", default="MIT", help="stored in the file (default: %(default)s)")
    parser.add_argument("--citation", default="none: trained on labels of SevenNet-0", help="stored in the file")
    words = parser.parse_args()
    checkpoint = words.output + ".checkpoint"
    if words.resume and not os.path.exists(checkpoint):
        parser.error(f"--resume: there is no {checkpoint}")
    if os.path.exists(checkpoint) and not words.resume:
        parser.error(f"{checkpoint} is of an earlier training: continue it with --resume, or move it away")
    family = FAMILIES[words.family]
    if words.latent_charges:
        if words.family != "mace":
            parser.error(f"--latent-charges is for --family mace only, not for {words.family}")
        family, words.latent_charges = MaceWithCharges, dict(words.latent_charges)
    if words.start and not hasattr(family, "start"):
        parser.error(f"--start is for --family sevennet only, not for {words.family}")
    if words.start and words.pool:
        parser.error("--start does not go with --pool: members that begin with the same weights do not disagree; give all structures to --data")
    warnings.simplefilter("ignore")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.set_default_dtype(family.dtype)
    uses_operators = family.has_convolutions and words.operators == "equi"
    enable = disable = None
    if uses_operators:
        try:
            from equi_tools.errors import EquiError
        except ImportError:
            parser.error("no module equi_tools: put the folder tools of the project into PYTHONPATH")
        try:
            from equi_torch import disable, enable
        except (ImportError, EquiError) as error:
            parser.error(f"torch.ops.equi is not there ({error}): the workflow 'test' builds it, which that of the demo does not; EQUI_BUILD_DIR "
                         "names the build folder. Or add --operators framework, which is slower")  # fmt: skip

    check_folder_of(words.output)
    load = lambda files: [atoms for file in files for atoms in labeled_in(file)]
    data, pool, held_out = load(words.data), load(words.pool), load(words.held_out)
    elements = sorted({s for atoms in data + pool for s in atoms.get_chemical_symbols()})
    if words.latent_charges and sorted(words.latent_charges) != elements:
        parser.error(f"--latent-charges: expected a charge for each of {' '.join(elements)}")
    graphs, pool, test = ([graph_of(a, elements, words.cutoff, family.dtype) for a in some] for some in (data, pool, held_out))
    state = torch.load(checkpoint, weights_only=True) if words.resume else {}
    statistics = state.get("statistics") or statistics_of(graphs, elements)

    def member(seed):
        torch.manual_seed(seed)
        model = family(argparse.Namespace(**{**vars(words), "seed": seed}), elements, statistics)
        if words.start and not words.resume:
            try:
                model.start(words.start)
            except Exception as error:
                if type(error).__name__ != "EquiError":
                    raise
                parser.error(str(error))
        if not words.resume:
            model.begin(graphs)
        if uses_operators:
            enable(model.model)
        return model

    members = [member(words.seed + k) for k in range(2 if pool and not words.resume else 1)]
    count = sum(p.numel() for p in members[0].model.parameters())
    print(f"{len(graphs)} structures of {' '.join(elements)}, {count} parameters, {statistics['neighbors']:.1f} neighbors", flush=True)
    chosen = state["chosen"] if words.resume else select(members, graphs, pool, words) if pool else []
    graphs += [pool[k] for k in chosen]
    model = members[0]
    train(model, graphs, words.epochs, words, test, checkpoint, {"chosen": chosen, "statistics": statistics})
    print_table(model, test, [atoms.info.get("kind", "") for atoms in held_out])

    if uses_operators:
        disable(model.model)
    model.model.eval()
    model.finish(test)
    source = words.output.removesuffix(".equi") + family.suffix
    model.save(source)
    command = ["convert", source, "-o", words.output, "--license", words.license, "--citation", words.citation, *model.options_of_convert()]
    subprocess.run([sys.executable, "-m", "equi_tools", *command], check=True)
    print(f"{words.output}: {os.path.getsize(words.output) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
