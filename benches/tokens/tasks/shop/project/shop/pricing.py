"""Discounts by number of pieces."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Discount:
    min_qty: int
    percent: int

    def applies_to(self, line):
        return line.qty >= self.min_qty

    def of(self, line):
        """What is taken off, in cents."""
        return line.amount * self.percent // 100


DISCOUNTS = [Discount(min_qty=50, percent=10), Discount(min_qty=10, percent=5)]


def discount_of(line, discounts=None):
    """The discount of a line, in cents: that of the greatest min_qty that it reaches."""
    reached = [each for each in discounts or DISCOUNTS if each.applies_to(line)]
    if not reached:
        return 0
    return max(reached, key=lambda each: each.min_qty).of(line)
