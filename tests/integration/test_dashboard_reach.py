"""Every page of the dashboard by keyboard alone, at 400 % zoom, and on a phone; in a real Chromium.

The state is made up: what is judged is the pages. A width of 320 pixels is what 400 % leaves of
1,280; a phone has 390.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Route, expect

from aggregator.features.timeline.past_queries import history_log
from aggregator.features.timeline.timeline_report import HistoryRow
from aggregator.store.state_store import StateStore
from support.browser import Visitor, visiting
from support.played import ALIAS, WRITE, played_api
from support.reading import wait_for

PAGES = {
    "": "Sources of central",
    f"source/{ALIAS}": ALIAS,
    "topics": "Topics at the hub",
    "topic/hub.t0": "hub.t0",
    "records/hub.t0": "Records of hub.t0",
    "incidents": "Gaps, quarantine, recoveries and audits",
    "events": "Timeline",
    "config": "The config in effect",
}
ZOOMED, PHONE = 320, 390
MOST_TABS = 40


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Somebody with the token that may change something, at a source with some history."""
    folder = tmp_path_factory.mktemp("reach")
    now = datetime.now(UTC)
    rows = [
        HistoryRow(
            at=now - timedelta(minutes=number),
            seconds=60,
            source=ALIAS,
            state="RUNNING",
            records=600_000 * number,
            bytes=600_000_000 * number,
            lag=10**6 * number,
            lag_bytes=10**9 * number,
            seconds_behind=number,
            **{f"{it}_p{at}_ms": at * number for it in ("age", "flight") for at in (50, 95, 99)},
        )
        for number in range(20, 0, -1)
    ]
    with played_api(folder / "state") as api:
        history_log(StateStore(str(api.state))).append(rows)
        with visiting(api.url, folder / "screens") as found:
            found.page.goto(f"{found.url}/ui/")
            found.page.get_by_role("dialog").get_by_label("Token").fill(WRITE)
            found.page.keyboard.press("Enter")
            found.page.get_by_role("heading", name="Sources of", level=1).wait_for()
            # Until the token was given, the answers said so.
            found.errors.clear()
            yield found
            assert (found.errors, found.strangers) == ([], [])


def open_all(visitor: Visitor) -> None:
    """Open whatever can be opened on this page."""
    for closed in visitor.page.locator("main details").all():
        if closed.get_attribute("open") is None:
            closed.locator("summary").click()


@pytest.mark.parametrize("page", PAGES, ids=lambda it: it or "overview")
def test_a_page_is_readable_at_400_percent_and_on_a_phone(visitor: Visitor, page: str) -> None:
    visitor.go(page, PAGES[page])
    open_all(visitor)
    for width in (ZOOMED, PHONE):
        assert visitor.fits(width), (page, width)
    visitor.page.set_viewport_size({"width": ZOOMED, "height": 256})
    # In light and in dark, with all of it open.
    visitor.check(f"narrow-{page.replace('/', '-') or 'overview'}")
    visitor.page.set_viewport_size({"width": 1280, "height": 800})


def test_each_partition_of_a_source_says_why_it_is_not_read(visitor: Visitor) -> None:
    visitor.go(f"source/{ALIAS}", ALIAS)
    open_all(visitor)
    table = visitor.page.get_by_role("region", name="Each partition")
    expect(table.get_by_role("row")).to_have_count(1 + 2)
    expect(table.get_by_role("row", name="quarantined")).to_contain_text("90")
    # Also after the page is drawn again.
    visitor.page.reload()
    visitor.go("topics", PAGES["topics"])
    for title in ("Lag in offsets", "Behind", "Copy latency"):
        visitor.go(f"source/{ALIAS}", ALIAS)
        visitor.page.get_by_role("button", name="6 hours").click()
        visitor.page.locator("figcaption").get_by_text(title, exact=True).wait_for()
    behind = visitor.page.locator("figcaption").filter(has_text=re.compile("^Behind"))
    assert "1 s" in behind.inner_text()


