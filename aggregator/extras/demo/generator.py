"""Believable orders and payments of one region, out of a seed: the same seed, the same events."""

import json
import random
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from aggregator.extras.embedded.registry import framed_avro

ORDERS = "orders"
PAYMENTS = "payments"
TOPICS = (ORDERS, PAYMENTS)
SHIPMENTS = "shipments"
SHIPMENT = {
    "type": "record",
    "name": "Shipment",
    "namespace": "shop",
    "fields": [
        {"name": "order_id", "type": "string"},
        {"name": "carrier", "type": "string"},
        {"name": "city", "type": "string"},
        {"name": "parcels", "type": "int"},
        {"name": "shipped_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
"""The Avro schema of values of `SHIPMENTS`."""
CARRIERS = ("Albatros", "Bluebird", "Cormorant")

CUSTOMERS = 2_000
LONGEST_QUEUE = 200
"""The most orders that wait for their payment, or for their shipment."""


@dataclass(frozen=True, slots=True)
class Region:
    """What differs from region to region."""

    name: str
    currency: str
    countries: tuple[str, ...]
    cities: tuple[str, ...]
    methods: tuple[str, ...]


REGIONS = {
    "eu": Region(
        "eu",
        "EUR",
        ("DE", "FR", "NL", "ES", "IT", "PL"),
        ("Leipzig", "Nantes", "Utrecht", "Zaragoza", "Torino", "Gdańsk"),
        ("sepa", "card", "ideal", "invoice"),
    ),
    "us": Region(
        "us",
        "USD",
        ("US",),
        ("Portland", "Austin", "Chicago", "Boston", "Denver", "Seattle"),
        ("card", "card", "paypal", "ach"),
    ),
    "apac": Region(
        "apac",
        "SGD",
        ("SG", "AU", "NZ"),
        ("Singapore", "Sydney", "Auckland"),
        ("card", "paynow", "transfer"),
    ),
}

GOODS = (
    ("KB-104", "Keyboard, 104 keys", 79_00),
    ("MS-210", "Mouse, two buttons", 24_90),
    ("MN-270", "Monitor, 27 inch", 289_00),
    ("CB-USB", "Cable, 2 m", 9_95),
    ("HS-300", "Headset", 119_50),
    ("DK-140", "Desk, 140 cm", 349_00),
    ("LP-013", "Lamp", 42_00),
    ("NB-A5", "Notebook, 5 pieces", 12_40),
)
"""Article number, name, price in cents."""

FIRST_NAMES = ("Ada", "Bruno", "Chloé", "Deniz", "Emma", "Farid", "Grete", "Hugo", "Inés", "Jan")
LAST_NAMES = ("Meyer", "Rossi", "Nowak", "Garcia", "Jansen", "Dubois", "Smith", "Okafor", "Lind")


class ShopRecord(NamedTuple):
    """One record to write: `key` decides the partition."""

    topic: str
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


@dataclass(slots=True)
class EventMaker:
    """Makes the events of one region, one after the other. Pure but for its own sequence.

    Orders are keyed by customer and payments by order, so all of one stay in order. Each payment
    follows its order some events later, under the same trace id. With a `schema_id`, that of
    `SHIPMENT` in a registry, shipments in Avro follow payments.
    """

    region: Region
    seed: int
    schema_id: int | None = None
    _made: int = 0
    _random: random.Random = field(init=False)
    _unpaid: deque[dict[str, Any]] = field(default_factory=deque)
    _unshipped: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=LONGEST_QUEUE))

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed}/{self.region.name}")

    def make(self, now_ms: int) -> ShopRecord:
        """The next event, which happens at `now_ms` (milliseconds since 1970)."""
        moment = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
        if self.schema_id is not None and self._unshipped and self._random.random() < 0.3:
            return self._shipment(self._unshipped.popleft(), self.schema_id, now_ms)
        waiting = len(self._unpaid)
        if waiting and (waiting >= LONGEST_QUEUE or self._random.random() < 0.5):
            return self._payment(self._unpaid.popleft(), moment)
        return self._order(moment)

    def _order(self, moment: str) -> ShopRecord:
        pick = self._random
        self._made += 1
        amount = 0
        lines = []
        for sku, name, cents in pick.sample(GOODS, pick.choice((1, 1, 1, 2, 2, 3))):
            quantity = pick.choice((1, 1, 1, 2, 3))
            amount += quantity * cents
            lines.append({"sku": sku, "name": name, "quantity": quantity, "price": cents / 100})
        place = pick.randrange(len(self.region.cities))
        customer = pick.randrange(CUSTOMERS)
        order: dict[str, Any] = {
            "order_id": f"{self.region.name}-{self._made:08}",
            "customer": {
                "id": f"{self.region.name}-c{customer:05}",
                "name": f"{FIRST_NAMES[customer % 10]} {LAST_NAMES[customer % 9]}",
                "city": self.region.cities[place],
                "country": self.region.countries[place % len(self.region.countries)],
            },
            "items": lines,
            "amount": amount / 100,
            "currency": self.region.currency,
            "region": self.region.name,
            "ordered_at": moment,
        }
        trace = f"{pick.getrandbits(128):032x}"
        self._unpaid.append({**order, "trace": trace})
        return _event(ORDERS, order["customer"]["id"], order, trace)

    def _payment(self, order: dict[str, Any], moment: str) -> ShopRecord:
        self._unshipped.append(order)
        payment = {
            "payment_id": f"p-{order['order_id']}",
            "order_id": order["order_id"],
            "customer_id": order["customer"]["id"],
            "amount": order["amount"],
            "currency": order["currency"],
            "method": self._random.choice(self.region.methods),
            "status": "refused" if self._random.random() < 0.03 else "captured",
            "region": order["region"],
            "paid_at": moment,
        }
        return _event(PAYMENTS, order["order_id"], payment, order["trace"])

    def _shipment(self, order: dict[str, Any], schema_id: int, now_ms: int) -> ShopRecord:
        shipment = {
            "order_id": order["order_id"],
            "carrier": self._random.choice(CARRIERS),
            "city": order["customer"]["city"],
            "parcels": len(order["items"]),
            "shipped_at": now_ms,
        }
        headers = [("trace-id", order["trace"].encode()), ("content-type", b"avro/binary")]
        value = framed_avro(schema_id, SHIPMENT, shipment)
        return ShopRecord(SHIPMENTS, order["order_id"].encode(), value, headers)


def _event(topic: str, key: str, value: dict[str, Any], trace: str) -> ShopRecord:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    headers = [("trace-id", trace.encode()), ("content-type", b"application/json")]
    return ShopRecord(topic, key.encode(), text.encode(), headers)
