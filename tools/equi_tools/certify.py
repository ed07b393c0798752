# SPDX-License-Identifier: MIT
"""`equi certify`: one page that proves a model file on this machine, for people (text, HTML) and programs (JSON)."""

import hashlib
import html
import json
from dataclasses import asdict
from datetime import date
from pathlib import Path

import numpy as np

from . import __version__, bench, compare, equi_file, kernels, lammps_runner, model_properties, run_log
from .errors import EquiError
from .printable import printable
from .progress import Steps

FORMATS = (".html", ".txt", ".json")
# (precision, radial) of the comparisons with stored values; None: tables of the default tolerance.
KINDS = (("double", "exact"), ("double", None), ("mixed", None))
LEAST_ATOMS, STEPS, TEMPERATURE = 60, 1000, 300.0
RANKS = 2
# Sums of ranks differ in their last bits.
SAME_ENERGY, SAME_FORCE = 1e-11, 1e-10  # eV/atom, eV/A
DISTANCES = 400
SHORTEST = 1.0  # Angstrom, of the radial functions that are examined: atoms do not come nearer
FLAT = 0.01  # of the largest slope


def check_output(path):
    if Path(path).suffix.lower() not in FORMATS:
        raise EquiError(f"cannot write {path}: expected a name that ends with {', '.join(FORMATS)}")
    equi_file.check_output(path)


def _origin(file, document):
    provenance = document["provenance"]
    known = {"source": "source", "licence": "license", "citation": "citation", "notes": "notes", "properties": "properties"}
    return {
        "file": Path(file).name,
        "sha256": hashlib.sha256(Path(file).read_bytes()).hexdigest(),
        "architecture": document["architecture"],
        "framework": f"{document['framework']['name']} {document['framework']['version']}",
        "elements": document["elements"],
        "cutoff_A": document["cutoff"],
        **{name: provenance[key] for key, name in known.items() if key in provenance},
        "provenance": {key: value for key, value in provenance.items() if key not in known},
    }


def _machine(build_dir):
    machine = kernels.machine(build_dir=build_dir)
    return {"date": date.today().isoformat(), "equi": __version__, "processor": machine["cpu"], "cores": int(machine["cores"]),
            "kernels": machine["kernels"]}  # fmt: skip


def _values(file, document, build_dir):
    """The largest differences from stored values, by precision."""
    if not document.get("self_check"):
        return []
    found = []
    for precision, radial in KINDS:
        differences, bars = compare.stored_differences(compare.Native(file, precision, radial, build_dir=build_dir), quiet=True)
        stresses = [d.stress for d in differences if d.stress is not None]
        found.append({
            "precision": precision, "radial": radial or "table", "structures": len(differences),
            "energy_eV_per_atom": max(d.energy for d in differences), "force_eV_per_A": max(d.force for d in differences),
            "stress_eV_per_A3": max(stresses) if stresses else None, "allowed": asdict(bars),
            "passed": not any(d.missed() for d in differences),
        })  # fmt: skip
    return found


def _ranks(file, atoms, build_dir):
    """Differences of two ranks from one, None without MPI."""
    lmp, mpirun = lammps_runner.lammps_programs(build_dir)
    if mpirun is None:
        return None
    one, other = (lammps_runner.evaluate_with_ranks(atoms, file, n, lmp=lmp, mpirun=mpirun) for n in (1, RANKS))
    energy = abs(one.energy - other.energy) / len(atoms)
    force = float(np.abs(one.forces - other.forces).max()) / max(1.0, float(np.abs(one.forces).max()))
    return {"ranks": RANKS, "energy_eV_per_atom": energy, "force_eV_per_A": force, "passed": energy < SAME_ENERGY and force < SAME_FORCE}


def _dynamics(file, name, atoms, build_dir):
    """Drift, time and memory of a run at constant energy."""
    lmp, _ = lammps_runner.lammps_programs(build_dir)
    timestep = 0.0005 if "H" in atoms.get_chemical_symbols() else 0.001
    threads = int(kernels.machine(1, build_dir)["threads"])
    with lammps_runner._working_folder() as folder:
        lines = [
            *lammps_runner.write_system(folder, atoms, file, "mixed"), "minimize 0.0 0.01 200 1000", "reset_timestep 0",
            f"velocity all create {2 * TEMPERATURE} 4928459", "fix 1 all nve", f"timestep {timestep}", "thermo 10",
            "thermo_style custom step temp pe etotal", f"run {STEPS}",
        ]  # fmt: skip
        (folder / "in.run").write_text("\n".join(lines) + "\n")
        output = lammps_runner.run_and_show([lmp, "-in", "in.run", "-log", "log.lammps", "-nocite"], folder, threads=threads)
        run = run_log.read(folder / "log.lammps")[-1]
    performance = lammps_runner.performance(output)
    return {
        "system": name, "atoms": len(atoms), "picoseconds": float(run.picoseconds[-1]), "temperature_K": run.means()["Temp"],
        "drift_meV_per_atom_and_ps": run.drift(), "threads": threads, "us_per_atom_and_step": performance.microseconds,
        "kB_per_atom": performance.memory,
    }  # fmt: skip


