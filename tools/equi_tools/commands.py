# SPDX-License-Identifier: MIT
"""What the commands of `equi` do with their parsed words.

Each run_COMMAND(args) returns the exit status. A command imports what it needs when it runs, so the others start
fast."""

import json
import sys

from .errors import EquiError
from .printable import printable


def _native(args):
    from .compare import Native

    if args.radial is not None and args.radial != "exact":
        try:
            float(args.radial)
        except ValueError as error:
            raise EquiError(f"--radial: expected 'exact' or a tolerance, found '{args.radial}'") from error
    return Native(args.file, args.precision, args.radial, tuple(args.keywords.split()), args.ranks, args.build_dir)


def _model_options(args):
    from .convert import MODEL_OPTIONS

    return {name: getattr(args, name) for name in MODEL_OPTIONS}


def run_convert(args):
    from . import reference_values
    from .convert import convert

    document = convert(
        args.source, args.output, args.elements, args.ignore_key, args.license, args.citation, args.quiet, **_model_options(args)
    )
    if "notes" in document["provenance"]:
        print(f"equi: warning: {printable(document['provenance']['notes'])}", file=sys.stderr)
    missing = reference_values.missing(document)
    if missing and not args.quiet:
        print(f"equi: note: {missing}", file=sys.stderr)
    return 0


def _print(args, facts, text):
    """Prints the result of a command: `facts` as JSON, or text(facts)."""
    print(json.dumps(facts, indent=2) if args.json else text(facts))


def run_info(args):
    from . import info, kernels

    facts = info.summary(args.file)
    why = kernels.try_file(args.file)
    if why and not args.quiet:
        print(f"equi: note: {kernels.not_tried(args.file, why)}", file=sys.stderr)
    _print(args, facts, lambda facts: info.text(args.file, facts))
    return 0


def run_data(args):
    from . import data

    job = data.make(
        args.structure, args.output, args.supercell, args.order, args.model, args.run, args.temperature, args.pressure,
        args.task, args.charge, args.spin, args.symbols, args.cell, args.rattle, args.relaxed, args.force, args.system,
    )  # fmt: skip
    _print(args, data.facts(job), data.text)
    return 0


def run_models(args):
    from . import published

    _print(args, published.facts(), published.text)
    return 0


def run_doctor(args):
    from . import doctor

    findings = doctor.examine(args.build_dir)
    _print(args, doctor.facts(findings), lambda facts: doctor.text(findings))
    return 1 if any(finding.state == doctor.BROKEN for finding in findings) else 0


def run_bench(args):
    from . import bench

    facts = bench.measure(args.file, args.build_dir, args.precision, args.atoms, args.steps, args.structure, args.quiet, args.symbols)
    _print(args, facts, bench.text)
    return 0


def run_check(args):
    from . import compare, equi_file, kernels, model_properties, reference_values

    native = _native(args)
    if native.has_direct_forces:
        raise EquiError("stored forces are derivatives of the energy: leave out the keyword forces")
    if args.stored:
        show = compare.print_json if args.json else compare.print_table
        return 1 if compare.check(native, args.quiet, show=show) else 0
    document, _ = equi_file.read(args.file)
    checks = kernels.check(args.file, args.build_dir)
    failed = sum(not check.passed for check in checks)
    facts = {"structures": [], "failed": 0}
    if document.get("self_check"):
        if args.json:
            failed += compare.check(native, args.quiet, write=lambda text: facts.update(json.loads(text)), show=compare.print_json)
        else:
            failed += compare.check(native, args.quiet)
    elif not args.json:
        print(printable(reference_values.missing(document) or "the file stores no values"))
    facts["failed"] = failed
    facts["machine"] = [vars(check) for check in checks]
    properties, why = model_properties.examined(document, native)
    facts["properties"], facts["not_examined"] = [vars(one) for one in properties], why or None
    _print(args, facts, lambda _: f"{kernels.check_text(checks)}\n{model_properties.text(properties, why)}")
    if args.store and not failed and not why:
        equi_file.change(args.file, lambda document: model_properties.stored(document, properties))
        print(f"{args.file}: the properties of the model are stored", file=sys.stderr)
    return 1 if failed else 0


