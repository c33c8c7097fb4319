"""Satisfies every import that fails, so that an engine's module can be executed alone."""

import importlib.abc
import importlib.machinery
import sys
import types


class AnythingType(type):
    """A class that can be a base, a decorator, a context manager, a value."""

    def __getattr__(cls, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return anything(name)

    def __call__(cls, *args, **kwargs):
        if cls.__module__ != __name__:  # a class of the engine, derived from one of ours
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type)):
            return args[0]  # used as a decorator
        return object.__new__(cls)

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __getitem__(cls, key):
        return cls

    def __bool__(cls):
        return False

    def __iter__(cls):
        return iter(())


class Anything(metaclass=AnythingType):
    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return anything(name)

    def __call__(self, *args, **kwargs):
        return type(self)(*args, **kwargs)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False

    def __bool__(self):
        return False

    def __iter__(self):
        return iter(())

    def _false(self, other):
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _false


def anything(name):
    return AnythingType(name, (Anything,), {"__module__": __name__})


class PermissiveModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return anything(name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return PermissiveModule(spec.name)

    def exec_module(self, module):
        module.__path__ = []


def install():
    sys.meta_path.append(Finder())  # last: what can be imported is
