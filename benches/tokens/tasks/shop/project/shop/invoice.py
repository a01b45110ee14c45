"""An invoice as text."""

from shop.pricing import discount_of

TITLES = ("Article", "Qty", "Price", "Amount")


def money(cents):
    return f"{cents // 100}.{cents % 100:02}"


def row(sku, qty, price, amount):
    return f"{sku:<10}{qty:>5}{price:>10}{amount:>10}"


def invoice(order):
    lines = [f"Invoice {order.number} for {order.customer}", "", row(*TITLES)]
    discount = 0
    for line in order.lines:
        lines.append(row(line.sku, line.qty, money(line.price), money(line.amount)))
        discount += discount_of(line)
    if discount:
        lines.append(row("discount", "", "", "-" + money(discount)))
    lines.append(row("total", order.total_qty, "", money(order.amount - discount)))
    return "\n".join(lines)
