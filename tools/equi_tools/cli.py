# SPDX-License-Identifier: MIT
"""The command `equi`."""

import argparse
import math
import os
import sys
import warnings

from . import __version__, commands
from .errors import EquiError
from .frameworks import MissingFramework
from .instruction_sets import TARGETS
from .printable import printable

# Exit status of a command line that is not understood; 1 is the status of an error and of a missed tolerance.
USAGE_ERROR = 2


def _word_list(text):
    words = text.replace(",", " ").split()
    if not words:
        raise argparse.ArgumentTypeError(f"expected one word or more, found '{text}'")
    return words


def _whole_number(least):
    """A reader of whole numbers of at least this size."""

    def parse(text):
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least} on, found '{text}'")
        return number

    return parse


def _number(text):
    """A number that is finite."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"expected a number, found '{text}'")
    return number


def _positive_number(text):
    number = _number(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"expected a positive number, found '{text}'")
    return number


def _types(text):
    from .convert import parse_types

    return parse_types(text)


def _system(text):
    from .convert import parse_system

    return parse_system(text)


def _settings(text):
    from .convert import parse_settings

    return parse_settings(text)


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line, like other errors."""

    def error(self, message):
        sys.stdout.flush()
        self.exit(USAGE_ERROR, f"equi: error: {printable(message)} ('{self.prog} --help' lists the options)\n")


def _model_file(name):
    from .equi_file import find

    return find(name)


# What a user may have to state about a trained model: option, reader of its word, the word's name in the help,
# purpose.
MODEL_OPTIONS = (
    ("modality", None, "NAME", "the modality (data set) of a multi-modal model that is converted (7net-mf-0: PBE, R2SCAN)"),
    ("head", None, "NAME", "the head that is converted, of a MACE, mlip, SO3LR or TACE model that has several"),
    ("task", None, "NAME", "the data set whose energy is converted, of a fairchem model: omat, omol, oc20, ..."),
    ("types", _types, "a=Na,b=Cl", "elements of a NequIP model's types, if the types are not chemical symbols"),
    (
        "unit", None, "UNIT",
        "unit of the energies of a NequIP, MACE or torchmd-net model: eV (default except for torchmd-net), Hartree, kcal/mol, kJ/mol, meV",
    ),
    ("length-unit", None, "UNIT", "unit of its lengths: Angstrom (default), Bohr, nm"),
    (
        "charge", _number, "Q",
        "total charge, in e, of the systems that a torchmd-net, fairchem, mlip or MACE model is converted for (default except for mlip: 0)",
    ),
    (
        "spin", _number, "S",
        "spin multiplicity of the systems that a fairchem, mlip or MACE model is converted for (default except for mlip: 1 for the task "
        "omol and for MACE, otherwise 0, unknown)",
    ),
    (
        "system", _system, "NAME=VALUE,...",
        "further numbers of the whole system, by their names in the file, that a MACE model is converted for; with any of --charge, "
        "--spin and --system the others are the usual ones, and without them the file is for all systems",
    ),
    (
        "coulomb-cutoff", _positive_number, "R",
        "cutoff in Angstrom of a TensorNet2 model's Coulomb energy, with a reaction field beyond it (default: the checkpoint's, or all "
        "pairs of atoms), or of the Coulomb and dispersion energies of an SO3LR model (default: the file's, or 12)",
    ),
    (
        "dispersion-damping", _positive_number, "W",
        "width in Angstrom of the range before this cutoff in which the dispersion of an SO3LR model ends (default: the file's, or 2)",
    ),
    ("les-sigma", _positive_number, "S", "width in Angstrom of the charges of a MACELES model's latent Ewald summation"),
    ("les-dl", _positive_number, "D", "length in Angstrom of its grid: wave vectors are shorter than 2 pi / D"),
    ("les-self", None, "removed|kept", "whether the interaction of each of its charges with itself is removed (default: removed)"),
    ("les-boundary", None, "periodic|open", "whether it is converted for periodic cells (default) or for clusters"),
    (
        "framework-version", None, "VERSION",
        "version of torchmd-net that wrote the checkpoint: needed for 2.6.2, whose files do not show the older order of numbers",
    ),
    (
        "settings", _settings, "NAME|FILE.yaml",
        "settings of an eqnorm model: the name of a published one, eqnorm-mptrj or eqnorm-max-mptrj, or a file that is called after it; "
        "the settings of a state_dict of so3krates-torch, FILE.yaml",
    ),
    ("composition", None, "FORMULA", "chemical formula of the systems that a UMA model is converted for: NaCl, Li6PS5Cl, ..."),
)  # fmt: skip


def _add_model_options(parser, text=None):
    """text: their common help, if it is not their purpose."""
    for name, kind, metavar, purpose in MODEL_OPTIONS:
        parser.add_argument(f"--{name}", type=kind, metavar=metavar, help=text or purpose)


