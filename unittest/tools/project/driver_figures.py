# SPDX-License-Identifier: MIT
"""Figures of files in bench/results that drivers write, in the sentences and table rows of pages.

Each of the functions below yields pairs of a page and of a text that the page must have. Only white space may differ.
"""

import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
import picture  # noqa: E402
import samples  # noqa: E402

L1_PER_NS, ISSUED_PER_NS = 261, 1045  # of an H200: 132 multiprocessors at 1.98 GHz
MAIN_LAYER = ("sevennet0-middle", "float", "2")  # problem, type, threads


def power(number):
    """Two digits as pages write them: 5.0e-12."""
    return re.sub(r"e([+-])0", r"e\1", f"{number:.1e}").replace("e+", "e")


def row(*cells):
    """A row of a list-table, with single spaces."""
    return "* - " + " - ".join(cells)


def largest(name, column, **where):
    return max(float(one[column]) for one in samples.rows_of(name) if one[column] and where.items() <= one.items())


def value(name, column, **where):
    """The number of the only row with these values."""
    (one,) = [one for one in samples.rows_of(name) if where.items() <= one.items()]
    return float(one[column])


def ratio(name):
    equi, framework = samples.least_times(name)
    return framework / equi


def speed():
    """The picture's first part in README.md, and the table of the page on performance."""
    ratios = [ratio(name) for name in picture.STEPS if name != "step_uma_s"]
    uma = picture.ratio_text(ratio("step_uma_s"))
    yield "README.md", (
        f"equi is {min(ratios):.0f} to {max(ratios):.0f} times faster per step than the framework's own "
        f"calculator, and {uma} times "
        "for the shape of UMA-S."
    )
    labels = {
        "step_nacl": "SevenNet-0, 512 atoms of NaCl", "step_cu": "SevenNet-0, 500 atoms of fcc Cu",
        "step_water": "SevenNet-0, 648 atoms of water",
        "step_l3i5": "SevenNet-l3i5, 512 atoms of NaCl", "step_mace_small": "MACE small (128x0e), 512 atoms of NaCl",
        "step_mace_medium": "MACE medium (128x0e+128x1o), 512 atoms of NaCl",
        "step_nequip": "NequIP (64 features), 512 atoms of NaCl",
    }  # fmt: skip
    for name, label in labels.items():
        equi, framework = samples.least_times(name)
        yield "doc/performance.rst", row(label, f"{equi:.0f}", f"{framework:.0f}", f"{framework / equi:.0f}")
    equi, framework = samples.least_times("step_tensornet")
    yield "doc/performance.rst", f"after ``equi compile`` - {equi:.0f} - {framework:.0f} - {framework / equi:.0f}"
    equi, framework = samples.least_times("step_uma_s")
    yield "doc/performance.rst", row("us/atom, minima of five turns", f"{equi:.0f}", f"{framework:.0f}", f"{framework / equi:.2f}")
    equi, framework = map(statistics.median, samples.sides_of("step_uma_s"))
    yield "doc/performance.rst", row("the same, medians", f"{equi:.0f}", f"{framework:.0f}", f"{framework / equi:.2f}")
    equi, framework = samples.least_times("step_nequix")
    yield "doc/performance.rst", (
        f"Nequix-MP-1 takes {equi:.0f} us/atom and its package {framework:.0f} (JAX, compiled), "
        f"{framework / equi:.0f} times as long"
    )
    equi, framework = samples.least_times("step_so3lr")
    yield "doc/performance.rst", f"SO3LR gains less: {equi:.0f} us/atom, and {framework:.0f} with its package"


def accuracy():
    columns = ("energy_eV_per_atom", "force_eV_per_A", "stress_eV_per_A3")
    mixed, double = (
        [power(largest("accuracy", column, precision=precision)) for column in columns] for precision in ("mixed", "double")
    )
    yield "doc/accuracy.rst", (
        f"* - SevenNet-0, 29 structures - ``double`` - {' - '.join(double)} * - - ``mixed`` - "
        f"{' - '.join(mixed)} "
    )
    for precision, bound in (("mixed", 1e-6), ("double", 1e-11)):
        assert bound / 10 < largest("accuracy", columns[0], precision=precision) < bound
    yield "README.md", "below 1e-6 eV/atom in mixed and 1e-11 eV/atom in double precision."


