"""The properties of plain consumers and producers become the settings of a cluster. Pure."""

from typing import Literal

from aggregator.config.kafka_names import READERS
from aggregator.extras.importers import mirror_maker_1_keys as words
from aggregator.extras.importers.configs import Path, SettingPlace, Settings, Sketch

Part = Literal["consumer", "producer"]


def take_client(draft: Sketch, settings: Settings, at: Path, part: Part) -> None:
    """Take every setting of a client over, or say why not; `at` is the path of its cluster.

    The address has to be taken apart from it: `address_of`.
    """
    old = words.OLD_CONSUMER if part == "consumer" else words.OLD_PRODUCER
    for key, value in settings.values.items():
        where = settings.where(key)
        name = old.get(key, key)
        if key == "bootstrap.servers" or (part == "producer" and key in words.OLD_ADDRESS):
            continue
        if key == "auto.offset.reset":
            _take_reset(draft, at, value, where)
        elif reason := words.reason_without(name, value):
            draft.note(where, reason)
        elif name.startswith(words.CONNECTION):
            draft.put((*at, "kafka", name), value, where)
        elif name in READERS and part not in READERS[name]:
            draft.note(where, f"no {part} reads this")
        else:
            draft.put((*at, part, name), value, where)
            if name not in READERS:
                reason = "is unknown to Kafka's clients; passed on for a plugin to read"
                draft.note(where, reason, taken=True)


def address_of(settings: Settings) -> tuple[str, SettingPlace]:
    """The address of the client's cluster, "" when it is not given."""
    for key in ("bootstrap.servers", *words.OLD_ADDRESS):
        if found := settings.values.get(key, "").strip():
            return found, settings.where(key)
    return "", settings.where("bootstrap.servers")


def _take_reset(draft: Sketch, at: Path, value: str, where: SettingPlace) -> None:
    word = words.OLD_RESET.get(value.strip(), value.strip())
    if word in ("earliest", "latest"):
        draft.put((*at, "start"), word, where)
    else:
        reason = f"'{value}' is neither earliest nor latest; see sources.<alias>.on_gap"
        draft.note(where, reason, decide=True)
