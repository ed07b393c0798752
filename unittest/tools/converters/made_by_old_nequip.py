# SPDX-License-Identifier: MIT
"""Makes models with the installed version 0.5 or 0.6 of nequip, in float64, and stores the results of its own modules.

`python made_by_old_nequip.py DIR` writes, for each of OPTIONS that the version has, the folder DIR/NAME of a training
(best_model.pth, config.yaml), the deployed model DIR/NAME.pth and DIR/NAME.npz.
"""

import sys
import warnings
from pathlib import Path

import torch

torch_load = torch.load
torch.load = lambda *args, **options: torch_load(*args, **{"weights_only": False, **options})

import e3nn  # noqa: E402
import nequip  # noqa: E402
import old_versions  # noqa: E402
import tensornet_laws as laws  # noqa: E402
import yaml  # noqa: E402
from equi_tools.frameworks.nequip.oracle import LegacyModules  # noqa: E402
from nequip.data.transforms import TypeMapper  # noqa: E402
from nequip.model import model_from_config  # noqa: E402
from nequip.scripts.deploy import _compile_for_deploy  # noqa: E402
from nequip.scripts.train import default_config  # noqa: E402
from nequip.utils import Config  # noqa: E402

CUTOFF = 4.2
COMMON = dict(
    root="root", run_name="run", seed=1, dataset_seed=1, r_max=CUTOFF, num_types=2, chemical_symbols=["Cl", "Na"], num_layers=2, l_max=1,
    num_features=5, invariant_neurons=9, avg_num_neighbors=12.5, default_dtype="float64", model_dtype="float64",
    per_species_rescale_shifts=[-1.0, -2.0], per_species_rescale_scales=[1.5, 0.8], per_species_rescale_arguments_in_dataset_units=True,
    global_rescale_scale=20.0, global_rescale_shift=None,
)  # fmt: skip
# Stresses exist since 0.5.5.
OUTPUT = "StressForceOutput" if hasattr(nequip.model, "StressForceOutput") else "ForceOutput"
BUILDERS = ["SimpleIrrepsConfig", "EnergyModel", "PerSpeciesRescale", OUTPUT, "RescaleEnergyEtc"]
OPTIONS = {
    "plain": dict(parity=False),
    "parity": dict(parity=True, l_max=2, num_layers=3, num_features=3),
    "options": dict(
        parity=True, num_basis=5, BesselBasis_trainable=False, PolynomialCutoff_p=9, invariant_layers=3, use_sc=False,
        nonlinearity_scalars={"e": "ssp", "o": "abs"}, nonlinearity_gates={"e": "tanh", "o": "abs"}, avg_num_neighbors=None,
    ),
    "irreps": dict(
        model_builders=[name for name in BUILDERS if name not in ("SimpleIrrepsConfig", "RescaleEnergyEtc")],
        chemical_embedding_irreps_out="7x0e", irreps_edge_sh="1x0e+1x1o+1x2e", feature_irreps_hidden="5x0e+2x0o+3x1o+2x1e+2x2e",
        conv_to_output_hidden_irreps_out="4x0e", invariant_layers=0,
        # TorchScript of 0.5 fails otherwise.
        **({} if nequip.__version__ < "0.6" else {"per_species_rescale_scales": None}),
    ),
    "no_species": dict(parity=True, model_builders=[name for name in BUILDERS if name != "PerSpeciesRescale"]),
    "zbl": dict(
        parity=False, model_builders=[*BUILDERS[:3], "PairPotentialTerm", *BUILDERS[3:]], pair_style="ZBL", units="metal",
        chemical_species=["Na", "Cl"],
    ),
    "zbl_real": dict(
        parity=False, model_builders=[*BUILDERS[:3], "PairPotentialTerm", *BUILDERS[3:]], pair_style="ZBL", units="real",
        chemical_species=["Na", "Cl"],
    ),
}  # fmt: skip


class Dataset:
    """A data set whose statistics are not needed."""

    type_mapper = TypeMapper(chemical_symbol_to_type={"Na": 0, "Cl": 1})

    @staticmethod
    def statistics(**_):
        return []


class Checkpoint:
    """The attributes of a loaded model that LegacyModules reads."""

    elements, cutoff = ["Na", "Cl"], CUTOFF


def make(name, folder):
    options = COMMON | {"model_builders": BUILDERS} | OPTIONS[name]
    if "feature_irreps_hidden" in options:
        options = {key: value for key, value in options.items() if key not in ("l_max", "num_features", "parity")}
    config = Config.from_dict({**default_config, **options})
    torch.manual_seed(1)
    model = model_from_config(config, initialize=True, dataset=Dataset()).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("bessel_weights"):
                parameter.mul_(1 + 0.05 * torch.rand_like(parameter))
    (folder / name).mkdir()
    torch.save(model.state_dict(), folder / name / "best_model.pth")
    (folder / name / "config.yaml").write_text(yaml.dump(Config.as_dict(config)))
    records = dict(nequip_version=nequip.__version__, e3nn_version=e3nn.__version__, r_max=str(CUTOFF), n_species="2", type_names="Na Cl")
    scripted = _compile_for_deploy(model)
    torch.jit.save(scripted, str(folder / f"{name}.pth"), _extra_files={key: value.encode() for key, value in records.items()})
    # A single atom has no edges. In 0.5 the volume of a left-handed cell was negative.
    named = [(title, atoms) for title, atoms in laws.structures(Checkpoint.elements, CUTOFF) if not old_versions.is_single(atoms)]
    old_versions.store(
        folder / f"{name}.npz", LegacyModules(model, Checkpoint), named,
        lambda atoms: atoms.pbc.all() and (nequip.__version__ >= "0.6" or atoms.cell.handedness > 0),
    )  # fmt: skip


def main(folder):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    for name in OPTIONS:
        if nequip.__version__ >= "0.6" or not name.startswith("zbl"):
            make(name, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1])
