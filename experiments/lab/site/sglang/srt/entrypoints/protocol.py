"""Requests and answers of the generating routes: one class per route, each made from a decoded body.

An answer is fed with what the scheduler put out (`add`), which returns the JSON texts of stream events;
`whole` is the body for a client that does not stream.
"""

import json
import time
import zlib

from specrun_lab import text


class Answer:
    """What the routes share. ValueError for a body that cannot be served."""

    stream_usage = False

    def __init__(self, body, args, prompt, prompt_tokens, max_new_tokens, sampling):
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
        self.eos = None if sampling.get("ignore_eos") else text.answer_length(self.seed)
        self._cache_report = args.enable_cache_report
        self.draft_steps = args.draft_steps
        self.created = int(time.time())
        self._begin = time.perf_counter()
        self.completion_tokens = 0
        self.parts = []
        self.reason = None
        self.verifies = self.accepted = 0

    def started(self, rid):
        self.rid = rid

    def add(self, tokens, reason, verifies, accepted):
        new = text.words(self.seed, self.completion_tokens, tokens)
        first = self.completion_tokens == 0
        self.completion_tokens += tokens
        self.reason = reason
        self.verifies, self.accepted = verifies, accepted
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
            "prompt_tokens_details": {"cached_tokens": 0} if self._cache_report else None,
        }


class OpenAI(Answer):
    """What the two OpenAI routes share."""

    def __init__(self, body, args, prompt, max_new_tokens):
        super().__init__(body, args, prompt, text.count_tokens(prompt), max_new_tokens, body)
        self.stream_usage = bool((body.get("stream_options") or {}).get("include_usage"))

    def _base(self, kind):
        return {"id": self.rid, "object": kind, "created": self.created, "model": self.model}

    def events(self, new, first):
        yield dict(self._base(self.stream_kind), choices=[self.delta(new, first)], usage=None)
        if self.reason is not None and self.stream_usage:
            yield dict(self._base(self.stream_kind), choices=[], usage=self.usage())

    def whole(self):
        return dict(self._base(self.kind), choices=[self.choice("".join(self.parts))], usage=self.usage())


class Chat(OpenAI):
    kind, stream_kind = "chat.completion", "chat.completion.chunk"

    def __init__(self, body, args):
        prompt = "\n".join("%s: %s" % (m["role"], _content(m.get("content"))) for m in body["messages"])
        limit = body.get("max_completion_tokens")
        super().__init__(body, args, prompt, body.get("max_tokens") if limit is None else limit)

    def delta(self, new, first):
        delta = {"role": "assistant", "content": new} if first else {"content": new}
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": self.reason}

    def choice(self, whole):
        message = {"role": "assistant", "content": whole}
        return {"index": 0, "message": message, "logprobs": None, "finish_reason": self.reason}


class Completion(OpenAI):
    kind = stream_kind = "text_completion"

    def __init__(self, body, args):
        prompt = body["prompt"]
        if not isinstance(prompt, str):
            raise ValueError("prompt must be a string")
        super().__init__(body, args, prompt, body.get("max_tokens", 128))

    def delta(self, new, first):
        return {"index": 0, "text": new, "logprobs": None, "finish_reason": self.reason}

    def choice(self, whole):
        return self.delta(whole, True)


class Generate(Answer):
    """The engine's own route: text so far, and counters of speculation in meta_info."""

    def __init__(self, body, args):
        sampling = body.get("sampling_params") or {}
        if "text" in body:
            prompt, count = body["text"], text.count_tokens(body["text"])
        else:
            prompt, count = " ".join(str(int(i)) for i in body["input_ids"]), len(body["input_ids"])
        super().__init__(body, args, prompt, count, sampling.get("max_new_tokens", 128), sampling)

    def events(self, new, first):
        self.parts.append(new)
        yield self.whole()

    def whole(self):
        meta = {
            "id": self.rid,
            "finish_reason": None,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cached_tokens": 0,
            "e2e_latency": self.latency(),
        }
        if self.reason == "length":
            meta["finish_reason"] = {"type": "length", "length": self.completion_tokens}
        elif self.reason is not None:
            meta["finish_reason"] = {"type": self.reason}
        if self.draft_steps and self.verifies:
            proposed = self.verifies * self.draft_steps
            meta["spec_verify_ct"] = self.verifies
            meta["spec_accept_length"] = self.completion_tokens / float(self.verifies)
            meta["spec_accept_token_num"] = self.accepted
            meta["spec_draft_token_num"] = proposed
            meta["spec_accept_rate"] = self.accepted / float(proposed)
        ids = [text.token_id(self.seed, i) for i in range(self.completion_tokens)]
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
