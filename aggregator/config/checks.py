"""Checks beyond the types: refused settings, patterns that do not compile, a hub as source."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from aggregator.config.copy_as import copy_problems
from aggregator.config.dedup import dedup_problems
from aggregator.config.java_regex import RegexError, compiled
from aggregator.config.kafka_names import NO_EFFECT, READERS, WHOLE_NUMBERS, Role
from aggregator.config.keys import nearest
from aggregator.config.librdkafka import NUMBERS as SHARED_NUMBERS
from aggregator.config.librdkafka import to_librdkafka
from aggregator.config.node import settings_to_text
from aggregator.config.schema import Config
from aggregator.config.values import map_at, parse_listen, patterns
from aggregator.model.errors import Problem
from aggregator.model.values import HEARTBEATS_TOPIC

_OURS = "the aggregator sets it itself; remove it"
REFUSED: Mapping[str, tuple[str, str]] = {
    "auto.offset.reset": ("positions come from the checkpoint", "use start: of the source"),
    "bootstrap.servers": ("belongs outside this map", "use bootstrap_servers: of the cluster"),
    "enable.auto.commit": ("offsets are kept in the checkpoint, never in a group", "remove it"),
    "group.id": ("no consumer group is used", "we use none; remove it"),
    "interceptor.classes": ("it could change a record behind our back", "remove it"),
    "key.deserializer": ("records are copied as bytes", _OURS),
    "key.serializer": ("records are copied as bytes", _OURS),
    "minPartitions": ("splitting a partition breaks the order of its records", "remove it"),
    "transactional.id": ("nothing is written in transactions, so every write would fail", _OURS),
    "value.deserializer": ("records are copied as bytes", _OURS),
    "value.serializer": ("records are copied as bytes", _OURS),
}
"""Kafka settings that are refused whatever their value: why, and what to do."""

NUMBERS = ("max.message.bytes", "retention.ms", "retention.bytes")
"""Topic configs that we calculate with."""

LIBRDKAFKA_NAMES: Mapping[str, str] = {
    "metadata.broker.list": "use bootstrap_servers: of the cluster",
    "sasl.mechanisms": "the Java name is sasl.mechanism",
    "sasl.password": "the Java name is sasl.jaas.config",
    "sasl.username": "the Java name is sasl.jaas.config",
    "socket.timeout.ms": "the Java name is request.timeout.ms",
    "ssl.ca.location": "the Java names are ssl.truststore.location and ssl.truststore.type: PEM",
    "ssl.ca.pem": "the Java names are ssl.truststore.certificates and ssl.truststore.type: PEM",
    "ssl.certificate.location": "the Java names are ssl.keystore.location and .type: PEM",
    "ssl.certificate.pem": "the Java name is ssl.keystore.certificate.chain",
    "ssl.key.location": "the Java names are ssl.keystore.location and ssl.keystore.type: PEM",
    "ssl.key.pem": "the Java name is ssl.keystore.key",
    "enable.ssl.certificate.verification": "set ssl.truststore.certificates instead",
}
"""librdkafka's names that are no Java names, with what to write."""

_TYPO = 0.86
"""Above this likeness an unknown setting is a typo, below it a plugin's own setting."""

_WHOLE = re.compile(r"[+-]?\d+")

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
_TRUE = frozenset({"true", "yes", "on", "1", "t", "y"})


