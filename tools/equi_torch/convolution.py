# SPDX-License-Identifier: MIT
"""The operators' library, and the module over it."""

import os
from pathlib import Path

import torch
from equi_tools.errors import EquiError
from equi_tools.frameworks.common.e3nn_layers import sign_of_coupling

_LIBRARY = "libequi_torch_ops.so"


def _load_library():
    folders = [Path(__file__).resolve().parent, Path(os.environ.get("EQUI_BUILD_DIR", "build")) / "lib"]
    for folder in folders:
        if (folder / _LIBRARY).is_file():
            try:
                torch.ops.load_library(folder / _LIBRARY)
            except OSError as error:
                reason = error.__cause__ or error
                raise EquiError(f"{folder / _LIBRARY} cannot be loaded with Torch {torch.__version__}: {reason}") from None
            return
    raise EquiError(
        f"{_LIBRARY} is missing in {folders[0]} and {folders[1]}: build it, and name the build folder in EQUI_BUILD_DIR"
    )


_load_library()

# Devices for which the library has the operators; CUDA only in a build for it.
DEVICES = ["cpu"] + ["cuda"] * torch._C._dispatch_has_kernel_for_dispatch_key("equi::convolution", "CUDA")


def convolution(x, y, w, senders, receivers, num_nodes, product):
    """torch.ops.equi.convolution: x [nodes, irreps_in], y [edges, irreps_edge], w [edges, weights], senders and
    receivers [edges] -> [num_nodes, irreps_out]; `product` as Convolution.product."""
    if x.device.type not in (*DEVICES, "meta"):
        raise EquiError(f"{_LIBRARY} was built for {' and '.join(DEVICES)}, and x is on {x.device}")
    return torch.ops.equi.convolution(x, y, w, senders, receivers, num_nodes, product)


def product_of(tensor_product):
    """The text that describes the irreps and instructions of an e3nn TensorProduct to the operators."""
    from e3nn import o3

    irreps_in, irreps_edge, irreps_out = (
        o3.Irreps(irreps) for irreps in (tensor_product.irreps_in1, tensor_product.irreps_in2, tensor_product.irreps_out)
    )
    instructions = []
    for number, i in enumerate(tensor_product.instructions):
        where = f"instruction {number} ({irreps_in[i.i_in1]} x {irreps_edge[i.i_in2]} -> {irreps_out[i.i_out]})"
        if i.connection_mode != "uvu":
            raise EquiError(f"{where}: expected the connection uvu, found {i.connection_mode}")
        if not i.has_weight:
            raise EquiError(f"{where}: expected a weight, found a path without")
        orders = [irreps[k].ir.l for irreps, k in ((irreps_in, i.i_in1), (irreps_edge, i.i_in2), (irreps_out, i.i_out))]
        sign = sign_of_coupling(o3.wigner_3j(*orders, dtype=torch.float64).numpy(), *orders, where)
        instructions.append(f"{i.i_in1} {i.i_in2} {i.i_out} {sign * float(i.path_weight)!r}")
    if tensor_product.shared_weights or tensor_product.internal_weights:
        raise EquiError("expected weights for each edge (shared_weights and internal_weights False)")
    return f"{irreps_in};{irreps_edge};{irreps_out};{','.join(instructions)}"


class Convolution(torch.nn.Module):
    """Like e3nn's TensorProduct of the same arguments with shared_weights=False: multiplies the features of senders
    and the harmonics of the edges, and sums over the edges of each receiver.

    Connections are uvu, each instruction has its own output block, and the harmonics have one channel per order.
    """

    def __init__(self, irreps_in1, irreps_in2, irreps_out, instructions, **options):
        super().__init__()
        from e3nn import o3

        options = {"shared_weights": False, "internal_weights": False, **options}
        # e3nn's checks and its normalization, without its code.
        self._set(o3.TensorProduct(irreps_in1, irreps_in2, irreps_out, instructions, compile_left_right=False, **options))

    @classmethod
    def from_tensor_product(cls, tensor_product):
        """The convolution for an existing e3nn TensorProduct."""
        self = cls.__new__(cls)
        torch.nn.Module.__init__(self)
        self._set(tensor_product)
        return self

    def _set(self, tensor_product):
        self.irreps_in1, self.irreps_in2 = tensor_product.irreps_in1, tensor_product.irreps_in2
        self.irreps_out = tensor_product.irreps_out
        self.instructions = tensor_product.instructions
        self.weight_numel = tensor_product.weight_numel
        self.product = product_of(tensor_product)
        # The operators report now what they do not support.
        edges = torch.empty(0, dtype=torch.int64, device="meta")
        widths = self.irreps_in1.dim, self.irreps_in2.dim, self.weight_numel
        numbers = (torch.empty(0, n, dtype=torch.float32, device="meta") for n in widths)
        convolution(*numbers, edges, edges, 0, self.product)

    def forward(self, x, y, w, senders, receivers, num_nodes=None):
        """x [nodes, irreps_in1], y [edges, irreps_in2], w [edges, weight_numel], senders and receivers [edges] ->
        [num_nodes, irreps_out]; num_nodes is by default the number of nodes of x."""
        return convolution(x, y, w, senders, receivers, x.shape[0] if num_nodes is None else num_nodes, self.product)

    def extra_repr(self):
        return f"{self.irreps_in1} x {self.irreps_in2} -> {self.irreps_out} | {self.weight_numel} weights"
