"""Who has which room, and when it is free."""

from rooms.intervals import Interval, merge, minutes

OPEN = Interval(minutes("08:00"), minutes("18:00"))


class Taken(Exception):
    """Somebody else has the room then."""


class Schedule:
    def __init__(self, bookings=()):
        self.bookings = []
        for booking in bookings:
            self.add(*booking)

    def add(self, room, interval, who):
        if not interval.within(OPEN):
            raise ValueError(f"rooms are open {OPEN}")
        for other in self.of(room):
            if other[1].overlaps(interval):
                raise Taken(f"{room} is taken {other[1]} by {other[2]}")
        self.bookings.append((room, interval, who))

    def of(self, room):
        """The bookings of a room, in order."""
        return sorted(booking for booking in self.bookings if booking[0] == room)

    def free(self, room):
        """When nobody has the room."""
        gaps = []
        at = OPEN.start
        for busy in merge(interval for _, interval, _ in self.of(room)):
            if at < busy.start:
                gaps.append(Interval(at, busy.start))
            # The last minute of a booking is taken too.
            at = busy.end + 1
        if at < OPEN.end:
            gaps.append(Interval(at, OPEN.end))
        return gaps

    def load(self, room):
        """The share of the day for which the room is booked, in percent."""
        busy = sum(interval.end - interval.start for _, interval, _ in self.of(room))
        return round(100 * busy / (OPEN.end - OPEN.start))
