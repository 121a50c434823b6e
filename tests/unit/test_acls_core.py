"""ACLs that the hub gets of its sources: never wider than at every one of them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from aggregator.features.acls.required_acls import Acl, plan_acls
from aggregator.model.values import Route
from support.examples import examples

IMPLIED = {
    "DESCRIBE": {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"},
    "DESCRIBE_CONFIGS": {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
}
OPERATIONS = ("READ", "WRITE", "DESCRIBE", "ALTER", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
PRINCIPALS = ("User:alice", "User:bob", "User:*", "User:copier", "Group:all")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")
OURS = "User:copier"


def acl(operation: str, principal: str = "User:alice", **other: str) -> Acl:
    words = {"pattern": "LITERAL", "name": "orders", "host": "*", "permission": "ALLOW", **other}
    return Acl(principal=principal, operation=operation, **words)


def route(alias: str, topic: str = "orders", hub_topic: str = "orders") -> Route:
    return Route(alias, topic, hub_topic, 1, 1)


def authorized(acls: Sequence[Acl], topic: str, principal: str, host: str, operation: str) -> bool:
    """As Kafka's own authorizer decides: a denial first, then a grant, which may be implied."""

    def holds(it: Acl, permission: str, operations: set[str]) -> bool:
        named = it.name in ("*", topic) if it.pattern == "LITERAL" else topic.startswith(it.name)
        user = it.principal in (principal, "User:*" if principal.startswith("User:") else "")
        there = it.host in (host, "*")
        what = it.operation in operations | {"ALL"}
        return named and user and there and what and it.permission == permission

    if any(holds(it, "DENY", {operation}) for it in acls):
        return False
    return any(holds(it, "ALLOW", IMPLIED.get(operation, {operation})) for it in acls)


acls = st.lists(
    st.builds(
        Acl,
        pattern=st.sampled_from(["LITERAL", "PREFIXED"]),
        name=st.sampled_from(["orders", "ord", "*", "other"]),
        principal=st.sampled_from(PRINCIPALS),
        host=st.sampled_from(HOSTS),
        operation=st.sampled_from([*OPERATIONS, "ALL"]),
        permission=st.sampled_from(["ALLOW", "ALLOW", "DENY"]),
    ),
    max_size=7,
)


@given(st.dictionaries(st.sampled_from(["eu", "us", "ap"]), acls, min_size=1))
@examples(400)
def test_no_one_may_do_at_the_hub_what_one_of_the_sources_does_not_allow(
    listed: dict[str, list[Acl]],
) -> None:
    routes = [route(alias, hub_topic="all.orders") for alias in listed]
    plan = plan_acls(routes, set(listed), listed, (), OURS)
    assert all((it.pattern, it.name) == ("LITERAL", "all.orders") for it in plan.add)
    # Nothing that is denied to all, and nothing about ourselves.
    assert not any(it.principal in (OURS, "User:*") for it in plan.add if it.permission == "DENY")
    for principal in ("User:alice", "User:bob", "User:eve", OURS, "Group:all"):
        for host in (*HOSTS[1:], "10.0.0.3"):
            for operation in OPERATIONS:
                if authorized(plan.add, "all.orders", principal, host, operation):
                    assert operation in ("READ", "DESCRIBE")
                    for alias, own in listed.items():
                        assert authorized(own, "orders", principal, host, operation), alias


@given(acls)
@examples(200)
def test_a_second_plan_adds_nothing(own: list[Acl]) -> None:
    first = plan_acls([route("eu")], {"eu"}, {"eu": own}, (), OURS)
    again = plan_acls([route("eu")], {"eu"}, {"eu": own}, first.add, OURS)
    assert again.add == ()
    assert again.superfluous == ()


