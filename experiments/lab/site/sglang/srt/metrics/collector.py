"""The body of /metrics: counters and times of requests, and the scheduler's state, as Prometheus text."""

import threading

# Upper bounds in seconds of the histograms' buckets: fewer than the engine has.
_BUCKETS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 8.0, 20.0, 60.0, 200.0)

_COUNTERS = {
    "prompt_tokens_total": "Number of prefill tokens processed.",
    "generation_tokens_total": "Number of generation tokens processed.",
    "cached_tokens_total": "Number of cached prompt tokens.",
    "num_requests_total": "Number of requests processed.",
    "spec_verify_calls_total": "Number of verify calls of speculative decoding.",
}


class Metrics:
    """What has been counted since the start. Safe for concurrent use.

    As in the engine, the counters take a request when it ends, and requests that the server sends itself do not
    count.
    """

    def __init__(self, server_args):
        self._labels = 'model_name="%s"' % _escape(server_args.served_model_name)
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(_COUNTERS, 0)
        self._first = _Histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.")
        self._whole = _Histogram("e2e_request_latency_seconds", "Histogram of end-to-end request latency in seconds.")

    def observe(self, answer):
        """Take what an answer has got to; called after each output of the scheduler."""
        with self._lock:
            if not answer.first_seen:
                answer.first_seen = True
                self._first.add(answer.latency())
            if answer.reason is None:
                return
            self._whole.add(answer.latency())
            self._counts["prompt_tokens_total"] += answer.prompt_tokens
            self._counts["generation_tokens_total"] += answer.completion_tokens
            self._counts["cached_tokens_total"] += answer.cached_tokens
            self._counts["num_requests_total"] += 1
            self._counts["spec_verify_calls_total"] += answer.verifies

    def text(self, state):
        """state: what the scheduler says of itself; None when it does not answer, and its gauges are left out."""
        lines = []
        with self._lock:
            for name, help in _COUNTERS.items():
                _head(lines, name, "counter", help)
                lines.append("sglang:%s{%s} %s" % (name, self._labels, float(self._counts[name])))
            self._first.write(lines, self._labels)
            self._whole.write(lines, self._labels)
        if state is not None:
            self._gauges(lines, state)
        return "\n".join(lines) + "\n"

    def _gauges(self, lines, state):
        load, internal = state["load"], state["internal_states"][0]
        capacity = internal["memory_usage"]["token_capacity"]
        values = [
            ("num_running_reqs", "The number of running requests.", load["running"]),
            ("num_queue_reqs", "The number of requests in the waiting queue.", load["waiting"]),
            ("num_used_tokens", "The number of used tokens.", load["tokens"]),
            ("token_usage", "The token usage.", load["tokens"] / float(capacity)),
            ("gen_throughput", "The generation throughput (token/s).", internal["last_gen_throughput"]),
        ]
        if "spec_interval" in state:
            length, rate = state["spec_interval"]
            values.append(("spec_accept_length", "The average acceptance length of speculative decoding.", length))
            values.append(("spec_accept_rate", "The average acceptance rate of speculative decoding.", rate))
        for name, help, value in values:
            _head(lines, name, "gauge", help)
            labels = 'engine_type="unified",%s,pp_rank="0",tp_rank="0"' % self._labels
            lines.append("sglang:%s{%s} %s" % (name, labels, float(value)))


class _Histogram:
    def __init__(self, name, help):
        self._name, self._help = name, help
        self._counts = [0] * len(_BUCKETS)
        self._count, self._sum = 0, 0.0

    def add(self, value):
        self._count += 1
        self._sum += value
        for i, bound in enumerate(_BUCKETS):
            self._counts[i] += value <= bound

    def write(self, lines, labels):
        _head(lines, self._name, "histogram", self._help)
        lines.append("sglang:%s_sum{%s} %s" % (self._name, labels, self._sum))
        for bound, count in zip(_BUCKETS + ("+Inf",), self._counts + [self._count]):
            lines.append('sglang:%s_bucket{le="%s",%s} %s' % (self._name, bound, labels, float(count)))
        lines.append("sglang:%s_count{%s} %s" % (self._name, labels, float(self._count)))


def _head(lines, name, kind, help):
    lines.append("# HELP sglang:%s %s" % (name, help))
    lines.append("# TYPE sglang:%s %s" % (name, kind))


def _escape(value):
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
