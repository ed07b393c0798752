"""Writes nequip-0.6.2.pth.xz and nequip-0.5.6.pth.xz, tiny random models as `nequip-deploy build` of that time wrote them.

    pip install --no-deps --target old nequip==0.6.2 e3nn==0.4.4 torch-runstats==0.2.0 torch-ema==0.3
    PYTHONPATH=old python make_nequip_legacy.py

and the same with nequip==0.5.6.  Debugging records are left out of the files; nothing reads them.
"""

import lzma
import sys
import zipfile
from pathlib import Path

import torch

torch_load = torch.load
torch.load = lambda *args, **options: torch_load(*args, **{"weights_only": False, **options})

import e3nn  # noqa: E402
import nequip  # noqa: E402
import yaml  # noqa: E402
from nequip.data.transforms import TypeMapper  # noqa: E402
from nequip.model import model_from_config  # noqa: E402
from nequip.scripts.deploy import _compile_for_deploy  # noqa: E402
from nequip.scripts.train import default_config  # noqa: E402
from nequip.utils import Config  # noqa: E402

COMMON = dict(
    root="root", run_name="run", seed=1, dataset_seed=1, r_max=4.2, num_types=2, chemical_symbols=["Na", "Cl"],
    type_names=["Na", "Cl"], num_layers=3, l_max=2, num_features=2, num_basis=4, BesselBasis_trainable=True,
    PolynomialCutoff_p=6, invariant_layers=1, invariant_neurons=4, avg_num_neighbors=12.5, use_sc=True,
    nonlinearity_type="gate", resnet=False, per_species_rescale_shifts=[-1.0, -2.0],
    per_species_rescale_scales=[1.5, 0.8], global_rescale_scale=25.0, global_rescale_shift=None,
)  # fmt: skip
OPTIONS = {
    "0.6.2": dict(
        model_builders=["SimpleIrrepsConfig", "EnergyModel", "PerSpeciesRescale", "PairPotentialTerm", "StressForceOutput",
                        "RescaleEnergyEtc"],
        parity=True, pair_style="ZBL", units="metal", chemical_species=["Na", "Cl"],
        nonlinearity_scalars={"e": "silu", "o": "tanh"}, nonlinearity_gates={"e": "silu", "o": "tanh"},
    ),
    "0.5.6": dict(
        model_builders=["SimpleIrrepsConfig", "EnergyModel", "PerSpeciesRescale", "StressForceOutput", "RescaleEnergyEtc"],
        parity=False, nonlinearity_scalars={"e": "ssp", "o": "tanh"}, nonlinearity_gates={"e": "ssp", "o": "abs"},
    ),
}  # fmt: skip


class Dataset:
    type_mapper = TypeMapper(chemical_symbol_to_type={"Na": 0, "Cl": 1})


def main():
    version = nequip.__version__
    config = Config.from_dict({**default_config, **COMMON, **OPTIONS[version]})
    torch.manual_seed(1)
    model = model_from_config(config, initialize=True, dataset=Dataset())
    records = dict(
        config=yaml.dump(Config.as_dict(config)), nequip_version=version, e3nn_version=e3nn.__version__, r_max="4.2",
        torch_version=torch.__version__, n_species="2", type_names="Na Cl", allow_tf32="0", _jit_bailout_depth="2",
    )  # fmt: skip
    if version == "0.6.2":
        records.update(default_dtype="float64", model_dtype="float32")
    whole, target = Path("whole.pth"), Path(__file__).parent / f"nequip-{version}.pth"
    torch.jit.save(
        _compile_for_deploy(model.eval()), str(whole), _extra_files={k: v.encode() for k, v in records.items()}
    )
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(target, "w") as stripped:
        for name in source.namelist():
            if not name.endswith(".debug_pkl"):
                stripped.writestr(zipfile.ZipInfo(name), source.read(name))
    Path(f"{target}.xz").write_bytes(lzma.compress(target.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    whole.unlink()
    target.unlink()


if __name__ == "__main__":
    sys.exit(main())
