# SPDX-License-Identifier: MIT
"""Makes force fields with the version of mlip on the path, and stores its results for them in float64.

`python made_by_mlip.py DIR` writes DIR/NAME.zip and DIR/NAME.npz.
"""

import inspect
import sys
from pathlib import Path

import mlip_reference
import old_versions
import tensornet_laws as laws
from equi_tools.frameworks.mlip import checkpoint as mlip_checkpoint
from equi_tools.frameworks.mlip import oracle as mlip_oracle

OPTIONS = {
    "couplings": {"num_channels": 13, "correlation": 3},
    "gaunt": {"num_channels": 5, "correlation": 2} | mlip_reference.GAUNT,
    "pseudotensors": {"include_pseudotensors": True, "l_max": 1, "residual_connection_first_layer": True},
}


def main(folder):
    mlip_oracle.import_mlip()
    from mlip.data import DatasetInfo
    from mlip.models import ForceField, Mace
    from mlip.models.model_io import save_model_to_zip

    make_head = ForceField.get_energy_head
    if "mlip_network" not in inspect.signature(make_head).parameters:
        # Before 0.2.3 heads were made without the network.
        ForceField.get_energy_head = staticmethod(lambda config, properties, *_: make_head(config, properties))
    for name, options in OPTIONS.items():
        path = Path(folder) / f"{name}.zip"
        with mlip_oracle.float64(True):
            network = Mace(Mace.Config(**mlip_reference.DEFAULTS | options), DatasetInfo(**mlip_reference.STATISTICS))
            save_model_to_zip(path, ForceField.from_mlip_network(network, seed=1))
        calculator = mlip_oracle.float64_calculator(mlip_checkpoint.load(path))
        # Without a left-handed cell, whose stress mlip before 0.2.3 does not divide by the volume.
        named = dict(laws.structures(["Na", "Cl", "O"], 4.2))
        kept = [(title, named[title]) for title in ("sheared", "cluster", "wire", "one_atom_cell")]
        old_versions.store(Path(folder) / f"{name}.npz", calculator, kept)


if __name__ == "__main__":
    main(sys.argv[1])
