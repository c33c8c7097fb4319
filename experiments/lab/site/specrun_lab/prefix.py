"""A prefix cache: which beginning of a prompt is in the KV cache already."""

import zlib


def chain(prompt):
    """One number per token of the prompt, each standing for all tokens up to it."""
    numbers, sofar = [], 0
    for token in prompt.split() or [""]:
        sofar = zlib.crc32(token.encode("utf-8", "replace"), sofar)
        numbers.append(sofar)
    return numbers


class PrefixCache:
    """Prompts that were computed since the last flush. Answers are not kept, and nothing is evicted."""

    def __init__(self):
        self._known = set()

    def match(self, numbers):
        """Tokens of a prompt that need not be computed: never its last one, which yields the first token."""
        cached = 0
        while cached < len(numbers) - 1 and numbers[cached] in self._known:
            cached += 1
        return cached

    def add(self, numbers):
        self._known.update(numbers)

    def flush(self):
        self._known.clear()
