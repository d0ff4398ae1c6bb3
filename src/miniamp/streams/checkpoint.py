"""Checkpoints: one file with its own checksum, never half written, one writer at a time."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from miniamp import checks
from miniamp.arrays import Given
from miniamp.errors import CheckpointError, InvalidInputError, InvalidTypeError, MiniampError
from miniamp.streams.beliefs import decoded, encoded
from miniamp.streams.container import (
    NO_CHECKPOINT,
    DamagedError,
    check,
    packed,
    unpacked,
    written_by,
)

#: Added to the path of a checkpoint for the one before it.
PREVIOUS = ".previous"
#: Seconds that a save waits for another process that is saving to the same path: a save takes
#: milliseconds, so that a longer wait means a run that holds the checkpoint.
WAIT = 10.0
#: Threads of one process share its lock file, so they take turns here.
_SAVING = threading.RLock()


def save(path: str | os.PathLike[str], state: Mapping[str, object]) -> None:
    """Write a state to one file, all or nothing; the one before it stays as `path` + ".previous".

    The new file is written beside the old one, forced to the disk and then renamed over it, so that
    at every moment, a power cut included, `path` is either the old state or the new one. The same
    state always gives the same bytes. The permissions of a file that is there stay, and a symbolic
    link stays a link: what it points to is replaced.

    Parameters
    ----------
    path : path
        The file.
    state : dict
        Nested dicts, lists and tuples of numbers, text, arrays, posteriors, priors and channels: a
        belief, `batch.state()` for the position in the stream, hyper-parameters, a history. Floats
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
    place = real_path(path)
    _require_regular(place)
    with lock(place, WAIT), _SAVING:
        try:
            _replace(place, content)
        except OSError as error:
            raise _unwritable(place, error) from error


def load(path: str | os.PathLike[str]) -> dict[str, Given]:
    """Load a saved state; raises an error if a single bit of the file was changed.

    Raises
    ------
    CheckpointError
        The file is cut short, altered, or no checkpoint; its `previous` is the path of the
        checkpoint before it, if that one is sound.
    """
    place = real_path(path)
    with restoring(place):
        state = decoded(unpacked(_content(place)))
        if not isinstance(state, dict):
            raise DamagedError(f"a {type(state).__name__} instead of a state")
    return state


@contextmanager
def lock(path: str | os.PathLike[str], wait: float = 0.0) -> Iterator[None]:
    """Lock a checkpoint from loading it to its last save, so that no other process changes it.

    The lock is the operating system's own on a file beside the checkpoint: it ends with the process
    that holds it, however that ends, and a lock file that is left behind locks nothing. A process
    may enter it again. `save` takes it for its own time.

    Parameters
    ----------
    path : path
        The checkpoint, which need not be there yet.
    wait : float
        Seconds to wait for another process before refusing.

    Raises
    ------
    InvalidInputError
        Another process holds it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, lock(f"{folder}/m.amp"):
    ...     save(f"{folder}/m.amp", {"rows": 10})
    """
    place = real_path(path)
    file = place.with_name(f".{place.name}.lock")
    try:
        place.parent.stat()  # filelock would make a folder that is not there
        held = FileLock(file, thread_local=False, is_singleton=True)
        held.acquire(timeout=wait)
    except Timeout:
        raise checks.refuse(
            str(path),
            "a checkpoint that another process is using",
            "one process at a time",
            "wait until it has ended, or name another file",
        ) from None
    except OSError as error:
        raise _unwritable(place, error) from error
    try:
        yield
    finally:
        if held.lock_counter == 1 and os.name == "posix":
            # While it is held: who waits for the removed file sees that and tries again.
            with suppress(OSError):
                file.unlink()
        held.release()


@contextmanager
def restoring(path: str | os.PathLike[str]) -> Iterator[None]:
    """The boundary of a checkpoint: whatever its content provokes is an error about the file.

    Whoever repairs the checksum of a file can write anything into it, and which exceptions that
    provokes cannot be listed.
    """
    try:
        yield
    except CheckpointError:
        raise
    except OSError as error:
        reason = f"an error when reading it ({error.strerror or error})"
        raise _refused(Path(path), reason) from error
    except DamagedError as error:
        raise _refused(Path(path), str(error)) from None
    except MiniampError as error:
        reason = f"{error.argument}: {error.received}{_writer(Path(path))}"
        raise _refused(Path(path), reason, error.expected, error.remedy) from error
    except Exception as error:
        reason = f"fields that do not fit ({type(error).__name__}: {error!s:.80})"
        raise _refused(Path(path), reason + _writer(Path(path))) from error


