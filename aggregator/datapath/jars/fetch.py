"""Get the pinned jars: from the user's folder, from the cache, or from a Maven repository by Ivy.

Whatever the way, a file is only handed out after its sha256 was compared with the lock file.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aggregator.datapath.jars.find_java import java_command
from aggregator.datapath.jars.lockfile import (
    IVY_SETTINGS,
    RETRIEVE_PATTERN,
    Jar,
    jars_of,
    render_ivy,
)
from aggregator.datapath.jars.spark_home import spark_home
from aggregator.model.errors import JarsError

FOLDER_VARIABLE = "AGGREGATOR_JARS"
CACHE_VARIABLE = "AGGREGATOR_CACHE"
SETTINGS_VARIABLE = "AGGREGATOR_IVY_SETTINGS"

Progress = Callable[[str], None]

_FETCHED = re.compile(r"\[SUCCESSFUL \] \S+?#\S+?;(\S+?)!(\S+)")
_NO_NETWORK = re.compile(
    r"UnknownHostException|ConnectException|SocketTimeoutException|NoRouteToHost"
    r"|Connection refused|timed out|Network is unreachable"
)


def jars(
    set_name: str, *, folder: Path | None = None, progress: Progress | None = None
) -> list[Path]:
    """The verified files of one set, as absolute paths in class path order.

    `folder` (else the folder in AGGREGATOR_JARS) is used as it is and nothing is fetched: it must
    hold every file of the set. Without one the cache is used, and what it lacks is fetched into it
    once; `progress` then gets a line at the start and one per file.

    Raises `JarsError` when the set is unknown, a file is missing from the user's folder, a sha256
    differs, or a file cannot be fetched. Safe to call from several processes at once.
    """
    wanted = jars_of(set_name)
    own = folder or _folder_of(FOLDER_VARIABLE)
    if own is not None:
        return _from_folder(set_name, wanted, own.expanduser().absolute())
    return _from_cache(set_name, wanted, cache_folder() / "jars", progress or _silent)


def download(set_name: str, folder: Path, *, progress: Progress | None = None) -> list[Path]:
    """Copy one set, verified, into a folder which `jars` can use on a machine without a network."""
    wanted = jars_of(set_name)
    have = _from_cache(set_name, wanted, cache_folder() / "jars", progress or _silent)
    folder.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy2(path, folder.absolute() / path.name)) for path in have]


def cache_folder() -> Path:
    """Where fetched files live: AGGREGATOR_CACHE, else kafka-aggregator in the user's cache.

    JarsError for a user who has no home and names no folder.
    """
    own = _folder_of(CACHE_VARIABLE)
    if own is not None:
        return own.expanduser().absolute()
    try:
        user = _folder_of("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise JarsError(
            f"user {os.getuid()} has no home folder for the cache of jars; set {CACHE_VARIABLE} "
            "to a folder that can be written"
        ) from error
    return user.absolute() / "kafka-aggregator"


def _folder_of(variable: str) -> Path | None:
    value = os.environ.get(variable, "")
    return Path(value) if value else None


def _silent(_line: str) -> None:
    """Progress that is not shown."""


def _from_folder(set_name: str, wanted: Sequence[Jar], folder: Path) -> list[Path]:
    problems: list[str] = []
    for jar in wanted:
        path = folder / jar.file_name
        if not path.is_file():
            problems.append(f"{jar.file_name} is missing ({jar.coordinates})")
        elif (got := sha256_of(path)) != jar.sha256:
            problems.append(f"{jar.file_name} has sha256 {got}, expected {jar.sha256}")
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise JarsError(
            f"the jars folder {folder} (spark.jars or {FOLDER_VARIABLE}) does not hold the set "
            f"{set_name}:\n{listed}\nAdd the files, or leave the folder unset to fetch them."
        )
    return [folder / jar.file_name for jar in wanted]


def _from_cache(
    set_name: str, wanted: Sequence[Jar], cache: Path, progress: Progress
) -> list[Path]:
    missing = _missing(wanted, cache)
    if missing:
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JarsError(
                f"cannot write the jars cache {cache}: {error.strerror}; "
                f"set {CACHE_VARIABLE} to a folder that can be written"
            ) from error
        with _locked(cache):
            # Another process may have fetched them while this one waited for the lock.
            missing = _missing(wanted, cache)
            if missing:
                _fetch(set_name, missing, cache, progress)
    return [cache / jar.file_name for jar in wanted]


def _missing(wanted: Sequence[Jar], cache: Path) -> list[Jar]:
    """The jars the cache lacks. A damaged file is removed and reported, not fetched silently."""
    missing = []
    for jar in wanted:
        path = cache / jar.file_name
        if path.is_file():
            _verify(jar, path)
        else:
            missing.append(jar)
    return missing


def _verify(jar: Jar, path: Path) -> None:
    got = sha256_of(path)
    if got != jar.sha256:
        path.unlink(missing_ok=True)
        raise JarsError(
            f"{jar.file_name} has sha256 {got}, expected {jar.sha256}; it is not used and was "
            f"removed from {path.parent}. Run the command again; when it differs again, the "
            "Maven repository you reach serves another file."
        )


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, waiting for any other process; the kernel frees it if we die."""
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(set_name: str, missing: Sequence[Jar], cache: Path, progress: Progress) -> None:
    count = len(missing)
    progress(f"fetching {count} jar{'s' if count > 1 else ''} for {set_name}, once, into {cache}")
    # Inside the cache, so that moving a finished file is one rename on the same file system.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as temporary:
        work = Path(temporary)
        output = _run_ivy(missing, work, progress)
        lost = [jar for jar in missing if not (work / "out" / jar.file_name).is_file()]
        for jar in missing:
            path = work / "out" / jar.file_name
            if path.is_file():
                _verify(jar, path)
                path.replace(cache / jar.file_name)
        if lost:
            raise JarsError(_not_fetched(set_name, lost, count, output))


