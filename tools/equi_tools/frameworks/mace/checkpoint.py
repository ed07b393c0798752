# SPDX-License-Identifier: MIT
"""Reads MACE files: the pickled module (.model) and the TorchScript made for LAMMPS (-lammps.pt).

Both are trees of modules with the same attributes, so one converter serves them. They are read as data; neither mace
nor torch is needed. `load` refuses by name what it does not know, and makes the couplings exact: a float32 file holds
them rounded.
"""

from dataclasses import dataclass, field

import numpy as np

from ... import symmetric_basis, torch_archive, torch_modules
from ...errors import EquiError
from ...irreps import Irreps
from ...torch_modules import Module
from ..common.origin import Origin, file_of, naming
from ..common.unknown_keys import refuse_unknown
from . import dipoles
from . import inputs as system_inputs
from . import polar

LATENT = "MACELES"  # with latent Ewald summation
MODEL_CLASSES = ("MACE", "ScaleShiftMACE", LATENT, polar.CLASS, *dipoles.KINDS)
INTERACTIONS = (
    "RealAgnosticInteractionBlock",
    "RealAgnosticResidualInteractionBlock",
    "RealAgnosticDensityInteractionBlock",
    "RealAgnosticDensityResidualInteractionBlock",
    "RealAgnosticResidualNonLinearInteractionBlock",
    "RealAgnosticAttResidualInteractionBlock",
)
READOUTS = ("LinearReadoutBlock", "NonLinearReadoutBlock", "NonLinearBiasReadoutBlock")
# Children of the model; anything else may change the energy.
CHILDREN = {
    "node_embedding", "radial_embedding", "spherical_harmonics", "atomic_energies_fn", "interactions", "products",
    "readouts", "scale_shift", "pair_repulsion_fn", "joint_embedding", "embedding_readout", "les", "les_readouts",
}  # fmt: skip

# What the object `les` of a MACELES file may hold without a change of the energy. Its class is that of another library,
# which this reader does not need.
LES_HARMLESS = ("compute_bec", "bec_output_index")
# Options of that library for energies of other forms.
LES_OTHERS = (
    "use_atomwise", "use_dipole", "use_quad", "use_induced_charge", "use_induced_dipole", "use_anisotropic_polarizability",
)  # fmt: skip

# Largest errors of a coupling in float64 and in another dtype, relative to its largest entry. A coupling that is not
# equivariant misses by tenths.
EXACT = 1e-12
ROUNDED = {"float64": 5e-6, "float32": 5e-6, "float16": 2e-3, "bfloat16": 8e-3}


@dataclass
class LatentEwald:
    """The latent Ewald summation of a MACELES model, as the user states it."""

    sigma: float  # width of the charges, Angstrom
    dl: float  # wave vectors are shorter than 2 pi / dl, Angstrom
    removes_self: bool = True
    is_open: bool = False  # all pairs of a cluster instead of a periodic cell
    scale: float = 1.0  # of the charges


@dataclass
class Checkpoint(Origin):
    model: Module
    elements: list  # chemical symbols by species index
    heads: list
    fixed_head: str  # the head of a -lammps.pt, else None
    cutoff: float
    couplings: dict = field(default_factory=dict)  # (layer, block, degree) -> Coupling
    inputs: list = field(default_factory=list)  # numbers of the whole system that the model reads
    values: dict = None  # these numbers by name, if the user fixes them; None: the file is for all systems
    latent: LatentEwald = None

    @property
    def remarks(self):
        if mixes_heads_in_its_version(self.model):
            yield (
                "the model may be of mace 0.3.14, where the readout of one head reads the hidden channels of all heads; later "
                "versions, and this file, do not"
            )

    def chosen(self, choice):
        return self.heads[self.head_index(choice)] if len(self.heads) > 1 else None

    def head_index(self, name=None):
        """Index of the named head, or of the one that MACE itself would choose; raises EquiError if the name does not
        fit."""
        if name is None:
            default = [head for head in self.heads if str(head).lower() == "default"]
            if self.fixed_head is not None:
                name = self.fixed_head
            elif len(self.heads) == 1:
                name = self.heads[0]
            elif default:
                name = default[0]
            else:
                raise EquiError(f"{self.source} has several heads, choose one: --head {' | '.join(self.heads)}")
        if name not in self.heads:
            raise EquiError(f"{self.source} has no head '{name}', only {', '.join(map(str, self.heads))}")
        return self.heads.index(name)