@pytest.mark.parametrize("address", ["nix", "source/nix", "topic/nix", "%", "constructor"])
def test_an_address_that_leads_nowhere_says_so(visitor: Visitor, address: str) -> None:
    visitor.go(address, "There is no such page")
    # The browser notes that there is no such source or topic.
    visitor.errors.clear()


def test_another_page_begins_at_its_top_and_a_choice_keeps_the_focus(visitor: Visitor) -> None:
    page = visitor.page
    page.set_viewport_size({"width": 640, "height": 300})
    visitor.go("events", PAGES["events"])
    page.locator("canvas").last.wait_for()
    page.evaluate("window.scrollTo(0, 10_000)")
    assert page.evaluate("window.scrollY") > 300
    page.evaluate(f"location.hash = '#/source/{ALIAS}'")
    page.get_by_role("heading", name=ALIAS, level=1).wait_for()
    wait_for(lambda: page.evaluate("window.scrollY") == 0, "it is at its top")
    for span in ("15 minutes", "6 hours"):
        page.get_by_role("button", name=span).click()
        chosen = page.get_by_role("button", name=span, pressed=True)
        expect(chosen).to_be_focused()
    page.set_viewport_size({"width": 1280, "height": 800})


def test_a_standby_does_not_say_that_no_source_is_configured_nor_that_it_is_old(
    visitor: Visitor,
) -> None:
    def stand_by(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "phase": "STANDBY", "sources": []})

    visitor.go("topics", PAGES["topics"])
    visitor.page.route("**/api/overview", stand_by)
    try:
        visitor.go("", PAGES[""])
        visitor.until("Another instance writes.")
        expect(visitor.page.locator("#age")).to_have_text("up to date")
    finally:
        visitor.page.unroute("**/api/overview")


def test_one_that_has_failed_does_not_say_that_no_source_is_configured(visitor: Visitor) -> None:
    def fail(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "phase": "FAILED", "sources": []})

    visitor.go("topics", PAGES["topics"])
    visitor.page.route("**/api/overview", fail)
    try:
        visitor.go("", PAGES[""])
        visitor.until("It has failed.")
    finally:
        visitor.page.unroute("**/api/overview")


def test_who_writes_an_offset_or_a_time_does_not_get_the_newest(visitor: Visitor) -> None:
    visitor.go("records/hub.t0", PAGES["records/hub.t0"])
    which = visitor.page.get_by_label("Which", exact=True)
    place = visitor.page.get_by_label("Offset, or time")
    for written, meant in (("12", "offset"), ("1h", "time")):
        which.select_option("newest")
        place.fill("")
        place.press_sequentially(written)
        place.press("Tab")
        expect(which).to_have_value(meant)
    # What is chosen afterwards counts.
    which.select_option("newest")
    place.press("Tab")
    expect(which).to_have_value("newest")
    place.fill("")


