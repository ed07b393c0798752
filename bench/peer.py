# SPDX-License-Identifier: MIT
"""The process of bench/step.py, bench/sweep.py and bench/peers.py that runs the own calculator of a model's framework.

Each line on standard input has a number of evaluations and optionally one of threads. The answer is one line with this
many times in seconds. Between two evaluations all atoms move a little, so nothing can be reused. An evaluation is
energy, forces and stress. The line `forces FILE` writes the forces to FILE in numpy's format; its answer is the
precision of the model's parameters.
"""

import contextlib
import os
import sys
import time


def precision_of(calculator):
    """The type of the first parameter of the calculator's first model, as torch calls it. Modules of equinox (JAX) are
    trees of their arrays."""
    import torch

    for value in vars(calculator).values():
        for module in value if isinstance(value, list | tuple) else [value]:
            if isinstance(module, torch.nn.Module):
                for parameter in module.parameters():
                    return str(parameter.dtype).removeprefix("torch.")
            elif "equinox" in sys.modules and isinstance(module, sys.modules["equinox"].Module):
                for leaf in sys.modules["jax"].tree.leaves(module):
                    if getattr(leaf, "ndim", 0) > 0:
                        return str(leaf.dtype)
    return "unknown"


def main():
    system, cells, source, choice, threads = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
    # Only times go to the driver; messages of the packages go to standard error.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import common

    sys.path.insert(0, str(common.SOURCE_TREE / "tools"))
    import numpy as np
    import torch
    from equi_tools import frameworks

    torch.set_num_threads(threads)
    atoms = common.make_system(system, cells)
    framework = frameworks.require(source)
    if framework.backend == "jax":
        # JAX has no number of threads. It starts one for each core that the process may use.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    atoms.calc = framework.framework_calculator(source, choice or None)
    if hasattr(atoms.calc, "run_fastest"):
        atoms.calc.run_fastest()
    rng = np.random.default_rng(2)
    answers.write(f"{len(atoms)}\n")
    for line in sys.stdin:
        if line.startswith("forces "):
            with open(line.split(maxsplit=1)[1].rstrip("\n"), "wb") as stream:
                np.save(stream, atoms.get_forces())
            answers.write(precision_of(atoms.calc) + "\n")
            continue
        times = []
        count, *wanted = map(int, line.split())
        if wanted:
            torch.set_num_threads(wanted[0])
        for _ in range(count):
            atoms.positions += 1e-3 * rng.standard_normal((len(atoms), 3))
            begin = time.perf_counter()
            atoms.get_potential_energy()
            atoms.get_forces()
            atoms.get_stress()
            times.append(time.perf_counter() - begin)
        answers.write(" ".join(f"{t:.6f}" for t in times) + "\n")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
