# SPDX-License-Identifier: MIT
"""Trains a small SevenNet model for rock salt with torch.ops.equi, on labels that SevenNet-0 gives.

Structures are displaced and strained cells of 64 atoms; the loss is that of energies, forces and stresses. The last lines
compare a training step with e3nn's convolution. The checkpoint small.pth is one of sevenn: `equi convert` makes a model
file of it. Takes some minutes on two cores.
"""

import copy
import datetime
import time
import warnings

import numpy as np
import torch
from ase.build import bulk
from equi_torch import disable, enable
from sevenn.atom_graph_data import AtomGraphData
from sevenn.calculator import SevenNetCalculator
from sevenn.model_build import build_E3_equivariant_model
from sevenn.train.dataload import unlabeled_atoms_to_graph
from sevenn.util import load_checkpoint
from torch_geometric.loader import DataLoader

TRAINING, TEST, BATCH, EPOCHS = 48, 16, 4, 30
ENERGY, FORCE, STRESS = "inferred_total_energy", "inferred_force", "inferred_stress"
# Weights of the mean squares of energies (eV/atom), forces (eV/A) and stresses (eV/A^3).
WEIGHTS = {ENERGY: 10.0, FORCE: 1.0, STRESS: 1000.0}


def labeled_structures(count, rng):
    """Graphs of sevenn with the answers of SevenNet-0."""
    teacher, graphs = SevenNetCalculator("7net-0", device="cpu"), []
    for _ in range(count):
        atoms = bulk("NaCl", "rocksalt", 5.64, cubic=True) * (2, 2, 2)
        atoms.set_cell(atoms.cell.array @ (np.eye(3) + 0.03 * rng.standard_normal((3, 3))), scale_atoms=True)
        atoms.positions += rng.uniform(0.05, 0.25) * rng.standard_normal((64, 3))
        atoms.calc = teacher
        graph = AtomGraphData.from_numpy_dict(unlabeled_atoms_to_graph(atoms, 5.0))
        graph["energy_label"] = torch.tensor([atoms.get_potential_energy()], dtype=torch.float32)
        graph["force_label"] = torch.tensor(atoms.get_forces(), dtype=torch.float32)
        # sevenn's order and sign.
        stress = -atoms.get_stress()[[0, 1, 2, 5, 3, 4]]
        graph["stress_label"] = torch.tensor(stress[None], dtype=torch.float32)
        graphs.append(graph)
    return graphs


def small_config(graphs):
    """SevenNet-0's options for two elements, fewer channels and layers, and the scale of these structures."""
    config = copy.deepcopy(load_checkpoint("7net-0").config)
    forces = torch.cat([g["force_label"] for g in graphs])
    energy = torch.cat([g["energy_label"] for g in graphs]).mean() / 64
    type_map = {11: 0, 17: 1}
    config.update(
        chemical_species=["Cl", "Na"],
        _chemical_species_by_atomic_number=[11, 17],
        _number_of_species=2,
        _type_map=type_map,
        num_convolution_layer=3,
        irreps_manual=["32x0e", "32x0e+16x1e+16x2e", "32x0e+16x1e+16x2e", "32x0e"],
        shift=energy.item(),
        scale=forces.square().mean().sqrt().item(),
        conv_denominator=[24.0**0.5] * 3,
    )
    return config


def errors(out, graph):
    per_atom = 1 / torch.bincount(graph.batch).to(out[ENERGY].dtype)
    return {
        ENERGY: (out[ENERGY] - graph["energy_label"]) * per_atom,
        FORCE: out[FORCE] - graph["force_label"],
        STRESS: out[STRESS] - graph["stress_label"],
    }


def loss_of(out, graph):
    return sum(WEIGHTS[name] * e.square().mean() for name, e in errors(out, graph).items())


def test_errors(model, graphs):
    """Root mean squares in meV/atom, meV/A and meV/A^3."""
    model.eval()
    found = [errors(model(g.clone()), g) for g in DataLoader(graphs, BATCH)]
    model.train()
    return [1000 * torch.cat([f[name].detach().flatten() for f in found]).square().mean().sqrt().item() for name in WEIGHTS]


def main():
    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    graphs = labeled_structures(TRAINING + TEST, rng)
    config = small_config(graphs[:TRAINING])
    model = build_E3_equivariant_model(copy.deepcopy(config))
    model.set_is_batch_data(True)
    model.train()
    enable(model)

    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    loader = DataLoader(graphs[:TRAINING], BATCH, shuffle=True)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {TRAINING} structures of 64 atoms")
    print("epoch  loss      test: meV/atom  meV/A  meV/A^3  seconds")
    for epoch in range(EPOCHS):
        begin, total = time.perf_counter(), 0.0
        for graph in loader:
            optimizer.zero_grad()
            loss = loss_of(model(graph.clone()), graph)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            total += loss.item() / len(loader)
        schedule.step()
        energy, force, stress = test_errors(model, graphs[TRAINING:])
        seconds = time.perf_counter() - begin
        print(f"{epoch + 1:5d}  {total:8.5f}  {energy:14.3f}  {force:5.1f}  {stress:7.3f}  {seconds:7.1f}", flush=True)

    graph = next(iter(DataLoader(graphs, BATCH)))
    gradients = []
    for switch in (enable, disable):
        switch(model)
        for _ in range(3):
            model.zero_grad()
            begin = time.perf_counter()
            loss_of(model(graph.clone()), graph).backward()
            seconds = time.perf_counter() - begin
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
        print(f"a step with {'torch.ops.equi' if switch is enable else 'e3nn'}: {seconds:.2f} s")
    difference = (gradients[0] - gradients[1]).abs().max() / gradients[1].abs().max()
    print(f"largest difference of the gradients, float32, relative: {difference:.1e}")

    checkpoint = {
        "config": config,
        "epoch": EPOCHS,
        "model_state_dict": model.state_dict(),
        "optimizer_state_dict": {},
        "scheduler_state_dict": {},
        "time": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        "hash": "",
    }
    torch.save(checkpoint, "small.pth")
    print("written: small.pth")


if __name__ == "__main__":
    main()
