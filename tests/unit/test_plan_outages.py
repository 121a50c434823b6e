"""Sick sources: out of the lanes they share after the deadline, back after they were well."""

from aggregator.plan.outages import Outages, Probe, sick_sources

DEADLINE = 3.0
SHARING = {"eu", "us"}


def outages() -> Outages:
    return Outages(DEADLINE)


def follow(
    found: Outages,
    now: float,
    answered: dict[str, float],
    sharing: set[str] = SHARING,
    well: set[str] | None = None,
) -> bool:
    probes = {alias: Probe(at) for alias, at in answered.items()}
    return found.follow(probes, sharing, well or set(), now)


def test_a_source_is_sick_when_it_has_not_answered_for_longer_than_the_deadline() -> None:
    probes = {"eu": Probe(97.0), "us": Probe(96.9), "asia": Probe(10.0, "refused")}
    assert sick_sources(probes, DEADLINE, 100.0) == {"us": "no answer for 3 s", "asia": "refused"}


def test_one_failed_probe_within_the_deadline_is_no_illness() -> None:
    assert sick_sources({"eu": Probe(98.0, "refused")}, DEADLINE, 100.0) == {}


def test_only_a_sick_source_that_shares_a_lane_is_taken_out() -> None:
    found = outages()
    assert follow(found, 100.0, {"eu": 100.0, "us": 90.0, "asia": 90.0})
    assert set(found.out) == {"us"}
    assert not follow(found, 101.0, {"eu": 101.0, "us": 90.0, "asia": 90.0})


def test_it_comes_back_apart_after_it_was_well_for_two_seconds_and_joins_when_caught_up() -> None:
    found = outages()
    follow(found, 100.0, {"eu": 100.0, "us": 90.0})
    assert not follow(found, 110.0, {"eu": 110.0, "us": 110.0})
    assert follow(found, 112.0, {"eu": 112.0, "us": 112.0})
    assert found.out == {}
    assert found.apart == {"us"}
    assert not follow(found, 113.0, {"eu": 113.0, "us": 113.0}, {"eu"}, {"eu"})
    assert follow(found, 114.0, {"eu": 114.0, "us": 114.0}, {"eu"}, {"eu", "us"})
    assert found.out == {}
    assert found.apart == frozenset()


def test_the_time_to_be_well_starts_anew_with_each_missed_answer() -> None:
    found = outages()
    follow(found, 100.0, {"us": 90.0})
    follow(found, 110.0, {"us": 110.0})
    follow(found, 115.0, {"us": 110.0})
    assert not follow(found, 116.0, {"us": 116.0})
    assert set(found.out) == {"us"}
    assert follow(found, 118.5, {"us": 118.0})


def test_a_source_that_falls_ill_again_soon_waits_longer_each_time() -> None:
    found, now, waits = outages(), 100.0, []
    for _ in range(4):
        follow(found, now, {"us": now - 10})
        began = now = now + 1
        while found.out:
            now += 0.5
            follow(found, now, {"us": now})
        waits.append(int(now - began))
    assert waits == [2, 4, 8, 15]


def test_a_source_that_is_removed_is_forgotten() -> None:
    found = outages()
    follow(found, 100.0, {"eu": 100.0, "us": 90.0})
    assert follow(found, 101.0, {"eu": 101.0})
    assert found.out == {}


def test_a_failed_lane_separates_the_sources_that_share_it() -> None:
    found = outages()
    found.separate(("eu",))
    assert found.apart == frozenset()
    found.separate(("eu", "us"))
    assert found.apart == {"eu", "us"}
