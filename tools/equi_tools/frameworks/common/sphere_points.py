# SPDX-License-Identifier: MIT
"""Points of the sphere with weights, and harmonics at them. Components are those with |m| <= mmax, l by l, normalized
to a mean square of 1 over the sphere; the polar axis is y."""

import numpy as np


def rescale(l, mmax):
    """The factor that compensates for the components of an order with |m| > mmax, which EquiformerV2 and V3 omit."""
    return float(np.sqrt((2 * l + 1) / (2 * mmax + 1))) if l > mmax else 1.0


def component_scales(lmax, mmax):
    """(rescale, norm) of each component of EquiformerV2 and V3. Values at points are multiplied by rescale / norm, and
    the way back by rescale norm, so functions of all orders have equal mean squares."""
    orders = np.concatenate([[l] * (2 * min(l, mmax) + 1) for l in range(lmax + 1)])
    return np.array([rescale(l, mmax) for l in orders]), np.sqrt((2 * orders + 1) * (lmax + 1))


def product_points(lmax, mmax):
    """(values of the harmonics [points, components], weights [points]). At these points products of two functions,
    times a third, have the mean that they have on the sphere."""
    nodes, weights = np.polynomial.legendre.leggauss((3 * lmax) // 2 + 1)
    count = 3 * mmax + 1
    return _harmonics(nodes, 2 * np.pi * np.arange(count) / count, lmax, mmax), np.repeat(weights / 2.0, count) / count


def equal_angle_points(lmax, latitudes, longitudes, mmax=None):
    """The same at equal angles (e3nn's s2_grid), by default with all m. The mean of one function is exact if its order
    is below both numbers."""
    b = latitudes // 2
    beta, odd = np.pi * (np.arange(latitudes) + 0.5) / latitudes, 2 * np.arange(b) + 1
    # Quadrature of Kostelec and Rockmore; the sum of the weights is 2.
    weights = 2.0 / b * np.sin(beta) * (np.sin(np.outer(beta, odd)) / odd).sum(1)
    alpha = 2 * np.pi * np.arange(longitudes) / longitudes
    return _harmonics(np.cos(beta), alpha, lmax, lmax if mmax is None else mmax), np.repeat(weights / 2.0, longitudes) / longitudes


def _harmonics(heights, angles, lmax, mmax):
    columns = []
    for l in range(lmax + 1):
        for m in range(-min(l, mmax), min(l, mmax) + 1):
            a = abs(m)
            around = np.cos(a * angles) if m >= 0 else np.sin(a * angles)
            columns.append(np.outer(_legendre(l, a, heights), np.sqrt(1.0 if m == 0 else 2.0) * around).ravel())
    return np.stack(columns, 1)


def _legendre(l, m, x):
    """Associated Legendre functions without a sign, times sqrt(2l+1) and the norm of the harmonics."""
    value = np.ones_like(x)
    for k in range(1, m + 1):
        value = value * np.sqrt((2 * k + 1) / (2 * k)) * np.sqrt(1.0 - x * x)
    before = np.zeros_like(x)
    for k in range(m + 1, l + 1):
        a = np.sqrt((4 * k * k - 1) / (k * k - m * m))
        b = np.sqrt(((k - 1) ** 2 - m * m) / (4 * (k - 1) ** 2 - 1)) if k > m + 1 else 0.0
        value, before = a * (x * value - b * before), value
    return value
