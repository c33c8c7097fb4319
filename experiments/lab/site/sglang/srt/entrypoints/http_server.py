"""The HTTP process: lifecycle and routes; what answers look like is in protocol.py."""

import http.server
import json
import os
import queue
import select
import signal
import socket
import socketserver
import threading

from sglang import __version__
from sglang.srt.entrypoints import protocol
from sglang.srt.log import write
from sglang.srt.managers.tokenizer_manager import Client
from sglang.srt.metrics.collector import Metrics
from specrun_lab import misbehave

_STOP = {signal.SIGTERM, signal.SIGINT}
# How often a request's thread looks whether its client is still there, and the drain whether it is done.
_LOOK = 0.2
_DRAIN = 0.02


def serve(engine, sock, child, log):
    """Wait for the scheduler, listen, serve until SIGTERM and drain. Returns the exit status."""
    server_args, settings = engine.args, engine.settings
    me = os.getpid()
    stopping = threading.Event()

    def lost():
        if not stopping.is_set() and not settings.failure("dead-health"):
            log("Subprocess scheduler_0 (pid=%d) crashed. Triggering SIGQUIT for cleanup..." % child)
            os.kill(me, signal.SIGQUIT)

    client = Client(sock, lost)
    if not client.wait_ready():
        _, status = os.waitpid(child, 0)
        log("Rank 0 scheduler is dead. Please check if there are relevant logs.")
        log("Exit code: %d" % (os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)))
        return 1
    if settings.failure("marker-first"):
        log("The server is fired up and ready to roll!")
    address = (server_args.host, server_args.port)
    try:
        server = Server(address, engine, client, log)
    except OSError as e:
        write("ERROR:    [Errno %s] error while attempting to bind on address %r: %s\n" % (e.errno, address, e.strerror))
        return 1
    # From here on signals are taken by the loop below; the threads inherit the mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP | {signal.SIGQUIT})
    misbehave.leave_orphan(settings, server.socket)
    misbehave.crash_late(settings, server)
    client.start()
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    write("INFO:     Application startup complete.\n")
    write("INFO:     Uvicorn running on http://%s:%d (Press CTRL+C to quit)\n" % (server_args.host, server.server_port))
    if not server_args.skip_server_warmup:
        server.warm_up()
    log("The server is fired up and ready to roll!")
    server.ready.set()
    ends = {signal.SIGQUIT} if settings.failure("ignore-term") else _STOP | {signal.SIGQUIT}
    signum = signal.sigwait(ends)
    stopping.set()
    if signum != signal.SIGQUIT:
        signum = _drain(client, log, signum, settings)
    if signum == signal.SIGQUIT:
        log("SIGQUIT received. signum=%d, frame=None. It usually means one child failed." % signum)
        os.kill(child, signal.SIGKILL)
        os.kill(me, signal.SIGKILL)
    client.close()  # the scheduler ends with its socket
    os.waitpid(child, 0)
    return 0


