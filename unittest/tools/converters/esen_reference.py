# SPDX-License-Identifier: MIT
"""A second, slow evaluation of a checkpoint of fairchem: eSEN and UMA in float64 with Torch's autograd, written from
their equations. Also makes checkpoints with random numbers, written as data without fairchem: classes with its names
replace it.

It shares no code with equi_tools.
"""

import sys
import types
from contextlib import contextmanager

import numpy as np
import torch
from edge_calculator import EdgeCalculator
from equi_evaluator import harmonics

ENVELOPE_POWER = 5
INFERENCE = "fairchem.core.units.mlip_unit.api.inference"
CORE = "fairchem.core.models.uma"

BACKBONE = {
    "max_num_elements": 20, "sphere_channels": 6, "lmax": 2, "mmax": 2, "max_neighbors": 300, "cutoff": 4.0, "edge_channels": 5,
    "distance_function": "gaussian", "num_distance_basis": 8, "direct_forces": False, "regress_stress": True, "num_layers": 2,
    "hidden_channels": 7, "norm_type": "rms_norm_sh", "act_type": "gate", "ff_type": "spectral", "chg_spin_emb_type": "rand_emb",
    "dataset_mapping": {"omat": "omat", "omol": "omol"}, "use_dataset_embedding": True, "otf_graph": True, "always_use_pbc": False,
}  # fmt: skip


def shapes(backbone, head, num_experts):
    """Shape by name of all tensors of a model."""
    C, H, L, M = (backbone[key] for key in ("sphere_channels", "hidden_channels", "lmax", "mmax"))
    E, Z = backbone["edge_channels"], backbone["max_num_elements"]
    found = {"sphere_embedding.weight": (Z, C), "source_embedding.weight": (Z, E), "target_embedding.weight": (Z, E)}
    found |= {"charge_embedding.rand_emb.weight": (201, C), "spin_embedding.rand_emb.weight": (101, C)}
    found |= {f"dataset_embedding.dataset_emb_dict.{name}.weight": (1, C) for name in backbone["dataset_mapping"]}
    found |= {"mix_csd.weight": (C, 3 * C), "mix_csd.bias": (C,)}

    def radial(name, out):
        widths = (backbone["num_distance_basis"] + 2 * E, E, E, out)
        for k, n in enumerate((0, 3, 6)):
            found.update({f"{name}.rad_func.net.{n}.weight": (widths[k + 1], widths[k]), f"{name}.rad_func.net.{n}.bias": (widths[k + 1],)})
        found.update({f"{name}.rad_func.net.{n}.{key}": (E,) for n in (1, 4) for key in ("weight", "bias")})

    def norm(name):
        if backbone["norm_type"] == "layer_norm_sh":
            found.update({f"{name}.norm_l0.weight": (C,), f"{name}.norm_l0.bias": (C,), f"{name}.affine_weight": (L, C)})
        else:
            found.update({f"{name}.affine_weight": (L + 1, C), f"{name}.affine_bias": (C,)})

    def mixed(name, out, width):
        found[f"{name}.weights" if num_experts else f"{name}.weight"] = ((num_experts,) if num_experts else ()) + (out, width)

    radial("edge_degree_embedding", (L + 1) * C)
    for t in range(backbone["num_layers"]):
        block = f"blocks.{t}"
        norm(f"{block}.norm_1"), norm(f"{block}.norm_2")
        radial(f"{block}.edge_wise.so2_conv_1", sum(L + 1 - m for m in range(M + 1)) * 2 * C)
        for name, width, out, extra in (("so2_conv_1", 2 * C, H, L * H), ("so2_conv_2", H, C, 0)):
            name = f"{block}.edge_wise.{name}"
            mixed(f"{name}.fc_m0", (L + 1) * out + extra, (L + 1) * width)
            found[f"{name}.fc_m0.bias"] = ((L + 1) * out + extra,)
            for m in range(1, M + 1):
                mixed(f"{name}.so2_m_conv.{m - 1}.fc", 2 * (L + 1 - m) * out, (L + 1 - m) * width)
        atom = f"{block}.atom_wise"
        if backbone["ff_type"] == "grid":
            found |= {f"{atom}.grid_mlp.0.weight": (H, C), f"{atom}.grid_mlp.2.weight": (H, H), f"{atom}.grid_mlp.4.weight": (C, H)}
            continue
        found |= {f"{atom}.scalar_mlp.0.weight": (L * H, C), f"{atom}.scalar_mlp.0.bias": (L * H,)}
        found |= {f"{atom}.so3_linear_1.weight": (L + 1, H, C), f"{atom}.so3_linear_1.bias": (H,)}
        found |= {f"{atom}.so3_linear_2.weight": (L + 1, C, H), f"{atom}.so3_linear_2.bias": (C,)}
    norm("norm")
    if num_experts:
        N = num_experts
        found |= {"routing_mlp.0.weight": (2 * N, 2 * C), "routing_mlp.0.bias": (2 * N,), "routing_mlp.2.weight": (2 * N, 2 * N)}
        found |= {"routing_mlp.2.bias": (2 * N,), "routing_mlp.4.weight": (N, 2 * N), "routing_mlp.4.bias": (N,)}
        found["composition_embedding.weight"] = (Z, C)
    found = {f"backbone.{name}": shape for name, shape in found.items()}
    for n, (out, width) in zip((0, 2, 4), ((H, C), (H, H), (1, H))):
        found |= {f"{head}.energy_block.{n}.weight": (out, width), f"{head}.energy_block.{n}.bias": (out,)}
    return found