def run_certify(args):
    from . import certificate, certify

    if args.output is not None:
        certify.check_output(args.output)
    facts = certify.facts(args.file, args.build_dir, args.quiet)
    if args.output is not None:
        certify.write(args.output, facts)
    _print(args, facts, certificate.text)
    return 0 if facts["passed"] else 1


def run_compare(args):
    from . import compare, equi_file, frameworks, model_units, plot, reference_values, self_check, structures
    from . import document as document_rules
    from .convert import check_ignored, check_settings, stored_settings
    from .convert import chosen as choice_of

    native = _native(args)
    if args.plot is not None:
        plot.check_output(args.plot)
    document, _ = equi_file.read(args.file)
    if not document_rules.has_energy(document):
        raise EquiError(f"{args.file}: the model has no energies to compare: compute equi/dipole prints its dipoles")
    framework, options = frameworks.require(args.source), _model_options(args)
    choice = choice_of(framework, options) or document["provenance"].get(framework.choice)
    given = check_settings(framework, options)
    settings = {**stored_settings(framework, document["provenance"]), **given}
    check_ignored(framework, args.ignore_key)
    source, units = args.source, model_units.ModelUnits()
    if settings or args.ignore_key:
        source, units = model_units.load(framework, args.source, args.ignore_key, settings)
    if "mixture" in document:
        task = choice if framework.choice == "task" else None
        native.keywords += tuple(compare.keywords_of_system(document, task, args.charge, args.spin, args.system))
    chosen = structures.read_files(args.structures, args.symbols)
    for name, atoms in chosen:
        unknown = sorted(set(atoms.get_chemical_symbols()) - set(document["elements"]))
        if unknown:
            raise EquiError(f"{name}: {args.file} does not know {', '.join(unknown)}")
    if args.builtin:
        beside = sys.stderr if args.json else sys.stdout
        chosen += compare.select_builtin(document, lambda line: print(line, file=beside))
    if args.store and "mixture" in document and any(given.get(name) is not None for name in ("charge", "spin", "system")):
        raise EquiError("--store: a file for all systems stores values of neutral ones: leave out --charge, --spin and --system")
    if args.store:
        if native.has_direct_forces:
            raise EquiError("--store: stored forces are derivatives of the energy: leave out the keyword forces")
        if args.calculator != "float64" or args.precision != "double":
            raise EquiError("--store: values are stored after a comparison in float64: leave out --calculator and --precision")
        chosen += self_check.structures_of(document)
    if not chosen:
        raise EquiError("no structures: name files that ASE can read, or add --builtin")
    chosen = self_check.oriented(document, chosen)
    if args.calculator == "framework":
        # The framework's own float32 is not more accurate than our mixed precision.
        calculator = units.calculator(framework.framework_calculator(source, choice))
        bars = compare.bars_for("mixed" if args.precision == "double" else args.precision, args.radial)
    else:
        calculator = units.calculator(framework.float64_calculator(source, choice))
        bars = compare.bars_for(args.precision, args.radial)
    show = compare.print_json if args.json else compare.print_table
    failed = compare.compare(
        native, calculator, chosen, bars, args.quiet, show=show, plot=args.plot, with_direct_forces=native.has_direct_forces
    )
    if args.store and not failed:
        entries = self_check.entries(document, calculator)
        reference_values.store(args.file, framework.installed_version(), entries)
        print(f"{args.file}: the values of {framework.name} {framework.installed_version()} are stored", file=sys.stderr)
    return 1 if failed else 0


def run_plot(args):
    from . import plot

    _print(args, plot.make(args.file, args.output, args.elements, args.symbols), plot.text)
    return 0


def run_schedule(args):
    from . import equi_file, kernels

    equi_file.read(args.file)
    print(kernels.schedule(args.file, args.target), end="")
    return 0


def run_compile(args):
    from . import equi_file, kernels

    equi_file.read(args.file)
    lines = kernels.compile_missing(args.file, args.target, args.force, args.quiet)
    _print(args, lines, "\n".join)
    return 0


def run_demo(args):
    from .demo import demo

    return 1 if demo(args.build_dir, args.model, args.steps, args.ranks, args.precision, args.quiet, args.json, args.picture) else 0
