# SPDX-License-Identifier: MIT
"""The promises of the keywords of pair_style equi."""

import re

import numpy as np
import pytest
from equi_tools import equi_file
from lammps_script import FORCE_DUMP
from test_forces_and_virials import CASES, system

RESULT = [
    "compute virial all pressure NULL virial",
    "compute energies all pe/atom",
    "thermo_style custom step pe c_virial[*]",
    *FORCE_DUMP,
    "dump energies all custom 1 dump.energies id c_energies",
    "dump_modify energies sort id format float %.17g",
    "run 0",
    'print "RESULT $(pe:%.17g) ' + " ".join(f"$(c_virial[{k}]:%.17g)" for k in range(1, 7)) + '"',
]


def results(lammps, name, keywords, **options):
    """(energy, virial, forces, energies of the atoms)"""
    run = lammps.run(system(lammps, name, keywords) + RESULT, **options)
    (numbers,) = run.values("RESULT")
    return numbers[0], numbers[1:], run.dump("dump.forces")[:, 1:], run.dump("dump.energies")[:, 1], run


@pytest.mark.parametrize("name,ranks", [(name, 1) for name in CASES] + [("lmax3", 2), ("parity", 2), ("sheared", 2)])
def test_reference_equals_native(lammps, name, ranks):
    native = results(lammps, name, "precision double radial exact")
    reference = results(lammps, name, "precision double radial exact reference yes", ranks=ranks)
    assert "LibTorch reference" in reference[-1].output and "LibTorch reference" not in native[-1].output
    for a, b, what in zip(native, reference, ["energy", "virial", "forces", "energies"]):
        error = np.abs(np.asarray(a) - b).max() / max(1e-2, np.abs(a).max())
        print(f"{name} on {ranks} ranks: {what} {error:.1e}")
        assert error <= 1e-10, what


@pytest.mark.parametrize("precision,energy,force", [("double", 1e-8, 1e-6), ("mixed", 1e-6, 1e-4)])
def test_precisions_keep_their_accuracy(lammps, precision, energy, force):
    exact = results(lammps, "sevennet_0", "precision double radial exact")
    other = results(lammps, "sevennet_0", f"precision {precision}")
    assert abs(exact[0] - other[0]) <= energy * len(exact[2])
    assert np.abs(exact[2] - other[2]).max() <= force * max(1.0, np.abs(exact[2]).max())


def test_default_precision_is_mixed(lammps):
    assert results(lammps, "lmax3", "")[0] == results(lammps, "lmax3", "precision mixed")[0]
    assert results(lammps, "lmax3", "")[0] != results(lammps, "lmax3", "precision double")[0]


def test_a_coarser_table_is_used_and_its_error_named(lammps):
    exact = results(lammps, "lmax3", "precision double radial exact")
    errors = []
    for tolerance in ("1e-3", "1e-9"):
        *_, forces, _, run = results(lammps, "lmax3", f"precision double radial table {tolerance}")
        errors.append(np.abs(forces - exact[2]).max())
        assert "knots, error" in run.output
    assert errors[1] < errors[0] / 100


def trajectory(lammps, keywords, threads):
    lines = [
        *system(lammps, "lmax3", keywords),
        "velocity all create 1500 99 loop geom",
        "fix nve all nve",
        "dump all all custom 20 dump.trajectory id x y z fx fy fz",
        "dump_modify all sort id format float %.17g",
        "run 40",
    ]
    return (lammps.run(lines, threads=threads).folder / "dump.trajectory").read_bytes()


@pytest.mark.parametrize("precision", ["mixed", "double"])
def test_deterministic_does_not_depend_on_threads(lammps, precision):
    keywords = f"precision {precision} deterministic yes"
    first = trajectory(lammps, keywords, 1)
    assert first == trajectory(lammps, keywords, 2)
    assert first == trajectory(lammps, keywords, 2)


