# SPDX-License-Identifier: MIT
"""Figures of files in bench/results that no driver writes: single ones of measured.csv, and tables of pages.

Names in braces are those of the rows of measured.csv, with a format where a page rounds the value. RATIOS are computed from two
rows. The functions yield pairs of a page and of a text, as those of driver_figures.py.
"""

import math

from driver_figures import ROOT, row, samples

RATIOS = {
    "demo_minutes": ("demo_time", 60),
    "slow_demo_minutes": ("demo_time_slow", 60),
    "esen_ratio": ("esen_fairchem", "esen_equi"),
    "uma_memory_ratio": ("uma_memory_fairchem", "uma_memory_equi"),
    "uma_ranks_ratio": ("uma_one_rank", "uma_two_ranks"),
}

PERFORMANCE = "doc/performance.rst"
DERIVATIVES = "doc/second_derivatives.rst"
ROOFLINE = "doc/gpu_roofline.rst"

SENTENCES = (
    # The build.
    ("README.md", "{demo_minutes:.0f} to {slow_demo_minutes:.0f} minutes, {demo_downloads:.0f} MB of downloads, "
                  "{demo_disk} GB of disk"),
    ("README.md", "{test_downloads:.0f} GB of downloads, {test_disk:.0f} GB of disk"),
    ("CHANGELOG.md", "downloads about {demo_downloads:.0f} MB instead of {test_downloads:.0f} GB"),
    ("doc/install.rst", "builds and runs the tests: {test_disk:.0f} GB of disk"),
    ("doc/install.rst", "(``tools/requirements-torch.txt``, {test_downloads:.0f} GB)"),
    (PERFORMANCE, "- {demo_time:.0f} s, with {demo_downloads:.0f} MB of downloads; {demo_disk} GB on the disk"),
    (PERFORMANCE, "- {start_mixed} s, including {start_lj} s that ``lj/cut`` also takes; in ``double`` {start_double} s"),
    (PERFORMANCE, "- {start_l3i5_mixed} s; in ``double`` {start_l3i5_double:.2f} s"),
    # Peaks and shares.
    (PERFORMANCE, "evaluations of SevenNet-0 reach {xeon_sevennet_0:.0f} % of the peak of its registers ({xeon_peak:.0f} GFLOP/s on a core, "
                  "``bench_evaluation``), and those of MACE {xeon_mace_least:.0f} to {xeon_mace_most:.0f} %."),
    (PERFORMANCE, "they reach {xeon_avx2:.0f} %: see"),
    (PERFORMANCE, "reached {zen4_sevennet_0:.0f} % (SevenNet-0), {zen4_mace_medium:.0f} % (MACE medium) and {zen4_mace_small:.0f} % (small) "
                  "of the peak of that processor's registers ({zen4_peak:.0f} GFLOP/s on a core)."),
    (PERFORMANCE, "Dense products reach {zen3_dense_least:.0f} to {zen3_dense_most:.0f} GFLOP/s on a core there, the peak of its "
                  "registers.  The shape of UMA-S needs {zen3_uma_operations} GFLOP for an atom, which bounds its ratio to"),
    (PERFORMANCE, "SevenNet-0 spends {xeon_convolutions:.0f} % of its time in convolutions, {xeon_products:.0f} % in dense products "
                  "and {xeon_rest:.0f} % in the rest"),
    (PERFORMANCE, "Separate dense products reach {xeon_dense:.0f} % of the peak"),
    ("doc/evaluation.rst", "run at {model_207_float_least:.0f} to {model_207_float_most:.0f} GFLOP/s in float32 and at "
                           "{model_207_double_least:.0f} to {model_207_double_most:.0f} in float64"),
    ("doc/models/allegro.rst", "with a peak of {zen4_peak:.0f} GFLOP/s in float32, dense products of this shape reach "
                               "{allegro_products_least:.0f} to {allegro_products_most:.0f} GFLOP/s."),
    ("doc/models/allegro.rst", "{allegro_products_share:.0f} % of the samples of a profile, and the tables of functions of the distance are "
                               "{allegro_tables_share:.0f} %."),
    ("doc/models/allegro.rst", "took {allegro_large_equi:.0f} ms per atom of copper on the same two cores as in the table, and nequip's "
                               "calculator {allegro_large_nequip:.0f} ms."),
    # UMA and eSEN.
    (PERFORMANCE, "(*memory 0.2*) - {uma_memory_equi:.0f} - {uma_memory_fairchem:.0f} - {uma_memory_ratio:.2f}"),
    (PERFORMANCE, "minima of three turns - {esen_equi:,.0f} - {esen_fairchem:,.0f} - {esen_ratio:.2f}"),
    (PERFORMANCE, "512 atoms - {uma_two_ranks:.0f} and {uma_one_rank:.0f} - - {uma_ranks_ratio:.2f}"),
    (PERFORMANCE, "- {uma_edges_not_kept:.0f} kB/atom, {uma_scratch:.0f} of them scratch of threads"),
    (PERFORMANCE, "- {uma_large:.0f} us/atom, {uma_large_memory} MB/atom"),
    ("doc/models/uma_esen.rst", "{uma_edge:.0f} kB for an edge"),
    ("doc/models/uma_esen.rst", "down to {uma_edges_not_kept:.0f} kB for an atom"),
    # Memory.
    (PERFORMANCE, "- {memory_evaluation} kB/atom"),
    (PERFORMANCE, "which takes {time_lean} % longer (512 atoms, one thread) - {memory_lean} kB/atom"),
    (PERFORMANCE, "a smaller reserve, two threads - {memory_lean_large} kB/atom"),
    (PERFORMANCE, "lean takes {time_mace_lean} % longer - {memory_mace} and {memory_mace_lean} kB/atom"),
    (PERFORMANCE, "in {convert_time:.0f} s with {convert_memory} GB. The file has {convert_file} MB for {convert_weights} MB of weights, and "
                  "``lmp`` starts in {convert_start} s."),
    (PERFORMANCE, "- {drift_slow} meV/atom/ps"),
    # Second derivatives.
    (PERFORMANCE, "Hessian-vector product, 512 atoms - {hvp_double:.1f} - {hvp_mixed}"),
    (DERIVATIVES, "it took {hvp_double:.1f} evaluations in *precision double* and {hvp_mixed} in *mixed*"),
    (PERFORMANCE, "per row, AVX2 - {row_double} - {row_mixed}"),
    (DERIVATIVES, "a row took {row_double:.1f} evaluations in *double* and {row_mixed:.1f} in *mixed*"),
    (PERFORMANCE, "Per row the ratios are {row_ratio_double} and {row_ratio_mixed}"),
    (PERFORMANCE, "with 6 products - {phonons_crystal_double} and {phonons_crystal_mixed} s"),
    (DERIVATIVES, "{heat_flux_double:.1f} evaluations of only the energy, or {heat_flux_double_forces} of energy and forces"),
    (DERIVATIVES, "it took {heat_flux_mixed} and {heat_flux_mixed_forces}. In *double* a MACE of the medium shape took {heat_flux_mace} "
                  "evaluations of the energy, and a NequIP {heat_flux_nequip}."),
    (DERIVATIVES, "with compiled kernels took {heat_flux_tensornet},"),
    # Ranks.
    (PERFORMANCE, "2 ranks of one thread take {ranks_512} times as long as one rank of 2 threads for 512 atoms, and {ranks_64} times for 64"),
    ("CHANGELOG.md", "2 ranks take {ranks_512} times as long as 2 threads for 512 atoms of NaCl"),
    # GPUs.
    (ROOFLINE, "takes {gpu_pair_64} and {gpu_pair_1000} ms of these"),
    (ROOFLINE, "Mixed precision spends {gpu_convolutions} ns on convolutions, {gpu_products} on dense products"),
    ("doc/models/gaunt.rst", "the grid takes {gaunt_float64_3} times as long as couplings at L = 3 and {gaunt_float64_4:.2f} times at L = 4."),
    # Examples.
    ("examples/water_spectra/README.md", "A step took {spectra_step:.0f} microseconds of a core per atom, and an evaluation of the dielectric "
                                         "model {spectra_dielectric} (AMD EPYC, Zen 5,"),
    # The model tool.
    ("doc/model_tool.rst", "a path group takes about {compile_path_group:.0f} s and a contraction {compile_contraction:.0f} s."),
    ("doc/model_tool.rst", "were then {compile_gain_path_groups} and {compile_gain_contractions} times faster."),
)  # fmt: skip


def single():
    """Measurements that no driver writes into a file of its own."""
    values = {one["name"]: float(one["value"]) for one in samples.rows_of("measured")}
    values |= {name: values[a] / values.get(b, b) for name, (a, b) in RATIOS.items()}
    for page, sentence in SENTENCES:
        yield page, sentence.format(**values).replace("e-0", "e-")
    longer = values["uma_memory_equi"] / samples.least_times("step_uma_s")[0]
    yield "doc/models/uma_esen.rst", f"and takes about {longer:.1f} times as long"
    yield "doc/models/uma_esen.rst", f"or {43 * values['uma_edge'] / 1000:.1f} MB for an atom with 43 neighbors"


def tables():
    """Tables and sentences of files whose rows stand on pages as they are."""
    page = "doc/performance.rst"
    for one in (*samples.rows_of("steps_zen4"), *samples.rows_of("steps_zen3")):
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


SUBJECTS = (single, tables, differences, potentials, memory_of_arrays, wave_vectors, sheets, certificates)
