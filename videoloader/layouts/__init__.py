"""Readers of public data sets from their published lists.

Each function takes a list as downloaded and the folder of the videos, and returns a ``VideoDataset``. Videos are found
by name, whatever their extensions and class folders.
"""

from videoloader.errors.attribute_names import no_such_name
from videoloader.layouts.activitynet import activitynet
from videoloader.layouts.hmdb51 import hmdb51
from videoloader.layouts.kinetics import kinetics
from videoloader.layouts.something_something import something_something
from videoloader.layouts.ucf101 import ucf101
from videoloader.layouts.vimeo90k import vimeo90k

__all__ = ["activitynet", "hmdb51", "kinetics", "something_something", "ucf101", "vimeo90k"]


def __getattr__(name: str) -> object:
    raise no_such_name(__name__, name, __all__)


def __dir__() -> list[str]:
    return __all__
