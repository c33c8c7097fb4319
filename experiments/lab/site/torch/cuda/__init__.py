"""torch.cuda over the emulated device: what a call costs depends on the call alone."""

from specrun_lab import device as _device


class Stream:
    """The only stream there is."""

    def synchronize(self):
        _device.current().synchronize()

    def query(self):
        d = _device.current()
        return d.reached(d.tail)

    def record_event(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def wait_stream(self, stream):
        pass

    def wait_event(self, event):
        pass


class Event:
    """A moment on the device's clock; recording and asking never wait, synchronize does."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False):
        self._timing = enable_timing
        self._moment = None

    def record(self, stream=None):
        self._moment = _device.current().mark()

    def query(self):
        return self._moment is None or _device.current().reached(self._moment)

    def synchronize(self):
        if self._moment is not None:
            _device.current().wait_for(self._moment)

    def wait(self, stream=None):
        pass

    def elapsed_time(self, end):
        """Milliseconds from this event to `end`."""
        if not (self._timing and end._timing):
            raise RuntimeError("both events must be created with enable_timing=True")
        if self._moment is None or end._moment is None:
            raise RuntimeError("both events must be recorded before their distance is asked for")
        if not (self.query() and end.query()):
            raise RuntimeError("device not ready: an event has not completed yet")
        return (end._moment - self._moment) * 1000.0


_stream = Stream()


def synchronize(device=None):
    _device.current().synchronize()


def current_stream(device=None):
    return _stream


def default_stream(device=None):
    return _stream


def is_available():
    return True


def is_initialized():
    return True


def is_current_stream_capturing():
    return False


def device_count():
    return 1


def current_device():
    return 0


def get_device_name(device=None):
    return "practice device (emulated)"
