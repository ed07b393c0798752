# SPDX-License-Identifier: MIT
"""What the oracles of frameworks that compute with JAX share."""

import contextlib
import logging
import os

from .oracle import quiet


def prepare_jax(*packages):
    """JAX on CPUs, without its messages and those of `packages`. It comes before the first import of JAX."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    for name in (*packages, "jax", "absl"):
        logging.getLogger(name).setLevel(logging.ERROR)


@contextlib.contextmanager
def float64(is_on):
    """Numbers of JAX in float64, or in float32 as is its default."""
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", is_on)
    try:
        with quiet():
            yield
    finally:
        jax.config.update("jax_enable_x64", before)


def capacity(count, least=32):
    """Room for so many atoms or edges. Structures of similar sizes share a function, which takes long to compile."""
    room = least
    while room < count:
        room *= 2
    return room
