#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Certificates of model files in the manual: what `equi certify` finds goes to MODEL.json in the folder of --out, and the
page MODEL.rst there shows it. The files hold numbers about models, and no weights."""

import argparse
import json
from pathlib import Path

import common

DEFAULT_FOLDER = common.SOURCE_TREE / "doc" / "certificates"


def rounded(value):
    """The same with numbers of four digits."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def stored(facts):
    """What is kept of the facts: all that the page shows, with one law of each kind."""
    from equi_tools import certificate

    of_kernels = [law for law in facts["laws"] if law["precision"] is None]
    return rounded(facts | {"laws": [*of_kernels, *certificate.worst_laws(facts["laws"])]})


def text_of(facts):
    """JSON with one line for each part, and for each entry of a list."""
    lines = []
    for key, value in facts.items():
        if isinstance(value, list) and value:
            value = "[\n" + ",\n".join(f"  {json.dumps(one)}" for one in value) + "\n]"
        else:
            value = json.dumps(value)
        lines.append(f"{json.dumps(key)}: {value}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def page_of(name):
    return f"{name}\n{'=' * len(name)}\n\n.. certificate:: {name}\n"


def main():
    parser = argparse.ArgumentParser(description=" ".join(__doc__.split()))
    parser.add_argument("files", nargs="+", metavar="FILE.equi")
    parser.add_argument("--build-dir", default="build", metavar="DIR", help="build folder (default: %(default)s)")
    parser.add_argument("--out", default=DEFAULT_FOLDER, metavar="DIR", help="default: doc/certificates")
    args = parser.parse_args()
    common.enter_environment(args.build_dir)
    from equi_tools import certificate, certify

    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    for file in args.files:
        name = Path(file).stem
        facts = stored(certify.facts(file, args.build_dir, quiet=True))
        (folder / f"{name}.json").write_text(text_of(facts))
        (folder / f"{name}.rst").write_text(page_of(name))
        print(f"{name}: {certificate.verdict(facts)}", flush=True)


if __name__ == "__main__":
    main()