def _drain(client, log, signum, settings):
    """Let running requests finish; returns the last signal seen."""
    log("SIGTERM received. signum=%d. Draining requests and shutting down..." % signum)
    if misbehave.drain_slowly(settings, signal.SIGQUIT):
        return signal.SIGQUIT
    while client.in_flight() and not os.environ.get("SGL_FORCE_SHUTDOWN"):
        info = signal.sigtimedwait({signal.SIGQUIT}, _DRAIN)
        if info is not None:
            return signal.SIGQUIT
    log("Gracefully exiting... Remaining number of requests %d" % client.in_flight())
    return signum


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, engine, client, log):
        self.engine = engine
        self.server_args = engine.args
        self.metrics = Metrics(engine.args) if engine.args.enable_metrics else None
        self.client = client
        self.log = log
        self.ready = threading.Event()
        self.tokens = 0  # that went out, own requests aside
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler)

    def server_bind(self):
        # Not HTTPServer's: it asks the resolver for this machine's name.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def warm_up(self):
        """The request that the engine sends itself before it calls itself ready."""
        rid, q = self.client.submit(1, 4, 8, None, own=True)
        while q.get()[1] is None:
            pass
        self.client.release(rid, True)

    def info(self):
        """Body of /get_server_info; without the scheduler's part when that does not answer."""
        body = dict(vars(self.server_args))
        body["version"] = __version__
        body["specrun_lab"] = {"simulated": True}
        body["specrun_lab_settings"] = self.engine.settings.changed or "as built in"
        answer = self.client.ask("info", 2.0)
        if answer is not None:
            info = answer["info"]
            for key in ("internal_states", "specrun_lab"):
                body[key] = info[key]
        return body


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_version = "uvicorn"

    def log_message(self, format, *args):
        pass  # written by log_request, in uvicorn's shape

    def log_request(self, code="-", size="-"):
        code = int(getattr(code, "value", code))
        write('INFO:     %s:%d - "%s" %d\n' % (self.client_address[0], self.client_address[1], self.requestline, code))

    def do_GET(self):
        path = self.path.split("?", 1)[0]
        if path in ("/health", "/health_generate"):
            self._health()
        elif path in ("/get_server_info", "/server_info"):
            self._json(200, self.server.info())
        elif path in ("/get_model_info", "/model_info"):
            args = self.server.server_args
            self._json(
                200,
                {"model_path": args.model_path, "tokenizer_path": args.tokenizer_path, "is_generation": True},
            )
        elif path == "/v1/models":
            self._json(200, protocol.models(self.server.server_args))
        elif path == "/flush_cache":
            self._flush()
        elif path == "/metrics" and self.server.metrics is not None:
            answer = self.server.client.ask("info", 2.0)
            text = self.server.metrics.text(answer["info"] if answer else None)
            self._send(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")
        else:
            self._json(404, {"detail": "Not Found"})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?", 1)[0]
        if path == "/flush_cache":
            self._flush()
            return
        shape = protocol.SHAPES.get(path)
        if shape is None:
            self._json(404, {"detail": "Not Found"})
            return
        try:
            answer = shape(json.loads(body), self.server.engine)
        except (ValueError, TypeError, KeyError, AttributeError) as e:
            self._json(400, protocol.error(e))
            return
        self._generate(answer)

    def _health(self):
        if self.server.engine.settings.failure("dead-health"):
            self._send(200, b"", "text/plain")  # whatever has become of the scheduler
            return
        if not self.server.ready.is_set():
            self._json(503, {"detail": "starting"})
            return
        rid, q = self.server.client.submit(1, 1, 1, None, own=True)
        try:
            q.get(timeout=20)
        except queue.Empty:
            self.server.client.release(rid, False)
            self._json(503, {"detail": "no answer from the scheduler for 20 seconds"})
            return
        self.server.client.release(rid, True)
        self._send(200, b"", "text/plain")

    def _flush(self):
        if self.server.client.in_flight():
            self._send(400, b"Flush cache failed: requests are running.\n", "text/plain")
        elif self.server.client.ask("flush", 2.0) is None:
            self._send(400, b"Flush cache failed: no answer from the scheduler.\n", "text/plain")
        else:
            self._send(200, b"Cache flushed.\n", "text/plain")

    def _generate(self, answer):
        """Run one request, streaming or not; a client that goes away aborts it."""
        client = self.server.client
        rid, q = client.submit(answer.seed, answer.prompt_tokens, answer.max_new_tokens, answer.eos, answer.prefix)
        answer.started(rid)
        finished = False
        try:
            if answer.stream:
                self._start_stream()
            while not finished:
                try:
                    out = q.get(timeout=_LOOK)
                except queue.Empty:
                    if self._client_gone():
                        return
                    continue
                events = answer.add(*out)
                finished = answer.reason is not None
                self.server.tokens += out[0]
                if self.server.metrics is not None:
                    self.server.metrics.observe(answer)
                if answer.stream:
                    self._chunk("".join("data: %s\n\n" % e for e in events))
            if answer.stream:
                self._chunk("data: [DONE]\n\n")
                self.wfile.write(b"0\r\n\r\n")
            else:
                self._json(200, answer.whole())
        except OSError:
            self.close_connection = True
        finally:
            client.release(rid, finished)

    def _client_gone(self):
        try:
            if not select.select([self.connection], [], [], 0)[0]:
                return False
            if self.connection.recv(1, socket.MSG_PEEK):
                return False  # its next request
        except OSError:
            pass
        self.close_connection = True
        return True

    def _start_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, text):
        if text:
            data = text.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _json(self, code, value):
        self._send(code, json.dumps(value).encode(), "application/json")

    def _send(self, code, data, kind):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
