"""How much of each currency a euro is."""

from decimal import Decimal

EURO = {
    "EUR": Decimal("1"),
    "USD": Decimal("1.08"),
    "GBP": Decimal("0.86"),
    "JPY": Decimal("162.00"),
    "CHF": Decimal("0.96"),
    "SEK": Decimal("11.25"),
}

# Decimal places of the smallest unit, where they are not two.
PLACES = {"JPY": 0}
