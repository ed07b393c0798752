# SPDX-License-Identifier: MIT
"""Makes force fields with the version of mlip on the path, and stores its results for them in float64.

`python made_by_mlip.py DIR CLASS` writes DIR/NAME.zip and DIR/NAME.npz for force fields of one of mlip's classes.
"""

import inspect
import sys
from pathlib import Path

import mlip_esen
import mlip_laws
import mlip_nequip
import mlip_reference
import old_versions
from equi_tools.frameworks.mlip import oracle as mlip_oracle

DEFAULTS = {"Mace": mlip_reference.DEFAULTS, "Nequip": mlip_nequip.DEFAULTS, "Esen": mlip_esen.DEFAULTS}
OPTIONS = {
    "Mace": {
        "couplings": {"num_channels": 13, "correlation": 3},
        "gaunt": {"num_channels": 5, "correlation": 2} | mlip_reference.GAUNT,
        "pseudotensors": {"include_pseudotensors": True, "l_max": 1, "residual_connection_first_layer": True},
    },
    "Nequip": {"copies": {}, "parities": mlip_nequip.VARIANTS["parities"]},
    "Esen": {"gaussians": {}, "bessel": mlip_esen.VARIANTS["bessel"]},
}  # fmt: skip


def main(folder, model):
    mlip_oracle.import_mlip()
    from mlip.models import ForceField

    make_head = ForceField.get_energy_head
    if "mlip_network" not in inspect.signature(make_head).parameters:
        # Before 0.2.3 heads were made without the network.
        ForceField.get_energy_head = staticmethod(lambda config, properties, *_: make_head(config, properties))
    for name, options in OPTIONS[model].items():
        path = Path(folder) / f"{name}.zip"
        mlip_laws.save_own(model, path, DEFAULTS[model] | options, mlip_reference.STATISTICS)
        # Without a left-handed cell, whose stress mlip before 0.2.3 does not divide by the volume.
        kept = mlip_laws.structures("sheared", "cluster", "wire", "one_atom_cell")
        old_versions.store(Path(folder) / f"{name}.npz", mlip_laws.oracle_of(path), kept)


if __name__ == "__main__":
    main(*sys.argv[1:])
