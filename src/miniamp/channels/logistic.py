"""The logistic channel: logistic regression."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit

from miniamp.arrays import Array, ArrayOrFloat
from miniamp.channels.smooth import Binary, Smooth
from miniamp.kernel import Kernel, packed, read_only


class Logistic(Binary, Smooth):
    """y = +1 with probability 1/(1 + exp(-z)), else -1.

    It has no noise level of its own: the scale of z plays that part. Averages over z are compiled
    (`channels.kernels`); `Smooth` has them in plain form.

    Examples
    --------
    >>> import numpy as np
    >>> minus, plus = Logistic().predict_proba(omega=0.0, V=1.0)
    >>> round(float(minus), 12), round(float(plus), 12)
    (0.5, 0.5)
    >>> g, curvature = Logistic().output(np.array([1.0]), omega=0.0, V=0.0)
    >>> g, curvature
    (array([0.5]), array([0.25]))
    """

    name = "logistic"

    def log_likelihood(self, y: ArrayOrFloat, z: Array) -> Array:
        return np.asarray(log_expit(y * z))

    def slopes(self, y: ArrayOrFloat, z: Array) -> tuple[Array, Array]:
        wrong = expit(-y * z)
        return y * wrong, -wrong * expit(y * z)

    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        return self._averages(y, omega, V)[0]

    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        _, slope, curvature = self._averages(y, omega, V)
        return y * slope, curvature

    def kernel(self) -> Kernel:
        from miniamp.channels import kernels  # only now: the compiler is slow to import

        return Kernel(kernels.logistic, packed(0.0))

    def _averages(
        self, y: ArrayOrFloat, omega: ArrayOrFloat, V: ArrayOrFloat
    ) -> tuple[Array, Array, Array]:
        """log E P(y | z), and two derivatives of it along y (the second negative), of one shape."""
        from miniamp.channels import kernels

        margin = np.multiply(y, omega, dtype=np.float64)
        shape = np.broadcast_shapes(margin.shape, np.shape(V))
        given = (np.broadcast_to(a, shape).ravel().astype(np.float64) for a in (margin, V))
        filled = np.empty((3, int(np.prod(shape))))
        kernels.each(*(read_only(a) for a in given), *filled)
        log_mass, slope, curvature = filled.reshape(3, *shape)
        return log_mass, slope, curvature

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        return np.where(rng.random(np.shape(z)) < expit(z), 1.0, -1.0)

    def fisher(self) -> Array:
        return np.array(0.25)