def _run_ivy(missing: Sequence[Jar], work: Path, progress: Progress) -> str:
    """Run the Ivy inside pyspark; its files land in `work/out`. Returns what it said."""
    (work / "ivy.xml").write_text(render_ivy(missing), "utf-8")
    (work / "ivysettings.xml").write_text(IVY_SETTINGS, "utf-8")
    settings = os.environ.get(SETTINGS_VARIABLE) or str(work / "ivysettings.xml")
    command = [java_command(), "-jar", str(ivy_jar()), "-settings", settings]
    command += ["-ivy", str(work / "ivy.xml"), "-cache", str(work / "ivy"), "-confs", "default"]
    command += ["-retrieve", str(work / "out" / RETRIEVE_PATTERN)]
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=work
    ) as child:
        assert child.stdout is not None
        done = 0
        for line in child.stdout:
            lines.append(line)
            if match := _FETCHED.search(line):
                done += 1
                progress(f"  {done}/{len(missing)} {match[2]} ({match[1]})")
    return "".join(lines)


def ivy_jar() -> Path:
    """Ivy, as it ships inside Spark; JarsError when there is no Spark, or none in it."""
    home = spark_home()
    for path in sorted((home / "jars").glob("ivy-*.jar")):
        return path
    raise JarsError(f"no ivy jar in {home / 'jars'}: install the pyspark package from PyPI")


def _not_fetched(set_name: str, lost: Sequence[Jar], count: int, output: str) -> str:
    names = "\n".join(f"  - {jar.file_name} ({jar.coordinates})" for jar in lost)
    reason = _NO_NETWORK.search(output)
    if reason:
        why = f"no network: the Maven repository cannot be reached ({reason[0]})"
    else:
        errors = re.findall(r"^\s*(ERROR.*|.*not found.*|.*FAILED.*)$", output, re.MULTILINE)
        why = f"Ivy says: {errors[0].strip() if errors else output.strip()[-300:]}"
    return (
        f"cannot fetch {len(lost)} of {count} jars for {set_name}:\n{names}\n{why}\n"
        f"Put these files into a folder and name it: `spark.jars: FOLDER` or "
        f"{FOLDER_VARIABLE}=FOLDER; `aggregator jars --download FOLDER` fills one on a machine "
        f"with a network. {SETTINGS_VARIABLE}=FILE names Ivy settings for another repository."
    )
