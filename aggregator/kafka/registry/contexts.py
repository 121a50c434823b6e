"""The contexts of Confluent's registries, each with subjects and ids of its own. Pure.

Such a registry puts the context before a subject, as in `:.eu:orders-value`, also in answers below
a URL that names the context (`/contexts/.eu`). The default context is `.`, and is not written.
"""

import re
from urllib.parse import unquote

DEFAULT = "."
QUALIFIED = re.compile(r":(\.[^:]*):")
IN_URL = re.compile(r"/contexts/:?\.?([^/:.][^/:]*)")


def unqualified(subject: str) -> str:
    """A subject without its context: `orders-value` of `:.eu:orders-value`."""
    found = QUALIFIED.match(subject)
    return subject[found.end() :] if found else subject


def context_of(subject: str) -> str | None:
    """The context that a subject names; None when it names none."""
    found = QUALIFIED.match(subject)
    return found[1] if found else None


def context_in(url: str) -> str:
    """The context that a registry's URL names, as `.eu` of `.../contexts/.eu`, else the default."""
    found = IN_URL.search(unquote(url))
    return f".{found[1]}" if found else DEFAULT
