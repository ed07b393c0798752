# SPDX-License-Identifier: MIT
"""Figures in README.md, CHANGELOG.md and the manual that stand in bench/results are those of the files there.

Each of the functions below writes the sentences and table rows of a page as they must be. Only white space may differ.
"""

import functools
import math
import re
import statistics
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
import picture  # noqa: E402
import samples  # noqa: E402
import single_figures  # noqa: E402

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


def single():
    """Measurements that no driver writes into a file of its own."""
    values = {one["name"]: float(one["value"]) for one in samples.rows_of("measured")}
    values |= {name: values[a] / values.get(b, b) for name, (a, b) in single_figures.RATIOS.items()}
    for page, sentence in single_figures.SENTENCES:
        yield page, sentence.format(**values).replace("e-0", "e-")
    longer = values["uma_memory_equi"] / samples.least_times("step_uma_s")[0]
    yield "doc/models/uma_esen.rst", f"and takes about {longer:.1f} times as long"
    yield "doc/models/uma_esen.rst", f"or {43 * values['uma_edge'] / 1000:.1f} MB for an atom with 43 neighbors"


def tables():
    """Tables and sentences of files whose rows stand on pages as they are."""
    page = "doc/performance.rst"
    for one in samples.rows_of("steps_zen4"):
        times = (one["equi_us_per_atom_step"], one["framework_us_per_atom_step"], one["ratio"])
        yield page, row(f"{one['model']}, {one['system']}", *times)
    for one in samples.rows_of("batches"):
        yield page, row(f"{one['model']}, ``{one['precision']}``, {one['cpu']}", *[one[f"batch_{n}"] for n in (8, 16, 32, 64, 128)])
    for one in samples.rows_of("tables_tried"):
        yield page, row(one["change"], one["time"])
    ratios = []
    for one in samples.rows_of("precisions"):
        mixed, double = one["mixed_us_per_atom"], one["double_us_per_atom"]
        ratios.append(float(double) / float(mixed))
        if "Zen 4" in one["cpu"]:
            yield "CHANGELOG.md", f"*double* takes {ratios[-1]:.1f} times the time of *mixed* on an AMD EPYC (Zen 4)"
        yield page, row(f"{one['model']}, {one['cpu']}", mixed, double, f"{ratios[-1]:.1f}")
    best = {}
    for one in samples.rows_of("peers"):
        key = one["model"], one["side"]
        best[key] = min(best.get(key, 1e9), float(one["us_per_atom_step"]))
    ratios += [best[model, "equi double"] / best[model, "equi"] for model, side in best if side == "equi"]
    yield page, f"*Double* takes {min(ratios):.1f} to {max(ratios):.1f} times as long as *mixed*."
    for one in samples.rows_of("phonons"):
        equi, lammps = one["equi_dynamical_matrix_s"], one["dynamical_matrix_s"]
        yield page, row(f"{one['symmetry']}, ``{one['precision']}``", f"{equi} s", f"{lammps} s", f"{float(lammps) / float(equi):.1f}")
    for one in samples.rows_of("gaunt"):
        pairs = (f"{one[form + '_forward_ns']} and {one[form + '_backward_ns']}" for form in ("tree", "grid"))
        yield "doc/models/gaunt.rst", " ".join((one["L"], *pairs, one["used"]))
    products = {int(one["L"]): {key: int(number) for key, number in one.items()} for one in samples.rows_of("gaunt_products")}
    for name, column in (("tree, forward", "tree_forward"), ("grid, forward", "grid_forward"), ("tree, backward", "tree_backward"),
                         ("grid, backward", "grid_backward"), ("all Clebsch-Gordan paths, only couplings", "clebsch_gordan")):  # fmt: skip
        yield "doc/evaluation.rst", row(name, *(str(one[column]) for one in products.values()))
    fewer = {order: one["tree_forward"] / one["grid_forward"] for order, one in products.items()}
    yield "doc/models/gaunt.rst", f"The grid needs {fewer[5]:.1f} times fewer products at L = 5 and {fewer[8]:.1f} times fewer at L = 8"
    for one in samples.rows_of("gaunt_training"):
        yield "doc/models/gaunt.rst", " ".join(list(one.values())[2:])
    for name in ("gpu_dense", "gpu_dense_errors"):
        for one in samples.rows_of(name):
            yield "doc/gpu_roofline.rst", " ".join(list(one.values())[1:])