def problems(tree: Mapping[str, Any]) -> list[Problem]:
    """Everything wrong with a config that its types cannot detect, whatever else is wrong with it.

    `tree` is plain data in the shape of `Config`, with references resolved; parts of another
    shape are passed over, since the types complain about those.
    """
    found: list[Problem] = []
    for path, settings in _settings(tree):
        found.extend(_setting_problems(path, settings))
        if path.endswith(".kafka"):
            cluster = path.removesuffix("kafka")
            found.extend(
                Problem(cluster + problem.path, problem.reason, problem.hint)
                for problem in to_librdkafka(settings)[1]
            )
    for path, schemas in _schemas(tree):
        found.extend(_schemas_problems(path, schemas))
    found.extend(_translated_problems(tree))
    hub = _servers(map_at(tree, "hub"))
    for alias, source in map_at(tree, "sources").items():
        found.extend(_source_problems(f"sources.{alias}", source, hub))
    if tree.get("sources") == {} and map_at(tree, "api").get("listen") == "off":
        hint = "write one, or let api.listen be host:port, so that one can be added"
        found.append(Problem("sources", "is empty, and with api.listen: off it stays so", hint))
    found.extend(_api_problems(map_at(tree, "api")))
    found.extend(_tee_problems(tree))
    topics = map_at(tree, "topics")
    found.extend(_config_problems("topics", topics))
    for name, override in map_at(topics, "overrides").items():
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", str(name)):
            hint = "an override is for one hub topic; a regex does not work here"
            found.append(Problem(f"topics.overrides.{name}", "is no topic name", hint))
        if isinstance(override, dict):
            found.extend(_config_problems(f"topics.overrides.{name}", override))
    found.extend(_spark_problems(_text(map_at(tree, "spark").get("conf"))))
    found.extend(dedup_problems(tree))
    found.extend(copy_problems(tree))
    if str(tree.get("heartbeats")).strip().lower() in _TRUE:
        found.extend(_heartbeats_problems(tree))
    return found


def warnings(config: Config) -> list[str]:
    """What is allowed and yet likely to surprise, a sentence each, in a stable order."""
    found = []
    if not config.sources:
        found.append("sources: is empty; it waits until one is added over REST")
    found.extend(_shared_servers(config))
    for path, settings in _settings(config.model_dump()):
        found.extend(_setting_warnings(path, settings))
    for path, schemas in _schemas(config.model_dump()):
        if schemas.get("password") and not str(schemas["registry"]).lower().startswith("https:"):
            found.append(f"{path}.password: travels unencrypted; use an https:// registry")
    api = config.api
    if _is_open(api.listen) and api.tls is None:
        found.append(f"api.listen: on {api.listen} tokens travel unencrypted; set api.tls")
    if api.read_token is not None and api.read_token == api.write_token:
        found.append("api.read_token: equals write_token, so every reader may change things")
    return found


def _shared_servers(config: Config) -> Iterator[str]:
    """One sentence for each server that several sources name."""
    sharing: dict[str, list[str]] = {}
    for alias, source in config.sources.items():
        for server in sorted(_servers({"bootstrap_servers": source.bootstrap_servers})):
            sharing.setdefault(server, []).append(alias)
    warned: set[tuple[str, ...]] = set()
    for server, aliases in sharing.items():
        first, *others = aliases
        if not others or tuple(aliases) in warned:
            continue
        # Two servers of one cluster are shared by the same sources.
        warned.add(tuple(aliases))
        if len(others) == 1:
            both = f"sources.{others[0]}: shares {server} with sources.{first}"
            yield f"{both}; topics that both take arrive twice"
        else:
            all_of_them = f"sources.{first} and {len(others)} more: share {server}"
            yield f"{all_of_them}; topics that several of them take arrive twice"


