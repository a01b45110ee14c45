"""Whether a filter holds for a row."""

import operator

from rowfilter.errors import UnknownField
from rowfilter.nodes import And, Comparison

FUNCTIONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(node, row):
    if isinstance(node, And):
        return all(holds(part, row) for part in node.parts)
    if isinstance(node, Comparison):
        return compare(field_of(row, node.field), node.operator, node.value)
    raise TypeError(f"no node: {node!r}")


def check_fields(node, columns):
    """Fails if the filter names a column that is not there, even if no row asks for it."""
    if isinstance(node, And):
        for part in node.parts:
            check_fields(part, columns)
    elif node.field not in columns:
        raise UnknownField(f"there is no column {node.field}; there are {', '.join(columns)}")


def field_of(row, name):
    return row[name]


def compare(left, symbol, right):
    if symbol == "~":
        return right.lower() in left.lower()
    pair = numbers(left, right) or (left, right)
    return FUNCTIONS[symbol](*pair)


def numbers(left, right):
    try:
        return float(left), float(right)
    except ValueError:
        return None