def test_a_page_that_fails_does_not_say_that_there_is_no_answer(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("topics", PAGES["topics"])
    page.route("**/api/overview", lambda route: route.fulfill(json={}))
    try:
        visitor.go("", "This page has failed")
    finally:
        page.unroute("**/api/overview")
    page.get_by_role("heading", name=PAGES[""], level=1).wait_for()
    # The console has the reason.
    assert visitor.errors
    visitor.errors.clear()


def test_a_wrong_token_is_named_and_another_can_be_entered(visitor: Visitor) -> None:
    browser = visitor.page.context.browser
    assert browser is not None
    page = browser.new_page()
    try:
        page.goto(f"{visitor.url}/ui/")
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Token").fill("wrong-0123456789")
        page.keyboard.press("Enter")
        dialog.get_by_text("is not known to this aggregator").wait_for()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        page.get_by_role("button", name="Enter a token").click()
        expect(dialog).to_be_visible()
    finally:
        page.close()


UNKNOWN_BEHIND = """async () => {
  const { heat } = await import("/ui/heat.js");
  const { settle } = await import("/ui/live.js");
  const row = { topic: "t", partition: 0, state: "RUNNING", lag: 7, reason: "" };
  const rows = [
    { ...row, seconds_behind: null, seconds_behind_at_least: false },
    { ...row, seconds_behind: 2, seconds_behind_at_least: true },
    { ...row, seconds_behind: 2, seconds_behind_at_least: false },
    { ...row, lag: 0, seconds_behind: null, seconds_behind_at_least: false },
    { ...row, seconds_behind: 4000, seconds_behind_at_least: true },
    { ...row, state: "PAUSED", seconds_behind: null, seconds_behind_at_least: false },
    { ...row, state: "HELD", seconds_behind: null, seconds_behind_at_least: false },
  ];
  const made = heat(rows, (row) => row.topic);
  document.querySelector("main").append(made);
  settle();
  const found = [...made.querySelectorAll(".cells i")].map((it) => it.className);
  made.remove();
  return found;
}"""


def test_what_may_be_far_behind_is_not_drawn_as_at_the_end(visitor: Visitor) -> None:
    visitor.go("", PAGES[""])
    assert visitor.page.evaluate(UNKNOWN_BEHIND) == [
        *("cell h-none", "cell h-none", "cell h0", "cell h0", "cell h3", "cell h-paused"),
        "cell h-off",
    ]


def test_an_id_is_in_one_piece_also_on_a_phone(visitor: Visitor) -> None:
    visitor.go("", PAGES[""])
    script = """async () => {
      const { id } = await import("/ui/dom.js");
      const made = id("lkc-9Qz4vTq1R0mB3nX7aKpE2w");
      document.querySelector(".facts dd").replaceChildren(made);
      return [made.getClientRects().length, made.offsetHeight < 30, made.title];
    }"""
    for width in (ZOOMED, 1280):
        visitor.page.set_viewport_size({"width": width, "height": 800})
        assert visitor.page.evaluate(script) == [1, True, "lkc-9Qz4vTq1R0mB3nX7aKpE2w"]


def test_configs_are_shown_with_exact_units(visitor: Visitor) -> None:
    """What differs looks different."""
    script = """async () => {
      const { readable } = await import("/ui/configs.js");
      const found = [];
      for (const it of ["604800000", "3600001", "90000", "0", "-1", "9223372036854775807"])
        found.push(readable("retention.ms", it));
      for (const it of ["1048588", "-1", undefined]) found.push(readable("retention.bytes", it));
      return [...found, readable("cleanup.policy", "delete"), readable("min.insync.replicas", "2")];
    }"""
    visitor.go("", PAGES[""])
    assert visitor.page.evaluate(script) == [
        *("7 d", "3,600,001 ms", "90 s", "0 ms", "no limit", "no limit"),
        *("1,048,588 B", "no limit", None, "delete", "2"),
    ]


def test_figures_have_units_that_people_read(visitor: Visitor) -> None:
    script = """async () => {
      const { bytes, millis, percentiles, seconds } = await import("/ui/format.js");
      const age = { p50: 9, p95: 1200, p99: 15557538 };
      return [
        ...[null, 0, 0.0004, 0.85, 1.25, 42, 59.6, 200, 15557, 90000, 999999].map(seconds),
        millis(15557538), bytes(1500), percentiles(null),
        percentiles({ p50: 2, p95: 8, p99: 41 }), percentiles({ ...age, longer_from: 99 }),
        percentiles({ p50: 15557538, p95: 15557538, p99: 15557538, longer_from: 50 }),
      ];
    }"""
    assert visitor.page.evaluate(script) == [
        *("unknown", "0 s", "1 ms", "850 ms", "1.3 s", "42 s", "1 min", "3 min 20 s"),
        *("4 h 19 min", "1 d 1 h", "11 d", "4 h 19 min", "1.5 kB", "no records"),
        *("2 / 8 / 41 ms", "9 ms / 1.2 s / > 4.3 h", "> 4 h 19 min"),
    ]


def test_few_many_and_young_are_in_plain_words(visitor: Visitor) -> None:
    script = """async () => {
      const { bytes, count, some } = await import("/ui/format.js");
      const { reachOf } = await import("/ui/strip.js");
      return [
        ...[0, 0.01, 0.05, 12.4].map(count), some(1, "partition"), some(3, "partition"),
        bytes(999_949), bytes(999_960), bytes(999.6),
        ...[[], [5], [0, 12.4], [0, 59.7], [0, 200], [0, 915]].map(reachOf),
      ];
    }"""
    assert visitor.page.evaluate(script) == [
        *("0", "< 0.1", "0.1", "12", "1 partition", "3 partitions"),
        *("999.9 kB", "1.0 MB", "1000 B"),
        *("", "", "last 12 s", "last 1 min", "last 3 min", "last 15 min"),
    ]


def test_old_data_does_not_look_like_an_api_that_does_not_answer(visitor: Visitor) -> None:
    # The state that is served is of the first of January, and the page says so.
    visitor.go("", PAGES[""])
    notice = visitor.page.get_by_role("status").filter(has_text="data is")
    expect(notice).to_have_text(re.compile(r"^data is \d+ d old: no new data$"))


INK = """() => {
  const plot = document.querySelector("figure canvas");
  if (!plot) return null;
  const { data } = plot.getContext("2d").getImageData(0, 0, plot.width, plot.height);
  const ink = [];
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] > 250) ink.push(data[at] + data[at + 1] + data[at + 2]);
  }
  return ink.length ? ink.reduce((sum, it) => sum + it, 0) / ink.length / 3 : null;
}"""
"""How bright the lines and letters of the first plot are on average, from 0 to 255."""


def test_plots_can_be_seen_also_when_it_becomes_dark_meanwhile(visitor: Visitor) -> None:
    visitor.page.emulate_media(color_scheme="light")
    visitor.go(f"source/{ALIAS}", ALIAS)
    wait_for(lambda: 0 < (visitor.page.evaluate(INK) or 0) < 130, "it is drawn")
    visitor.page.emulate_media(color_scheme="dark")
    wait_for(lambda: (visitor.page.evaluate(INK) or 0) > 150, "it is drawn again")
    visitor.page.emulate_media(color_scheme="light")
    wait_for(lambda: 0 < (visitor.page.evaluate(INK) or 0) < 130, "and again")


def focused(visitor: Visitor) -> Locator:
    return visitor.page.locator(":focus")


def tab_to(visitor: Visitor, name: str) -> None:
    """Press Tab until something of this name has the focus, and shows it."""
    for _ in range(MOST_TABS):
        visitor.page.keyboard.press("Tab")
        found = focused(visitor)
        if found.count() and found.first.inner_text() == name:
            style = found.first.evaluate("it => getComputedStyle(it).outlineStyle")
            assert style == "solid", f"{name} does not show that it has the focus"
            return
    raise AssertionError(f"no {name} within {MOST_TABS} tabs")


def test_all_is_reached_and_done_by_the_keyboard(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go(f"source/{ALIAS}", ALIAS)
    page.reload()
    page.get_by_role("heading", name=ALIAS, level=1).wait_for()
    # The first of all leads past what is the same on each page, and to no other page.
    page.locator("body").evaluate("it => it.focus()")
    page.evaluate("document.activeElement.blur()")
    tab_to(visitor, "To the content")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    assert page.url.endswith(f"#/source/{ALIAS}")
    tab_to(visitor, "Pause")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    # What does nothing has the focus at first, and none leaves the dialog.
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    for _ in range(4):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.matches('body, #dialog, #dialog *')")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Pause")).to_be_focused()
    # What is folded opens and stays where one is.
    tab_to(visitor, "Its 0 partitions, and what reads each")
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Each partition").wait_for()
    expect(page.locator("summary").first).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Each partition").wait_for(state="detached")
    # Done without a pointer at all.
    tab_to_from_the_top(visitor, "Pause")
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    expect(dialog.get_by_role("button", name="Pause")).to_be_focused()
    page.keyboard.press("Enter")
    wait_for(lambda: dialog.is_hidden(), "the dialog is closed")


