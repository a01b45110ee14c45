"""Prints a table of rates: python3 scripts/print_table.py USD EUR GBP"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

from currency import fetch_rate as rate_of, prefetch_rate  # noqa: E402


def main(codes):
    for source in codes:
        for target in codes:
            prefetch_rate(source, target)
    for source in codes:
        print(source, *(rate_of(source, target) for target in codes))


main(sys.argv[1:] or ["EUR", "USD"])
