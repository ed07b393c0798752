#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Differences between a model and its framework in float64 on the built-in structures, into results/accuracy.csv.

A row for each structure and precision, in eV and Angstrom, as `equi compare --json` prints them.
"""

import argparse
import json
import subprocess
from pathlib import Path

import common

PRECISIONS = ("mixed", "double")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", default="build")
    parser.add_argument("--model", help="default: sevennet-0.equi of the build")
    parser.add_argument("--source", default="7net-0", help="default: %(default)s")
    parser.add_argument("--out", metavar="DIR", help="folder for the CSV file (default: none is written)")
    args = parser.parse_args()
    model = common.model_file(args)
    rows = []
    for precision in PRECISIONS:
        command = [Path(args.build_dir) / "bin" / "equi", "-q", "compare", model, args.source, "--builtin", "--precision", precision, "--json"]
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)["structures"]
        rows += [
            {"model": model.stem, "precision": precision, "structure": s["name"],
             "energy_eV_per_atom": s["energy"], "force_eV_per_A": s["force"], "stress_eV_per_A3": s["stress"]}
            for s in found
        ]  # fmt: skip
        largest = {key: max(s[key] for s in found if s[key] is not None) for key in ("energy", "force", "stress")}
        print(f"{precision}: {len(found)} structures, largest differences {largest}")
    common.write_csv(args.out, "accuracy.csv", rows)


if __name__ == "__main__":
    main()
