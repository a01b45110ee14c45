"""What was sold, by article."""

from collections import namedtuple

Sold = namedtuple("Sold", "sku qty amount")


def sold(orders, min_qty=1):
    qty_of, amount_of = {}, {}
    for order in orders:
        for line in order.lines:
            qty_of[line.sku] = qty_of.get(line.sku, 0) + line.qty
            amount_of[line.sku] = amount_of.get(line.sku, 0) + line.amount
    rows = [Sold(sku, qty, amount_of[sku]) for sku, qty in qty_of.items() if qty >= min_qty]
    return sorted(rows, key=lambda each: (-each.qty, each.sku))


def table(rows):
    return "\n".join("{sku:<10}{qty:>5}{amount:>10}".format(**each._asdict()) for each in rows)