def drifts():
    def numbers(model, precision, column):
        return value("drift", column, model=model, precision=precision)

    drift, deviation = "drift_ueV_per_atom_per_ps", "deviation_ueV_per_atom"
    for precision in ("mixed", "double"):
        yield "doc/accuracy.rst", (
            f"*{precision}* {numbers('nacl-mace', precision, drift):.3f} {numbers('nacl-mace', precision, deviation):.2f}"
        )
    a, b = (numbers("nacl-nequip", precision, drift) for precision in ("mixed", "double"))
    c, d = (numbers("nacl-nequip", precision, deviation) for precision in ("mixed", "double"))
    yield "doc/accuracy.rst", f"the drifts were {a:.3f} and {b:.3f}, the deviations {c:.2f} and {d:.2f}"
    a, b = (numbers("mgo-tensornet", precision, drift) for precision in ("mixed", "double"))
    yield "doc/accuracy.rst", (
        f"The drifts were {a:.3f} and {b:.3f}, the deviations {numbers('mgo-tensornet', 'mixed', deviation):.2f} "
        "in both"
    )
    for model, sentence in (
        ("nacl-melt", "the number of pairs varies between {} and {}, and at least {} come or go"),
        ("mgo-tensornet", "{} to {} pairs were within the cutoff, and at least {} came or went"),
    ):
        rows = [one for one in samples.rows_of("drift") if one["model"] == model]
        least, most, changes = ([int(one[name]) for one in rows] for name in ("least_pairs", "most_pairs", "changes_of_pairs"))
        yield "doc/accuracy.rst", sentence.format(min(least), max(most), min(changes))
    a, b = (numbers("nacl-melt", precision, drift) for precision in ("mixed", "double"))
    c, d = (numbers("nacl-melt", precision, deviation) for precision in ("mixed", "double"))
    yield "doc/accuracy.rst", f"The drifts were {a:.2f} and {b:.2f}, the deviations {c:.2f} and {d:.2f}."
    yield "doc/accuracy.rst", (
        f"The drifts were {numbers('esen-random', 'double', drift):.3f} in *double* and "
        f"{numbers('esen-random', 'mixed', drift):.1f} in *mixed*"
    )


def sizes():
    """One thread and two, from 64 to 21,952 atoms; memory."""
    best = {}
    for one in samples.rows_of("sweep"):
        key = one["threads"], int(one["atoms"])
        best[key] = min(best.get(key, 1e9), float(one["us_per_atom_step"]))
    one, two = ([best[key] for key in sorted(best) if key[0] == threads] for threads in "12")
    yield "doc/performance.rst", f"64 to 21,952 atoms, one thread - {min(one):.0f} to {max(one):.0f} us"
    gains = [a / b for a, b in zip(one, two)]
    yield "doc/performance.rst", (
        f"the same on two threads - {min(two):.0f} to {max(two):.0f} us ({min(gains):.2f} to {max(gains):.1f} "
        "times faster)"
    )
    (n1, p1), (n2, p2) = ((int(row["atoms"]), int(row["peak_kB"])) for row in samples.rows_of("sweep_memory"))
    large, small = (p2 - p1) / (n2 - n1), samples.memory_per_atom("sevennet-0")
    yield "doc/performance.rst", f"growth of the peak memory, 4096 to 21,952 atoms, measured before features shared memory - {large:.0f} kB/atom"
    yield "doc/performance.rst", f"the same, 512 to 4096 atoms - {small:.0f} kB/atom"
    yield "doc/performance.rst", f"the peak grows by {large:.0f} to {small:.0f} kB with each atom"
    yield "doc/models/allegro.rst", f"A run of 1,029,000 atoms had a peak of {largest('memory', 'peak_kB', model='allegro') / 1e6:.1f} GB."


