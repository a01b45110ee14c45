"""One thing to do."""

from dataclasses import dataclass


class BadItem(ValueError):
    """What was given makes no item."""


@dataclass
class Item:
    number: int
    text: str
    done: bool = False

    def __post_init__(self):
        self.text = " ".join(self.text.split())
        if not self.text:
            raise BadItem("an item needs a text")

    def line(self):
        """The item as `list` shows it."""
        mark = "x" if self.done else " "
        return f"{self.number:>3} [{mark}] {self.text}"