def test_a_reader_reads_and_a_writer_only_describes() -> None:
    listed = {"eu": [acl("READ"), acl("WRITE", "User:bob"), acl("ALL", "User:carol")]}
    plan = plan_acls([route("eu", hub_topic="eu.orders")], {"eu"}, listed, ())
    assert [str(it) for it in plan.add] == [
        "ALLOW READ on eu.orders to User:alice",
        "ALLOW DESCRIBE on eu.orders to User:bob",
        "ALLOW READ on eu.orders to User:carol",
    ]


def test_patterns_are_narrowed_to_the_hub_topic() -> None:
    listed = {
        "eu": [
            acl("READ", pattern="PREFIXED", name="ord"),
            acl("READ", "User:bob", name="*"),
            acl("READ", "User:carol", name="others"),
        ]
    }
    plan = plan_acls([route("eu")], {"eu"}, listed, ())
    assert [(it.pattern, it.name, it.principal) for it in plan.add] == [
        ("LITERAL", "orders", "User:alice"),
        ("LITERAL", "orders", "User:bob"),
    ]


def test_of_several_sources_only_what_all_of_them_grant() -> None:
    listed = {
        "eu": [acl("READ"), acl("READ", "User:bob"), acl("READ", "User:dan", host="10.0.0.1")],
        "us": [acl("READ", "User:bob", host="10.0.0.1"), acl("READ", "User:*", host="10.0.0.1")],
    }
    plan = plan_acls([route("eu"), route("us")], {"eu", "us"}, listed, ())
    assert {(it.principal, it.host) for it in plan.add} == {
        ("User:alice", "10.0.0.1"),
        ("User:bob", "10.0.0.1"),
        ("User:dan", "10.0.0.1"),
    }


def test_where_one_source_lists_no_acls_nothing_is_granted() -> None:
    routes = [route("eu"), route("us"), route("eu", "own", "own")]
    listed = {"eu": [acl("READ", name="*")]}
    plan = plan_acls(routes, {"eu"}, listed, ())
    assert [it.name for it in plan.add] == ["own"]
    assert plan.notes == (
        "orders: nothing is granted, as us flows into it as well, without acls.sync",
    )
    silent = plan_acls(routes, {"eu", "us"}, listed, ())
    assert silent.notes == ("orders: nothing is granted, as us does not list its ACLs",)


def test_where_a_source_that_is_not_known_may_flow_in_nothing_is_granted() -> None:
    listed = {"eu": [acl("READ")]}
    plan = plan_acls([route("eu")], {"eu", "us"}, listed, (), unseen={"orders": ["us"]})
    assert plan.add == ()
    assert plan.notes == ("orders: nothing is granted, as us does not list its ACLs",)


def test_a_denial_is_kept() -> None:
    listed = {
        "eu": [
            acl("READ"),
            acl("READ", host="10.0.0.1", permission="DENY"),
            acl("READ", "User:bob"),
            acl("ALL", "User:bob", permission="DENY"),
        ]
    }
    plan = plan_acls([route("eu")], {"eu"}, listed, ())
    assert {str(it) for it in plan.add} == {
        "ALLOW READ on orders to User:alice",
        "DENY READ on orders to User:alice from 10.0.0.1",
    }


def test_a_denial_for_everybody_is_never_written() -> None:
    listed = {
        "eu": [acl("READ", "User:*"), acl("READ", "User:*", host="10.0.0.1", permission="DENY")]
    }
    plan = plan_acls([route("eu")], {"eu"}, listed, ())
    assert [str(it) for it in plan.add] == ["ALLOW DESCRIBE on orders to User:*"]
    assert "User:* gets no READ" in plan.notes[0]


def test_what_the_hub_grants_and_no_source_does_is_named_and_left() -> None:
    hub = [acl("READ", "User:eve"), acl("READ", OURS), acl("WRITE", "User:bob"), acl("READ")]
    plan = plan_acls([route("eu")], {"eu"}, {"eu": [acl("READ")]}, hub, OURS)
    assert plan.add == ()
    assert [str(it) for it in plan.superfluous] == ["ALLOW READ on orders to User:eve"]
