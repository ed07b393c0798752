#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Dipoles and polarizabilities of a liquid of small molecules: labels of clusters by PySCF, and a model of mace-torch.

    python dielectric.py label clusters.xyz snapshots.xyz --clusters 1=100 2=80 4=40
    python dielectric.py label held-out.xyz other.xyz --clusters 1=20 2=20 4=10 --seed 2
    python dielectric.py train liquid-dielectric.equi --data clusters.xyz --held-out held-out.xyz

`label` runs in a Python environment with pyscf and ase. It cuts clusters of whole molecules out of the snapshots, which are
structures of label.py, and computes the dipole (REF_dipole, e Angstrom) and the static polarizability of the electrons
(REF_polarizability, Angstrom^3) of each. These are the names that mace-torch reads.

`train` runs in the environment of MACE (doc/training.rst). It trains an AtomicDielectricMACE and converts it. A model of this class
also has charges, which are balanced over all atoms of a system. In a liquid a molecule would have a net charge, and the
dipole would depend on the distances of molecules. Charges are therefore kept at zero: the dipole is a sum of dipoles of
atoms.
"""

import argparse
import os
import subprocess
import sys
import time
import warnings

import numpy as np
from ase import Atoms, units
from ase.io import write
from ase.neighborlist import natural_cutoffs, neighbor_list
from start import check_folder_of, structures_in

# The molecules next to the center of a cluster that can be its other members; all of them if the cluster has more.
SHELL = 6
# Weights of the mean squares of dipoles (e Angstrom) and polarizabilities (Angstrom^3), both divided by the number of atoms.
WEIGHTS = (1.0, 0.1)
DEBYE = units.Debye  # e Angstrom


def molecules_of(atoms):
    """Whole molecules, and the atoms of each: bonded atoms are next to each other, also across the boundary."""
    i, j, vectors = neighbor_list("ijD", atoms, natural_cutoffs(atoms, mult=1.35))
    positions, found, seen = atoms.positions.copy(), [], np.zeros(len(atoms), bool)
    for first in range(len(atoms)):
        if seen[first]:
            continue
        members, seen[first] = [first], True
        for one in members:  # grows while it is read
            for other, vector in zip(j[i == one], vectors[i == one]):
                if not seen[other]:
                    positions[other], seen[other] = positions[one] + vector, True
                    members.append(other)
        found.append(members)
    whole = atoms.copy()
    whole.positions = positions
    return whole, found


def cluster(atoms, size, rng):
    """A molecule and some of those next to it, without a cell."""
    whole, molecules = molecules_of(atoms)
    centers = np.array([whole[members].get_center_of_mass() for members in molecules])
    center = rng.integers(len(molecules))
    images = np.round((centers - centers[center]) @ np.linalg.inv(whole.cell.array)) @ whole.cell.array
    order = np.argsort(np.linalg.norm(centers - images - centers[center], axis=1))[1:]
    others = rng.choice(order[: max(size - 1, SHELL)], size - 1, replace=False)
    whole = Atoms(whole.symbols, whole.positions)
    found = Atoms()
    for n in [center, *others]:
        one = whole[molecules[n]]
        one.positions -= images[n] + centers[center]
        found += one
    return found


def label(atoms, functional, basis, grid):
    """Dipole in e Angstrom and polarizability in Angstrom^3, by the coupled perturbed equations of Kohn and Sham; None if the
    density does not converge. grid: radial shells, and directions of each."""
    from pyscf import dft, gto, lib
    from pyscf.scf import cphf

    mol = gto.M(atom=list(zip(atoms.get_chemical_symbols(), atoms.positions)), basis=basis, verbose=0)
    field = dft.RKS(mol, xc=functional).density_fit()
    field.grids.atom_grid = tuple(grid)
    field.conv_tol = 1e-7
    field.kernel()
    if not field.converged:
        return None
    orbitals, occupation, ni = field.mo_coeff, field.mo_occ, field._numint
    o, v = orbitals[:, occupation > 0], orbitals[:, occupation == 0]
    # Perturbation by a unit field, and the fitted integrals, in blocks of occupied (o) and virtual (v) orbitals.
    perturbation = np.array([v.T @ r @ o for r in mol.intor_symmetric("int1e_r", comp=3)])
    fitted = lib.unpack_tril(field.with_df._cderi)
    oo, vo, vv = (np.matmul(left.T, np.matmul(fitted, right)) for left, right in ((o, o), (v, o), (v, v)))
    rows = [integrals.transpose(1, 0, 2).reshape(v.shape[1], -1) for integrals in (vv, vo)]
    exchange = ni.hybrid_coeff(functional)
    kernel = ni.cache_xc_kernel(mol, field.grids, functional, orbitals, occupation)

    def response(change):
        """The perturbation by the change of the density."""
        change = change.reshape(-1, *perturbation.shape[1:])
        density = np.array([2 * v @ one @ o.T for one in change])
        potential = ni.nr_rks_fxc(mol, field.grids, functional, None, density + density.transpose(0, 2, 1), 0, 1, *kernel)
        found = np.array([v.T @ one @ o for one in potential])
        for one, to in zip(change, found):
            to += 4 * np.tensordot(np.tensordot(vo, one, 2), vo, 1)
            for integrals, other in zip(rows, (np.matmul(one, oo), np.matmul(one.T, vo))):
                to -= exchange * integrals @ other.reshape(-1, o.shape[1])
        return found.ravel()

    change = cphf.solve(response, field.mo_energy, occupation, perturbation, max_cycle=20, tol=1e-3)[0]
    polarizability = -4 * np.tensordot(perturbation, change.reshape(perturbation.shape), ([1, 2], [1, 2]))
    dipole = field.dip_moment(unit="au", verbose=0)
    return dipole * units.Bohr, (polarizability + polarizability.T) / 2 * units.Bohr**3


def run_label(words):
    import pyscf

    check_folder_of(words.output)
    rng = np.random.default_rng(words.seed)
    snapshots = [atoms for path in words.snapshots for atoms in structures_in(path)]
    start, count = time.time(), 0
    for size, number in words.clusters:
        for _ in range(number):
            atoms = cluster(snapshots[rng.integers(len(snapshots))], size, rng)
            atoms.positions += rng.normal(0, words.rattle, (len(atoms), 3))
            found = label(atoms, words.functional, words.basis, words.grid)
            if found is None:
                print(f"a cluster of {size} has no converged density and is left out", flush=True)
                continue
            atoms.info = {
                "REF_dipole": found[0], "REF_polarizability": found[1].ravel(), "molecules": size,
                "kind": "1 molecule" if size == 1 else f"{size} molecules",
                "teacher": f"PySCF {pyscf.__version__}, {words.functional}/{words.basis}",
            }  # fmt: skip
            if words.rattle:
                atoms.info["kind"] += f", moved by {words.rattle:g} A"
            write(words.output, atoms, append=count > 0, format="extxyz")
            count += 1
        print(f"{words.output}: {count} clusters up to {size} molecules, {time.time() - start:.0f} s", flush=True)


def graphs_of(paths, elements, words, dtype):
    import torch
    from train import geometry_of

    graphs, kinds = [], []
    for atoms in (atoms for path in paths for atoms in structures_in(path)):
        alpha = np.reshape(atoms.info["REF_polarizability"], (1, 3, 3))
        graphs.append({
            **geometry_of(atoms, elements, words.cutoff, dtype), "molecules": torch.tensor([int(atoms.info["molecules"])]),
            "dipole": torch.tensor(np.reshape(atoms.info["REF_dipole"], (1, 3)), dtype=dtype), "polarizability": torch.tensor(alpha, dtype=dtype),
        })  # fmt: skip
        kinds.append(atoms.info["kind"])
    return graphs, kinds


def make_model(words, elements, neighbors):
    """The model of train.py's class for MACE, with other readouts."""
    import torch
    from train import Mace

    class Dielectric(Mace):
        def make(self, words, options):
            from e3nn import o3
            from mace import modules

            for name in ("atomic_inter_scale", "atomic_inter_shift"):
                del options[name]
            readout = o3.Irreps([(words.width // 2, (l, (-1) ** l)) for l in range(3)])
            return modules.AtomicDielectricMACE(**options | {"MLP_irreps": readout, "atomic_energies": None})

        def __call__(self, graph):
            out = self.model(self.data_of(graph) | {"total_charge": torch.zeros(len(graph["n"]), dtype=self.dtype)})
            return out["dipole"], out["polarizability"]

        def remove_charges(self):
            """Zeroes the weights of the first of the two scalars of a readout, which is the charge."""
            for readout in self.model.readouts:
                last = readout.linear if hasattr(readout, "linear") else readout.linear_2
                for _, path, weights in last.weight_views(yield_instruction=True):
                    if last.irreps_out[path.i_out].ir.l == 0:
                        weights.detach()[:, 0] = 0.0

    return Dielectric(words, elements, {"energies": [0.0] * len(elements), "neighbors": neighbors, "force": 1.0})


def differences(model, batch):
    dipole, polarizability = model(batch)
    return dipole - batch["dipole"], polarizability - batch["polarizability"]


def errors(model, graphs):
    """Root mean squares of the components, per molecule: dipole in e Angstrom, polarizability in Angstrom^3; and those of the labels."""
    from train import batch_of

    model.model.eval()
    batch = batch_of(graphs)
    found = (*(part.detach() for part in differences(model, batch)), batch["dipole"], batch["polarizability"])
    per_molecule = 1.0 / batch["molecules"].to(model.dtype)
    return [float((part.reshape(len(part), -1) * per_molecule[:, None]).square().mean().sqrt()) for part in found]


def train(model, graphs, held_out, words):
    import torch
    from train import batch_of, share_of_rate

    optimizer = torch.optim.Adam(model.model.parameters(), lr=words.rate, amsgrad=True)
    steps, start = -(-len(graphs) // words.batch), time.time()
    for epoch in range(1, words.epochs + 1):
        model.model.train()
        order = np.random.default_rng((words.seed, epoch)).permutation(len(graphs))
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = words.rate * share_of_rate((epoch - 1 + step / steps) / words.epochs)
            batch = batch_of([graphs[k] for k in order[step * words.batch : (step + 1) * words.batch]])
            count = batch["n"].to(model.dtype).sqrt()
            loss = sum(
                weight * (part.reshape(len(part), -1) / count[:, None]).square().mean()
                for weight, part in zip(WEIGHTS, differences(model, batch))
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.model.parameters(), 10.0)
            optimizer.step()
            model.remove_charges()
        if epoch == 1 or epoch % words.report == 0 or epoch == words.epochs:
            dipole, alpha, *_ = errors(model, held_out)
            print(f"epoch {epoch} of {words.epochs}, {time.time() - start:.0f} s: held-out clusters {dipole / DEBYE:.4f} Debye, "
                  f"{alpha:.4f} Angstrom^3 per molecule", flush=True)  # fmt: skip


def print_table(model, graphs, kinds):
    print("| clusters | number | dipole, e Angstrom | dipole, Debye | its size, Debye | polarizability, Angstrom^3 | its size, Angstrom^3 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for kind in [*dict.fromkeys(kinds), "all"]:
        some = [g for g, k in zip(graphs, kinds) if kind in (k, "all")]
        dipole, alpha, size, size_alpha = errors(model, some)
        print(f"| {kind} | {len(some)} | {dipole:.4f} | {dipole / DEBYE:.3f} | {size / DEBYE:.2f} | {alpha:.4f} | {size_alpha:.2f} |")


def run_train(words):
    import torch

    check_folder_of(words.output)
    warnings.simplefilter("ignore")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.manual_seed(words.seed)
    dtype = torch.float32
    torch.set_default_dtype(dtype)
    elements = sorted({s for path in words.data for atoms in structures_in(path) for s in atoms.get_chemical_symbols()})
    graphs, _ = graphs_of(words.data, elements, words, dtype)
    held_out, kinds = graphs_of(words.held_out, elements, words, dtype)
    model = make_model(words, elements, float(np.mean([g["edges"].shape[1] / len(g["positions"]) for g in graphs])))
    model.remove_charges()
    print(f"{len(graphs)} clusters of {' '.join(elements)}, {sum(p.numel() for p in model.model.parameters())} parameters", flush=True)
    train(model, graphs, held_out, words)
    print_table(model, held_out, kinds)
    source = words.output.removesuffix(".equi") + model.suffix
    model.model.eval()
    model.save(source)
    command = ["convert", source, "-o", words.output, "--license", words.license, "--citation", words.citation]
    subprocess.run([sys.executable, "-m", "equi_tools", *command], check=True)
    print(f"{words.output}: {os.path.getsize(words.output) / 1000:.0f} kB")


def size_and_number(word):
    size, _, number = word.partition("=")
    return int(size), int(number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("label", help="clusters of snapshots, with dipoles and polarizabilities of PySCF")
    one.add_argument("output", metavar="DATA.xyz")
    one.add_argument("snapshots", nargs="+", metavar="SNAPSHOTS.xyz")
    one.add_argument("--clusters", nargs="+", type=size_and_number, required=True, metavar="MOLECULES=NUMBER")
    one.add_argument("--rattle", type=float, default=0.0, metavar="A", help="moves each atom by a normal distribution, Angstrom")
    one.add_argument("--functional", default="PBE0", help="a global hybrid or none (default: %(default)s)")
    one.add_argument("--basis", default="def2-svpd", help="default: %(default)s")
    one.add_argument("--grid", type=int, nargs=2, default=[25, 50], metavar=("SHELLS", "DIRECTIONS"), help="of the integration of the functional "
                     "(default: 25 50; dipoles of one to four molecules of water differ by at most 0.01 Debye from those of PySCF's level 3, "
                     "polarizabilities by at most 0.2 %%)")  # fmt: skip
    one.add_argument("--seed", type=int, default=1, help="of all random numbers (default: %(default)s)")
    two = commands.add_parser("train", help="an AtomicDielectricMACE of these data")
    two.add_argument("output", metavar="FILE.equi")
    two.add_argument("--data", nargs="+", required=True, metavar="DATA.xyz")
    two.add_argument("--held-out", nargs="+", required=True, metavar="DATA.xyz", help="those of the table of errors")
    two.add_argument("--cutoff", type=float, default=4.5, metavar="R", help="Angstrom (default: %(default)s)")
    two.add_argument("--channels", type=int, default=16, help="default: %(default)s")
    two.add_argument("--layers", type=int, default=2, help="default: %(default)s")
    two.add_argument("--correlation", type=int, default=2, help="default: %(default)s")
    two.add_argument("--width", type=int, default=32, help="of the radial networks; the last readout has half as many channels "
                     "(default: %(default)s)")  # fmt: skip
    two.add_argument("--epochs", type=int, default=100, help="default: %(default)s")
    two.add_argument("--batch", type=int, default=8, help="clusters in a step (default: %(default)s)")
    two.add_argument("--rate", type=float, default=0.01, help="of Adam at the begin (default: %(default)s)")
    two.add_argument("--report", type=int, default=10, metavar="N", help="epochs between two lines (default: %(default)s)")
    two.add_argument("--seed", type=int, default=1, help="of all random numbers (default: %(default)s)")
    two.add_argument("--license", default="MIT", help="stored in the file (default: %(default)s)")
    two.add_argument("--citation", default="none: trained on labels of PySCF", help="stored in the file")
    # A polarizability is a tensor of order 2, so the features and the edges have this order.
    two.set_defaults(lmax=2, edge_lmax=2)
    words = parser.parse_args()
    {"label": run_label, "train": run_train}[words.command](words)


if __name__ == "__main__":
    main()