def random_state(named_shapes, seed):
    """Matrices of the size of trained ones, norms of about one; forces are then about 1 eV/A."""
    rng, state = np.random.default_rng(seed), {}
    for name, shape in named_shapes.items():
        values = rng.standard_normal(shape)
        if "embedding" not in name and len(shape) >= 2 and "affine" not in name:
            values /= np.sqrt(shape[-1])
        elif name.endswith(("affine_weight", "norm_l0.weight")) or (
            ".net." in name and name.split(".")[-2] in "14" and name.endswith("weight")
        ):
            values = 1 + 0.2 * values
        elif name.endswith("bias"):
            values *= 0.2
        if name.endswith("energy_block.4.weight"):
            values *= 6.0
        state[name] = torch.tensor(values, dtype=torch.float32)
    return state


@contextmanager
def stand_ins(names):
    """Defines classes with these full names, in their own modules, while a pickle is written: name -> class."""
    made, modules = {}, []
    for name in names:
        module, kind = name.rsplit(".", 1)
        parts = module.split(".")
        for k in range(1, len(parts) + 1):
            part = ".".join(parts[:k])
            if part not in sys.modules:
                sys.modules[part] = types.ModuleType(part)
                modules.append(part)
        made[name] = type(kind, (), {"__module__": module})
        setattr(sys.modules[module], kind, made[name])
    try:
        yield made
    finally:
        for part in modules:
            del sys.modules[part]


