#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The main convolution of SevenNet-0 with its radial network by OpenEquivariance and cuEquivariance on an NVIDIA GPU.

    gpu_peers.py [CELLS per side] [--out DIR]

Needs Torch for CUDA, and the packages to be timed: openequivariance, and cuequivariance-torch with its operators. It
needs nothing of equi. The graph is the one of `bench_device ... layers`: rock salt, each atom moved a little. All
numbers are float32, as in that program in mixed precision. Sums of OpenEquivariance are by atomics and in a fixed
order, like equi's.

Columns hold the shortest of several turns, in ns per edge:

`forward`: the radial network and the convolution;
`both`: the same with the gradients by the features, the harmonics and the distances;
`product_forward` and `product_both`: only the convolution, with existing weights.
"""

import argparse
import functools
import itertools
import math

import common

SPACING, JITTER, CUTOFF = 2.82, 0.1, 5.0  # Angstrom
CHANNELS = ((128, 0), (64, 1), (32, 2))
LMAX = 2
WIDTHS = (8, 64, 64)  # of the radial network
WARM_UP, TURNS, SECONDS_OF_TURN = 5, 5, 0.1


def rock_salt_graph(cells, torch):
    """(receivers, senders, distances), ordered by receiver, with the senders of each ascending."""
    import numpy as np
    from scipy.spatial import cKDTree

    side = 2 * cells
    length = SPACING * side
    places = np.array(list(itertools.product(range(side), repeat=3)))
    positions = (SPACING * places + np.random.default_rng(1).uniform(-JITTER, JITTER, places.shape)) % length
    tree = cKDTree(positions, boxsize=length)
    pairs = tree.query_pairs(CUTOFF, output_type="ndarray")
    pairs = np.concatenate([pairs, pairs[:, ::-1]])
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    r = positions[pairs[:, 1]] - positions[pairs[:, 0]]
    r = np.linalg.norm(r - length * np.round(r / length), axis=1)
    receivers, senders = (torch.from_numpy(np.ascontiguousarray(k)).long().cuda() for k in pairs.T)
    return receivers, senders, torch.from_numpy(r).float().cuda()


def paths():
    return [
        (i, k, l3)
        for i, (_, l1) in enumerate(CHANNELS)
        for k in range(LMAX + 1)
        for l3 in range(abs(l1 - k), min(l1 + k, LMAX) + 1)
    ]


def harmonics_irreps():
    return "+".join(f"1x{order}e" for order in range(LMAX + 1))


def features_irreps():
    return "+".join(f"{mul}x{order}e" for mul, order in CHANNELS)


def openequivariance(deterministic, receivers, senders):
    import openequivariance as oeq
    import torch

    out, instructions = [], []
    for i, k, order in paths():
        instructions.append((i, k, len(out), "uvu", True))
        out.append(f"{CHANNELS[i][0]}x{order}e")
    problem = oeq.TPProblem(
        oeq.Irreps(features_irreps()),
        oeq.Irreps(harmonics_irreps()),
        oeq.Irreps("+".join(out)),
        instructions,
        shared_weights=False,
        internal_weights=False,
    )
    convolution = oeq.TensorProductConv(problem, deterministic=deterministic)
    # Edges ordered by sender, then receiver: the position of each in the order by receiver.
    permutation = torch.argsort(senders, stable=True) if deterministic else None
    return lambda weights, x, y: convolution(x, y, weights, receivers, senders, permutation)


def cuequivariance(receivers, senders):
    import cuequivariance as cue
    import cuequivariance_torch as cuet
    import torch

    irreps = cue.Irreps("SO3", "+".join(f"{mul}x{order}" for mul, order in CHANNELS))
    harmonics = cue.Irreps("SO3", "+".join(str(order) for order in range(LMAX + 1)))
    product = cue.descriptors.channelwise_tensor_product(irreps, harmonics, harmonics).polynomial
    # Its fused kernels process segments of one length: blocks of 32 channels.
    product = product.flatten_coefficient_modes().squeeze_modes().split_mode("u", 32)
    convolution = cuet.SegmentedPolynomial(product, method="uniform_1d", math_dtype=torch.float32)
    num_atoms = int(receivers.max()) + 1
    rows = torch.empty(num_atoms, 1, device="cuda")
    return lambda weights, x, y: convolution([weights, x, y], {1: senders}, {0: rows}, {0: receivers})[0]


def shortest(call, torch):
    """The shortest of several turns, in seconds of the device for a call."""

    def turn(calls):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return 1e-3 * begin.elapsed_time(end) / calls

    turn(WARM_UP)
    calls = max(1, int(SECONDS_OF_TURN / turn(WARM_UP)))
    return min(turn(calls) for _ in range(TURNS))


def measure(name, convolution, graph, torch):
    receivers, _, r = graph
    num_atoms, num_edges = int(receivers.max()) + 1, len(r)
    num_weights = sum(CHANNELS[i][0] for i, _, _ in paths())
    widths = (*WIDTHS, num_weights)
    torch.manual_seed(1)
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(a, b, bias=False), torch.nn.SiLU()]
    network = torch.nn.Sequential(*layers[:-1]).cuda().requires_grad_(False)
    x = torch.randn(num_atoms, sum(mul * (2 * order + 1) for mul, order in CHANNELS), device="cuda")
    y = torch.randn(num_edges, (LMAX + 1) ** 2, device="cuda")
    waves = torch.arange(1, WIDTHS[0] + 1, device="cuda") * (math.pi / CUTOFF)

    def weights_of(r):
        r = r.unsqueeze(1)
        t = r / CUTOFF
        return network(math.sqrt(2 / CUTOFF) * (waves * r).sin() / r * (1 - 28 * t**6 + 48 * t**7 - 21 * t**8))

    weights = weights_of(r)
    cotangent = torch.randn_like(convolution(weights, x, y))

    def forward(of_radial, inputs):
        return convolution(weights_of(inputs[0]) if of_radial else inputs[0], x, y)

    def both(of_radial, inputs):
        output = convolution(weights_of(inputs[0]) if of_radial else inputs[0], *inputs[1:])
        torch.autograd.grad(output, inputs, cotangent)

    row = {"side": name, "atoms": num_atoms, "edges": num_edges}
    for of_radial, prefix in ((True, ""), (False, "product_")):
        inputs = [v.detach().requires_grad_() for v in (r if of_radial else weights, x, y)]
        with torch.no_grad():
            seconds = shortest(functools.partial(forward, of_radial, inputs), torch)
        row[f"{prefix}forward_ns_per_edge"] = f"{1e9 * seconds / num_edges:.4f}"
        seconds = shortest(functools.partial(both, of_radial, inputs), torch)
        row[f"{prefix}both_ns_per_edge"] = f"{1e9 * seconds / num_edges:.4f}"
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cells", nargs="?", type=int, default=8, help="cubic cells of 8 atoms per side (default: 8)")
    parser.add_argument("--out", default="results", metavar="DIR", help="of the table (default: %(default)s)")
    args = parser.parse_args()
    import torch

    graph = rock_salt_graph(args.cells, torch)
    receivers, senders, _ = graph
    sides = {
        "OpenEquivariance": functools.partial(openequivariance, False),
        "OpenEquivariance, fixed order": functools.partial(openequivariance, True),
        "cuEquivariance": cuequivariance,
    }
    rows = []
    for name, make in sides.items():
        try:
            convolution = make(receivers, senders)
        except ImportError as e:
            print(f"without {name}: {e}")
            continue
        rows.append({"gpu": torch.cuda.get_device_name(), **measure(name, convolution, graph, torch)})
        print(rows[-1], flush=True)
    if rows:
        common.write_csv(args.out, "gpu_peers.csv", rows)


if __name__ == "__main__":
    main()
