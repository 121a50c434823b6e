"""The parts of `aggregator run` around the engine: signals, threads, logs, spark-submit."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from aggregator.__main__ import _Early
from aggregator.cli import signals
from aggregator.cli.logs import event_log
from aggregator.cli.main import open_streams
from aggregator.cli.run import in_thread
from aggregator.cli.signals import reload_on_hangup, stop_on_dead_thread, stop_on_signals
from aggregator.cli.submit import GATEWAY_VARIABLE, as_submitted, with_submission
from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.engine.control.command_queue import NotReadyError
from aggregator.features.timeline.minutes import event_row
from aggregator.model.events import Event, LogLevel
from aggregator.model.values import SourceState

PROGRAM = """
import sys, threading
from aggregator.cli.logs import event_log
from aggregator.cli.main import open_streams
from aggregator.cli.run import in_thread
from aggregator.cli.signals import stop_on_signals

stop, polite = threading.Event(), sys.argv[1] == "polite"
with stop_on_signals(stop, event_log(str)):
    print("ready", flush=True)
    in_thread(stop.wait if polite else threading.Event().wait)
print("clean", flush=True)
"""


@pytest.fixture
def programs() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for program in started:
        program.kill()
        program.communicate()


def start(programs: list[subprocess.Popen[str]], how: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how], stdout=pipe, stderr=pipe, text=True
    )
    programs.append(program)
    assert stream(program.stdout).readline() == "ready\n"
    return program


def stream(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_for_a_clean_stop(
    programs: list[subprocess.Popen[str]], number: signal.Signals
) -> None:
    program = start(programs, "polite")
    program.send_signal(number)
    out, err = program.communicate(timeout=30)
    assert (program.returncode, out) == (0, "clean\n")
    line = json.loads(err.splitlines()[0])
    assert (line["event"], line["signal"]) == ("stopping", number.name)


def test_a_signal_that_another_thread_was_given_is_handled() -> None:
    """The kernel may choose any thread; only the main one runs Python's handlers."""
    stop, lines = threading.Event(), io.StringIO()
    main = threading.get_ident()

    def work() -> bool:
        deadline = time.monotonic() + 30
        # It waits for the end of this thread, so nothing but a signal of its own would wake it.
        while not any(
            frame.f_code.co_name == "join"
            for frame, _ in traceback.walk_stack(sys._current_frames()[main])
        ):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        return stop.wait(30)

    with stop_on_signals(stop, event_log(str, lines)):
        assert in_thread(work)


