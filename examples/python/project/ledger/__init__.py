"""Sums of a ledger: a CSV file with the columns date, account and amount."""

from ledger.book import Entry, LedgerError, balances, monthly, read

__all__ = ["Entry", "LedgerError", "balances", "monthly", "read"]
