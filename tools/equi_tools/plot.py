# SPDX-License-Identifier: MIT
"""`equi plot` and `equi compare --plot`: pictures of radial functions, of runs, and of a comparison.

Figures need no display. Matplotlib is loaded only here.
"""

import io
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import equi_file, info, kernels, run_log
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


def run(file, path):
    """Plots the energy and the use of time of the last run in a log of LAMMPS that has times; returns facts."""
    runs = run_log.read(file)
    last = next((run for run in reversed(runs) if run.picoseconds is not None and run.conserved() is not None), None)
    if last is None:
        raise EquiError(f"{file}: no run of molecular dynamics prints its energy: add etotal, or econserve for a "
                        "thermostat, to thermo_style")  # fmt: skip
    name, energy = last.conserved()
    figure, axes = new_figure(1, 2 if last.breakdown else 1)
    axis, drift = axes[0, 0], last.drift()
    deviation = 1e3 * last.to_ev * (energy - energy[0]) / last.atoms
    axis.plot(last.picoseconds, deviation, linewidth=1.4)
    axis.set_xlabel("time / ps")
    axis.set_ylabel(f"{name} - first value / meV/atom")
    if drift is not None:
        fit = np.polyfit(last.picoseconds, deviation, 1)
        axis.plot(last.picoseconds, np.polyval(fit, last.picoseconds), "--", color="0.3", linewidth=1)
        axis.set_title(f"drift {drift:.2g} meV/atom/ps", fontsize="medium")
    if last.breakdown:
        sections = list(last.breakdown)[::-1]
        shares = [last.breakdown[section][1] for section in sections]
        bars = axes[0, 1].barh(sections, shares, color="tab:blue")
        axes[0, 1].bar_label(bars, fmt="%.1f %%", padding=3, fontsize="small")
        axes[0, 1].set_xlim(0, 115)
        axes[0, 1].set_xlabel("share of the time / %")
        axes[0, 1].set_title(f"{sum(seconds for seconds, _ in last.breakdown.values()):.3g} s", fontsize="medium")
    figure.suptitle(f"{printable(Path(file).name, 60)}: {last.atoms} atoms", fontsize="medium")
    save(figure, path)
    return {
        "plot": str(path), "atoms": last.atoms, "quantity": name, "picoseconds": float(last.picoseconds[-1]),
        "drift": drift, "breakdown": {section: percent for section, (_, percent) in last.breakdown.items()},
    }  # fmt: skip


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


def make(file, path, elements=None):
    """Plots the picture that fits a file; returns facts."""
    file = equi_file.find(file)
    if not Path(file).is_file():
        raise EquiError(f"cannot read {file}: no such file")
    check_output(path)
    if equi_file.is_equi_file(file):
        return radial(file, elements, path)
    if elements:
        raise EquiError(f"--elements: {file} is not an .equi file")
    return run(file, path)


def text(facts):
    lines = [f"written: {facts['plot']}"]
    if "convolutions" in facts:
        for convolution in facts["convolutions"]:
            largest = convolution["largest"]
            what = "depends on features" if largest is None else f"largest root mean square {max(largest):.3g}"
            lines.append(f"convolution {convolution['convolution']}: {len(convolution['paths'])} paths, {what}")
    else:
        drift = "not known" if facts["drift"] is None else f"{facts['drift']:.2g} meV/atom/ps"
        lines.append(f"{facts['atoms']} atoms, {facts['picoseconds']:.4g} ps: drift of {facts['quantity']} {drift}")
        lines += [f"{section:<10} {percent:5.1f} %" for section, percent in facts["breakdown"].items()]
    return "\n".join(lines)
