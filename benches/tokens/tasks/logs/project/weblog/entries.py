"""Lines of an access log."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    time: str
    address: str
    user: str
    method: str
    path: str
    status: int
    size: int
    millis: int


def parse(line):
    time, address, user, method, path, status, size, millis = line.split(" ")
    return Entry(time, address, user, method, path, int(status), int(size), int(millis))


def read(path):
    """The entries of a log."""
    with open(path, encoding="utf-8") as file:
        return [parse(line.rstrip("\n")) for line in file if line.strip()]
