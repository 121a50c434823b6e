"""What Kubernetes takes, by its own schemas, which `kubernetes-validate` has put together.

That package is seventeen thousand files; what is wanted of them is read from its wheel. The kinds
of the Prometheus operator are in none of them: theirs are in `support.prometheus_operator`.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema_rs import Draft202012Validator, Registry

from support import prometheus_operator
from support.wheels import wheel

NAME = "kubernetes_validate-1.37.0-py3-none-any.whl"
REQUIREMENT = (
    "kubernetes-validate==1.37.0 "
    "--hash=sha256:85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9\n"
)
SCHEMAS = "kubernetes_validate/kubernetes-json-schema/v{}.0-local-strict/{}"
METADATA = (
    "https://kubernetes.io/api/_definitions.json"
    "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
)


def problems(thing: Mapping[str, Any], version: str) -> list[str]:
    """What this version (as 1.37) would refuse of an object, also fields that it does not know."""
    validator = Draft202012Validator(_schema_of(thing, version), registry=_registry(version))
    found = validator.iter_errors(thing)
    return [f"{each.instance_path}: {each.message}" for each in found]


def _schema_of(thing: Mapping[str, Any], version: str) -> Any:
    group, _, number = thing["apiVersion"].rpartition("/")
    if group == prometheus_operator.GROUP:
        return prometheus_operator.schema_of(thing["kind"], {"$ref": METADATA})
    parts = [thing["kind"].lower(), group.partition(".")[0], number]
    return _schema(version, f"{'-'.join(filter(None, parts))}.json")


@cache
def _registry(version: str) -> Registry:
    definitions = _schema(version, "_definitions.json")
    return Registry([(str(definitions["$id"]), definitions)])


@cache
def _schema(version: str, name: str) -> Any:
    return json.loads(_wheel().read(SCHEMAS.format(version, name)))


@cache
def _wheel() -> zipfile.ZipFile:
    """Open for all tests, as its list of files takes half a second to read; in memory, so that
    nothing has to be closed.
    """
    return zipfile.ZipFile(io.BytesIO(wheel(NAME, REQUIREMENT).read_bytes()))
