"""Requests by user and by status."""

from collections import Counter


class Counts:
    def __init__(self, entries):
        self.requests = Counter()
        self.failed = Counter()
        self.statuses = Counter()
        for entry in entries:
            self.statuses[entry.status] += 1
            if entry.user == "-":
                continue
            self.requests[entry.user] += 1
            if entry.status >= 500:
                self.failed[entry.user] += 1

    def as_json(self):
        return {
            "requests": dict(sorted(self.requests.items())),
            "failed": dict(sorted(self.failed.items())),
            "statuses": {str(status): n for status, n in sorted(self.statuses.items())},
        }


def table(counts):
    lines = [f"{'user':<12} {'requests':>8} {'failed':>6}"]
    for user, n_requests in sorted(counts.requests.items()):
        lines.append(f"{user:<12} {n_requests:>8} {counts.failed[user]:>6}")
    lines.append("")
    lines += [f"status {status}: {n}" for status, n in sorted(counts.statuses.items())]
    return "\n".join(lines)
