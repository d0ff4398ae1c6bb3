"""Cells to numbers, texts or dates, whatever array type the column came in."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import InvalidInputError, verbatim
from miniamp.streams.base import Cells

if TYPE_CHECKING:
    import pyarrow as pa

#: Texts that mean "no value", in any case; as pandas, R and databases write them.
MISSING_TEXTS = frozenset(["", "na", "n/a", "#n/a", "nan", "-nan", "null", "<na>", "nat", "?"])
#: Words that mean it among numbers and dates only: "none" is a sewer, an airbag, a heating. SAS
#: and Stata write a point. A single "-" is a class beside "+", and zero in accounts.
MISSING_WORDS = frozenset(["none", "nil", "missing", ".", "--"])

Texts = NDArray[np.object_]
#: Values that show whether a column has text: a few if all are numbers, else these.
FEW_VALUES, MANY_VALUES = 16, 1000
#: A number as it is written in half of the world.
DECIMAL_COMMA = re.compile(r"\s*[-+]?(\d+|\d{1,3}(\.\d{3})+),\d+\s*")
#: And one that may be in thousands as well.
THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")
#: An amount, which has a currency, a percent sign, or commas that can only be between thousands.
_AMOUNT = re.compile(
    r"(?P<sign>[-+]?)[$€£¥]? ?(?P<digits>\d{1,3}(,\d{3})+(\.\d*)?|\d+\.?\d*|\.\d+) ?[%€]?", re.ASCII
)

#: Days are counted from here.
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
#: The same in days from the beginning of 1970, where Arrow counts from.
_EPOCH_DAY = 10957
YEAR, WEEK = 365.2425, 7
#: Features of a date, and those added for a time of day. A linear model needs a trend, the season
#: as a point on a circle (December is next to January), and a level for each day of the week.
DATE_PARTS = ("days", "year_sin", "year_cos", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: The parts of each kind of date: the first ones of all. Yearly dates have no season, and monthly
#: ones no days of the week: a season of yearly dates was -1e7 +- 5e7 beside the intercept.
DATE_KINDS = {
    "date": DATE_PARTS,
    "datetime": (*DATE_PARTS, "day_sin", "day_cos"),
    "month": DATE_PARTS[:3],
    "year": DATE_PARTS[:1],
}
#: Fewer different dates than this may be on the same day of the month by chance.
FEW_DATES = 4

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


class CellError(Exception):
    """A cell that cannot be read as asked: its index within the piece, and what it holds."""

    def __init__(self, index: int, value: object) -> None:
        super().__init__(index, value)
        self.index = index
        self.value = value


class ColumnTypeError(Exception):
    """A whole column of a type that is neither number nor text, such as dates or lists."""


def _type_of(cells: Cells) -> str:
    """What a column came as: "text" (or objects, whose cells decide), "number" or "date"; or ""."""
    if isinstance(cells, np.ndarray):
        kinds = {"OUST": "text", "fiub": "number", "M": "date"}
        return next((name for kind, name in kinds.items() if cells.dtype.kind in kind), "")
    types = checks.needed("pyarrow", "reading Arrow data").types
    kind = cells.type.value_type if types.is_dictionary(cells.type) else cells.type
    known = {
        "text": (types.is_string, types.is_large_string, types.is_string_view, types.is_null),
        "number": (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal),
        "date": (types.is_date, types.is_timestamp),
    }
    return next((name for name, tests in known.items() if any(test(kind) for test in tests)), "")


def _readable_type(cells: Cells) -> str:
    """The same for a column to be read as numbers or text; others are refused."""
    found = _type_of(cells)
    if found not in ("text", "number"):
        raise ColumnTypeError(f"{cells.dtype if isinstance(cells, np.ndarray) else cells.type}")
    return found


def is_text(cells: Cells) -> bool:
    """Whether the column came as text (or as objects), so that its cells decide what it is."""
    return _type_of(cells) == "text"


def first_texts(cells: Cells) -> Iterator[str | bool]:
    """Cell by cell of a column that came as text or objects: True for a number, else its text.

    Missing ones, and words that may mean it, are left out. Lazy: the first cell of a wide table
    often settles the matter.
    """
    for begin in range(0, len(cells), 16):
        part = cells[begin : begin + 16]
        raw = part.tolist() if isinstance(part, np.ndarray) else part.to_pylist()
        for cell, text in zip(raw, as_texts(part), strict=True):
            if text is not None and text.lower() not in MISSING_WORDS:
                yield True if is_number(cell) else text


def likely_type(columns: Sequence[Cells], share: float = 0.5) -> str:
    """What a column is by its first values: "number", "text", "date", or "unclear" dates.

    It is text where more than a `share` of its values are no numbers. A column where a few values
    are no numbers is a number column with mistakes, and is left for the reader to refuse with row
    and value; so are numbers with a decimal comma. A column whose first values are all numbers is
    not looked at further: tables may be wide. Of dates, each value must be one; they are unclear
    where one cannot tell whether the day or the month is first.
    """
    types = [_type_of(cells) for cells in columns]
    if "text" not in types or types[0] == "date":
        return "date" if types[:1] == ["date"] else "number"
    count = texts = commas = dates = unclear = 0
    for found in itertools.chain.from_iterable(map(first_texts, filter(is_text, columns))):
        count += 1
        if isinstance(found, str):
            texts += 1
            commas += DECIMAL_COMMA.fullmatch(found) is not None
            dates += _iso(found) is not None
            unclear += _UNCLEAR.fullmatch(found) is not None
        few = count == FEW_VALUES and not texts
        if few or (count >= MANY_VALUES and count not in (dates, unclear)):
            break
    for kind, those in (("date", dates), ("unclear", unclear)):
        if count and those == count:
            return kind
    return "text" if texts > share * count and commas < texts else "number"


def unclear_dates(name: str, columns: Sequence[Cells]) -> InvalidInputError:
    """The error for dates of which one cannot tell whether the day or the month is first."""
    first = next(text for cells in filter(is_text, columns) for text in first_texts(cells))
    return checks.refuse(
        f"column {name!r}",
        f"dates such as {first!r}, which may begin with the day or the month",
        "dates with the year first, such as 2024-12-31",
        f"convert it, or {leave_out(name)}",
    )


def is_number(cell: object) -> bool:
    """Whether a cell can be read as a number, or as missing."""
    try:
        parsed(cell)
    except CellError:
        return False
    return True


def as_numbers(cells: Cells) -> Array:
    """The column as float64, NaN where a value is missing.

    Examples
    --------
    >>> as_numbers(np.array(["1.5", " 2 ", "NA", None], dtype=object))
    array([1.5, 2. , nan, nan])
    """
    sort = _readable_type(cells)
    if isinstance(cells, np.ndarray):
        return np.asarray(cells, dtype=np.float64) if sort == "number" else _parsed(cells.tolist())
    pa = checks.needed("pyarrow", "reading Arrow data")
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.int8())
    try:
        return arrow_values(cells.cast(pa.float64(), safe=False))
    except pa.ArrowInvalid:  # a blank around a number, a rare word for missing, or no number at all
        return _parsed(cells.to_pylist())


def side_by_side(columns: Sequence[Cells], dtype: np.dtype[np.float64]) -> Array | None:
    """All columns as one matrix of numbers, or None if they must be read one by one.

    Only for Arrow columns of one type, which are converted in a single call: with thousands of
    columns the calls would cost more than the numbers.
    """
    arrays = [column for column in columns if not isinstance(column, np.ndarray)]
    if not arrays or len(arrays) < len(columns) or any(c.type != arrays[0].type for c in arrays):
        return None
    pa = checks.needed("pyarrow", "reading Arrow data")
    if not (pa.types.is_floating(arrays[0].type) or pa.types.is_string(arrays[0].type)):
        return None
    try:
        flat = pa.chunked_array(arrays)
        flat = flat if pa.types.is_float64(flat.type) else flat.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    X = np.empty((len(arrays[0]), len(arrays)), dtype=dtype)
    values = [arrow_values(chunk) for chunk in flat.chunks]  # casting may have joined them
    ends = values if len(values) == len(arrays) else np.split(np.concatenate(values), len(arrays))
    for j, column in enumerate(ends):
        X[:, j] = column
    return X


def as_texts(cells: Cells, *, any_type: bool = False) -> Texts:
    """The column as str objects, None where a value is missing; not of lists, unless of `any_type`.

    Whole numbers lose their ".0", so that a class is called "3" in a CSV, a Parquet file and
    a frame; dates are ISO texts.

    Examples
    --------
    >>> as_texts(np.array([1.0, 2.5, np.nan]))
    array(['1', '2.5', None], dtype=object)
    >>> as_texts(np.array(["2024-12-31", "NaT"], dtype="datetime64[ns]"))
    array(['2024-12-31', None], dtype=object)
    """
    if _type_of(cells) == "date":  # numpy gives nanoseconds as plain numbers
        cells = cells.astype("datetime64[us]") if isinstance(cells, np.ndarray) else cells
    elif not any_type:
        _readable_type(cells)
    values = cells.tolist() if isinstance(cells, np.ndarray) else cells.to_pylist()
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [_text(cell) for cell in values]
    return texts


def _text(cell: object) -> str | None:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    text = str(cell).strip()
    text = text.removesuffix(" 00:00:00") if isinstance(cell, datetime) else text
    return None if text.lower() in MISSING_TEXTS else text


def _parsed(cells: Sequence[object]) -> Array:
    return np.array([parsed(cell, i) for i, cell in enumerate(cells)], dtype=np.float64)


def parsed(cell: object, index: int = 0) -> float:
    """One cell as a float, NaN if missing, CellError if it is neither.

    Examples
    --------
    >>> [parsed(text) for text in ("1e3", "$1,234.50", "45 %", "-1,234,567", "NA")]
    [1000.0, 1234.5, 45.0, -1234567.0, nan]
    """
    if isinstance(cell, (float, int, np.number, np.bool_)):
        try:
            return float(cell)
        except OverflowError:  # a whole number of more than 308 digits; as 1e999 in a text
            return math.inf if cell > 0 else -math.inf
    if cell is None:
        return math.nan
    text = cell.decode(errors="replace") if isinstance(cell, bytes) else str(cell)
    if "_" not in text:  # Python reads 1_000 as a number; no other program does
        try:
            return float(text)
        except ValueError:
            pass
    if text.strip().lower() in MISSING_TEXTS | MISSING_WORDS:
        return math.nan
    amount = _AMOUNT.fullmatch(text.strip())
    if amount and not DECIMAL_COMMA.fullmatch(text):
        return float(amount["sign"] + amount["digits"].replace(",", ""))
    raise CellError(index, cell)


def arrow_values(cells: pa.Array) -> Array:
    """The float64 of an Arrow array as a view, NaN where null; its own way imports pandas."""
    if cells.null_count:
        cells = cells.fill_null(math.nan)
    if not len(cells):
        return np.empty(0)
    return np.frombuffer(cells.buffers()[1], np.float64, len(cells), offset=8 * cells.offset)


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


def date_kind(columns: Sequence[Cells]) -> str:
    """Which of `DATE_KINDS` suits these dates: parts that never vary would be no features."""
    try:
        days = np.concatenate([as_days(cells) for cells in columns])
    except CellError:  # no date, which the reader refuses with its row
        return "date"
    days = np.unique(days[np.isfinite(days)])
    if (days % 1.0 > 0.0).any():
        return "datetime"
    for shift in (0, 1):  # the same day of each month, or its last
        day = np.datetime64("2000-01-01") + (days + shift).astype("timedelta64[D]")
        month = day.astype("datetime64[M]")
        if len(day) >= FEW_DATES and len(np.unique(day - month)) == 1:
            return "year" if len(np.unique(month.astype(int) % 12)) == 1 else "month"
    return "date"


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
        pa = checks.needed("pyarrow", "reading Arrow data")
        micro = cells.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return arrow_values(micro.cast(pa.float64(), safe=False)) / 86.4e9 - _EPOCH_DAY
    texts = as_texts(cells).tolist()
    return np.array([_days(text, i) for i, text in enumerate(texts)], dtype=np.float64)


def _days(text: str | None, index: int) -> float:
    if text is None or text.lower() in MISSING_WORDS:
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


def leave_out(name: str, *, words: bool = False) -> str:
    """The remedy for a column that should be no feature, or one of words."""
    shown = verbatim(name)
    text = f"leave it out with {{keep={verbatim(f'[{name!r}]')}|{shown}}}"
    hashed = verbatim(f"{{{name!r}: 8}}")
    return text + (f", or hash its words with {{hashed={hashed}|{shown}=8}}" if words else "")
