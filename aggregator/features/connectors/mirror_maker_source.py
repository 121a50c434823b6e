"""What MirrorMaker 2's source connector makes of its config: topics, names and clients. Pure.

As its own classes do it (`MirrorSourceConfig`, `DefaultTopicFilter`, `MirrorSourceConnector` and
the two replication policies), from 2.4 to today. Where they differ, a version decides.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.config.mask import MASK, hide_passwords, is_secret


class Version(NamedTuple):
    """A version of MirrorMaker 2."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


OLDEST, NEWEST = Version(2, 4), Version(4, 3)
SOURCE_CONSUMERS_READ, EXCLUDE_KNOWN, INTERNAL_TAKEN = Version(2, 8), Version(2, 7), Version(4, 0)
"""From when on settings of source consumers count, `topics.exclude` is known, and topics that only
end in `internal` are taken."""
SEPARATED_INTERNALLY = Version(3, 1)
"""From when on the separator is in the names of internal topics, too."""

TOPICS, EXCLUDE, BLACKLIST = "topics", "topics.exclude", "topics.blacklist"
POLICY, SEPARATOR = "replication.policy.class", "replication.policy.separator"
INTERNAL_SEPARATOR = "replication.policy.internal.topic.separator.enabled"
SOURCE_ALIAS, TARGET_ALIAS = "source.cluster.alias", "target.cluster.alias"
TARGET = "target"
"""The alias of the target when none is given."""
RESET = "auto.offset.reset"
ADDRESS = "bootstrap.servers"
OF_ADMIN = "is the admin client's alone; see supervision.connect_timeout"

DEFAULT_POLICY = "DefaultReplicationPolicy"
IDENTITY_POLICIES = ("IdentityReplicationPolicy", "CustomMM2ReplicationPolicy")
"""Kafka's own (and Strimzi's older one of this name), and the one of Amazon's examples."""
MOST_BEGUN = 1_000
"""A bracket that is open for more characters makes the rest one regex: each piece would be read
with all of those before it."""
MOST_REGEX = 3_000
"""A regex of `_Reading` has alias and separator five times at most, and each letter as two: a
longer one is for names of more than 249 characters, which no topic has."""
_SPECIAL = re.compile(r"[.^$*+?{}\[\]\\|()]")
_BLANK = " \t\n\v\f\r"


def version_of(text: str) -> Version:
    """The version that a text such as `3.9` or `3.9.1` names; ValueError if it is none."""
    match = re.fullmatch(r"(\d{1,2})\.(\d{1,2})(\.\w+)*", text.strip())
    found = Version(int(match[1]), int(match[2])) if match else Version(0, 0)
    if found < OLDEST:
        raise ValueError(f"'{text}' is no version of MirrorMaker 2, such as 3.9")
    return found


def listed(text: str) -> list[str]:
    """A list as Kafka reads one: cut at every comma, blanks around them go; of "" nothing."""
    plain = text.strip(_BLANK)
    # Not by a regex: it would look for the comma at each of many blanks.
    return [it.strip(_BLANK) for it in plain.split(",")] if plain else []


def regexes(pieces: Sequence[str]) -> list[str]:
    """Regexes that together match what MirrorMaker 2 matches, which joins the pieces by `|`.

    So a piece may lack the bracket that a later one closes, and a flag counts for all behind it.
    """
    if len(pieces) > 1 and any(re.search(r"\\[1-9k]", it) for it in pieces):
        return ["|".join(pieces)]
    found: list[str] = []
    begun = ""
    for number, piece in enumerate(pieces):
        text = f"{begun}|{piece}" if begun else piece
        if re.match(r"\(\?[a-zA-Z-]+\)", text) or len(begun) > MOST_BEGUN:
            return [*found, "|".join([text, *pieces[number + 1 :]])]
        begun = "" if _is_whole(text) else text
        if not begun and text:
            found.append(text)
    return [*found, begun] if begun else found