def tab_to_from_the_top(visitor: Visitor, name: str) -> None:
    visitor.page.evaluate("document.activeElement.blur()")
    tab_to(visitor, name)


def test_a_source_of_which_nothing_matches_is_never_shown_as_one_that_runs_well(
    visitor: Visitor,
) -> None:
    script = """async () => {
      const { stateOf } = await import("/ui/dom.js");
      return ["RUNNING", "FAILED"].flatMap((state) => [0, 1].map((topics) => {
        const sign = stateOf({ state, topics });
        return [sign.className, sign.textContent];
      }));
    }"""
    assert visitor.page.evaluate(script) == [
        ["state warn", "◐ no topic matches"],
        ["state good", "● running"],
        ["state bad", "▲ failed"],
        ["state bad", "▲ failed"],
    ]


SHOWN_OF_FLOW = """async () => {
  const { flow } = await import("/ui/flow.js");
  const link = { source: "eu", topic: "t", records_per_second: 1, lag: 0, partitions: 1 };
  const chart = { sources: ["eu"], other_sources: 0, topics: ["t"], other_topics: 0 };
  const now = { sources: [{ alias: "eu", title: "", state: "RUNNING", topics: 1 }] };
  const made = flow({ now, chart: { ...chart, links: [{ ...link, not_read: 0 }] } });
  made.node.id = "tried";
  document.body.prepend(made.node);
  window.tried = made;
}"""
LATER_IN_FLOW = """() => {
  const before = document.querySelector("#tried svg");
  const flows = [{ source: "eu", topic: "t", records_per_second: 700 }];
  window.tried.update({ flows, sources: [{ alias: "eu", state: "FAILED" }] });
  const link = document.querySelector("#tried .link");
  return [
    before === document.querySelector("#tried svg"),
    document.querySelector("#tried a").getAttribute("aria-label"),
    document.querySelector("#tried a .rate").textContent,
    link.querySelector("title").textContent,
    [...link.classList].sort().join(" "),
  ];
}"""


