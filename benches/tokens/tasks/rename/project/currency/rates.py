"""Rates between any two currencies of the table."""

from decimal import Decimal

from currency.table import EURO

_cache = {}


class UnknownCurrency(KeyError):
    """The table does not have it."""


def fetch_rate(source, target):
    """How much of `target` one of `source` is."""
    key = (source.upper(), target.upper())
    if key not in _cache:
        _cache[key] = _compute(*key)
    return _cache[key]


def fetch_rates(base):
    """All rates of a base, by currency. See `fetch_rate` for one."""
    return {target: fetch_rate(base, target) for target in EURO if target != base.upper()}


def prefetch_rate(source, target):
    """Fills the cache, so that `fetch_rate` does not compute."""
    fetch_rate(source, target)
    fetch_rate(target, source)


def _compute(source, target):
    for code in (source, target):
        if code not in EURO:
            raise UnknownCurrency(f"fetch_rate: unknown currency {code}")
    return (EURO[target] / EURO[source]).quantize(Decimal("0.000001"))
