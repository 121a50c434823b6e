"""`seq 10000 | python stdin_producer.py SERVERS TOPIC`: one record per line."""

import sys

from confluent_kafka import Producer


def main(servers: str, topic: str) -> int:
    """Write the lines of stdin; returns how many could not be delivered."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "acks": "all"})
    for line in sys.stdin:
        producer.produce(topic, line.rstrip("\n").encode())
        producer.poll(0)
    return int(producer.flush(60))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
