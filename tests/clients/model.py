"""An OpenAI-compatible endpoint on loopback that solves the demo task: prints its address, then serves until it is ended."""

import http.server
import json

EDIT = {"path": "stats.sh", "old_string": "    local max=0", "new_string": "    local max=$1"}
# What the model does, by the number of results in the request.
STEPS = [
    ("I run the tests.", "Bash", {"command": "bash test.sh"}),
    ("I read the program.", "Read", {"path": "stats.sh"}),
    ("The largest starts at 0.", "Edit", EDIT),
    ("I run the tests again.", "Bash", {"command": "bash test.sh"}),
]
ANSWER = "The largest of negative numbers was wrong; it now starts at the first number."


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.reply("application/json", json.dumps({"object": "list", "data": [{"id": "demo"}]}))

    def do_POST(self):
        length = int(self.headers["content-length"])
        messages = json.loads(self.rfile.read(length))["messages"]
        done = sum(message["role"] == "tool" for message in messages)
        deltas = [{"content": ANSWER}]
        if done < len(STEPS):
            text, name, arguments = STEPS[done]
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": f"call_{done}", "type": "function", "function": function}
            deltas = [{"content": text}, {"tool_calls": [call]}]
        chunks = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        reason = "tool_calls" if done < len(STEPS) else "stop"
        chunks.append({"index": 0, "delta": {}, "finish_reason": reason})
        lines = [json.dumps({"choices": [chunk]}) for chunk in chunks] + ["[DONE]"]
        self.reply("text/event-stream", "".join(f"data: {line}\n\n" for line in lines))

    def reply(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
server.serve_forever()
