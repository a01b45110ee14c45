import json
import threading
import unittest
import urllib.error
import urllib.request

from weblog.counts import Counts
from weblog.entries import parse
from weblog.status import StatusServer

LINE = "2024-03-05T10:00:00 10.0.0.7 Zoë GET /café 502 512 12"


class StatusTest(unittest.TestCase):
    def setUp(self):
        server = StatusServer(Counts([parse(LINE)]))
        self.url = f"http://127.0.0.1:{server.port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def test_counts_are_served(self):
        with urllib.request.urlopen(self.url + "/", timeout=10) as response:
            counts = json.loads(response.read().decode("utf-8"))
        self.assertEqual(counts["failed"], {"Zoë": 1})

    def test_anything_else_is_not_found(self):
        with self.assertRaises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(self.url + "/other", timeout=10)
        self.addCleanup(raised.exception.close)
        self.assertEqual(raised.exception.code, 404)


if __name__ == "__main__":
    unittest.main()
