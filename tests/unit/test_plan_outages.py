"""Sick sources: those that have not answered a probe for longer than the deadline."""

from aggregator.plan.health.stuck import Probe, unhealthy_sources

DEADLINE = 3.0


def test_a_source_is_sick_when_it_has_not_answered_for_longer_than_the_deadline() -> None:
    probes = {"eu": Probe(97.0), "us": Probe(96.9), "asia": Probe(10.0, "refused")}
    assert unhealthy_sources(probes, DEADLINE, 100.0) == {
        "us": "no answer for 3 s",
        "asia": "refused",
    }


def test_one_failed_probe_within_the_deadline_is_no_illness() -> None:
    assert unhealthy_sources({"eu": Probe(98.0, "refused")}, DEADLINE, 100.0) == {}
