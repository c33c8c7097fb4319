"""Stand-in for torch on the practice host: just the calls a patch of a worker makes.

Tensors are lists that know whether reading them waits for the emulated device.
"""

from specrun_lab import device as _device

__version__ = "2.9.0+lab"


class Tensor:
    """A list of numbers. On "cuda" every way of getting at the numbers waits for the device."""

    def __init__(self, values, device="cpu"):
        self._values = list(values)
        self.device = device
        self.is_cuda = device == "cuda"

    def _read(self):
        if self.is_cuda:
            _device.current().read()
        return self._values

    def tolist(self):
        return list(self._read())

    def item(self):
        (value,) = self._read()
        return value

    def sum(self):
        # A reduction is queued on the device; only reading its result waits.
        total = 0
        for v in self._values:
            total += v
        return Tensor([total], self.device)

    def cpu(self):
        return Tensor(self._read(), "cpu")

    def numel(self):
        return len(self._values)

    @property
    def shape(self):
        return (len(self._values),)

    def __len__(self):
        return len(self._values)

    def __iter__(self):
        return iter(self._read())

    def __getitem__(self, i):
        return Tensor([self._values[i]], self.device)

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def __repr__(self):
        return "tensor(%s%s)" % (self._read(), ", device='cuda:0'" if self.is_cuda else "")


def tensor(values, device="cpu"):
    return Tensor(values, "cuda" if str(device).startswith("cuda") else "cpu")


def sum(t):  # the name is torch's
    return t.sum()


def is_tensor(x):
    return isinstance(x, Tensor)


from torch import cuda  # noqa: E402  (torch.cuda is there after `import torch`, as in the real one)
