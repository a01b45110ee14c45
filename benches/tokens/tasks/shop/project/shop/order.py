"""What a customer ordered."""

from dataclasses import dataclass, field


class BadLine(ValueError):
    """What was given makes no line of an order."""


@dataclass
class Line:
    sku: str
    qty: int
    price: int

    def __post_init__(self):
        if self.qty < 1:
            raise BadLine(f"{self.sku}: qty must be 1 or more, not {self.qty}")

    @property
    def amount(self):
        return self.qty * self.price


@dataclass
class Order:
    number: int
    customer: str
    lines: list = field(default_factory=list)

    @property
    def total_qty(self):
        return sum(line.qty for line in self.lines)

    @property
    def amount(self):
        return sum(line.amount for line in self.lines)

    def add(self, line):
        """Adds a line; one of the same article grows instead."""
        for known in self.lines:
            if known.sku == line.sku and known.price == line.price:
                known.qty += line.qty
                return known
        self.lines.append(line)
        return line

    def change(self, sku, qty):
        """Another number of pieces; 0 removes the line."""
        for line in self.lines:
            if line.sku == sku:
                if qty == 0:
                    self.lines.remove(line)
                else:
                    line.qty = qty
                return
        raise BadLine(f"{sku}: not in order {self.number}")
