import subprocess
import sys
import unittest
from decimal import Decimal
from unittest import mock

import currency
from currency import convert, fetch_rate, fetch_rates, prefetch_rate
from currency.rates import UnknownCurrency


class RateTest(unittest.TestCase):
    def test_fetch_rate(self):
        self.assertEqual(fetch_rate("eur", "USD"), Decimal("1.08"))
        self.assertEqual(fetch_rate("USD", "JPY"), Decimal("150"))

    def test_fetch_rates(self):
        self.assertEqual(sorted(fetch_rates("EUR")), ["CHF", "GBP", "JPY", "SEK", "USD"])

    def test_prefetch_rate(self):
        prefetch_rate("GBP", "SEK")
        with mock.patch("currency.rates._compute", side_effect=AssertionError):
            fetch_rate("SEK", "GBP")

    def test_an_unknown_currency(self):
        with self.assertRaisesRegex(UnknownCurrency, "fetch_rate: unknown currency XXX"):
            fetch_rate("EUR", "XXX")

    def test_convert(self):
        self.assertEqual(convert(20, "USD", "JPY"), Decimal("3000"))
        with mock.patch("currency.rates.fetch_rate", return_value=Decimal("2.005")):
            self.assertEqual(convert(1, "EUR", "USD"), Decimal("2.01"))

    def test_exports(self):
        for name in currency.__all__:
            self.assertTrue(callable(getattr(currency, name)), name)

    def test_command_line(self):
        command = [sys.executable, "-m", "currency", "rate", "EUR", "GBP"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "0.860000\n")


if __name__ == "__main__":
    unittest.main()
