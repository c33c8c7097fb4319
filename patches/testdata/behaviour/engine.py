"""The surroundings of a worker: clock, requests, batches, and the two schedulers' loops."""

import types


class Clock:
    """The time that the profiler sees. Only the stubs move it."""

    def __init__(self):
        self.now = 1000.0

    def read(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


class Mode:
    def __init__(self, kind):
        self.kind = kind

    def is_extend(self):
        return self.kind == "prefill"

    def is_idle(self):
        return self.kind == "idle"

    def is_decode(self):
        return self.kind == "decode"


class Req:
    def __init__(self, rid, prompt):
        self.rid = rid
        self.origin_input_ids = [1] * prompt
        self.output_ids = []
        self.finished_reason = None

    @property
    def seqlen(self):
        return len(self.origin_input_ids) + len(self.output_ids)

    def finished(self):
        return self.finished_reason is not None


class Shape:
    """Has a length, and no values."""

    def __init__(self, n):
        self.shape = (n,)

    def __len__(self):
        return self.shape[0]


class DeviceTensor(Shape):
    """A tensor on the device: reading its values would wait for it."""

    device = types.SimpleNamespace(type="cuda")
    is_cuda = True

    def __init__(self, values):
        super().__init__(len(values))
        self._values = values

    def _read(self, *args, **kwargs):
        raise AssertionError("a device tensor was read, which waits for the device")

    tolist = item = cpu = sum = __iter__ = __getitem__ = __int__ = __bool__ = _read

    def on_cpu(self):
        return HostTensor(self._values)


class HostTensor(Shape):
    device = types.SimpleNamespace(type="cpu")
    is_cuda = False

    def __init__(self, values):
        super().__init__(len(values))
        self._values = values
        self.ready = False

    def tolist(self):
        if not self.ready:
            raise AssertionError("a copy was read before it had arrived")
        return list(self._values)


class CopyDone:
    def __init__(self, tensor):
        self.tensor = tensor

    def query(self):
        return self.tensor.ready

    def synchronize(self):
        raise AssertionError("the profiler waited for a copy")


def batch(kind, reqs, with_reqs=True):
    """A batch as the schedulers hand it over; the v2 batch of 0.5.3.post2 has no requests."""
    b = types.SimpleNamespace(
        forward_mode=Mode(kind),
        is_extend_in_batch=kind == "prefill",
        seq_lens=DeviceTensor([0] * len(reqs)),
        seq_lens_sum=sum(len(r.origin_input_ids) + len(r.output_ids) for r in reqs),
        spec_info=spec_info(verify=False),
        has_grammar=False,
        reqs=list(reqs),
    )
    if not with_reqs:
        del b.reqs
    return b


def spec_info(verify, alive=1):
    return types.SimpleNamespace(
        is_verify_input=lambda: verify,
        is_draft_input=lambda: not verify,
        verified_id=Shape(alive),
        input_ids=Shape(alive),
        allocate_lens=None,
        kv_loc_plan=None,
    )
