"""How long the theory takes, and how many times faster a root search is than naive iteration.

Run with `python benchmarks/theory.py`. Naive iteration uses the same quadrature for epsilon,
without the table and without the root search.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from miniamp import channels, priors, theory
from miniamp.theory.scalar import log_mmse

CHANNEL = channels.Gaussian(var=1e-8)


def seconds(task: Callable[[], object]) -> float:
    """CPU time of one run, which other users of the machine do not disturb."""
    start = time.process_time()
    task()
    return time.process_time() - start


def sparse() -> priors.GaussBernoulli:
    """A fresh prior, so that nothing is in any table yet."""
    return priors.GaussBernoulli(rho=0.3)


def naive_curve(alpha_b: float = 0.35, batches: int = 8, tol: float = 1e-12) -> list[float]:
    """The same converged curve by iterating eq:minise_nish."""
    parts = sparse().components()
    lam, mse, errors = 0.0, 0.3, []
    for _ in range(batches):
        while True:
            now = lam + alpha_b / (1e-8 + mse)
            new = float(np.exp(log_mmse(parts, np.array([now]))[0]))
            done = abs(new - mse) < tol * mse
            mse = new
            if done:
                break
        lam = now
        errors.append(mse)
    return errors


def curves() -> tuple[float, float, float]:
    """Seconds of a curve by a prior that nothing is known of, of one more, and of naive iteration.

    The second curve has batches of another size, so that only what is known of the prior is shared.
    """
    known = sparse()
    theory.learning_curve(known, CHANNEL, 0.3, alpha_max=3.0)

    def least(task: Callable[[], object], repeats: int) -> float:
        return min(seconds(task) for _ in range(repeats))

    return (
        least(lambda: theory.learning_curve(sparse(), CHANNEL, 0.35, alpha_max=3.0), 10),
        least(lambda: theory.learning_curve(known, CHANNEL, 0.35, alpha_max=3.0), 10),
        least(naive_curve, 3),
    )


def main() -> None:
    """Measure and print one line a target."""
    curve = seconds(lambda: theory.learning_curve(sparse(), CHANNEL, 0.35, alpha_max=3.0))
    naive = seconds(naive_curve)
    alphas = np.linspace(0.005, 1.0, 200)
    offline = seconds(lambda: theory.offline_curve(sparse(), CHANNEL, alphas))
    grid = np.linspace(0.02, 1.0, 40)
    diagram = seconds(
        lambda: theory.phase_diagram(sparse(), CHANNEL, grid, sparsities=np.linspace(0.02, 0.8, 40))
    )
    rows = [
        ("converged curve to alpha = 3", curve, 0.1),
        ("offline curve, 200 points", offline, 2.0),
        ("phase diagram, 40 x 40", diagram, 30.0),
    ]
    for name, found, target in rows:
        print(f"{name:<32} {found:8.3f} s   target {target:g} s")
    name = "naive iteration, same quadrature"
    print(f"{name:<32} {naive:8.3f} s   {naive / curve:.0f} times slower")


if __name__ == "__main__":
    main()