def _add_ignore_key(parser, text):
    parser.add_argument("--ignore-key", action="append", default=[], metavar="KEY", help=text)


def _add_file(parser):
    parser.add_argument("file", type=_model_file, metavar="FILE.equi", help="also searched for in LAMMPS_POTENTIALS, as pair_coeff does")


def _add_json(parser):
    parser.add_argument("--json", action="store_true", help="print the same for programs")


def _add_symbols(parser):
    parser.add_argument(
        "--symbols", type=_word_list, metavar="Na,Cl",
        help="elements of the atom types of LAMMPS data and dump files (default: those of their masses, or labels)",
    )  # fmt: skip


def _add_build_dir(parser):
    parser.add_argument(
        "--build-dir", metavar="DIR",
        help="build folder with bin/lmp, bin/mpirun and equiplugin.so (default: that of this command, else build)",
    )  # fmt: skip


def _add_precision(parser, default):
    parser.add_argument("--precision", choices=["double", "mixed"], default=default, help="default: %(default)s")


def _add_native_options(parser):
    _add_precision(parser, "double")
    parser.add_argument("--radial", metavar="exact|TOL", help="radial functions: the network itself, or tables of this tolerance")
    parser.add_argument("--keywords", metavar="WORDS", default="", help="further keywords of pair_style equi, in quotes")
    parser.add_argument(
        "--ranks", type=_whole_number(0), default=0, metavar="N", help="run mpirun -np N lmp instead of LAMMPS's Python module"
    )
    _add_build_dir(parser)


def _add_steps(parser, default):
    parser.add_argument("--steps", type=_whole_number(1), default=default, help="default: %(default)s")


