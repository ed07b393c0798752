#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The data sheet of a model: crystals, phonons, a molecule, pairs of atoms, mirror images, dynamics, a liquid and speed,
each next to the framework's own calculator if --source names what the model was converted from.

Static quantities are those of equi's ASE calculator in double precision (sheet_values.py); the rest is by LAMMPS. The
values go to data_sheet_MODEL.json in the folder of --out, where other parts of an earlier run stay. --page writes the
section of each sheet and its picture into a page.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

import common

STATIC = ("crystals", "phonons", "molecule", "pairs", "mirror")
PARTS = (*STATIC, "properties", "dynamics", "liquid", "speed")
BEGIN = ".. Sections that bench/data_sheet.py --page writes."
COLUMNS = 115
BINS = 120  # of radial distribution functions


@dataclass(frozen=True)
class Liquid:
    """A small liquid at its density under ambient pressure."""

    cells: int  # of common.make_system
    edge: float  # of the cubic box, Angstrom
    pair: tuple  # elements of the radial distribution function
    temperature: float  # K
    melting: float  # K, of the first part of the run, which removes the crystal


# 1.43 and 1.00 g/cm^3.
LIQUIDS = {"nacl": Liquid(2, 12.95, ("Na", "Cl"), 1300.0, 3000.0), "water": Liquid(3, 9.32, ("O", "O"), 300.0, 600.0)}
# In the order of preference.
SYSTEMS = {"nacl": "NaCl", "water": "H2O", "cu": "Cu", "si": "Si"}


def rdf_facts(distance, g, density):
    """First maximum and the minimum behind it of a radial distribution function, and the number of neighbors up to
    there. density: of the neighbors' element, per cubic Angstrom."""
    import numpy as np

    distance, g = np.asarray(distance), np.asarray(g)
    peak = int(np.argmax(g))
    below = np.flatnonzero((g[1:-1] <= g[:-2]) & (g[1:-1] < g[2:]) & (np.arange(1, len(g) - 1) > peak) & (g[1:-1] < 1.0)) + 1
    # Noise makes minima; the deepest one before the function exceeds 1 again is the end of the shell.
    again = next((n for n in range(below[0], len(g)) if g[n] > 1.0), len(g)) if below.size else len(g)
    end = peak + int(np.argmin(g[peak:again]))
    shell = slice(0, end + 1)
    neighbors = 4 * np.pi * density * np.trapezoid(distance[shell] ** 2 * g[shell], distance[shell])
    return {"maximum_A": float(distance[peak]), "height": float(g[peak]), "minimum_A": float(distance[end]), "neighbors": float(neighbors)}


def line_of(time, values):
    """(slope, rms deviation) of a line through values, by least squares."""
    import numpy as np

    time, values = np.asarray(time), np.asarray(values)
    slope, height = np.polyfit(time, values - values[0], 1)
    return float(slope), float(np.std(values - values[0] - height - slope * time))


