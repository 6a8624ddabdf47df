import os
import subprocess
import sys
import tempfile
import unittest
from decimal import Decimal

from ledger import LedgerError, balances, monthly, read

TEXT = """date,account,amount
2026-01-31,rent,-800.00
2026-02-01,pay,2100.10
2026-02-28, rent ,-800.00
"""


class Book(unittest.TestCase):
    def test_balances(self):
        self.assertEqual(balances(read(TEXT.splitlines())), {"pay": Decimal("2100.10"), "rent": Decimal("-1600.00")})

    def test_monthly(self):
        self.assertEqual(monthly(read(TEXT.splitlines())), {"2026-01": Decimal("-800.00"), "2026-02": Decimal("1300.10")})

    def test_bad_lines_are_named(self):
        for line in ("2026-13-01,a,1", "2026-01-01,a,one", "2026-01-01,a"):
            with self.subTest(line), self.assertRaisesRegex(LedgerError, "line 2"):
                list(read(["date,account,amount", line]))

    def test_program(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as f:
            f.write(TEXT)
            f.flush()
            out = subprocess.run(
                [sys.executable, "-m", "ledger", f.name], check=True, capture_output=True, text=True,
                cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
            ).stdout
        self.assertEqual([line.split() for line in out.splitlines()], [["pay", "2100.10"], ["rent", "-1600.00"]])


if __name__ == "__main__":
    unittest.main()
