# SPDX-License-Identifier: MIT
"""Tiny random models for tests: genuine MACE files, built by mace's own classes.

`python -m test_models.mace DIR [NAME ...]` writes DIR/NAME.model and DIR/NAME.equi for the named
variants (all but the large ones by default).
"""

import inspect
import sys
import warnings
from pathlib import Path

import numpy as np
from equi_tools.errors import EquiError
from equi_tools.frameworks.common.oracle import default_dtype
from equi_tools.frameworks.mace.oracle import import_mace

from . import atomic_numbers_of_many, command

RESIDUAL = "RealAgnosticResidualInteractionBlock"
PLAIN = "RealAgnosticInteractionBlock"
DENSITY = "RealAgnosticDensityInteractionBlock"
DENSITY_RESIDUAL = "RealAgnosticDensityResidualInteractionBlock"
NONLINEAR = "RealAgnosticResidualNonLinearInteractionBlock"
ATTENTION = "RealAgnosticAttResidualInteractionBlock"

MANY = atomic_numbers_of_many()

# Together these reach every option of the converter. Multiplicities are odd on purpose, because kernels handle
# channels in groups of 4, 8 or 16. Elements are atomic numbers.
VARIANTS = {
    "plain": dict(elements=[8, 11, 17], hidden="13x0e+13x1o", max_ell=2, correlation=3, num_interactions=2),
    "float32": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=3, correlation=3, dtype="float32"),
    "one_element": dict(elements=[14], hidden="5x0e", max_ell=1, correlation=2, num_interactions=1, gate="tanh"),
    "many_elements": dict(elements=MANY, hidden="5x0e+5x1o", max_ell=1, correlation=2),
    "mace_class": dict(elements=[11, 55], hidden="5x0e+5x1o", max_ell=2, correlation=2, scale_shift=False, zbl=True),
    "first_plain": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=2, correlation=3, first=PLAIN),
    "all_plain": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=2, correlation=2, first=PLAIN, blocks=PLAIN),
    "density": dict(elements=[19, 37], hidden="5x0e+5x1o", max_ell=2, correlation=2, first=DENSITY,
                    blocks=DENSITY_RESIDUAL,
                    distance_transform="Agnesi", zbl=True),
    "density_no_cutoff": dict(elements=[1, 8], hidden="5x0e", max_ell=2, correlation=2, first=DENSITY_RESIDUAL,
                              blocks=DENSITY_RESIDUAL, apply_cutoff=False),
    "nonlinear": dict(elements=[11, 17], hidden="13x0e+13x1o", max_ell=2, correlation=2, first=NONLINEAR,
                      blocks=NONLINEAR,
                      apply_cutoff=False, readout="NonLinearBiasReadoutBlock"),
    "nonlinear_transform": dict(elements=[8, 22, 56], hidden="5x0e+5x1o+5x2e", max_ell=2, correlation=2,
                                first=NONLINEAR,
                                blocks=NONLINEAR, distance_transform="Agnesi", num_interactions=3,
                                edge_irreps="7x0e+7x1o+7x2e", radial_MLP=[11, 9, 8], zbl=True, agnostic=True),
    "attention": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=2, correlation=2, first=ATTENTION,
                      neighbors=3.0),
    "attention_all": dict(elements=[8, 11, 17], hidden="13x0e+13x1o", max_ell=2, correlation=2, first=ATTENTION,
                          blocks=ATTENTION, num_interactions=3, neighbors=4.0, distance_transform="Agnesi", zbl=True),
    "attention_wide": dict(elements=[29, 40], hidden="33x0e+33x1o+33x2e", max_ell=3, correlation=2, first=ATTENTION,
                           blocks=ATTENTION, neighbors=3.0, dtype="float32"),
    "attention_options": dict(elements=[11, 17], hidden="5x0e+5x0o+5x1o+5x1e", max_ell=1, correlation=2,
                              blocks=ATTENTION, first=DENSITY_RESIDUAL, num_interactions=4, neighbors=3.0,
                              apply_cutoff=False, heads=["pbe", "r2scan"], mlp=4),
    "attention_edge_irreps": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=2, correlation=2, blocks=ATTENTION,
                                  first=RESIDUAL, edge_irreps="7x0e+3x1o+2x2e", num_interactions=3, neighbors=3.0),
    "four_layers": dict(elements=[29, 40], hidden="4x0e+4x1o", max_ell=1, correlation=2, num_interactions=4),
    "ell3": dict(elements=[11, 17], hidden="5x0e+5x1o+5x2e", max_ell=3, correlation=3),
    "ell4": dict(elements=[11, 17], hidden="3x0e+3x1o+3x2e+3x3o+3x4e", max_ell=4, correlation=2, num_interactions=3),
    "correlation1": dict(elements=[11, 17], hidden="33x0e+33x1o", max_ell=2, correlation=1),
    "correlation4": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=2, correlation=4),
    "correlation_list": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=1, correlation=[4, 1, 3],
                             num_interactions=3),
    "pseudoscalars": dict(elements=[11, 17], hidden="5x0e+5x0o+5x1o+5x1e", max_ell=1, correlation=3,
                          num_interactions=3),
    "so3": dict(elements=[6, 8], hidden="5x0e+5x1e+5x2e", max_ell=2, correlation=3, use_so3=True),
    "so3_float32": dict(elements=[6, 8], hidden="5x0e+5x1e", max_ell=2, correlation=3, use_so3=True, dtype="float32"),
    "agnostic": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=2, correlation=3, agnostic=True),
    "edge_irreps": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=2, correlation=2, edge_irreps="7x0e+3x1o+2x2e",
                        num_interactions=3),
    "edge_irreps_first": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=2, correlation=2, edge_irreps="7x0e+3x1o",
                              edge_irreps_first=True),
    "gaussian": dict(elements=[11, 17], hidden="5x0e", max_ell=1, correlation=2, radial_type="gaussian", num_bessel=7),
    "chebyshev": dict(elements=[11, 17], hidden="5x0e", max_ell=1, correlation=2, radial_type="chebyshev",
                      distance_transform="Agnesi", num_bessel=7),
    "gaussian_agnesi": dict(elements=[1, 8], hidden="5x0e", max_ell=1, correlation=2, radial_type="gaussian",
                            distance_transform="Agnesi"),
    "soft": dict(elements=[1, 8, 26], hidden="5x0e+5x1o", max_ell=2, correlation=2, distance_transform="Soft"),
    "agnesi": dict(elements=[1, 11, 55], hidden="5x0e+5x1o", max_ell=2, correlation=2, distance_transform="Agnesi",
                   zbl=True),
    "no_cutoff": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=1, correlation=2, apply_cutoff=False, p=8),
    "heads": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=2, correlation=2, heads=["pbe", "r2scan", "ccsd"],
                  mlp=4),
    "heads_bias": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=1, correlation=2, heads=["pbe", "Default"], mlp=4,
                       readout="NonLinearBiasReadoutBlock", gate="tanh"),
    "gate_abs": dict(elements=[11, 17], hidden="5x0e", max_ell=1, correlation=2, gate="abs", mlp=9),
    "gate_none": dict(elements=[11, 17], hidden="5x0e", max_ell=1, correlation=2, gate="None", mlp=9),
    "last_readout": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=1, correlation=2, last_readout_only=True,
                         num_interactions=3, scale_shift=False),
    "keep_last": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=2, correlation=2, keep_last_layer_irreps=True),
    "radial_deep": dict(elements=[11, 17], hidden="5x0e", max_ell=1, correlation=2, radial_MLP=[6, 7, 8, 9]),
    "radial_linear": dict(elements=[11, 17], hidden="5x0e", max_ell=1, correlation=2, radial_MLP=[]),
    "reduced": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=2, correlation=3, reduced=True),
    "reduced_float32": dict(elements=[11, 17], hidden="5x0e+5x1o", max_ell=3, correlation=3, reduced=True,
                            dtype="float32"),
    "reduced_correlation4": dict(elements=[11, 17], hidden="5x0e", max_ell=2, correlation=4, reduced=True),
    "reduced_so3": dict(elements=[6, 8], hidden="5x0e+5x1e", max_ell=2, correlation=3, use_so3=True, reduced=True),
    "reduced_pseudoscalars": dict(elements=[11, 17], hidden="5x0e+5x0o+5x1o", max_ell=1, correlation=3, reduced=True),
}  # fmt: skip

