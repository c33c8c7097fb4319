"""Answers: the same prompt gives the same words, with and without speculation, whatever the settings but one."""

_WORDS = (
    "the a this each one more less some kernel cache token batch draft verify stream graph step rank "
    "layer head page block queue time cost rate mean bound long short fast slow warm cold first last "
    "next same other half full small large runs waits reads writes holds takes gives keeps starts ends "
    "and or but so then while because when where with without over under after before between"
).split()


def token_id(seed, position):
    """Token at this position of the answer to the prompt with this seed (32 bit)."""
    x = (seed ^ (position * 2654435761)) & 0xFFFFFFFF
    x = (x ^ (x >> 15)) * 2246822519 & 0xFFFFFFFF
    return ((x ^ (x >> 13)) * 3266489917 & 0xFFFFFFFF) % 32000


def word(token):
    return _WORDS[token % len(_WORDS)]


class Model:
    """What the model of a launch answers. changed_from: position from which it says other things; None: nowhere."""

    def __init__(self, changed_from=None):
        self._changed_from = changed_from

    def token_id(self, seed, position):
        if self._changed_from is not None and position >= self._changed_from:
            seed ^= 0x5BD1E995
        return token_id(seed, position)

    def words(self, seed, first, count):
        """Text of `count` tokens from position `first`, a blank before each but the very first."""
        return "".join((" " if i else "") + word(self.token_id(seed, i)) for i in range(first, first + count))


def of_launch(settings):
    change = settings.failure("other-output")
    return Model(change.get("from", 0) if change else None)


def answer_length(seed):
    """Tokens until the model would end by itself: 96 to 351, by prompt."""
    return 96 + token_id(seed, -1) % 256


def count_tokens(text):
    return max(1, len(text.split()))