def _settings(tree: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Every map of Kafka settings in the tree, with its path."""
    for name in ("kafka", "producer"):
        yield f"hub.{name}", _text(map_at(tree, "hub").get(name))
    for alias, source in map_at(tree, "sources").items():
        for name in ("kafka", "consumer"):
            if isinstance(source, dict):
                yield f"sources.{alias}.{name}", _text(source.get(name))


def _schemas(tree: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema registry in the tree, with its path."""
    clusters = {"hub": tree.get("hub")}
    clusters |= {f"sources.{alias}": it for alias, it in map_at(tree, "sources").items()}
    for path, cluster in clusters.items():
        if isinstance(cluster, dict) and (found := map_at(cluster, "schemas")):
            yield f"{path}.schemas", found


def _schemas_problems(path: str, schemas: Mapping[str, Any]) -> Iterator[Problem]:
    for name, other in (
        *(("username", "password"), ("password", "username")),
        *(("username", "registry"), ("ca", "registry")),
    ):
        if schemas.get(name) and not schemas.get(other):
            yield Problem(
                f"{path}.{other}", f"is missing beside {name}", f"set it, or remove {name}"
            )
    registry = str(schemas.get("registry") or "https:").strip().lower()
    if schemas.get("ca") and not registry.startswith("https:"):
        yield Problem(f"{path}.ca", "has no effect without https://", "remove it")


def _translated_problems(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """To translate schema ids, both sides need a registry."""
    topics = map_at(tree, "topics")
    rules = {"topics.schemas": topics.get("schemas")}
    for name, override in map_at(topics, "overrides").items():
        if isinstance(override, dict):
            rules[f"topics.overrides.{name}.schemas"] = override.get("schemas")
    sources = map_at(tree, "sources")
    for path, mode in rules.items():
        if mode not in ("translate", "check"):
            continue
        if mode == "translate" and not map_at(map_at(tree, "hub"), "schemas").get("registry"):
            hint = "set it: the ids at the hub are those of its registry"
            yield Problem("hub.schemas.registry", f"is missing beside {path}: {mode}", hint)
        own = [it for it in sources.values() if isinstance(it, dict)]
        if own and not any(map_at(it, "schemas").get("registry") for it in own):
            hint = "set sources.ALIAS.schemas.registry of those whose ids are meant"
            yield Problem(path, "has no effect: no source has a schema registry", hint)


def _setting_problems(path: str, settings: Mapping[str, str]) -> Iterator[Problem]:
    for name, value in settings.items():
        at = f"{path}.{name}"
        if name.startswith("kafka."):
            plain = name.removeprefix("kafka.")
            yield Problem(at, "a setting has no 'kafka.' in front here", f"did you mean {plain}?")
        elif name in REFUSED:
            reason, hint = REFUSED[name]
            yield Problem(at, f"refused: {reason}", hint)
        elif refusal := _refused_value(name, value.strip().lower()):
            yield Problem(at, f"refused: {refusal}", "remove it")
        elif name in LIBRDKAFKA_NAMES:
            yield Problem(at, "is a setting of librdkafka", LIBRDKAFKA_NAMES[name])
        elif name not in READERS and (near := nearest(name, list(READERS), _TYPO)):
            yield Problem(at, "unknown Kafka setting", f"did you mean {near}?")
        elif _is_no_number(path, name, value.strip()):
            hint = "write it without a unit, as Kafka does"
            yield Problem(at, f"'{value}' is not a whole number", hint)


def _is_no_number(path: str, name: str, value: str) -> bool:
    # Those that librdkafka reads as well are reported with what it cannot do.
    is_reported = path.endswith(".kafka") and name in SHARED_NUMBERS
    return name in WHOLE_NUMBERS and not is_reported and not _WHOLE.fullmatch(value)


def _refused_value(name: str, value: str) -> str:
    if name == "enable.idempotence" and value != "true":
        return "a retried request could write twice"
    if name == "acks" and value not in ("all", "-1"):
        return "a record could be lost with one broker"
    if name == "retries" and value == "0":
        return "any hiccup of a broker would end the query"
    if name == "max.in.flight.requests.per.connection" and value.isdigit() and int(value) > 5:
        return "an idempotent producer keeps order with at most 5"
    return ""


def _setting_warnings(path: str, settings: Mapping[str, str]) -> Iterator[str]:
    role: Role | None = None
    if path.endswith(".consumer"):
        role = "consumer"
    elif path.endswith(".producer"):
        role = "producer"
    # The Java clients of a source or of the hub: admin clients are librdkafka's.
    java: set[Role] = {"consumer"} if path.startswith("sources.") else {"producer", "consumer"}
    for name, value in settings.items():
        at = f"{path}.{name}"
        if name not in READERS:
            yield f"{at}: unknown to Kafka's clients, passed on for a plugin to read"
        elif why := NO_EFFECT.get(name):
            yield f"{at}: has no effect: {why}; take it out"
        elif role is None and READERS[name].isdisjoint(java):
            who = "a source" if path.startswith("sources.") else "the hub"
            yield f"{at}: no client of {who} reads this, so it has no effect; take it out"
        elif role is not None and role not in READERS[name]:
            yield f"{at}: no {role} reads this, so it has no effect"
        elif role is not None and name.startswith(("ssl.", "sasl.", "security.")):
            yield f"{at}: the admin client needs it too; put it under kafka"
        elif name == "isolation.level" and value != "read_committed":
            yield f"{at}: records of aborted transactions are copied"
        elif name == "retries":
            yield f"{at}: a producer that gives up ends its lane; take it out, so that it waits"
        elif name == "ssl.endpoint.identification.algorithm" and not value.strip():
            yield f"{at}: the broker's name is not checked against its certificate"
    mechanism = settings.get("sasl.mechanism", "").upper()
    if settings.get("security.protocol", "").upper() == "SASL_PLAINTEXT" and mechanism == "PLAIN":
        yield f"{path}.security.protocol: the password travels unencrypted; use SASL_SSL"
    if role is None:
        yield from _unused_security(path, settings)


def _unused_security(path: str, settings: Mapping[str, str]) -> Iterator[str]:
    """A login or TLS that is set up and not used; a sentence for each of the two.

    Where a broker takes connections without it, nothing else would show it.
    """
    protocol = settings.get("security.protocol", "PLAINTEXT").strip().upper()
    for prefix, part, fitting in (
        ("sasl.", "SASL", "SASL_SSL"),
        ("ssl.", "SSL", "SSL or SASL_SSL"),
    ):
        unused = [it for it in settings if it.startswith(prefix) and it in READERS]
        if unused and part not in protocol:
            more = f" and {len(unused) - 1} more" if len(unused) > 1 else ""
            yield f"{path}.{unused[0]}{more}: without effect unless security.protocol is {fitting}"


def _source_problems(path: str, source: Any, hub: frozenset[str]) -> Iterator[Problem]:
    if not isinstance(source, dict):
        return
    if shared := sorted(_servers(source) & hub):
        hint = "a hub cannot be its own source"
        yield Problem(f"{path}.bootstrap_servers", f"{shared[0]} is the hub", hint)
    yield from _selection_problems(f"{path}.topics", map_at(source, "topics"))
    for name, value in map_at(source, "groups").items():
        listed = value if isinstance(value, list) else [value]
        if name in ("sync", "exclude") and all(isinstance(item, str) for item in listed):
            for pattern in patterns(listed):
                yield from _pattern_problems(f"{path}.groups.{name}", pattern)


def _selection_problems(path: str, topics: Mapping[str, Any]) -> Iterator[Problem]:
    for name in ("include", "exclude"):
        value = topics.get(name)
        if isinstance(value, list):
            value = [str(item) for item in value]
        elif not isinstance(value, str):
            continue
        parts = patterns(value)
        if name == "include" and not parts:
            hint = 'write include: ".*" to take every topic'
            yield Problem(f"{path}.include", "must not be empty", hint)
        for pattern in parts:
            yield from _pattern_problems(f"{path}.{name}", pattern)


def _pattern_problems(path: str, pattern: str) -> Iterator[Problem]:
    try:
        compiled(pattern)
    except RegexError as error:
        yield Problem(path, f"'{pattern}' is not a regex: {error.where}", error.hint)


def _config_problems(path: str, rules: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with the topic configs of `topics`, or of an override."""
    excluded = rules.get("config_exclude")
    for at, pattern in enumerate(excluded if isinstance(excluded, list) else []):
        yield from _pattern_problems(f"{path}.config_exclude[{at}]", str(pattern))
    for name, value in map_at(rules, "configs").items():
        if str(name).startswith("message.timestamp."):
            reason = "refused: the timestamps of the sources are kept"
            yield Problem(f"{path}.configs.{name}", reason, _OURS)
        elif name in NUMBERS and not re.fullmatch(r"-1|[0-9]{1,18}", str(value).strip()):
            hint = "write a number of milliseconds or bytes, -1 for no limit"
            yield Problem(f"{path}.configs.{name}", f"'{value}' is no number", hint)


def _spark_problems(conf: Mapping[str, str]) -> Iterator[Problem]:
    if conf.get("spark.speculation", "false").strip().lower() == "true":
        reason = "refused: a second attempt of a task would write its records again"
        yield Problem("spark.conf.spark.speculation", reason, "remove it")
    if conf.get("spark.task.maxFailures", "1").strip() != "1":
        reason = "refused: a retried task would write its records again"
        yield Problem("spark.conf.spark.task.maxFailures", reason, "remove it; it is 1")


def _tee_problems(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """Its tables lie in a folder of their own: a topic may be called as the checkpoint's are."""
    tee = map_at(tree, "tee")
    yield from _selection_problems("tee.topics", map_at(tee, "topics"))
    places = [
        str(part.get("path") or default).removeprefix("file:").rstrip("/").removeprefix("./")
        for part, default in ((tee, "./tee"), (map_at(tree, "checkpoint"), "./state"))
    ]
    if places[0] == places[1]:
        hint = "choose another folder; its tables are called as the hub topics"
        yield Problem("tee.path", "is checkpoint.path, where other tables are", hint)


def _heartbeats_problems(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """Topics of the config that would lead to the heartbeats topic, as far as it alone shows.

    What the topics of the sources add to that is the plan's business.
    """
    topics = map_at(tree, "topics")
    ours = f"hub topic {HEARTBEATS_TOPIC} is that of the heartbeats"
    for name in ("duplicates", "quarantine"):
        if str(topics.get(name)).replace("${name}", str(tree.get("name", ""))) == HEARTBEATS_TOPIC:
            hint = "choose another name, or set heartbeats: false"
            yield Problem(f"topics.{name}", ours, hint)
    for alias, source in map_at(tree, "sources").items():
        if not isinstance(source, dict):
            continue
        rename = source.get("rename") or topics.get("rename") or "${topic}"
        if not isinstance(rename, str):
            # With rules only the plan knows what flows there.
            continue
        include = map_at(source, "topics").get("include", "")
        listed = [str(item) for item in include] if isinstance(include, list) else str(include)
        names = patterns(listed)
        filled = [rename.replace("${cluster}", str(alias)).replace("${topic}", it) for it in names]
        if HEARTBEATS_TOPIC in filled:
            hint = "take it out, give it another name by rename, or set heartbeats: false"
            reason = f"flows into hub topic {HEARTBEATS_TOPIC}, which is that of the heartbeats"
            yield Problem(f"sources.{alias}.topics.include", reason, hint)


def _api_problems(api: Mapping[str, Any]) -> Iterator[Problem]:
    """An API that others reach has to know who asks."""
    tls = map_at(api, "tls")
    if any(api.get(name) for name in ("read_token", "write_token")) or tls.get("client_ca"):
        return
    listen = api.get("listen")
    if isinstance(listen, str) and _is_open(listen):
        hint = (
            "set api.read_token and api.write_token (${env:NAME} or ${file:PATH}), or "
            "api.tls.client_ca; or listen on 127.0.0.1"
        )
        yield Problem(
            "api.listen", f"{listen} can be reached by others, and nothing asks who they are", hint
        )


def _is_open(listen: str) -> bool:
    """Whether others than this machine reach an API that listens so."""
    try:
        address = parse_listen(listen)
    except ValueError:
        return False
    return address is not None and address[0] not in _LOOPBACK


def _text(value: Any) -> dict[str, str]:
    settings = settings_to_text(value)
    if not isinstance(settings, dict):
        return {}
    return {name: item for name, item in settings.items() if isinstance(item, str)}


def _servers(cluster: Mapping[str, Any]) -> frozenset[str]:
    text = cluster.get("bootstrap_servers")
    if not isinstance(text, str):
        return frozenset()
    return frozenset(_server(server) for server in text.lower().split(",") if server.strip())


def _server(text: str) -> str:
    host, _, port = text.strip().rpartition(":")
    return f"{'localhost' if host in _LOOPBACK else host}:{port}"
