# SPDX-License-Identifier: MIT
"""Bad input: one clear error and a status other than zero, on 1 and on 2 ranks, without endless waits."""

import json
import os
import re
import struct
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from ase.calculators.socketio import SocketIOCalculator
from equi_tools import equi_file
from lammps_script import ARGUMENTS, rock_salt

# A refused run has little to do.
TIMEOUT = 60
RANKS = pytest.mark.parametrize("ranks", [1, 2])


def assert_refused(run, *texts):
    """There is one error, with these texts (regular expressions), and no result."""
    assert run.returncode != 0, run.output
    # Only the faulty rank may report its fault ("ERROR on proc 1: ...").
    assert len(run.errors) == 1, run.output
    for text in texts:
        assert re.search(text, run.errors[0]), f"{run.errors[0]!r} does not match {text!r}"
    assert not re.search(r"egmentation|terminate called|Aborted|backtrace", run.output), run.output
    assert "Loop time" not in run.output


class Input:
    """An input of two atom types; a test changes one thing in it."""

    def __init__(self, lammps):
        self.lammps = lammps
        self.style = "pair_style equi"
        self.file = f'"{lammps.model("nequip")}"'
        self.types = "* *"
        self.symbols = "Cl Na"
        self.units = "units metal"
        self.before = []  # commands before the box exists
        self.after = []  # between the data and the pair style
        self.atoms = rock_salt()

    def lines(self):
        structure = self.lammps.write(self.atoms, ["Cl", "Na"])
        coefficients = [f"pair_coeff {self.types} {self.file} {self.symbols}"] if self.file is not None else []
        read = next(k for k, line in enumerate(structure) if line.startswith("read_data"))
        structure[read:read] = self.before
        return [self.units, *structure, *self.after, self.style, *coefficients, "run 0"]

    def refused(self, ranks, *texts):
        assert_refused(self.lammps.try_run(self.lines(), ranks=ranks, timeout=TIMEOUT), *texts)

    def runs(self, ranks):
        return self.lammps.run(self.lines(), ranks=ranks, timeout=TIMEOUT)


@pytest.fixture
def script(lammps):
    return Input(lammps)


@RANKS
def test_the_unchanged_input_runs(script, ranks):
    script.runs(ranks)


# ---- the model file ----


