# SPDX-License-Identifier: MIT
"""`equi convert`: a file of a training framework -> one .equi file."""

import datetime
import json
import math
import sys
from contextlib import contextmanager
from pathlib import Path

from . import __version__, equi_file, frameworks, model_units, reference_values
from . import document as document_rules
from .errors import EquiError
from .kernels import not_tried, try_file
from .printable import printable
from .progress import Steps
from .yaml_options import yaml_options

CHOICES = ("modality", "head", "task")
MODEL_OPTIONS = (*CHOICES, *frameworks.SETTINGS)


def chosen(framework, options):
    """The user's choice in `options`, of those of CHOICES, among what the source offers."""
    for kind in CHOICES:
        if options.get(kind) is not None and kind != framework.choice:
            raise EquiError(f"--{kind} {options[kind]}: {framework.title} models have no {kind}; leave it out")
    return options.get(framework.choice)


def parse_types(text):
    """'a=Na,b=Cl' as a dict from a model's type names to chemical symbols."""
    pairs = [pair.split("=") for pair in text.replace(",", " ").split()]
    if not pairs or any(len(pair) != 2 or not all(pair) for pair in pairs):
        raise EquiError(f"--types: expected TYPE=ELEMENT,..., found '{text}'")
    if len({name for name, _ in pairs}) != len(pairs):
        raise EquiError("--types: a type is named twice")
    return dict(pairs)


def parse_system(text):
    """'elec_temp=300,NAME=VALUE' as a dict from the names of a model's inputs to finite numbers."""
    found = {}
    for pair in text.replace(",", " ").split():
        name, _, word = pair.partition("=")
        try:
            number = float(word)
        except ValueError:
            number = math.nan
        if not name or not math.isfinite(number) or name in found:
            raise EquiError(f"--system: expected NAME=VALUE,... with each name once, found '{text}'")
        found[name] = number
    if not found:
        raise EquiError(f"--system: expected NAME=VALUE,..., found '{text}'")
    return found


def parse_settings(text):
    """The name of a model, or a file NAME.yaml with its settings, as a dict with the name as `variant`."""
    path = Path(text)
    if path.suffix not in (".yaml", ".yml"):
        return {"variant": text}
    if not path.is_file():
        raise EquiError(f"--settings: cannot read {text}: no such file")
    return {"variant": path.stem, **yaml_options(path)}


@contextmanager
def _blaming(source, framework):
    """Any exception of a framework about a damaged or foreign file becomes an EquiError that names the file."""
    try:
        yield
    except EquiError as error:
        if str(source) in str(error):
            raise
        raise EquiError(f"{source}: {error}") from error
    except (OSError, MemoryError):
        raise
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise EquiError(f"{source}: not a valid {framework.title} model: {type(error).__name__}: {first}") from error


def check_settings(framework, options):
    """The settings given in `options`; refuses those that `framework` does not use."""
    given = {name: options[name] for name in frameworks.SETTINGS if options.get(name) is not None}
    for name in given:
        if name not in framework.settings:
            raise EquiError(f"--{name.replace('_', '-')}: {frameworks.SETTINGS[name].format(title=framework.title)}; leave it out")
    return given


def check_ignored(framework, keys):
    """Refuses keys to ignore if `framework` has no files with a configuration that may hold them."""
    if keys and not framework.ignores_keys:
        raise EquiError(f"--ignore-key {keys[0]}: {framework.title} models have no configuration with keys to ignore; leave it out")


# Names of the settings in provenance, and readers of their values.
PROVENANCE = {
    "types": ("types", parse_types), "unit": ("energy_unit", str), "length_unit": ("length_unit", str), "charge": ("charge", float),
    "spin": ("spin", float), "system": ("system", json.loads), "composition": ("composition", str), "coulomb_cutoff": ("coulomb_cutoff", float),
    "dispersion_damping": ("dispersion_damping", float),
    "les_sigma": ("les_sigma", float), "les_dl": ("les_dl", float), "les_self": ("les_self", str), "les_boundary": ("les_boundary", str),
    "framework_version": ("framework_version", str), "settings": ("settings", json.loads),
}  # fmt: skip