@pytest.mark.parametrize("keywords", ["", "precision double deterministic yes"])
def test_batches_of_any_size_give_the_same_bits(lammps, keywords):
    first = trajectory(lammps, keywords, 1)
    for batch in ["1", "7", "2000000000", "auto"]:
        assert first == trajectory(lammps, f"{keywords} batch {batch}", 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_repeated_runs_are_bit_identical(lammps, threads):
    assert trajectory(lammps, "", threads) == trajectory(lammps, "", threads)


@pytest.mark.parametrize("precision", ["double", "mixed"])
@pytest.mark.parametrize("name,ranks", [("lmax3", 1), ("lmax3", 2), ("parity", 2)])
def test_check_passes_on_a_good_model(lammps, name, ranks, precision):
    run = lammps.run(system(lammps, name, f"precision {precision} check yes") + ["run 0"], ranks=ranks)
    assert "self-check: structure" in run.output and "force check:" in run.output
    assert "FAILED" not in run.output


def test_check_passes_with_the_reference(lammps):
    run = lammps.run(system(lammps, "lmax3", "precision double radial exact check yes reference yes") + ["run 0"])
    assert "FAILED" not in run.output and "force check:" in run.output


def test_check_leaves_the_trajectory_alone(lammps):
    """The force check moves atoms, and must put them back exactly."""
    assert trajectory(lammps, "precision double", 1) == trajectory(lammps, "precision double check yes", 1)


@pytest.mark.parametrize("ranks", [1, 2])
def test_check_stops_on_a_damaged_model(lammps, ranks):
    document, tensors = equi_file.read(lammps.model("lmax3"))
    # Any tensor will do if the framework's results depend on it: the first weights of a radial network.
    name = next(layer for layer in document["layers"] if layer["type"] == "convolution")["radial"]["weights"][0]
    tensors[name] = tensors[name] * np.float32(1.01)
    equi_file.write(lammps.folder / "damaged.equi", document, tensors)
    lines = [line.replace(str(lammps.model("lmax3")), "damaged.equi") for line in system(lammps, "lmax3", "check yes")]
    run = lammps.try_run([*lines, "run 0"], ranks=ranks)
    assert run.returncode != 0
    assert any("stored energies, forces and stresses are not reproduced" in line for line in run.errors), run.output
    # Without the check the file is a valid model.
    lammps.run([line.replace("check yes", "") for line in lines] + ["run 0"], ranks=ranks)


def test_stored_properties_of_the_model_are_told(lammps):
    document, tensors = equi_file.read(lammps.model("lmax3"))
    document["provenance"]["properties"] = "Mirror images have other energies."
    equi_file.write(lammps.folder / "told.equi", document, tensors)
    lines = [line.replace(str(lammps.model("lmax3")), "told.equi") for line in system(lammps, "lmax3", "")]
    output = lammps.run([*lines, "run 0"]).output
    assert output.count("  properties of the model, on every machine: Mirror images have other energies.\n") == 1


@pytest.mark.parametrize("name, is_told", [("lmax3", True), ("parity", False)])
def test_a_model_without_mirror_symmetry_is_told(lammps, name, is_told):
    output = lammps.run([*system(lammps, name, ""), "run 0"]).output
    assert output.count("  equivariant under rotations only, SO(3): energies of mirror images may differ\n") == is_told


def test_a_file_without_values_of_the_framework_is_told(lammps):
    """A file converted without the framework: the log reports what is missing, and the check compares only forces."""
    document, tensors = equi_file.read(lammps.model("lmax3"))
    told = "the file stores no values of sevenn to check it by: 'equi compare FILE.equi SOURCE --store' adds them"
    for entries in ([], None):
        document["self_check"] = entries
        if entries is None:
            del document["self_check"]
        equi_file.write(lammps.folder / "alone.equi", document, tensors)
        lines = [line.replace(str(lammps.model("lmax3")), "alone.equi") for line in system(lammps, "lmax3", "check yes")]
        output = lammps.run([*lines, "run 0"]).output
        assert told in output and "self-check: nothing to compare with, for the file stores no values of sevenn" in output
        assert "force check:" in output and "FAILED" not in output
    assert told not in lammps.run([*system(lammps, "lmax3", "check yes"), "run 0"]).output


MEMORY = re.compile(r"memory: ([\d.]+) MB per rank for tables and weights, ([\d.]+) MB for (\d+) atoms, .*, limit (.*)")


@pytest.mark.parametrize("ranks", [1, 2])
def test_runs_that_do_not_fit_are_refused(lammps, ranks):
    def lines(times, keywords=""):
        return [*system(lammps, "lmax3", keywords), f"replicate {times} 4 4", "run 0"]

    *numbers, limit = MEMORY.search(lammps.run(lines(8), ranks=ranks, threads=1).output).groups()
    tables, held, atoms = (float(number) for number in numbers)
    assert limit.endswith("GB per rank")

    # Memory for half of the atoms.
    half = (tables + 0.5 * held / ranks) * 1e-3
    refused = lammps.try_run(lines(8, f"memory {half:.6f}"), ranks=ranks, threads=1)
    assert refused.returncode != 0 and "Step" not in refused.output
    (fitting, *_) = (int(n) for n in re.findall(r"(\d+) atoms per rank fit", refused.output))
    print(f"{fitting} of {atoms / ranks:.0f} atoms per rank fit in half of the memory")
    assert abs(fitting * ranks / (0.5 * atoms) - 1.0) <= 0.1
    lammps.run(lines(3, f"memory {half:.6f}"), ranks=ranks, threads=1)
    assert MEMORY.search(lammps.run(lines(1, "memory unlimited"), ranks=ranks).output).group(4) == "none"


def test_log_says_what_is_evaluated(lammps):
    run = lammps.run(system(lammps, "lmax3") + ["run 0"])
    for words in ("sevenn SevenNet model", "2 of 4 elements in use: Cl Na", "cutoff 4.2", "3 convolutions", "double", "kB/atom"):
        assert words in run.output, words
