"""The process of bench/kernels.py that runs e3nn's convolution.

Each line on standard input is a request in JSON: a problem as `bench_kernels --equi_list` prints it, "type",
"threads", "evaluations". The answer is a line of JSON with as many times in seconds: "forward", and "both" for forward
and backward. The convolution is the one of NequIP and its relatives: radial network, channel-wise tensor product of the
senders' features with the harmonics, sum over neighbors. Backward gives the gradients with respect to features,
harmonics and distances.
"""

import contextlib
import json
import math
import os
import sys
import time

CUTOFF = 5.0  # Angstrom
WIDTHS = [8, 64, 64]  # of the radial network
WARM_UP = 3  # Torch optimises its compiled functions during the first calls


class Convolution:
    def __init__(self, problem, dtype):
        import torch
        from e3nn import nn, o3

        torch.set_default_dtype(dtype)  # e3nn makes its constants with it
        torch.manual_seed(1)
        irreps_in, harmonics = o3.Irreps(problem["in"]), o3.Irreps(problem["harmonics"])
        # The rule of bench/kernels.cpp: every path that triangle and parity allow, outputs of one irrep side by side.
        out, instructions = [], []
        for _, to in o3.Irreps(problem["out"]):
            for i, (mul, of_input) in enumerate(irreps_in):
                for k, (_, of_edge) in enumerate(harmonics):
                    if to in of_input * of_edge:
                        instructions.append((i, k, len(out), "uvu", True))
                        out.append((mul, to))
        self.product = o3.TensorProduct(
            irreps_in, harmonics, o3.Irreps(out), instructions, shared_weights=False, internal_weights=False
        )
        self.radial = nn.FullyConnectedNet([*WIDTHS, self.product.weight_numel], torch.nn.functional.silu)
        self.radial.requires_grad_(False)
        atoms, edges = problem["atoms"], problem["edges"]
        self.receiver = torch.arange(atoms).repeat_interleave(edges // atoms)
        self.sender = torch.randint(atoms, (edges,))
        self.x = torch.randn(atoms, irreps_in.dim)
        self.y = torch.randn(edges, harmonics.dim)
        self.r = 2.5 + 2.4 * torch.rand(edges)
        self.wave_numbers = torch.arange(1, WIDTHS[0] + 1) * (math.pi / CUTOFF)
        self.out_adj = torch.randn(atoms, self.product.irreps_out.dim)

    def forward(self):
        r = self.r.unsqueeze(1)
        t = r / CUTOFF
        cutoff = 1 - 28 * t**6 + 48 * t**7 - 21 * t**8
        weights = self.radial(math.sqrt(2 / CUTOFF) * (self.wave_numbers * r).sin() / r * cutoff)
        messages = self.product(self.x[self.sender], self.y, weights)
        return messages.new_zeros(len(self.x), messages.shape[1]).index_add_(0, self.receiver, messages)

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
    # Only times go to the driver; the packages' messages go elsewhere.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import torch

    present, convolution = None, None
    for line in sys.stdin:
        request = json.loads(line)
        torch.set_num_threads(request["threads"])
        if present != (request["name"], request["type"]):
            convolution = None
            convolution = Convolution(request, {"float": torch.float32, "double": torch.float64}[request["type"]])
            for _ in range(WARM_UP):
                convolution.run_forward()
                convolution.run_both()
            present = request["name"], request["type"]
        answer = {}
        for name, function in (("forward", convolution.run_forward), ("both", convolution.run_both)):
            answer[name] = []
            for _ in range(request["evaluations"]):
                begin = time.perf_counter()
                function()
                answer[name].append(time.perf_counter() - begin)
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