def _settings_as_text(settings):
    texts = {PROVENANCE[name][0]: str(value) for name, value in settings.items()}
    if "types" in settings:
        texts["types"] = ",".join(f"{name}={symbol}" for name, symbol in settings["types"].items())
    for name in ("settings", "system"):
        if name in settings:
            texts[name] = json.dumps(settings[name])
    return texts


def stored_settings(framework, provenance):
    """The settings with which a file was converted, as far as `framework` uses them."""
    known = {name: PROVENANCE[name] for name in framework.settings}
    return {name: read(provenance[key]) for name, (key, read) in known.items() if key in provenance}


def convert(source, output, elements=None, ignore_keys=(), license=None, citation=None, quiet=False, reference=False, **options):
    """Writes `output` from a model of any framework (name, file or folder); returns its document. The source is read
    as data, and its framework is not needed. reference: also loads the framework and stores its own values. options:
    of MODEL_OPTIONS."""
    unknown = [name for name in options if name not in MODEL_OPTIONS]
    if unknown:
        raise TypeError(f"convert() has no option {unknown[0]}")
    is_equi_file = equi_file.is_equi_file(source)
    # An .equi file of an older version may be replaced by its renewed form: nothing is lost.
    equi_file.check_output(output, () if is_equi_file else (source,))
    if is_equi_file:
        others = {"elements": elements, "ignore-key": ignore_keys, "license": license, "citation": citation}
        return renew(source, output, [name for name, value in {**options, **others}.items() if value], quiet)
    framework = (frameworks.require if reference else frameworks.detect)(source)
    choice = chosen(framework, options)
    settings = check_settings(framework, options)
    check_ignored(framework, ignore_keys)
    with Steps(4 + reference, quiet) as steps:
        steps.next(f"reading {source}")
        with _blaming(source, framework):
            checkpoint, units = model_units.load(framework, source, ignore_keys, settings)
        steps.next(f"translating a {framework.title} model of {len(checkpoint.elements)} elements")
        with _blaming(source, framework):
            body, tensors = framework.convert(checkpoint, choice, elements)
            remarks = _doubts(framework, units, settings, body, tensors)
            units.convert(body, tensors)
        if "tasks" in body.get("mixture", {}):
            _check_for_all_systems(settings, reference)
        if reference and not document_rules.has_energy(body):
            raise EquiError("the model has no energies, which are what the values of a framework consist of")
        remarks += [*checkpoint.remarks, *notes(body, framework)]
        if "unit" in framework.settings:
            settings |= {"unit": units.energy, "length_unit": units.length}
        choice = checkpoint.chosen(choice)
        version, values = reference_values.NO_VERSION, []
        if units.are_ours:
            version, values = reference_values.known(framework, checkpoint.sha256, choice, body["elements"])
        if reference:
            steps.next(f"computing reference values with {framework.name} in float64")
            with _blaming(source, framework):
                version, values = reference_values.compute(framework, checkpoint, choice, body, units)
        document = {
            "format": equi_file.FORMAT_NAME,
            "format_version": equi_file.FORMAT_VERSION,
            "framework": {"name": framework.name},
            **body,
            "provenance": _provenance(framework, checkpoint, choice, settings, license, citation)
            | ({"notes": "; ".join(remarks)} if remarks else {}),
            "units": {"energy": "eV", "length": "Angstrom"},
        }
        document = reference_values.add(document, version, values)
        steps.next(f"writing {output}")
        with _blaming(source, framework):
            packed = equi_file.packed(document, tensors)
            document_rules.check(document, tensors)
        _write_what_runs(
            output, packed, quiet, lambda: steps.next("reading and evaluating it as the pair style does"),
            lambda reason: _blame(reason, printable(str(source))),
        )  # fmt: skip
    return document


