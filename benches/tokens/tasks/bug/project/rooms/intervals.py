"""Stretches of time, in minutes since midnight."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Interval:
    start: int
    end: int

    def __post_init__(self):
        if self.end <= self.start:
            raise ValueError(f"ends before it starts: {self}")

    def overlaps(self, other):
        """Whether some minute belongs to both."""
        return self.start <= other.end and other.start <= self.end

    def within(self, other):
        return other.start <= self.start and self.end <= other.end

    def __str__(self):
        return f"{clock(self.start)}-{clock(self.end)}"


def minutes(text):
    """The minutes of a time such as 09:30."""
    hours, _, rest = text.strip().partition(":")
    value = int(hours) * 60 + int(rest)
    if not 0 <= value <= 24 * 60:
        raise ValueError(f"not a time of day: {text}")
    return value


def clock(value):
    return f"{value // 60:02}:{value % 60:02}"


def merge(intervals):
    """The same minutes in as few intervals as possible, in order."""
    merged = []
    for interval in sorted(intervals):
        if merged and merged[-1].overlaps(interval):
            last = merged.pop()
            interval = Interval(last.start, max(last.end, interval.end))
        merged.append(interval)
    return merged
