"""The command line: FILE list|free|book ROOM [START END WHO]."""

import sys

from rooms import store
from rooms.intervals import Interval, minutes
from rooms.schedule import Taken

USAGE = "usage: rooms FILE list|free ROOM, or rooms FILE book ROOM START END WHO"


def main(arguments, out=sys.stdout):
    if len(arguments) < 3:
        print(USAGE, file=sys.stderr)
        return 2
    path, command, room, *rest = arguments
    schedule = store.load(path)
    if command == "list":
        for _, interval, who in schedule.of(room):
            print(interval, who, file=out)
        print(f"booked: {schedule.load(room)} %", file=out)
    elif command == "free":
        for interval in schedule.free(room):
            print(interval, file=out)
    elif command == "book" and len(rest) == 3:
        start, end, who = rest
        try:
            schedule.add(room, Interval(minutes(start), minutes(end)), who)
        except (Taken, ValueError) as error:
            print(error, file=sys.stderr)
            return 1
        store.save(schedule, path)
    else:
        print(USAGE, file=sys.stderr)
        return 2
    return 0