def test_the_flow_has_new_figures_while_someone_points_at_it(visitor: Visitor) -> None:
    """Nothing of it moves or is replaced then."""
    page = visitor.page
    visitor.go("config", PAGES["config"])
    page.evaluate(SHOWN_OF_FLOW)
    try:
        node = page.locator("#tried a").first
        expect(node).to_have_attribute("aria-label", "eu, running, 1 records per second")
        node.hover()
        assert page.evaluate(LATER_IN_FLOW) == [
            True,
            "eu, failed, 700 records per second",
            "failed",
            "eu → t: 700 records/s, lag 0, 1 partition, 0 not read",
            "bad link lit",
        ]
        page.mouse.move(0, 790)
        assert page.evaluate(LATER_IN_FLOW)[0] is False
    finally:
        page.evaluate("() => { window.tried.node.remove(); delete window.tried; }")


def test_an_answer_that_takes_long_is_waited_for_with_a_sign(visitor: Visitor) -> None:
    page, held = visitor.page, list[Route]()
    visitor.go("topics", PAGES["topics"])
    sign = page.locator("#loading")
    expect(sign).to_have_text("")
    page.route("**/api/config", lambda route: held.append(route))
    try:
        page.evaluate("location.hash = '#/config'")
        expect(sign).to_have_text("Loading.")
        # What was there before stays until then.
        expect(page.get_by_role("heading", name=PAGES["topics"], level=1)).to_be_visible()
        assert visitor.fits(ZOOMED)
        held.pop().continue_()
        page.get_by_role("heading", name=PAGES["config"], level=1).wait_for()
        expect(sign).to_have_text("")
    finally:
        page.unroute("**/api/config")
        for route in held:
            route.continue_()


def test_warnings_are_seen_among_the_events(visitor: Visitor) -> None:
    visitor.go("events", PAGES["events"])
    table = visitor.page.get_by_role("region", name="All of this time, the newest first")
    expect(table.locator("span.warn")).to_have_text(["WARN", "WARN"])
    assert visitor.page.evaluate(
        """async () => {
          const { kindOfLevel } = await import("/ui/dom.js");
          return ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"].map(kindOfLevel);
        }"""
    ) == [None, None, None, "warn", "bad"]


