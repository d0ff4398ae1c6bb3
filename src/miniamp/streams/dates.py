"""Dates: recognised in typed columns and in text, and expanded into a few features."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.streams.cells import CellError, arrow_values, as_texts, first_texts, is_text
from miniamp.streams.pieces import Cells, needed

#: Days are counted from here.
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
#: The same in days from the beginning of 1970, where Arrow counts from.
_EPOCH_DAY = 10957
YEAR, WEEK = 365.2425, 7
#: Features of a date, and those added for a time of day. A linear model needs a trend, the season
#: as a point on a circle (December is next to January), and a level for each day of the week.
DATE_PARTS = ("days", "year_sin", "year_cos", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
TIME_PARTS = (*DATE_PARTS, "day_sin", "day_cos")

_CLOCK = r"(?P<clock>[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?)?"
_DAY = r"(?P<day>\d\d?)"
_MONTH_NAME = r"(?P<month>[A-Za-z]{3,9})\.?"
#: Texts of which every reader has the same day in mind: year first, with the month's name, and the
#: German 31.12.2024.
_FORMS = [
    re.compile(form + _CLOCK, re.ASCII)
    for form in (
        rf"(?P<year>\d{{4}})([-/.])(?P<month>\d\d?)\2{_DAY}",
        rf"{_DAY}\.(?P<month>\d\d?)\.(?P<year>\d{{4}})",
        rf"{_DAY}[ -]{_MONTH_NAME}[ -](?P<year>\d{{4}})",
        rf"{_MONTH_NAME} {_DAY},? (?P<year>\d{{4}})",
    )
]
#: Is 03/04/2020 in March or in April?
_UNCLEAR = re.compile(r"\d\d?([/-])\d\d?\1(\d\d|\d{4})( .*)?", re.ASCII)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)


def are_dates(columns: Sequence[Cells]) -> bool:
    """Whether a column has dates: by its type, or because each of its texts is one."""
    found = False
    for cells in columns:
        if not is_text(cells):
            return _has_date_type(cells)
        for text in first_texts(cells):
            if not isinstance(text, str) or _iso(text) is None:
                return False
            found = True
    return found


def refuse_unclear(name: str, columns: Sequence[Cells]) -> None:
    """Refuse a column of dates of which one cannot tell whether the day or the month is first."""
    texts = itertools.chain.from_iterable(map(first_texts, filter(is_text, columns)))
    first = next(texts, None)
    if isinstance(first, str) and all(
        isinstance(text, str) and _UNCLEAR.fullmatch(text)
        for text in itertools.chain([first], texts)
    ):
        raise checks.refuse(
            f"column {name!r}",
            f"dates such as {first!r}, which may begin with the day or the month",
            "dates with the year first, such as 2024-12-31",
            f"convert them, or leave them out with {{keep=['{name}']|{name}}}",
        )


def _iso(text: str) -> str | None:
    """The date as 2024-12-31, and its time of day; None if it is none.

    Examples
    --------
    >>> [_iso(text) for text in ("2024/1/31", "Jan 31, 2024", "31.1.2024 06:00", "mayor 1 2024")]
    ['2024-01-31', '2024-01-31', '2024-01-31 06:00', None]
    """
    found = next((match for form in _FORMS if (match := form.fullmatch(text))), None)
    if found is None:
        return None
    month = found["month"].lower()
    if not month.isdecimal():
        named = [k for k, name in enumerate(_MONTHS, 1) if name.startswith(month)]
        if not named:
            return None
        month = str(named[0])
    return f"{found['year']}-{month:0>2}-{found['day']:0>2}{found['clock'] or ''}"


def _has_date_type(cells: Cells) -> bool:
    if isinstance(cells, np.ndarray):
        return cells.dtype.kind == "M"
    types = needed("pyarrow", "reading Arrow data").types
    return bool(types.is_date(cells.type) or types.is_timestamp(cells.type))


def have_clock(columns: Sequence[Cells]) -> bool:
    """Whether one of the dates has a time of day."""
    try:
        return any((as_days(cells) % 1.0 > 0.0).any() for cells in columns)
    except CellError:  # no date, which the reader refuses with its row
        return False


def as_days(cells: Cells) -> Array:
    """Days since the beginning of 2000 (UTC) as float64, NaN where a value is missing.

    Examples
    --------
    >>> as_days(np.array(["2000-01-02", "2000-01-01T06:00Z", None], dtype=object))
    array([1.  , 0.25,  nan])
    """
    if not is_text(cells):
        if isinstance(cells, np.ndarray):
            since = cells.astype("datetime64[us]") - np.datetime64("2000-01-01", "us")
            return np.asarray(since / np.timedelta64(1, "D"))
        pa = needed("pyarrow", "reading Arrow data")
        micro = cells.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return arrow_values(micro.cast(pa.float64(), safe=False)) / 86.4e9 - _EPOCH_DAY
    texts = as_texts(cells).tolist()
    return np.array([_days(text, i) for i, text in enumerate(texts)], dtype=np.float64)


def _days(text: str | None, index: int) -> float:
    if text is None:
        return np.nan
    try:
        moment = datetime.fromisoformat(_iso(text) or "")
    except ValueError:
        raise CellError(index, text) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (moment - EPOCH).total_seconds() / 86400.0


def expanded(days: Array, parts: Sequence[str]) -> Array:
    """The features of dates, (k, len(parts)); NaN where one is missing.

    Examples
    --------
    >>> expanded(np.array([0.0]), DATE_PARTS).tolist()  # a Saturday
    [[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]]
    """
    turn = 2.0 * np.pi * days
    weekday = (np.floor(days) + 5) % WEEK  # 2000 began on a Saturday
    known = np.where(np.isnan(days), np.nan, 1.0)
    columns = [days, np.sin(turn / YEAR), np.cos(turn / YEAR)]
    columns += [known * (weekday == j) for j in range(WEEK)]
    columns += [np.sin(turn), np.cos(turn)]
    return np.stack(columns[: len(parts)], axis=1)