def previous_of(path: str | os.PathLike[str]) -> Path:
    """Where the checkpoint before `path` is kept: beside it, or beside what a link points to."""
    return Path(f"{real_path(path)}{PREVIOUS}")


def is_sound(path: str | os.PathLike[str]) -> bool:
    """Whether there is a whole, unaltered checkpoint at `path`."""
    try:
        check(_content(Path(path)))
    except (OSError, DamagedError):
        return False
    return True


def real_path(path: str | os.PathLike[str]) -> Path:
    """The file that a path names, links followed; as it was given where there is no link."""
    place = Path(path)
    return place.resolve() if place.is_symlink() else place


def _content(place: Path) -> bytes:
    if place.exists() and not place.is_file():
        raise DamagedError(_kind(place))
    return place.read_bytes()


def _require_regular(place: Path) -> None:
    if place.exists() and not place.is_file():
        raise checks.refuse(str(place), _kind(place), "a file", "name a file")


def _kind(place: Path) -> str:
    return "a folder" if place.is_dir() else "a pipe or device"


def _writer(place: Path) -> str:
    with suppress(OSError, DamagedError):
        version = written_by(_content(place))
        return f", written by miniamp {version}" if version else ""
    return ""


def _unwritable(place: Path, error: OSError) -> InvalidInputError:
    return checks.refuse(
        str(place),
        f"an error when writing it ({error.strerror or error})",
        "a file that can be written",
        "check the folder and the disk",
    )


def _refused(
    place: Path, received: str, expected: str = "a whole, unaltered checkpoint", remedy: str = ""
) -> CheckpointError:
    earlier = previous_of(place)
    if is_sound(earlier):
        remedy = f"the previous one is sound: load {earlier}, or rename it to {place.name}"
        return CheckpointError(str(place), received, expected, remedy, previous=str(earlier))
    if not place.exists():
        return CheckpointError(str(place), "no such file", "a saved model", "check the path")
    if received == NO_CHECKPOINT:
        remedy = "name the file of a model, or start over"
        return CheckpointError(str(place), received, "a saved model", remedy)
    expected += ", and no previous one is there"
    return CheckpointError(str(place), received, expected, remedy or "start over")


def _replace(place: Path, content: bytes) -> None:
    """Write beside, force to disk, keep the old one, rename over it, force the folder to disk."""
    _sweep(place)
    mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else None
    fresh = beside(place, "new")
    try:
        _write(fresh, content, mode)
        # A damaged file must not push out a sound previous one.
        if is_sound(place):
            _keep(place)
        os.replace(fresh, place)  # noqa: PTH105 (one place for tests to make it fail)
    finally:
        fresh.unlink(missing_ok=True)
    sync_folder(place.parent)


def beside(place: Path, ending: str) -> Path:
    """A name that nobody can predict, nor another process of a shared folder choose."""
    return place.with_name(f".{place.name}.{secrets.token_hex(8)}.{ending}")


@contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """A path to write to, renamed to `place` when all went well: no reader sees half of a file."""
    fresh = beside(place, "new")
    try:
        yield fresh
        fresh.replace(place)
    finally:
        fresh.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as fresh:
        fresh.write_text(text, encoding="utf-8")


def _write(path: Path, content: bytes, mode: int | None) -> None:
    """A new file of this content on the disk; refused by the system if the name is taken."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, 0o666 if mode is None else mode)
    try:
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(handle, mode)  # what the umask took away
        rest = memoryview(content)
        while rest:
            written = os.write(handle, rest)
            if not written:
                raise OSError(errno.EIO, "nothing was written")
            rest = rest[written:]
        os.fsync(handle)
    finally:
        os.close(handle)


def _keep(place: Path) -> None:
    """Make the old file the previous one while it also stays where it is: no moment without it."""
    spare = beside(place, "old")
    try:
        try:
            os.link(place, spare)
        except OSError:  # a file system without hard links
            _write(spare, place.read_bytes(), stat.S_IMODE(place.stat().st_mode))
        os.replace(spare, previous_of(place))  # noqa: PTH105
    finally:
        # After a kill between the two renames both names stand for one file, and renaming is idle.
        spare.unlink(missing_ok=True)


def _sweep(place: Path) -> None:
    """Remove what a process that was killed while saving has left: the lock is ours."""
    pattern = re.compile(rf"\.{re.escape(place.name)}\.[0-9a-f]{{16}}\.(new|old)")
    for other in place.parent.iterdir():
        if pattern.fullmatch(other.name):
            other.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
