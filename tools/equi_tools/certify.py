# SPDX-License-Identifier: MIT
"""`equi certify`: one page that proves a model file on this machine, for people (text, HTML) and programs (JSON)."""

import hashlib
import json
import os
from dataclasses import asdict
from datetime import date
from pathlib import Path

import numpy as np

from . import __version__, bench, certificate, compare, equi_file, kernels, lammps_runner, model_properties, run_log
from . import document as document_rules
from .errors import EquiError
from .progress import Steps

FORMATS = (".html", ".txt", ".json")
# (precision, radial) of the comparisons with stored values; None: tables of the default tolerance.
KINDS = (("double", "exact"), ("double", None), ("mixed", None))
LEAST_ATOMS, STEPS, TEMPERATURE = 60, 1000, 300.0
RANKS = 2
# Sums of ranks differ in their last bits, of which large energies of isolated atoms leave fewer for the rest.
SAME_ENERGY, SAME_FORCE, SAME_BITS = 1e-11, 1e-10, 1e-14  # eV/atom, eV/A, relative to the energy
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
        "framework": document["framework"]["name"],
        "reference": f"{document['framework']['name']} {document['framework']['version']}" if document.get("self_check") else None,
        "elements": document["elements"],
        "cutoff_A": document["cutoff"],
        **{name: provenance[key] for key, name in known.items() if key in provenance},
        "provenance": {key: value for key, value in provenance.items() if key not in known},
    }


def _machine(build_dir):
    machine = kernels.machine(build_dir=build_dir)
    return {"date": date.today().isoformat(), "equi": __version__, "processor": kernels.processor_name(),
            "instruction_set": machine["cpu"], "cores": int(machine["cores"]), "kernels": machine["kernels"],
            "load": os.getloadavg()[0]}  # fmt: skip


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
    same = SAME_ENERGY + SAME_BITS * abs(one.energy) / len(atoms)
    return {"ranks": RANKS, "energy_eV_per_atom": energy, "force_eV_per_A": force, "passed": energy < same and force < SAME_FORCE}


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


def _radial(file, atoms):
    """Where the radial functions of each convolution are flat and steep, for the first two elements of a structure."""
    receiver, sender = (list(dict.fromkeys(atoms.get_chemical_symbols())) * 2)[:2]
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
    if not document_rules.has_energy(document):
        raise EquiError(f"{file}: the model has no energies, and a certificate is of energies and forces")
    native = compare.Native(str(file), "double", build_dir=build_dir)
    machine = _machine(build_dir)  # first: its load is that of other programs
    with Steps(6, quiet) as steps:
        steps.next("stored values")
        values = _values(str(file), document, build_dir)
        steps.next("laws")
        laws = [vars(one) for one in kernels.check(file, build_dir)]
        steps.next("properties of the model")
        properties, why = model_properties.examined(document, native)
        # A file with several tasks has no energy without a keyword.
        name, atoms = bench.system(document, LEAST_ATOMS)
        whole = len(document.get("mixture", {}).get("tasks", [])) < 2
        steps.next("ranks")
        ranks = _ranks(file, atoms, build_dir) if whole else None
        steps.next("dynamics")
        dynamics = _dynamics(file, name, atoms, build_dir) if whole else None
        steps.next("radial functions")
        radial = _radial(file, atoms)
    tested = [*values, *laws, *([ranks] if ranks else [])]
    return {
        "model": _origin(file, document), "machine": machine, "values": values, "laws": laws,
        "properties": [vars(one) for one in properties], "not_examined": why or None, "ranks": ranks, "dynamics": dynamics,
        "radial": radial, "passed": all(one["passed"] for one in tested),
    }  # fmt: skip


def write(path, facts):
    """Writes the page in the format of the name's ending."""
    forms = {".html": certificate.page, ".txt": lambda f: certificate.text(f) + "\n", ".json": lambda f: json.dumps(f, indent=2) + "\n"}
    equi_file.replace(path, [forms[Path(path).suffix.lower()](facts).encode()])
