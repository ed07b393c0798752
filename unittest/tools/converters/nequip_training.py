# SPDX-License-Identifier: MIT
"""Trains a model with the commands of nequip, with moving averages of its weights."""

import os
import subprocess
import sys

from training_frames import write_frames


def trained(work, model):
    """Paths of the checkpoint and of the package of a model that is trained in the new folder `work`. model: options of
    the model in YAML, for cutoffs of 4 Angstrom and the types Na and Cl."""
    work.mkdir()
    write_frames(work / "train.extxyz")
    (work / "config.yaml").write_text(f"{CONFIGURATION}  model:{model}")
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", HYDRA_FULL_ERROR="1")
    for script in (
        "import sys; import os; sys.argv = ['nequip-train', '-cp', os.getcwd(), '-cn', 'config']; from "
        "nequip.scripts.train import main; main()",
        "from nequip.scripts.package import main; main(['build', 'last.ckpt', 'model.nequip.zip'])",
    ):
        done = subprocess.run([sys.executable, "-c", script], cwd=work, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return work / "last.ckpt", work / "model.nequip.zip"


CONFIGURATION = """
run: [train]
cutoff_radius: 4.0
model_type_names: [Na, Cl]
hydra: {run: {dir: .}, output_subdir: null}
data:
  _target_: nequip.data.datamodule.ASEDataModule
  seed: 1
  train_file_path: [train.extxyz]
  val_file_path: [train.extxyz]
  transforms:
    - {_target_: nequip.data.transforms.NeighborListTransform, r_max: 4.0}
    - {_target_: nequip.data.transforms.ChemicalSpeciesToAtomTypeMapper, model_type_names: [Na, Cl]}
  train_dataloader: {_target_: torch.utils.data.DataLoader, batch_size: 3}
  val_dataloader: {_target_: torch.utils.data.DataLoader, batch_size: 3}
trainer:
  _target_: lightning.Trainer
  accelerator: cpu
  max_epochs: 2
  enable_progress_bar: false
  logger: false
  callbacks:
    - {_target_: lightning.pytorch.callbacks.ModelCheckpoint, dirpath: ., save_last: true}
training_module:
  _target_: nequip.train.EMALightningModule
  ema_decay: 0.9
  loss: {_target_: nequip.train.EnergyForceLoss, per_atom_energy: true, coeffs: {total_energy: 1.0, forces: 1.0}}
  val_metrics: {_target_: nequip.train.EnergyForceMetrics, coeffs: {total_energy_mae: 1.0, forces_mae: 1.0}}
  optimizer: {_target_: torch.optim.Adam, lr: 0.01}
"""
