"""Dates as texts in the forms of the world, and the features that they become."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import numpy as np

from miniamp.arrays import Array

#: Days are counted from here.
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
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
#: Those in which the day or the month is first.
DATE_KINDS |= {f"{kind}, {o}": DATE_KINDS[kind] for kind in (*DATE_KINDS,) for o in ("dmy", "mdy")}
#: Fewer different dates than this may be on the same day of the month by chance.
FEW_DATES = 4

_CLOCK = (
    r"([T ](?P<hour>\d?\d)(?P<minute>:\d\d(:\d\d(\.\d{1,9})?)?)( ?(?P<half>[AaPp])[Mm])?"
    r"(?P<zone>Z|[+-]\d\d(:?\d\d)?)?)?"
)
_DAY, _MONTH = r"(?P<day>\d\d?)", r"(?P<month>\d\d?)"
_MONTH_NAME, _YEAR = r"(?P<month>[A-Za-z]{3,9})\.?", r"(?P<year>\d{4})"
_SHORT_YEAR = r"(?P<year>\d{4}|\d\d)"
#: Texts of which every reader has the same day in mind: year first, with the month's name, and the
#: German 31.12.2024. Weeks, months and quarters are
#: their first day.
_FORMS = [
    rf"{_YEAR}([-/.]){_MONTH}\2{_DAY}",
    rf"{_DAY}\.{_MONTH}\.{_YEAR}",
    rf"{_DAY}[ -]{_MONTH_NAME}[ -]{_SHORT_YEAR}",
    rf"{_MONTH_NAME} {_DAY},? {_YEAR}",
    rf"{_MONTH_NAME}[ -]{_YEAR}",
    rf"{_YEAR}[ -]?(?P<month>0[1-9]|1[0-2]|[QqWw]\d\d?|[A-Za-z]{{3,9}})",
]
#: Is 03/04/2020 in March or in April? Other dates of the column may show it.
UNCLEAR = re.compile(r"\d\d?([/-])\d\d?\1(\d\d|\d{4})( .*)?", re.ASCII)
EXAMPLES = {"": "2024-12-31", "dmy": "31/12/2024", "mdy": "12/31/2024"}
_ORDERS = {
    "": _FORMS,
    "dmy": [rf"{_DAY}([/-]){_MONTH}\2{_SHORT_YEAR}"],
    "mdy": [rf"{_MONTH}([/-]){_DAY}\2{_SHORT_YEAR}"],
}
_COMPILED = {o: [re.compile(f + _CLOCK, re.ASCII) for f in forms] for o, forms in _ORDERS.items()}
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)


def iso(text: str, order: str = "") -> str | None:
    """The date as 2024-12-31, and its time of day; None if it is none, in this order.

    Examples
    --------
    >>> [iso(text) for text in ("2024/1/31", "Jan 31, 2024", "31.1.2024 06:00", "mayor 1 2024")]
    ['2024-01-31', '2024-01-31', '2024-01-31 06:00', None]
    >>> iso("2/3/99 1:30 PM", "mdy"), iso("2/3/99", "dmy"), iso("1998 Q2"), iso("2019-20")
    ('1999-02-03 13:30', '1999-03-02', '1998-04-01', None)
    """
    found = next((match for form in _COMPILED[order] if (match := form.fullmatch(text))), None)
    if found is None:
        return None
    year, month, day = found["year"], found["month"].lower(), found.groupdict().get("day", "1")
    if month[0] == "w":
        return f"{year}-{month.upper()}"
    if month in ("q1", "q2", "q3", "q4"):
        month = str(3 * int(month[1]) - 2)
    elif not month.isdecimal():
        named = [k for k, name in enumerate(_MONTHS, 1) if name.startswith(month)]
        if not named:
            return None
        month = str(named[0])
    if len(year) == 2:  # as POSIX does
        year = f"{20 if year < '69' else 19}{year}"
    clock = ""
    if found["hour"]:
        hour, half = int(found["hour"]), (found["half"] or "").lower()
        hour = hour % 12 + 12 * (half == "p") if half else hour
        clock = f" {hour:02}{found['minute']}{found['zone'] or ''}"
    return f"{year}-{month:0>2}-{day:0>2}{clock}"


def day_order(texts: Iterable[str]) -> str:
    """Whether the day is first, "dmy", or the month, "mdy"; "" if these texts do not show it.

    Examples
    --------
    >>> [day_order([text, "1/2/2024"]) for text in ("13/2/2024", "2/13/2024", "2/2/2024")]
    ['dmy', 'mdy', '']
    """
    first, second = np.array([re.split("[/-]", text)[:2] for text in texts], dtype=int).max(axis=0)
    return {(True, False): "dmy", (False, True): "mdy"}.get((first > 12, second > 12), "")


def days_of(text: str, order: str = "") -> float:
    """Days since the beginning of 2000 (UTC); ValueError if the text is no date."""
    moment = datetime.fromisoformat(iso(text, order) or "")
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
