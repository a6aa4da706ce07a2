"""Noise addition: another job (it hides a reading, not a parameter), in the table for its price only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SCALE = 1.0  # the noise's scale; the cost does not depend on it


def numpy_gaussian(Y: Array) -> Array:
    """Pseudorandom normals from numpy's generator: no protection against float or generator attacks."""
    rng = np.random.default_rng(0)
    out = rng.normal(0.0, SCALE, len(Y))
    out += Y
    return out


def diffprivlib_gaussian(Y: Array) -> Array:
    """Diffprivlib's Gaussian mechanism, which takes one number at a time."""
    from diffprivlib.mechanisms import Gaussian

    # epsilon, delta, sensitivity to give exactly SCALE: sqrt(2 ln(1.25 / delta)) sensitivity / epsilon
    delta = 1e-5
    sensitivity = SCALE / float(np.sqrt(2 * np.log(1.25 / delta)))
    mechanism = Gaussian(epsilon=1.0, delta=delta, sensitivity=sensitivity)
    return np.array([mechanism.randomise(y) for y in Y.tolist()])


def diffprivlib_laplace(Y: Array) -> Array:
    """Diffprivlib's Laplace mechanism, which takes one number at a time."""
    from diffprivlib.mechanisms import Laplace

    mechanism = Laplace(epsilon=1.0, delta=0.0, sensitivity=SCALE)
    return np.array([mechanism.randomise(y) for y in Y.tolist()])


def opendp_gaussian(Y: Array) -> Array:
    """OpenDP's Gaussian measurement on a vector: exact discretised noise, the system's random source."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    return np.array(dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=SCALE)(Y.tolist()))


def opendp_laplace(Y: Array) -> Array:
    """OpenDP's Laplace measurement on a vector."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    return np.array(dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=SCALE)(Y.tolist()))