class Driver:
    def __init__(self, args):
        import sheet_values
        from equi_tools import equi_file, model_properties

        self.args, self.file = args, common.model_file(args)
        self.document, _ = equi_file.read(self.file)
        why = model_properties.not_examined(self.document)
        if why:
            sys.exit(f"{self.file}: {why}")
        args.threads = args.threads or 1
        found = [name for name, formula in SYSTEMS.items() if sheet_values.known([formula], self.document["elements"])]
        self.system = found[0] if found else None

    def request(self):
        return {
            "elements": self.document["elements"], "cutoff": self.document["cutoff"],
            "parts": [part for part in STATIC if part in self.args.parts], "provenance": self.document["provenance"],
        }  # fmt: skip

    def static(self):
        import sheet_values
        from equi_tools import model_properties
        from equi_tools.ase import EquiCalculator

        def values_of(calculator, parts):
            request = self.request() | {"parts": parts}
            return sheet_values.static_values(calculator, request, report=lambda text: print(text, flush=True))

        calculator, parts = EquiCalculator(self.file, threads=self.args.threads), self.request()["parts"]
        values = values_of(calculator, [part for part in parts if part != "mirror"])
        if "mirror" in parts:
            # The structures have many elements, whose tables may take longer than all evaluations.
            values |= values_of(EquiCalculator(self.file, radial="exact", threads=self.args.threads), ["mirror"])
        # Frameworks may refuse two atoms that do not interact.
        for pair, curve in values.get("pairs", {}).items():
            energy, force = model_properties.jump_of(calculator, tuple(pair.split("-")), self.document["cutoff"])
            curve |= {"jump_of_energy_eV": energy, "jump_of_force_eV_per_A": force}
        return values

    def static_by_framework(self):
        """The same values by the framework's calculator, as its users run it."""
        from equi_tools import frameworks

        interpreter = frameworks.detect(self.args.source).interpreter or sys.executable
        with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
            request, values = Path(folder) / "request", Path(folder) / "values"
            request.write_text(json.dumps(self.request()))
            program = str(Path(__file__).with_name("sheet_values.py"))
            command = [interpreter, program, self.args.source, self.args.choice, str(request), str(values)]
            environment = dict(os.environ, OMP_NUM_THREADS=str(self.args.threads), **common.PEER_MALLOC)
            if subprocess.run(command, env=environment).returncode != 0:
                sys.exit("the framework's calculator failed")
            return json.loads(values.read_text())

    def properties(self):
        from equi_tools import model_properties
        from equi_tools.ase import EquiCalculator

        calculator = EquiCalculator(self.file, radial="exact", threads=self.args.threads)
        return [vars(one) for one in model_properties.examine(self.document, calculator)]

    def dynamics(self):
        """The drift of the total energy in dynamics at constant energy."""
        import drift

        args = argparse.Namespace(**vars(self.args) | {"system": self.system})
        atoms = common.make_system(self.system, 2)
        time, energy, temperature, _ = drift.energies(args, atoms)
        slope, deviation = line_of(time, energy)
        half = temperature[len(temperature) // 2 :]
        return {
            "system": self.system, "atoms": len(atoms), "ps": args.picoseconds, "timestep_ps": common.DYNAMICS[self.system][1],
            "precision": args.precision, "drift_ueV_per_atom_per_ps": 1e6 * slope, "deviation_ueV_per_atom": 1e6 * deviation,
            "temperature_K": sum(half) / len(half),
        }  # fmt: skip

    def liquid(self):
        """The radial distribution function of a liquid, melted from a crystal."""
        import numpy as np

        if self.system not in LIQUIDS:
            return None
        liquid, timestep = LIQUIDS[self.system], common.DYNAMICS[self.system][1]
        atoms = common.make_system(self.system, liquid.cells)
        atoms.set_cell([liquid.edge] * 3, scale_atoms=True)
        longest = 0.495 * liquid.edge
        symbols = sorted(set(atoms.get_chemical_symbols()))
        types = " ".join(str(symbols.index(symbol) + 1) for symbol in liquid.pair)

        def steps(picoseconds):
            return 20 * max(1, round(picoseconds / timestep / 20))

        time, melting = self.args.liquid_picoseconds, f"{liquid.melting} {liquid.melting} 0.1"
        settled = f"{liquid.temperature} {liquid.temperature} 0.1"
        args = argparse.Namespace(**vars(self.args) | {"temperature": liquid.melting})
        with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
            lines = common.input_lines(folder, atoms, self.system, args)
            lines += [
                f"comm_modify cutoff {longest + 2.5}", "unfix 1",
                f"fix 1 all nvt temp {melting}", f"run {steps(time / 3)}", "unfix 1",
                f"fix 1 all nvt temp {liquid.melting} {liquid.temperature} 0.1", f"run {steps(time / 6)}", "unfix 1",
                f"fix 1 all nvt temp {settled}", f"run {steps(time / 3)}", "reset_timestep 0",
                f"compute rdf all rdf {BINS} {types} cutoff {longest}",
                f"fix 2 all ave/time 20 {steps(time) // 20} {steps(time)} c_rdf[1] c_rdf[2] mode vector file rdf",
                f"run {steps(time)}",
            ]  # fmt: skip
            common.run_lammps(folder, lines, self.args.build_dir, 1, self.args.threads)
            table = np.loadtxt(Path(folder) / "rdf", skiprows=4)
        density = atoms.get_chemical_symbols().count(liquid.pair[1]) / liquid.edge**3
        return {
            "system": self.system, "atoms": len(atoms), "pair": "-".join(liquid.pair), "temperature_K": liquid.temperature, "ps": time,
            "distance_A": table[:, 1].tolist(), "g": table[:, 2].tolist(), **rdf_facts(table[:, 1], table[:, 2], density),
        }  # fmt: skip

    def speed(self):
        """Time and memory per atom of dynamics, and the time of an evaluation by the framework."""
        from equi_tools import lammps_runner
        from step import Peer

        cells = common.DEFAULT_CELLS[self.system]
        args = argparse.Namespace(**vars(self.args) | {"system": self.system, "warm_up": 3, "steps": 10})
        atoms = common.make_system(self.system, cells)
        found = {"cpu": common.cpu_name(), "load": os.getloadavg()[0], "system": self.system, "atoms": len(atoms),
                 "precision": args.precision, "threads": args.threads}  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
            lines = common.input_lines(folder, atoms, self.system, args) + common.run_lines(args)
            reports = []
            for _ in range(self.args.rounds):
                output = common.run_lammps(folder, lines, args.build_dir, 1, args.threads)
                reports.append(lammps_runner.performance(output))
        found |= {"us_per_atom": min(one.microseconds for one in reports), "kB_per_atom": reports[0].memory}
        if args.source:
            peer = Peer(args, cells, args.threads)
            peer.times(1)  # warm up
            found["framework_us_per_atom"] = 1e6 * min(peer.times(args.rounds)) / len(atoms)
            peer.close()
        return found

    def measure(self, sheet):
        """Values of the named parts to add to a sheet, one group after the other."""
        if self.request()["parts"]:
            yield {"equi": sheet.get("equi", {}) | self.static()}
            if self.args.source:
                yield {"framework": sheet.get("framework", {}) | self.static_by_framework()}
        for part in ("properties", "dynamics", "liquid", "speed"):
            if part in self.args.parts and (self.system or part == "properties"):
                yield {part: getattr(self, part)()}
                print(f"{part}: done", flush=True)


def rounded(values):
    """The same with numbers of seven digits."""
    if isinstance(values, dict):
        return {key: rounded(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [rounded(value) for value in values]
    return float(f"{values:.7g}") if isinstance(values, float) else values


def text_of(sheet):
    """JSON with one line for each part."""
    lines = [f"{json.dumps(key)}: {json.dumps(rounded(value))}" for key, value in sheet.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


# ---- the page ----


def table(header, rows):
    """A list-table; none without rows."""
    if not rows:
        return []
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (header, *rows):
        lines += [f"   {'*' if n == 0 else ' '} - {cell}".rstrip() for n, cell in enumerate(row)]
    return [*lines, ""]


def shown(value, digits):
    return "" if value is None else f"{value:.{digits}f}"


def nested(values, *keys):
    """The value below these keys, None if one is missing."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def branches(values):
    """Frequencies in ascending order without repetitions and without the acoustic ones at Gamma, which are zero but for
    rounding."""
    found = []
    for value in values or []:
        if abs(value) > 0.05 and not (found and value - found[-1] < 5e-3):
            found.append(value)
    return ", ".join(f"{value:.2f}" for value in found)


def crystal_rows(sheet):
    import sheet_values

    for formula in nested(sheet, "equi", "crystals") or {}:
        own, other = (nested(sheet, side, "crystals", formula) for side in ("equi", "framework"))
        crystal = sheet_values.CRYSTALS[formula]
        lattices = [shown(nested(one, "lattice_A"), 4) for one in (own, other)]
        moduli = [shown(nested(one, "modulus_GPa"), 1) for one in (own, other)]
        yield [formula, *lattices, f"{crystal.lattice:.3f}", *moduli, f"{crystal.modulus:g}"]


def phonon_rows(sheet):
    for formula, points in (nested(sheet, "equi", "phonons") or {}).items():
        for point, values in points.items():
            if branches(values):
                yield [formula, point, branches(values), branches(nested(sheet, "framework", "phonons", formula, point))]


def other_rows(sheet):
    """Quantity, value by equi, value by the framework."""

    def both(text, digits, *keys):
        own, other = (nested(sheet, side, *keys) for side in ("equi", "framework"))
        if own is not None:
            yield [text, shown(own, digits), shown(other, digits)]

    yield from both("bond of water, Angstrom (0.957)", 4, "molecule", "bond_A")
    yield from both("angle of water, degrees (104.5)", 2, "molecule", "angle_deg")
    mirror = nested(sheet, "equi", "mirror_eV_per_atom")
    if mirror is not None:
        other = nested(sheet, "framework", "mirror_eV_per_atom")
        yield ["mirror images, meV/atom", f"{1000 * mirror:.1e}", "" if other is None else f"{1000 * other:.1e}"]
    for pair in nested(sheet, "equi", "pairs") or {}:
        yield from both(f"{pair}: further extrema", 0, "pairs", pair, "further_extrema")
        yield from both(f"{pair}: energy minus work, meV", 3, "pairs", pair, "energy_minus_work_meV")
        yield from both(f"{pair}: largest force before the cutoff, eV/Angstrom", 3, "pairs", pair, "force_before_cutoff_eV_per_A")
        jumps = [nested(sheet, "equi", "pairs", pair, key) for key in ("jump_of_energy_eV", "jump_of_force_eV_per_A")]
        if None not in jumps:
            yield [f"{pair}: jumps at the cutoff, eV and eV/Angstrom", ", ".join(f"{jump:.0e}" for jump in jumps), ""]
    run = sheet.get("dynamics")
    if run:
        text = f"drift, {run['atoms']} atoms of {SYSTEMS[run['system']]}, {run['temperature_K']:.0f} K, {run['ps']:g} ps, ueV/atom/ps"
        yield [text, shown(run["drift_ueV_per_atom_per_ps"], 3), ""]
        yield ["deviations from the drift, ueV/atom", shown(run["deviation_ueV_per_atom"], 2), ""]
    liquid = sheet.get("liquid")
    if liquid:
        text = f"liquid {SYSTEMS[liquid['system']]}, {liquid['temperature_K']:.0f} K, {liquid['pair']}"
        yield [f"{text}: first maximum, Angstrom", shown(liquid["maximum_A"], 2), ""]
        yield [f"{text}: neighbors up to {liquid['minimum_A']:.2f} Angstrom", shown(liquid["neighbors"], 1), ""]
    speed = sheet.get("speed")
    if speed:
        text = f"{speed['atoms']} atoms of {SYSTEMS[speed['system']]}, {speed['precision']}, {speed['threads']} thread{'s' if speed['threads'] > 1 else ''}"
        yield [f"time, us/atom ({text})", shown(speed["us_per_atom"], 0), shown(speed.get("framework_us_per_atom"), 0)]
        yield ["memory, kB/atom", shown(speed["kB_per_atom"], 1), ""]


def section(sheet):
    """The text of a model in the page."""
    name, framework = sheet["model"], nested(sheet, "framework", "name")
    lines = [name, "-" * len(name), ""]
    beside = f" The framework is {framework} {sheet['framework']['version']}." if framework else ""
    lines += [f"The cutoff is {sheet['cutoff']:g} Angstrom.{beside}", ""]
    for one in sheet.get("properties", []):
        text = one["sentence"].replace(" A ", " Angstrom ").replace("/A,", "/Angstrom,")
        lines += textwrap.wrap(text, COLUMNS, initial_indent="* ", subsequent_indent="  ")
    lines += [""] if sheet.get("properties") else []
    header = ["crystal", "lattice constant: equi", "framework", "experiment", "bulk modulus: equi", "framework", "experiment"]
    lines += table(header, list(crystal_rows(sheet)))
    lines += table(["crystal", "point", "frequencies: equi", "framework"], list(phonon_rows(sheet)))
    lines += table(["quantity", "equi", framework or ""], list(other_rows(sheet)))
    lines += [f".. image:: pictures/data_sheet_{name}.svg", f"   :alt: energies and forces of pairs of atoms, and the liquid if it was run, by {name}", ""]
    return "\n".join(lines)


def draw(sheet, path):
    """Energies and forces of pairs, and the radial distribution function if it was measured. Points are the framework's."""
    pyplot = common.plotting()
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "equi", "font.size": 9})
    liquid = sheet.get("liquid")
    columns = 3 if liquid else 2
    figure, axes = pyplot.subplots(1, columns, figsize=(3.2 * columns, 2.9), layout="constrained")
    for k, (pair, curve) in enumerate((nested(sheet, "equi", "pairs") or {}).items()):
        other = nested(sheet, "framework", "pairs", pair)
        for axis, key in zip(axes, ("energy_eV", "force_eV_per_A")):
            shift = curve[key][-1] if key == "energy_eV" else 0.0
            axis.plot(curve["distance_A"], [value - shift for value in curve[key]], f"C{k}-", lw=1, label=pair)
            if other:
                axis.plot(other["distance_A"][::8], [value - shift for value in other[key][::8]], f"C{k}.", ms=3)
    axes[0].set(ylabel="energy (eV)", ylim=(-8, 12))
    axes[1].set(ylabel="force (eV/Å)", ylim=(-6, 6))
    if liquid:
        axes[2].plot(liquid["distance_A"], liquid["g"], "k-", lw=1, label=f"{liquid['pair']}, {liquid['temperature_K']:.0f} K")
        axes[2].set(ylabel="g(r)")
    for axis in axes:
        axis.set_xlabel("distance (Å)")
        axis.spines[["top", "right"]].set_visible(False)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def with_sections(page, sheets):
    """The page with these sections behind its line BEGIN."""
    head, mark, _ = page.partition(BEGIN)
    if not mark:
        sys.exit(f"the page has no line '{BEGIN}'")
    return "\n".join([head + mark, "", *(section(sheet) for sheet in sheets)])


def write_page(page, folder):
    sheets = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("data_sheet_*.json"))]
    page.write_text(with_sections(page.read_text(), sheets))
    for sheet in sheets:
        draw(sheet, page.parent / "pictures" / f"data_sheet_{sheet['model']}.svg")


