"""A stand-in for an inference server, for tests of start, readiness and stop.

Arguments: PORT, then switches:
  --record FILE    writes argv and environment there as JSON, then goes on
  --ignore-term    SIGTERM changes nothing
  --double-fork    an orphan in a session of its own holds the port
  --exit N         ends with status N right after it said "loading"
  --kill N         ends by signal N right after it said "loading"
  --silent         says nothing and never listens
  --say TEXT       says it first
  --work S         reads and computes for S seconds, without a word, before it serves
  --no-marker      serves, and its log says nothing of it
  --zombie         has a child that ended and that it never asks for
  --chatty         says "loading" for ever and never listens
  --crash          prints a crash sign, then hangs
  --bind-fails     prints the ready marker, then fails to bind and ends
  --early-marker   prints the ready marker and never listens
  --dumb           answers every request with a single token
  --no-serve       with --record: ends after it
  --slow-exit S    sleeps S seconds on SIGTERM before it ends
"""

import http.server
import json
import os
import signal
import sys
import time

READY = "The server is fired up and ready to roll!"


def say(text):
    os.write(1, (text + "\n").encode())


class Handler(http.server.BaseHTTPRequestHandler):
    dumb = False
    marker = True

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        n = 1 if self.dumb else asked["sampling_params"]["max_new_tokens"]
        self.reply({"text": "w " * n, "meta_info": {"completion_tokens": n}})

    def log_message(self, *args):
        pass


def serve(port):
    class Server(http.server.ThreadingHTTPServer):
        allow_reuse_address = True
        daemon_threads = True

    server = Server(("127.0.0.1", port), Handler)
    if Handler.marker:
        say(READY)
    server.serve_forever()


def main():
    port, switches = int(sys.argv[1]), sys.argv[2:]

    def value(name):
        return switches[switches.index(name) + 1]

    if "--record" in switches:
        path = value("--record")
        data = {"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd(), "sid": os.getsid(0), "pid": os.getpid(),
                "ignored": [s for s in (1, 2, 3, 15) if signal.getsignal(s) == signal.SIG_IGN]}
        with open(path + ".new", "w") as f:
            json.dump(data, f)
        os.rename(path + ".new", path)
        if "--no-serve" in switches:
            return
    if "--ignore-term" in switches:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--slow-exit" in switches:
        signal.signal(signal.SIGTERM, lambda *_: (time.sleep(float(value("--slow-exit"))), os._exit(0)))
    if "--say" in switches:
        say(value("--say"))
    if "--silent" not in switches:
        say("loading")
    if "--work" in switches:
        end = time.monotonic() + float(value("--work"))
        while time.monotonic() < end:
            with open(sys.executable, "rb") as f:
                sum(f.read(1 << 20)[:20000])
    if "--zombie" in switches and os.fork() == 0:
        os._exit(0)
    if "--exit" in switches:
        say("something was wrong")
        sys.exit(int(value("--exit")))
    if "--kill" in switches:
        os.kill(os.getpid(), int(value("--kill")))
    if "--crash" in switches:
        say("CRASH: no memory")
        time.sleep(600)
    if "--silent" in switches:
        time.sleep(600)
    while "--chatty" in switches:
        say("loading")
        time.sleep(0.05)
    if "--early-marker" in switches:
        say(READY)
        time.sleep(600)
    if "--bind-fails" in switches:
        say(READY)
        serve(port)
    Handler.dumb = "--dumb" in switches
    Handler.marker = "--no-marker" not in switches
    if "--double-fork" in switches:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                serve(port)
            os._exit(0)
        time.sleep(600)
    serve(port)


main()
