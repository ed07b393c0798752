# SPDX-License-Identifier: MIT
"""torch.ops.equi: values and derivatives compared with e3nn and finite differences, and Torch's requirements of
operators."""

import itertools

import pytest
import torch
from e3nn import o3
from equi_tools.errors import EquiError
from equi_torch import Convolution, convolution
from equi_torch.convolution import DEVICES

# Sums of some hundred products in float64 and float32, relative to the largest number.
ROUNDING = {torch.float64: 1e-13, torch.float32: 1e-5}


@pytest.fixture(autouse=True, params=[d for d in DEVICES if d == "cpu" or torch.cuda.is_available()])
def device(request):
    """Runs every test on all devices that the library was built for and the machine has."""
    global DEVICE
    DEVICE = request.param


def instructions_of(irreps_in, irreps_edge, lmax):
    """(irreps_out, instructions) of all paths that parity and lmax allow, outputs sorted as the frameworks do."""
    out, instructions = [], []
    for i, (mul, ir_in) in enumerate(irreps_in):
        for k, (_, ir_edge) in enumerate(irreps_edge):
            for ir_out in ir_in * ir_edge:
                if ir_out.l <= lmax:
                    instructions.append((i, k, len(out), "uvu", True))
                    out.append((mul, ir_out))
    irreps_out, p, _ = o3.Irreps(out).sort()
    return irreps_out, [(i, k, p[o], mode, weight) for i, k, o, mode, weight in instructions]


def problem(irreps_in, irreps_edge, lmax, edges, nodes, dtype=torch.float64, seed=1, **options):
    """(e3nn's product, x, y, w, senders, receivers): random numbers, edges in no order."""
    generator = torch.Generator().manual_seed(seed)
    irreps_in, irreps_edge = o3.Irreps(irreps_in), o3.Irreps(irreps_edge)
    irreps_out, instructions = instructions_of(irreps_in, irreps_edge, lmax)
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # of e3nn's couplings
    product = o3.TensorProduct(
        irreps_in, irreps_edge, irreps_out, instructions, shared_weights=False, internal_weights=False, **options
    )
    torch.set_default_dtype(default)
    numbers = [
        torch.randn(*shape, dtype=dtype, generator=generator).to(DEVICE).requires_grad_()
        for shape in ((nodes, irreps_in.dim), (edges, irreps_edge.dim), (edges, product.weight_numel))
    ]
    indices = [torch.randint(nodes, (edges,), generator=generator).to(DEVICE) for _ in range(2)]
    return product.to(DEVICE), *numbers, *indices


def by_e3nn(product, x, y, w, senders, receivers, nodes=None):
    nodes = x.shape[0] if nodes is None else nodes
    return x.new_zeros(nodes, product.irreps_out.dim).index_add(0, receivers, product(x[senders], y, w))


def assert_near(found, expected, relative):
    assert found.shape == expected.shape and found.dtype == expected.dtype
    if expected.numel():
        assert torch.isfinite(found).all()
        assert (found - expected).abs().max() <= relative * max(expected.abs().max(), 1e-30)