def kernels_and_training():
    main = next(one for one in samples.rows_of("kernels") if (one["problem"], one["type"], one["threads"]) == MAIN_LAYER)
    numbers = {key: float(one) for key, one in main.items() if key.startswith(("generated", "speedup")) and one}
    yield "doc/performance.rst", (
        f"take {numbers['generated_forward_ns_per_edge']:.0f} ns/edge forward and "
        f"{numbers['generated_backward_ns_per_edge']:.0f} ns/edge backward in "
        f"float32 on two threads: {100 * numbers['generated_forward_of_peak']:.0f} and "
        f"{100 * numbers['generated_backward_of_peak']:.0f} % of the "
        f"measured peak. e3nn's convolution takes {numbers['speedup_both']:.0f} times as long"
    )
    rows = samples.rows_of("training")
    equi, e3nn = ([float(one["seconds"]) for one in rows if one["side"] == side] for side in ("equi", "e3nn"))
    yield "doc/performance.rst", (
        f"takes {min(equi):.2f} s with ``torch.ops.equi``, and in turn {min(e3nn):.2f} s with e3nn's "
        f"convolution: {min(e3nn) / min(equi):.1f} times as long"
    )
    yield "doc/performance.rst", (
        f"(medians {statistics.median(equi):.2f} and {statistics.median(e3nn):.2f} s; ``bench/training.py``)"
    )


def peers():
    samples_of = {}
    for one in samples.rows_of("peers"):
        samples_of.setdefault((one["model"], one["side"]), []).append(one)
    models = {"small_first_plain.equi": "MACE small", "medium_first_plain.equi": "MACE medium", "sevennet-0.equi": "SevenNet-0"}
    sides = {"equi": "equi", "equi double": "equi", "mace": "MACECalculator", "sevenn": "SevenNetCalculator"}
    for (model, side), rows in samples_of.items():
        times, first = [float(one["us_per_atom_step"]) for one in rows], rows[0]
        own = "equi double" if first["precision"] == "double" else "equi"
        least = min(float(one["us_per_atom_step"]) for one in samples_of[model, own])
        yield "doc/peers.rst", row(
            models[model], f"``{sides.get(side, side)}``", first["precision"], f"{first['ranks']} x {first['threads']}",
            f"{min(times):,.0f}", f"{statistics.median(times):,.0f}", f"{min(times) / least:.1f}", power(float(first["force_error_max"])),
            power(float(first["force_error_rms"])), first["memory_MB"],
        )  # fmt: skip


def gpu_agreement():
    def cells(name, column):
        return [power(largest(name, column, precision=precision)) for precision in ("mixed", "double")]

    page = "doc/accuracy.rst"
    yield page, row("energy, eV/atom (``gpu_check.csv``)", *cells("gpu_check", "energy"))
    yield page, row("force, eV/Angstrom (``gpu_check.csv``)", *cells("gpu_check", "force"))
    yield page, row("force in LAMMPS with *equi/kk* (``gpu_lammps_check.csv``)", *cells("gpu_lammps_check", "force"))
    yield page, row("derivative of forces, relative (``gpu_directions.csv``)", *cells("gpu_directions", "tangent"))
    for name in ("gpu_check", "gpu_lammps_check", "gpu_directions"):
        assert {one["agrees"] for one in samples.rows_of(name)} == {"yes"}