def _radial(file, document):
    """Where the radial functions of each convolution are flat and steep, for the first two elements."""
    receiver, sender = (document["elements"] * 2)[:2]
    found = []
    for layer, table in kernels.radial(file, receiver, sender, DISTANCES).items():
        if table is None:
            continue
        r, values = table
        slopes = np.sqrt((np.gradient(values[:, :, 0], r, axis=0) ** 2).mean(axis=1))
        seen = r >= SHORTEST
        r, slopes = r[seen], slopes[seen]
        if not slopes.max() > 0.0:
            continue
        flat = slopes < FLAT * slopes.max()
        found.append({
            "layer": layer, "receiver": receiver, "sender": sender, "steepest_A": float(r[slopes.argmax()]),
            "flat_below_A": float(r[np.argmin(flat)]) if flat[0] else None,
            "flat_above_A": float(r[len(r) - np.argmin(flat[::-1])]) if flat[-1] and not flat.all() else None,
        })  # fmt: skip
    return found


def facts(file, build_dir=None, quiet=False):
    """All facts of the page; `passed` is whether every value and law is met."""
    document, _ = equi_file.read(file)
    native = compare.Native(str(file), "double", build_dir=build_dir)
    with Steps(6, quiet) as steps:
        steps.next("stored values")
        values = _values(str(file), document, build_dir)
        steps.next("laws")
        laws = [vars(one) for one in kernels.check(file, build_dir)]
        steps.next("properties of the model")
        properties, why = model_properties.examined(document, native)
        # A model of one composition or of all systems needs more than a crystal.
        name, atoms = bench.system(document, LEAST_ATOMS)
        whole = "mixture" not in document
        steps.next("ranks")
        ranks = _ranks(file, atoms, build_dir) if whole else None
        steps.next("dynamics")
        dynamics = _dynamics(file, name, atoms, build_dir) if whole else None
        steps.next("radial functions")
        radial = _radial(file, document)
    tested = [*values, *laws, *([ranks] if ranks else [])]
    return {
        "model": _origin(file, document), "machine": _machine(build_dir), "values": values, "laws": laws,
        "properties": [vars(one) for one in properties], "not_examined": why or None, "ranks": ranks, "dynamics": dynamics,
        "radial": radial, "passed": all(one["passed"] for one in tested),
    }  # fmt: skip


def _number(value, form=".1e"):
    return "-" if value is None else f"{value:{form}}"


def _worst_laws(laws):
    """For each precision and law the one that is nearest to its bar, or beyond it, of all kernels and structures."""
    worst = {}
    for law in laws:
        if law["precision"] is None:
            continue
        share = np.inf if law["measured"] is None else law["measured"] / law["allowed"]
        key = law["precision"], law["name"].split(": ", 1)[-1]
        if key not in worst or share > worst[key][0]:
            worst[key] = share, law
    return [law for _, law in worst.values()]


