"""The transforms of a clip's frames on their way into the batch.

The public names stand in ``__init__.pyi``.
"""

from videoloader.attribute_names import no_such_name
from videoloader.public_names import modules_of_names, public_name

# Names of earlier versions, which go in the next one.
from videoloader.transforms.planning.conversion_plan import plan_geometries  # noqa: F401
from videoloader.transforms.planning.pipeline import TransformPlan, arrange_transforms  # noqa: F401

_MODULES = modules_of_names(__file__)
__all__ = list(_MODULES)
# All of them now: the module ``augmentation`` would hide the function if that came later.
globals().update({name: public_name(module, name) for name, module in _MODULES.items()})


def __getattr__(name: str) -> object:
    raise no_such_name(__name__, name, __all__)
