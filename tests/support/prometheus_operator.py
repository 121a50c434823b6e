"""What the Prometheus operator takes, by its custom resource definitions.

The models that `cloudcoil` has generated from them are read as text from their wheel (Apache-2.0),
and are not imported: that would take packages that nothing here uses. Its version is that of the
operator, and a last number of its own. To renew it, set another version and its hash; from 0.93.1
on it asks for Python 3.14, which `pip download` has to ignore.
"""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Mapping
from functools import cache
from typing import Any

from support.wheels import wheel

GROUP = "monitoring.coreos.com"
NAME = "cloudcoil_models_prometheus_operator-0.80.1.0-py3-none-any.whl"
REQUIREMENT = (
    "cloudcoil-models-prometheus-operator==0.80.1.0 "
    "--hash=sha256:a139a60cc0114caace847a34275d7a7cd899ec2dad4120504d8e1cf6a8de0270\n"
)
SOURCE = "cloudcoil/models/prometheus_operator/v1.py"
TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
LIMITS = {"pattern": "pattern", "min_length": "minLength", "ge": "minimum", "le": "maximum"}


def schema_of(kind: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a kind of its group, given that of any object's metadata."""
    properties: dict[str, Mapping[str, Any]] = {
        "apiVersion": {"const": f"{GROUP}/v1"},
        "kind": {"const": kind},
        "metadata": metadata,
        "spec": _of_class(f"{kind}Spec"),
    }
    return _object(properties, list(properties))


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": required,
    }


@cache
def _of_class(name: str) -> dict[str, Any]:
    """The schema of a model: its fields, or the value that it wraps, its `root`."""
    found = ast.parse(_classes()[name]).body[0]
    assert isinstance(found, ast.ClassDef)
    properties: dict[str, dict[str, Any]] = {}
    required: list[str] = []
    for field in found.body:
        if isinstance(field, ast.AnnAssign):
            assert isinstance(field.target, ast.Name)
            word = str(_words(field.annotation).get("alias", field.target.id))
            properties[word] = _of(field.annotation)
            if field.value is None:
                required.append(word)
    assert properties, name
    return properties["root"] if "root" in properties else _object(properties, required)


def _of(annotation: ast.expr) -> dict[str, Any]:
    """The schema of a type. What is optional may be left out, and a null is not that."""
    match annotation:
        case ast.Name(id=name):
            return {"type": TYPES[name]} if name in TYPES else _of_class(name)
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, _])):
            return {**_of(inner), **_limits(annotation)}
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return _of(inner)
        case ast.Subscript(value=ast.Name(id="List"), slice=inner):
            return {"type": "array", "items": _of(inner)}
        case ast.Subscript(value=ast.Name(id="Dict"), slice=ast.Tuple(elts=[_, inner])):
            return {"type": "object", "additionalProperties": _of(inner)}
        case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=choices)):
            return {"anyOf": [_of(it) for it in choices]}
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            literal = ast.literal_eval(inner)
            return {"enum": list(literal) if isinstance(literal, tuple) else [literal]}
    raise ValueError(ast.unparse(annotation))


def _limits(annotation: ast.expr) -> dict[str, Any]:
    """Its limits, but for patterns with a flag inside, which JSON Schema does not have."""
    words = {LIMITS[it]: value for it, value in _words(annotation).items() if it in LIMITS}
    return {it: value for it, value in words.items() if it != "pattern" or "(?" not in value}


def _words(annotation: ast.expr) -> dict[str, Any]:
    """What the `Field(...)` of an annotated type says of it."""
    match annotation:
        case ast.Subscript(slice=ast.Tuple(elts=[_, ast.Call(keywords=words)])):
            return {str(it.arg): ast.literal_eval(it.value) for it in words}
    return {}


@cache
def _classes() -> dict[str, str]:
    """The text of each class by its name, since parsing all two megabytes would take seconds."""
    with zipfile.ZipFile(wheel(NAME, REQUIREMENT)) as packed:
        text = packed.read(SOURCE).decode()
    return {it.partition("(")[0]: f"class {it}" for it in text.split("\nclass ")[1:]}
