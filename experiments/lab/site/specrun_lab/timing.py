"""The timing model: nominal milliseconds of each operation of a cycle, with scale and noise applied."""

import os
import random
import zlib

from specrun_lab import gpu


class Timing:
    """Times of one server process. `begin_cycle` draws the noise of the cycle that follows.

    noise: a factor per launch (normal, launch_noise_pct) times one per cycle (normal, cycle_noise_pct),
    both cut at three deviations. With a seed, the draws depend only on it and on the launch's id.
    Drift is a factor too: `launch` is how many launches of this practice host went before.
    """

    def __init__(self, settings, environ=os.environ, launch=0):
        self._s = settings
        seed = None
        if settings.seed:
            seed = zlib.crc32(("%s/%s" % (settings.seed, environ.get("SPECRUN_RUN_ID", ""))).encode())
        self._random = random.Random(seed)
        # Without the low-latency protocol the small all-reduces of a cycle cost more.
        slow = environ.get("NCCL_PROTO") != "LL"
        self._nccl_verify = settings.nccl_verify_ms if slow else 0.0
        self._nccl_plain = settings.nccl_plain_ms if slow else 0.0
        drift = 1.0 + settings.drift_pct_per_launch / 100.0 * launch
        if launch >= settings.drift_after_launches:
            drift *= 1.0 + settings.drift_pct / 100.0
        self._launch = settings.scale * drift * self._noise(settings.launch_noise_pct)
        self._factor = self._launch
        self._throttle = gpu.Throttle(settings.throttle_pct, settings.throttle_slower_pct)
        self._slower = 1.0  # of the device, while its clock is held down
        self.sync_cost = settings.sync_cost_ms * settings.scale

    def _noise(self, pct):
        return max(0.05, 1.0 + pct / 100.0 * max(-3.0, min(3.0, self._random.gauss(0.0, 1.0))))

    def begin_cycle(self, clock=None):
        """clock: the device's, for what depends on the time; without it the device runs unthrottled."""
        if clock is not None:
            self._slower = self._throttle.factor(clock)
        self._factor = self._launch * self._noise(self._s.cycle_noise_pct)

    def host_draft(self):
        return self._factor * self._s.host_draft_ms

    def host_verify(self):
        return self._factor * self._s.host_verify_ms

    def host_extend(self):
        return self._factor * self._s.host_extend_ms

    def draft(self, steps):
        return self._device(self._s.draft_step_ms * steps)

    def verify(self, tokens, context, requests=1):
        """Verify of so many positions per request at a mean sequence length of `context` tokens."""
        s = self._s
        slope = 1.0 + s.context_slope_pct / 100.0 * context / 1000.0
        verify = (s.verify_base_ms + s.verify_token_ms * tokens) * slope
        return self._device(verify + self._nccl_verify + self._more(requests))

    def extend(self):
        return self._device(self._s.extend_ms)

    def plain_host(self):
        return self._factor * min(self._s.plain_host_ms, self._s.plain_token_ms)

    def plain_device(self, context=0, requests=1):
        """The device's share of one token of each request at a mean sequence length of `context` tokens."""
        s = self._s
        token = s.plain_token_ms * (1.0 + s.plain_context_slope_pct / 100.0 * context / 1000.0)
        return self._device(max(0.0, token - s.plain_host_ms) + self._nccl_plain + self._more(requests))

    def prefill(self, share=1.0):
        """share: of the prompts' tokens, those that no cache has."""
        return self._device(self._s.prefill_ms * share)

    def _more(self, requests):
        return self._s.batch_request_ms * (requests - 1)

    def _device(self, ms):
        return self._factor * self._slower * ms