class Checkpoint:
    """A model with random numbers: `save` writes the file of fairchem, `calculator` evaluates it."""

    def __init__(self, seed=1, num_experts=0, wrapped=True, rmsd=1.423, model_id=None, **backbone):
        self.backbone, self.num_experts, self.rmsd = {**BACKBONE, **backbone}, num_experts, rmsd
        self.head = "output_heads.efs.head" if wrapped else "output_heads.efs"
        self.state = random_state(shapes(self.backbone, self.head, num_experts), seed)
        self.references = np.random.default_rng(seed).normal(0, 3, self.backbone["max_num_elements"])
        efs = {"module": f"{CORE}.escn_md.MLP_EFS_Head"}
        if wrapped:
            efs = {"module": f"{CORE}.escn_moe.DatasetSpecificSingleHeadWrapper", "head_cls": efs["module"],
                   "head_kwargs": {"wrap_property": False}, "dataset_names": ["omat", "omol"]}  # fmt: skip
        config = {**self.backbone, "model": f"{CORE}.escn_md.eSCNMDBackbone"}
        if num_experts:
            config |= {"model": f"{CORE}.escn_moe.eSCNMDMoeBackbone", "num_experts": num_experts, "use_composition_embedding": True,
                       "model_version": 1.1}  # fmt: skip
        self.config = {"_target_": "fairchem.core.models.base.HydraModel", "backbone": config, "heads": {"efs": efs},
                       "pass_through_head_outputs": True, **({"model_id": model_id} if model_id else {})}  # fmt: skip
        self.tasks = [
            {"_target_": "fairchem.core.units.mlip_unit.mlip_unit.Task", "name": f"{dataset}_{kind}", "property": kind,
             "datasets": [dataset], "normalizer": {"_target_": "fairchem.core.modules.normalization.normalizer.Normalizer",
                                                   "mean": 0.0, "rmsd": rmsd},
             **({"element_references": {"_target_": "fairchem.core.modules.normalization.element_references.ElementReferences",
                                        "element_references": {"_target_": "torch.DoubleTensor", "_args_": [self.references.tolist()]}}}
                if kind == "energy" else {})}
            for dataset in ("omat", "omol") for kind in ("energy", "forces", "stress")
        ]  # fmt: skip

    def save(self, path, as_omegaconf=False):
        """Writes the checkpoint; as_omegaconf: its configurations as omegaconf's objects, with a reference to another
        entry as the cutoff."""
        nodes = [f"omegaconf.{name}" for name in ("dictconfig.DictConfig", "listconfig.ListConfig", "nodes.AnyNode")]
        with stand_ins([f"{INFERENCE}.MLIPInferenceCheckpoint", *nodes]) as made:
            dict_config, list_config, any_node = (made[name] for name in nodes)

            def node(value, parent):
                found = (dict_config if isinstance(value, dict) else list_config if isinstance(value, list) else any_node)()
                found._parent, found._metadata = parent, None
                if isinstance(value, dict):
                    found._content = {key: node(item, found) for key, item in value.items()}
                elif isinstance(value, list):
                    found._content = [node(item, found) for item in value]
                else:
                    found._val = value
                return found

            config, tasks = self.config, self.tasks
            if as_omegaconf:
                config = {**config, "backbone": {**config["backbone"], "cutoff": "${graph.radii.0}"}}
                whole = node({"graph": {"radii": [self.backbone["cutoff"]]}, "model": config, "tasks": tasks}, None)
                config, tasks = whole._content["model"], whole._content["tasks"]
            checkpoint = made[f"{INFERENCE}.MLIPInferenceCheckpoint"]()
            checkpoint.model_config, checkpoint.tasks_config = config, tasks
            checkpoint.model_state_dict = {name: value + 1.0 for name, value in self.state.items()}
            checkpoint.ema_state_dict = {"n_averaged": torch.tensor(3)} | {f"module.{name}": value for name, value in self.state.items()}
            torch.save(checkpoint, path)
        return str(path)

    def calculator(self, task="omat", charge=0, spin=0):
        return Reference(self, task, charge, spin)


class TrainerCheckpoint(Checkpoint):
    """A model of fairchem 1: without charge, spin and task. `checkpoint` is the content of a trainer's file,
    `calculator` evaluates the model."""

    def __init__(self, seed=1, rmsd=1.423, **backbone):
        super().__init__(seed=seed, wrapped=False, rmsd=rmsd, distance_function=backbone.pop("distance_function", "gaussian"), **backbone)
        systems = ("charge_embedding", "spin_embedding", "dataset_embedding", "mix_csd")
        self.state = {name: value for name, value in self.state.items() if name.split(".")[1] not in systems}
        if self.backbone["distance_function"] == "bessel":
            frequencies = np.pi * np.arange(1, self.backbone["num_distance_basis"] + 1) + np.random.default_rng(seed).normal(0, 0.2)
            self.state["backbone.distance_expansion.rbf.frequencies"] = torch.tensor(frequencies, dtype=torch.float32)
        keys = ("max_num_elements", "sphere_channels", "lmax", "mmax", "max_neighbors", "cutoff", "edge_channels", "distance_function",
                "num_distance_basis", "num_layers", "hidden_channels", "norm_type", "act_type")  # fmt: skip
        config = {key: self.backbone[key] for key in keys}
        config |= {
            "model": "esen_backbone",
            "mlp_type": self.backbone["ff_type"],
            "grid_resolution": self.backbone.get("grid_resolution"),
            "use_envelope": True,
            "direct_forces": False,
            "otf_graph": True,
        }
        scale = {"mean": torch.tensor(0.0), "rmsd": torch.tensor(self.rmsd, dtype=torch.float64)}
        self.checkpoint = {
            "state_dict": {f"module.{name}": value for name, value in self.state.items()},
            "normalizers": {kind: dict(scale) for kind in ("energy", "forces", "stress")},
            "elementrefs": {"energy": {"element_references": torch.tensor(self.references)}},
            "config": {"trainer": "mlip_trainer", "task": {},
                       "model": {"name": "hydra", "backbone": config, "heads": {"efs": {"module": "esen_mlp_efs_head"}},
                                 "pass_through_head_outputs": True, "otf_graph": True}},
            "val_metrics": None, "amp": None,
        }  # fmt: skip

    def save(self, path):
        torch.save(self.checkpoint, path)
        return str(path)


