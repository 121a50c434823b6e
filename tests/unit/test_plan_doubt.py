"""A checkpoint is believed when the hub holds nothing behind what it knows of."""

from aggregator.model import OffsetRange, Route, SourcePartition, TopicPartition
from aggregator.plan.doubt import Doubt, plan_doubt

ROUTES = [Route("eu", "a", "hub-a", 2, 2), Route("us", "b", "hub-b", 1, 1)]
EU = [SourcePartition("eu", "a", 0), SourcePartition("eu", "a", 1)]
US = SourcePartition("us", "b", 0)
A0, A1, B0 = TopicPartition("hub-a", 0), TopicPartition("hub-a", 1), TopicPartition("hub-b", 0)


def logs(a0: int, a1: int, b0: int, earliest: int = 0) -> dict[TopicPartition, OffsetRange]:
    return {tp: OffsetRange(earliest, end) for tp, end in {A0: a0, A1: a1, B0: b0}.items()}


def test_a_hub_as_the_checkpoint_left_it_is_not_looked_into() -> None:
    known = {A0: 10, A1: 20, B0: 30}
    assert plan_doubt(ROUTES, [*EU, US], known, logs(10, 20, 30), fresh=False) == Doubt()


def test_records_behind_the_known_ends_put_what_goes_into_that_topic_in_doubt() -> None:
    known = {A0: 10, A1: 20, B0: 30}
    doubt = plan_doubt(ROUTES, [*EU, US], known, logs(10, 25, 30), fresh=False)
    assert doubt.partitions == set(EU)
    assert doubt.hub_ends == known
    assert "5 records in hub-a" in doubt.reason


def test_without_a_checkpoint_a_hub_topic_that_holds_anything_is_looked_through() -> None:
    doubt = plan_doubt(ROUTES, [*EU, US], {}, logs(3, 0, 0), fresh=True)
    assert doubt.partitions == set(EU)
    assert doubt.hub_ends == {}
    assert "--fresh" in doubt.reason


def test_an_empty_hub_and_one_whose_records_are_all_deleted_raise_no_doubt() -> None:
    assert plan_doubt(ROUTES, [*EU, US], {}, logs(0, 0, 0), fresh=True) == Doubt()
    assert plan_doubt(ROUTES, EU, {}, logs(7, 7, 7, earliest=7), fresh=True) == Doubt()


def test_only_what_is_to_start_is_doubted() -> None:
    assert plan_doubt(ROUTES, [US], {}, logs(3, 0, 0), fresh=True) == Doubt()
