"""A checkpoint is believed when the hub holds nothing behind what it knows of."""

from typing import Any

from aggregator.model.values import OffsetRange, Route, SourcePartition, TopicPartition
from aggregator.plan.positions.doubt import Believed, Doubt, plan_doubt

ROUTES = [Route("eu", "a", "hub-a", 2, 2), Route("us", "b", "hub-b", 1, 1)]
EU = [SourcePartition("eu", "a", 0), SourcePartition("eu", "a", 1)]
US = SourcePartition("us", "b", 0)
GONE = SourcePartition("eu", "no-longer-selected", 0)
A0, A1, B0 = TopicPartition("hub-a", 0), TopicPartition("hub-a", 1), TopicPartition("hub-b", 0)
KNOWN = {A0: 10, A1: 20, B0: 30}


def logs(a0: int, a1: int, b0: int, earliest: int = 0) -> dict[TopicPartition, OffsetRange]:
    return {tp: OffsetRange(earliest, end) for tp, end in {A0: a0, A1: a1, B0: b0}.items()}


def doubt(hub: dict[TopicPartition, OffsetRange], **believed: Any) -> Doubt:
    return plan_doubt(ROUTES, Believed(**{"clean": (), "hub_ends": KNOWN, **believed}), hub)


def test_a_hub_as_the_checkpoint_left_it_is_not_looked_into() -> None:
    found = doubt(logs(10, 20, 30), clean=[*EU, US, GONE], absent=EU)
    assert not (found.ends or found.sources or found.reason)


def test_records_behind_the_known_ends_put_what_goes_into_that_topic_in_doubt() -> None:
    found = doubt(logs(10, 25, 30), clean=[*EU, US])
    assert found.ends == dict.fromkeys(EU, KNOWN)
    assert not found.sources
    assert found.hub_ends == KNOWN
    assert "5 records in hub-a" in found.reason


def test_a_hub_topic_that_holds_less_puts_what_goes_there_in_doubt() -> None:
    own = {**dict.fromkeys(EU, KNOWN), US: KNOWN}
    found = doubt(logs(10, 19, 30), clean=[*EU, US], own_ends=own)
    # What comes now comes behind its end of now.
    assert found.ends == {sp: {**KNOWN, A1: 19} for sp in EU}
    assert found.lost == {sp: {"hub-a"} for sp in EU}
    assert "the hub holds less in hub-a than the checkpoint knows of" in found.reason
    # Of a topic that was created again with fewer partitions; beside one that has grown.
    fewer = {tp: log for tp, log in logs(10, 0, 31).items() if tp != A1}
    found = doubt(fewer, clean=[*EU, US], own_ends=own)
    assert found.ends.keys() == {*EU, US}
    assert "less in hub-a" in found.reason
    assert "1 records in hub-b" in found.reason
    # By its own commit, also where others know of more; and whatever its topic is.
    assert not doubt(logs(10, 19, 30), clean=EU, own_ends={EU[0]: {A1: 19}}).ends
    found = doubt(logs(10, 19, 30), clean=[GONE], own_ends={GONE: KNOWN})
    assert found.ends.keys() == {GONE}


def test_what_is_unclean_is_known_to_lack_what_the_hub_has_lost_before_that_grows() -> None:
    own = {EU[0]: {A1: 20, B0: 12}, EU[1]: {A1: 18}}
    found = doubt(logs(10, 19, 30), clean=[US], own_ends=own)
    assert found.ends == {EU[0]: own[EU[0]]}
    assert found.lost == {EU[0]: {"hub-a"}}


def test_so_they_do_what_is_read_no_more_as_no_one_knows_where_it_went() -> None:
    assert doubt(logs(10, 20, 31), clean=[*EU, US, GONE]).ends.keys() == {US, GONE}


def test_of_partitions_without_a_commit_the_source_is_in_doubt() -> None:
    found = doubt(logs(10, 25, 30), clean=[US], absent=EU)
    assert found.sources == {"eu"}
    assert found.hub_ends == KNOWN
    assert found.reason
    assert not found.ends


def test_without_a_checkpoint_a_hub_topic_that_holds_anything_is_looked_through() -> None:
    found = doubt(logs(3, 0, 0), hub_ends={}, absent=[*EU, US], is_empty=True)
    assert found.sources == {"eu"}
    assert found.hub_ends == {}
    assert "--fresh" in found.reason


def test_an_empty_hub_and_one_whose_records_are_all_deleted_raise_no_doubt() -> None:
    for hub in (logs(0, 0, 0), logs(7, 7, 7, earliest=7)):
        assert doubt(hub, hub_ends={}, absent=[*EU, US], is_empty=True) == Doubt()


def test_a_source_that_is_away_is_in_doubt_and_nothing_is_said_of_it() -> None:
    found = doubt(logs(10, 20, 30), clean=EU, away={"us"})
    assert found.sources == {"us"}
    assert found.hub_ends == KNOWN
    assert not (found.ends or found.reason)


def test_ends_that_people_went_by_hold_for_what_they_set_alone() -> None:
    by_hand = {EU[0]: {A0: 10, A1: 25}}
    assert doubt(logs(10, 25, 30), clean=EU, by_hand=by_hand).ends == {EU[1]: KNOWN}
    # When even they are behind, it is looked for behind them.
    found = doubt(logs(10, 26, 30), clean=EU, by_hand=by_hand)
    assert found.ends == {EU[0]: {A0: 10, A1: 25, B0: 30}, EU[1]: KNOWN}
