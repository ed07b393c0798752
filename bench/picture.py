#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The picture of README.md: time of a step against the frameworks' own calculators, and differences to the framework by
precision, from results/step_*.csv and results/accuracy.csv, into doc/pictures/speed_accuracy.png."""

import statistics
from pathlib import Path

import common
from samples import least_times, rows_of

PICTURE = Path(__file__).parents[1] / "doc" / "pictures" / "speed_accuracy.png"
# File of results and what was measured, from above.
STEPS = {
    "step_nacl": "SevenNet-0, NaCl", "step_cu": "SevenNet-0, Cu", "step_water": "SevenNet-0, water",
    "step_l3i5": "SevenNet-l3i5, NaCl", "step_mace_small": "MACE small, NaCl", "step_mace_medium": "MACE medium, NaCl",
    "step_nequip": "NequIP, NaCl", "step_tensornet": "TensorNet, NaCl", "step_uma_s": "UMA-S shape, Si",
}  # fmt: skip
COLORS = {"equi": "tab:blue", "framework": "0.72"}


def ratio_text(ratio):
    """Two digits, as in the text of pages."""
    return f"{ratio:.2g}"


def machine_of(names):
    """The processor and cores of all of these results, which one picture shows together."""
    found = {(row["cpu"], row["cores"]) for name in names for row in rows_of(name)}
    ((cpu, cores),) = found
    return f"{cores} cores of {cpu}".replace("(R)", "")


def draw_speed(axis):
    for place, (name, label) in enumerate(reversed(STEPS.items())):
        equi, framework = least_times(name)
        axis.barh(place + 0.2, framework, height=0.38, color=COLORS["framework"])
        axis.barh(place - 0.2, equi, height=0.38, color=COLORS["equi"])
        axis.text(1.1 * framework, place, f"{ratio_text(framework / equi)}x", va="center")
        print(f"{label}: {equi:.1f} and {framework:.0f} us/atom, {framework / equi:.1f}")
    axis.set_yticks(range(len(STEPS)), list(reversed(STEPS.values())))
    axis.set_xscale("log")
    axis.set_xlim(10, 40000)
    axis.set_xlabel(f"us per atom and step, {machine_of(STEPS)} (AVX-512)")
    axis.set_title("LAMMPS with equi, mixed (blue); the framework's calculator (gray)", fontsize="medium", loc="left")


def draw_accuracy(axis):
    rows = rows_of("accuracy")
    precisions = ("mixed", "double")
    quantities = {"energy_eV_per_atom": ("energy / eV/atom", "o", "tab:blue"), "force_eV_per_A": ("forces / eV/Å", "^", "tab:orange")}
    for shift, (key, (label, marker, color)) in zip((-0.12, 0.12), quantities.items()):
        for place, precision in enumerate(precisions):
            # Values that agree to the last bit are drawn on the axis.
            values = [max(float(row[key]), 1e-16) for row in rows if row["precision"] == precision]
            axis.plot([place + shift] * len(values), values, marker, color=color, markersize=4, alpha=0.6,
                      label=label if place == 0 else None)  # fmt: skip
            print(f"{precision}, {label}: median {statistics.median(values):.2g}, largest {max(values):.2g}")
    axis.set_yscale("log")
    axis.set_xticks(range(len(precisions)), precisions)
    axis.set_xlim(-0.5, len(precisions) - 0.5)
    axis.legend(frameon=False, fontsize="small")
    axis.set_title("SevenNet-0, 29 structures: difference to float64", fontsize="medium", loc="left")


def main():
    pyplot = common.plotting()
    figure, (speed, accuracy) = pyplot.subplots(1, 2, figsize=(11, 3.8), width_ratios=(3, 2), layout="constrained")
    for axis in (speed, accuracy):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="0.92")
        axis.set_axisbelow(True)
    draw_speed(speed)
    draw_accuracy(accuracy)
    figure.savefig(PICTURE, dpi=110)
    print(f"written: {PICTURE}")


if __name__ == "__main__":
    main()