def test_percentiles_of_all_sources_are_named_as_those_of_the_slowest(visitor: Visitor) -> None:
    title = "Copy latency: the slowest source"
    visitor.go("events", PAGES["events"])
    caption = visitor.page.locator("figcaption")
    expect(caption.filter(has_text=title)).to_be_visible()
    visitor.page.get_by_role("button", name="15 minutes").click()
    # Those of the last minutes are of all records.
    visitor.page.get_by_role("button", name="15 minutes", pressed=True).wait_for()
    expect(caption.filter(has_text=title)).to_have_count(0)
    visitor.page.get_by_role("button", name="6 hours").click()
    visitor.page.get_by_role("button", name="6 hours", pressed=True).wait_for()


def test_a_line_has_a_hole_where_the_instance_was_down(visitor: Visitor) -> None:
    visitor.go("topics", PAGES["topics"])
    script = """async () => {
      const { columnsOf } = await import("/ui/history.js");
      const row = (minute, more) => ({
        at: new Date(minute * 60_000).toISOString(), seconds: 60, lag: minute, ...more,
      });
      const lines = [["lag", (it) => it.lag, "lag"]];
      const rows = [row(1), row(2), row(60), row(61)];
      const long = [row(20, { seconds: 480 }), row(30, { seconds: 400 })];
      return [
        columnsOf(rows, lines, Infinity), columnsOf(rows, lines, 3600 - 40),
        columnsOf(long, lines, Infinity), columnsOf([], lines, Infinity),
        columnsOf([row(1), row(9)], [[...lines[0], 0]], Infinity),
      ];
    }"""
    assert visitor.page.evaluate(script) == [
        [[60, 120, 121, 3540, 3600, 3660], [[1, 2, None, None, 60, 61]]],
        [[60, 120, 121, 3540], [[1, 2, None, None]]],
        [[1200, 1800], [[20, 30]]],
        [[], [[]]],
        [[60, 61, 480, 540], [[1, 0, 0, 9]]],
    ]


MANY = 20
RECORD = {
    "partition": 0,
    "offset": 7,
    "timestamp_ms": 1_700_000_000_000,
    "key": "k",
    "value": "v",
    "value_bytes": 1,
    "value_format": "text",
    "value_schema": None,
    "problem": "",
    "headers": [],
    "origin": None,
}


def test_a_topic_of_many_sources_asks_for_each_of_them_once(visitor: Visitor) -> None:
    page, asked = visitor.page, list[str]()
    about, look = "**/api/hub/topics/hub.t0", re.compile(r"/look\?")
    blank = {"source": None, "topic": "t0", "replication_factor": 1, "error": ""}

    def many(route: Route) -> None:
        asked.append("topic")
        answer = route.fetch()
        whole = answer.json()
        sides = [{**whole["sources"][0], "source": f"m{it}"} for it in range(MANY)]
        route.fulfill(response=answer, json={**whole, "sources": sides})

    def one(route: Route) -> None:
        asked.append("look")
        own = {"configs": {}, "partitions": [], "records": [RECORD], "notes": []}
        route.fulfill(json={**blank, **own})

    visitor.go("topics", PAGES["topics"])
    # What is known of it from before is forgotten.
    page.reload()
    page.route(about, many)
    page.route(look, one)
    try:
        visitor.go("topic/hub.t0", PAGES["topic/hub.t0"])
        sides = page.get_by_text("As of ")
        wait_for(lambda: sides.count() == 1 + MANY, "each has been looked at")
        assert asked.count("look") == 1 + MANY
        # Not again for each of them.
        assert asked.count("topic") < MANY / 2
        # They would be a very long page.
        newest = page.locator("main details").filter(has_text="The newest records at")
        expect(newest).to_have_count(1 + MANY)
        newest.first.locator("summary").click()
        first = page.get_by_role("region", name="The newest records at the hub")
        expect(first.get_by_role("row")).to_have_count(2)
    finally:
        page.unroute(about)
        page.unroute(look)
        page.reload()
