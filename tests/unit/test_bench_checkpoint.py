"""The bench of the checkpoint's cost, on real tables of a few commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.checkpoint import main, measure


@pytest.mark.slow
def test_each_line_compares_an_old_table_with_a_new_one(tmp_path: Path) -> None:
    spans = list(measure(tmp_path, partitions=3, commits=4, every=2))
    assert [span.commits for span in spans] == [2, 4]
    for span in spans:
        assert 0 < span.median_ms <= span.slowest_ms
        assert min(span.paired_ms, span.young_ms, span.start_ms, span.young_start_ms) > 0
    # The new tables are gone; the old one has four commits of its making, and every one counted.
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    log = sorted((tmp_path / "old" / "checkpoints" / "_delta_log").glob("*.json"))
    assert len(log) == 4 + 4


@pytest.mark.slow
def test_the_page_has_a_table_for_each_number_of_partitions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["--commits", "2", "--every", "1", "--partitions", "1", "5", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["bench.checkpoint", *given])
    assert main() == 0
    (page,) = tmp_path.iterdir()
    text = page.read_text("utf-8")
    assert "## 1 source partitions in each commit" in text
    assert "## 5 source partitions in each commit" in text
    assert text.count("\n| 1 | ") == text.count("\n| 2 | ") == 2
    assert f"written: {page}" in capsys.readouterr().err
