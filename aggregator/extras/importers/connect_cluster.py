"""Asks a Connect cluster for the connectors that it runs, over its REST API."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from aggregator.config.mask import hide_passwords
from aggregator.model.errors import ConfigError, Problem

TIMEOUT_SECONDS = 30.0


def is_address(word: str) -> bool:
    """Whether a word is the address of a Connect cluster, and not a file."""
    return word.startswith(("http://", "https://"))


def connectors_of(address: str) -> str:
    """The connectors of the cluster at an address, as JSON in the form in which they are posted.

    User and password may be in the address. ConfigError when it gives no answer that is one.
    """
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    url = urlunsplit(
        (parts.scheme, host, f"{parts.path.rstrip('/')}/connectors", "expand=info", "")
    )
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        token = base64.b64encode(login.encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
    shown = hide_passwords(address)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            data: Any = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            reason = f"answers {error.code} {error.reason}"
        raise ConfigError([Problem("", reason, "give the URL of a worker")], shown) from error
    except (OSError, ValueError) as error:
        reason = f"is not to be had: {error}"
        raise ConfigError([Problem("", reason, "give the URL of a worker")], shown) from error
    if not isinstance(data, dict) or not all(_is_info(it) for it in data.values()):
        reason = "gives no list of connectors with their configs"
        raise ConfigError([Problem("", reason, "give the URL of a worker")], shown)
    found = [{"name": name, "config": it["info"]["config"]} for name, it in data.items()]
    return json.dumps(found)


def _is_info(item: Any) -> bool:
    info = item.get("info") if isinstance(item, dict) else None
    return isinstance(info, dict) and isinstance(info.get("config"), dict)