def _blame(reason, source):
    """Whose fault it is that a converted file does not run. Numbers of a model may be so large that its energy overflows."""
    if "is not finite" in reason:
        return f"If the framework's own results are finite, please report it with {source}"
    return f"This is a fault of the converter: please report it with {source}"


def _write_what_runs(output, packed, quiet, begin, blame):
    """Moves a file into its place after a trial; a note reports if a trial was not possible. begin: called before the
    trial. blame: what is appended to the reason of a failure, for this reason."""

    def check(partial):
        begin()
        try:
            why.append(try_file(partial, output))
        except EquiError as error:
            raise EquiError(f"{error}. No file is written. {blame(str(error))}") from error

    why = []
    equi_file.replace(output, packed, check)
    if any(why) and not quiet:
        print(f"equi: note: {not_tried(output, why[0])}", file=sys.stderr)


def _doubts(framework, units, settings, body, tensors):
    """A remark if the numbers of a model are unlike those of the unit that the user did not name."""
    if "unit" not in framework.settings or "unit" in settings or units.energy != "eV":
        return []
    doubt = model_units.doubt(body, tensors)
    known = " | ".join(model_units.ENERGIES)
    what = f"the energies of the model are taken for eV, which they hardly are; name their unit with --unit {known}"
    return [f"{doubt}: {what}"] if doubt else []


def _check_for_all_systems(settings, reference):
    for name in settings:
        raise EquiError(
            f"--{name}: the file is one for all systems, whose {name} is a keyword of pair_style; name a --composition for a file of "
            "one system"
        )
    if reference:
        raise EquiError("values of the framework are stored in files for one system: name a --composition")


def renew(source, output, options, quiet):
    """Writes the model of an .equi file in the present format version, with unchanged numbers."""
    if options:
        raise EquiError(f"{source} is an .equi file: convert brings its format up to date and accepts no --{options[0]}")
    document, tensors = equi_file.read(source)
    if document["format_version"] == equi_file.FORMAT_VERSION:
        raise EquiError(
            f"{source} is an .equi file already, in the present version {equi_file.FORMAT_VERSION} of the format: give it "
            "to pair_coeff as it is"
        )
    document["format_version"] = equi_file.FORMAT_VERSION
    packed = equi_file.packed(document, tensors)
    _write_what_runs(output, packed, quiet, lambda: None, lambda _: f"The fault is in {printable(str(source))} already")
    return document


def notes(document, framework):
    """What the user of a converted model should know about it: lines for a terminal and for the file."""
    found = list(framework.notes(document))
    for n, layer in enumerate(document["layers"]):
        radial = layer.get("radial")
        # SO(2) convolutions multiply their messages by the cutoff function, whatever their radial networks return.
        if radial is None or radial.get("times_cutoff") or radial.get("charge_potential") or layer["type"] == "so2_convolution":
            continue
        # A network vanishes where the basis does, unless it has other inputs.
        causes = [name for name in ("sender", "receiver", "biases", "norms") if any(radial.get(name) or ())]
        if len(radial["weights"]) > 1 and radial["activation"] == "sigmoid":
            causes.append("sigmoid")
        if causes:
            found.append(
                f"the energy jumps where a neighbor crosses the cutoff: the radial network of layer {n} does not vanish "
                f"there (it has {', '.join(causes)}, and the cutoff function is not applied to what comes out of it), in "
                f"{framework.title} as here; energy is not conserved"
            )
            break
    return found


def _provenance(framework, checkpoint, choice, settings, license, citation):
    """Converts all values to strings; drops folders of file names, which mean nothing on another machine."""
    given = Path(checkpoint.source)
    entries = {
        "source": given.resolve().name if given.exists() else f"{checkpoint.source} ({checkpoint.path.name})",
        "sha256": checkpoint.sha256,
        "framework_version": checkpoint.version,
        "licence": license or checkpoint.license,
        "date": datetime.date.today().isoformat(),
        "citation": citation or checkpoint.citation,
        "converter": f"equi-tools {__version__}",
    }
    if choice is not None:
        entries[framework.choice] = choice
    return entries | _settings_as_text(settings)
