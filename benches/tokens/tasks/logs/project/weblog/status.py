"""Serves counts as JSON over HTTP."""

import json
import socketserver


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        request = self.rfile.readline().decode("latin-1").split()
        while self.rfile.readline().strip():
            pass
        if request[:2] == ["GET", "/"]:
            self.answer("200 OK", json.dumps(self.server.counts.as_json(), ensure_ascii=False))
        else:
            self.answer("404 Not Found", json.dumps({"error": "only GET / is there"}))

    def answer(self, status, text):
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        self.wfile.write((head + "Connection: close\r\n\r\n" + text).encode("utf-8"))


class StatusServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, counts, port=0):
        self.counts = counts
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def port(self):
        return self.server_address[1]
