#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Dynamics by a potential and by its teacher: density, radial distribution functions and drift, as a table and a picture.

    python datasheet.py nacl-melt.equi --elements Na Cl --state crystal,300,nacl.xyz liquid,1200,melt.xyz -o nacl-melt.png

A state is NAME,TEMPERATURE,FILE with a temperature in kelvin and a structure that ASE reads, the last of its file. From there each of
the two runs at constant temperature and no pressure, and the potential, from where that ended, at constant energy. The
drift is the slope of the total energy. Runs that are complete in the folder of results are not repeated. Needs `lmp` in the path,
numpy, ASE and matplotlib.
"""

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
from ase.data import atomic_masses, atomic_numbers
from ase.io import write
from start import structures_in

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

BINS, RANGE = 150, 6.0  # of the radial distribution functions; Angstrom
SETTLE = 3.0  # ps, before averages are taken
BLOCKS = 5  # of a run, for the error of its mean
BOND = 1.3  # Angstrom; the peaks of bonds to hydrogen are higher than the picture
DEUTERIUM = 2.014  # in place of hydrogen: a longer step, the same averages of positions and volumes


def masses(elements):
    return [DEUTERIUM if e == "H" else atomic_masses[atomic_numbers[e]] for e in elements]


def natural_share(atoms):
    """What these atoms weigh over what they weigh in the runs."""
    return atoms.get_masses().sum() / sum(masses(atoms.get_chemical_symbols()))


def run(words, model, state, name, lines):
    """Runs LAMMPS in the folder of results, unless it did so with the same input and files; returns the log."""
    contents = b"".join(path.read_bytes() for path in (Path(model), words.folder / state) if path.exists())
    text = [
        f"# {hashlib.sha256(contents).hexdigest()}",  # of the potential and the structure
        "units metal", "atom_style atomic", "atom_modify map yes", f"read_data {state}",
        *(f"mass {n + 1} {m}" for n, m in enumerate(masses(words.elements))),
        "pair_style equi", f"pair_coeff * * {model} {' '.join(words.elements)}", f"timestep {words.timestep}",
        f"comm_modify cutoff {RANGE + 2.5}", "thermo 100", "thermo_style custom step temp pe etotal press density", *lines,
    ]  # fmt: skip
    script, log = words.folder / f"in.{name}", words.folder / f"log.{name}"
    text = "\n".join(text) + "\n"
    is_done = log.exists() and "Total wall time" in log.read_text() and script.read_text() == text
    if not is_done:
        script.write_text(text)
        done = subprocess.run(["lmp", "-in", script.name, "-log", log.name, "-screen", "none"], cwd=words.folder)
        if done.returncode != 0:
            errors = [line for line in (log.read_text().splitlines() if log.exists() else []) if line.startswith("ERROR")]
            sys.exit(f"LAMMPS failed with {script}: {errors[0] if errors else 'its log has no error'}")
    return log.read_text()


def columns(log):
    """The numbers of the last run in a log: step, temp, pe, etotal, press, density."""
    block = log[log.rindex("   Step") :].split("Loop time")[0].splitlines()[1:]
    return np.array([line.split() for line in block if line and line.split()[0].isdigit()], float).T


def npt(words, model, state, name, temperature, ps, share):
    """Density with hydrogen's own mass, its error and radial distribution functions over so many ps."""
    steps = lambda time: round(time / words.timestep)
    pairs = list(itertools.combinations_with_replacement(range(1, len(words.elements) + 1), 2))
    log = run(words, model, state, name, [
        f"velocity all create {temperature} 4711 mom yes rot no dist gaussian",
        f"fix 1 all npt temp {temperature} {temperature} 0.1 iso 0 0 1.0", f"run {steps(SETTLE)}", "reset_timestep 0",
        f"compute rdf all rdf {BINS} {' '.join(f'{a} {b}' for a, b in pairs)} cutoff {RANGE}",
        f"fix 2 all ave/time 20 {steps(ps) // 20} {steps(ps) // 20 * 20} c_rdf[*] mode vector file rdf.{name}",
        f"run {steps(ps) // 20 * 20}", f"write_data data.{name} nocoeff",
    ])  # fmt: skip
    density = share * columns(log)[5]
    halves = [half.mean() for half in np.array_split(density, 2)]
    table = np.loadtxt(words.folder / f"rdf.{name}", skiprows=4)
    names = ["-".join(words.elements[k - 1] for k in pair) for pair in pairs]
    blocks = [block.mean() for block in np.array_split(density, BLOCKS)]
    return {
        "density": density.mean(),
        "error": np.std(blocks, ddof=1) / BLOCKS**0.5,
        "halves": halves,
        "distance": table[:, 1].tolist(),
        "rdf": {name: table[:, 2 + 2 * n].tolist() for n, name in enumerate(names)},
    }