def _is_whole(regex: str) -> bool:
    """Whether every bracket and quotation of it is closed."""
    # A quotation that is not closed ends the text: it is not looked for again at each \Q in it.
    text = re.sub(
        r"\\Q.*?(\\E|\Z)|\\[^Q]",
        lambda it: "\\Q" if it[1] == "" else "",
        regex,
        flags=re.DOTALL,
    )
    if "\\Q" in text:
        return False
    inside = depth = 0
    for char in text:
        inside += (char == "[") - (char == "]" and inside > 0)
        depth += 0 if inside else (char == "(") - (char == ")")
    return inside == 0 and depth <= 0


def quoted(text: str) -> str:
    """A regex that matches this text alone."""
    return _SPECIAL.sub(lambda it: "\\" + it.group(), text)


def cycle_regex(separator: str, target: str, *, end: str = "") -> str:
    """What topics are called that came from `target` under the default policy; "" if none can be.

    As `DefaultReplicationPolicy` cuts a name: at each separator, without empty parts at the end.
    With an `end` only names that end so.
    """
    own, mark = quoted(target), quoted(separator)
    if not separator:
        # Each character is a part of its own.
        return f".*{own}.*{end or '.'}" if len(target) == 1 else ""
    if (target + separator).find(separator) != len(target):
        return ""
    if len(separator) == 1:
        inside = f"\\{separator}" if separator in "\\]^-" else separator
        return rf"(.*{mark})?{own}{mark}" + (f".*{end}" if end else f".*[^{inside}].*")
    steps = f"(((?!{mark}).)*{mark})*"
    return f"{steps}{own}{mark}(?!({mark})*$)" + (f".*{end}" if end else ".+")


@dataclass(slots=True)
class Mirrored:
    """The result of a connector's config; `keys` has by path the key that a value is from.

    `decide` are keys of which something is lost or differs, and `notes` the other ones without
    effect, each with its reason. `used` are the keys that are dealt with.
    """

    include: list[str] = field(default_factory=list)
    exclude: list[str] = field(default_factory=list)
    rename: str | list[dict[str, str]] | None = None
    start: str = ""
    address: str = ""
    kafka: dict[str, str] = field(default_factory=dict)
    consumer: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    decide: dict[str, str] = field(default_factory=dict)
    unknown_policy: str = ""
    used: set[str] = field(default_factory=set)


def mirrored(config: Mapping[str, str], version: Version | None) -> Mirrored:
    """What MirrorMaker 2 of this version makes of the config; None is a version of today.

    What a version would decide is among `decide` then.
    """
    found = Mirrored()
    reading = _Reading(config, version, found)
    reading.take_topics()
    reading.take_names()
    reading.take_clients()
    found.used |= {*found.notes, *found.decide, *found.keys.values()}
    return found


