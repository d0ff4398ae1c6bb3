"""Beliefs, priors and channels in plain values, for checkpoints: names and parameters, no code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from miniamp import channels, priors
from miniamp.errors import InvalidInputError, InvalidTypeError
from miniamp.evidence import Factors
from miniamp.parametric import Parametric
from miniamp.posterior import Posterior, Remembered
from miniamp.tilt import Tilt

#: The key that marks an encoded object.
KIND = "@"


class Codec(NamedTuple):
    """How objects of one class are taken apart and put together."""

    cls: type
    encode: Callable[[Any], dict[str, Any]]
    decode: Callable[[dict[str, Any]], Any]


_codecs: dict[str, Codec] = {}


def register(
    cls: type,
    name: str | None = None,
    encode: Callable[[Any], dict[str, Any]] | None = None,
    decode: Callable[[dict[str, Any]], Any] | None = None,
) -> None:
    """Let checkpoints hold objects of your own class.

    Priors and channels of `miniamp.priors` and `miniamp.channels` are known already. For others
    that derive from `Parametric` the class is enough; it must be registered again before loading.

    Parameters
    ----------
    cls : type
        The class.
    name : str, optional
        What to call it in files; its own name by default.
    encode : callable, optional
        Object to dict of plain values, arrays and encodable objects; `parameters()` by default.
    decode : callable, optional
        The way back; the constructor by default.

    Examples
    --------
    >>> class Mine(priors.Laplace):
    ...     pass
    >>> register(Mine)
    >>> decode_belief(encode_belief(Mine(scale=2.0)))
    Mine(scale=2)
    """
    if encode is None and not issubclass(cls, Parametric):
        raise InvalidTypeError(
            f"cls: got {cls!r}, expected a class derived from Parametric; pass encode= and decode= "
            "for any other"
        )
    key = name or cls.__name__
    if key in _codecs and _codecs[key].cls.__qualname__ != cls.__qualname__:
        raise InvalidInputError(
            f"name: {key!r} stands for {_codecs[key].cls.__qualname__} already; choose another"
        )
    _codecs[key] = Codec(
        cls, encode or _parameters_of, decode or (lambda fields: _parametric(cls, fields))
    )


def encode_belief(thing: Any) -> dict[str, Any]:
    """A posterior, prior, channel or tilt as a dict of plain values and arrays.

    Examples
    --------
    >>> encode_belief(priors.Gaussian(var=2.0))
    {'@': 'priors.Gaussian', 'mean': array(0.), 'var': array(2.)}
    """
    name = _name_of(type(thing))
    fields = _codecs[name].encode(thing)
    return {KIND: name, **{key: _encoded(item, f"{name}.{key}") for key, item in fields.items()}}


def decode_belief(fields: dict[str, Any]) -> Any:
    """What `encode_belief` took apart, with the same bits."""
    name = fields.get(KIND)
    if not isinstance(name, str):
        raise InvalidInputError(
            f"state: got {fields!r:.60}, expected an encoded belief, prior or channel"
        )
    _know_package()
    if name not in _codecs:
        raise InvalidInputError(
            f"state: holds a {name!r}, which is not known here; import the module that defines it "
            "and pass its class to miniamp.streams.register, or use the miniamp that wrote it"
        )
    plain = {key: _decoded(item) for key, item in fields.items() if key != KIND}
    try:
        return _codecs[name].decode(plain)
    except (KeyError, TypeError) as error:
        raise InvalidInputError(
            f"state: the parts of {name!r} are not as expected ({error}); "
            "use the miniamp that wrote it"
        ) from None


def encoded_tree(value: Any) -> Any:
    """A nested state with every belief in it encoded."""
    return _encoded(value, "state")


def decoded_tree(value: Any) -> Any:
    """A nested state with every encoded belief put together again."""
    return _decoded(value)


def _encoded(value: Any, where: str) -> Any:
    if isinstance(value, dict):
        if KIND in value:
            raise InvalidInputError(
                f"{where}: has the key {KIND!r}, which marks beliefs; rename it"
            )
        return {key: _encoded(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_encoded(item, f"{where}[{i}]") for i, item in enumerate(value)])
    if value is None or isinstance(value, (bool, int, float, str, np.ndarray, np.generic)):
        return value
    if callable(value) and not isinstance(value, Parametric):
        raise InvalidInputError(
            f"{where}: a function ({getattr(value, '__name__', value)!r}) cannot be saved, "
            "expected numbers; use a prior that is given by parameters"
        )
    return encode_belief(value)


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        if isinstance(value.get(KIND), str):
            return decode_belief(value)
        return {key: _decoded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_decoded(item) for item in value])
    return value


def _name_of(cls: type) -> str:
    _know_package()
    for name, codec in _codecs.items():
        if codec.cls is cls:
            return name
    raise InvalidTypeError(
        f"state: got a {cls.__module__}.{cls.__qualname__}, which cannot be saved as it is; "
        "pass its class to miniamp.streams.register first"
    )


def _know_package() -> None:
    """Register what the package exports now; a new prior is known without a word here."""
    for package in (priors, channels):
        for name in package.__all__:
            cls = getattr(package, name)
            key = f"{package.__name__.rsplit('.', 1)[-1]}.{name}"
            if key not in _codecs and isinstance(cls, type) and issubclass(cls, Parametric):
                register(cls, key)


def _parameters_of(thing: Parametric) -> dict[str, Any]:
    return thing.parameters()


def _parametric(cls: type, fields: dict[str, Any]) -> Any:
    """The object of these parameters, with their very bits.

    A constructor may divide weights by their sum once more, which moves the last bit.
    """
    thing = cls(**fields)
    for name, saved in fields.items():
        if isinstance(saved, np.ndarray) and isinstance(thing.__dict__.get(name), np.ndarray):
            saved.setflags(write=False)
            thing.__dict__[name] = saved
    return thing


def _posterior_fields(belief: Posterior) -> dict[str, Any]:
    fields = belief._constants()
    known = {"prior", "size", "tilt", "memory", "remembered"}
    if fields.keys() != known:
        raise InvalidTypeError(
            f"belief: has the parts {', '.join(sorted(fields))}, expected "
            f"{', '.join(sorted(known))}; register its class with its own encode= and decode="
        )
    return dict(fields)


def _posterior(fields: dict[str, Any]) -> Posterior:
    belief = Posterior(fields["prior"], fields["size"], fields["tilt"], memory=fields["memory"])
    remembered = fields["remembered"]
    return belief if remembered is None else belief.remembering(remembered)


def _factors(fields: dict[str, Any]) -> Factors:
    belief = Factors(fields["prior"], fields["size"], fields["tilt"], memory=fields["memory"])
    belief.__dict__.update(columns=fields["columns"], log_evidence=fields["log_evidence"])
    return belief


register(Tilt, "Tilt", lambda tilt: {"A": tilt.A, "B": tilt.B}, lambda fields: Tilt(**fields))
register(
    Remembered,
    "Remembered",
    lambda seen: {"rows": seen.rows, "targets": seen.targets, "field": seen.field},
    lambda fields: Remembered(**fields),
)
register(Posterior, "Posterior", _posterior_fields, _posterior)
register(
    Factors,
    "Factors",
    lambda belief: {
        **_posterior_fields(belief),
        "columns": belief.columns,
        "log_evidence": belief.log_evidence,
    },
    _factors,
)
