"""Builds a value by copying the fields that other values have under the same names."""

from typing import Any, TypeVar

T = TypeVar("T")


def made_of(kind: type[T], /, *givers: object, **own: Any) -> T:
    """A model, dataclass or named tuple: fields in `own`, others of the first giver that has them.

    A field that none of them has is its default; one without a default is the error of `kind`.
    """
    shape: Any = kind
    fields = getattr(shape, "model_fields", None) or getattr(shape, "__dataclass_fields__", None)
    for name in fields or shape._fields:
        giver = next((it for it in givers if name not in own and hasattr(it, name)), None)
        if giver is not None:
            own[name] = getattr(giver, name)
    return kind(**own)