def differences():
    """Largest differences from the frameworks, by subject."""
    found = {(one["subject"], one["precision"]): one for one in samples.rows_of("differences")}
    columns = ("energy_eV_per_atom", "force_eV_per_A", "stress_eV_per_A3")
    for (subject, precision), one in found.items():
        if precision in ("mixed", "double"):
            label = subject if precision == "double" else ""
            yield "doc/accuracy.rst", row(label, f"``{precision}``", *[one[column] for column in columns])
    energy, force, stress = ("{" + column + "} " for column in columns)
    for subject, sentence in (
        ("mace versions", f"differences in all versions are {energy}eV/atom, {force}eV/Angstrom and {stress}eV/Angstrom^3."),
        ("GeSbTe_mace_swa", f"The differences are {energy}eV/atom and {force}eV/Angstrom."),
        ("MACE_SPICE and ani500k_small_CC", f"The differences are {energy}eV/atom and {force}eV/Angstrom."),
        ("MACE-POLAR-1 periodic", f"the differences are at most {energy}eV/atom and {force}eV/Angstrom, of forces"),
        ("MACE-POLAR-1 open", f"they are at most {energy}eV/atom and {force}eV/Angstrom, because"),
    ):
        yield "doc/models/mace.rst", sentence.format(**found[subject, "float64"])


def potentials():
    """Speeds of the small potentials, and the sizes of their files."""
    page = "potentials/README.md"
    for one in samples.rows_of("potentials"):
        equi, sevennet = one["equi_us_per_atom_step"], one["sevennet_0_us_per_atom_step"]
        yield page, f"{equi} microseconds of a core per atom, and with SevenNet-0 {sevennet}, {float(sevennet) / float(equi):.0f} times as much"
    for name, framework in (("silicon", "sevenn"), ("nacl-melt", "sevenn"), ("water", "sevenn"), ("nacl-allegro", "nequip")):
        size = (ROOT / "potentials" / f"{name}.equi").stat().st_size / 1000
        yield page, f"file has {size:.0f} kB, including 3 kB of values of {framework} for checks."
    yield page, f"The file has {(ROOT / 'potentials' / 'mgo-tensornet.equi').stat().st_size / 1000:.0f} kB."
    tables = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (ROOT / page).read_text().splitlines() if line.startswith("|")]
    for state, sentence in (("liquid, 2200 K", "2200 K the two densities differ by {0:.1f} %"), ("liquid, 1600 K", "1600 K the two densities differ by {0:.0f} %"),
                            ("liquid, 300 K", "300 K the two densities differ by {0:.0f} %")):  # fmt: skip
        (cells,) = [cells for cells in tables if cells[0] == state and "±" in cells[1]]
        (own, error), (teacher, its_error) = (map(float, cell.split("±")) for cell in cells[1:3])
        difference, of_difference = abs(own - teacher), math.hypot(error, its_error)
        yield page, f"{sentence.format(100 * difference / teacher)}, which is {difference / of_difference:.1f} times the error of their difference."
    # The first table with liquids is that of silicon.
    liquids = [cells[3] for cells in tables if cells[0] in ("liquid, 1600 K", "liquid, 2200 K") and len(cells) == 6 and "±" not in cells[1]][:2]
    yield "CHANGELOG.md", f"forces in the liquid err by {liquids[0]} to {liquids[1]} instead of"
    yield "examples/melting/README.md", f"adds errors of {liquids[0]} to {liquids[1]} meV/Angstrom in the liquid"


def memory_of_arrays():
    """Bytes per atom, by array. Pages write a comma from 10,000 on."""

    def cells(one):
        return [f"{int(number):,}" if int(number) >= 10_000 else number for number in list(one.values())[1:]]

    arrays = samples.rows_of("memory_arrays")
    for one in [*arrays, *samples.rows_of("memory_arrays_gpu")]:
        yield "doc/evaluation.rst", row(one["array"], *cells(one))
    # The whole of an evaluation of 4096 atoms.
    for figure, column in (("memory_evaluation", "sevennet_0"), ("memory_lean", "sevennet_0_lean")):
        (measured,) = [float(one["value"]) for one in samples.rows_of("measured") if one["name"] == figure]
        assert round(sum(int(one[column]) for one in arrays) / 1000, 1) == measured


def wave_vectors():
    """Tables of powers of a sum over wave vectors: 16 bytes for each integer of the three directions, one of them not negative."""

    def kilobytes(atoms):
        most = int(3.14 * (10 * atoms) ** (1 / 3) / (2 * math.pi))
        return f"{16 * (most + 1 + 2 * (2 * most + 1)) / 1000:.0f} kB"

    yield "doc/latent_ewald.rst", (
        f"these are {kilobytes(1000)} per atom for 1000 atoms, {kilobytes(10_000)} for 10,000 and {kilobytes(100_000)} for 100,000."
    )


