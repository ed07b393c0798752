# SPDX-License-Identifier: MIT
"""torch.ops.equi.gaunt_product: values compared with means over the sphere and e3nn's grid, derivatives, refusals."""

import math

import numpy as np
import pytest
import torch
from e3nn import o3
from equi_tools.errors import EquiError
from equi_torch import gaunt_product

# Sums of up to some thousand products in float64 and float32, relative to the largest number.
ROUNDING = {torch.float64: 1e-13, torch.float32: 1e-5}
ORDERS = [(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 3), (1, 3, 2), (4, 2, 6), (2, 5, 0), (1, 1, 4), (6, 6, 6), (8, 8, 8)]


def rows(l, *sizes, dtype=torch.float64, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*sizes, (l + 1) ** 2, dtype=dtype, generator=generator)


def by_quadrature(x1, x2, lmax_out):
    """Gauss's nodes along the polar axis y times equal angles, exact for these orders, with e3nn's harmonics."""
    l1, l2 = math.isqrt(x1.shape[-1]) - 1, math.isqrt(x2.shape[-1]) - 1
    degree = l1 + l2 + lmax_out
    y, weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
    angles = 2 * np.pi * np.arange(degree + 1) / (degree + 1)
    y, angles = np.meshgrid(y, angles, indexing="ij")
    r = np.sqrt(1 - y**2)
    points = torch.tensor(np.stack([r * np.sin(angles), y, r * np.cos(angles)], -1)).reshape(-1, 3)
    weights = torch.tensor(np.repeat(weights, degree + 1) / (2 * (degree + 1)))
    harmonics = [o3.spherical_harmonics(list(range(l + 1)), points, False, "component") for l in (l1, l2, lmax_out)]
    return ((x1.double() @ harmonics[0].T) * (x2.double() @ harmonics[1].T) * weights) @ harmonics[2]


def assert_near(found, expected, relative):
    assert found.shape == expected.shape
    assert torch.isfinite(found).all()
    assert (found - expected).abs().max() <= relative * max(expected.abs().max(), 1e-30)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("orders", ORDERS)
def test_values_are_means_over_the_sphere(orders, dtype):
    l1, l2, l3 = orders
    for count in (1, 5, 13, 33, 150):  # around the tiles of 16 rows and the chunks of 8 tiles
        x1, x2 = rows(l1, count, dtype=dtype), rows(l2, count, dtype=dtype, seed=2)
        found = torch.ops.equi.gaunt_product(x1, x2, l3)
        assert found.dtype == dtype
        assert_near(found.double(), by_quadrature(x1, x2, l3), ROUNDING[dtype])


def test_values_are_those_of_e3nns_grid():
    l1, l2, l3 = 2, 3, 4
    x1, x2 = rows(l1, 7), rows(l2, 7, seed=2)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    to1, to2 = (o3.ToS2Grid(l, (20, 19), normalization="integral") for l in (l1, l2))
    back = o3.FromS2Grid((20, 19), l3, normalization="integral", lmax_in=9)
    torch.set_default_dtype(default)
    # Harmonics whose square has the integral 1 instead of the mean 1.
    assert_near(gaunt_product(x1, x2, l3), back(to1(x1) * to2(x2)) * math.sqrt(4 * math.pi), 1e-12)


@pytest.mark.parametrize("orders", [(0, 0, 0), (1, 1, 2), (2, 1, 1), (3, 3, 3), (1, 4, 3)])
def test_gradcheck_and_gradgradcheck(orders):
    l1, l2, l3 = orders
    x1, x2 = rows(l1, 3).requires_grad_(), rows(l2, 3, seed=2).requires_grad_()

    def product(a, b):
        return torch.ops.equi.gaunt_product(a, b, l3)

    assert torch.autograd.gradcheck(product, (x1, x2))
    assert torch.autograd.gradgradcheck(product, (x1, x2))
    # A square, and a loss of first derivatives through it.
    assert torch.autograd.gradgradcheck(lambda a: product(a, product(a, b=x2) if l3 == l1 else a), (x1,))


