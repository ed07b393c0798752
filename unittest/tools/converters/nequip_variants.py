# SPDX-License-Identifier: MIT
"""What the tests of NequIP and of Allegro models share: the files that the build has made of a family's variants, and
comparisons of files with their framework."""

import nequip_training
import numpy as np
from built_models import built, built_copy
from equi_tools import equi_file, self_check
from equi_tools.frameworks.nequip import checkpoint as nequip_checkpoint
from equi_tools.frameworks.nequip import convert as nequip_convert
from equi_tools.frameworks.nequip import oracle as nequip_oracle
from stored_values import FORCE_TOLERANCE, assert_equal, differences
from test_models import convert_with_reference as convert
from test_models.nequip import SUFFIXES

# The file's own evaluation in float32 against the one in float64.
FLOAT32_TOLERANCE = 1e-4


class BuiltVariants:
    """The models of a family of test_models."""

    def __init__(self, family, variants):
        self.family, self.variants = family, variants

    def kind(self, name):
        return self.variants[name].get("kind", "package")

    def source(self, name, folder):
        """(path, types or None); a copy of the build's file."""
        return built_copy(f"{self.family}/{name}{SUFFIXES[self.kind(name)]}", folder), self.variants[name].get("types")

    def converted(self, name):
        """The file that the build has converted."""
        return built(f"{self.family}/{name}.equi")


def assert_users_calculator_agrees(source, types, kind):
    """Evaluates with nequip's own loaders if it has one for the file; a structure with all pairs of types."""
    from nequip.integrations.ase import NequIPCalculator

    checkpoint = nequip_checkpoint.load(source, types=types)
    exact = nequip_oracle.float64_calculator(checkpoint)
    symbols = dict(zip(checkpoint.elements, checkpoint.type_names))
    with nequip_oracle.nequip_state():
        load = NequIPCalculator.from_compiled_model if kind == "torchscript" else NequIPCalculator._from_saved_model
        users = load(source, device="cpu", chemical_species_to_atom_type_map=symbols)
    for _, atoms in self_check.structures(exact.elements, exact.cutoff):
        atoms.calc = exact
        energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        atoms.calc = users
        with nequip_oracle.nequip_state():
            assert abs(atoms.get_potential_energy() - energy) < FLOAT32_TOLERANCE * max(1, abs(energy))
            assert np.abs(atoms.get_forces() - forces).max() < FLOAT32_TOLERANCE * max(1, np.abs(forces).max())


def assert_numbers_matter(document, tensors, paths, spoiled):
    """A change of 1e-3 in any tensor, and a flipped path of `paths`, is noticed. spoiled: a file to write."""
    for changed in tensors:
        equi_file.write(spoiled, document, {n: t * (1.001 if n == changed else 1.0) for n, t in tensors.items()})
        assert max(differences(spoiled)[:2]) > 10 * FORCE_TOLERANCE, changed
    for path in paths:
        path["scale"] *= -1
        equi_file.write(spoiled, document, tensors)
        assert max(differences(spoiled)[:2]) > 10 * FORCE_TOLERANCE, path
        path["scale"] *= -1


def assert_numbers_are_kept(source, name, of_float64):
    """The tensor of this name has the bits and the type of the file; of_float64: a file with such numbers."""
    checkpoint = nequip_checkpoint.load(source)
    _, tensors = nequip_convert.convert(checkpoint)
    assert tensors[name].dtype == np.float32
    assert np.array_equal(tensors[name], checkpoint.state[f"model.func.{name}"])
    _, tensors = nequip_convert.convert(nequip_checkpoint.load(of_float64))
    assert all(t.dtype == np.float64 for t in tensors.values())


def assert_same_conversion(found, expected):
    """Two results (document, tensors) of nequip_convert.convert are equal."""
    assert found[0] == expected[0]
    assert found[1].keys() == expected[1].keys() and all(np.array_equal(found[1][key], expected[1][key]) for key in found[1])


def assert_subset_is_the_same_function(source, types, kept, converted, target):
    """The conversion of some elements evaluates structures of these as `converted`, the file of all, does."""
    document = convert(source, target, types=types, elements=kept, quiet=True)
    assert document["elements"] == kept
    assert_equal(target)
    assert_equal(converted, document["self_check"])


def convert_trained(folder, model):
    """The document of a model (YAML) that the nequip commands train and package; checkpoint and package are the same, with
    moving averages of the weights."""
    target, documents = folder / "trained.equi", []
    for source in nequip_training.trained(folder / "training", model):
        documents.append(convert(source, target, quiet=True))
        assert_equal(target)
        assert documents[-1]["provenance"]["framework_version"] == "0.19.1"
    assert_equal(target, documents[0]["self_check"])
    return documents[0]
