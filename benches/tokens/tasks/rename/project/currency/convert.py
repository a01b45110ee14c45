"""Amounts in another currency."""

from decimal import ROUND_HALF_UP, Decimal

from currency import rates
from currency.table import PLACES


def convert(amount, source, target):
    """The amount in `target`, rounded to its smallest unit."""
    places = PLACES.get(target.upper(), 2)
    exact = Decimal(amount) * rates.fetch_rate(source, target)
    return exact.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
