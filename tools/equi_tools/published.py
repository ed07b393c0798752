# SPDX-License-Identifier: MIT
"""`equi models`: published models, where a user gets them, under which license, and what this project knows about
them."""

import hashlib
import importlib.util
from dataclasses import asdict, dataclass
from pathlib import Path

# The Academic Software License of the MACE authors: not for commercial use.
ASL = "ASL (academic use)"
SEVENN_PACKAGE = "in the Python package sevenn"
SO3KRATES_PACKAGE = "in the Python package so3krates-torch"
SEVENN_RELEASES = "https://github.com/MDIL-SNU/SevenNet/releases"
MACE_MP = "https://github.com/ACEsuit/mace-mp/releases"
MACE_FOUNDATIONS = "https://github.com/ACEsuit/mace-foundations/releases"
MACE_OFF = "https://github.com/ACEsuit/mace-off"
NEQUIP = "https://www.nequip.net/models/mir-group"
UMA = "https://huggingface.co/facebook/UMA"
OMOL = "https://huggingface.co/facebook/OMol25"
OMAT = "https://huggingface.co/facebook/OMAT24"
# From these the package nequix downloads its models, and the package eqnorm its model.
NEQUIX = "https://github.com/atomicarchitects/nequix/raw/7c2854de8e754b1a60274c7d9d2e014989ed632e/models"
NEQUIX_OMAT = "https://github.com/atomicarchitects/nequix/raw/9c852a9c4cce69ae5e75bc5a2cf670be21ff8c28/models"
EQNORM = "https://api.figshare.com/v2/file/download/55429685"
# Gated: one gets the files after agreeing to these licenses, which also bind converted files.
FAIR, OMAT24 = "FAIR Chemistry License (gated)", "OMat24 license (gated)"
TESTED, NOT_TESTED = "tested", "not tested"


@dataclass(frozen=True)
class Published:
    name: str
    framework: str
    elements: int  # None: see the source
    license: str
    source: str  # where a user gets it
    convert: str  # the argument of `equi convert`
    state: str = NOT_TESTED  # whether this project has converted the file and compared it with the framework
    sha256: str = None  # of a file that this project had