def sheets():
    """What the sheets of models have, and the jumps of HIENet."""
    page = "doc/data_sheets.rst"
    found = {name: samples.sheet_of(name) for name in sorted(path.stem.removeprefix("data_sheet_") for path in samples.RESULTS.glob("data_sheet_*.json"))}

    def names(condition):
        return [name for name, sheet in found.items() if condition(sheet)]

    yield page, f"Dynamics and times are in the sheets of {' and '.join(names(lambda sheet: 'dynamics' in sheet and 'speed' in sheet))};"
    jumps = {pair: curve["jump_of_energy_eV"] for pair, curve in found["hienet-v3"]["equi"]["pairs"].items()}
    yield page, f"the fit gives {found['hienet-v3']['equi']['crystals']['Al']['modulus_GPa']:.0f} GPa for Al"
    # The sheet has magnitudes.
    yield "doc/models/hienet.rst", f"changes there by {jumps['Na-Cl']:.2f} eV for Na and Cl,"
    yield "doc/models/hienet.rst", f"for two Si and -{jumps['O-O']:.2f} eV for two O"
    *others, last = names(lambda sheet: "framework" not in sheet)
    yield page, f"The framework's values are missing in those of {', '.join(others)} and {last}"


def certificates():
    number = len(list((ROOT / "doc" / "certificates").glob("*.json")))
    yield "CHANGELOG.md", f"The manual has such pages of {number} models."


SUBJECTS = (
    speed, accuracy, drifts, sizes, kernels_and_training, peers, gpu_agreement, gpu_speed, capacities, gpu_layers, gpu_registers, mirror_images,
    single, tables, differences, potentials, memory_of_arrays, wave_vectors, sheets, certificates,
)  # fmt: skip


def faults(sentences, text_of):
    return [f"{page}: not found: {sentence}" for page, sentence in sentences if " ".join(sentence.split()) not in text_of(page)]


def page_text(page):
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.__name__)
def test_figures_are_those_of_the_results(subject):
    found = faults(subject(), page_text)
    assert not found, "\n".join(found)


@functools.cache
def all_sentences():
    """(page, sentence) of all subjects."""
    return [(page, " ".join(sentence.split())) for subject in SUBJECTS for page, sentence in subject()]


def unchecked_text(page):
    """A page without the sentences that the subjects check."""
    checked = [sentence for name, sentence in all_sentences() if name == page]
    text = page_text(page)
    for sentence in sorted(checked, key=len, reverse=True):
        text = text.replace(sentence, " ")
    return text


# gpu_roofline.rst also tells how the kernels became what they are, in figures of sources that are gone.
HISTORIES = ("doc/gpu_roofline.rst",)
PAGES = ["README.md", "CHANGELOG.md", *sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("examples/*.md", "examples/*/README.md", "potentials/README.md", "doc/*.rst", "doc/models/*.rst") for path in ROOT.glob(pattern)
)]  # fmt: skip


@pytest.mark.parametrize("page", [page for page in PAGES if page not in HISTORIES])
def test_each_measured_speed_is_checked(page):
    """Where a page has a time, a rate or a memory per atom, one of the subjects takes it from a file."""
    units = r"us/atom|kB/atom|MB/atom|kB per atom|ns/edge|ns per edge|ms per|GFLOP/s|microseconds|times (?:faster|as long|as much)"
    assert [figure for figure in re.findall(rf"[\w.,]+ (?:{units})", unchecked_text(page)) if figure[0].isdigit()] == []


@pytest.mark.parametrize("page", ["README.md", "doc/index.rst", "doc/peers.rst"])
def test_each_difference_of_the_first_pages_is_checked(page):
    assert [figure for figure in re.findall(r"[\w.-]+ eV/atom", unchecked_text(page)) if figure[0].isdigit()] == []


def test_each_single_measurement_is_quoted():
    names = {one["name"] for one in samples.rows_of("measured")}
    used = "".join(sentence for _, sentence in single_figures.SENTENCES) + str(single_figures.RATIOS)
    assert {name for name in names if not re.search(rf"\b{name}\b", used)} == set()


def test_a_figure_that_differs_is_noticed():
    assert len(faults(speed(), lambda page: page_text(page).replace("3525", "3526"))) == 1
    assert len(faults(gpu_agreement(), lambda page: page_text(page).replace("4.5e-10", "5e-12"))) == 1


def test_a_picture_shows_one_machine():
    assert picture.machine_of(picture.STEPS)
