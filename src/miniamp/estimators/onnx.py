"""Fitted models as ONNX graphs: predictions with error bars wherever ONNX runs (extra: onnx)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels import Probit
from miniamp.estimators.base import StreamingEstimator
from miniamp.evidence.linear import known, sites_of
from miniamp.posterior import Posterior

if TYPE_CHECKING:
    import onnx

#: Version of ONNX's operators, and of its format: those of 2023, which runtimes of today read.
OPSET, FORMAT = 18, 9


def to_onnx(model: StreamingEstimator) -> onnx.ModelProto:
    """Convert the predictions of a fitted model to an ONNX graph.

    Its input `X` has shape (rows, N), in doubles. A regressor has the outputs `mean` and `std`, as
    `predict(X, return_std=True)`; a classifier of two classes `probabilities`, as `predict_proba`.
    Features are in the units of the data.

    Parameters
    ----------
    model : MiniAMPRegressor or MiniAMPClassifier
        Fitted, with Gaussian noise or two classes and the default channel.

    Examples
    --------
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> graph = to_onnx(MiniAMPRegressor().fit(X, X[:, 0]))
    >>> [output.name for output in graph.graph.output]
    ['mean', 'std']
    """
    build = _Graph(checks.needed("onnx", "to_onnx"))
    state = model._learned
    labels = state.settings.channel.predicts_probabilities
    if state.targets > 1 and labels:
        raise checks.refuse(
            "model",
            f"{state.targets} classes",
            "a regressor or two classes",
            "export one per class",
        )
    channel = state.settings.channel
    if not isinstance(channel, Probit) and not channel.shift_invariant:
        raise checks.refuse("model", f"{channel!r}", "the default noise", "leave noise= out")
    frame, N = state.units, state.features
    unit = np.divide(1.0, frame.scale, out=np.zeros(N), where=frame.scale > 0.0)
    framed = build("Mul", build("Sub", "X", frame.centre), unit)
    squares = build("Mul", framed, framed)
    both = []
    for target, (centre, scale) in zip(state.models, state.target_units, strict=True):
        mean, D, root, sign = _gaussian(target.posterior)
        at_zero, known_at_zero = mean[N:].sum(), root[:, N:].sum(axis=1)
        omega = build("Add", build("MatMul", framed, mean[:N, None]), [[at_zero]])
        V = build("Add", build("MatMul", squares, D[:N, None]), [[D[N:].sum()]])
        if len(root):
            seen = build("Add", build("MatMul", framed, root[:, :N].T), known_at_zero)
            power = build("ReduceSumSquare", seen, np.array([1]), keepdims=1)
            V = build("Max", build("Add", V, build("Mul", power, sign)), 0.0)
        noise = float(np.mean(getattr(target.channel, "var", 0.0)))
        std = build("Sqrt", build("Add", V, noise))
        if not labels:
            omega, std = build("Add", build("Mul", omega, scale), centre), build("Mul", std, scale)
        both.append((omega, std))
    if labels:
        half = build("Div", build("Div", *both[0]), np.sqrt(2.0))
        # Runtimes have the error function in single precision.
        erf = build("Cast", build("Erf", build("Cast", half, to=build.single)), to=build.double)
        right = 1.0 - getattr(state.models[0].channel, "wrong", 0.0)
        plus = build("Add", build("Mul", erf, 0.5 * right), 0.5)
        build("Concat", build("Sub", 1.0, plus), plus, axis=1, output="probabilities")
        return build.model(N, {"probabilities": ("rows", 2)})
    several = len(both) > 1
    for k, name in enumerate(("mean", "std")):
        if several:
            build("Concat", *(one[k] for one in both), axis=1, output=name)
        else:
            build("Squeeze", both[0][k], np.array([1]), output=name)
    shape = ("rows", len(both)) if several else ("rows",)
    return build.model(N, {"mean": shape, "std": shape})


def _gaussian(belief: Posterior) -> tuple[Array, Array, Array, float]:
    """Mean, and a covariance diag(D) + sign * root' root, as `evidence.base.project` has them."""
    size = belief.size
    if belief.information is not None:
        found = belief.information.solution
        return found.mean, np.zeros(size), np.tril(found.root), 1.0
    if belief.remembered is not None:
        joint = known(belief, sites_of(belief))
        return joint.mean, joint.D, np.asarray(joint.root), -1.0
    return belief.mean, np.broadcast_to(belief.var, (size,)), np.zeros((0, size)), 1.0


class _Graph:
    """Nodes of a graph, one per call: the operator, its inputs (names or constants), attributes."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self.single, self.double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE

    def __call__(self, operator: str, *inputs: Any, output: str = "", **attributes: int) -> str:
        name = output or f"n{len(self._nodes)}"
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        node = self._onnx.helper.make_node(operator, names, [name], **attributes)
        self._nodes.append(node)
        return name

    def _constant(self, value: Any) -> str:
        array, name = np.asarray(value), f"c{len(self._constants)}"
        array = array if array.dtype == np.int64 else array.astype(np.float64)
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def model(self, features: int, outputs: dict[str, tuple[str | int, ...]]) -> onnx.ModelProto:
        helper = self._onnx.helper
        given = helper.make_tensor_value_info("X", self.double, ("rows", features))
        made = [helper.make_tensor_value_info(n, self.double, s) for n, s in outputs.items()]
        graph = helper.make_graph(self._nodes, "miniamp", [given], made, self._constants)
        opset = [helper.make_opsetid("", OPSET)]
        model: onnx.ModelProto = helper.make_model(graph, opset_imports=opset, ir_version=FORMAT)
        self._onnx.checker.check_model(model)
        return model