# Shapes of published models; too large for a test of every option.
LARGE = {
    "small": dict(elements=[8, 11, 17], hidden="128x0e", max_ell=3, correlation=3, r_max=6.0, num_bessel=10,
                  radial_MLP=[64, 64, 64], mlp=16, dtype="float32"),
    "medium": dict(elements=[8, 11, 17], hidden="128x0e+128x1o", max_ell=3, correlation=3, r_max=6.0, num_bessel=10,
                   radial_MLP=[64, 64, 64], mlp=16, dtype="float32"),
    "medium_89": dict(elements=MANY, hidden="128x0e+128x1o", max_ell=3, correlation=3, r_max=6.0, num_bessel=10,
                      radial_MLP=[64, 64, 64], mlp=16, dtype="float32"),
}  # fmt: skip
# With the first interaction block that Symmetrix reads, for bench/peers.py.
LARGE |= {f"{name}_first_plain": LARGE[name] | dict(first=PLAIN) for name in ("small", "medium")}


# The behavior of a version without one of these options; it ignores what other missing options request.
WITHOUT_OPTION = {"apply_cutoff": True, "distance_transform": "None", "heads": ["Default"]}


class MissingOption(EquiError):
    """The installed version of mace lacks an option."""


def _options_of_this_version(kind, options):
    """The options that the class `kind` of the installed version knows; raises MissingOption if another one has an
    effect."""
    known = inspect.signature(kind).parameters
    # The class itself passes its options on to MACE.
    if "kwargs" in known:
        known = inspect.signature(kind.__mro__[1]).parameters | known
    for name, value in options.items():
        if name not in known and value and value != WITHOUT_OPTION.get(name):
            raise MissingOption(f"{name}={value}")
    return {name: value for name, value in options.items() if name in known}


