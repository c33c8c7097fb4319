"""What the practice host emulates: a device with its own queue, a timing model, acceptance and text.

Nothing here has an SGLang name: the package `sglang` beside it has the names and shapes that patches
look for, and the package `torch` the calls they make; both act on the device of this package.
"""
