# SPDX-License-Identifier: MIT
"""The random models of MACE and NequIP for which reference trajectories were made.

    python random_models.py convert mace FOLDER    # FOLDER/NAME.equi of each model of this framework
    python random_models.py make mace              # writes the models themselves again

The second needs an environment that has the framework, and `tools` and `unittest/python` in PYTHONPATH. The models are
stored in the framework's format and compressed, because random numbers and the rounding of couplings differ between
machines. After `make` the trajectories must also be made again.
"""

import argparse
import lzma
import tempfile
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from equi_tools.convert import convert

FOLDER = Path(__file__).resolve().parent

NONLINEAR = "RealAgnosticResidualNonLinearInteractionBlock"

# Options of make_model in the modules of test_models: the shapes of published models, but narrow. They are in float64,
# so the frameworks' own calculators also run in it. `scale` multiplies the energies of MACE's layers, so forces are of
# order eV/Angstrom.
MODELS = {
    "mace.model": dict(
        elements=[8, 11, 17], hidden="8x0e+8x1o", max_ell=2, correlation=3, r_max=5.0, zbl=True, neighbors=1.0, scale=2,
    ),
    "mace_nonlinear.model": dict(
        elements=[8, 11, 17], hidden="8x0e+8x1o", max_ell=2, correlation=2, r_max=4.6, zbl=True, apply_cutoff=False,
        blocks=NONLINEAR, first=NONLINEAR, distance_transform="Agnesi", readout="NonLinearBiasReadoutBlock",
        scale=12,
    ),
    "nequip.ckpt": dict(
        kind="checkpoint", type_names=["Na", "Cl", "O"], num_layers=3, l_max=2, parity=True, num_features=[8, 6, 4],
        r_max=5.0, model_dtype="float64", zbl=["Na", "Cl", "O"],
    ),
    "nequip_cutoffs.ckpt": dict(
        kind="checkpoint", type_names=["Na", "Cl", "O"], num_layers=3, l_max=1, parity=False, num_features=[13, 5],
        r_max=4.8, model_dtype="float64", zbl=["Na", "Cl", "O"],
        per_edge_type_cutoff={"Na": 3.9, "Cl": {"Na": 4.4}}, avg_num_neighbors={"Na": 7.5, "Cl": 21.0, "O": 3.25},
    ),
}  # fmt: skip


def packed(model):
    return FOLDER / f"{model}.xz"


def scale_energies(source, factor):
    import torch

    model = torch.load(source, weights_only=False)
    model.scale_shift.scale *= factor
    torch.save(model, source)


@contextmanager
def unpacked(model):
    """The file of a model in its framework's form."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / model
        file.write_bytes(lzma.decompress(packed(model).read_bytes()))
        yield str(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["convert", "make"])
    parser.add_argument("framework", choices=["mace", "nequip"])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("."), help="of the converted files")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, options in MODELS.items():
        if not name.startswith(args.framework):
            continue
        if args.action == "convert":
            target = args.folder / f"{Path(name).stem}.equi"
            with unpacked(name) as source:
                convert(source, target, license="MIT", citation="none: random numbers", quiet=True)
            print(target)
        else:
            make_model = import_module(f"test_models.{args.framework}").make_model
            with tempfile.TemporaryDirectory() as folder:
                options = dict(options)
                scale = options.pop("scale", None)
                source = Path(make_model(Path(folder) / name, seed=1, **options))
                if scale is not None:
                    scale_energies(source, scale)
                packed(name).write_bytes(lzma.compress(source.read_bytes(), preset=9))
            print(packed(name))


if __name__ == "__main__":
    main()
