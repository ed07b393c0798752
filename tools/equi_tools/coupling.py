# SPDX-License-Identifier: MIT
"""Exact coupling tensors in float64, in the convention of src/algebra/irreps.h and src/algebra/coupling.h."""

from fractions import Fraction
from functools import lru_cache
from math import factorial, sqrt

import numpy as np


def _clebsch_gordan(j1, m1, j2, m2, j3, m3):
    """Condon-Shortley <j1 m1 j2 m2 | j3 m3> by Racah's sum; rational arithmetic under one square root."""
    if m1 + m2 != m3 or not abs(j1 - j2) <= j3 <= j1 + j2:
        return 0.0
    f = factorial
    square = Fraction(
        (2 * j3 + 1)
        * f(j3 + j1 - j2)
        * f(j3 - j1 + j2)
        * f(j1 + j2 - j3)
        * f(j3 + m3)
        * f(j3 - m3)
        * f(j1 - m1)
        * f(j1 + m1)
        * f(j2 - m2)
        * f(j2 + m2),
        f(j1 + j2 + j3 + 1),
    )
    total = Fraction(0)
    for k in range(max(0, j2 - j3 - m1, j1 - j3 + m2), min(j1 + j2 - j3, j1 - m1, j2 + m2) + 1):
        total += Fraction(
            (-1) ** k,
            f(k) * f(j1 + j2 - j3 - k) * f(j1 - m1 - k) * f(j2 + m2 - k) * f(j3 - j2 + m1 + k) * f(j3 - j1 - m2 + k),
        )
    return (1 if total >= 0 else -1) * sqrt(square * total * total)


def _complex_from_real(l):
    a = np.zeros((2 * l + 1, 2 * l + 1), complex)
    a[l, l] = 1.0
    for m in range(1, l + 1):
        a[l - m, l + m] = 1 / sqrt(2)
        a[l - m, l - m] = -1j / sqrt(2)
        a[l + m, l + m] = (-1) ** m / sqrt(2)
        a[l + m, l - m] = 1j * (-1) ** m / sqrt(2)
    return (-1j) ** l * a


@lru_cache(maxsize=None)
def coupling(l1, l2, l3):
    """w(l1,l2,l3) of shape (2 l1+1, 2 l2+1, 2 l3+1) and Frobenius norm 1; read-only."""
    c = np.zeros((2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1))
    for m1 in range(-l1, l1 + 1):
        for m2 in range(-l2, l2 + 1):
            if abs(m1 + m2) <= l3:
                c[l1 + m1, l2 + m2, l3 + m1 + m2] = _clebsch_gordan(l1, m1, l2, m2, l3, m1 + m2)
    t = np.einsum("ijk,ia,jb,kc->abc", c, _complex_from_real(l1), _complex_from_real(l2), _complex_from_real(l3).conj())
    assert np.abs(t.imag).max() < 1e-12
    w = t.real / np.linalg.norm(t.real)
    w[np.abs(w) < 1e-14] = 0.0
    w.setflags(write=False)
    return w