def main():
    parser = common.arguments(__doc__.split("\n\n")[0])
    common.add_peer_arguments(parser)
    parser.set_defaults(source=None)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=f"default: all of {', '.join(PARTS)}")
    parser.add_argument("--picoseconds", type=float, default=20.0, help="of the run at constant energy (default: %(default)s)")
    parser.add_argument("--liquid-picoseconds", type=float, default=6.0, help="of the liquid, after melting (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="short runs: 1 ps and 0.5 ps")
    parser.add_argument("--threads", type=int, help="default: 1")
    parser.add_argument("--rounds", type=int, default=3, help="turns of the part speed; the fastest counts (default: %(default)s)")
    parser.add_argument("--page", type=Path, metavar="FILE.rst", help="only write the sections and pictures of the sheets in --out")
    args = parser.parse_args()
    if args.quick:
        args.picoseconds, args.liquid_picoseconds = 1.0, 0.5
    args.temperature = None
    common.enter_environment(args.build_dir)
    args.out = args.out or "."
    if args.page:
        write_page(args.page, args.out)
        return
    os.environ["EQUI_BUILD_DIR"] = args.build_dir
    common.warn_if_busy()
    driver = Driver(args)
    path = Path(args.out) / f"data_sheet_{re.sub(r'[^A-Za-z0-9_.-]', '_', driver.file.stem)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet = json.loads(path.read_text()) if path.exists() else {}
    sheet |= {"model": driver.file.stem, "cutoff": driver.document["cutoff"]}
    for values in driver.measure(sheet):
        sheet |= values
        path.write_text(text_of(sheet))
    print(f"written: {path}")


if __name__ == "__main__":
    main()
