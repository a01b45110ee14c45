"""Receives OTLP in JSON, and compares it with what OpenTelemetry's own classes read from it: PORT FILE."""

import http.server
import json
import sys

from opentelemetry.proto_json.collector.metrics.v1.metrics_service import ExportMetricsServiceRequest
from opentelemetry.proto_json.collector.trace.v1.trace_service import ExportTraceServiceRequest

CLASSES = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


def plain(value):
    """Without fields that have the default value, and with numbers as texts: both forms are allowed."""
    if isinstance(value, dict):
        return {name: inner for name, inner in ((k, plain(v)) for k, v in value.items()) if inner not in ("0", "", {}, [], None)}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(int(value) if value == int(value) else value)
    return value


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            parsed = CLASSES[self.path].from_json(body).to_dict()
            same = plain(parsed) == plain(json.loads(body))
            found = "the same" if same else "not the same"
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        with open(sys.argv[2], "a") as out:
            out.write(f"{self.path}: {found}\n")
        self.answer(200)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
