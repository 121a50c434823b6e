"""Whether live tasks interpret their rows: by the number of partitions, or as the user says."""

from __future__ import annotations

import pytest

from aggregator.config.schema import Config
from aggregator.plan.tasks import live_conf


def config(**conf: str) -> Config:
    return Config.model_validate(
        {
            "hub": {"bootstrap_servers": "h:1"},
            "sources": {"eu": {"bootstrap_servers": "e:1", "topics": {"include": "x"}}},
            "spark": {"conf": conf},
        }
    )


@pytest.mark.parametrize(
    ("partitions", "how"),
    [(0, None), (200, None), (499, None), (500, "NO_CODEGEN"), (10_000, "NO_CODEGEN")],
)
def test_many_tasks_interpret_their_rows(partitions: int, how: str | None) -> None:
    wanted = {} if how is None else {"spark.sql.codegen.factoryMode": how}
    assert live_conf(config(), partitions) == wanted


@pytest.mark.parametrize("how", ["FALLBACK", "NO_CODEGEN"])
@pytest.mark.parametrize("partitions", [1, 1_000])
def test_a_user_decides(how: str, partitions: int) -> None:
    # The session has it then, and so has what is started from it.
    assert live_conf(config(**{"spark.sql.codegen.factoryMode": how}), partitions) == {}
