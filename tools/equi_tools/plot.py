# SPDX-License-Identifier: MIT
"""`equi plot` and `equi compare --plot`: pictures of radial functions, of runs and their structures, and of a
comparison.

Figures need no display. Matplotlib is loaded only here.
"""

import io
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import equi_file, info, kernels, run_log, structure_files, structures
from .errors import EquiError
from .printable import printable

FORMATS = (".png", ".pdf", ".svg")
DISTANCES = 300
PANEL = (4.6, 3.2)  # inches
PANELS_PER_ROW = 3
# Beyond this number paths have the colors of a scale, and no names in the legend.
NAMED_PATHS = 10


def new_figure(rows, columns):
    """(figure, axes [rows, columns]); EquiError without Matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise EquiError(f"plots need Matplotlib, which {sys.executable} lacks: pip install matplotlib") from error
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="0.92")
        axis.set_axisbelow(True)
    return figure, axes


def check_output(path):
    """Checks before the work that a picture can be written there; raises EquiError if not."""
    if Path(path).suffix.lower() not in FORMATS:
        raise EquiError(f"cannot write {path}: expected a name that ends with {', '.join(FORMATS)}")
    equi_file.check_output(path)
    new_figure(1, 1)


def save(figure, path):
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150, format=Path(path).suffix.lower().removeprefix("."))
    equi_file.replace(path, [picture.getvalue()])


def _colors(count):
    from matplotlib import colormaps

    if count <= NAMED_PATHS:
        return [colormaps["tab10"](k) for k in range(count)]
    return [colormaps["viridis"](k / (count - 1)) for k in range(count)]


def radial(file, elements, path):
    """Plots the radial functions of each convolution of a model, for a receiver and a sender; returns facts."""
    document, _ = equi_file.read(file)
    receiver, sender = (elements * 2)[:2] if elements else (document["elements"] * 2)[:2]
    if elements and len(elements) > 2:
        raise EquiError(f"--elements: expected a receiver and a sender, found {' '.join(elements)}")
    tables = kernels.radial(file, receiver, sender, DISTANCES)
    if not tables:
        raise EquiError(f"{file}: the model has no convolutions of paths")
    columns = min(PANELS_PER_ROW, len(tables))
    rows = -(-len(tables) // columns)
    figure, axes = new_figure(rows, columns)
    facts = []
    for number, (axis, (layer, table)) in enumerate(zip(axes.flat, tables.items())):
        labels = info.path_labels(document["layers"][layer])
        axis.set_title(f"convolution {number}: {len(labels)} paths", fontsize="medium")
        axis.set_xlabel("distance / Å")
        axis.set_ylabel("radial weight")
        if table is None:
            axis.text(0.5, 0.5, "depends on features\nof the atoms", ha="center", va="center", transform=axis.transAxes)
        else:
            _radial_panel(axis, *table, labels)
        facts.append({"convolution": number, "paths": labels,
                      "largest": None if table is None else [float(v) for v in table[1][:, :, 0].max(axis=0)]})  # fmt: skip
    for axis in axes.flat[len(tables) :]:
        axis.set_visible(False)
    pair = f"{printable(Path(file).name, 60)}: sender {sender}, receiver {receiver}"
    figure.suptitle(f"{pair}; root mean square over channels, and their range", fontsize="medium")
    save(figure, path)
    return {"plot": str(path), "receiver": receiver, "sender": sender, "convolutions": facts}


def _radial_panel(axis, r, values, labels):
    for k, (label, color) in enumerate(zip(labels, _colors(len(labels)))):
        rms, least, largest = values[:, k].T
        axis.fill_between(r, least, largest, color=color, alpha=0.07, linewidth=0)
        axis.plot(r, rms, color=color, linewidth=1.4, label=label)
    beyond = r > 1.0  # atoms do not come nearer, where networks may return anything
    low, high = values[beyond, :, 1].min(), values[beyond, :, 2].max()
    axis.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axis.set_xlim(r[0], r[-1])
    if len(labels) <= NAMED_PATHS:
        axis.legend(fontsize="x-small", frameon=False)


# Columns of a log that are drawn over time, if it has them: name in the log, and on the axis, with the unit of units
# metal and of units real.
OBSERVED = (
    ("Temp", "temperature / K", "temperature / K"),
    ("Press", "pressure / bar", "pressure / atm"),
    ("Density", "density / g/cm³", "density / g/cm³"),
)


def run(file, path):
    """Plots the last run of molecular dynamics in a log of LAMMPS: the energy that should be constant, temperature,
    pressure and density over time, and the use of time; returns facts."""
    runs = run_log.read(file)
    last = next((run for run in reversed(runs) if run.picoseconds is not None), None)
    observed = [] if last is None else [column for column in OBSERVED if column[0] in last.columns]
    if last is None or not (observed or last.conserved()):
        raise EquiError(f"{file}: no run of molecular dynamics prints its energy, temperature, pressure or density: add "
                        "econserve, temp, press and density to thermo_style")  # fmt: skip
    panels = [_energy_panel] if last.conserved() else []
    panels += [lambda axis, run, column=column: _observed_panel(axis, run, column) for column in observed]
    panels += [_breakdown_panel] if last.breakdown else []
    columns = min(PANELS_PER_ROW, len(panels))
    figure, axes = new_figure(-(-len(panels) // columns), columns)
    for panel, axis in zip(panels, axes.flat):
        panel(axis, last)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle(f"{printable(Path(file).name, 60)}: {last.atoms} atoms", fontsize="medium")
    save(figure, path)
    return {
        "plot": str(path), "atoms": last.atoms, "quantity": last.conserved() and last.conserved()[0],
        "picoseconds": float(last.picoseconds[-1]), "drift": last.drift(), "thermostats": list(last.thermostats),
        "means": {name: last.means()[name] for name, *_ in observed},
        "breakdown": {section: percent for section, (_, percent) in last.breakdown.items()},
    }  # fmt: skip


def _energy_panel(axis, run):
    name, energy = run.conserved()
    drift = run.drift()
    deviation = 1e3 * run.to_ev * (energy - energy[0]) / run.atoms
    axis.plot(run.picoseconds, deviation, linewidth=1.4)
    axis.set_xlabel("time / ps")
    axis.set_ylabel(f"{name} - first value / meV/atom")
    if drift is not None:
        fit = np.polyfit(run.picoseconds, deviation, 1)
        axis.plot(run.picoseconds, np.polyval(fit, run.picoseconds), "--", color="0.3", linewidth=1)
        axis.set_title(f"drift {drift:.2g} meV/atom/ps", fontsize="medium")


def _observed_panel(axis, run, column):
    name, metal, real = column
    values = run.columns[name]
    axis.plot(run.picoseconds, values, linewidth=1.4)
    axis.set_xlabel("time / ps")
    axis.set_ylabel(metal if run.units == "metal" else real)
    axis.set_title(f"mean of the second half {run.means()[name]:.4g}", fontsize="medium")


def _breakdown_panel(axis, run):
    sections = list(run.breakdown)[::-1]
    bars = axis.barh(sections, [run.breakdown[section][1] for section in sections], color="tab:blue")
    axis.bar_label(bars, fmt="%.1f %%", padding=3, fontsize="small")
    axis.set_xlim(0, 115)
    axis.set_xlabel("share of the time / %")
    axis.set_title(f"{sum(seconds for seconds, _ in run.breakdown.values()):.3g} s", fontsize="medium")


LONGEST = 8.0  # Angstrom, of distances in a radial distribution function
BINS = 160
MOST_FRAMES = 100


def distribution(frames, pair, longest):
    """(distances, radial distribution function) of a pair of elements, the mean over frames of one periodic box each."""
    edges = np.linspace(0.0, longest, BINS + 1)
    shells = 4.0 / 3.0 * np.pi * (edges[1:] ** 3 - edges[:-1] ** 3)
    total = np.zeros(BINS)
    for atoms in frames:
        first, second, distances = structures.near_pairs(atoms, longest)  # in both directions
        symbols = np.array(atoms.get_chemical_symbols())
        counts = [(symbols == symbol).sum() for symbol in pair]
        found, _ = np.histogram(distances[(symbols[first] == pair[0]) & (symbols[second] == pair[1])], bins=edges)
        # Neighbors of the second element around an atom of the first, over those of a uniform density.
        total += found / counts[0] / (shells * counts[1] / atoms.get_volume())
    return 0.5 * (edges[1:] + edges[:-1]), total / len(frames)


def distributions(file, symbols, path):
    """Plots the radial distribution functions of each pair of elements in the second half of the frames of a dump;
    returns facts."""
    frames = [atoms for _, atoms in structures.read_files([file], symbols)]
    frames = frames[len(frames) // 2 :]
    frames = frames[:: -(-len(frames) // MOST_FRAMES)]
    if not all(atoms.pbc.all() for atoms in frames):
        raise EquiError(f"{file}: radial distribution functions need a box that is periodic in all directions")
    elements = sorted(set(frames[0].get_chemical_symbols()))
    # Farther distances have images of the same atom.
    longest = min([LONGEST, *(0.5 * structures.heights(atoms.cell.array).min() for atoms in frames)])
    figure, axes = new_figure(1, 1)
    axis, facts = axes[0, 0], []
    pairs = list(itertools.combinations_with_replacement(elements, 2))
    for pair, color in zip(pairs, _colors(len(pairs))):
        r, g = distribution(frames, pair, longest)
        axis.plot(r, g, color=color, linewidth=1.4, label="-".join(pair))
        facts.append({"pair": list(pair), "first_peak_A": float(r[g.argmax()]), "height": float(g.max())})
    axis.set_xlabel("distance / Å")
    axis.set_ylabel("radial distribution function")
    axis.legend(fontsize="small", frameon=False)
    figure.suptitle(f"{printable(Path(file).name, 60)}: {len(frames[0])} atoms, {len(frames)} frames", fontsize="medium")
    save(figure, path)
    return {"plot": str(path), "atoms": len(frames[0]), "frames": len(frames), "longest_A": longest, "distributions": facts}


@dataclass
class Point:
    """A structure of a comparison: the results of LAMMPS and of the framework, in eV and Angstrom."""

    energies: tuple  # per atom: LAMMPS's, the framework's
    forces: tuple  # [N, 3] each


def comparison(points, bars, path):
    """Plots the parity of energies and forces, and a histogram of differences, with the bars of a compare.Bars."""
    figure, axes = new_figure(2, 2)
    energies = np.array([point.energies for point in points])
    forces = np.array([np.concatenate([point.forces[k].ravel() for point in points]) for k in (0, 1)])
    _parity(axes[0, 0], energies[:, 1], energies[:, 0], "energy / eV/atom")
    _parity(axes[0, 1], forces[1], forces[0], "force components / eV/Å")
    _histogram(axes[1, 0], np.abs(energies[:, 0] - energies[:, 1]), bars.energy, "energy difference / eV/atom", "structures")
    # As in the table, forces are relative to the largest one of their structure if that exceeds 1 eV/A.
    scaled = [np.abs(p.forces[0] - p.forces[1]).ravel() / max(1.0, np.abs(p.forces[1]).max(initial=0.0)) for p in points]
    _histogram(axes[1, 1], np.concatenate(scaled), bars.force, "force difference / eV/Å", "components")
    figure.suptitle(f"{len(points)} structures, {forces.shape[1] // 3} atoms", fontsize="medium")
    save(figure, path)


def _parity(axis, reference, native, what):
    ends = [min(reference.min(), native.min()), max(reference.max(), native.max())]
    axis.plot(ends, ends, color="0.6", linewidth=1)
    axis.plot(reference, native, ".", markersize=4, color="tab:blue")
    axis.set_xlabel(f"framework: {what}")
    axis.set_ylabel("LAMMPS")


def _histogram(axis, differences, bar, what, counted):
    # Values that are equal to the last bit have no logarithm, and are drawn at the left.
    finite = differences[np.isfinite(differences) & (differences > 0)]
    least = min(finite.min(initial=bar), bar)
    edges = np.logspace(np.floor(np.log10(least)), np.ceil(np.log10(max(finite.max(initial=bar), bar))) + 1e-9, 40)
    axis.hist(np.clip(differences, edges[0], edges[-1]), bins=edges, color="tab:blue")
    axis.axvline(bar, color="tab:red", linewidth=1, label=f"allowed: {bar:g}")
    axis.set_xscale("log")
    axis.set_xlabel(what)
    axis.set_ylabel(counted)
    axis.legend(fontsize="small", frameon=False)


def make(file, path, elements=None, symbols=None):
    """Plots the picture that fits a file; returns facts. elements: of an .equi file; symbols: of the atom types of a
    dump."""
    file = equi_file.find(file)
    if not Path(file).is_file():
        raise EquiError(f"cannot read {file}: no such file")
    check_output(path)
    if equi_file.is_equi_file(file):
        return radial(file, elements, path)
    if elements:
        raise EquiError(f"--elements: {file} is not an .equi file")
    if structure_files.is_dump(file):
        return distributions(file, symbols, path)
    if symbols:
        raise EquiError(f"--symbols: {file} is not a dump of LAMMPS")
    return run(file, path)


def _about_drift(facts):
    if facts["quantity"] is None:
        why = f"fix {facts['thermostats'][0]} changes the energy" if facts["thermostats"] else "no energy is printed"
        return f"the drift is not known, because {why}: add econserve to thermo_style"
    drift = "is not known" if facts["drift"] is None else f"{facts['drift']:.2g} meV/atom/ps"
    return f"drift of {facts['quantity']} {drift}"


def text(facts):
    lines = [f"written: {facts['plot']}"]
    if "convolutions" in facts:
        for convolution in facts["convolutions"]:
            largest = convolution["largest"]
            what = "depends on features" if largest is None else f"largest root mean square {max(largest):.3g}"
            lines.append(f"convolution {convolution['convolution']}: {len(convolution['paths'])} paths, {what}")
    elif "distributions" in facts:
        lines.append(f"{facts['atoms']} atoms, {facts['frames']} frames, distances to {facts['longest_A']:.3g} A")
        for found in facts["distributions"]:
            lines.append(f"{'-'.join(found['pair']):<10} largest value {found['height']:.3g} at {found['first_peak_A']:.2f} A")
    else:
        lines.append(f"{facts['atoms']} atoms, {facts['picoseconds']:.4g} ps: {_about_drift(facts)}")
        lines += [f"{name:<10} {mean:.6g} (mean of the second half)" for name, mean in facts["means"].items()]
        lines += [f"{section:<10} {percent:5.1f} %" for section, percent in facts["breakdown"].items()]
    return "\n".join(lines)