def nve(words, state, name, temperature, count):
    """Drift of the total energy, meV/atom/ps, and the mean temperature."""
    log = run(words, words.potential, state, name, [
        f"velocity all create {temperature} 8213 mom yes rot no dist gaussian", f"fix 1 all nvt temp {temperature} {temperature} 0.1",
        f"run {round(1 / words.timestep)}", "unfix 1", "fix 1 all nve", f"run {round(words.time / words.timestep)}",
    ])  # fmt: skip
    step, temperatures, _, energy, _, _ = columns(log)
    slope = np.polyfit(step * words.timestep, energy, 1)[0]
    return {"drift": 1000 * slope / count, "temperature": temperatures.mean(), "scatter": 1000 * energy.std() / count}


def draw(found, title, picture):
    states = list(found)
    names = list(next(iter(found.values()))["potential"]["rdf"])
    figure, axes = pyplot.subplots(1, len(states) + 1, figsize=(3.4 * (len(states) + 1), 3.4))
    for axis, state in zip(axes, states):
        for k, name in enumerate(names):
            for who, style in (("teacher", "k--"), ("potential", f"C{k}-")):
                of = found[state][who]
                axis.plot(of["distance"], np.array(of["rdf"][name]), style, lw=1, label=name if who == "potential" else None)
        own = found[state]["potential"]
        is_far = np.array(own["distance"]) > BOND
        top = max(np.array(values)[is_far].max() for values in own["rdf"].values())
        axis.set(title=state, xlabel=r"distance ($\mathrm{\AA}$)", xlim=(0, RANGE), ylim=(0, 1.1 * top))
        axis.legend(frameon=False)
    axes[0].set_ylabel("radial distribution function")
    x = np.arange(len(states))
    for who, style, shift in (("teacher", "ks", -0.08), ("potential", "C0o", 0.08)):
        density, error = ([found[s][who][what] for s in states] for what in ("density", "error"))
        axes[-1].errorbar(x + shift, density, error, fmt=style, label=who)
    axes[-1].set(title="no pressure", ylabel=r"density (g/cm$^3$)", xlim=(-0.5, len(states) - 0.5))
    axes[-1].set_xticks(x, [s.replace(", ", "\n") for s in states])
    axes[-1].legend(frameon=False)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("potential", metavar="FILE.equi")
    parser.add_argument("--elements", nargs="+", required=True, metavar="El")
    parser.add_argument("--state", nargs="+", required=True, metavar="NAME,T,FILE")
    parser.add_argument("--teacher", default="sevennet-0.equi", metavar="FILE.equi", help="default: %(default)s")
    parser.add_argument("--time", type=float, default=100.0, help="of the potential's runs, ps (default: %(default)s)")
    parser.add_argument("--teacher-time", type=float, default=10.0, help="of the teacher's, ps (default: %(default)s)")
    parser.add_argument("--timestep", type=float, default=0.002, help="ps (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("datasheet"), help="of inputs, logs and results.json (default: %(default)s)")
    parser.add_argument("-o", "--picture", default="datasheet.png")
    words = parser.parse_args()
    states = [text.split(",") for text in words.state]
    for text, state in zip(words.state, states):
        if len(state) != 3 or not state[1].replace(".", "", 1).isdigit():
            parser.error(f"--state {text}: expected NAME,T,FILE with a temperature in K")
    wrong = [symbol for symbol in words.elements if symbol not in atomic_numbers]
    if wrong:
        parser.error(f"--elements: {wrong[0]} is no element")
    words.folder.mkdir(parents=True, exist_ok=True)
    for name in ("potential", "teacher"):  # LAMMPS runs in another folder
        if os.path.exists(getattr(words, name)):
            setattr(words, name, os.path.abspath(getattr(words, name)))

    found = {}
    print("| state | density, g/cm^3 | teacher | halves of the run | drift at constant energy, meV/atom/ps | temperature there, K |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind, temperature, file in states:
        name, temperature = f"{kind}_{temperature}", float(temperature)
        atoms = structures_in(file)[-1]
        unknown = sorted(set(atoms.get_chemical_symbols()) - set(words.elements))
        if unknown:
            sys.exit(f"{file} has {', '.join(unknown)}, which --elements does not name")
        share = natural_share(atoms)
        write(words.folder / f"data.{name}", atoms, format="lammps-data", specorder=words.elements, atom_style="atomic")
        teacher = npt(words, words.teacher, f"data.{name}", f"teacher_{name}", temperature, words.teacher_time, share)
        own = npt(words, words.potential, f"data.{name}", f"npt_{name}", temperature, words.time, share)
        energy = nve(words, f"data.npt_{name}", f"nve_{name}", temperature, len(atoms))
        found[f"{kind}, {temperature:g} K"] = {"potential": own, "teacher": teacher, "nve": energy}
        densities = " | ".join(f"{of['density']:.3f} ± {of['error']:.3f}" for of in (own, teacher))
        halves = ", ".join(f"{half:.3f}" for half in own["halves"])
        print(f"| {kind}, {temperature:g} K | {densities} | {halves} | {energy['drift']:.4f} | {energy['temperature']:.0f} |", flush=True)
        (words.folder / "results.json").write_text(json.dumps(found))
    draw(found, f"{Path(words.potential).name} (lines) and {Path(words.teacher).name} (dashes)", words.picture)


if __name__ == "__main__":
    main()