def test_third_derivatives_exist():
    x = rows(2, 2).requires_grad_()
    value = gaunt_product(gaunt_product(x, x, 4), x, 0).sum()
    for _ in range(3):
        (gradient,) = torch.autograd.grad(value, x, create_graph=True)
        value = gradient.sum()
    # The mean of F^3 along ones, three times: 3! times the mean of the third power of that function.
    ones = torch.ones(2, 9, dtype=torch.float64)
    assert_near(value.detach(), 6 * by_quadrature(by_quadrature(ones, ones, 4), ones, 0).sum(), 1e-13)


def test_rotations_rotate():
    rotation = o3.rand_matrix().double()
    x1, x2 = rows(3, 13), rows(2, 13, seed=2)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    d1, d2, d3 = (o3.Irreps.spherical_harmonics(l).D_from_matrix(rotation) for l in (3, 2, 4))
    torch.set_default_dtype(default)
    assert_near(gaunt_product(x1 @ d1.T, x2 @ d2.T, 4), gaunt_product(x1, x2, 4) @ d3.T, 1e-12)


def test_layouts_broadcasting_and_unneeded_derivatives():
    x1, x2 = rows(2, 5, 3), rows(1, 3, 5, seed=2)
    expected = by_quadrature(x1.reshape(15, 9), x2.transpose(0, 1).reshape(15, 4), 3).reshape(5, 3, 16)
    assert_near(gaunt_product(x1, x2.transpose(0, 1), 3), expected, 1e-13)
    assert_near(gaunt_product(x1, x2[0, 0], 3), by_quadrature(x1, x2[:1, :1].expand(5, 3, 4), 3), 1e-13)
    assert gaunt_product(rows(2, 0), rows(2, 0), 2).shape == (0, 9)
    assert gaunt_product(rows(2), rows(2), 1).shape == (4,)
    one = x1.clone().requires_grad_()
    gaunt_product(one, x2[0, 0], 3).square().sum().backward()
    assert torch.isfinite(one.grad).all()


def test_threads_change_nothing():
    x1, x2 = rows(3, 1000), rows(3, 1000, seed=2)
    threads = torch.get_num_threads()
    answers = []
    for count in (1, 3):
        torch.set_num_threads(count)
        answers.append(gaunt_product(x1, x2, 3))
    torch.set_num_threads(threads)
    assert torch.equal(*answers)


def test_opcheck_and_compile():
    x1, x2 = rows(2, 7).requires_grad_(), rows(1, 7, seed=2).requires_grad_()
    result = torch.library.opcheck(torch.ops.equi.gaunt_product.default, (x1, x2, 2))
    assert set(result.values()) == {"SUCCESS"}
    compiled = torch.compile(lambda a, b: gaunt_product(a, b, 2) * 2, fullgraph=True, backend="aot_eager")
    assert_near(compiled(x1, x2), 2 * gaunt_product(x1, x2, 2), 0.0)


@pytest.mark.parametrize(
    "x1, x2, lmax, kind, words",
    [
        ((3, 4), (3, 5), 1, ValueError, "x2: expected rows of"),
        ((3, 100), (3, 4), 1, ValueError, "l up to 8, found 100"),
        ((3, 4), (4, 4), 1, ValueError, "x2: expected size 3 of dimension 0"),
        ((3, 4), (1, 3, 4), 1, ValueError, "x2: expected 2 dimensions"),
        ((), (3, 4), 1, ValueError, "x1: expected rows of coefficients"),
        ((3, 4), (3, 4), -1, ValueError, "lmax_out: expected 0 to 8, found -1"),
        ((3, 4), (3, 4), 9, ValueError, "lmax_out: expected 0 to 8, found 9"),
    ],
)
def test_wrong_inputs_are_named(x1, x2, lmax, kind, words):
    with pytest.raises(kind, match=words):
        torch.ops.equi.gaunt_product(torch.zeros(x1), torch.zeros(x2), lmax)


def test_wrong_types_and_devices_are_named():
    with pytest.raises(TypeError, match="x1: expected float32 or float64"):
        gaunt_product(torch.zeros(3, 4, dtype=torch.int64), torch.zeros(3, 4), 1)
    with pytest.raises(TypeError, match="x2: expected Float"):
        gaunt_product(torch.zeros(3, 4), torch.zeros(3, 4, dtype=torch.float64), 1)
    if torch.cuda.is_available():
        with pytest.raises(EquiError, match="on the CPU"):
            gaunt_product(torch.zeros(3, 4, device="cuda"), torch.zeros(3, 4, device="cuda"), 1)