# Multiplicities around the padding of 16 channels; orders with generated kernels and without.
SHAPES = {
    "sevennet": ("32x0e+16x1e+16x2e", "1x0e+1x1e+1x2e", 2),
    "odd": ("13x0e+5x1o+33x1e+1x2e", "1x0e+1x1o+1x2e", 2),
    "l3": ("33x0e+5x1o+3x2e+1x3o", "1x0e+1x1o+1x2e+1x3o", 3),
    "l4": ("5x0e+3x4e+1x2e", "1x0e+1x1o+1x2e+1x3o+1x4e", 4),
    "first_layer": ("33x0e", "1x0e+1x1o+1x2e+1x3o", 3),
    "last_layer": ("13x0e+5x1e+33x2e", "1x0e+1x1e+1x2e", 0),
    "orders_in_another_order": ("5x1o+2x0e", "1x2e+1x0e+1x1o", 2),
    "a_missing_order": ("5x1o+2x0e", "1x2e", 2),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_derivatives_to_second_order_are_those_of_e3nn(shape, dtype):
    product, *arguments = problem(*SHAPES[shape], edges=150, nodes=11, dtype=dtype)
    module = Convolution.from_tensor_product(product)
    x, y, w = arguments[:3]
    answers = []
    for function in (module, lambda *a: by_e3nn(product, *a)):
        torch.manual_seed(3)
        out = function(*arguments)
        g = torch.randn_like(out).requires_grad_()
        first = torch.autograd.grad(out, (x, y, w), g, create_graph=True)
        # A loss of the first derivatives and the value together, like one of energies and forces.
        loss = sum((torch.randn_like(v) * v).sum() for v in (*first, out))
        answers.append([out, *first, *torch.autograd.grad(loss, (g, x, y, w))])
    for found, expected in zip(*answers):
        assert_near(found, expected, ROUNDING[dtype])


@pytest.mark.parametrize(
    "edges, nodes, num_nodes", [(0, 3, 3), (0, 1, 0), (5, 1, 1), (1, 2, 7), (90, 40, 3), (200, 3, 3)]
)
def test_no_edges_one_node_and_other_numbers_of_receivers(edges, nodes, num_nodes):
    product, x, y, w, senders, receivers = problem(*SHAPES["odd"], edges=edges, nodes=nodes)
    receivers %= max(1, num_nodes)
    module = Convolution.from_tensor_product(product)
    found, expected = module(x, y, w, senders, receivers, num_nodes), by_e3nn(product, x, y, w, senders, receivers, num_nodes)
    assert_near(found, expected, ROUNDING[torch.float64])
    g = torch.randn_like(found).requires_grad_()
    firsts = [torch.autograd.grad(v, (x, y, w), g, create_graph=True) for v in (found, expected)]
    seconds = [torch.autograd.grad(sum(v.square().sum() for v in first), (g, x, y, w)) for first in firsts]
    for a, b in zip(firsts[0] + seconds[0], firsts[1] + seconds[1]):
        assert_near(a, b, ROUNDING[torch.float64])


@pytest.mark.parametrize("shape", ["5x0e+13x1o", "3x0e+2x1o+1x2e", "1x4e"])
@pytest.mark.parametrize("edges, nodes", [(4, 3), (0, 2), (2, 1)])
def test_gradcheck_and_gradgradcheck(shape, edges, nodes):
    lmax = 4 if "4" in shape else 1
    product, *arguments = problem(shape, "1x0e+1x1o+1x2e+1x3o+1x4e" if lmax == 4 else "1x0e+1x1o", lmax, edges, nodes)
    module = Convolution.from_tensor_product(product)
    assert torch.autograd.gradcheck(module, arguments, fast_mode=True)
    assert torch.autograd.gradgradcheck(module, arguments, fast_mode=True)


@pytest.mark.parametrize("multiplicity", [5, 13, 33])
def test_gradcheck_of_all_numbers(multiplicity):
    product, *arguments = problem(f"{multiplicity}x1o", "1x0e+1x1o", 1, 2, 2)
    module = Convolution.from_tensor_product(product)
    assert torch.autograd.gradcheck(module, arguments)
    if multiplicity == 5:
        assert torch.autograd.gradgradcheck(module, arguments)


def test_unneeded_derivatives():
    product, x, y, w, senders, receivers = problem(*SHAPES["odd"], edges=40, nodes=7)
    module = Convolution.from_tensor_product(product)
    for wanted in itertools.product([False, True], repeat=3):
        if not any(wanted):
            continue
        leaves = [t.detach().requires_grad_(want) for t, want in zip((x, y, w), wanted)]
        needed = [t for t in leaves if t.requires_grad]
        answers = []
        for function in (module, lambda *a: by_e3nn(product, *a)):
            first = torch.autograd.grad(function(*leaves, senders, receivers).square().sum(), needed, create_graph=True)
            answers.append([*first, *torch.autograd.grad(first[0].square().sum(), needed, allow_unused=True)])
        for found, expected in zip(*answers):
            assert_near(found, expected, ROUNDING[torch.float64])


def test_results_do_not_depend_on_layout_in_memory_or_type_of_indices():
    product, x, y, w, senders, receivers = problem(*SHAPES["odd"], edges=40, nodes=7)
    module = Convolution.from_tensor_product(product)
    expected = module(x, y, w, senders, receivers)
    transposed = [t.detach().t().contiguous().t() for t in (x, y, w)]
    assert not transposed[0].is_contiguous()
    assert torch.equal(module(*transposed, senders.int(), receivers.int()), expected)
    assert torch.equal(module(*(t.detach() for t in (x, y, w)), senders, receivers), expected)


def test_threads_change_rounding_alone():
    product, *arguments = problem(*SHAPES["sevennet"], edges=300, nodes=20)
    module = Convolution.from_tensor_product(product)
    threads = torch.get_num_threads()
    answers = []
    for n in (1, 2, 3):
        torch.set_num_threads(n)
        out = module(*arguments)
        answers.append([out, *torch.autograd.grad(out.square().sum(), arguments[:3])])
    torch.set_num_threads(threads)
    for answer in answers[1:]:
        for found, expected in zip(answer, answers[0]):
            assert_near(found, expected, ROUNDING[torch.float64])


def test_repeats_give_the_same_bits():
    product, *arguments = problem(*SHAPES["odd"], edges=300, nodes=20)
    module = Convolution.from_tensor_product(product)
    answers = []
    for _ in range(2):
        out = module(*arguments)
        first = torch.autograd.grad(out.square().sum(), arguments[:3], create_graph=True)
        second = torch.autograd.grad(sum(v.square().sum() for v in first), arguments[:3])
        answers.append([out, *first, *second])
    for a, b in zip(*answers):
        assert torch.equal(a, b)


@pytest.mark.parametrize("path_normalization", ["element", "path", "none"])
@pytest.mark.parametrize("irrep_normalization", ["component", "norm", "none"])
def test_the_module_takes_e3nns_arguments(irrep_normalization, path_normalization):
    options = dict(irrep_normalization=irrep_normalization, path_normalization=path_normalization)
    product, *arguments = problem(*SHAPES["odd"], edges=30, nodes=5, **options)
    instructions = [(i.i_in1, i.i_in2, i.i_out, "uvu", True) for i in product.instructions]
    module = Convolution(product.irreps_in1, product.irreps_in2, product.irreps_out, instructions, **options)
    assert module.weight_numel == product.weight_numel
    assert_near(module(*arguments), by_e3nn(product, *arguments), ROUNDING[torch.float64])


def test_path_weights():
    instructions = [(0, 0, 0, "uvu", True, 2.5), (0, 1, 1, "uvu", True, 0.3)]
    arguments = ("5x0e", "1x0e+1x1o", "5x0e+5x1o", instructions)
    product = o3.TensorProduct(*arguments, shared_weights=False, internal_weights=False).double().to(DEVICE)
    numbers = [torch.randn(*shape).double().to(DEVICE) for shape in ((3, 5), (9, 4), (9, 10))]
    edges = torch.randint(3, (2, 9)).to(DEVICE)
    assert_near(Convolution(*arguments)(*numbers, *edges), by_e3nn(product, *numbers, *edges), 1e-6)


def test_a_third_derivative_is_refused():
    product, *arguments = problem("5x0e", "1x0e+1x1o", 1, 3, 2)
    x = arguments[0]
    out = Convolution.from_tensor_product(product)(*arguments)
    first = torch.autograd.grad(out.pow(3).sum(), x, create_graph=True)[0]
    second = torch.autograd.grad(first.pow(2).sum(), x, create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="a third was asked for"):
        second.sum().backward()


@pytest.mark.parametrize("derivative", range(3))
def test_opcheck(derivative):
    product, x, y, w, senders, receivers = problem(*SHAPES["odd"], edges=20, nodes=5)
    module = Convolution.from_tensor_product(product)
    g = torch.randn(5, product.irreps_out.dim, dtype=x.dtype, device=DEVICE, requires_grad=True)
    common = (x, y, w, senders, receivers)
    tangents = [torch.randn_like(t) for t in (x, y, w)]
    op, arguments = [
        (torch.ops.equi.convolution, (*common, 5, module.product)),
        (torch.ops.equi.convolution_backward, (g, *common, module.product)),
        (torch.ops.equi.convolution_double_backward, (*tangents, g, *common, module.product)),
    ][derivative]
    # The double backward has no gradient to trace.
    tests = ["test_schema", "test_autograd_registration", "test_faketensor"] + ["test_aot_dispatch_dynamic"] * (derivative < 2)
    result = torch.library.opcheck(op, arguments, test_utils=tests)
    assert set(result.values()) == {"SUCCESS"}


def test_compile_and_export():
    product, *arguments = problem(*SHAPES["odd"], edges=20, nodes=5)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = Convolution.from_tensor_product(product)

        def forward(self, x, y, w, senders, receivers):
            return torch.tanh(self.convolution(x.sin(), y, w, senders, receivers))

    layer = Layer()
    expected = layer(*arguments)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    found = compiled(*arguments)
    assert_near(found, expected, ROUNDING[torch.float64])
    for a, b in zip(*(torch.autograd.grad(v.square().sum(), arguments[:3]) for v in (found, expected))):
        assert_near(a, b, ROUNDING[torch.float64])
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes = ({0: nodes}, {0: edges}, {0: edges}, {0: edges}, {0: edges})
    inputs = tuple(t.detach() for t in arguments)
    exported = torch.export.export(layer, inputs, dynamic_shapes=shapes).module()
    assert_near(exported(*inputs), expected.detach(), ROUNDING[torch.float64])
    _, *others = problem(*SHAPES["odd"], edges=33, nodes=8, seed=2)
    others = [t.detach() for t in others]
    assert_near(exported(*others), layer(*others), ROUNDING[torch.float64])


def test_shapes_without_numbers():
    product, x, y, w, senders, receivers = (
        t.to("meta") if isinstance(t, torch.Tensor) else t for t in problem(*SHAPES["odd"], edges=20, nodes=5)
    )
    module = Convolution.from_tensor_product(product)
    out = module(x, y, w, senders, receivers, 9)
    assert out.shape == (9, product.irreps_out.dim) and out.device.type == "meta"
    g = torch.empty_like(out)
    assert [t.shape for t in torch.ops.equi.convolution_backward(g, x, y, w, senders, receivers, module.product)] == [
        x.shape, y.shape, w.shape,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="y: expected 20 rows, found 19"):
        module(x, y[1:], w, senders, receivers)


@pytest.mark.parametrize(
    "change, kind, words",
    [
        (dict(x=lambda t: t[:, 1:]), ValueError, "x: expected 132 columns, found 131"),
        (dict(y=lambda t: t[1:]), ValueError, "y: expected 20 rows, found 19"),
        (dict(w=lambda t: t[:, 1:]), ValueError, "w: expected .* columns"),
        (dict(w=lambda t: t[0]), ValueError, "w: expected a matrix"),
        (dict(y=lambda t: t.float()), TypeError, "y: expected Double as in x, found Float"),
        (dict(x=lambda t: t.half()), TypeError, "x: expected float32 or float64"),
        (dict(senders=lambda t: t[1:]), ValueError, "receivers: expected 19 as senders"),
        (dict(senders=lambda t: t.double()), TypeError, "senders: expected integers"),
        (dict(receivers=lambda t: t + 4), IndexError, "expected a receiver from 0 to 4"),
        (dict(senders=lambda t: t - 5), IndexError, "expected a sender from 0 to 4"),
        (dict(y=lambda t: t.to("meta")), ValueError, "y: expected .* as x, found meta"),
        (dict(senders=lambda t: t.to("meta")), ValueError, "senders: expected .* as x, found meta"),
    ],
)
def test_wrong_inputs_are_named(change, kind, words):
    product, *arguments = problem(*SHAPES["odd"], edges=20, nodes=5)
    named = dict(zip(("x", "y", "w", "senders", "receivers"), arguments))
    for name, function in change.items():
        named[name] = function(named[name])
    with pytest.raises(kind, match=words):
        Convolution.from_tensor_product(product)(**named)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("5x0e", "1x0e", "7x0e", [(0, 0, 0, "uvw", True)]), "expected the connection uvu, found uvw"),
        (("5x0e", "1x0e", "5x0e", [(0, 0, 0, "uvu", False)]), "expected a weight"),
        (("5x0e+5x1o", "1x0e+1x1o", "5x0e", [(0, 0, 0, "uvu", True), (1, 1, 0, "uvu", True)]), "belongs to an earlier path"),
        (("5x0e", "1x0e+1x1o+1x1e", "5x0e", [(0, 0, 0, "uvu", True)]), "expected each order once"),
        (("5x0e", "2x0e", "5x0e", [(0, 0, 0, "uvu", True)]), "with one channel"),
        (("5x0e", "1x0e", "5x0e+3x1o", [(0, 0, 0, "uvu", True)]), "none for block 1"),
    ],
)  # fmt: skip
def test_unknown_instructions_are_named(arguments, words):
    with pytest.raises((EquiError, ValueError), match=words):
        Convolution(*arguments)


def test_weights_that_all_edges_share_are_refused():
    product = o3.TensorProduct("5x0e", "1x0e", "5x0e", [(0, 0, 0, "uvu", True)])
    with pytest.raises(EquiError, match="weights for each edge"):
        Convolution.from_tensor_product(product)


@pytest.mark.parametrize("text", ["", "5x0e;1x0e;5x0e", "5x0e;1x0e;5x0e;0 0", "5x0e;1x0e;5x0e;0 3 0 1.0", "5y;1x0e;5x0e;0 0 0 1"])
def test_a_text_that_states_no_product_is_refused(text):
    edges = torch.zeros(0, dtype=torch.int64, device=DEVICE)
    numbers = (torch.zeros(*shape, device=DEVICE) for shape in ((2, 5), (0, 1), (0, 5)))
    with pytest.raises(ValueError, match="equi: "):
        convolution(*numbers, edges, edges, 2, text)