def _add_convert(parser):
    parser.add_argument(
        "source",
        help="SevenNet checkpoint (.pth) or a name (7net-0, 7net-0_22May2024, 7net-l3i5, 7net-mf-0); "
        "MACE model (.model, -lammps.pt); NequIP package (.nequip.zip), checkpoint (.ckpt), TorchScript (.pth) or "
        "folder of an old training (best_model.pth, config.yaml); "
        "folder of a matgl potential (model.json, state.pt); torchmd-net checkpoint (.ckpt); "
        "inference checkpoint of fairchem 2 (eSEN, UMA; .pt), training checkpoint of fairchem 1 (eSEN, EquiformerV2 and V3, eSCN; .pt), "
        "force field of mlip (MACE, NequIP, eSEN; .zip); Nequix model (.nqx, .pt); eqnorm checkpoint (.pt); "
        "model of so3krates-torch (SO3LR, So3krates; .model); HIENet checkpoint (.pth) or HIENet-V3; "
        "an .equi file, to bring it to the present version of the format",
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE.equi")
    _add_model_options(parser)
    parser.add_argument("--elements", type=_word_list, metavar="Na,Cl", help="keep only these elements, in this order (default: all)")
    parser.add_argument("--license", metavar="TEXT", help="license of the model, stored in the file")
    parser.add_argument("--citation", metavar="TEXT", help="publication of the model, stored in the file")
    _add_ignore_key(parser, "configuration key of the checkpoint that is known not to change the model")


def _add_data(parser):
    parser.add_argument("structure", metavar="STRUCTURE")
    parser.add_argument("-o", "--output", required=True, metavar="DATA")
    parser.add_argument(
        "--supercell", nargs=3, type=int, default=[1, 1, 1], metavar=("A", "B", "C"), help="repeat the cell (default: 1 1 1)"
    )
    parser.add_argument(
        "--cell", nargs="+", type=_number, metavar="LENGTH",
        help="a periodic cell in place of that of the file: three lengths in Angstrom, and perhaps three angles in degrees",
    )  # fmt: skip
    parser.add_argument(
        "--rattle", type=_positive_number, default=0.0, metavar="ANGSTROM", help="displace the atoms at random by this standard deviation"
    )
    parser.add_argument("--order", type=_word_list, metavar="Sr,Ti,O", help="elements by atom type (default: as they appear)")
    _add_symbols(parser)
    parser.add_argument("--model", metavar="FILE.equi", help="the model of the pair_coeff line; its elements are compared")
    parser.add_argument("--task", metavar="NAME", help="data set whose energy is used, for a model of all systems: omat, omol, oc20, ...")
    parser.add_argument(
        "--charge", type=_number, metavar="Q", help="charge of the whole structure, for a model of all systems (default: 0)"
    )
    parser.add_argument(
        "--spin", type=_number, metavar="S", help="its spin multiplicity, for a model of all systems (default: that of the task)"
    )
    parser.add_argument(
        "--system", type=_system, metavar="NAME=VALUE,...", help="further numbers of the whole structure, for a model of all systems"
    )
    parser.add_argument("--run", choices=["relax", "nvt", "npt"], help="also write an input script, in.RUN next to the data file")
    parser.add_argument("--temperature", type=_positive_number, default=300.0, metavar="K", help="default: %(default)s")
    parser.add_argument("--pressure", type=_number, default=0.0, metavar="BAR", help="default: %(default)s")
    parser.add_argument("--relaxed", action="store_true", help="the script of nvt or npt relaxes the structure first")
    parser.add_argument("--force", action="store_true", help="overwrite an input script that differs")
    _add_json(parser)


def _add_info(parser):
    _add_file(parser)
    _add_json(parser)


def _add_check(parser):
    _add_file(parser)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--stored", action="store_true", help="only evaluate the structures stored in the file through LAMMPS")
    only.add_argument("--store", action="store_true", help="store the sentences on the model in the file, for the logs of LAMMPS")
    _add_native_options(parser)
    _add_json(parser)


def _add_certify(parser):
    _add_file(parser)
    parser.add_argument("-o", "--output", metavar="PAGE", help="also write the page: .html, .txt or .json")
    _add_build_dir(parser)
    _add_json(parser)


def _add_compare(parser):
    _add_file(parser)
    parser.add_argument("source", help="the checkpoint or name that the file was converted from")
    parser.add_argument("structures", nargs="*", metavar="STRUCTURES", help="files that ASE reads: extxyz, POSCAR, cif, LAMMPS data, ...")
    parser.add_argument("--builtin", action="store_true", help="add the built-in set of crystals, molecules, surfaces and odd cells")
    parser.add_argument(
        "--calculator", choices=["float64", "framework"], default="float64",
        help="the framework's modules in float64 with exact couplings, or as its users run it (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--store", action="store_true", help="also compare on the self-check structures and store the framework's values in the file"
    )
    parser.add_argument("--plot", metavar="PICTURE", help="also draw parity and differences into this .png, .pdf or .svg")
    _add_model_options(parser, "default: the one stored in the file")
    _add_ignore_key(parser, "the value that was given to convert")
    _add_symbols(parser)
    _add_native_options(parser)
    _add_json(parser)


def _add_plot(parser):
    parser.add_argument("file", metavar="FILE", help=".equi file, log.lammps, or a dump of LAMMPS")
    parser.add_argument("-o", "--output", required=True, metavar="PICTURE", help=".png, .pdf or .svg")
    parser.add_argument(
        "--elements", type=_word_list, metavar="Na,Cl", help="receiver and sender of the radial functions (default: the model's first two)"
    )
    _add_symbols(parser)
    _add_json(parser)


def _add_schedule(parser):
    _add_file(parser)
    parser.add_argument(
        "--target", choices=["avx2", "avx512", "neon", "warp32", "wave64"], default=TARGETS[-1],
        help="instruction set, or lanes of a GPU (default: %(default)s)",
    )  # fmt: skip


def _add_compile(parser):
    _add_file(parser)
    parser.add_argument("--target", choices=[*TARGETS, "all"], help="instruction set (default: that of this machine's kernels)")
    parser.add_argument("--force", action="store_true", help="also make kernels again that were made before")
    _add_json(parser)


def _add_doctor(parser):
    _add_build_dir(parser)
    _add_json(parser)


def _add_bench(parser):
    _add_file(parser)
    parser.add_argument("--structure", metavar="FILE", help="a structure that ASE reads (default: a crystal that the model knows)")
    _add_symbols(parser)
    parser.add_argument(
        "--atoms", type=_whole_number(1), default=500, metavar="N", help="repeat it to at least N atoms (default: %(default)s)"
    )
    _add_steps(parser, 20)
    _add_precision(parser, "mixed")
    _add_build_dir(parser)
    _add_json(parser)


def _add_demo(parser):
    _add_build_dir(parser)
    parser.add_argument("--model", metavar="FILE.equi", help="default: sevennet-0.equi in the build folder")
    _add_steps(parser, 600)
    parser.add_argument("--ranks", type=_whole_number(1), default=1, metavar="N", help="MPI ranks (default: %(default)s)")
    parser.add_argument("--picture", metavar="PICTURE", help="also draw the run, as equi plot does")
    _add_precision(parser, "mixed")
    _add_json(parser)


# Name, function that runs it, function that adds its arguments, description.
COMMANDS = (
    (
        "convert", commands.run_convert, _add_convert,
        "Convert a trained model into an .equi file. The framework's file is read as data: nothing in it is run, and the "
        "framework that wrote it is not needed.",
    ),
    (
        "data", commands.run_data, _add_data,
        "Make a LAMMPS data file from a structure (POSCAR, CIF, extxyz and all that ASE reads), with masses and type "
        "labels, and print the pair_coeff line with the symbols in the order of its types.",
    ),
    ("info", commands.run_info, _add_info, "Print what is inside an .equi file."),
    (
        "check", commands.run_check, _add_check,
        "Check a model on this machine: its kernels, laws of energies and forces, and the values that are stored in the file.",
    ),
    (
        "certify", commands.run_certify, _add_certify,
        "Prove a model file on this machine and print one page: where it comes from, how well stored values and laws are met "
        "in each precision and on ranks, what the model itself does, drift, time and memory.",
    ),
    ("compare", commands.run_compare, _add_compare, "Compare LAMMPS with the training framework on any structures."),
    (
        "plot", commands.run_plot, _add_plot,
        "Draw the radial functions of an .equi file's convolutions; of a log file of LAMMPS the drift of the energy, "
        "temperature, pressure, density and where the time went; or of its dump the radial distribution functions.",
    ),
    ("schedule", commands.run_schedule, _add_schedule, "Print how the convolution kernels compute a model, and what bounds them."),
    (
        "compile", commands.run_compile, _add_compile,
        "Make the kernels of a model that the build does not have, with a C++ compiler of this machine. The pair style finds "
        "them in equi/kernels in your cache folder (XDG_CACHE_HOME, else ~/.cache).",
    ),
    (
        "models", commands.run_models, _add_json,
        "List published models: license, origin, and whether this project has tried them.",
    ),
    ("doctor", commands.run_doctor, _add_doctor, "Report what a run finds on this machine, and what would slow it or stop it."),
    ("bench", commands.run_bench, _add_bench, "Measure a step of molecular dynamics here, with ranks against threads."),
    ("demo", commands.run_demo, _add_demo, "Check the model, then run rock salt at room temperature with LAMMPS and print a short table."),
)  # fmt: skip


def parser():
    top = _Parser(
        prog="equi",
        description="Model tool of the LAMMPS pair style equi: convert, inspect, check and compare .equi files, and begin " "with LAMMPS.",
    )
    top.add_argument("--version", action="version", version=f"equi {__version__}")
    top.add_argument("-q", "--quiet", action="store_true", help="no progress display")
    top.add_argument("--traceback", action="store_true", help="show where in the program an error was found")
    subparsers = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, function, add_arguments, text in COMMANDS:
        sub = subparsers.add_parser(name, help=text, description=text)
        # The option has the same effect before and after the command. If it is absent here, an earlier one still
        # holds.
        sub.add_argument("-q", "--quiet", action="store_true", default=argparse.SUPPRESS, help="no progress display")
        sub.set_defaults(function=function)
        add_arguments(sub)
    return top


def _run_elsewhere(missing, argv):
    """The same command in the environment of the framework that this interpreter lacks; None without one."""
    import subprocess
    from pathlib import Path

    framework = missing.framework
    if framework.interpreter is None:
        return None
    # The variable is removed, so an environment that lacks the framework reports this instead of starting another.
    environment = {key: value for key, value in os.environ.items() if key != framework.variable}
    package_folder = str(Path(__file__).resolve().parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package_folder, environment.get("PYTHONPATH")]))
    try:
        return subprocess.run([framework.interpreter, "-m", "equi_tools", *argv], env=environment).returncode
    except OSError as error:
        raise EquiError(f"{framework.variable}: cannot run {framework.interpreter}: {error.strerror}") from error


