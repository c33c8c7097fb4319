

class _SpecrunEngine:
    """What SGLang's objects say of a batch, a result, a rank.

    Everything is read on the CPU: a tensor's length is, its values are not.
    None means unknown.
    """

    def __init__(self, scope):
        self.scope = scope  # the globals of the patched module
        self.prefills = 0

    @staticmethod
    def batch(args, kwargs):
        if args:
            return args[0]
        for name in ("batch", "model_worker_batch"):
            if name in kwargs:
                return kwargs[name]
        return None

    def kind(self, batch):
        """decode, prefill or idle; it must be asked before the call, which changes the batch."""
        mode = batch.forward_mode
        if mode.is_idle():
            return "idle"
        if mode.is_extend() or getattr(batch, "is_extend_in_batch", False):
            self.prefills += 1
            return "prefill"
        reqs = getattr(batch, "reqs", None)
        if reqs is not None and len(reqs) == 0:
            return "idle"
        return "decode"

    def describe(self, cycle, worker, batch):
        reqs = getattr(batch, "reqs", None)
        if reqs is None:
            # 0.5.3.post2's v2 batch has no requests. One can join only by a prefill,
            # which is seen, and one that leaves changes the number.
            cycle.batch = len(batch.seq_lens)
            cycle.requests = (self.prefills, cycle.batch)
            total = getattr(batch, "seq_lens_sum", None)
            cycle.context = total if isinstance(total, int) else None
        else:
            cycle.reqs = tuple(reqs)
            cycle.batch = len(cycle.reqs)
            cycle.requests = tuple(sorted(str(r.rid) for r in cycle.reqs))
            cycle.context = self._context(cycle.reqs)
        self.shape(cycle, worker)

    @staticmethod
    def shape(cycle, worker):
        """Steps and draft tokens, which an adaptive engine changes from cycle to cycle."""
        steps = getattr(worker, "speculative_num_steps", None)
        if isinstance(steps, int):
            cycle.steps = steps
        drafts = getattr(worker, "speculative_num_draft_tokens", None)
        per_request = drafts - 1 if isinstance(drafts, int) else cycle.steps
        cycle.proposed = max(per_request, 0) * cycle.batch

    @staticmethod
    def _context(reqs):
        try:
            return sum(r.seqlen for r in reqs)
        except (AttributeError, TypeError):
            return None

    @staticmethod
    def any_finished(reqs):
        for r in reqs:
            if hasattr(r, "finished_reason"):
                if r.finished_reason is not None:
                    return True
            elif callable(getattr(r, "finished", None)) and r.finished():
                return True
        return False

    @staticmethod
    def drafts_accepted(result):
        """The v1 worker's accepted drafts per request, a list that it made on the CPU.

        verify returns tuples of three or four parts, in an order that changed.
        """
        for part in result if isinstance(result, tuple) else (result,):
            for name in ("num_correct_drafts_per_req_cpu", "accept_length_per_req_cpu"):
                found = getattr(part, name, None)
                if isinstance(found, (list, tuple)):
                    return found
        return None

    @staticmethod
    def lens_on_cpu(lens):
        """Whether reading the tensor's values needs no device."""
        if lens is None or isinstance(lens, (list, tuple)):
            return lens is not None
        return getattr(getattr(lens, "device", None), "type", None) == "cpu"

    def rank(self, worker):
        """(whether this rank prints, its tensor-parallel rank, its data-parallel rank)."""
        sources = [worker, getattr(worker, "ps", None)]
        if "get_parallel" in self.scope:  # 0.5.17 and later keep ranks in one place
            sources.append(self.scope["get_parallel"]())
        sources += [getattr(worker, "_target_worker", None), getattr(worker, "target_worker", None)]

        def first(*names):
            for source in sources:
                for name in names:
                    value = getattr(source, name, None)
                    if isinstance(value, int) and not isinstance(value, bool):
                        return value
            return None

        tp, dp = first("tp_rank"), first("dp_rank", "attn_dp_rank")
        if tp is None:
            return True, 0, dp
        args = getattr(worker, "server_args", None)
        if getattr(args, "enable_dp_attention", False) is not True:
            return tp == 0, tp, dp
        # Under DP attention each group of attention ranks has requests of its own.
        attention = first("attn_tp_rank")
        if attention is None:
            size = args.tp_size // max(args.dp_size, 1)
            attention, dp = tp % size, tp // size
        return attention == 0, tp, dp
