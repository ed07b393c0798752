# SPDX-License-Identifier: MIT
"""Weights of a SevenNet .equi file as the start of a training (train.py --start).

Paths of a convolution are found by their orders. A file without parity therefore also starts a model with parity, which
lacks the paths that distinguish mirror images.
"""

import numpy as np
import torch
from equi_tools import equi_file
from equi_tools.errors import EquiError


def orders(irreps):
    """Orders of the blocks of irreps as text, such as 32x0e+32x1o."""
    return [int(block.split("x")[1][:-1]) for block in irreps.split("+")]


def path_orders(convolution):
    """(order of the sender, of the edge, of the result) of each path, in the order of the file."""
    inner, outer = orders(convolution["irreps_in"]), orders(convolution["irreps_out"])
    return [(inner[path["in"]], path["l"], outer[path["out"]]) for path in convolution["paths"]]


class Source:
    """Numbers of a file by what they act on; EquiError where the file has none."""

    def __init__(self, path):
        self.path = path
        self.document, self.tensors = equi_file.read(equi_file.find(path))
        if self.document["architecture"] != "SevenNet":
            raise EquiError(f"--start {path}: it is of the architecture {self.document['architecture']}, not SevenNet")
        layers = self.document["layers"]
        self.convolutions = [layer for layer in layers if layer["type"] == "convolution"]
        self.scales = {block["weight"]: block["scale"] for layer in layers if layer["type"] == "linear" for block in layer["blocks"]}

    def tensor(self, name, shape):
        found = self.tensors.get(name)
        if found is None or found.shape != tuple(shape):
            has = "nothing of this name" if found is None else "x".join(map(str, found.shape))
            raise EquiError(f"--start {self.path}: {name}: the model needs {'x'.join(map(str, shape))}, the file has {has}: "
                            "give the file's own layers, channels, lmax and width")  # fmt: skip
        return found

    def matrix(self, name, shape):
        """A matrix of a linear layer with its scale, in float64."""
        return self.tensor(name, shape).astype(np.float64) * self.scales[name]


def copy_linear(source, name, linear, pieces):
    """Fills an IrrepsLinear. pieces: for each of its input blocks the rows' blocks in the file, one after another."""
    parts = []
    for instruction in linear.instructions:
        rows, columns = instruction.path_shape
        blocks = pieces[instruction.i_in]
        shape = (rows // len(blocks), columns)
        found = [source.matrix(f"{name}.weight.{block}.{linear.irreps_out[instruction.i_out].ir.l}", shape) for block in blocks]
        parts.append((np.concatenate(found) / instruction.path_weight).ravel())
    linear.weight.data[:] = torch.from_numpy(np.concatenate(parts))


def copy_convolution(source, convolution, name, stored, read):
    """Fills the radial network.

    read: irreps that the next layer reads from the result; other paths get zeros. Returns for each block of the result
    the number of its path in the file, or None.
    """
    network, product = convolution.weight_nn, convolution.convolution
    layers = [layer for layer in network if hasattr(layer, "weight")]
    for n, layer in enumerate(layers[:-1]):
        layer.weight.data[:] = torch.from_numpy(source.tensor(f"{name}.weight_nn.layer{n}", layer.weight.shape).copy())
    known, last = path_orders(stored), f"{name}.weight_nn.layer{len(layers) - 1}"
    columns = source.tensors[last].reshape(len(layers[-1].weight), len(known), -1)
    wanted = [(product.irreps_in1[i.i_in1].ir.l, product.irreps_in2[i.i_in2].ir.l, product.irreps_out[i.i_out].ir.l)
              for i in product.instructions]  # fmt: skip
    is_read = [product.irreps_out[i.i_out].ir in read for i in product.instructions]
    missing = [path for path, is_wanted in zip(wanted, is_read) if is_wanted and path not in known]
    if missing:
        raise EquiError(f"--start {source.path}: {name} has no path of the orders {missing[0]}: give the file's own lmax, "
                        "and no --no-parity if it has parity")  # fmt: skip
    numbers = [known.index(path) if is_wanted else None for path, is_wanted in zip(wanted, is_read)]
    chosen = np.zeros((len(columns), len(wanted), columns.shape[2]))
    for k, n in enumerate(numbers):
        if n is not None:
            scale = stored["paths"][n]["scale"] * float(convolution.denominator)
            chosen[:, k] = columns[:, n] * scale / (2 * wanted[k][2] + 1) ** 0.5
    layers[-1].weight.data[:] = torch.from_numpy(chosen.reshape(layers[-1].weight.shape))
    return numbers


def copy_weights(model, path, elements, cutoff):
    """Fills a model of sevenn with the numbers of an .equi file (path). elements: symbols in the model's order.

    cutoff: that of the model, Angstrom. Raises EquiError where elements, cutoff or shapes differ.
    """
    source = Source(path)
    if source.document["cutoff"] != cutoff:
        raise EquiError(f"--start {path}: its cutoff is {source.document['cutoff']:g}, the model's {cutoff:g}: add --cutoff")
    if source.document["elements"] != elements:
        raise EquiError(f"--start {path}: its elements are {' '.join(source.document['elements'])}, those of the data {' '.join(elements)}")
    modules = model._modules
    count = sum(name.endswith("_convolution") for name in modules)
    if count != len(source.convolutions):
        raise EquiError(f"--start {path}: it has {len(source.convolutions)} layers, the model {count}")
    with torch.no_grad():
        coefficients = modules["edge_embedding"].basis_function.coeffs
        coefficients.data[:] = torch.from_numpy(source.tensor("edge_embedding.wave_numbers", coefficients.shape).copy())
        embedding = modules["onehot_to_feature_x"].linear
        factor = source.document["layers"][0]["scale"] / embedding.instructions[0].path_weight
        weight = source.tensor("onehot_to_feature_x.weight", embedding.instructions[0].path_shape)
        embedding.weight.data[:] = torch.from_numpy(weight.ravel() * factor)
        for t, stored in enumerate(source.convolutions):
            convolution = modules[f"{t}_convolution"]
            read = {ir for _, ir in modules[f"{t}_self_interaction_2"].linear.irreps_out}
            numbers = copy_convolution(source, convolution, f"{t}_convolution", stored, read)
            for part in ("self_connection_intro", "self_interaction_1"):
                linear = modules[f"{t}_{part}"].linear
                copy_linear(source, f"{t}_{part}", linear, [[block] for block in range(len(linear.irreps_in))])
            # Equal irreps of the convolution's result are one input block of the linear layer.
            linear, rest, pieces = modules[f"{t}_self_interaction_2"].linear, list(numbers), []
            multiplicity = convolution.convolution.irreps_out[0].mul
            for block in linear.irreps_in:
                pieces.append([rest.pop(0) for _ in range(block.mul // multiplicity)])
            copy_linear(source, f"{t}_self_interaction_2", linear, pieces)
        for name in ("reduce_input_to_hidden", "reduce_hidden_to_energy"):
            linear = modules[name].linear
            shape = linear.instructions[0].path_shape
            linear.weight.data[:] = torch.from_numpy(source.tensor(f"{name}.weight", shape).ravel().copy())
        for name in ("scale", "shift"):
            values = getattr(modules["rescale_atomic_energy"], name)
            found = source.tensors[f"rescale_atomic_energy.{name}"]
            values.data = values.data * 0 + torch.from_numpy(found.reshape(values.shape) if values.ndim else found.reshape(()).copy())
