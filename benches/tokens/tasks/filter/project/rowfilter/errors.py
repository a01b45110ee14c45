"""What is wrong with a filter."""


class FilterError(Exception):
    def __init__(self, position, message):
        super().__init__(f"position {position}: {message}")
        self.position = position


class UnknownField(Exception):
    """The table has no such column."""
