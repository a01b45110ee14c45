"""Exchange rates."""

from currency.convert import convert
from currency.rates import fetch_rate, fetch_rates, prefetch_rate

__all__ = ["convert", "fetch_rate", "fetch_rates", "prefetch_rate"]
