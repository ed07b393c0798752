#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time of torch.ops.equi.gaunt_product against e3nn's grid on the sphere, for products of orders L and L to L.

e3nn's route is ToS2Grid of both factors, a product of values, and FromS2Grid, on its smallest grid that is exact. A
check in float64 confirms that. The two take turns (A B A B ...) in one process, only forward and with gradients by
both factors.
"""

import math
import time

import common


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=16384, help="functions, atoms times channels (default: %(default)s)")
    parser.add_argument("--orders", type=int, nargs="+", default=list(range(1, 9)), help="default: 1 to 8")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=1, help="threads of either side (default: %(default)s)")
    args = parser.parse_args()
    common.enter_torch_environment(args.build_dir)

    import torch
    from e3nn import o3
    from equi_torch import gaunt_product

    torch.set_num_threads(args.cores)
    common.warn_if_busy()
    print(f"{common.cpu_name()}, {args.cores} threads, {args.rows} rows, float32, ns per row (CPU time), fastest turn")
    print("L   grid      error    forward: e3nn    equi  ratio   with gradients: e3nn    equi  ratio")

    def grid_product(order, dtype):
        # Exact for polynomials of degree 3 L; the number of rings must be even.
        rings, angles = 2 * ((3 * order + 2) // 2), 3 * order + 1 + order % 2
        default = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        to = o3.ToS2Grid(order, (rings, angles), normalization="integral")
        back = o3.FromS2Grid((rings, angles), order, normalization="integral", lmax_in=3 * order // 2)
        torch.set_default_dtype(default)
        scale = math.sqrt(4 * math.pi)
        return (rings, angles), lambda a, b: back(to(a) * to(b)) * scale

    def seconds(function):
        start = time.process_time()
        function()
        return time.process_time() - start

    for order in args.orders:
        generator = torch.Generator().manual_seed(1)
        a, b = (torch.randn(args.rows, (order + 1) ** 2, generator=generator) for _ in range(2))
        grid, exact = grid_product(order, torch.float64)
        expected = exact(a[:64].double(), b[:64].double())
        error = (gaunt_product(a[:64].double(), b[:64].double(), order) - expected).abs().max() / expected.abs().max()
        sides = [grid_product(order, torch.float32)[1], lambda x, y: gaunt_product(x, y, order)]
        columns = []
        for gradients in (False, True):
            x, y = (t.clone().requires_grad_(gradients) for t in (a, b))

            def run(side):
                out = side(x, y)
                if gradients:
                    torch.autograd.grad(out, (x, y), a)

            fastest = [math.inf, math.inf]
            for turn in range(args.rounds + 1):
                for k, side in enumerate(sides):
                    t = seconds(lambda: run(side))
                    if turn:  # the first one warms up
                        fastest[k] = min(fastest[k], t)
            columns.append([1e9 * t / args.rows for t in fastest])
        text = "   ".join(f"{e3nn:15.0f} {equi:7.0f} {e3nn / equi:6.1f}" for e3nn, equi in columns)
        print(f"{order}   {grid[0]:2d}x{grid[1]:2d}  {float(error):9.1e}  {text}", flush=True)


if __name__ == "__main__":
    main()
