"""python -m ledger FILE: print the balance of each account."""

import sys

from ledger import balances, read


def main(argv):
    if len(argv) != 2:
        print("usage: python -m ledger FILE", file=sys.stderr)
        return 2
    with open(argv[1], newline="", encoding="utf-8") as f:
        for account, amount in balances(read(f)).items():
            print(f"{account:20} {amount:>12}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
