import io
import os
import tempfile
import unittest

from rooms import store
from rooms.cli import main
from rooms.intervals import Interval, clock, merge, minutes
from rooms.schedule import Schedule, Taken


def span(text):
    start, end = text.split("-")
    return Interval(minutes(start), minutes(end))


class IntervalTest(unittest.TestCase):
    def test_minutes_and_clock(self):
        self.assertEqual(minutes("09:30"), 570)
        self.assertEqual(clock(570), "09:30")

    def test_overlap(self):
        self.assertTrue(span("09:00-10:00").overlaps(span("09:30-11:00")))
        self.assertFalse(span("09:00-10:00").overlaps(span("11:00-12:00")))

    def test_merge(self):
        parts = [span("11:00-12:00"), span("09:00-10:00"), span("09:30-10:30")]
        self.assertEqual(merge(parts), [span("09:00-10:30"), span("11:00-12:00")])

    def test_merge_of_neighbours(self):
        self.assertEqual(merge([span("09:00-10:00"), span("10:00-11:00")]), [span("09:00-11:00")])


class ScheduleTest(unittest.TestCase):
    def test_a_taken_room_is_refused(self):
        schedule = Schedule([("Blue", span("09:00-10:00"), "ann")])
        with self.assertRaises(Taken):
            schedule.add("Blue", span("09:59-11:00"), "ben")

    def test_another_room_is_not_taken(self):
        schedule = Schedule([("Blue", span("09:00-10:00"), "ann")])
        schedule.add("Green", span("09:00-10:00"), "ben")
        self.assertEqual(len(schedule.bookings), 2)

    def test_free_before_the_first_booking(self):
        schedule = Schedule([("Blue", span("09:00-18:00"), "ann")])
        self.assertEqual(schedule.free("Blue"), [span("08:00-09:00")])

    def test_an_empty_day_is_free(self):
        self.assertEqual(Schedule().free("Blue"), [span("08:00-18:00")])


class StoreTest(unittest.TestCase):
    def test_booking_is_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "day.csv")
            store.save(Schedule([("Blue", span("09:00-10:00"), "ann")]), path)
            self.assertEqual(main([path, "book", "Blue", "11:00", "12:00", "ben"]), 0)
            out = io.StringIO()
            main([path, "list", "Blue"], out)
            self.assertEqual(out.getvalue(), "09:00-10:00 ann\n11:00-12:00 ben\nbooked: 20 %\n")


if __name__ == "__main__":
    unittest.main()
