"""What a filter is made of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    field: str
    operator: str
    value: str


@dataclass(frozen=True)
class And:
    parts: tuple
