"""Bookings as a CSV file."""

import csv

from rooms.intervals import Interval, clock, minutes
from rooms.schedule import Schedule

FIELDS = ["room", "start", "end", "who"]


def load(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return Schedule(
        (row["room"], Interval(minutes(row["start"]), minutes(row["end"])), row["who"]) for row in rows
    )


def save(schedule, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for room, interval, who in sorted(schedule.bookings):
            writer.writerow([room, clock(interval.start), clock(interval.end), who])
