"""Checkpoints: one file with its own checksum, never half written."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from miniamp import checks
from miniamp.arrays import Given
from miniamp.errors import CheckpointError, InvalidInputError, InvalidTypeError
from miniamp.streams.beliefs import decoded, encoded
from miniamp.streams.container import DamagedError, check, packed, unpacked

#: Added to the path of a checkpoint for the one before it.
PREVIOUS = ".previous"


def save(path: str | os.PathLike[str], state: Mapping[str, object]) -> None:
    """Write a state to one file, all or nothing; the one before it stays as `path` + ".previous".

    The new file is written beside the old one, forced to the disk and then renamed over it, so that
    at every moment, a power cut included, `path` is either the old state or the new one. The same
    state always gives the same bytes.

    Parameters
    ----------
    path : path
        The file.
    state : dict
        Nested dicts, lists and tuples of numbers, text, arrays, posteriors, priors and channels: a
        belief, `batch.state()` for the place in the stream, hyper-parameters, a history. Floats
        come back with the same bits, arrays with type, shape and order.

    Examples
    --------
    >>> import tempfile
    >>> from miniamp import Posterior, priors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/m.amp", {"belief": Posterior(priors.Laplace(), 3), "position": 7})
    ...     load(f"{folder}/m.amp")
    {'belief': Posterior(Laplace(scale=1), size=3), 'position': 7}
    """
    if not isinstance(state, Mapping):
        raise InvalidTypeError("state", type(state).__name__, "a dict", "name its parts")
    content = packed(encoded(dict(state)))
    place = Path(path)
    try:
        _replace(place, content)
    except OSError as error:
        raise checks.refuse(
            str(place),
            f"an error when writing it ({error.strerror})",
            "a file that can be written",
            "check the folder and the disk",
        ) from None


def load(path: str | os.PathLike[str]) -> dict[str, Given]:
    """The state that was saved; refused if a single bit of the file is not as it was written.

    Raises
    ------
    CheckpointError
        The file is cut short, altered, or no checkpoint; its `previous` is the path of the
        checkpoint before it, if that one is sound.
    """
    place = Path(path)
    try:
        content = place.read_bytes()
    except OSError as error:
        raise _refused(place, f"an error when reading it ({error.strerror})") from None
    try:
        state: Given = decoded(unpacked(content))
    except DamagedError as error:
        raise _refused(place, str(error)) from None
    except InvalidInputError as error:
        raise _refused(place, f"{error.argument} with {error.received}", error.remedy) from error
    if not isinstance(state, dict):
        raise _refused(place, f"a {type(state).__name__}")
    return state


def previous_of(path: str | os.PathLike[str]) -> Path:
    """Where the checkpoint before `path` is kept."""
    return Path(f"{os.fspath(path)}{PREVIOUS}")


def is_sound(path: str | os.PathLike[str]) -> bool:
    """Whether there is a whole, unaltered checkpoint at `path`."""
    try:
        check(Path(path).read_bytes())
    except (OSError, DamagedError):
        return False
    return True


def _refused(place: Path, received: str, remedy: str = "") -> CheckpointError:
    earlier = previous_of(place)
    expected = "a whole, unaltered checkpoint"
    if is_sound(earlier):
        remedy = f"the previous one is sound: load {earlier}, or rename it to {place.name}"
        return CheckpointError(str(place), received, expected, remedy, previous=str(earlier))
    remedy = remedy or ("start over" if place.exists() else "check the path")
    expected += ", and no previous one is there"
    return CheckpointError(str(place), received, expected, remedy)


def _replace(place: Path, content: bytes) -> None:
    """Write beside, force to disk, keep the old one, rename over it, force the folder to disk."""
    _sweep(place)
    fresh = place.with_name(f".{place.name}.{os.getpid()}.new")
    try:
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # A damaged file must not push out a sound previous one.
        if is_sound(place):
            _keep(place)
        fresh.replace(place)
    finally:
        fresh.unlink(missing_ok=True)
    _sync_folder(place.parent)


def _keep(place: Path) -> None:
    """Make the old file the previous one while it also stays where it is: no moment without it."""
    spare = place.with_name(f".{place.name}.{os.getpid()}.old")
    spare.unlink(missing_ok=True)
    try:
        os.link(place, spare)
    except OSError:  # a file system without hard links
        shutil.copyfile(place, spare)
        with spare.open("rb+") as file:
            os.fsync(file.fileno())
    spare.replace(previous_of(place))
    # After a kill between the two renames both names stand for one file, and renaming is idle.
    spare.unlink(missing_ok=True)


def _sweep(place: Path) -> None:
    """Remove what a process that was killed while saving has left; others' files stay."""
    pattern = re.compile(rf"\.{re.escape(place.name)}\.(\d+)\.(new|old)")
    for other in place.parent.iterdir():
        found = pattern.fullmatch(other.name)
        if found and not _alive(int(found.group(1))):
            other.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    if os.name != "posix":  # there, signal 0 would end the process
        return process != os.getpid()
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return process != os.getpid()


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
