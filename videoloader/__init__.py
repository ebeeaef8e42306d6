"""From videos on disk to training batches on the GPU.

``__init__.pyi`` lists the public names. Each is imported when it is first used, so that ``videoloader.indexing`` alone
needs no torch.
"""

import importlib
import sys
from functools import cache

from videoloader.errors.attribute_names import no_such_name
from videoloader.public_names import ModuleFinder, modules_of_names, public_name, whole_import

__version__ = "0.2.0.dev0"

sys.meta_path.append(ModuleFinder())
_MODULES = modules_of_names(__file__)
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise no_such_name(__name__, name, __all__)
    return _first_use(name)


@cache
def _first_use(name: str) -> object:
    with whole_import():
        if _MODULES[name] == __name__:
            return importlib.import_module(f"{__name__}.{name}")
        return public_name(_MODULES[name], name)


def __dir__() -> list[str]:
    return __all__