class Reference(EdgeCalculator):
    """The model in float64. Features are [atoms, (lmax + 1)^2, channels]."""

    epsilon = 1e-5  # of the norms
    degrees = 5.0  # what divides the sum of the edge degrees

    def __init__(self, checkpoint, task, charge, spin):
        super().__init__()
        self.options, self.checkpoint, self.charge, self.spin = checkpoint.backbone, checkpoint, charge, spin
        self.elements, self.cutoff, self.num_experts = [], self.options["cutoff"], checkpoint.num_experts
        self.lmax, self.mmax, self.C = (self.options[key] for key in ("lmax", "mmax", "sphere_channels"))
        self.p = {name.removeprefix("backbone."): value.double() for name, value in checkpoint.state.items()}
        p = self.p
        if "mix_csd.weight" not in p:
            self.system = torch.zeros(self.C, dtype=torch.float64)
            return
        rows = [p["charge_embedding.rand_emb.weight"][100 + charge], p["spin_embedding.rand_emb.weight"][spin]]
        rows.append(p[f"dataset_embedding.dataset_emb_dict.{task}.weight"][0])
        self.system = self.silu(self.dense("mix_csd", torch.cat(rows)))

    @staticmethod
    def silu(x):
        return x * torch.sigmoid(x)

    def dense(self, name, x):
        return x @ self.p[f"{name}.weight"].T + self.p[f"{name}.bias"]

    def weight(self, name):
        """A matrix, or the matrices of the experts mixed for the atoms of the present structure."""
        if f"{name}.weights" not in self.p:
            return self.p[f"{name}.weight"]
        return torch.einsum("e,eoi->oi", self.mixture, self.p[f"{name}.weights"])

    def coefficients(self, numbers):
        rows = self.p["composition_embedding.weight"][numbers]
        extra = 1 if self.checkpoint.config.get("model_id") == "UMA-S-1.2" else 0
        x = torch.cat([rows.sum(0) / (len(numbers) + extra), self.system])
        for n in (0, 2, 4):
            x = self.silu(self.dense(f"routing_mlp.{n}", x))
        return torch.softmax(x, 0) + 0.005

    def radial(self, name, inputs):
        x, E = inputs, self.options["edge_channels"]
        for linear, norm in ((0, 1), (3, 4)):
            x = self.dense(f"{name}.rad_func.net.{linear}", x)
            x = torch.nn.functional.layer_norm(
                x, (E,), self.p[f"{name}.rad_func.net.{norm}.weight"], self.p[f"{name}.rad_func.net.{norm}.bias"], self.epsilon
            )
            x = self.silu(x)
        return self.dense(f"{name}.rad_func.net.6", x)

    def weight_of_order(self, l, count):
        """The weight of a square in the mean over components and orders."""
        return 1 / ((2 * l + 1) * count)

    def norm(self, name, x):
        kind, L, p = self.options["norm_type"], self.lmax, self.p
        blocks = [x[:, l * l : (l + 1) ** 2] for l in range(L + 1)]
        blocks[0] = blocks[0] - blocks[0].mean(2, keepdim=True)
        squares = [(block**2).sum(1).mean(1) for block in blocks]  # of each l, over channels
        means = [square / (2 * l + 1) for l, square in enumerate(squares)]

        def mean(first):
            return sum(square * self.weight_of_order(l, L + 1 - first) for l, square in enumerate(squares) if l >= first)

        if kind == "rms_norm_sh":
            scales, weights, bias = [mean(0)] * (L + 1), p[f"{name}.affine_weight"], p[f"{name}.affine_bias"]
        elif kind == "layer_norm":
            scales, weights, bias = means, p[f"{name}.affine_weight"], p[f"{name}.affine_bias"]
        else:
            scales = [means[0]] + [mean(1)] * L
            weights, bias = torch.cat([p[f"{name}.norm_l0.weight"][None], p[f"{name}.affine_weight"]]), p[f"{name}.norm_l0.bias"]
        blocks = [weights[l] * b / torch.sqrt(s + self.epsilon)[:, None, None] for l, (b, s) in enumerate(zip(blocks, scales))]
        blocks[0] = blocks[0] + bias
        return torch.cat(blocks, 1)

    def rotations(self, n):
        """[E, 2l+1, 2l+1] for each l: any rotation into a frame whose y axis is n."""
        helper = torch.zeros_like(n).scatter(1, n.abs().argmin(1, keepdim=True), 1.0)
        x = torch.linalg.cross(n, helper)
        x = x / x.norm(dim=1, keepdim=True)
        frame = torch.stack([x, n, torch.linalg.cross(x, n)], 1)
        points = torch.nn.functional.normalize(torch.tensor(np.random.default_rng(3).normal(size=(40, 3))[: 6 * self.lmax + 4]), dim=1)
        turned = harmonics(self.lmax, torch.einsum("eab,pb->epa", frame, points).reshape(-1, 3))
        still = harmonics(self.lmax, points)
        return [
            torch.einsum("epm,np->emn", y.reshape(len(n), len(points), y.shape[-1]), torch.linalg.pinv(s)) for y, s in zip(turned, still)
        ]

    def so2(self, name, u, out, gates):
        """u: {m: [E, orders, channels]} for m from -mmax to mmax. Returns the same for `out` channels, and gates [E,
        lmax, out]."""
        L, v = self.lmax, {}
        flat = u[0].flatten(1) @ self.weight(f"{name}.fc_m0").T + self.p[f"{name}.fc_m0.bias"]
        gate = flat[:, : gates * out].reshape(len(flat), gates, out)
        v[0] = flat[:, gates * out :].reshape(len(flat), L + 1, out)
        for m in range(1, self.mmax + 1):
            half = (L + 1 - m) * out
            plus, minus = (u[side].flatten(1) @ self.weight(f"{name}.so2_m_conv.{m - 1}.fc").T for side in (m, -m))
            v[m] = (plus[:, :half] - minus[:, half:]).reshape(len(flat), L + 1 - m, out)
            v[-m] = (minus[:, :half] + plus[:, half:]).reshape(len(flat), L + 1 - m, out)
        return v, gate

    def messages(self, name, y, i, j, d, inputs):
        L, M, H = self.lmax, self.mmax, self.options["hidden_channels"]
        both = torch.cat([y[j], y[i]], 2)
        turned = [torch.einsum("emn,enc->emc", d[l], both[:, l * l : (l + 1) ** 2]) for l in range(L + 1)]
        factors, u, column = self.radial(f"{name}.so2_conv_1", inputs), {}, 0
        for m in range(M + 1):
            width = (L + 1 - m) * 2 * self.C
            factor = factors[:, column : column + width].reshape(len(factors), L + 1 - m, 2 * self.C)
            for side in {m, -m}:
                u[side] = factor * torch.stack([turned[l][:, l + side] for l in range(m, L + 1)], 1)
            column += width
        v, gate = self.so2(f"{name}.so2_conv_1", u, H, L)
        gate = torch.sigmoid(gate)
        v[0] = torch.cat([self.silu(v[0][:, :1]), v[0][:, 1:] * gate], 1)
        for m in range(1, M + 1):
            for side in (m, -m):
                v[side] = v[side] * gate[:, m - 1 :]
        z, _ = self.so2(f"{name}.so2_conv_2", v, self.C, 0)
        back = []
        for l in range(L + 1):
            rows = [z[m][:, l - abs(m)] if abs(m) <= M else torch.zeros(len(i), self.C, dtype=torch.float64) for m in range(-l, l + 1)]
            back.append(torch.einsum("emn,emc->enc", d[l], torch.stack(rows, 1)))
        return torch.cat(back, 1)

    def spectral(self, name, y):
        """Gated matrices of each order."""
        p, L = self.p, self.lmax
        gates = torch.sigmoid(self.silu(self.dense(f"{name}.scalar_mlp.0", y[:, 0]))).reshape(len(y), L, self.options["hidden_channels"])
        expand = [l for l in range(L + 1) for _ in range(2 * l + 1)]
        h = torch.einsum("amc,mhc->amh", y, p[f"{name}.so3_linear_1.weight"][expand])
        scalars = self.silu(h[:, :1] + p[f"{name}.so3_linear_1.bias"])
        h = torch.cat([scalars, h[:, 1:] * gates[:, [l - 1 for l in expand[1:]]]], 1)
        h = torch.einsum("amh,mch->amc", h, p[f"{name}.so3_linear_2.weight"][expand])
        return torch.cat([h[:, :1] + p[f"{name}.so3_linear_2.bias"], h[:, 1:]], 1)

    def grid(self):
        """(values of the harmonics [points, components], weights [points]): equal angles, and the only weights of
        latitudes with which Legendre polynomials of lower degree have their exact means."""
        both = self.options.get("grid_resolution")
        latitudes, longitudes = (both, both) if both else (2 * self.lmax + 2, 2 * self.lmax + 3)
        heights, angles = np.cos(np.pi * (np.arange(latitudes) + 0.5) / latitudes), 2 * np.pi * np.arange(longitudes) / longitudes
        means = np.zeros(latitudes)
        means[0] = 1.0
        weights = np.linalg.solve(np.polynomial.legendre.legvander(heights, latitudes - 1).T, means)
        y, angles = np.meshgrid(heights, angles, indexing="ij")
        radius = np.sqrt(1 - y**2)
        points = torch.tensor(np.stack([radius * np.sin(angles), y, radius * np.cos(angles)], -1).reshape(-1, 3))
        return torch.cat(list(harmonics(self.lmax, points)), 1), torch.tensor(np.repeat(weights, longitudes) / longitudes)

    def on_grid(self, name, y):
        """Three matrices with silu between them at points, with harmonics of mean square 1 / 4 pi."""
        values, weights = self.grid()
        h = torch.einsum("pm,amc->apc", values, y) / np.sqrt(4 * np.pi)
        for n in (0, 2, 4):
            h = (h if n == 0 else self.silu(h)) @ self.p[f"{name}.{n}.weight"].T
        return torch.einsum("p,pm,apc->amc", weights, values, h) * np.sqrt(4 * np.pi)

    def envelope(self, r):
        t, power = r / self.cutoff, ENVELOPE_POWER
        return (
            1
            - (power + 1) * (power + 2) / 2 * t**power
            + power * (power + 2) * t ** (power + 1)
            - power * (power + 1) / 2 * t ** (power + 2)
        )

    def basis(self, r):
        """[E, functions]"""
        cutoff, t = self.cutoff, (r / self.cutoff)[:, None]
        if self.options["distance_function"] == "bessel":
            return self.envelope(r)[:, None] * np.sqrt(2 / cutoff**3) / t * torch.sin(self.p["distance_expansion.rbf.frequencies"] * t)
        centers = torch.linspace(0, cutoff, self.options["num_distance_basis"], dtype=torch.float64)
        return torch.exp(-((r[:, None] - centers) ** 2) / (2 * (2 * (centers[1] - centers[0])) ** 2))

    def scalars(self, numbers):
        """The first features of atoms."""
        return self.p["sphere_embedding.weight"][numbers] + self.system

    def readout(self, h, numbers):
        head = f"{self.checkpoint.head}.energy_block"
        for k in (0, 2):
            h = self.silu(self.dense(f"{head}.{k}", h))
        return self.checkpoint.rmsd * self.dense(f"{head}.4", h)[:, 0] + torch.tensor(self.checkpoint.references)[numbers]

    def energy(self, numbers, i, j, vectors):
        p, L = self.p, self.lmax
        if self.num_experts:
            self.mixture = self.coefficients(numbers)
        r = vectors.norm(dim=1)
        n, envelope, basis = vectors / r[:, None], self.envelope(r), self.basis(r)
        inputs = torch.cat([basis, p["source_embedding.weight"][numbers[j]], p["target_embedding.weight"][numbers[i]]], 1)
        x = torch.zeros(len(numbers), (L + 1) ** 2, self.C, dtype=torch.float64)
        x[:, 0] = self.scalars(numbers)
        d = self.rotations(n)
        weights = self.radial("edge_degree_embedding", inputs).reshape(len(r), L + 1, self.C)
        degrees = torch.cat([d[l][:, l, :, None] * weights[:, l, None] for l in range(L + 1)], 1)
        x = x.index_add(0, i, envelope[:, None, None] * degrees / self.degrees)
        for b in range(self.options["num_layers"]):
            name = f"blocks.{b}"
            y = self.norm(f"{name}.norm_1", x)
            y = torch.cat([y[:, :1] + self.system, y[:, 1:]], 1)
            x = x.index_add(0, i, envelope[:, None, None] * self.messages(f"{name}.edge_wise", y, i, j, d, inputs))
            y, name = self.norm(f"{name}.norm_2", x), f"{name}.atom_wise"
            x = x + (self.on_grid(f"{name}.grid_mlp", y) if self.options["ff_type"] == "grid" else self.spectral(name, y))
            for key, total in (("charge_balanced_channels", self.charge), ("spin_balanced_channels", self.spin - 1)):
                channels = self.options.get(key) or []
                x = x.clone()
                x[:, 0, channels] = x[:, 0, channels] - (x[:, 0, channels].sum(0) - total) / len(x)
        return self.readout(self.norm("norm", x)[:, 0], numbers)
