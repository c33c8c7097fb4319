"""Command-line flags: a choice of SGLang's, parsed and resolved as it does."""

import argparse
import os
import random

_STR, _INT, _FLOAT = str, int, float

_STEPS = 3  # draft steps where no flag says how many

# name -> (type, default, extra argparse arguments). A type of bool is a bare flag.
FLAGS = {
    "model-path": (_STR, None, {"required": True}),
    "tokenizer-path": (_STR, None, {}),
    "served-model-name": (_STR, None, {}),
    "load-format": (_STR, "auto", {}),
    "model-loader-extra-config": (_STR, "{}", {}),
    "json-model-override-args": (_STR, "{}", {}),
    "trust-remote-code": (bool, False, {}),
    "context-length": (_INT, None, {}),
    "chat-template": (_STR, None, {}),
    "host": (_STR, "127.0.0.1", {}),
    "port": (_INT, 30000, {}),
    "nccl-port": (_INT, None, {}),
    "dist-init-addr": (_STR, None, {}),
    "skip-server-warmup": (bool, False, {}),
    "dtype": (_STR, "auto", {}),
    "quantization": (_STR, None, {}),
    "kv-cache-dtype": (_STR, "auto", {}),
    "mem-fraction-static": (_FLOAT, None, {}),
    "max-running-requests": (_INT, None, {}),
    "max-total-tokens": (_INT, None, {}),
    "chunked-prefill-size": (_INT, None, {}),
    "max-prefill-tokens": (_INT, 16384, {}),
    "schedule-policy": (_STR, "fcfs", {}),
    "schedule-conservativeness": (_FLOAT, 1.0, {}),
    "page-size": (_INT, 1, {}),
    "device": (_STR, "cuda", {}),
    "tp-size": (_INT, 1, {"aliases": ["tensor-parallel-size"]}),
    "dp-size": (_INT, 1, {"aliases": ["data-parallel-size"]}),
    "ep-size": (_INT, 1, {"aliases": ["expert-parallel-size", "ep"]}),
    "pp-size": (_INT, 1, {"aliases": ["pipeline-parallel-size"]}),
    "random-seed": (_INT, None, {}),
    "stream-interval": (_INT, 1, {}),
    "watchdog-timeout": (_FLOAT, 300, {}),
    "log-level": (_STR, "info", {}),
    "log-level-http": (_STR, None, {}),
    "log-requests": (bool, False, {}),
    "decode-log-interval": (_INT, 40, {}),
    "enable-metrics": (bool, False, {}),
    "enable-cache-report": (bool, False, {}),
    "api-key": (_STR, None, {}),
    "reasoning-parser": (_STR, None, {}),
    "tool-call-parser": (_STR, None, {}),
    "attention-backend": (_STR, None, {}),
    "prefill-attention-backend": (_STR, None, {}),
    "decode-attention-backend": (_STR, None, {}),
    "sampling-backend": (_STR, None, {}),
    "grammar-backend": (_STR, None, {}),
    "moe-runner-backend": (_STR, "auto", {}),
    "speculative-algorithm": (_STR, None, {"choices": ["EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"]}),
    "speculative-draft-model-path": (_STR, None, {"aliases": ["speculative-draft-model"]}),
    "speculative-draft-load-format": (_STR, None, {}),
    "speculative-num-steps": (_INT, None, {}),
    "speculative-eagle-topk": (_INT, None, {}),
    "speculative-num-draft-tokens": (_INT, None, {}),
    "speculative-accept-threshold-single": (_FLOAT, 1.0, {}),
    "speculative-accept-threshold-acc": (_FLOAT, 1.0, {}),
    "speculative-token-map": (_STR, None, {}),
    "speculative-attention-mode": (_STR, "prefill", {"choices": ["prefill", "decode"]}),
    "disable-radix-cache": (bool, False, {}),
    "disable-cuda-graph": (bool, False, {}),
    "disable-cuda-graph-padding": (bool, False, {}),
    "cuda-graph-max-bs": (_INT, None, {}),
    "cuda-graph-bs": (_INT, None, {"nargs": "+"}),
    "disable-custom-all-reduce": (bool, False, {}),
    "disable-overlap-schedule": (bool, False, {}),
    "disable-piecewise-cuda-graph": (bool, False, {}),
    "enable-mixed-chunk": (bool, False, {}),
    "enable-dp-attention": (bool, False, {}),
    "enable-nccl-nvls": (bool, False, {}),
    "enable-torch-compile": (bool, False, {}),
    "enable-p2p-check": (bool, False, {}),
    "num-continuous-decode-steps": (_INT, 1, {}),
    "lora-paths": (_STR, None, {"nargs": "*"}),
}


