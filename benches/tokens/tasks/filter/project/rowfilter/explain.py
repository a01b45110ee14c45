"""A filter as an indented tree."""

from rowfilter.nodes import And


def explain(node, depth=0):
    indent = "  " * depth
    if isinstance(node, And):
        return "\n".join([indent + "and", *(explain(part, depth + 1) for part in node.parts)])
    return f"{indent}{node.field} {node.operator} {quoted(node.value)}"


def quoted(value):
    return "'" + value.replace("'", "''") + "'"
