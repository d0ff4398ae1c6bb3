"""Cells to numbers, texts or dates, whatever array type the column came in."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import verbatim
from miniamp.streams.base import Cells
from miniamp.streams.dates import EXAMPLES, FEW_DATES, UNCLEAR, day_order, days_of, iso

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
DECIMAL_COMMA = re.compile(
    r"\s*[-+]?[$€£¥]? ?(\d+|\d{1,3}([.'\u2019 \u00a0\u202f]\d{3})+),\d+ ?[%€]?\s*", re.ASCII
)
#: And one that may be in thousands as well.
THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")
#: An amount: with a currency, a percent sign, or what can only be between thousands (also spaces
#: that do not break, as in France, and apostrophes, as in Switzerland). And a comma that may be
#: before decimals.
_AMOUNT = re.compile(
    r"(?P<sign>[-+]?)[$€£¥]? ?"
    r"(?P<digits>\d{1,3}([,'\u2019 \u00a0\u202f]\d{3})+(\.\d*)?|\d+\.?\d*|\.\d+) ?[%€]?",
    re.ASCII,
)
_SINGLE_COMMA = re.compile(r"[-+]?\d{1,3},\d{3}", re.ASCII)
#: The beginning of 2000 in days from the beginning of 1970, where Arrow counts from.
_EPOCH_DAY = 10957


class CellError(Exception):
    """A cell that cannot be read as asked: its index within the piece, and what it holds."""

    def __init__(self, index: int, value: object, expected: str = "a number") -> None:
        super().__init__(index, value)
        self.index, self.value, self.expected = index, value, expected


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
            dates += iso(found) is not None
            unclear += UNCLEAR.fullmatch(found) is not None
        few = count == FEW_VALUES and not texts
        if few or (count >= MANY_VALUES and count not in (dates, unclear)):
            break
    for kind, those in (("date", dates), ("unclear", unclear)):
        if count and those == count:
            return kind
    return "text" if texts > share * count and commas < texts else "number"


def unclear_kind(name: str, columns: Sequence[Cells]) -> str:
    """Which of `DATE_KINDS` suits dates with the day or the month first, as these show."""
    texts = itertools.chain.from_iterable(map(first_texts, filter(is_text, columns)))
    order = day_order(shown := [str(text) for text in texts])
    if not order:
        raise checks.refuse(
            f"column {name!r}",
            f"dates such as {shown[0]!r}, which may begin with the day or the month",
            "dates with the year first, such as 2024-12-31",
            f"convert it, or {leave_out(name)}",
        )
    return f"{date_kind(columns, order)}, {order}"


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
    >>> [parsed(text) for text in ("1e3", "$1,234.50", "45 %", "-1,234,567", "1 234", "NA")]
    [1000.0, 1234.5, 45.0, -1234567.0, 1234.0, nan]
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
    if amount and not _SINGLE_COMMA.fullmatch(text.strip()):
        return float(amount["sign"] + re.sub(r"[^\d.]", "", amount["digits"]))
    raise CellError(index, cell)


def arrow_values(cells: pa.Array) -> Array:
    """The float64 of an Arrow array as a view, NaN where null; its own way imports pandas."""
    if cells.null_count:
        cells = cells.fill_null(math.nan)
    if not len(cells):
        return np.empty(0)
    return np.frombuffer(cells.buffers()[1], np.float64, len(cells), offset=8 * cells.offset)


def date_kind(columns: Sequence[Cells], order: str = "") -> str:
    """Which of `DATE_KINDS` suits these dates: parts that never vary would be no features."""
    try:
        days = np.concatenate([as_days(cells, order) for cells in columns])
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


def as_days(cells: Cells, order: str = "") -> Array:
    """Days since the beginning of 2000 (UTC) as float64, NaN where a value is missing.

    03/04/2024 is read by the `order`, "dmy" or "mdy".

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
    days = np.full(len(cells), np.nan)
    for i, text in enumerate(as_texts(cells)):
        if text is not None and text.lower() not in MISSING_WORDS:
            try:
                days[i] = days_of(text, order)
            except ValueError:
                raise CellError(i, text, f"a date such as {EXAMPLES[order]}") from None
    return days


def leave_out(name: str, *, words: bool = False) -> str:
    """The remedy for a column that should be no feature, or one of words."""
    text = f"leave it out with {{keep={verbatim(f'[{name!r}]')}|{verbatim(name)}}}"
    return text + (f", or {_hash_words(name)}" if words else "")


def about_identifier(name: str) -> str:
    """The warning of a column that is left out, with its remedies."""
    use = f"{{categorical={verbatim(f'[{name!r}]')}|{verbatim(name)}}}"
    what = "is different in most rows, like an identifier, and is left out"
    return f"column {verbatim(repr(name))} {what}; {_hash_words(name)}, or use it with {use}"


def _hash_words(name: str) -> str:
    return f"hash its words with {{hashed={verbatim(f'{{{name!r}: 8}}')}|{verbatim(name)}=8}}"