@dataclass(frozen=True)
class Coupling:
    """A symmetric coupling in terms of symmetric_basis: its paths are `matrix` [size of the basis, paths]."""

    irreps: tuple
    out: tuple
    degree: int
    matrix: np.ndarray
    rounded: bool  # the coupling of the file is not in float64


ACCELERATOR = (
    "the model is in the layout of an accelerator: convert it back with mace_convert_cueq_e3nn or mace_convert_oeq_e3nn, or give "
    "the .model file it was made from"
)


def _read(source, path):
    """(model, its TorchScript wrapper or None)."""
    model = torch_modules.read(path)
    if isinstance(model, dict):
        raise EquiError(
            f"{source} is a training checkpoint (or only a state_dict) without the architecture: "
            "give the .model file that mace_run_train wrote at the end"
        )
    if not isinstance(model, Module):
        raise EquiError(f"{source} holds a {type(model).__name__}, not a MACE model")
    if model.class_name.startswith("LAMMPS_ML"):
        raise EquiError(f"{source} is made for pair_style mliap: give the .model file it was made from")
    if model.is_script and model.class_name not in MODEL_CLASSES:
        if model.class_name != "LAMMPS_MACE":
            raise EquiError(f"{source}: TorchScript of {model.class_name}, not of LAMMPS_MACE: give the .model file")
        return model.model, model
    return model, None


def audit(model):
    """Refuses by name what this converter does not represent exactly."""
    kind = model.class_name
    if kind not in MODEL_CLASSES:
        raise EquiError(f"model class {kind} is not supported: only {', '.join(MODEL_CLASSES)} are known")
    known = CHILDREN | (polar.CHILDREN if kind == polar.CLASS else set())
    unknown = [name for name in dict(model.named_children()) if name not in known]
    refuse_unknown([f"{name} ({getattr(model, name).class_name})" for name in unknown], "module", can_pass=False)
    for name, module in model.named_modules():
        if module.qualified_name.startswith(("cuequivariance", "openequivariance")):
            raise EquiError(f"{name}: {module.class_name}: {ACCELERATOR}")
        config = getattr(module, "cueq_config", None)
        if config is not None and getattr(config, "enabled", False):
            raise EquiError(
                f"{name}: cueq_config: the weights are in cuequivariance's layout: convert the model back with "
                "mace_convert_cueq_e3nn, or give the .model file it was made from"
            )
        if getattr(module, "oeq_config", None) is not None and getattr(module.oeq_config, "enabled", False):
            raise EquiError(
                f"{name}: oeq_config: the weights are in openequivariance's layout: convert the model back with "
                "mace_convert_oeq_e3nn, or give the .model file it was made from"
            )
        if "lora" in module.class_name.lower():
            raise EquiError(f"{name}: {module.class_name}: merge the adapters into the weights first (merge_lora_weights)")
    for t, module in enumerate(model.interactions.children()):
        if module.class_name not in INTERACTIONS:
            raise EquiError(f"interactions.{t}: block {module.class_name} is not supported")
    if kind in dipoles.KINDS:
        dipoles.audit(model)
    if kind == polar.CLASS:
        polar.audit(model)
    for t, module in enumerate(model.readouts.children()):
        if kind not in dipoles.KINDS and module.class_name not in READOUTS:
            raise EquiError(f"readouts.{t}: block {module.class_name} is not supported, only {', '.join(READOUTS)}")
    if model.is_script and mixes_heads_in_its_version(model):
        raise EquiError(
            "readouts: NonLinearBiasReadoutBlock of several heads in TorchScript of mace 0.3.14 is another function than "
            "in later versions; only theirs is supported: give the .model file, or make the TorchScript anew"
        )
    for t, module in enumerate(model.les_readouts.children() if kind == LATENT else ()):
        if module.class_name not in READOUTS:
            raise EquiError(f"les_readouts.{t}: block {module.class_name} is not supported, only {', '.join(READOUTS)}")
    sizes = [len(list(getattr(model, name).children())) for name in ("interactions", "products")]
    if sizes[0] != sizes[1] or sizes[0] == 0:
        raise EquiError(f"{sizes[0]} interactions with {sizes[1]} products")


