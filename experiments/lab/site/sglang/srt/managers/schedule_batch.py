"""Requests and the batch that goes through the workers."""

import torch
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from specrun_lab import text


class Req:
    """One request: `max_new_tokens` bounds its output, `eos` is where the model ends by itself (None: never).

    cached_tokens: those of its prompt that a cache has.
    """

    def __init__(self, rid, seed, prompt_tokens, max_new_tokens, eos, model=text.Model(), cached_tokens=0):
        self.rid = rid
        self.seed = seed
        self.origin_input_len = prompt_tokens
        self.max_new_tokens = max_new_tokens
        self.eos = eos
        self.model = model
        self.cached_tokens = cached_tokens
        self.output_ids = []
        self.finished_reason = None
        self.spec_verify_ct = 0
        self.spec_accepted_tokens = 0

    @property
    def seqlen(self):
        return self.origin_input_len + len(self.output_ids)

    def finished(self):
        return self.finished_reason is not None

    def append(self, count):
        """Take up to `count` tokens, fewer where the request ends before; returns how many."""
        for taken in range(count):
            position = len(self.output_ids)
            self.output_ids.append(self.model.token_id(self.seed, position))
            if self.eos is not None and position + 1 >= self.eos:
                self.finished_reason = "stop"
            elif position + 1 >= self.max_new_tokens:
                self.finished_reason = "length"
            if self.finished_reason is not None:
                return taken + 1
        return count


class ScheduleBatch:
    """Requests that go through one forward together.

    The batch of the running requests is one object as long as the server runs. Lengths are worked out when
    asked for: a cycle that nobody looks into spends no time on them.
    """

    def __init__(self, reqs, forward_mode):
        self.reqs = reqs
        self.forward_mode = forward_mode
        self.spec_info = None

    @property
    def is_extend_in_batch(self):
        return self.forward_mode == ForwardMode.EXTEND

    def _lengths(self):
        """Tokens in the cache: the newest one of a request gets there with the next forward."""
        return [r.seqlen - 1 if r.output_ids else r.seqlen for r in self.reqs]

    @property
    def seq_lens(self):
        return torch.tensor(self._lengths(), device="cuda")

    @property
    def seq_lens_cpu(self):
        return torch.tensor(self._lengths())

    @property
    def seq_lens_sum(self):
        return sum(self._lengths())

    @property
    def mean_seq_len(self):
        return self.seq_lens_sum / float(max(1, len(self.reqs)))

    @property
    def new_token_share(self):
        """Of the prompts' tokens, those that no cache has."""
        tokens = sum(r.origin_input_len for r in self.reqs)
        return 1.0 - sum(r.cached_tokens for r in self.reqs) / float(max(1, tokens))

    def batch_size(self):
        return len(self.reqs)

    def is_empty(self):
        return not self.reqs


class GenerationBatchResult:
    """What one forward produced. Accepted counts leave the bonus token out; None without speculation."""

    def __init__(self, next_token_ids, num_accepted_tokens=None, accept_length_per_req_cpu=None, can_run_cuda_graph=True):
        self.logits_output = None
        self.next_token_ids = next_token_ids
        self.num_accepted_tokens = num_accepted_tokens
        self.accept_length_per_req_cpu = accept_length_per_req_cpu
        self.can_run_cuda_graph = can_run_cuda_graph
