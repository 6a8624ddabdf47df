"""Reading and summing. Amounts are decimals, never floats."""

import csv
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation


class LedgerError(ValueError):
    """A line that cannot be read; the message names it."""


@dataclass(frozen=True)
class Entry:
    day: date
    account: str
    amount: Decimal


def read(lines):
    """Yield the entries of a ledger; lines is an open text file or a list of lines."""
    rows = csv.DictReader(lines)
    for row in rows:
        try:
            yield Entry(date.fromisoformat(row["date"]), row["account"].strip(), Decimal(row["amount"]))
        except (KeyError, AttributeError, TypeError, ValueError, InvalidOperation) as e:
            raise LedgerError(f"line {rows.line_num}: {row}") from e


def balances(entries):
    """The balance of each account, by name."""
    sums = defaultdict(Decimal)
    for e in entries:
        sums[e.account] += e.amount
    return dict(sorted(sums.items()))


def monthly(entries):
    """The sum of each month, as YYYY-MM, in order."""
    sums = defaultdict(Decimal)
    for e in entries:
        sums[e.day.strftime("%Y-%m")] += e.amount
    return dict(sorted(sums.items()))
