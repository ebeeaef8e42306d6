"""The base of classes that notebooks show with pictures."""

from __future__ import annotations

from videoloader.public_names import public_name


class ShownInNotebooks:
    """Base of classes whose objects notebooks show by ``videoloader.showing.notebook``."""

    def _repr_html_(self) -> str | None:
        # What is shown imports no pictures: the module that draws them is imported when an object is shown.
        shown: str | None = public_name("videoloader.showing.notebook", "html_of")(self)
        return shown
