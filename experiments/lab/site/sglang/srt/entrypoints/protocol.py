"""Requests and answers of the generating routes: one class per route, each made from a decoded body.

What a route needs to know of its server is an `Engine`. An answer is fed with what the scheduler put out
(`add`), which returns the JSON texts of stream events;
`whole` is the body for a client that does not stream.
"""

import json
import time
import zlib

from specrun_lab import prefix, text


class Engine:
    """args: what the server says of itself; draft_steps: what it does, 0 without speculation."""

    def __init__(self, args, settings, draft_steps):
        self.args = args
        self.settings = settings
        self.draft_steps = draft_steps
        self.model = text.of_launch(settings)
        self.stop_at = settings.stop_at()
        self.prefix_cache = settings.prefix_cache and not args.disable_radix_cache


class Answer:
    """What the routes share. ValueError for a body that cannot be served."""

    stream_usage = False

    def __init__(self, body, engine, prompt, prompt_tokens, max_new_tokens, sampling):
        args = engine.args
        self.model = body.get("model") or args.served_model_name
        self.stream = bool(body.get("stream", False))
        self.prompt_tokens = prompt_tokens
        room = args.context_length - prompt_tokens
        self.max_new_tokens = room if max_new_tokens is None else int(max_new_tokens)
        if self.max_new_tokens < 1 or self.max_new_tokens > room:
            raise ValueError(
                "max_tokens is %d, the prompt %d tokens: together at least one more and at most %d tokens"
                % (self.max_new_tokens, prompt_tokens, args.context_length)
            )
        if int(body.get("n") or 1) != 1:
            raise ValueError("n must be 1")
        seed = prompt
        if float(sampling.get("temperature") or 0):
            seed += "\0%s" % (sampling.get("seed", time.time()),)
        self.seed = zlib.crc32(seed.encode())
        ends = [] if sampling.get("ignore_eos") else [text.answer_length(self.seed)]
        if engine.stop_at is not None:
            ends.append(engine.stop_at)
        self.eos = min(ends) if ends else None
        self.prefix = prefix.chain(prompt) if engine.prefix_cache else ()
        self._model = engine.model
        self._cache_report = args.enable_cache_report
        self.draft_steps = engine.draft_steps
        self.created = int(time.time())
        self._begin = time.perf_counter()
        self.completion_tokens = 0
        self.first_seen = False  # by the metrics
        self.parts = []
        self.reason = None
        self.verifies = self.accepted = self.cached_tokens = 0

    def started(self, rid):
        self.rid = rid

    def add(self, tokens, reason, verifies, accepted, cached):
        new = self._model.words(self.seed, self.completion_tokens, tokens)
        first = self.completion_tokens == 0
        self.completion_tokens += tokens
        self.reason = reason
        self.verifies, self.accepted, self.cached_tokens = verifies, accepted, cached
        if not self.stream:
            self.parts.append(new)
            return ()
        return [json.dumps(e) for e in self.events(new, first)]

    def latency(self):
        return time.perf_counter() - self._begin

    def usage(self):
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "completion_tokens": self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens} if self._cache_report else None,
        }


    def speculation(self):
        """Counters of this request's speculation under their names in meta_info; {} where there was none."""
        if not (self.draft_steps and self.verifies):
            return {}
        proposed = self.verifies * self.draft_steps
        return {
            "spec_verify_ct": self.verifies,
            "spec_accept_length": self.completion_tokens / float(self.verifies),
            "spec_accept_rate": self.accepted / float(proposed),
            "spec_accept_token_num": self.accepted,
            "spec_draft_token_num": proposed,
        }


