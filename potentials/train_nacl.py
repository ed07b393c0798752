#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the small example models for rock salt on the structures of label_nacl.py.

    python train_nacl.py mace nacl nacl-mace.model             # needs mace
    python train_nacl.py nequip nacl nacl-nequip.nequip.pth    # needs nequip

Both read nacl-train.xyz and nacl-test.xyz and write a file that `equi convert` takes.
"""

import argparse
import os
import time
import warnings

import numpy as np
import torch
from ase.io import read
from ase.neighborlist import neighbor_list

CUTOFF = 5.0
SPECIES = ["Na", "Cl"]


class Mace:
    dtype = torch.float64

    def __init__(self, statistics):
        # e3nn 0.4 reads a file of its own in a way that newer torch refuses by default.
        os.environ.setdefault("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
        from e3nn import o3
        from mace import modules

        self.model = modules.ScaleShiftMACE(
            r_max=CUTOFF, num_bessel=8, num_polynomial_cutoff=5, max_ell=2, num_interactions=2, correlation=3,
            interaction_cls_first=modules.interaction_classes["RealAgnosticResidualInteractionBlock"],
            interaction_cls=modules.interaction_classes["RealAgnosticResidualInteractionBlock"],
            num_elements=2, atomic_numbers=[11, 17], hidden_irreps=o3.Irreps("16x0e+16x1o"),
            MLP_irreps=o3.Irreps("16x0e"), radial_MLP=[32, 32], gate=torch.nn.functional.silu,
            atomic_energies=np.full(2, statistics["energy"]), avg_num_neighbors=statistics["neighbors"],
            atomic_inter_scale=statistics["force"], atomic_inter_shift=0.0,
        )  # fmt: skip

    def __call__(self, graph):
        n_graphs = len(graph["n"])
        data = {
            "positions": graph["positions"].clone(),
            "cell": graph["cell"].reshape(-1, 3),
            "edge_index": graph["edges"],
            "unit_shifts": graph["shifts"],
            "shifts": (graph["shifts"][:, None] @ graph["cell"][graph["batch"][graph["edges"][0]]])[:, 0],
            "node_attrs": torch.nn.functional.one_hot(graph["species"], 2).to(self.dtype),
            "batch": graph["batch"],
            "ptr": torch.nn.functional.pad(torch.cumsum(graph["n"], 0), (1, 0)),
            "head": torch.zeros(n_graphs, dtype=torch.long),
        }
        out = self.model(data, training=self.model.training, compute_force=True, compute_stress=True)
        return out["energy"], out["forces"], out["stress"]

    def save(self, path):
        torch.save(self.model, path)


class NequIP:
    dtype = torch.float64  # of positions and energies; the network's own is float32

    def __init__(self, statistics):
        from nequip.model import NequIPGNNModel
        from nequip.utils.global_state import set_global_state

        set_global_state()
        self.model = NequIPGNNModel(
            seed=1, model_dtype="float32", type_names=SPECIES, r_max=CUTOFF, num_layers=3, l_max=1, parity=True,
            num_features=16, num_bessels=8, polynomial_cutoff_p=6, radial_mlp_depth=1, radial_mlp_width=32,
            avg_num_neighbors=statistics["neighbors"], per_type_energy_scales=statistics["force"],
            per_type_energy_shifts={name: statistics["energy"] for name in SPECIES},
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


def graph_of(atoms):
    i, j, shifts = neighbor_list("ijS", atoms, CUTOFF)
    return {
        "n": torch.tensor([len(atoms)]),
        "positions": torch.tensor(atoms.positions),
        "cell": torch.tensor(atoms.cell.array)[None],
        "edges": torch.tensor(np.array([i, j])),
        "shifts": torch.tensor(shifts, dtype=torch.float64),
        "species": torch.tensor([SPECIES.index(s) for s in atoms.get_chemical_symbols()]),
        "energy": torch.tensor([atoms.get_potential_energy()]),
        "forces": torch.tensor(atoms.get_forces()),
        "stress": torch.tensor(atoms.get_stress(voigt=False))[None],
    }


def batch_of(graphs):
    batch = {key: torch.cat([g[key] for g in graphs]) for key in graphs[0] if key != "edges"}
    first = np.cumsum([0] + [len(g["positions"]) for g in graphs])
    batch["edges"] = torch.cat([g["edges"] + int(offset) for g, offset in zip(graphs, first)], 1)
    batch["batch"] = torch.repeat_interleave(torch.arange(len(graphs)), batch["n"])
    return batch


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
    found = [differences(model, batch_of([g])) for g in graphs]
    volume = [float(torch.linalg.det(g["cell"]).abs() / g["n"]) for g in graphs]
    rms = lambda parts: float(torch.cat([p.detach().reshape(-1) for p in parts]).square().mean().sqrt())
    stress = rms([d[2] / v for d, v in zip(found, volume)]) * 160.21766
    return 1000 * rms([d[0] for d in found]), 1000 * rms([d[1] for d in found]), stress


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=["mace", "nequip"])
    parser.add_argument("data", help="what the names of the .xyz files begin with")
    parser.add_argument("output")
    parser.add_argument("--epochs", type=int, help="default: 16 for mace, 25 for nequip")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0.01)
    args = parser.parse_args()
    epochs = args.epochs or {"mace": 16, "nequip": 25}[args.family]
    warnings.simplefilter("ignore")
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    rng = np.random.default_rng(1)

    train = [graph_of(a) for a in read(f"{args.data}-train.xyz", ":")]
    held_out = read(f"{args.data}-test.xyz", ":")
    test = [graph_of(a) for a in held_out]
    statistics = {
        "energy": float(np.mean([g["energy"] / g["n"] for g in train])),
        "force": float(torch.cat([g["forces"] for g in train]).square().mean().sqrt()),
        "neighbors": float(np.mean([g["edges"].shape[1] / len(g["positions"]) for g in train])),
    }
    model = {"mace": Mace, "nequip": NequIP}[args.family](statistics)
    print(len(train), "structures,", sum(p.numel() for p in model.model.parameters()), "parameters", flush=True)

    optimizer = torch.optim.Adam(model.model.parameters(), lr=args.rate, amsgrad=True)
    steps = epochs * -(-len(train) // args.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=args.rate / 1000)
    start = time.time()
    for epoch in range(1, epochs + 1):
        model.model.train()
        order = rng.permutation(len(train))
        for first in range(0, len(train), args.batch):
            graph = batch_of([train[k] for k in order[first : first + args.batch]])
            energy, forces, virial = differences(model, graph)
            loss = 100 * energy.square().mean() + 10 * forces.square().mean() + 10 * virial.square().mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.model.parameters(), 10.0)
            optimizer.step()
            schedule.step()
        model.model.eval()
        if epoch % 5 == 0 or epoch == epochs or epoch == 1:
            text = "{:.2f} meV/atom, {:.1f} meV/A, {:.3f} GPa".format(*errors(model, test))
            print(f"epoch {epoch}, {time.time() - start:.0f} s: held-out structures {text}", flush=True)
    for size in (16, 64):
        text = "{:.2f} meV/atom, {:.1f} meV/A, {:.3f} GPa".format(*errors(model, [g for g in test if g["n"] == size]))
        print(f"held-out cells of {size} atoms: {text}")
    model.save(args.output)


if __name__ == "__main__":
    main()
