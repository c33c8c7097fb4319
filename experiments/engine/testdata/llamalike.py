"""A server like llama.cpp's: loads for a while, then completes.

usage: llamalike.py PORT LOADING_S [--silent]
"""
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, loading = int(sys.argv[1]), float(sys.argv[2])
silent = "--silent" in sys.argv
begin = time.monotonic()


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, body):
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def ready(self):
        return time.monotonic() - begin >= loading

    def do_GET(self):
        if self.path == "/health":
            self.answer(200 if self.ready() else 503, {"status": "ok" if self.ready() else "loading model"})
        else:
            self.answer(404, {})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.ready():
            self.answer(503, {"error": "loading model"})
        elif self.path != "/v1/completions":
            self.answer(404, {})
        else:
            n = asked["max_tokens"]
            self.answer(200, {"choices": [{"text": "x" * n}], "usage": {"completion_tokens": n}})

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
if not silent:
    print("main: loading model", flush=True)
    timer = threading.Timer(loading, lambda: print("main: server is listening on http://127.0.0.1:%d" % port, flush=True))
    timer.daemon = True
    timer.start()
server.serve_forever()