def _class_of_this_version(classes, name):
    if name not in classes:
        raise MissingOption(name)
    return classes[name]


def _randomize(model, rng):
    """Random numbers in place of initial values of 0, 1 or a common one; every term must matter."""
    import torch

    def set_to(tensor, values):
        with torch.no_grad():
            tensor.copy_(torch.as_tensor(np.asarray(values), dtype=tensor.dtype).reshape(tensor.shape))

    for name, parameter in model.named_parameters():
        if name.endswith((".source_embedding.weight", ".target_embedding.weight")):
            set_to(parameter, rng.normal(0, 1, parameter.shape))
        elif name.endswith(".alpha"):
            set_to(parameter, rng.uniform(2, 4))
        elif name.endswith(".beta"):
            set_to(parameter, rng.uniform(0.5, 1.5))
        elif ".symmetric_contractions." in name:
            # mace divides by the number of paths, which makes products small.
            set_to(parameter, rng.normal(0, 1 / np.sqrt(parameter.shape[1]), parameter.shape))
        elif ".net." in name:
            # LayerNorm's and Linear's vectors: a weight near one, a bias near zero.
            if parameter.dim() == 1:
                set_to(parameter, rng.normal(1.0 if name.endswith("weight") else 0.0, 0.3, parameter.shape))
        elif name.startswith("readouts.") and name.endswith(".bias") and parameter.numel():
            set_to(parameter, rng.normal(0, 0.5, parameter.shape))


# Options of the models; all others are those of mace's classes.
DEFAULTS = dict(
    elements=(11, 17), hidden="5x0e+5x1o", max_ell=2, correlation=2, num_interactions=2, blocks=RESIDUAL, first=None, dtype="float64",
    r_max=4.2, num_bessel=6, p=5, radial_MLP=(9, 7), mlp=6, gate="silu", scale_shift=True, heads=("Default",),
    readout="NonLinearReadoutBlock", radial_type="bessel", distance_transform="None", zbl=False, apply_cutoff=True, use_so3=False,
    agnostic=False, edge_irreps=None, edge_irreps_first=False, reduced=False, neighbors=0.75, last_readout_only=False,
    keep_last_layer_irreps=False,
)  # fmt: skip
# mace's names of some of these options.
MACE_NAMES = {
    "p": "num_polynomial_cutoff", "zbl": "pair_repulsion", "reduced": "use_reduced_cg", "agnostic": "use_agnostic_product",
    "last_readout_only": "use_last_readout_only", "edge_irreps_first": "use_edge_irreps_first",
}  # fmt: skip


def _options_of_mace(given, rng):
    """(class, options) of the model for DEFAULTS and their replacements, without `dtype`."""
    from e3nn import o3
    from mace import modules

    given = {MACE_NAMES.get(name, name): value for name, value in given.items()}
    take = given.pop
    elements, heads, first, blocks = list(take("elements")), list(take("heads")), take("first"), take("blocks")
    energies = rng.uniform(-5, -1, (len(heads), len(elements)))
    edge, correlation, readout = take("edge_irreps"), take("correlation"), take("readout")
    options = dict(
        interaction_cls=_class_of_this_version(modules.interaction_classes, blocks),
        interaction_cls_first=_class_of_this_version(modules.interaction_classes, first or blocks),
        num_elements=len(elements), atomic_numbers=elements, heads=heads, hidden_irreps=o3.Irreps(take("hidden")),
        MLP_irreps=o3.Irreps(f"{take('mlp')}x0e"),
        # Older files have no dimension of heads.
        atomic_energies=energies if len(heads) > 1 else energies[0],
        avg_num_neighbors=take("neighbors") * float(rng.uniform(0.7, 1.3)), gate=modules.gate_dict[take("gate")],
        correlation=correlation if isinstance(correlation, int) else list(correlation), radial_MLP=list(take("radial_MLP")),
        edge_irreps=None if edge is None else o3.Irreps(edge),
    )  # fmt: skip
    if readout != DEFAULTS["readout"]:
        options["readout_cls"] = _class_of_this_version(vars(modules), readout)
    if not take("scale_shift"):
        return modules.MACE, options | given
    count = len(heads) if len(heads) > 1 else None
    options["atomic_inter_scale"], options["atomic_inter_shift"] = rng.uniform(0.7, 1.3, count), rng.uniform(-1, 1, count)
    return modules.ScaleShiftMACE, options | given


