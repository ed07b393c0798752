# SPDX-License-Identifier: MIT
"""The process of bench/kernels.py that runs e3nn's convolution.

Each line on standard input is a request in JSON: a problem as `bench_kernels --equi_list` prints it, "type",
"threads", "evaluations", and optionally "graph", a file of graphs.py, and "flush", a number of bytes. The answer is a
line of JSON with nanoseconds per edge for each evaluation: "forward", and "both" for forward and backward. With
"flush" there are also "cold_forward" and "cold_both", for which this many bytes are written before each evaluation.

The convolution is that of NequIP and its relatives: radial network, tensor product of the senders' features with the
harmonics (channel-wise or fully connected), sum over neighbors. Backward computes the gradients with respect to
features, harmonics and distances.
"""

import contextlib
import json
import math
import os
import sys
import time

CUTOFF = 5.0  # Angstrom, without a graph
WIDTHS = [8, 64, 64]  # of the radial network
MAX_EDGES = 20000  # of a graph: its first receivers; more would need more memory, not more time per edge
WARM_UP = 3  # Torch optimizes its compiled functions during the first calls


class Convolution:
    def __init__(self, problem, dtype):
        import torch
        from e3nn import nn, o3

        torch.set_default_dtype(dtype)  # e3nn makes its constants with it
        torch.manual_seed(1)
        irreps_in, harmonics = o3.Irreps(problem["in"]), o3.Irreps(problem["harmonics"])
        # The rule of bench/kernels.cpp: every path that triangle and parity allow, outputs of one irrep next to each
        # other.
        connection = problem["connection"]
        wanted = o3.Irreps(problem["out"])
        out, instructions = list(wanted) if connection == "uvw" else [], []
        for block, (_, to) in enumerate(wanted):
            for i, (mul, of_input) in enumerate(irreps_in):
                for k, (_, of_edge) in enumerate(harmonics):
                    if to in of_input * of_edge:
                        instructions.append((i, k, block if connection == "uvw" else len(out), connection, True))
                        if connection == "uvu":
                            out.append((mul, to))
        self.product = o3.TensorProduct(
            irreps_in, harmonics, o3.Irreps(out), instructions, shared_weights=False, internal_weights=False
        )
        if self.product.weight_numel != problem["weights"]:
            sys.exit(f"{problem['name']}: {self.product.weight_numel} weights here, {problem['weights']} there")
        self.radial = nn.FullyConnectedNet([*WIDTHS, self.product.weight_numel], torch.nn.functional.silu)
        self.radial.requires_grad_(False)
        atoms, self.edges, self.cutoff = problem["atoms"], problem["edges"], CUTOFF
        self.x = torch.randn(atoms, irreps_in.dim)
        if "graph" in problem:
            import graphs

            self.cutoff, begin, sender, r = graphs.read_graph(problem["graph"])
            atoms = int((begin <= MAX_EDGES).sum()) - 1
            self.edges = int(begin[atoms])
            self.receiver = torch.arange(atoms).repeat_interleave(torch.from_numpy(begin[: atoms + 1]).diff())
            self.sender = torch.from_numpy(sender[: self.edges]).long()
            self.r = torch.from_numpy(r[: self.edges]).to(dtype)
        else:
            self.receiver = torch.arange(atoms).repeat_interleave(self.edges // atoms)
            self.sender = torch.randint(atoms, (self.edges,))
            self.r = 2.5 + 2.4 * torch.rand(self.edges)
        self.y = torch.randn(self.edges, harmonics.dim)
        self.wave_numbers = torch.arange(1, WIDTHS[0] + 1) * (math.pi / self.cutoff)
        self.out_adj = torch.randn(atoms, self.product.irreps_out.dim)

    def forward(self):
        r = self.r.unsqueeze(1)
        t = r / self.cutoff
        cutoff = 1 - 28 * t**6 + 48 * t**7 - 21 * t**8
        weights = self.radial(math.sqrt(2 / self.cutoff) * (self.wave_numbers * r).sin() / r * cutoff)
        messages = self.product(self.x[self.sender], self.y, weights)
        return messages.new_zeros(len(self.out_adj), messages.shape[1]).index_add_(0, self.receiver, messages)

    def run_forward(self):
        import torch

        with torch.no_grad():
            self.forward()

    def run_both(self):
        import torch

        inputs = [self.x, self.y, self.r]
        for v in inputs:
            v.requires_grad_(True)
        torch.autograd.grad(self.forward(), inputs, self.out_adj)
        for v in inputs:
            v.requires_grad_(False)


def main():
    # Only times go to the driver; messages of the packages go to standard error.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import torch

    present, convolution = None, None
    for line in sys.stdin:
        request = json.loads(line)
        torch.set_num_threads(request["threads"])
        key = request["name"], request["type"], request.get("graph")
        if present != key:
            convolution = None
            convolution = Convolution(request, {"float": torch.float32, "double": torch.float64}[request["type"]])
            for _ in range(WARM_UP):
                convolution.run_forward()
                convolution.run_both()
            present = key
        answer = {}
        for size in (0, request["flush"]) if request.get("flush") else (0,):
            other = torch.zeros(size, dtype=torch.uint8)
            for name, function in (("forward", convolution.run_forward), ("both", convolution.run_both)):
                times = answer.setdefault("cold_" * (size > 0) + name, [])
                for _ in range(request["evaluations"]):
                    other += 1
                    begin = time.perf_counter()
                    function()
                    times.append(1e9 * (time.perf_counter() - begin) / convolution.edges)
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
