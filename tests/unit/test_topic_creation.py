"""Which topics the hub has not created yet, and which it refuses."""

from __future__ import annotations

from aggregator.kafka.discovery.creation import not_there
from aggregator.plan.actions import Applied, CreateTopic, GrowTopic


def test_a_topic_that_slow_brokers_do_not_show_yet_is_tried_again_and_not_refused() -> None:
    made, late, refused = (CreateTopic(it, 2, 1) for it in ("made", "late", "refused"))
    grown = GrowTopic("grown", 1, 2)
    answers = [
        Applied(made, True, True),
        Applied(late, False, True, "done, but brokers do not show it yet; try again"),
        Applied(refused, False, False, "no such config"),
        Applied(grown, False, False, "policy"),
    ]
    assert not_there(answers) == ([late], [answers[2], answers[3]])
    assert not_there(answers[:1]) == ([], [])