def _sections(facts):
    """(title, lines of text, table or None) of each part of the page; a table is (names of columns, rows)."""
    model, machine, dynamics, ranks = facts["model"], facts["machine"], facts["dynamics"], facts["ranks"]
    elements = model["elements"]
    named = " ".join(elements[:12]) + (f" ... ({len(elements)})" if len(elements) > 12 else "")
    rows = [("file", model["file"]), ("SHA-256", model["sha256"]), ("architecture", model["architecture"]), ("framework", model["framework"]),
            ("elements", named), ("cutoff", f"{model['cutoff_A']:g} A")]  # fmt: skip
    rows += [(key, str(model[key])) for key in ("source", "license", "citation", "notes") if key in model]
    rows += [(key, str(value)) for key, value in model["provenance"].items()]
    yield "Model", [], (None, rows)

    lines = [] if facts["values"] else ["The file stores no values of its framework."]
    yield "Differences from the framework's float64", lines, facts["values"] and (
        ("precision", "radial functions", "structures", "energy, eV/atom", "forces, eV/A", "stress, eV/A^3", ""),
        [(v["precision"], v["radial"], v["structures"], _number(v["energy_eV_per_atom"]), _number(v["force_eV_per_A"]),
          _number(v["stress_eV_per_A3"]), "met" if v["passed"] else "MISSED") for v in facts["values"]],
    )  # fmt: skip

    of_kernels = [law for law in facts["laws"] if law["precision"] is None]
    good = sum(law["passed"] for law in of_kernels)
    sets = " ".join(dict.fromkeys(law["instruction_set"] for law in facts["laws"]))
    yield "Laws on this machine", [
        f"{good} of {len(of_kernels)} comparisons of kernels with plain loops are met.",
        f"The largest of crystals and clusters, with kernels {sets}:",
    ], (
        ("precision", "law", "measured", "allowed", "kernels", ""),
        [(law["precision"] or "", law["name"], _number(law["measured"]), f"{_number(law['allowed'])} {law['unit'] or ''}".strip(),
          law["instruction_set"], "met" if law["passed"] else "MISSED")
         for law in [*(law for law in of_kernels if not law["passed"]), *_worst_laws(facts["laws"])]],
    )  # fmt: skip

    lines = [f"The properties were not examined: {facts['not_examined']}."] if facts["not_examined"] else []
    if not lines and not facts["properties"]:
        lines = ["No jump at the cutoff; mirror images have the same energy; pairs have no holes at short distance."]
    yield "What the model itself does", lines + [one["sentence"] for one in facts["properties"]], None

    lines = []
    if ranks is not None:
        verdict = "met" if ranks["passed"] else "MISSED"
        lines.append(f"{ranks['ranks']} ranks against one: energy {_number(ranks['energy_eV_per_atom'])} eV/atom, forces "
                     f"{_number(ranks['force_eV_per_A'])} eV/A: {verdict}.")  # fmt: skip
    if dynamics is not None:
        lines.append(f"{dynamics['atoms']} atoms ({dynamics['system']}), {dynamics['picoseconds']:g} ps at constant energy and "
                     f"{dynamics['temperature_K']:.0f} K, mixed: drift {_number(dynamics['drift_meV_per_atom_and_ps'], '.2g')} meV/atom/ps, "
                     f"{dynamics['us_per_atom_and_step']:.1f} us/atom/step with {dynamics['threads']} threads, "
                     f"{_number(dynamics['kB_per_atom'], '.1f')} kB/atom.")  # fmt: skip
    yield "Runs", lines or ["Files for all systems need keywords, and were not run."], None

    yield "Radial functions", [] if facts["radial"] else ["They depend on features of the atoms."], facts["radial"] and (
        ("layer", "receiver, sender", "steepest at, A", "flat below, A", "flat above, A"),
        [(r["layer"], f"{r['receiver']}, {r['sender']}", _number(r["steepest_A"], ".2f"), _number(r["flat_below_A"], ".2f"),
          _number(r["flat_above_A"], ".2f")) for r in facts["radial"]],
    )  # fmt: skip
    yield "Machine", [f"{machine['processor']}, {machine['cores']} cores, kernels {machine['kernels']}; equi {machine['equi']}, "
                      f"{machine['date']}."], None  # fmt: skip


def _verdict(facts):
    return "every value and law is met" if facts["passed"] else "some values or laws are missed"


def text(facts):
    lines = [f"{facts['model']['file']}: {_verdict(facts)}"]
    for title, sentences, table in _sections(facts):
        lines += ["", title, *(f"  {printable(sentence, 400)}" for sentence in sentences)]
        if table:
            names, rows = table
            rows = [[printable(str(cell), 200) for cell in row] for row in ([names] if names else []) + list(rows)]
            widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
            lines += ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join(lines)


STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em;line-height:1.4}"
    "table{border-collapse:collapse;margin:.5em 0}td,th{text-align:left;padding:.15em .8em .15em 0;border-bottom:1px solid #ddd;"
    "vertical-align:top;overflow-wrap:anywhere}h2{margin-top:1.5em;font-size:1.1em}"
)


def page(facts):
    """The page in HTML, without anything from elsewhere."""
    title = f"{facts['model']['file']}: {_verdict(facts)}"
    parts = [f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>',
             f"<h1>{html.escape(title)}</h1>"]  # fmt: skip
    for heading, sentences, table in _sections(facts):
        parts.append(f"<h2>{html.escape(heading)}</h2>")
        parts += [f"<p>{html.escape(sentence)}</p>" for sentence in sentences]
        if table:
            names, rows = table
            cells = lambda row, tag: "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row) + "</tr>"  # noqa: E731
            parts.append("<table>" + (cells(names, "th") if names else "") + "".join(cells(row, "td") for row in rows) + "</table>")
    return "\n".join([*parts, "</html>", ""])


def write(path, facts):
    """Writes the page in the format of the name's ending."""
    forms = {".html": page, ".txt": lambda f: text(f) + "\n", ".json": lambda f: json.dumps(f, indent=2) + "\n"}
    equi_file.replace(path, [forms[Path(path).suffix.lower()](facts).encode()])
