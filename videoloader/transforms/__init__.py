"""Transforms of a clip's frames on their way into the batch.

``__init__.pyi`` lists the public names.
"""

from videoloader.errors.attribute_names import no_such_name
from videoloader.public_names import modules_of_names, public_name

# Names of earlier versions, to be removed in the next one.
from videoloader.transforms.planning.fused_geometry import plan_geometries  # noqa: F401
from videoloader.transforms.planning.pipeline import TransformPipeline as TransformPlan  # noqa: F401
from videoloader.transforms.planning.pipeline import arrange_transforms  # noqa: F401

_MODULES = modules_of_names(__file__)
__all__ = list(_MODULES)
# All names are imported now: if the function ``augmentation`` came later, the module of that name would hide it.
globals().update({name: public_name(module, name) for name, module in _MODULES.items()})


def __getattr__(name: str) -> object:
    raise no_such_name(__name__, name, __all__)