def gpu_speed():
    page = "doc/gpu_roofline.rst"

    def evaluation(column, atoms, precision="mixed", model="sevennet-0"):
        # Batch 0 is the default size of a launch.
        return value("gpu_steps", column, model=model, precision=precision, batch="0", atoms=str(atoms))

    def step(column, atoms):
        return value("gpu_lammps", column, atoms=str(atoms))

    small, medium = (evaluation("ms_per_evaluation", atoms) for atoms in (64, 1000))
    yield page, f"An evaluation of 64 atoms takes {small:.2f} ms, and one of 1000 atoms {medium:.2f} ms."
    sizes = (13824, 32768, 85184, 216000, 592704)
    edges, memory = ([evaluation(column, atoms) for atoms in sizes] for column in ("ns_per_edge", "kB_per_atom"))
    yield page, (
        f"An evaluation of 14,000 to 600,000 atoms takes {min(edges):.1f} to {max(edges):.1f} ns per edge in "
        "mixed precision, or "
        f"{evaluation('us_per_atom', sizes[-1]):.2f} microseconds per atom, with {min(memory):.0f} to "
        f"{max(memory):.0f} kB per atom"
    )
    yield "CHANGELOG.md", (
        f"SevenNet-0 takes {min(edges):.1f} to {max(edges):.1f} ns per edge in large systems, and an evaluation "
        f"of 1000 atoms {medium:.2f} ms."
    )
    double = [evaluation("ns_per_edge", atoms, "double") for atoms in sizes]
    yield page, f"In float64 it takes {min(double):.0f} to {max(double):.0f} ns."
    assert {f"{step('us_per_atom_step', atoms):.1f}" for atoms in (64000, 512000, 1000000)} == {"0.6"}
    yield page, (
        f"takes {step('us_per_atom_step', 64000):.2f} microseconds per atom and step from 64,000 to 1,000,000 "
        f"atoms, {step('ms_per_step', 512000):.0f} ms for 512,000"
    )
    edges_per_atom = value("gpu_steps", "edges", model="sevennet-0", precision="mixed", batch="0", atoms="592704") / 592704
    yield page, f"308 ms for 512,000, which are {1000 * step('us_per_atom_step', 512000) / edges_per_atom:.1f} ns per edge"
    yield page, f"64 atoms take {step('ms_per_step', 64):.2f} ms and 1000 atoms {step('ms_per_step', 1000):.2f} ms per step"
    mace = {"model": "mace medium"}
    yield page, (
        f"takes {evaluation('ns_per_edge', 13824, **mace):.1f} ns per edge, or "
        f"{evaluation('us_per_atom', 13824, **mace):.2f} microseconds per atom, "
        f"with 13,824 atoms, and {evaluation('ms_per_evaluation', 1000, **mace):.2f} ms with 1000"
    )
    yield "doc/performance.rst", (
        f"needs {evaluation('kB_per_atom', 592704):.1f} kB for each of 592,704 atoms, and "
        f"{evaluation('kB_per_atom', 592704, 'double'):.1f} in *double*. "
        f"Small systems need more for each atom: {evaluation('kB_per_atom', 1000):.1f} kB with 1000 atoms in "
        "*mixed*. The shape of MACE medium needs "
        f"{evaluation('kB_per_atom', 13824, **mace):.1f} kB with 13,824 atoms"
    )


def capacities():
    """What the memory of a machine holds, from the largest need of an atom."""
    per_atom = value("gpu_steps", "kB_per_atom", model="sevennet-0", precision="mixed", batch="0", atoms="592704")
    assert 80e6 / per_atom > 1e6
    yield "doc/performance.rst", "A GPU with 80 GB therefore holds more than a million atoms of SevenNet-0"
    (n1, p1), (n2, p2) = ((int(row["atoms"]), int(row["peak_kB"])) for row in samples.rows_of("sweep_memory"))
    assert 64e6 / max((p2 - p1) / (n2 - n1), samples.memory_per_atom("sevennet-0")) > 1.5e6
    yield "doc/performance.rst", "A node with 64 GB therefore holds more than 1.5 million atoms."


