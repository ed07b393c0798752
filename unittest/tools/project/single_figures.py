# SPDX-License-Identifier: MIT
"""Sentences with figures of bench/results/measured.csv, and rows of tables that are those of a file there.

Names in braces are those of the rows, with a format where a page rounds the value. RATIOS are computed from two rows.
"""

RATIOS = {
    "demo_minutes": ("demo_time", 60),
    "esen_ratio": ("esen_fairchem", "esen_equi"),
    "uma_memory_ratio": ("uma_memory_fairchem", "uma_memory_equi"),
    "uma_ranks_ratio": ("uma_one_rank", "uma_two_ranks"),
}

PERFORMANCE = "doc/performance.rst"
DERIVATIVES = "doc/second_derivatives.rst"
ROOFLINE = "doc/gpu_roofline.rst"

SENTENCES = (
    # The build.
    ("README.md", "{demo_minutes:.0f} to 10 minutes, {demo_downloads:.0f} MB of downloads, {demo_disk} GB of disk"),
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
    # The model tool.
    ("doc/model_tool.rst", "a path group takes about {compile_path_group:.0f} s and a contraction {compile_contraction:.0f} s."),
    ("doc/model_tool.rst", "were then {compile_gain_path_groups} and {compile_gain_contractions} times faster."),
)  # fmt: skip