class OpenAI(Answer):
    """What the two OpenAI routes share."""

    def __init__(self, body, engine, prompt, max_new_tokens):
        super().__init__(body, engine, prompt, text.count_tokens(prompt), max_new_tokens, body)
        options = body.get("stream_options") or {}
        self.stream_usage = bool(options.get("include_usage"))
        self.usage_in_each = self.stream_usage and bool(options.get("continuous_usage_stats"))
        self.spec_details = bool(body.get("return_spec_tokens_details"))

    def _base(self, kind):
        return {"id": self.rid, "object": kind, "created": self.created, "model": self.model}

    def events(self, new, first):
        usage = self.usage() if self.usage_in_each else None
        yield dict(self._base(self.stream_kind), choices=[self.delta(new, first)], usage=usage)
        if self.reason is None:
            return
        extension = self._extension()
        if extension:
            yield dict(self._base(self.stream_kind), choices=[], usage=None, sglext=extension)
        if self.stream_usage:
            yield dict(self._base(self.stream_kind), choices=[], usage=self.usage())

    def whole(self):
        body = dict(self._base(self.kind), choices=[self.choice("".join(self.parts))], usage=self.usage())
        extension = self._extension()
        if extension:
            body["sglext"] = extension
        return body

    def _extension(self):
        """What newer releases add for a request that asks for it, under their newer names."""
        s = self.speculation() if self.spec_details else {}
        if not s:
            return None
        return {
            "spec_tokens_details": {
                "spec_accept_rate": s["spec_accept_rate"],
                "spec_accept_length": s["spec_accept_length"],
                "spec_num_correct_drafts": s["spec_accept_token_num"],
                "spec_num_proposed_drafts": s["spec_draft_token_num"],
                "spec_verify_ct": s["spec_verify_ct"],
            }
        }


class Chat(OpenAI):
    kind, stream_kind = "chat.completion", "chat.completion.chunk"

    def __init__(self, body, engine):
        prompt = "\n".join("%s: %s" % (m["role"], _content(m.get("content"))) for m in body["messages"])
        limit = body.get("max_completion_tokens")
        super().__init__(body, engine, prompt, body.get("max_tokens") if limit is None else limit)

    def delta(self, new, first):
        delta = {"role": "assistant", "content": new} if first else {"content": new}
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": self.reason}

    def choice(self, whole):
        message = {"role": "assistant", "content": whole}
        return {"index": 0, "message": message, "logprobs": None, "finish_reason": self.reason}


class Completion(OpenAI):
    kind = stream_kind = "text_completion"

    def __init__(self, body, engine):
        prompt = body["prompt"]
        if not isinstance(prompt, str):
            raise ValueError("prompt must be a string")
        super().__init__(body, engine, prompt, body.get("max_tokens", 128))

    def delta(self, new, first):
        return {"index": 0, "text": new, "logprobs": None, "finish_reason": self.reason}

    def choice(self, whole):
        return self.delta(whole, True)


class Generate(Answer):
    """The engine's own route: text so far, and counters of speculation in meta_info."""

    def __init__(self, body, engine):
        sampling = body.get("sampling_params") or {}
        if "text" in body:
            prompt, count = body["text"], text.count_tokens(body["text"])
        else:
            prompt, count = " ".join(str(int(i)) for i in body["input_ids"]), len(body["input_ids"])
        super().__init__(body, engine, prompt, count, sampling.get("max_new_tokens", 128), sampling)

    def events(self, new, first):
        self.parts.append(new)
        yield self.whole()

    def whole(self):
        meta = {
            "id": self.rid,
            "finish_reason": None,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cached_tokens": self.cached_tokens,
            "e2e_latency": self.latency(),
        }
        if self.reason == "length":
            meta["finish_reason"] = {"type": "length", "length": self.completion_tokens}
        elif self.reason is not None:
            meta["finish_reason"] = {"type": self.reason}
        meta.update(self.speculation())
        ids = [self._model.token_id(self.seed, i) for i in range(self.completion_tokens)]
        return {"text": "".join(self.parts), "output_ids": ids, "meta_info": meta}


SHAPES = {"/v1/chat/completions": Chat, "/v1/completions": Completion, "/generate": Generate}


def _content(content):
    if isinstance(content, list):
        return " ".join(p.get("text", "") for p in content)
    return content or ""


def models(args):
    card = {
        "id": args.served_model_name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "sglang",
        "root": args.served_model_name,
        "max_model_len": args.context_length,
    }
    return {"object": "list", "data": [card]}


def error(e):
    what = "missing field %s" % e if isinstance(e, KeyError) else str(e)
    return {"object": "error", "message": what, "type": "BadRequestError", "param": None, "code": 400}