MODELS = (
    Published("SevenNet-0 (11Jul2024)", "sevenn", 89, "MIT", SEVENN_PACKAGE, "7net-0", TESTED,
              "7052cb42b7b3be42b40b97fa0d21077a48c54b5548948fc4dcf346629f813c36"),
    Published("SevenNet-0 (22May2024)", "sevenn", 89, "MIT", SEVENN_PACKAGE, "7net-0_22May2024", TESTED,
              "5d389fafd512e6ae2830d74d0b66ffc49a55d3832653ff8e7bf7f1343013c1d1"),
    Published("SevenNet-l3i5", "sevenn", 89, "MIT", SEVENN_PACKAGE, "7net-l3i5", TESTED,
              "a7ff190d41efe5b8317a03d20a468e4036a1a3e64e0b14fdbab64ac3f4bfc09d"),
    Published("SevenNet-MF-0", "sevenn", 89, "MIT", SEVENN_PACKAGE, "7net-mf-0 --modality PBE", TESTED,
              "81791329b37d445f46b531578c182c41792d98c7814222c9e5dde276402225fd"),
    Published("SevenNet-MF-ompa", "sevenn", None, "see source", SEVENN_RELEASES,
              "checkpoint_sevennet_mf_ompa.pth --modality mpa"),
    Published("SevenNet-omat", "sevenn", None, "see source", SEVENN_RELEASES, "checkpoint_sevennet_omat.pth"),
    Published("SevenNet-omni", "sevenn", None, "see source", SEVENN_RELEASES,
              "checkpoint_sevennet_omni.pth --modality NAME"),
    Published("MACE-MP-0 small", "mace", 89, "MIT", MACE_MP, "2023-12-10-mace-128-L0_energy_epoch-249.model"),
    Published("MACE-MP-0 medium", "mace", 89, "MIT", MACE_MP, "2023-12-03-mace-128-L1_epoch-199.model"),
    Published("MACE-MP-0b3 medium", "mace", 89, "MIT", MACE_MP, "mace-mp-0b3-medium.model"),
    Published("MACE-MPA-0 medium", "mace", 89, "MIT", MACE_MP, "mace-mpa-0-medium.model"),
    Published("MACE-OMAT-0 medium", "mace", 89, ASL, MACE_MP, "mace-omat-0-medium.model"),
    Published("MACE-MATPES-PBE-0", "mace", 89, ASL, MACE_FOUNDATIONS, "MACE-matpes-pbe-omat-ft.model"),
    Published("MACE-MATPES-r2SCAN-0", "mace", 89, ASL, MACE_FOUNDATIONS, "MACE-matpes-r2scan-omat-ft.model"),
    Published("MACE-OFF23 small", "mace", 10, ASL, MACE_OFF, "MACE-OFF23_small.model"),
    Published("MACE-OFF23 medium", "mace", 10, ASL, MACE_OFF, "MACE-OFF23_medium.model"),
    Published("MACE-OFF23 large", "mace", 10, ASL, MACE_OFF, "MACE-OFF23_large.model"),
    Published("NequIP-OAM-L", "nequip", None, "CC-BY-4.0", NEQUIP, "NequIP-OAM-L-0.1.nequip.zip"),
    Published("NequIP-OAM-XL", "nequip", None, "see source", NEQUIP, "NequIP-OAM-XL-0.1.nequip.zip"),
    Published("Allegro-OAM-L", "nequip", 89, "CC-BY-4.0", NEQUIP, "Allegro-OAM-L-0.1.nequip.zip"),
    Published("Allegro-MP-L", "nequip", None, "see source", NEQUIP, "Allegro-MP-L-0.1.nequip.zip"),
    Published("Nequix-MP-1", "nequix", 89, "MIT", NEQUIX, "nequix-mp-1.nqx", TESTED,
              "1647af8e627e1afa11e2bfadeab0797326513a521afd7dd01606a96f56783eee"),
    Published("Nequix-MP-1-PFT", "nequix", None, "MIT", NEQUIX, "nequix-mp-1-pft.nqx"),
    Published("Nequix-OMat-1", "nequix", 89, "MIT", NEQUIX_OMAT, "nequix-omat-1.nqx", TESTED,
              "2d0802ae7f5915cb488c44d25649d98404a103697e6500abb40f515e003a46a6"),
    Published("Nequix-OAM-1", "nequix", None, "MIT", NEQUIX_OMAT, "nequix-oam-1.nqx"),
    Published("Nequix-OAM-1-PFT", "nequix", None, "MIT", NEQUIX_OMAT, "nequix-oam-1-pft.nqx"),
    Published("eqnorm MPtrj", "eqnorm", None, "see source", EQNORM, "eqnorm-mptrj.pt"),
    Published("SO3LR", "so3krates", 8, "MIT", SO3KRATES_PACKAGE, "so3lr.model", TESTED,
              "b5145564911ff983ed076ccb2bca5ce63454b74c9c8291092695463f1e6732be"),
    Published("UMA-S-1.1", "fairchem", None, FAIR, UMA, "uma-s-1p1.pt --task NAME --composition FORMULA"),
    Published("UMA-M-1.1", "fairchem", None, FAIR, UMA, "uma-m-1p1.pt --task NAME --composition FORMULA"),
    Published("eSEN-sm-conserving-omol", "fairchem", None, FAIR, OMOL, "esen_sm_conserving_all.pt"),
    Published("eSEN-30M-OAM", "fairchem1", None, OMAT24, OMAT, "esen_30m_oam.pt"),
    Published("eSEN-30M-MP", "fairchem1", None, OMAT24, OMAT, "esen_30m_mptrj.pt"),
)  # fmt: skip


# Where packages keep their models.
SHIPPED = {"sevenn": "pretrained_potentials/*/*.pth", "so3krates_torch": "pretrained/*/*.model"}


def _shipped():
    """Paths by hash of the models in installed packages, which this does not import."""
    found = ((importlib.util.find_spec(name), pattern) for name, pattern in SHIPPED.items())
    folders = ((folder, pattern) for package, pattern in found if package for folder in package.submodule_search_locations)
    files = [file for folder, pattern in folders for file in Path(folder).glob(pattern)]
    return {hashlib.sha256(file.read_bytes()).hexdigest(): str(file) for file in files}


def facts():
    """A dict for each model; `here`: its file on this machine, if a package contains it and its hash is right."""
    shipped = _shipped()
    return [asdict(model) | {"here": shipped.get(model.sha256)} for model in MODELS]


def text(found):
    """The same for people: a table of the models by source."""
    rows = [("model", "elements", "license", "state", "sha256", "equi convert")]
    groups = {}
    for fact in found:
        elements = str(fact["elements"] or "see source")
        state = fact["state"] + (", on this machine" if fact["here"] else "")
        shown = fact["sha256"][:12] + "..." if fact["sha256"] else "-"
        row = (fact["name"], elements, fact["license"], state, shown, fact["convert"])
        groups.setdefault(fact["source"], []).append(row)
    widths = [max(len(row[k]) for row in sum(groups.values(), rows)) for k in range(len(rows[0]))]

    def line(row):
        return "  " + "  ".join(f"{word:<{width}}" for word, width in zip(row, widths)).rstrip()

    lines = [line(rows[0])]
    for source, group in groups.items():
        lines += ["", source, *map(line, group)]
    lines += [
        "",
        "tested: converted and compared with the framework in float64 by this project; the others were not available.",
        "Models keep the license they were published under; read it at the source.",
    ]
    return "\n".join(lines)