def _prepare_streams():
    """Output that was closed is dropped, and characters that the terminal's encoding lacks are written as escapes."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))
        if hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _abandon(stream):
    """Drops what is left in the buffer of an output that cannot be written; Python would otherwise try again at its
    end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass  # an output without a file beneath it


def _complain(text):
    try:
        print(f"equi: error: {printable(' '.join(text.split()))}", file=sys.stderr, flush=True)
    except OSError:
        _abandon(sys.stderr)  # the exit status reports it
    return 1


def _what_is_wrong(error):
    """The line of an exception that is not an EquiError."""
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    return f"{type(error).__name__}: {error} (equi --traceback ... shows where)"


def _command(argv):
    try:
        args = parser().parse_args(argv)
    except SystemExit:
        sys.stdout.flush()  # the help
        raise
    try:
        status = args.function(args)
    except MissingFramework as missing:
        status = _run_elsewhere(missing, argv)
        if status is None:
            raise
    except Exception:
        if args.traceback:
            import traceback

            traceback.print_exc()
        raise
    # Flush here, while a full disk can still be reported.
    sys.stdout.flush()
    return status


def main(argv=None):
    argv = sys.argv[1:] if argv is None else list(argv)
    # torch and e3nn announce their own plans in many lines; errors still come through.
    warnings.simplefilter("ignore")
    _prepare_streams()
    try:
        return _command(argv)
    except EquiError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        print("equi: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _abandon(sys.stdout)
        return 0
    except Exception as error:
        if isinstance(error, OSError):
            _abandon(sys.stdout)
        return _complain(_what_is_wrong(error))
