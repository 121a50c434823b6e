"""Asks the running instance over its API; no answer is a result too, with the reason."""

import json
import ssl
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from pydantic import BaseModel, ValidationError

from aggregator import __version__
from aggregator.config.api import ApiConfig
from aggregator.config.schema import Config
from aggregator.config.values import parse_listen
from aggregator.features.services import parts
from aggregator.model.errors import EXIT_OTHER, AggregatorError
from aggregator.status.schema import Status

TIMEOUT_SECONDS = 3.0
COMMAND_SECONDS = 120.0
"""How much longer than the clean end of a lane a command may take: clusters are asked, too."""
ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on that cannot be connected to, and where to connect instead."""

Document = TypeVar("Document", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Absent:
    """No running instance answers; why. `is_there`: one runs, and answers nothing that we read."""

    reason: str
    is_there: bool = False


def ask_running(
    config: Config, path: str, kind: type[Document], *, named: bool = True
) -> Document | Absent:
    """What the running instance of this config answers to GET.

    Without `named`, the answer has no name of an aggregation that could be another one's.
    """
    url = api_url(config.api)
    if url is None:
        return Absent(f"api.listen is {config.api.listen}, so no instance can be asked")
    answer: Any = None
    try:
        answer = _get(config.api, Request(url + path))
        name = answer.get("name") if isinstance(answer, dict) else None
        if named and name != config.name:
            other = f"aggregation '{name}'" if name else "something else"
            return Absent(f"{other} answers on {config.api.listen}, not '{config.name}'")
        return kind.model_validate(answer, context={"services": parts()})
    except HTTPError as error:
        if error.code in (401, 403):
            reason = (
                f"the instance on {config.api.listen} does not know this token: it takes the "
                "api.read_token or api.write_token that it was started with"
            )
            return Absent(reason, is_there=True)
        if error.code == 503:
            return Absent(f"the instance on {config.api.listen} is still starting", is_there=True)
        return Absent(f"something else answers on {config.api.listen} (HTTP {error.code})")
    except (URLError, OSError) as error:
        return Absent(f"no instance answers on {config.api.listen}{_why(error)}")
    except (ValueError, ValidationError, HTTPException):
        return _unread(config, answer)


def _why(error: OSError) -> str:
    """Why there is no answer; nothing where no one listens, which is the usual reason."""
    reason = error.reason if isinstance(error, URLError) else error
    return "" if isinstance(reason, ConnectionRefusedError) else f": {reason}"


def _unread(config: Config, answer: Any) -> Absent:
    """Why an answer is not what was asked for: another server's, or another version's."""
    version = answer.get("version") if isinstance(answer, dict) else None
    if version is None or version == __version__ or answer.get("name") != config.name:
        return Absent(f"something else answers on {config.api.listen}")
    reason = (
        f"the instance on {config.api.listen} is of version {version}, and this one, "
        f"{__version__}, does not understand its answer: use that version"
    )
    return Absent(reason, is_there=True)


def running_status(config: Config) -> Status | Absent:
    """The status of the running instance of this config."""
    return ask_running(config, "/api/status", Status)


class CommandError(AggregatorError):
    """The running instance refused a command; in its words, with its exit code."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def command_running(
    config: Config, method: str, path: str, kind: type[Document], body: Any = None
) -> Document | Absent:
    """Have the running instance of this config do something; returns what it answers.

    Raises CommandError when it refuses, does not answer in time, or is there and cannot do it yet,
    or not for us.
    """
    found = running_status(config)
    if isinstance(found, Absent) and found.is_there:
        raise CommandError(f"nothing was done: {found.reason}", EXIT_OTHER)
    url = api_url(config.api)
    if isinstance(found, Absent) or url is None:
        return found if isinstance(found, Absent) else Absent("api.listen is off")
    request = Request(
        url + path,
        json.dumps(body if body is not None else {}).encode(),
        {"content-type": "application/json"},
        method=method,
    )
    try:
        seconds = config.supervision.stop_timeout + COMMAND_SECONDS
        return kind.model_validate(_get(config.api, request, seconds))
    except HTTPError as error:
        with error:
            raise _refusal(error) from error
    except (URLError, OSError, ValueError, HTTPException) as error:
        raise CommandError(
            f"{config.api.listen}: no answer to the command: {error}", EXIT_OTHER
        ) from error


def api_url(api: ApiConfig) -> str | None:
    """Where to reach this API; None when it is off or its port is not known."""
    address = parse_listen(api.listen)
    if address is None or address[1] == 0:
        return None
    host = ANY_HOST.get(address[0], address[0])
    scheme = "http" if api.tls is None else "https"
    return f"{scheme}://[{host}]:{address[1]}" if ":" in host else f"{scheme}://{host}:{address[1]}"


def _refusal(error: HTTPError) -> CommandError:
    try:
        answer = json.load(error)
        return CommandError(str(answer["message"]), int(answer.get("exit_code", EXIT_OTHER)))
    except (ValueError, KeyError, TypeError):
        return CommandError(f"the running instance refused it (HTTP {error.code})", EXIT_OTHER)


def _get(api: ApiConfig, request: Request, seconds: float = TIMEOUT_SECONDS) -> Any:
    token = api.write_token or api.read_token
    if token is not None:
        request.add_header("authorization", f"Bearer {token}")
    # No proxy of the environment: the instance is on this machine or in this network.
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=_trust(api)))
    with opener.open(request, timeout=seconds) as response:
        return json.load(response)


def _trust(api: ApiConfig) -> ssl.SSLContext | None:
    """Trusts the very certificate that the config names, and shows it where one is asked for.

    OSError in words when its files cannot be used.
    """
    if api.tls is None:
        return None
    try:
        context = ssl.create_default_context(cafile=api.tls.certificate)
        if api.tls.client_ca is not None:
            context.load_cert_chain(api.tls.certificate, api.tls.key)
    except OSError as error:
        raise OSError(f"the files of api.tls cannot be used: {error.strerror or error}") from error
    # It may be of a CA that this machine does not know, and for a name that it is not asked by.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = False
    return context
