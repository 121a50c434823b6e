"""The types of columns are wide enough for what later schemas write."""

from __future__ import annotations

from typing import Any

from aggregator.features.delta_sink.fit_to_column import spark_type, struct_type, widened


def struct(**fields: Any) -> Any:
    named = [
        {"name": name, "type": of, "nullable": False, "metadata": {}} for name, of in fields.items()
    ]
    return {"type": "struct", "fields": named}


def test_whole_numbers_are_bigint_others_double_and_all_may_be_null() -> None:
    inner = struct(a="integer", b="float", c="string", d="decimal(9,2)")
    of = struct(
        at={"type": "array", "elementType": inner, "containsNull": False},
        by={
            "type": "map",
            "keyType": "string",
            "valueType": "short",
            "valueContainsNull": False,
        },
    )
    assert struct_type(widened(of)).simpleString() == (
        "struct<at:array<struct<a:bigint,b:double,c:string,d:decimal(9,2)>>,by:map<string,bigint>>"
    )
    assert all(field.nullable for field in struct_type(widened(of)).fields)
    assert widened(widened(of)) == widened(of)


def test_what_json_says_of_a_type_is_that_type() -> None:
    for text in ("string", "decimal(9,2)", "timestamp_ntz", "date", "binary"):
        assert spark_type(text).simpleString() == text
    assert spark_type(struct(a="long")).simpleString() == "struct<a:bigint>"