def mixes_heads_in_its_version(model):
    """Whether mace 0.3.14 may have made the model; its NonLinearBiasReadoutBlock reads the hidden channels of all
    heads. Later versions, which have one attribute more, read only those of one head from any file."""
    mixing = any(
        block.class_name == "NonLinearBiasReadoutBlock" and int(getattr(block, "num_heads", 1)) > 1 for block in model.readouts.children()
    )
    return mixing and not hasattr(model, "use_edge_irreps_first")


def _plain_values(module, prefix=""):
    """Numbers, words and flags of a module of an unknown library, by their places."""
    found = {}
    for key, value in module.attributes.items():
        values = value.items() if isinstance(value, dict) else [("", value)]
        for inner, one in values:
            if one is None or isinstance(one, (bool, int, float, str)):
                found[f"{prefix}{key}{'.' if inner else ''}{inner}"] = one
    for key, child in module.named_children():
        found |= _plain_values(child, f"{prefix}{key}.")
    return found


def _latent(model, sigma, dl, self_interaction, boundary):
    """The latent Ewald summation of a model, or None."""
    given = {"les-sigma": sigma, "les-dl": dl, "les-self": self_interaction, "les-boundary": boundary}
    if model.class_name != LATENT:
        stated = [name for name, value in given.items() if value is not None]
        if stated:
            raise EquiError(f"--{stated[0]}: the model is no {LATENT} and has no latent Ewald summation; leave it out")
        return None
    library = getattr(model, "les", None)
    found = _plain_values(library) if isinstance(library, Module) else {}
    arguments = getattr(model, "les_arguments", None)
    found |= {f"les_arguments.{key}": value for key, value in arguments.items()} if isinstance(arguments, dict) else {}
    for place, value in found.items():
        if place.rsplit(".", 1)[-1] in LES_OTHERS and value:
            raise EquiError(f"les: {place} = {value}: only charges of the readouts are supported")
    if isinstance(library, Module):
        weights = [name for kind in (library.named_parameters(), library.named_buffers()) for name, _ in kind]
        if weights:
            raise EquiError(f"les: the library has tensors of its own ({', '.join(weights[:3])}), whose meaning is not known")
    stored = ", ".join(f"{place} = {value}" for place, value in sorted(found.items()) if not place.endswith(LES_HARMLESS)) or "nothing"
    missing = [f"--{name}" for name in ("les-sigma", "les-dl") if given[name] is None]
    if missing:
        raise EquiError(
            f"the latent Ewald summation needs {' and '.join(missing)}: the file does not name them in a form that is known without the "
            f"library it was trained with; its object les holds {stored}. State the settings of the training, and compare the energies "
            "with 'equi compare'"
        )
    # A number of the file under such a name contradicts the user, whatever it means.
    for place, value in found.items():
        last = place.rsplit(".", 1)[-1]
        expected = {"sigma": sigma, "dl": dl}.get(last)
        if expected is not None and isinstance(value, (int, float)) and abs(value - expected) > 1e-6 * abs(expected):
            raise EquiError(f"--les-{last} {expected:g}: the file has {place} = {value:g}")
    scale = float(getattr(model, "les_output_scale", 1.0))
    return LatentEwald(float(sigma), float(dl), self_interaction != "kept", boundary == "open", scale)


