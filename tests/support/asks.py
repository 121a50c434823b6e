"""`python asks.py SERVERS TOPIC`: for each line of stdin, ask a cluster until it has answered.

Four threads share one admin client. Says "asking" before, and "answered" when all have an answer.
"""

import sys
import threading
import time

from aggregator.config.load import load_text
from aggregator.kafka.admin import ClusterAdmin, open_admin
from aggregator.kafka.admin.client_errors import ClusterCallError
from aggregator.kafka.admin.ids import read_ids

HEAD_START_SECONDS = 0.5
"""For a test that freezes the cluster under the questions."""
CONFIG = """
hub: {{bootstrap_servers: "127.0.0.1:1"}}
sources: {{eu: {{bootstrap_servers: "{servers}", topics: {{include: {topic}}}}}}}
checkpoint: {{path: /nowhere}}
"""


def ask(admin: ClusterAdmin, topic: str) -> None:
    """Ask until all is answered at once."""
    while True:
        try:
            admin.describe(lambda name: name == topic, 2)
            if read_ids(admin, [topic], 2).topic_ids:
                return
        except ClusterCallError:
            continue


def main(servers: str, topic: str) -> None:
    """Serve stdin."""
    config = load_text(CONFIG.format(servers=servers, topic=topic))
    with open_admin(config, "eu") as admin:
        for _ in sys.stdin:
            print("asking", flush=True)
            time.sleep(HEAD_START_SECONDS)
            threads = [threading.Thread(target=ask, args=(admin, topic)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            print("answered", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
