"""What the theory expects of a stream, followed batch by batch beside it."""

from __future__ import annotations

from typing import Any

from miniamp.absorb import Info, absorb
from miniamp.designs import Design
from miniamp.errors import MiniampError
from miniamp.estimators.settings import coefficient_prior
from miniamp.learning import Model
from miniamp.priors import ScalarPrior
from miniamp.theory import ConvergedBatch, Law


def expected(model: Model, info: Info, design: Design, last: dict[str, Any]) -> dict[str, Any]:
    """State evolution's own account of a batch that AMP has absorbed (Theorem 1), else nothing.

    Its only memory is the precision that the typical batches so far have brought, so that it can
    follow hyper-parameters that are being learned; it fades like everything where a stream is told
    to forget. Rows are brought to entries of variance 1/N by
    dividing z, and with it the noise, by their size.

    Parameters
    ----------
    model : Model
        After the batch.
    info : Info
        How the batch was absorbed.
    design : Design
        Its rows.
    last : dict
        The history's entry of the batch before, empty for the first.

    Returns
    -------
    dict
        theory_precision and theory_variance, the mean posterior variance of a coefficient, after
        the batch; theory_error, the squared error of forecasts for it before. Nothing where the
        theory does not apply: not independent features, or a channel on another scale.
    """
    prior = coefficient_prior(model.posterior.prior)
    before = last.get("theory_precision", None if last else 0.0)
    if info.solver != "amp" or before is None or not _typical(prior, model):
        return {}
    before *= last.get("forget", 1.0)
    rows, features = design.shape
    power = features * design.mean_square
    channel = model.channel.replaced(var=model.channel.parameters()["var"] / power)
    try:
        law = Law(prior, lam=before, gamma=before, signal=before)
        after, _ = absorb(law, ConvergedBatch(rows / features, channel))
    except (MiniampError, ArithmeticError, ValueError):  # beyond what the theory can follow
        return {}
    entry = {"theory_precision": float(after.lam), "theory_variance": float(after.variance)}
    if model.channel.shift_invariant:
        noise = float(model.channel.parameters()["var"])
        entry["theory_error"] = noise + power * float(law.variance)
    return entry


def _typical(prior: Any, model: Model) -> bool:
    return (
        isinstance(prior, ScalarPrior)
        and prior.shape == ()
        and model.channel.names == ("var",)
        and model.channel.shape == ()
        and float(model.channel.parameters()["var"]) > 0.0
    )
