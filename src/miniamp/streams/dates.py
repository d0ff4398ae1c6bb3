"""Dates: recognised in typed columns and in ISO text, and expanded into a few features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time

import numpy as np

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

_ISO = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)


def are_dates(columns: Sequence[Cells]) -> bool:
    """Whether a column has dates: by its type, or because each of its texts is one."""
    found = False
    for cells in columns:
        if not is_text(cells):
            return _has_date_type(cells)
        for text in first_texts(cells):
            if not isinstance(text, str) or not _ISO.fullmatch(text):
                return False
            found = True
    return found


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
        if len(text) == 10:
            moment = datetime.combine(date.fromisoformat(text), time(), UTC)
        else:
            moment = datetime.fromisoformat(text)
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