class _Reading:
    """One config under translation."""

    def __init__(self, config: Mapping[str, str], version: Version | None, into: Mirrored) -> None:
        self._config, self._version, self._into = config, version or NEWEST, into
        self._is_known = version is not None
        self._policy = config.get(POLICY, "").strip().rpartition(".")[2]
        self._separator = config.get(SEPARATOR, ".").strip(_BLANK)
        self._source = config.get(SOURCE_ALIAS, "").strip()
        self._target = config.get(TARGET_ALIAS, TARGET).strip()

    def take_topics(self) -> None:
        into, config = self._into, self._config
        into.used |= {TOPICS, EXCLUDE, BLACKLIST, TARGET_ALIAS}
        into.include = regexes(listed(config.get(TOPICS, ".*")))
        into.keys["topics.include"] = TOPICS
        key = self._exclude_key()
        given = listed(config[key]) if key else self._default_exclude()
        into.exclude = regexes(given)
        into.keys["topics.exclude"] = key or EXCLUDE
        for regex, is_ours in self._never_taken():
            names = [it for it in into.include if is_name(it)]
            matches = any(re.fullmatch(regex, it) for it in names)
            needed = matches or (not is_ours and len(names) < len(into.include))
            if needed and regex not in into.exclude:
                into.exclude.append(regex)
        if not key and all(is_name(it) for it in into.include):
            kept = [it for it in into.exclude if any(re.fullmatch(it, x) for x in into.include)]
            into.exclude = kept
        elif not self._is_known and any(not is_name(it) for it in into.include):
            into.decide[into.keys["topics.exclude"]] = (
                "topics that end in -internal or .internal, such as orders-internal, are taken, as "
                "MirrorMaker 2 does from 4.0 on; up to 3.9 it leaves them out: say which it is, "
                "such as --version 3.9"
            )

    def _exclude_key(self) -> str:
        """The key of what is left out, "" when none counts."""
        old_counts = self._version < INTERNAL_TAKEN or not self._is_known
        if self._version >= EXCLUDE_KNOWN and EXCLUDE in self._config:
            if BLACKLIST in self._config:
                self._into.notes[BLACKLIST] = f"{EXCLUDE} is given, which counts alone"
            return EXCLUDE
        if EXCLUDE in self._config:
            self._into.decide[EXCLUDE] = (
                f"MirrorMaker {self._version} does not know it, so it does not count; "
                f"{EXCLUDE_KNOWN} and later ones do"
            )
        if BLACKLIST in self._config and old_counts:
            return BLACKLIST
        if BLACKLIST in self._config:
            self._into.decide[BLACKLIST] = (
                f"MirrorMaker {self._version} does not know it, so it does not count, and the "
                f"default of {EXCLUDE} does; up to 3.9 it is read"
            )
        return ""

    def _default_exclude(self) -> list[str]:
        internal = r"mm2.*\.internal" if self._version >= INTERNAL_TAKEN else r".*[\-\.]internal"
        return [internal, r".*\.replica", "__.*"]

    def _never_taken(self) -> list[tuple[str, bool]]:
        """Topics that are never taken, whatever is included; and whether ours never takes them.

        Ours takes those only where they are named one by one.
        """
        apart = self._version >= SEPARATED_INTERNALLY and (
            self._config.get(INTERNAL_SEPARATOR, "true").strip().lower() == "true"
        )
        mark = quoted(self._separator if apart else ".")
        ours = mark == r"\."
        found = [*((it, False) for it in self._cycles()), ("__.*", True), (r"\..*", False)]
        if self._version >= INTERNAL_TAKEN:
            found.append((f"mm2.*{mark}internal", ours))
            found.append((f".*{mark}checkpoints{mark}internal", ours))
        else:
            found.append((r".*[\-\.]internal", False))
            if not ours:
                found.append((f".*{mark}internal", False))
        # One for longer names than topics have matches none, and `re` would keep it.
        return [(regex, is_ours) for regex, is_ours in found if 0 < len(regex) < MOST_REGEX]

    def _cycles(self) -> list[str]:
        if self._policy in ("", DEFAULT_POLICY):
            return [cycle_regex(self._separator, self._target)]
        if self._policy not in IDENTITY_POLICIES:
            return []
        # Only what looks like a heartbeat is named as the default policy does.
        found = [cycle_regex(self._separator, self._target, end="heartbeats")]
        if self._source == self._target:
            self._into.decide[SOURCE_ALIAS] = (
                "source and target have the same alias: with this policy MirrorMaker 2 takes every "
                "topic for one that came from the target, and copies none"
            )
            found.append("(?!.*heartbeats$).*")
        return found

    def take_names(self) -> None:
        into, config = self._into, self._config
        into.used |= {POLICY, SEPARATOR, SOURCE_ALIAS, INTERNAL_SEPARATOR}
        prefixed = f"{self._source}{self._separator}${{topic}}"
        may_beat = any(not is_name(it) or it.endswith("heartbeats") for it in into.include)
        said = next((it for it in (SOURCE_ALIAS, SEPARATOR, POLICY) if it in config), POLICY)
        if re.search(r"[^A-Za-z0-9._-]", self._separator):
            said = SEPARATOR
        into.keys["rename"] = said
        if SOURCE_ALIAS not in config:
            into.decide[SOURCE_ALIAS] = (
                "is not given, and MirrorMaker 2 does not start without it; topics keep their names"
            )
            into.rename = "${topic}" if self._policy in IDENTITY_POLICIES else None
        elif self._policy in ("", DEFAULT_POLICY):
            into.rename = prefixed
        elif self._policy not in IDENTITY_POLICIES:
            into.unknown_policy = self._policy
        elif may_beat and prefixed != "${topic}":
            into.rename = [{"match": ".*heartbeats", "to": prefixed}]
        else:
            into.rename = "${topic}"

    def take_clients(self) -> None:
        """The settings of the consumer that reads the records, and what the admin has apart."""
        into = self._into
        consumer, keys = self._of_client("consumer.")
        admin, admin_keys = self._of_client("admin.")
        for name, value in consumer.items():
            if name == RESET:
                into.start, into.keys["start"] = value.strip(), keys[name]
            elif name == ADDRESS:
                into.address, into.keys["bootstrap_servers"] = value.strip(), keys[name]
            else:
                part = "kafka" if is_of_cluster(name) else "consumer"
                getattr(into, part)[name] = value
                into.keys[f"{part}.{name}"] = keys[name]
        for name, value in admin.items():
            key = admin_keys[name]
            if is_of_cluster(name) and consumer.get(name, "").strip() != value.strip():
                into.decide[key] = (
                    f"the admin client has {shown(name, value)} there, and the consumer "
                    f"{shown(name, consumer.get(name, '')) or 'nothing'}; here all clients of a "
                    "cluster have what the consumer has"
                )
            elif not is_of_cluster(name):
                into.notes[key] = OF_ADMIN
            into.used.add(key)

    def _of_client(self, kind: str) -> tuple[dict[str, str], dict[str, str]]:
        """The settings of one kind of client of the source by name, and their keys."""
        found: dict[str, str] = {}
        keys: dict[str, str] = {}
        counts = kind == "admin." or self._version >= SOURCE_CONSUMERS_READ
        for prefix in ("source.cluster.", kind, f"source.{kind}"):
            for key, value in self._config.items():
                name = key.removeprefix(prefix)
                if name == key or key in (SOURCE_ALIAS, "consumer.poll.timeout.ms"):
                    continue
                if reason := self._reason_not(prefix, name, counts=counts):
                    self._into.notes[key] = reason
                else:
                    self._into.used.add(key)
                    found[name], keys[name] = value, key
        return found, keys

    def _reason_not(self, prefix: str, name: str, *, counts: bool) -> str:
        if prefix == "source.cluster.":
            if is_of_cluster(name):
                return ""
            return (
                "MirrorMaker 2 reads the address, security.protocol, ssl. and sasl. of a cluster; "
                "all else counts only behind consumer. and the like"
            )
        if name.startswith("override."):
            return "Connect reads it for the consumers of sinks only"
        if name == RESET and self._version < SOURCE_CONSUMERS_READ:
            return f"MirrorMaker {self._version} always begins at earliest"
        if prefix.startswith("source.") and not counts:
            return f"MirrorMaker {self._version} does not read it"
        return ""


def is_of_cluster(name: str) -> bool:
    """Whether MirrorMaker 2 takes a setting for all clients of a cluster."""
    return name in (ADDRESS, "security.protocol") or name.startswith(("ssl.", "sasl."))


def shown(name: str, value: object) -> str:
    """A value for people to read, without the secret that it may be."""
    text = str(value).strip()
    return MASK if text and is_secret(name) else hide_passwords(text)


def is_name(regex: str) -> bool:
    """Whether it is plainly the name of one topic."""
    return re.fullmatch(r"[A-Za-z0-9._-]+", regex) is not None
