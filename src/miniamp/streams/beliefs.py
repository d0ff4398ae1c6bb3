"""Beliefs, priors and channels in plain values, for checkpoints: names and parameters, no code.

What can be saved is found by the exports of `miniamp.priors`, `miniamp.channels` and
`miniamp.evidence`: a new class there needs no change here.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import ModuleType

import numpy as np

from miniamp import channels, checks, evidence, posterior, priors, tilt
from miniamp.arrays import Given
from miniamp.errors import InvalidInputError, InvalidTypeError
from miniamp.parametric import Parametric
from miniamp.posterior import Posterior

#: The key that marks an encoded object.
KIND = "@"
#: Dimensions of priors of rows, for which their constructors take memory.
MAX_DIMENSION = 1_000_000
_PLAIN = frozenset([type(None), bool, int, float, str])
#: Names of numbers of a model that are not negative, and of those that are not zero either.
NOT_NEGATIVE = frozenset([
    "assigned", "batches", "class_count_", "confusion", "count", "counted", "counts", "noise_known",
    "odds", "samples", "scale", "scale_known", "spread", "square", "var",
])  # fmt: skip
POSITIVE = frozenset(["noise", "y_scale", "precision"])
#: Where classes are found, and what is put before their names in files.
_PACKAGES: tuple[tuple[ModuleType, str], ...] = (
    (priors, "priors."),
    (channels, "channels."),
    (tilt, ""),
    (posterior, ""),
    (evidence, ""),
)

Fields = dict[str, object]


#: The classes that are known, by their names in files.
_classes: dict[str, type] = {}


def register(cls: type, name: str | None = None) -> None:
    """Register a class of your own, so that checkpoints can contain its objects.

    What `miniamp.priors`, `miniamp.channels` and `miniamp.evidence` export is known already. Others
    derive from `Parametric` or `Posterior`, or are frozen dataclasses; they must be registered
    again before loading.

    Parameters
    ----------
    cls : type
        The class.
    name : str, optional
        What to call it in files; its own name by default.

    Examples
    --------
    >>> class Mine(priors.Laplace):
    ...     pass
    >>> register(Mine)
    >>> decode_belief(encode_belief(Mine(scale=2.0)))
    Mine(scale=2)
    """
    if not _savable(cls):
        expected = "a class derived from Parametric"
        raise InvalidTypeError("cls", repr(cls), expected, "save its parts as plain values")
    key = name or cls.__name__
    if key in _classes and _classes[key].__qualname__ != cls.__qualname__:
        received = f"{key!r}, which stands for {_classes[key].__qualname__}"
        raise checks.refuse("name", received, "a name that is free", "choose another")
    _classes[key] = cls


def encode_belief(thing: object) -> Fields:
    """A posterior, prior, channel or tilt as a dict of plain values and arrays.

    Examples
    --------
    >>> encode_belief(priors.Gaussian(var=2.0))
    {'@': 'priors.Gaussian', 'mean': array(0.), 'var': array(2.)}
    """
    _discover()
    cls = type(thing)
    name = next((name for name, known in _classes.items() if known is cls), None)
    if name is None:
        raise InvalidTypeError(
            "state",
            f"a {cls.__module__}.{cls.__qualname__}",
            "a class that is known",
            "pass it to miniamp.streams.register first",
        )
    fields = _fields_of(thing)
    return {KIND: name, **{key: encoded(item, f"{name}.{key}") for key, item in fields.items()}}


def decode_belief(fields: Mapping[str, object]) -> object:
    """What `encode_belief` took apart, with the same bits."""
    name = fields.get(KIND)
    if not isinstance(name, str):
        raise checks.refuse(
            "state", f"{fields!r:.60}", "an encoded belief, prior or channel", "pass one"
        )
    _discover()
    if name not in _classes:
        raise checks.refuse(
            "state",
            f"a {name!r}",
            "a class that is known here",
            "import the module that defines it and pass its class to miniamp.streams.register, or "
            "use the miniamp that wrote it",
        )
    plain = {key: decoded(item) for key, item in fields.items() if key != KIND}
    try:
        return _object_of(_classes[name], plain)
    except InvalidInputError:
        raise
    except Exception as error:  # a constructor may raise anything when a field is not its own
        raise checks.refuse(
            "state",
            f"a {name!r} of the fields {', '.join(plain) or 'none'} ({error})",
            "the fields that it was saved with",
            "use the miniamp that wrote it",
        ) from error


def encoded(value: object, where: str = "state") -> object:
    """A nested state with every belief in it encoded."""
    if type(value) in _PLAIN:  # most of a long history
        return value
    if isinstance(value, dict):
        if KIND in value:
            raise checks.refuse(
                where, f"the key {KIND!r}", "another: it marks beliefs", "rename it"
            )
        others = {k: v for k, v in value.items() if type(v) not in _PLAIN}
        return value | {key: encoded(item, f"{where}.{key}") for key, item in others.items()}
    if isinstance(value, (list, tuple)):
        if {*map(type, value)} <= _PLAIN:
            return value
        return type(value)([encoded(item, f"{where}[{i}]") for i, item in enumerate(value)])
    if value is None or isinstance(value, (bool, int, float, str, np.ndarray, np.generic)):
        return value
    if callable(value) and not isinstance(value, Parametric):
        raise checks.refuse(
            where,
            f"a function ({getattr(value, '__name__', value)!r})",
            "numbers, as a function cannot be saved",
            "use a prior that is given by parameters",
        )
    return encode_belief(value)


def decoded(value: object) -> object:
    """A nested state with every encoded belief put together again."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, dict):
        if isinstance(value.get(KIND), str):
            return decode_belief(value)
        return {key: decoded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([decoded(item) for item in value])
    return value


def require_sound(name: str, value: object, most: float = np.inf) -> None:
    """Refuse numbers that no model has: `most` or more, or of a sign that is wrong for their name.

    Whoever repairs the checksum of a file can write them, and the next batch would fail on them.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            require_sound(f"{name}.{key}" if name else key, item, most)
    elif isinstance(value, (list, tuple)):
        for k, item in enumerate(value):
            require_sound(f"{name}[{k}]", item, most)
        return
    last = name.rpartition(".")[2]
    numbers = np.asarray(value if isinstance(value, (float, int, np.ndarray, np.generic)) else "")
    if numbers.dtype.kind in "fiu":
        bad, expected = ~(np.abs(numbers) < most), "finite numbers"  # nan too
        if last in POSITIVE:
            bad, expected = bad | (numbers <= 0.0), "finite numbers > 0"
        elif last in NOT_NEGATIVE:
            bad, expected = bad | (numbers < 0.0), "finite numbers >= 0"
        if bad.any():
            expected += "" if np.isinf(most) else f" below {most:g}"
            raise checks.refuse(name, numbers[bad].flat[0], expected, "start over")
    elif last in NOT_NEGATIVE or last in POSITIVE:
        raise checks.refuse(name, f"{value!r:.60}", "numbers", "start over")


def _discover() -> None:
    """Register what the package exports now."""
    for package, prefix in _PACKAGES:
        for name, cls in _exported(package):
            if prefix + name not in _classes and _savable(cls):
                register(cls, prefix + name)


def _exported(package: ModuleType) -> Iterator[tuple[str, type]]:
    names = getattr(package, "__all__", None) or list(vars(package))
    for name in names:
        cls = getattr(package, name)
        if isinstance(cls, type) and cls.__module__.startswith(package.__name__):
            yield name, cls


def _savable(cls: type) -> bool:
    """Whether an object can be taken apart by its fields: parametric, a belief, or frozen data."""
    frozen = dataclasses.is_dataclass(cls) and not issubclass(cls, Exception)
    return issubclass(cls, (Parametric, Posterior)) or frozen


def _fields_of(thing: Given) -> Fields:
    if isinstance(thing, Parametric):
        return dict(thing.parameters())
    return {name: getattr(thing, name) for name in _field_names(type(thing))}


def _field_names(cls: type) -> list[str]:
    """The annotated attributes of a class and of its bases, but those that are computed."""
    found: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        found.update(dict.fromkeys(inspect.get_annotations(base)))
    computed = (property, cached_property)
    return [n for n in found if not isinstance(inspect.getattr_static(cls, n, None), computed)]


def _object_of(cls: type, fields: Fields) -> object:
    """The object of these fields, with their very bits."""
    if issubclass(cls, Posterior):
        return _belief_of(cls, fields)
    for name, value in fields.items():
        if type(value) is int and abs(value) > MAX_DIMENSION:
            raise ValueError(f"{name} = {value}, expected at most {MAX_DIMENSION}")
    if not issubclass(cls, Parametric):  # those check themselves
        require_sound(cls.__name__, fields)
    thing = cls(**fields)
    for name, saved in fields.items():
        # A constructor may divide weights by their sum once more, which moves the last bit.
        mine = getattr(thing, "__dict__", {}).get(name)
        if isinstance(saved, np.ndarray) and isinstance(mine, np.ndarray):
            if saved.shape != mine.shape or saved.dtype != mine.dtype:
                raise ValueError(f"{name} of shape {saved.shape} and dtype {saved.dtype}")
            saved.setflags(write=False)
            thing.__dict__[name] = saved
    return thing


def _belief_of(cls: type[Posterior], fields: Fields) -> Posterior:
    """A belief: the constructor checks what it takes, and the rest must be there by name."""
    names = _field_names(cls)
    # A field with a default may be younger than the file.
    if not {n for n in names if not hasattr(cls, n)} <= set(fields) <= set(names):
        raise ValueError(f"expected {', '.join(names)}")
    saved = fields["tilt"]
    # First, as the constructor takes memory for `size` coefficients.
    if not isinstance(saved, tilt.Tilt) or np.shape(saved.B)[:1] != (fields["size"],):
        raise ValueError(f"a tilt that is not one of {fields['size']} coefficients")
    start = {name: fields[name] for name in ("prior", "size", "memory")}
    new = cls(**start)  # type: ignore[arg-type]  # checked there
    if saved.B.shape != new.tilt.B.shape:
        raise ValueError(f"a tilt that is not one of {new.size} coefficients")
    new.__dict__.update({name: value for name, value in fields.items() if name != "prior"})
    # A field whose default is nan has no value before the first batch.
    known = {n: v for n, v in fields.items() if getattr(cls, n, None) == getattr(cls, n, None)}
    require_sound(cls.__name__, known)
    shapes = {"products": (new.size, new.size), "linear": (new.size,)}
    if isinstance(seen := fields.get("remembered"), tilt.Remembered):
        known |= {"rows": seen.rows, "targets": seen.targets}
        shapes = {"rows": (len(seen.targets), new.size), "targets": (len(seen.targets),)}
    for name in shapes.keys() & known.keys():
        if not isinstance(array := known[name], np.ndarray) or array.shape != shapes[name]:
            raise ValueError(f"{name} that are not of shape {shapes[name]}")
    with np.errstate(all="ignore"):
        if new.joint is None:
            mean, var = new.moments
            var = var if var.ndim == 1 else np.diagonal(var, axis1=-2, axis2=-1)  # rows' (N, R, R)
            require_sound(f"{cls.__name__}.tilt.A, B: moments", {"mean": mean, "var": var})
        else:  # the factorisation of the rest fails by itself
            require_sound(f"{cls.__name__}.tilt.A", {"precision": new.gaussian()[0]})
    return new