class ServerArgs:
    """Parsed flags as attributes (underscored names), after `resolve` as the server uses them."""

    def __init__(self, values):
        self.__dict__.update(values)

    def __repr__(self):
        return "ServerArgs(%s)" % ", ".join("%s=%r" % kv for kv in self.__dict__.items())

    @property
    def speculative(self):
        return self.speculative_algorithm is not None

    @property
    def draft_steps(self):
        """Draft steps of a cycle, also before `resolve`; 0 without speculation."""
        if not self.speculative:
            return 0
        return _STEPS if self.speculative_num_steps is None else self.speculative_num_steps

    def ignore(self, flag):
        """Take a flag as if it had not been given. ValueError for one that there is none of, or that must be given."""
        kind, default, extra = FLAGS.get(flag, (None, None, {"required": True}))
        if extra.get("required"):
            raise ValueError("the practice host cannot ignore the flag %r" % flag)
        setattr(self, flag.replace("-", "_"), default)

    def resolve(self, log, environ=os.environ):
        """Fill what the flags left open and correct what the engine does not accept as given."""
        if self.tokenizer_path is None:
            self.tokenizer_path = self.model_path
        if self.served_model_name is None:
            self.served_model_name = self.model_path
        if self.context_length is None:
            self.context_length = 32768
        if self.mem_fraction_static is None:
            self.mem_fraction_static = 0.85
        if self.chunked_prefill_size is None:
            self.chunked_prefill_size = 8192
        if self.attention_backend is None:
            self.attention_backend = "fa3"
        if self.random_seed is None:
            self.random_seed = random.randint(0, 1 << 30)
        if self.speculative:
            self._resolve_speculation(log, environ)
        if self.max_running_requests is None:
            self.max_running_requests = 256

    def _resolve_speculation(self, log, environ):
        if self.speculative_algorithm == "NEXTN":
            self.speculative_algorithm = "EAGLE"
        if self.speculative_algorithm == "NGRAM":
            raise ValueError("the practice host has no NGRAM worker: use EAGLE, EAGLE3 or STANDALONE")
        if environ.get("SGLANG_ENABLE_SPEC_V2", "").lower() in ("1", "true", "yes"):
            raise ValueError("the practice host has the v1 worker only: unset SGLANG_ENABLE_SPEC_V2")
        if self.max_running_requests is None:
            self.max_running_requests = 48
            log("WARNING: Max running requests is reset to 48 for speculative decoding.")
        if not self.disable_overlap_schedule:
            self.disable_overlap_schedule = True
            log("WARNING: Overlap scheduler is disabled because of using eagle3 or standalone speculative decoding.")
        if self.speculative_num_steps is None:
            assert self.speculative_eagle_topk is None and self.speculative_num_draft_tokens is None, (
                "speculative_num_steps must be set when speculative_eagle_topk or speculative_num_draft_tokens is"
            )
            self.speculative_num_steps, self.speculative_eagle_topk, self.speculative_num_draft_tokens = _STEPS, 1, 4
        if self.speculative_num_steps < 1:
            raise ValueError("speculative_num_steps must be at least 1, got %d" % self.speculative_num_steps)
        if self.speculative_eagle_topk is None:
            self.speculative_eagle_topk = 1
        drafts = self.speculative_num_steps + 1
        if self.speculative_eagle_topk == 1 and self.speculative_num_draft_tokens != drafts:
            log(
                "WARNING: speculative_num_draft_tokens is adjusted to speculative_num_steps + 1"
                " when speculative_eagle_topk == 1"
            )
            self.speculative_num_draft_tokens = drafts
        if self.speculative_num_draft_tokens is None:
            raise ValueError("speculative_num_draft_tokens is needed when speculative_eagle_topk > 1")


def _parser():
    parser = argparse.ArgumentParser(prog="launch_server.py")
    for name, (kind, default, extra) in FLAGS.items():
        extra = dict(extra)
        names = ["--" + name] + ["--" + a for a in extra.pop("aliases", [])]
        if kind is bool:
            parser.add_argument(*names, action="store_true", **extra)
        else:
            parser.add_argument(*names, type=kind, default=default, **extra)
    return parser


def prepare_server_args(argv):
    """Parse argv; a flag this engine does not know ends the process with status 2, as argparse does."""
    return ServerArgs(vars(_parser().parse_args(argv)))