@pytest.mark.parametrize(
    ("where", "until"),
    [("signals", "stop_on_signals(stop, lambda *_, **__: None)"), ("demo", "_until_signal(stop)")],
)
def test_a_signal_in_the_midst_of_waiting_for_the_stop_does_not_hang(
    where: str, until: str
) -> None:
    """`wait` of an event holds its lock for a moment, which `set` takes as well."""
    program = (
        "import os, signal, threading\n"
        f"from aggregator.cli.{where} import {until.partition('(')[0]}\n"
        "stop = threading.Event()\n"
        f"with {until}:\n"
        "    with stop._cond:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print(stop.wait(60))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    assert done.stdout == "True\n"


@pytest.mark.slow
@pytest.mark.parametrize(("argument", "code"), [("--version", 0), ("--nix", 2)])
def test_a_command_that_is_done_is_not_ended_otherwise_on_pythons_way_out(
    argument: str, code: int
) -> None:
    program = (
        "import atexit, os, sys; from aggregator.cli.main import main; "
        "atexit.register(os.abort); main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, argument]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert (done.stdout if code == 0 else done.stderr).strip()


@pytest.mark.slow
def test_a_fault_in_a_library_shows_what_each_thread_did() -> None:
    program = (
        "import os, signal, aggregator.cli.main as entry; "
        "entry.app = lambda _: os.kill(os.getpid(), signal.SIGSEGV); entry.main()"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in done.stderr
    assert " in main" in done.stderr


@pytest.mark.slow
def test_the_second_signal_ends_it_at_once_and_says_what_that_means(
    programs: list[subprocess.Popen[str]],
) -> None:
    program = start(programs, "stubborn")
    program.send_signal(signal.SIGTERM)
    assert "stopping" in stream(program.stderr).readline()
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=30)
    assert (program.returncode, out) == (1, "")
    assert "there is no last checkpoint" in err


@pytest.mark.slow
def test_one_signal_that_is_delivered_twice_is_one(
    programs: list[subprocess.Popen[str]],
) -> None:
    program = start(programs, "polite")
    program.send_signal(signal.SIGTERM)
    program.send_signal(signal.SIGTERM)
    out, _ = program.communicate(timeout=30)
    assert (program.returncode, out) == (0, "clean\n")


HANGUP = """
import signal, sys, threading
from aggregator.cli.logs import event_log
from aggregator.cli.main import open_streams
from aggregator.cli.signals import reload_on_hangup, stop_on_signals
from aggregator.model.errors import ConfigError, Problem

again, asked = threading.Event(), []

def reload():
    asked.append(1)
    again.set()
    if len(asked) == 1:
        raise ConfigError([Problem("nix", "is unknown")])

# The parent may ignore it, as nohup does, and that is inherited.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
with reload_on_hangup(reload, event_log(str)):
    print("ready", flush=True)
    while len(asked) < 2:
        again.wait()
        again.clear()
print("reloaded", flush=True)
"""


@pytest.mark.slow
def test_a_hangup_has_the_config_read_again_and_a_bad_one_ends_nothing() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", HANGUP], stdout=pipe, stderr=pipe, text=True
    ) as program:
        try:
            assert stream(program.stdout).readline() == "ready\n"
            program.send_signal(signal.SIGHUP)
            line = json.loads(stream(program.stderr).readline())
            assert line["event"] == "reload_failed"
            assert "nix: is unknown" in line["message"]
            program.send_signal(signal.SIGHUP)
            out, _ = program.communicate(timeout=30)
            assert (program.returncode, out) == (0, "reloaded\n")
        finally:
            program.kill()


def test_a_hangup_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with reload_on_hangup(lambda: None, lambda *_: None):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


EARLY = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class AtTheImport(MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "aggregator.cli.main":
            os.kill(os.getpid(), int(sys.argv.pop()))
            print("continues", flush=True)

# The parent may ignore it, as nohup does, and that is inherited.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
sys.meta_path.insert(0, AtTheImport())
from aggregator.__main__ import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGTERM, 0, ""), (signal.SIGINT, 0, ""), (signal.SIGHUP, 2, "continues\n")],
)
def test_a_signal_before_all_is_imported_is_heard(
    number: signal.Signals, code: int, said: str
) -> None:
    words = ["run", "--nix", str(int(number))]
    done = subprocess.run(
        [sys.executable, "-c", EARLY, *words], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (code, said), done.stderr


def test_a_hangup_that_came_before_there_was_a_config_has_it_read_again() -> None:
    before = {it: signal.getsignal(it) for it in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        _Early()
        os.kill(os.getpid(), signal.SIGHUP)
        asked = threading.Event()
        with reload_on_hangup(asked.set, lambda *_: None):
            assert asked.wait(30)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_hangup_while_it_starts_has_the_config_read_again_when_it_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signals, "RELOAD_SECONDS", 0.01)
    answers: list[Exception | None] = [NotReadyError("it is still starting")] * 3 + [None]
    done, lines = threading.Event(), io.StringIO()

    def reload() -> None:
        if (error := answers.pop(0)) is not None:
            raise error
        done.set()

    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with reload_on_hangup(reload, event_log(str, lines)):
            os.kill(os.getpid(), signal.SIGHUP)
            assert done.wait(30)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (answers, lines.getvalue()) == ([], "")


def test_it_may_open_as_many_files_as_the_system_allows() -> None:
    program = (
        "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (100, 900)); "
        "from aggregator.cli.main import allow_files; allow_files(); allow_files(); "
        "print(r.getrlimit(r.RLIMIT_NOFILE))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "(900, 900)\n"


def test_in_thread_gives_back_what_the_work_gives() -> None:
    assert in_thread(threading.current_thread) is not threading.main_thread()


def test_in_thread_raises_what_the_work_raises() -> None:
    def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        in_thread(work)


def test_events_are_json_where_the_output_is_no_terminal() -> None:
    out = io.StringIO()
    log = event_log(lambda text: text.replace("pw", "***"), out)
    log("lane_started", "lane eu runs, pw", lane="eu-pw", partitions=6, at="x")
    log("tee_hub_unreachable", "no answer")
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first.pop("at")
    assert first == {
        "event": "lane_started",
        "level": "info",
        "message": "lane eu runs, ***",
        "lane": "eu-***",
        "partitions": 6,
        "at_": "x",
    }
    assert second["level"] == "warning"


def test_the_level_of_a_state_is_that_of_what_it_says() -> None:
    out, level = io.StringIO(), LogLevel("WARN")
    log = event_log(str, out, level)
    for state in SourceState:
        log("source_state", f"source eu is {state}", source="eu", state=str(state))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [it["state"] for it in lines] == ["UNREACHABLE", "FAILED"]
    assert {it["level"] for it in lines} == {"warning"}
    failed = Event("source_state", "source eu is FAILED", {"source": "eu", "state": "FAILED"})
    assert event_row(failed, 1, str).level == "ERROR"


def test_a_line_is_one_write_where_python_does_not_buffer() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, io.FileIO(ours.fileno(), "w", closefd=False) as raw:
        event_log(str, io.TextIOWrapper(raw, encoding="utf-8", write_through=True))(
            "running", "2 lanes run"
        )
        packet = theirs.recv(1 << 16).decode()
    assert packet.endswith("}\n"), packet


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    """Its disk may be full, and `2>&1 | tee run.log` loses tee by the Ctrl-C that stops us."""

    class Full(io.StringIO):
        def write(self, _: str, /) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    event_log(str, Full())("lane_started", "lane eu runs")


@pytest.mark.slow
def test_a_clean_stop_needs_no_reader_of_the_log(programs: list[subprocess.Popen[str]]) -> None:
    program = start(programs, "polite")
    stream(program.stderr).close()
    program.stderr = None
    program.send_signal(signal.SIGINT)
    out, _ = program.communicate(timeout=30)
    assert (program.returncode, out) == (0, "clean\n")


@pytest.mark.slow
def test_output_that_is_not_read_to_its_end_is_no_error() -> None:
    """As by `| head`."""
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "aggregator", "config", "--defaults"]
    try:
        done = subprocess.run(
            command, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (1, "")


def test_what_goes_to_a_closed_stream_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    open_streams()
    with sys.stderr as opened:
        event_log(str)("lane_started", "lane eu runs")
        assert os.path.samestat(os.fstat(opened.fileno()), Path(os.devnull).stat())


@pytest.mark.slow
def test_a_command_needs_no_stream() -> None:
    words = [sys.executable, "-m", "aggregator", "config", "--defaults"]
    command = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *words]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0


def test_events_are_readable_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    event_log(str, out)("running", "2 lanes run")
    assert "running" in out.getvalue()
    assert "2 lanes run" in out.getvalue()
    assert not out.getvalue().startswith("{")


def config(*sets: str) -> Config:
    base = ("hub.bootstrap_servers=h:1", "sources.eu.bootstrap_servers=s:1")
    return load_text("", [*base, "sources.eu.topics.include=orders", *sets])


SUBMITTED = {
    "spark.master": "yarn",
    "spark.executor.instances": "3",
    "spark.executor.cores": "16",
    "spark.app.name": "x",
}


def test_the_master_of_the_submission_is_kept() -> None:
    found = with_submission(config(), SUBMITTED)
    assert found.spark.master == "yarn"
    assert found.spark.conf == {"spark.executor.instances": "3", "spark.executor.cores": "16"}


def test_what_the_config_says_wins() -> None:
    own = config("spark.master=local[64]", "spark.conf.spark.executor.cores=4")
    found = with_submission(own, SUBMITTED)
    assert found.spark.master == "local[64]"
    assert found.spark.conf["spark.executor.cores"] == "4"


@pytest.mark.parametrize("settings", [{}, {"spark.master": "local[*]"}])
def test_a_submission_without_a_master_leaves_auto(settings: dict[str, str]) -> None:
    assert with_submission(config(), settings).spark.master == "auto"


def test_without_spark_submit_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GATEWAY_VARIABLE, raising=False)
    assert GATEWAY_VARIABLE not in os.environ
    assert as_submitted(config()) == config()


def test_one_of_our_threads_that_dies_asks_for_a_stop_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # That of pytest makes it an error of this test.
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    stop, lines = threading.Event(), io.StringIO()

    def work() -> None:
        in_thread(lambda: json.loads("{"))

    with stop_on_dead_thread(stop, event_log(str, lines)) as died:
        thread = threading.Thread(target=work, name="watch-eu")
        thread.start()
        thread.join()
    assert stop.is_set()
    assert len(died) == 1
    assert died[0].startswith("thread watch-eu has died, a defect of aggregator: json.decoder")
    assert "thread_died" in lines.getvalue()


def test_a_thread_of_another_library_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    stop = threading.Event()
    with stop_on_dead_thread(stop, event_log(str, io.StringIO())) as died:
        thread = threading.Thread(target=json.loads, args=("{",))
        thread.start()
        thread.join()
    assert not died
    assert not stop.is_set()


def test_a_thread_that_dies_is_found_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unwritten(_: threading.ExceptHookArgs) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(threading, "excepthook", unwritten)
    stop = threading.Event()

    def work() -> None:
        in_thread(lambda: json.loads("{"))

    with stop_on_dead_thread(stop, lambda *_: None) as died:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert stop.is_set() and len(died) == 1
