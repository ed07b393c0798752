# SPDX-License-Identifier: MIT
"""Random models that the installed version of mace builds and evaluates, and their conversions.

`python mace_versions.py RESULTS.json` runs in an environment of the version (test_mace_versions.py makes these). For
each case it writes the largest differences [energy, force, stress] of the converted file from the version's own
modules in float64, or the reason for none. equi_evaluator evaluates the file, and LAMMPS one structure.
"""

import itertools
import json
import os
import sys
import tempfile
from pathlib import Path

from equi_tools import compare, self_check
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.mace import checkpoint as mace_checkpoint
from equi_tools.frameworks.mace import oracle as mace_oracle
from test_mace import all_structures, differences
from test_models import mace as mace_models

mace = mace_oracle.import_mace()

import torch  # noqa: E402
from mace import modules  # noqa: E402

# Every pair of a first and a later block, with several paths that lead to one irrep. A version also lists blocks of
# BOTNet, mace's other architecture; mace cannot evaluate a MACE with them.
BLOCKS = [name for name in modules.interaction_classes if name in mace_checkpoint.INTERACTIONS]
PAIRS = {
    f"{first}, {later}": dict(first=first, blocks=later, hidden="5x0e+5x1o", max_ell=2, correlation=2, neighbors=3.0)
    for first, later in itertools.product(BLOCKS, repeat=2)
}
CASES = mace_models.VARIANTS | PAIRS
# Also as TorchScript: some of the models that mace can script and differentiate.
SCRIPTED = [
    "plain", "mace_class", "first_plain", "all_plain", "density", "density_no_cutoff", "agnesi", "heads", "gaussian",
]  # fmt: skip


def by_lammps(path, calculator, document):
    """[energy, force, stress] of a triclinic cell."""
    atoms = dict(self_check.structures_of(document))["triclinic"]
    result = compare.Native(str(path), radial="exact", build_dir=os.environ["EQUI_BUILD_DIR"])(atoms)
    atoms.calc = calculator
    values = atoms.get_potential_energy(), atoms.get_forces(), atoms.get_stress()
    found = compare.difference(path.name, result, *values, bars=None)
    return found.energy, found.force, found.stress


def examine(name, folder):
    """[energy, force, stress], or the reason why nothing can be compared."""
    options = CASES[name]
    try:
        source = mace_models.make_model(folder / "made.model", **options)
    except mace_models.MissingOption as error:
        return f"missing: {error}"
    except UnboundLocalError as error:
        return f"not built: {error}"
    heads = options.get("heads", [])
    head = heads[-1] if len(heads) > 1 else None
    sources = [source]
    if name in SCRIPTED:
        sources.append(mace_models.to_torchscript(source, head))
    worst = [0.0, 0.0, 0.0]
    for path in sources:
        try:
            document = convert(path, folder / "made.equi", head=head, quiet=True)
        except EquiError as error:
            return f"refused: {error}"
        if "of all heads" in document["provenance"].get("notes", ""):
            return "noted: the version's own function is another"
        calculator = mace_oracle.float64_calculator(path, head)
        structures = all_structures(document["elements"], document["cutoff"])
        structures[0].calc = calculator
        if abs(structures[0].get_potential_energies().sum() - structures[0].get_potential_energy()) > 1e-6:
            return "inconsistent: the version's energies of atoms do not add up to its energy"
        found = differences(folder / "made.equi", calculator, structures)
        worst = [max(v) for v in zip(worst, found, by_lammps(folder / "made.equi", calculator, document))]
    return worst


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = {name: examine(name, Path(folder)) for name in CASES}
    Path(sys.argv[1]).write_text(json.dumps({"version": mace.__version__, "cases": found}, indent=1))


if __name__ == "__main__":
    main()
