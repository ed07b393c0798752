# SPDX-License-Identifier: MIT
"""Writes allegro-0.3.0.pth.xz, a tiny random model as `nequip-deploy build` of that time wrote it.

    pip install --no-deps --target old nequip==0.6.2 e3nn==0.4.4 torch-runstats==0.2.0 torch-ema==0.3 nequip-allegro==0.3.0
    PYTHONPATH=old python make_allegro_old.py

Debugging records are left out of the file; nothing reads them.
"""

import io
import lzma
import zipfile
from pathlib import Path

import torch

torch_load = torch.load
torch.load = lambda *args, **options: torch_load(*args, **{"weights_only": False, **options})

from nequip.data.transforms import TypeMapper  # noqa: E402
from nequip.model import model_from_config  # noqa: E402
from nequip.scripts.deploy import _compile_for_deploy  # noqa: E402
from nequip.scripts.train import default_config  # noqa: E402
from nequip.utils import Config  # noqa: E402

NETWORKS = {
    "two_body_latent_mlp": ([4], "silu"), "latent_mlp": ([4], "silu"), "env_embed_mlp": ([], None), "edge_eng_mlp": ([4], None),
}  # fmt: skip
OPTIONS = dict(
    root="root", run_name="run", seed=1, dataset_seed=1, r_max=4.2, num_types=2, chemical_symbols=["Cl", "Na"], l_max=1, parity="o3_full",
    num_layers=1, num_tensor_features=2, avg_num_neighbors=12.5, num_bessels_per_basis=4, PolynomialCutoff_p=6, latent_resnet=True,
    model_builders=["allegro.model.Allegro", "PerSpeciesRescale", "StressForceOutput", "RescaleEnergyEtc"],
    per_species_rescale_shifts=[-1.0, -2.0], per_species_rescale_scales=[1.5, 0.8], global_rescale_scale=20.0, global_rescale_shift=None,
)  # fmt: skip


class Dataset:
    """A data set whose statistics are not needed."""

    type_mapper = TypeMapper(chemical_symbol_to_type={"Na": 0, "Cl": 1})

    @staticmethod
    def statistics(**_):
        return []


def main():
    options = {**default_config, **OPTIONS}
    for name, (widths, activation) in NETWORKS.items():
        options |= {f"{name}_latent_dimensions": widths, f"{name}_nonlinearity": activation, f"{name}_initialization": "uniform"}
    model = model_from_config(Config.from_dict(options), initialize=True, dataset=Dataset()).eval()
    records = {"nequip_version": "0.6.2", "e3nn_version": "0.4.4", "r_max": "4.2", "n_species": "2", "type_names": "Na Cl"}
    written, kept = io.BytesIO(), io.BytesIO()
    torch.jit.save(_compile_for_deploy(model), written, _extra_files={key: value.encode() for key, value in records.items()})
    with zipfile.ZipFile(written) as whole, zipfile.ZipFile(kept, "w") as part:
        for entry in whole.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                part.writestr(entry, whole.read(entry))
    Path("allegro-0.3.0.pth.xz").write_bytes(lzma.compress(kept.getvalue(), preset=9))


if __name__ == "__main__":
    main()
