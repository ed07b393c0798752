# SPDX-License-Identifier: MIT
"""What the tests of mlip's architectures share: structures, and mlip itself, which their slow tests run."""

from functools import lru_cache

import old_versions
import tensornet_laws as laws
from equi_tools.convert import convert
from equi_tools.frameworks.mlip import checkpoint as mlip_checkpoint
from equi_tools.frameworks.mlip import oracle as mlip_oracle
from mlip_reference import STATISTICS

ELEMENTS, CUTOFF = ["O", "Na", "Cl"], STATISTICS["graph_cutoff_angstrom"]
# On which mlip is compared.
COMPARED = ("sheared", "left_handed", "cluster", "wire", "isolated", "one_atom_cell")


def structures(*names):
    return [(name, atoms) for name, atoms in laws.structures(ELEMENTS, CUTOFF) if not names or name in names]


def oracle_of(source, head=None, **settings):
    return mlip_oracle.float64_calculator(mlip_checkpoint.load(source, **settings), head)


def maker_of_files(folder, write_file, variants, settings):
    """A function that returns (file of mlip, converted file) of a variant, and makes them once. settings: by variant."""

    @lru_cache(maxsize=None)
    def make(name):
        source, path = write_file(folder / f"{name}.zip", variants[name]), folder / f"{name}.equi"
        convert(source, path, quiet=True, license="MIT", citation="none: random numbers", **settings.get(name, {}))
        return source, path

    return make


def assert_older_version_agrees(architecture, version, folder):
    old_versions.run("made_by_mlip.py", [f"mlip=={version}"], folder, arguments=[architecture])
    for results in sorted(folder.glob("*.npz")):
        laws.assert_within_bars(old_versions.differences(results.with_suffix(".zip"), results, results.with_suffix(".equi")))


def save_own(model, path, options, statistics):
    """Saves a file of a force field that mlip makes, of one of its classes."""
    import jax

    mlip_oracle.import_mlip()
    import mlip.models
    from mlip.data import DatasetInfo
    from mlip.models.model_io import save_model_to_zip

    with mlip_oracle.float64(True):
        network = getattr(mlip.models, model)
        network = network(network.Config(**options), DatasetInfo(**statistics))
        save_model_to_zip(path, mlip.models.ForceField.from_mlip_network(network, seed=1))
        jax.clear_caches()


def assert_arrays_are_those_of_mlip(model, source, path, **settings):
    """Whether a file of the tests has the arrays and the options of one that mlip makes, and is saved here."""
    checkpoint = mlip_checkpoint.load(source, **settings)
    save_own(model, path, checkpoint.options, checkpoint.statistics)
    own = mlip_checkpoint.load(path, **settings)
    assert {k: a.shape for k, a in own.state.items()} == {k: a.shape for k, a in checkpoint.state.items()}
    assert own.options == checkpoint.options
