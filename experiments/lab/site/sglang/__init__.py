"""The practice host's stand-in for SGLang: same module paths, class and method names, written for specrun."""

from sglang.version import __version__  # noqa: F401