def make_model(path, seed=1, **options):
    """Writes a .model file with random numbers and energies of order eV; returns its path as a string. options:
    replace DEFAULTS and add others of mace's. Raises MissingOption if the installed version of mace is too old for
    these options."""
    import_mace()
    import torch

    rng, given = np.random.default_rng(seed), DEFAULTS | options
    torch.manual_seed(seed)
    dtype = getattr(torch, given.pop("dtype"))
    kind, options = _options_of_mace(given, rng)
    with default_dtype(dtype), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(**_options_of_this_version(kind, options))
        _randomize(model, rng)
        torch.save(model, path)
    return str(path)


def make_dipole_model(path, kind, options, elements=(8, 11, 17), seed=1):
    """Writes a .model file of a class with dipoles, with random numbers; returns its path as a string. options: hidden,
    mlp (irreps), num_interactions, correlation, gate and dtype."""
    import_mace()
    import torch
    from e3nn import o3
    from mace import modules

    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    given = dict(correlation=2, gate="silu", dtype="float64") | options
    energies = rng.uniform(-5, -1, len(elements)) if kind == "EnergyDipolesMACE" else None
    with default_dtype(getattr(torch, given["dtype"])), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(modules, kind)(
            r_max=4.2, num_bessel=6, num_polynomial_cutoff=5, max_ell=2, interaction_cls=modules.interaction_classes[RESIDUAL],
            interaction_cls_first=modules.interaction_classes[RESIDUAL], num_interactions=given["num_interactions"],
            num_elements=len(elements), hidden_irreps=o3.Irreps(given["hidden"]), MLP_irreps=o3.Irreps(given["mlp"]),
            atomic_energies=energies, avg_num_neighbors=3.0, atomic_numbers=list(elements), correlation=given["correlation"],
            gate=modules.gate_dict[given["gate"]], radial_MLP=[9, 7],
        )  # fmt: skip
        _randomize(model, rng)
        torch.save(model, path)
    return str(path)


def make_polar_model(path, seed=1, polar=None, change=None, **options):
    """Writes a .model file of the class PolarMACE with random numbers; returns its path as a string. polar: options of
    this class alone; options: as of make_model; change(model): applied last."""
    import_mace()
    import torch
    from mace.modules import extensions

    rng, given = np.random.default_rng(seed), DEFAULTS | options
    torch.manual_seed(seed)
    dtype = getattr(torch, given.pop("dtype"))
    _, options = _options_of_mace(given, rng)
    # The class sets it itself.
    options.pop("keep_last_layer_irreps")
    with default_dtype(dtype), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = extensions.PolarMACE(**(polar or {}), **options)
        _randomize(model, rng)
        for name, parameter in model.named_parameters():
            if name.startswith("fukui_source_map") and name.endswith("linear_2.bias"):
                with torch.no_grad():  # shares whose sum is not near 0
                    parameter.copy_(torch.as_tensor(rng.uniform(0.8, 1.6, parameter.shape), dtype=dtype))
            elif name.startswith("field_dependent") and name.endswith("readout.linear_2.bias"):
                with torch.no_grad():
                    parameter[-2:] = torch.as_tensor(rng.uniform(0.8, 1.6, 2), dtype=dtype)
        if change:
            change(model)
        torch.save(model, path)
    return str(path)


def to_torchscript(model_path, head=None):
    """Writes MODEL-lammps.pt next to a .model file, like mace_create_lammps_model; returns its path as a string."""
    import_mace()
    import torch
    from e3nn.util import jit
    from mace.calculators import LAMMPS_MACE

    path = f"{model_path}-lammps.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.load(model_path, map_location="cpu", weights_only=False)
        dtype = next(model.parameters()).dtype
        with default_dtype(dtype):
            wrapped = LAMMPS_MACE(model) if head is None else LAMMPS_MACE(model, head=head)
            jit.compile(wrapped).save(path)
    return path


def make_variant(name, directory, seed=1):
    """Path of the .model file of one of VARIANTS or LARGE."""
    options = VARIANTS[name] if name in VARIANTS else LARGE[name]
    return make_model(Path(directory) / f"{name}.model", seed=seed, **options)


def main(argv=None):
    def source(name, directory, seed):
        heads = (VARIANTS | LARGE)[name].get("heads", ["Default"])
        return make_variant(name, directory, seed), {"head": heads[-1] if len(heads) > 1 else None}

    command(argv, __doc__, VARIANTS, LARGE, source)


if __name__ == "__main__":
    sys.exit(main())
