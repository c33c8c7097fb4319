"""Requests of the HTTP threads to the scheduler, and its outputs back to them."""

import json
import queue
import socket
import threading
import uuid

from sglang.srt.managers.scheduler import OWN


class Client:
    """The scheduler as the HTTP threads see it. Safe for concurrent use; one thread of its own reads the socket.

    on_lost is called from that thread when the scheduler's end of the socket closes.
    """

    def __init__(self, sock, on_lost):
        self._sock = sock
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._waiting = {}  # request or reply id -> its queue
        self._requests = set()
        self._file = sock.makefile("rb")

    def wait_ready(self):
        """Blocks until the scheduler is loaded; False when it is gone. Call before `start`."""
        line = self._file.readline()
        return bool(line) and "ready" in json.loads(line)

    def start(self):
        threading.Thread(target=self._read, name="outputs", daemon=True).start()

    def submit(self, seed, prompt_tokens, max_new_tokens, eos, prefix=(), own=False):
        """Queue a request; returns its id and the queue of its outputs. prefix: the prompt for a prefix cache;
        own: the server's, nobody sent it.

        Outputs are tuples (tokens, finish reason or None, verify calls, accepted drafts, cached prompt tokens).
        """
        rid = (OWN if own else "") + uuid.uuid4().hex
        q = queue.SimpleQueue()
        with self._lock:
            self._waiting[rid] = q
            self._requests.add(rid)
        self._send(
            {
                "op": "add",
                "rid": rid,
                "seed": seed,
                "prompt_tokens": prompt_tokens,
                "max_new_tokens": max_new_tokens,
                "eos": eos,
                "prefix": prefix,
            }
        )
        return rid, q

    def release(self, rid, finished):
        """The request's thread is done with it; one not finished is aborted."""
        with self._lock:
            self._waiting.pop(rid, None)
            self._requests.discard(rid)
        if not finished:
            self._send({"op": "abort", "rid": rid})

    def in_flight(self):
        with self._lock:
            return len(self._requests)

    def ask(self, op, timeout):
        """One question to the scheduler; None when it does not answer in time (seconds)."""
        key = uuid.uuid4().hex
        q = queue.SimpleQueue()
        with self._lock:
            self._waiting[key] = q
        try:
            self._send({"op": op, "id": key})
            return q.get(timeout=timeout)
        except queue.Empty:
            return None
        finally:
            with self._lock:
                self._waiting.pop(key, None)

    def close(self):
        """End the scheduler: it stops when its end of the socket reads nothing more."""
        self._sock.shutdown(socket.SHUT_RDWR)

    def _send(self, message):
        data = json.dumps(message).encode() + b"\n"
        with self._lock:
            try:
                self._sock.sendall(data)
            except OSError:
                pass  # the reading thread sees the same loss and ends the process

    def _read(self):
        try:
            for line in self._file:
                message = json.loads(line)
                if "out" in message:
                    for rid, *out in message["out"]:
                        self._put(rid, out)
                else:
                    self._put(message["reply"], message)
        except OSError:
            pass
        self._on_lost()

    def _put(self, key, value):
        with self._lock:
            q = self._waiting.get(key)
        if q is not None:
            q.put(value)