def header_and_data(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_file(path, header, data):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def damaged(lammps, change):
    """A copy of a model whose document `change` has edited."""
    header, data = header_and_data(lammps.model("nequip"))
    document = json.loads(header["__metadata__"]["equi"])
    change(document)
    header["__metadata__"]["equi"] = json.dumps(document)
    path = lammps.folder / "damaged.equi"
    write_file(path, header, data)
    return path.name


@RANKS
def test_missing_file(script, ranks):
    script.file = "nowhere.equi"
    script.refused(ranks, r"nowhere\.equi", "No such file")


def test_a_missing_file_is_told_with_where_it_was_searched(script, monkeypatch):
    script.file = "nowhere.equi"
    monkeypatch.setenv("LAMMPS_POTENTIALS", "/of/the/user")
    script.refused(1, f"searched for in {script.lammps.folder} and in LAMMPS_POTENTIALS .*/of/the/user:.*/models", "equi convert")


@RANKS
def test_a_file_of_pytorch_is_answered_with_the_command_that_converts_it(script, ranks):
    checkpoint = script.lammps.models / "tiny" / "nequip.pth"
    script.file = f'"{checkpoint}"'
    script.refused(ranks, "expected an .equi file, found one of PyTorch", f"'equi convert {checkpoint} -o NAME.equi'")
    (script.lammps.folder / "old.pth").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")  # as PyTorch before 1.6
    script.file = "old.pth"
    script.refused(ranks, "equi convert old.pth")


@RANKS
@pytest.mark.parametrize("part", [0.0, 0.001, 0.2, 0.9, 0.9999])
def test_truncated_file(script, ranks, part):
    data = script.lammps.model("nequip").read_bytes()
    (script.lammps.folder / "short.equi").write_bytes(data[: int(part * len(data))])
    script.file = "short.equi"
    script.refused(ranks, r"short\.equi", "expected", "found")


@RANKS
@pytest.mark.parametrize("kind", ["text", "zip", "zeros", "safetensors", "folder"])
def test_other_format(script, ranks, kind):
    path = script.lammps.folder / f"other.{kind}"
    if kind == "text":
        path.write_text("# DATE: 2020-01-01 UNITS: metal\nCl Na 1.0 2.0\n" * 20)
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\x02}q\x00." * 100)
    elif kind == "zeros":
        path.write_bytes(bytes(4096))
    elif kind == "folder":
        path.mkdir()
    else:
        header = {"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
        write_file(path, header, bytes(4))
    script.file = path.name
    script.refused(ranks, rf"other\.{kind}", "expected")


@RANKS
def test_newer_format_version(script, ranks):
    script.file = damaged(script.lammps, lambda document: document.update(format_version=4))
    script.refused(ranks, r"damaged\.equi", "format_version", "at most 3", "found 4|4")


@RANKS
def test_missing_field(script, ranks):
    script.file = damaged(script.lammps, lambda document: document.pop("cutoff"))
    script.refused(ranks, r"damaged\.equi: cutoff: expected this field")


@RANKS
def test_unknown_layer(script, ranks):
    script.file = damaged(script.lammps, lambda document: document["layers"][0].update(type="attention"))
    script.refused(ranks, r"layers\[0\]", "attention", "species_embedding")


@RANKS
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite(script, ranks, bad):
    header, data = header_and_data(script.lammps.model("nequip"))
    name, entry = max(((n, e) for n, e in header.items() if n != "__metadata__"), key=lambda item: item[1]["data_offsets"][1])
    weights = bytearray(data)
    size = {"F32": 4, "F64": 8}[entry["dtype"]]
    end = entry["data_offsets"][1]
    weights[end - size : end] = struct.pack("<f" if size == 4 else "<d", bad)
    document = json.loads(header["__metadata__"]["equi"])
    document["data_hash"] = equi_file.data_hash([bytes(weights)])
    header["__metadata__"]["equi"] = json.dumps(document)
    write_file(script.lammps.folder / "bad.equi", header, bytes(weights))
    script.file = "bad.equi"
    script.refused(ranks, r"bad\.equi", re.escape(name), "finite", str(bad))


# ---- pair_coeff ----


@RANKS
def test_unknown_symbol_lists_the_elements(script, ranks):
    script.symbols = "Cl Xx"
    script.refused(ranks, "does not know element Xx", r"atom type 2", r"its elements are: (Cl Na|Na Cl)")


@RANKS
@pytest.mark.parametrize("symbol, meant", [("na", "Na"), ("NA", "Na"), ("cl", "Cl")])
def test_a_symbol_in_other_letters_is_asked_about(script, ranks, symbol, meant):
    script.symbols = f"{symbol} {symbol}"
    script.refused(ranks, rf"does not know element {symbol} .*did you mean {meant}\?")


@RANKS
@pytest.mark.parametrize("symbols,count", [("", 0), ("Cl", 1), ("Cl Na Cl", 3)])
def test_wrong_number_of_symbols(script, ranks, symbols, count):
    script.symbols = symbols
    script.refused(ranks, f"names {count} elements for 2 atom types")


@RANKS
def test_no_file_in_pair_coeff(script, ranks):
    script.file = script.symbols = ""
    script.refused(ranks, "FILE|at least|Incorrect args")


@RANKS
@pytest.mark.parametrize("types", ["1 2", "* 2", "1 *"])
def test_pair_coeff_for_single_types(script, ranks, types):
    script.types = types
    script.refused(ranks, r"air_coeff must start with \* \*")  # LAMMPS's own words


@RANKS
def test_all_types_null(script, ranks):
    script.symbols = "NULL NULL"
    script.refused(ranks, "maps all atom types to NULL")


@RANKS
def test_null_without_another_style(script, ranks):
    script.symbols = "Cl NULL"
    script.refused(ranks, "All pair coeffs are not set|pair hybrid|NULL")


@RANKS
def test_no_pair_coeff(script, ranks):
    script.file = None
    script.refused(ranks, "pair_coeff|All pair coeffs are not set")


# ---- pair_style ----


@RANKS
@pytest.mark.parametrize(
    "words,texts",
    [
        ("speed fast", ["unknown keyword speed", "precision, radial, reference, check, memory, batch, deterministic, kernels, exchange, graphs, overlap"]),
        ("precision half", ["precision must be mixed, double or tf32, not half"]),
        ("precision", ["keyword precision needs a value", "mixed, double or tf32"]),
        ("radial spline", ["radial must be table TOLERANCE.* or exact, not spline"]),
        ("radial", ["keyword radial needs a value: table TOLERANCE, TOLERANCE or exact; under a hybrid style.* TOLERANCE alone"]),
        ("radial table", ["needs a value", "tolerance"]),
        ("radial table 0", ["tolerance of radial tables must lie between .*, not 0"]),
        ("radial table -1e-6", ["tolerance of radial tables must lie between .*, not -1e-6"]),
        ("radial table 2", ["tolerance of radial tables must lie between .*, not 2"]),
        ("radial table nan", ["nan|floating point"]),
        ("radial table small", ["small"]),
        ("precision double radial table 1e-30", ["tolerance", "1e-30"]),
        ("precision mixed radial table 1e-30", ["tolerance", "1e-30"]),
        ("reference maybe", ["reference must be yes or no, not maybe"]),
        ("check 1e9", ["check must be yes or no, not 1e9"]),
        ("check", ["keyword check needs a value"]),
        ("memory", ["keyword memory needs a value", "GB per rank, auto, lean or unlimited"]),
        ("memory 0", ["memory must be GB per rank, auto, lean or unlimited, not 0"]),
        ("memory much", ["memory must be GB per rank, auto, lean or unlimited, not much"]),
        ("batch", ["keyword batch needs a value", "a number of atoms or auto"]),
        ("batch 0", ["batch must be a number of atoms or auto, not 0"]),
        ("batch -8", ["batch must be a number of atoms or auto, not -8"]),
        ("batch 1.5", ["batch must be a number of atoms or auto, not 1.5"]),
        ("batch 99999999999", ["99999999999"]),
        ("deterministic 2", ["deterministic must be yes or no, not 2"]),
        ("kernels gpu", ["kernels must be auto, device or host, not gpu"]),
        ("kernels", ["keyword kernels needs a value: auto, device or host"]),
        ("exchange mpi", ["exchange must be auto, device or host, not mpi"]),
        ("exchange", ["keyword exchange needs a value: auto, device or host"]),
        ("graphs some", ["graphs must be yes or no, not some"]),
        ("overlap some", ["overlap must be yes or no, not some"]),
        ("../model.equi", [r"the model file is part of the other command: pair_coeff \* \* ../model.equi and a chemical symbol"]),
    ],
)
def test_bad_keywords(script, ranks, words, texts):
    script.style += " " + words
    script.refused(ranks, *texts)


@pytest.mark.plain
@pytest.mark.parametrize("style", ["equi/kk", "equi/kk/host", "equi/kk/device"])
def test_the_kokkos_style_in_a_lammps_without_it_names_the_preset(script, style):
    script.style = f"pair_style {style}"
    script.refused(1, "needs a LAMMPS with the KOKKOS package", "cmake --workflow --preset lammps-kokkos")


@pytest.mark.plain
@pytest.mark.parametrize("arguments", [["-sf", "kk"], ["-k", "on", "t", "1", "-sf", "kk"], ["-kokkos", "on"]])
@RANKS
def test_the_kokkos_suffix_in_a_lammps_without_it_names_the_preset(script, arguments, ranks):
    run = script.lammps.try_run(script.lines(), ranks=ranks, arguments=arguments, timeout=TIMEOUT)
    assert run.returncode != 0
    assert run.output.count("cmake --workflow --preset lammps-kokkos") == 1, run.output


# ---- the state of LAMMPS ----


@RANKS
@pytest.mark.parametrize("units", ["lj", "si", "electron"])
def test_other_units(script, ranks, units):
    script.units = f"units {units}"
    script.after = ["mass * 1.0"]
    script.refused(ranks, f"units metal or real, not {units}")


@RANKS
@pytest.mark.parametrize("words", ["", " reference yes"])
def test_tf32_on_cpus(script, ranks, words):
    script.style = f"pair_style equi precision tf32{words}"
    script.refused(ranks, "precision tf32 is for kernels on GPUs")


@RANKS
def test_no_atom_ids(script, ranks):
    # The numbers of lines in a data file are IDs, so the atoms are made here.
    lines = [
        "units metal", "atom_style atomic", "atom_modify id no", "region box block 0 8 0 8 0 8", "create_box 2 box",
        "lattice sc 4.0", "create_atoms 1 box", "mass * 1.0", script.style, f"pair_coeff * * {script.file} Cl Na", "run 0",
    ]  # fmt: skip
    assert_refused(script.lammps.try_run(lines, ranks=ranks, timeout=TIMEOUT), "requires atom IDs")


@RANKS
@pytest.mark.parametrize("precision", ["mixed", "double"])
def test_atoms_on_top_of_each_other(script, ranks, precision):
    atoms = rock_salt((2, 1, 1))
    atoms.positions[12] = atoms.positions[4] + [1e-5, 0, 0]
    script.atoms, script.style = atoms, f"pair_style equi precision {precision}"
    script.refused(ranks, "IDs (5 and 13|13 and 5)", "distance 1e-05", "step 0")


@RANKS
@pytest.mark.parametrize("change", ["0.0/0.0", "1e300*1e300"])
def test_lost_coordinates_end_the_run(script, ranks, change):
    """Positions that are not numbers stop LAMMPS or this style; they do not become energies.

    Often LAMMPS stops on one rank, and its message gets lost when MPI ends the others: no text is required.
    """
    lines = script.lines()
    script.lammps.run(lines, ranks=ranks)
    lines[-1:] = ["run 0 post no", f"variable x atom x+({change})*(id==3)", "set atom 3 x v_x", "run 0", 'print "ENERGY $(pe)"']
    run = script.lammps.try_run(lines, ranks=ranks, timeout=TIMEOUT)
    assert run.returncode != 0, run.output
    assert "ENERGY" not in run.output


@RANKS
@pytest.mark.parametrize("box", ["orthogonal", "tilted"])
def test_atoms_that_lammps_drops_are_missed(script, ranks, box):
    """LAMMPS wraps atoms by one length of the box, 5.64, before it relies on them. With lost ignore it is silent.

    With `comm device` LAMMPS keeps such atoms on one rank, and its full neighbor lists end in a segmentation fault.
    """
    if "kokkos" in ARGUMENTS:
        script.before = ["package kokkos newton on neigh half comm no"]
    lines = script.lines()
    *start, run = [*lines[:-1], *(["change_box all triclinic"] if box == "tilted" else []), "thermo_modify lost ignore", lines[-1]]
    moved = script.lammps.run([*start, "set atom 3 x 9", run, 'print "ATOMS $(atoms)"'], ranks=ranks, timeout=TIMEOUT)
    assert moved.values("ATOMS")[0, 0] == len(script.atoms)
    assert_refused(script.lammps.try_run([*start, "set type 1 y -40", run], ranks=ranks, timeout=TIMEOUT), "dropped 4 of 8 atoms, ")
    # An earlier list contains the IDs.
    refused = script.lammps.try_run([*start, run, "set atom 3 x 40", run, 'print "ENERGY"'], ranks=ranks, timeout=TIMEOUT)
    assert refused.returncode != 0 and "dropped 1 of 8 atoms, ID 3, " in refused.errors[0], refused.output
    assert "ENERGY" not in refused.output


@pytest.mark.plain
@pytest.mark.parametrize("cells, is_right", [(0, True), (1, True), (3, False)])
def test_positions_of_i_pi_that_are_not_wrapped(lammps, cells, is_right):
    atoms = rock_salt()
    name = f"equi-{os.getpid()}-{cells}"
    lines = ["units metal", *lammps.write(atoms, ["Cl", "Na"]), *lammps.pair("nequip", ["Cl", "Na"]), f"fix 1 all ipi {name} 31415 unix", "run 100"]
    expected = lammps.run([*lines[:-2], "run 0", 'print "ENERGY $(pe:%.17g)"']).values("ENERGY")[0, 0]
    moved = atoms.copy()
    moved.positions[3] += cells * atoms.cell[0]
    with ThreadPoolExecutor(1) as thread, SocketIOCalculator(unixsocket=name, timeout=TIMEOUT) as server:
        client = thread.submit(lammps.try_run, lines)
        moved.calc = server
        if is_right:
            assert moved.get_potential_energy() == pytest.approx(expected, abs=1e-6)
        else:
            with pytest.raises(OSError):
                moved.get_potential_energy()
            assert_refused(client.result(), "dropped 1 of 8 atoms, ID 4, ", "pbc='true' in the ffsocket of i-PI")


@RANKS
@pytest.mark.parametrize("newton", ["on", "off"])
def test_forces_that_are_not_finite_end_the_step_that_makes_them(script, ranks, newton):
    """The energies are finite. Their derivatives exceed the range of float32; the numbers of the file do not."""
    document, tensors = equi_file.read(script.lammps.model("nequip"))
    (scale,) = (layer["scale"] for layer in document["layers"] if layer["type"] == "scale_shift")
    (readout,) = (layer["network"]["weights"][-1] for layer in document["layers"] if layer["type"] == "readout")
    tensors[scale] = 1e29 * tensors[scale].astype(np.float64)
    tensors[readout] = 1e10 * tensors[readout]
    equi_file.write(script.lammps.folder / "huge.equi", document, tensors)
    script.file = "huge.equi"
    script.before, script.after = [f"newton {newton}"], ["reset_timestep 7"]
    script.style = "pair_style equi precision double"
    run = script.runs(ranks)
    energies = [float(line.split()[2]) for line in run.output.splitlines() if re.match(r" +7 ", line)]
    assert len(energies) == 1 and 1e35 < abs(energies[0]) < 1e45
    script.style = "pair_style equi precision mixed"
    run = script.lammps.try_run(script.lines(), ranks=ranks, timeout=TIMEOUT)
    assert run.returncode != 0 and "Loop time" not in run.output
    assert run.errors, run.output  # from one rank, or from more if they end slowly
    for line in run.errors:
        assert re.search(r"Pair style equi: .* is not finite: ID [1-8] on step 7", line), line


@RANKS
def test_reference_library_missing(script, ranks):
    """Puts only the plugin into another folder, with a copy of the program that searches there for plugins."""
    build, folder = script.lammps.build_dir, script.lammps.folder
    (folder / "alone").mkdir()
    for library in (build / "lib").glob("*.so"):
        if library.name != "libequi_torch.so":
            (folder / "alone" / library.name).write_bytes(library.read_bytes())
    program = folder / "lmp"
    program.write_text((build / "bin" / "lmp").read_text().replace(f"{build}/lib", f"{folder}/alone"))
    program.chmod(0o755)
    script.lammps.lmp = program
    script.runs(ranks)
    script.style = "pair_style equi reference yes"
    script.refused(ranks, "LibTorch reference cannot be loaded", r"libequi_torch\.so", "--target equi_torch' make it")


# ---- warnings ----


def warnings_of(script, ranks):
    return [line for line in script.runs(ranks).warnings if "equi" in line or "Atom type" in line]


@RANKS
def test_no_warning_for_good_input(script, ranks):
    assert warnings_of(script, ranks) == []


@RANKS
def test_wrong_mass_warns(script, ranks):
    script.symbols = "Na Cl"
    found = warnings_of(script, ranks)
    assert len(found) == 2
    assert "Atom type 1 is mapped to Na but has mass 35.45 instead of 22.98" in found[0]


# Atoms with IDs up to 4 are Na, the others are Cl.
@RANKS
@pytest.mark.parametrize("settings, command", [
    (["neigh_modify exclude type 1 2"], "neigh_modify exclude"),
    (["group some id 1 5", "neigh_modify exclude group some all"], "neigh_modify exclude"),
    (["group nobody empty", "neigh_modify exclude group nobody all"], None),
    # Lists of the KOKKOS package contain neighbors outside the group, which the pair style refuses.
    pytest.param(["group some id 1 5", "neigh_modify include some"], "neigh_modify include", marks=pytest.mark.plain),
])  # fmt: skip
def test_hidden_neighbors_are_told(script, ranks, settings, command):
    if command == "neigh_modify include":
        script.before = ["atom_modify first some"]
    script.after = settings
    found = [line for line in warnings_of(script, ranks) if "hides atoms" in line]
    assert len(found) == (command is not None)
    assert command is None or command in found[0]


@pytest.mark.plain
@pytest.mark.parametrize("lines, is_told", [
    (["pair_style hybrid equi lj/cut 4.0", "pair_coeff * * equi MODEL Cl Na", "pair_coeff 1 2 lj/cut 0.01 2.5"], True),
    (["pair_style hybrid/overlay equi lj/cut 4.0", "pair_coeff * * equi MODEL Cl Na", "pair_coeff 1 2 lj/cut 0.01 2.5"], False),
    (["pair_style hybrid equi lj/cut 4.0", "pair_coeff * * equi MODEL Cl NULL", "pair_coeff * 2 lj/cut 0.01 2.5"], False),
])  # fmt: skip
def test_pairs_that_a_hybrid_style_takes_away_are_told(lammps, lines, is_told):
    lines = [line.replace("MODEL", str(lammps.model("plain"))) for line in lines]
    output = lammps.run(["units metal", *lammps.write(rock_salt()), *lines, "run 0"]).output
    assert ("pair_style hybrid with another style for some pairs of types hides atoms" in output) == is_told


@pytest.mark.plain
def test_masses_of_types_mean_nothing_where_atoms_have_their_own(lammps):
    """atom_style hybrid with sphere keeps masses of types, at 0, in addition to those of the atoms."""
    atoms = rock_salt()
    places = [f"create_atoms {1 + (s == 'Na')} single {x} {y} {z}" for s, (x, y, z) in zip(atoms.get_chemical_symbols(), atoms.positions % 5.64)]
    box = ["region box block 0 5.64 0 5.64 0 5.64", "create_box 2 box", *places]
    found = lammps.run(["units metal", "atom_style hybrid charge sphere", *box, *lammps.pair("plain", ["Cl", "Na"]), "run 0"])
    assert not any("is mapped to" in line for line in found.warnings)


# ---- bonds ----

# The structure is a row of atoms 1-2-3-4 through bonds, and atoms without bonds: LAMMPS makes 1-2, 1-3 and 1-4 pairs.
BONDS = ["1 1 1 2", "2 1 2 3", "3 1 3 4"]
MODEL_ALONE = ("pair_style equi precision double", ["pair_coeff * * {} Cl Na"])
HYBRID = (
    "pair_style hybrid/overlay equi precision double zero 5.0",
    ["pair_coeff * * equi {} Cl Na", "pair_coeff * * zero"],
)
OF_PAIR = "pair_modify pair equi special lj/coul 1 1 1"


class Molecules:
    """The energy of a structure in which some atoms have bonds."""

    def __init__(self, lammps, ranks):
        self.lammps, self.ranks = lammps, ranks
        self.atoms = rock_salt(length=6.4)
        self.atoms.positions[:4] = [[1.0, 1.0, 1.0], [2.4, 1.1, 1.3], [3.1, 2.4, 1.2], [4.5, 2.5, 1.1]]
        self.style = "molecular"
        self.symbols = None  # of the model, by type

    def lines(self, bonds, pair, before=(), after=()):
        lines = [line.replace("atom_style atomic", f"atom_style {self.style}") for line in self.lammps.write(self.atoms, ["Cl", "Na"])]
        data = self.lammps.folder / "data.structure"
        text = data.read_text().replace("Atoms  # atomic", f"Atoms  # {self.style}")
        if self.style != "atomic":
            text = re.sub(r"^(\d+) (\d) (\S+ \S+ \S+)$", r"\1 1 \2 \3", text, flags=re.M)
            sizes = f"2 atom types\n3 bond types\n{len(bonds)} bonds\n2 extra bond per atom\n6 extra special per atom"
            text = text.replace("2 atom types", sizes if bonds else sizes.replace("0 bonds\n", ""))
        if bonds:
            text += "\nBonds\n\n" + "\n".join(bonds) + "\n"
        data.write_text(text)
        bond_style = ["bond_style zero", "bond_coeff *"] if self.style != "atomic" else []
        style, coefficients = pair
        model = f'"{self.lammps.model("nequip")}"'
        return [
            "units metal", *lines, *bond_style, *before, style, *(c.format(model) for c in coefficients), *after,
            "run 0", 'print "ENERGY $(pe:%.17g)"',
        ]  # fmt: skip

    def run(self, *args, **options):
        return self.lammps.run(self.lines(*args, **options), ranks=self.ranks, timeout=TIMEOUT)

    def energy(self, *args, **options):
        return self.run(*args, **options).values("ENERGY")[0, 0]

    def refused(self, *args, texts=(), **options):
        run = self.lammps.try_run(self.lines(*args, **options), ranks=self.ranks, timeout=TIMEOUT)
        assert_refused(run, "Pair style equi", "use special_bonds lj/coul 1 1 1", "delete_bonds .*bond_style zero", f"hybrid style .*{OF_PAIR}", *texts)

    def free_energy(self):
        """The energy of the same atoms without bonds."""
        plain = Molecules(self.lammps, 1)
        plain.style, plain.atoms = "atomic", self.atoms
        return plain.energy([], MODEL_ALONE)


# An energy of some ten eV, summed in another order.
SUM_ORDER = 1e-9


@RANKS
def test_bonds_with_default_special_bonds_are_refused(lammps, ranks):
    molecules = Molecules(lammps, ranks)
    molecules.refused(BONDS, MODEL_ALONE, texts=["1-2 neighbors", "0 0 0"])
    molecules.refused(BONDS, HYBRID, texts=["1-2 neighbors"])


@RANKS
@pytest.mark.parametrize(
    "weights,kind",
    [("lj/coul 0 1 1", 2), ("lj/coul 1 0 1", 3), ("lj/coul 1 1 0", 4), ("lj/coul 1 0.5 1", 3), ("lj 1 1 0.5 coul 1 1 1", 4)],
)
def test_each_kind_of_special_neighbors_is_found(lammps, ranks, weights, kind):
    molecules = Molecules(lammps, ranks)
    molecules.refused(BONDS, MODEL_ALONE, before=["special_bonds " + weights], texts=[f"1-{kind} neighbors"])


@RANKS
@pytest.mark.parametrize("weights", ["lj/coul 1 1 1", "lj 1 1 1 coul 0 0 0.5"])
def test_special_bonds_of_full_weight_give_the_energy_without_bonds(lammps, ranks, weights):
    molecules = Molecules(lammps, ranks)
    energy = molecules.energy(BONDS, MODEL_ALONE, before=["special_bonds " + weights])
    assert energy == pytest.approx(molecules.free_energy(), abs=SUM_ORDER)


@RANKS
@pytest.mark.parametrize("weights", ["1e-20 1e-20 1e-20", "0.2 0.4 0.6"])
def test_pair_modify_under_a_hybrid_style_gives_the_energy_without_bonds(lammps, ranks, weights):
    molecules = Molecules(lammps, ranks)
    special = [f"special_bonds lj/coul {weights}"]
    energy = molecules.energy(BONDS, HYBRID, before=special, after=[OF_PAIR])
    assert energy == pytest.approx(molecules.free_energy(), abs=SUM_ORDER)
    molecules.refused(BONDS, HYBRID, before=special, texts=["1-2 neighbors"])


@RANKS
@pytest.mark.parametrize("style", ["atomic", "molecular", "bond"])
def test_nothing_is_said_about_special_bonds_without_bonds(lammps, ranks, style):
    molecules = Molecules(lammps, ranks)
    molecules.style = style
    run = molecules.run([], MODEL_ALONE)
    assert "special_bonds" not in "".join(run.warnings)
    assert run.values("ENERGY")[0, 0] == pytest.approx(molecules.free_energy(), abs=SUM_ORDER)


@RANKS
def test_bonds_of_atoms_that_are_not_the_models_do_not_matter(lammps, ranks):
    """Atoms 1 and 3 have one type, 2 and 4 the other."""
    molecules = Molecules(lammps, ranks)
    types = molecules.atoms.get_chemical_symbols()
    one = [k + 1 for k in range(len(types)) if types[k] == "Cl"][:3]
    other = [k + 1 for k in range(len(types)) if types[k] == "Na"][:2]
    pair = (HYBRID[0], ["pair_coeff * * equi {} NULL Na", "pair_coeff * * zero"])
    bonds = [f"1 1 {one[0]} {one[1]}", f"2 1 {one[1]} {one[2]}", f"3 1 {one[2]} {other[0]}"]
    without = molecules.energy([], pair)
    assert molecules.energy(bonds, pair) == pytest.approx(without, abs=SUM_ORDER)
    molecules.refused([*bonds, f"4 1 {other[0]} {other[1]}"], pair, texts=["1-2 neighbors"])


ADDED_UP = "act between atoms of the model, whose energy holds their bonds already"
HARMONIC = ["bond_style harmonic", "bond_coeff * 1.0 1.2"]
OF_HYBRID = ["bond_style hybrid harmonic zero", "bond_coeff 2 harmonic 1.0 1.2", "bond_coeff 3 zero"]
BOND_STYLES = {
    "zero": ([], False),
    "harmonic": (HARMONIC, True),
    "hybrid": ([*OF_HYBRID, "bond_coeff 1 harmonic 1.0 1.2"], True),
    "hybrid_zero": ([*OF_HYBRID, "bond_coeff 1 zero"], False),
    "hybrid_of_one": (["bond_style hybrid harmonic", "bond_coeff * harmonic 1.0 1.2"], True),
    "deleted": ([*HARMONIC, "delete_bonds all multi remove special"], False),
}
# In a hybrid style of the package KOKKOS all styles belong to the package, and zero does not.
REFUSED_BY_KOKKOS = ("hybrid", "hybrid_zero")


@RANKS
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.plain) if name in REFUSED_BY_KOKKOS else name for name in BOND_STYLES]
)
def test_bonds_of_a_force_field_among_atoms_of_the_model_are_told(lammps, name, ranks):
    commands, is_told = BOND_STYLES[name]
    molecules = Molecules(lammps, ranks)
    run = molecules.run(["1 1 1 2"], MODEL_ALONE, before=["special_bonds lj/coul 1 1 1", *commands])
    told = [line for line in run.warnings if ADDED_UP in line]
    assert len(told) == is_told, run.output
    assert all("bond_style h" in line and "delete_bonds" in line and "bond_style zero" in line for line in told)
    assert (abs(run.values("ENERGY")[0, 0] - molecules.free_energy()) > 1e-3) == is_told


