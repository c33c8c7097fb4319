"""A stand-in for an inference server, for tests of start, readiness and stop.

Arguments: PORT, then switches:
  --record FILE    writes argv and environment there as JSON, then goes on
  --ignore-term    SIGTERM changes nothing
  --double-fork    an orphan in a session of its own holds the port
  --exit N         ends with status N right after it said "loading"
  --kill N         ends by signal N right after it said "loading"
  --silent         says nothing and never listens
  --say TEXT       says it first
  --work FILE      reads and computes, without a word, until FILE is there, before it serves
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

import _thread
import json
import os
import signal
import socket
import sys
import time

READY = "The server is fired up and ready to roll!"


def say(text):
    os.write(1, (text + "\n").encode())


dumb, marker = False, True


def answer(conn):
    """One request of POST /generate; by hand, for http.server takes long to import."""
    with conn, conn.makefile("rb") as asked:
        length = 0
        for line in asked:
            name, _, value = line.decode().partition(":")
            if name.lower() == "content-length":
                length = int(value)
            if not line.strip():
                break
        n = 1 if dumb else json.loads(asked.read(length))["sampling_params"]["max_new_tokens"]
        body = json.dumps({"text": "w " * n, "meta_info": {"completion_tokens": n}}).encode()
        conn.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def serve(port):
    listener = socket.create_server(("127.0.0.1", port))
    if marker:
        say(READY)
    while True:
        _thread.start_new_thread(answer, (listener.accept()[0],))


def main():
    global dumb, marker
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
        while not os.path.exists(value("--work")):
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
    dumb, marker = "--dumb" in switches, "--no-marker" not in switches
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