def gpu_layers():
    page = "doc/gpu_roofline.rst"
    layer = {"model": "sevennet-0", "precision": "mixed", "layer": "1", "atoms": "32768"}
    times = [value("gpu_layers", f"{name}_ns_per_edge", **layer) for name in ("forward", "backward", "gather", "fused")]
    for one, time in zip(samples.rows_of("gpu_wavefronts"), times):
        bounds = (f"{int(one[column]) / rate:.2f}" for column, rate in (("deliveries", L1_PER_NS), ("instructions", ISSUED_PER_NS)))
        yield page, row(*list(one.values())[2:], *bounds, f"{time:.2f}")
    first = [value("gpu_layers", f"{name}_ns_per_edge", **{**layer, "layer": "0"}) for name in ("forward", "backward")]
    yield page, f"2.83 ns forward and 2.97 backward became {first[0]:.2f} and {first[1]:.2f}"
    energy = value("gpu_check", "energy", model="sevennet-0", precision="mixed")
    energy = f"{energy:.0e}".replace("e-0", "e-")
    yield page, f"is 3.4e-7 eV per atom; with it {energy}, and with cuBLAS 6e-9."
    yield "doc/pair_equi.rst", f"errors of energies are about {energy} instead of 6e-9 eV/atom."
    weights, rows, bytes_of_float = 960, 6, 4  # of the main layer
    table = weights * rows * bytes_of_float / 1000
    yield page, f"Each edge reads {table:.1f} kB of table in each pass."
    yield "doc/performance.rst", f"A convolution reads {table:.0f} kB of a table for each edge and pass"
    both = times[0] + times[3]
    sides = ("OpenEquivariance", "OpenEquivariance, fixed order", "cuEquivariance")
    forward = {side: value("gpu_peers", "forward_ns_per_edge", side=side) for side in sides}
    whole = {side: value("gpu_peers", "both_ns_per_edge", side=side) for side in forward}
    atomics, fixed, cu = forward
    yield page, (
        f"takes {forward[fixed]:.1f} ns per edge forward with sums in a fixed order, and {forward[atomics]:.1f} "
        "by atomics. With the gradients it takes "
        f"{whole[fixed]:.1f} and {whole[atomics]:.1f}. CuEquivariance 0.13 takes {forward[cu]:.1f} and {whole[cu]:.1f} ns"
    )
    yield page, (
        f"equi takes {times[0]:.2f} and {both:.2f} ns, in a fixed order: OpenEquivariance at its best takes "
        f"{min(forward[atomics], forward[fixed]) / times[0]:.1f} times as long forward and "
        f"{min(whole[atomics], whole[fixed]) / both:.1f} times with the gradients, cuEquivariance "
        f"{forward[cu] / times[0]:.1f} and {whole[cu] / both:.1f} times."
    )
    given = {
        column: {side: value("gpu_peers", f"product_{column}_ns_per_edge", side=side) for side in sides}
        for column in ("forward", "both")
    }
    best = {column: min(one[atomics], one[fixed]) for column, one in given.items()}
    yield page, (
        f"they take {best['forward']:.1f} and {best['both']:.1f} ns, and {given['forward'][cu]:.1f} and "
        f"{given['both'][cu]:.1f}."
    )


def gpu_registers():
    rows = [one for one in samples.rows_of("cuda_registers") if one["architecture"] == "sm_90"]
    found = {}
    for one in rows:
        kind = "contractions" if one["path_groups"].startswith("contraction_") else "convolutions"
        found.setdefault(kind, []).append(max(int(one["spill_stores"]), int(one["spill_loads"])))
    spilled = {kind: sum(map(bool, counts)) for kind, counts in found.items()}
    convolutions, contractions = found["convolutions"], found["contractions"]
    yield "bench/README.md", (
        f"For sm_90, {spilled['convolutions']} of the {len(convolutions)} kernels of convolutions spill, by up "
        f"to {max(convolutions)} bytes. "
        f"So do {spilled['contractions']} of the {len(contractions)} kernels of contractions, by up to "
        f"{max(contractions) / 1000:.0f} kB"
    )
    yield "doc/gpu_roofline.rst", f"of order 3 in float64, with {max(convolutions)} bytes."


def mirror_images():
    (found,) = [one for one in samples.sheet_of("sevennet-0")["properties"] if one["name"] == "no_mirror_symmetry"]
    yield "doc/choosing_a_model.rst", (
        f"the energies of SevenNet-0 for a random {found['numbers']['structure']} and its mirror image differ by "
        f"{1000 * found['numbers']['energy_eV_per_atom']:.2g} meV/atom."
    )


SUBJECTS = (
    speed, accuracy, drifts, sizes, kernels_and_training, peers, gpu_agreement, gpu_speed, capacities, gpu_layers, gpu_registers, mirror_images,
)  # fmt: skip