def _exact_couplings(model):
    found = {}
    for t, product in enumerate(model.products.children()):
        contraction = product.symmetric_contractions
        if contraction.class_name != "SymmetricContraction":
            raise EquiError(f"products.{t}: {contraction.class_name} is not supported")
        irreps = tuple((ir.l, ir.p) for _, ir in Irreps(contraction.irreps_in))
        outs = [(ir.l, ir.p) for _, ir in Irreps(contraction.irreps_out)]
        buffers = dict(product.named_buffers())
        for b, out in enumerate(outs):
            prefix = f"symmetric_contractions.contractions.{b}.U_matrix_"
            degrees = sorted(int(name[len(prefix) :]) for name in buffers if name.startswith(prefix))
            if degrees != list(range(1, len(degrees) + 1)):
                raise EquiError(f"products.{t}: couplings of the degrees {degrees}")
            for degree in degrees:
                where = f"products.{t}.{prefix}{degree}"
                buffer = buffers[f"{prefix}{degree}"]
                precision = torch_archive.precision(buffer)
                tolerance = ROUNDED.get(precision)
                if tolerance is None:
                    raise EquiError(f"{where}: dtype {precision} is not supported, only {', '.join(ROUNDED)}")
                tensor = np.array(buffer, np.float64)
                dim = sum(2 * l + 1 for l, _ in irreps)
                if tensor.shape[-degree - 1 : -1] != (dim,) * degree:
                    raise EquiError(f"{where}: shape {tensor.shape} does not fit {dim} components")
                tensor = tensor.reshape(2 * out[0] + 1, *tensor.shape[-degree - 1 :])
                if not np.any(tensor):
                    continue
                if degree > 4:
                    raise EquiError(f"{where}: correlation {degree} is not supported, at most 4")
                matrix, error = symmetric_basis.project(tensor, irreps, out, degree)
                if not error < tolerance:
                    raise EquiError(f"{where}: not an equivariant coupling, relative difference {error:.1e}")
                # Members of the basis that the coupling does not contain, up to rounding.
                rounded = error >= EXACT
                matrix[np.abs(matrix).max(axis=1) < (tolerance if rounded else EXACT)] = 0.0
                # A coupling without a part that is symmetric in its factors adds nothing.
                if np.any(matrix):
                    found[t, b, degree] = Coupling(irreps, out, degree, matrix, rounded)
    return found


def _cutoff(model):
    """The cutoff of the model. Classes with dipoles keep it in float64, also next to a cutoff function in float32."""
    stated = float(model.r_max)
    function = getattr(getattr(model, "radial_embedding", None), "cutoff_fn", None)
    used = getattr(function, "r_max", None)
    return float(used) if used is not None and float(used) == np.float32(stated) else stated


def load(source, ignore_keys=(), charge=None, spin=None, system=None, les_sigma=None, les_dl=None, les_self=None, les_boundary=None):
    """The model in a file. charge, spin, system (a dict by name): the numbers of the whole system that it is fixed
    for. les_...: settings of a MACELES model's latent Ewald summation, in Angstrom."""
    path = file_of(source)
    model, wrapper = _read(source, path)
    with naming(source):
        audit(model)
        of_class = {"AtomicDielectricMACE": [system_inputs.NET_CHARGE], polar.CLASS: polar.INPUTS}
        inputs = of_class[model.class_name] if model.class_name in of_class else system_inputs.read(model)
        values = system_inputs.values_of(inputs, charge, spin, system)
        couplings = _exact_couplings(model)
        latent = _latent(model, les_sigma, les_dl, les_self, les_boundary)
    from ase.data import chemical_symbols

    heads = list(getattr(model, "heads", None) or ["Default"])
    fixed = None
    if wrapper is not None:
        # mace has no heads up to 0.3.6.
        fixed = heads[int(wrapper.head[0]) if hasattr(wrapper, "head") else 0]
    return Checkpoint(
        source=source,
        path=path.resolve(),
        model=model,
        elements=[chemical_symbols[int(z)] for z in model.atomic_numbers],
        heads=heads,
        fixed_head=fixed,
        cutoff=_cutoff(model),
        couplings=couplings,
        inputs=inputs,
        values=values,
        latent=latent,
    )
