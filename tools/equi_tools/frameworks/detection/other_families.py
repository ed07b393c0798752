# SPDX-License-Identifier: MIT
"""Recognizes files of unsupported families by cheap signs. The error names the family and what runs it."""

from dataclasses import dataclass

HEAD_BYTES = 4096


@dataclass(frozen=True)
class Family:
    name: str
    way: str  # what runs it
    packages: tuple = ()  # of classes in a pickle, of sources in TorchScript
    suffixes: tuple = ()  # of the file's name
    begins: tuple = ()  # the file begins with one of these
    tensors: tuple = ()  # beginnings of strings in a pickle
    words: tuple = ()  # strings that occur together in a pickle
    files: tuple = ()  # in a folder


def _style(name):
    return f"LAMMPS runs it with pair_style {name}"


def _calculator(package):
    return f"its package {package} has an ASE calculator"


FAMILIES = (
    Family(
        "SO3LR (JAX)", "so3krates-torch makes a supported one of it (its command torchkrates-jax2torch)", packages=("so3lr", "mlff"),
        files=("hyperparameters.json", "params.pkl"),
    ),  # fmt: skip
    Family("PET", _style("metatomic"), packages=("metatrain", "metatomic", "metatensor"), words=("architecture_name", "pet")),
    Family("GRACE", _style("grace"), packages=("tensorpotential",), files=("saved_model.pb",)),
    Family("CHGNet", _calculator("chgnet"), packages=("chgnet",), tensors=("composition_model.fc",)),
    Family("M3GNet", _calculator("m3gnet"), packages=("m3gnet",), files=("m3gnet.json",)),
    Family("Orb", _calculator("orb-models"), packages=("orb_models",), tensors=("gnn_stacks.", "model.gnn_stacks.")),
    Family("MatterSim", _calculator("mattersim"), packages=("mattersim",), words=("model_name", "model_args", "m3gnet")),
    Family("AIMNet2", _calculator("aimnet"), packages=("aimnet", "aimnet2calc")),
    Family("ANI", _calculator("torchani"), packages=("torchani",)),
    Family("SchNetPack", _calculator("schnetpack"), packages=("schnetpack",)),
    Family("NewtonNet", _calculator("newtonnet"), packages=("newtonnet",)),
    Family("DeePMD", _style("deepmd"), packages=("deepmd",), suffixes=(".pb", ".pb2")),
    Family("ACE", _style("pace"), suffixes=(".yace",)),
    Family("MTP", _style("mlip"), suffixes=(".mtp", ".almtp"), begins=(b"MTP\n", b"MTP\r")),
    Family("GAP", _style("quip"), begins=(b"<GAP_params", b"<Potential")),
)


def _sentence(family):
    return f"is a {family.name} model, a family that is not supported: {family.way}"


def _packages(names):
    """Packages whose sources are in a zip file with these names of entries."""
    found = set()
    for name in names:
        parts = name.split("/")[1:]
        if "__torch__" in parts:
            parts = parts[parts.index("__torch__") + 1 :]
        if len(parts) > 1 or name.endswith(".py"):
            found.add(parts[0].removesuffix(".py"))
    return found


def what_path_is(path):
    """The family of a file or folder, by its name and first bytes, and what runs it: a sentence without its subject,
    or None."""
    for family in FAMILIES:
        if family.files and path.is_dir() and all((path / name).is_file() for name in family.files):
            return _sentence(family)
    if not path.is_file():
        return None
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    for family in FAMILIES:
        if path.name.endswith(family.suffixes or ("\0",)) or head.startswith(family.begins or (b"\0\0\0\0no",)):
            return _sentence(family)
    return None


def what_archive_is(archive):
    """The same for a zip file, by its sources and pickles."""
    packages, strings = _packages(archive.names), set()
    for modules, texts in archive.pickles():
        packages |= {module.removeprefix("__torch__.").split(".")[0] for module in modules}
        strings |= set(texts)
    for family in FAMILIES:
        is_named = family.packages and not packages.isdisjoint(family.packages)
        is_worded = family.words and strings.issuperset(family.words)
        if is_named or is_worded or any(text.startswith(family.tensors or ("\0",)) for text in strings):
            return _sentence(family)
    return None
