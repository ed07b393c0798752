#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time of a training step of SevenNet with torch.ops.equi, against the same step with e3nn's convolution.

A step is that of a loss of energies, forces and stresses: the model's evaluation, the gradients by its parameters and
Adam's update. Both sides run in one process, on one model whose convolutions are exchanged. They take turns (A B A B
...).
"""

import statistics
import time
import warnings

import common


def make_batch(args, cutoff):
    """The graphs of sevenn for this many cells, each with its own displacements."""
    import numpy as np
    import torch
    from sevenn.atom_graph_data import AtomGraphData
    from sevenn.train.dataload import unlabeled_atoms_to_graph
    from torch_geometric.loader.dataloader import Collater

    rng, graphs = np.random.default_rng(2), []
    for _ in range(args.batch):
        atoms = common.make_system(args.system, args.cells)
        atoms.positions += 0.05 * rng.standard_normal((len(atoms), 3))
        graphs.append(AtomGraphData.from_numpy_dict(unlabeled_atoms_to_graph(atoms, cutoff)))
    batch = Collater(graphs)(graphs)
    generator = torch.Generator().manual_seed(1)
    targets = {
        "inferred_total_energy": torch.randn(args.batch, generator=generator),
        "inferred_force": torch.randn(batch.num_nodes, 3, generator=generator),
        "inferred_stress": torch.randn(args.batch, 6, generator=generator),
    }
    return batch, targets


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    parser.add_argument("--source", default="7net-0", help="a checkpoint of sevenn (default: %(default)s)")
    parser.add_argument("--cells", type=int, default=2, help="cells per direction (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=8, help="structures in a batch (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side (default: %(default)s)")
    parser.add_argument("--cores", type=int, help="cores for either side (default: all)")
    args = parser.parse_args()
    common.enter_torch_environment(args.build_dir)
    warnings.simplefilter("ignore")

    import torch
    from equi_torch import disable, enable
    from sevenn.util import load_checkpoint

    cores = args.cores or common.usable_cores()
    torch.set_num_threads(cores)
    checkpoint = load_checkpoint(args.source)
    model = checkpoint.build_model()
    model.set_is_batch_data(True)
    model.train()
    batch, targets = make_batch(args, checkpoint.config["cutoff"])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)
    atoms, edges = batch.num_nodes, batch.edge_index.shape[1]
    print(f"{common.cpu_name()}, {cores} cores; {args.source}, {args.system}: batch of {args.batch}, ", end="")
    print(f"{atoms} atoms, {edges} edges; Torch {torch.__version__}", flush=True)
    common.warn_if_busy()

    def step():
        optimizer.zero_grad()
        out = model(batch.clone())
        sum(torch.nn.functional.mse_loss(out[name], target) for name, target in targets.items()).backward()
        optimizer.step()

    samples, cpu_samples, rows = {"e3nn": [], "equi": []}, {"e3nn": [], "equi": []}, []
    for turn in range(-1, args.rounds):  # the first warms up
        for side, switch in (("e3nn", disable), ("equi", enable)):
            switch(model)
            for _ in range(2 if turn < 0 else 1):  # TorchScript rewrites its programs at the second call
                begin, cpu_begin = time.perf_counter(), time.process_time()
                step()
                seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
            print(f"turn {turn + 1}, {side}: {seconds:.2f} s, {cpu_seconds:.2f} s of the cores", flush=True)
            if turn < 0:
                continue
            samples[side].append(seconds)
            cpu_samples[side].append(cpu_seconds)
            rows.append(
                {
                    "cpu": common.cpu_name(),
                    "cores": cores,
                    "system": args.system,
                    "atoms": atoms,
                    "edges": edges,
                    "turn": turn,
                    "side": side,
                    "seconds": f"{seconds:.4f}",
                    "cpu_seconds": f"{cpu_seconds:.4f}",
                }
            )
    print(f"\n{'s/step':<24} {'minimum':>10} {'median':>10}")
    for name, of_side in (("clock", samples), ("cores", cpu_samples)):
        for side, values in of_side.items():
            print(f"{side + ', ' + name:<24} {min(values):>10.3f} {statistics.median(values):>10.3f}")
        a, b = of_side["e3nn"], of_side["equi"]
        print(f"{'ratio':<24} {min(a) / min(b):>10.2f} {statistics.median(a) / statistics.median(b):>10.2f}")
    common.write_csv(args.out, "training.csv", rows)


if __name__ == "__main__":
    main()