def test_bonds_with_other_atoms_are_a_coupling(lammps):
    """Bonds of a force field between an atom of the model and another, or among others."""
    molecules = Molecules(lammps, 1)
    types = molecules.atoms.get_chemical_symbols()
    one, other = ([k + 1 for k in range(len(types)) if types[k] == symbol] for symbol in ("Cl", "Na"))
    pair = (HYBRID[0], ["pair_coeff * * equi {} NULL Na", "pair_coeff * * zero"])
    before = ["special_bonds lj/coul 1 1 1", *HARMONIC]
    coupled = molecules.run([f"1 1 {one[0]} {one[1]}", f"2 1 {one[0]} {other[0]}"], pair, before=before)
    assert ADDED_UP not in coupled.output
    assert ADDED_UP in molecules.run([f"1 1 {other[0]} {other[1]}"], pair, before=before).output


@RANKS
def test_bonds_that_come_later_are_found(lammps, ranks):
    molecules = Molecules(lammps, ranks)
    lines = molecules.lines([], MODEL_ALONE)
    lammps.run(lines, ranks=ranks, timeout=TIMEOUT)
    later = [*lines[:-2], "run 0", "create_bonds single/bond 1 1 2", "run 1"]
    # The first of the two runs succeeds.
    run = lammps.try_run(later, ranks=ranks, timeout=TIMEOUT)
    assert run.returncode != 0 and len(run.errors) == 1 and "IDs 1 and 2 are 1-2 neighbors" in run.errors[0], run.output
