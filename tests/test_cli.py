"""The command line: usage and settings in sentences, exit codes, and every command against a small real cluster."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinfold.cli import EXTRAS
from pinfold.cluster import LocalCluster
from pinfold.core.errors import REFUSALS, Refusal
from pinfold.exit_codes import exit_code, page
from tests.running import Cli, Said, in_process, small, until

ROOT = Path(__file__).resolve().parent.parent
NOBODY = "0" * 32


@pytest.fixture
def bare(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """The command line without a cluster, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PINFOLD_")]:
        monkeypatch.delenv(name)
    return in_process(capfd)


# ---- usage and settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("statt",), "there is no command 'statt'; did you mean 'stat'?"),
        (("ls", "--limt", "3"), "--limt"),
        (("stat",), "GROUP"),
        (("stat", "xyz"), "'xyz' is no group id; one looks like"),
        (("unpin", "h1.2", "--session", "s"), "'h1.2' is no hold id"),
        (("unpin", "--session", "s"), "name one hold, or say --all"),
        (("move", NOBODY), "name a node or store to move to, or the move to --cancel"),
        (("put", "--block-bytes", "4 parsecs"), "'4 parsecs' is no size; one looks like 4KiB or 64MiB"),
        (("put", "--tokens", "9:1"), "takes FIRST:LAST"),
        (("put", "no-such-file"), "no-such-file"),
        (("ls", "--timeout", "5"), '--timeout: client.timeout must be a duration such as "200ms", "1s" or "5m", not "5"'),
        (("ls", "--endpoints", "localhost"), "--endpoints: node.directories must be an endpoint"),
        (("ls", "--set", "client.timout=1s"), "--set client: unknown key 'timout'; did you mean 'timeout'?"),
        (("ls", "--set", "timeout"), "--set takes section.key=value"),
        (("ls", "--config", "nowhere.toml"), "cannot read the configuration nowhere.toml: No such file or directory"),
        (("up", "--nodes", "0"), "1 to 64 nodes"),
        (("up", "--nodes", "a,a"), "takes a number, or names"),
        (("node", "--dram", "0", "--ssd", "0"), "a node needs a tier"),
        (("directory", "--shard", "3"), "directory.shard (3) must be less than directory.shards (1)"),
    ],
)
def test_what_can_not_be_meant_is_one_sentence_and_exit_code_2(bare: Cli, arguments: tuple[str, ...], expected: str) -> None:
    said = bare(*arguments, code=2)
    assert expected in said.err.replace("\n", " ")
    assert said.out == ""
    assert said.err.startswith("pinfold: ")
    assert said.err.count("\n") == 1


def test_an_error_is_an_object_with_json(bare: Cli) -> None:
    said = bare("ls", "--json", "--endpoints", "tcp://127.0.0.1:1", "--timeout", "300ms", code=4)
    assert json.loads(said.err) == {
        "error": "DeadlineReached; no answer in time, it surely did not happen", "reason": "DeadlineReached", "exit_code": 4,
    }  # fmt: skip
    assert "say --output FILE" in json.loads(bare("get", NOBODY, "--json", code=2).err)["error"]


def test_global_options_may_stand_before_or_after_the_command(bare: Cli) -> None:
    before = bare("--json", "--timeout", "7s", "config", "show", "--origin").data
    after = bare("config", "show", "--origin", "--json", "--timeout", "7s").data
    assert before == after
    assert {"key": "client.timeout", "value": "7s", "origin": "--timeout"} in after


def test_config_show_is_a_file_that_config_reads(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINFOLD_NODE_DRAM", "3MiB")
    shown = bare("config", "show", "--origin", "--set", "directory.eviction=lfu").out
    assert "# PINFOLD_NODE_DRAM" in shown
    assert "# --set directory.eviction" in shown
    Path("again.toml").write_text(shown)
    monkeypatch.delenv("PINFOLD_NODE_DRAM")
    again = bare("--config", "again.toml", "config", "show", "--json").data
    assert {"key": "node.dram", "value": "3MiB"} in again
    assert {"key": "directory.eviction", "value": "lfu"} in again


def test_doctor_says_one_sentence_for_each_thing_and_fails_for_what_fails(bare: Cli) -> None:
    found = {line["what"]: line for line in bare("doctor", "--json").data["findings"]}
    assert found["python"]["verdict"] == found["links"]["verdict"] == found["clock"]["verdict"] == "ok"
    assert set(EXTRAS) <= set(found)
    assert found["store"]["verdict"] == "warn"
    Path("file").write_text("x")
    said = bare("doctor", "--json", "--set", "directory.data=file", "--endpoints", "tcp://127.0.0.1:1", code=1)
    found = {line["what"]: line for line in said.data["findings"]}
    assert found["store"]["verdict"] == "fail"
    assert "not a folder" in found["store"]["sentence"]
    assert found["directory"]["verdict"] == "fail"
    assert "fail  config" in bare("doctor", "--set", "node.dram=much", code=1).out


def test_help_and_version_need_nothing(bare: Cli) -> None:
    assert bare("--version").out.startswith("0.")
    shown = bare("--help").out
    for command in ("up", "put", "watch", "explain", "doctor", "config"):
        assert f"\n  {command} " in shown


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False,
        env=os.environ | environment,
    )  # fmt: skip


@pytest.mark.parametrize("library", ["click", "zmq", "lmdb", "msgspec", "numpy"])
def test_a_missing_library_is_one_sentence_that_names_the_extra(library: str, tmp_path: Path) -> None:
    command = "node" if library == "numpy" else "directory"
    script = (
        f"import sys; sys.modules[{library!r}] = None\n"
        f"from pinfold.cli import main\nsys.exit(main([{command!r}, '--data', {str(tmp_path)!r}, '--bind', 'tcp://127.0.0.1:0']))"
    )
    ended = python("-c", script)
    assert ended.returncode == 2
    assert "pip install 'pinfold[server]'" in ended.stderr
    assert library in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


# ---- exit codes ----------------------------------------------------------------------------------------------


def test_the_page_of_exit_codes_is_current() -> None:
    assert (ROOT / "docs" / "exit_codes.md").read_text() == page(), "run python -m pinfold.exit_codes > docs/exit_codes.md"


def test_an_outcome_that_is_not_known_is_3_unless_nobody_was_reached_or_somebody_newer_is_there() -> None:
    for reason in REFUSALS:
        code = exit_code(Refusal(reason), definite=False)
        assert code in (3, 4, 5), reason
    assert exit_code(Refusal("DeadlineReached"), definite=True) == 4
    assert exit_code(Refusal("UnknownGroup"), definite=True) == 6
    assert exit_code(Refusal("Pinned"), definite=True) == 1


# ---- against a cluster ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with small("n1", "n2") as running:
        yield running


@pytest.fixture
def cli(cluster: LocalCluster, capfd: pytest.CaptureFixture[str]) -> Cli:
    return in_process(capfd, ("--config", str(cluster.config_file)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "in.bin"
    path.write_bytes(os.urandom(20_000))
    return path


def put(cli: Cli, file: Path, *more: str) -> str:
    return cli("put", str(file), *more).out.strip()


@pytest.mark.processes
def test_what_is_put_is_listed_located_described_and_got_back(cli: Cli, file: Path, tmp_path: Path) -> None:
    said = cli("put", str(file), "--group-blocks", "2", "--model", "m1", "--request", "r1", "--json").data
    groups = [line["group"] for line in said["groups"]]
    assert said["bytes"] == 20_000
    assert [line["bytes"] for line in said["groups"]] == [8_192, 8_192, 3_616]
    out = tmp_path / "out.bin"
    got = cli("get", *groups, "--output", str(out), "--json").data
    assert out.read_bytes() == file.read_bytes()
    assert got["bytes"] == 20_000
    assert list(tmp_path.glob(".*")) == []
    listed = cli("ls", "--model", "m1", "--json").data["groups"]
    assert {line["group"] for line in listed} == set(groups)
    assert len(cli("ls", "--request", "r1", "--limit", "2").out.splitlines()) == 2
    assert [route["group"] for route in cli("locate", *groups, "--json").data["routes"]] == groups
    record = cli("stat", groups[1], "--json").data
    assert record["state"] == "LOCAL"
    assert record["spec"]["parent"] == groups[0]
    again = cli("put", str(file), "--group-blocks", "2", "--model", "m1", "--json").data
    assert [(line["group"], line["created"]) for line in again["groups"]] == [(group, False) for group in groups]


@pytest.mark.processes
def test_bytes_go_through_pipes(cluster: LocalCluster, file: Path) -> None:
    command = [sys.executable, "-m", "pinfold", "--config", str(cluster.config_file)]
    with file.open("rb") as source:
        stored = subprocess.run(
            [*command, "put", "--model", "piped"], stdin=source, capture_output=True, timeout=60, check=True, cwd=ROOT
        )
    groups = stored.stdout.decode().split()
    got = subprocess.run([*command, "get", *groups], capture_output=True, timeout=60, check=True, cwd=ROOT)
    assert got.stdout == file.read_bytes()


@pytest.mark.processes
def test_what_is_not_there_is_6(cli: Cli, tmp_path: Path) -> None:
    for command in ("stat", "evict", "pin", "ref"):
        assert "UnknownGroup" in cli(command, NOBODY, code=6).err
    out = tmp_path / "out.bin"
    cli("get", NOBODY, "--output", str(out), code=6)
    assert list(tmp_path.iterdir()) == []
    assert "UnknownNode" in cli("drain", "nobody", code=6).err
    assert "UnknownNode" in cli("status", "--node", "nobody", code=6).err
    cli("locate", NOBODY, code=6)
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert "nothing to put" in cli("put", str(empty), code=2).err


@pytest.mark.processes
def test_a_named_session_keeps_a_pin_from_command_to_command(cli: Cli, file: Path) -> None:
    group = put(cli, file, "--model", "pins", "--node", "n1")
    hold = cli("pin", group, "--session", "s1").out.strip()
    said = cli("move", group, "n2", code=1).err
    assert "Pinned" in said
    assert hold in said
    why = cli("explain", "move", group, "n2", "--json").data
    assert (why["refusal"]["reason"], why["refusal"]["row"]) == ("Pinned", "LOCAL/MOVE/INCOMING")
    assert hold in why["refusal"]["holder"]
    assert any(step.endswith("no -> Pinned") for step in why["steps"])
    assert "Pinned" in cli("evict", group, code=1).err
    assert "UnknownHold" in cli("unpin", hold, "--session", "another", code=6).err
    assert cli("unpin", hold, "--session", "s1").out.strip() == group
    assert "AlreadyDone" in cli("unpin", hold, "--session", "s1", code=1).err
    assert cli("explain", "move", group, "n2").out.startswith("it would be accepted now")
    cli("ref", group, "--session", "s1")
    assert "Referenced" in cli("evict", group, code=1).err
    cli("move", group, "n2")  # a reference lets it move
    assert cli("unref", "--all", "--session", "s1").out.strip() == "1"
    assert cli("evict", group, "--json").data["outcome"] == "gone"
    cli("stat", group, code=6)


def accepted(cli: Cli, *arguments: str) -> Said:
    """As soon as it is not refused: moves are spaced, and what has just left a node is still being freed there."""

    def once() -> Said | None:
        said = cli(*arguments, code=None)
        return said if said.code == 0 else None

    found: Said = until(once, f"{arguments[0]} is accepted")
    return found


@pytest.mark.processes
def test_moves_replicas_and_a_store_and_back(cli: Cli, file: Path) -> None:
    group = put(cli, file, "--model", "moves", "--node", "n1")
    first = cli("move", group, "n2", "--json").data
    assert first["outcome"] == "done"
    record = cli("stat", group, "--json").data
    assert [(copy["node"], copy["role"]) for copy in record["copies"] if copy["role"] != "RETIRING"] == [("n2", "AUTHORITATIVE")]
    assert "StaleMove" in cli("move", group, "--cancel", first["move"], code=None).err
    made = accepted(cli, "replicate", group, "n1", "--json").data
    assert made["outcome"] == "done"
    cli("replicate", group, "--drop", made["copy"])
    accepted(cli, "move", group, "shared")
    assert cli("stat", group, "--json").data["state"] == "REMOTE"
    assert "store shared" in cli("get", group, code=6).err
    accepted(cli, "move", group, "n1")
    assert cli("get", group).code == 0
    cli("evict", group)


@pytest.mark.processes
def test_drain_empties_a_node_and_status_tells(cli: Cli, file: Path) -> None:
    group = put(cli, file, "--model", "drains", "--node", "n1")
    assert cli("drain", "n1", "--wait", "--json").data["outcome"] == "drained"
    nodes = {line["node"]: line for line in cli("status", "--json").data["nodes"]}
    assert nodes["n1"]["draining"]
    assert nodes["n1"]["copies"] == 0
    cli("drain", "n1", "--off")
    assert "n1           ready" in cli("status").out
    assert cli("status", "--node", "n2", "--json").data["node"] == "n2"
    assert cli("get", group).code == 0
    cli("evict", group)


@pytest.mark.processes
def test_watch_prints_what_is_there_and_what_changes(cluster: LocalCluster, cli: Cli, file: Path) -> None:
    group = put(cli, file, "--model", "watched")
    lines = cli("watch", group, "--changes", "1", "--json").data
    assert lines["group"] == group
    command = [sys.executable, "-m", "pinfold", "--config", str(cluster.config_file), "watch", group, "--interval", "50ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as watcher:
        assert watcher.stdout is not None
        assert "LOCAL" in watcher.stdout.readline()
        cli("evict", group)
        seen = [watcher.stdout.readline()]
        while "gone" not in seen[-1]:
            seen.append(watcher.stdout.readline())
            assert seen[-1]
        watcher.send_signal(signal.SIGTERM)
        assert watcher.wait(20) == 0


@pytest.mark.processes
def test_a_pin_without_a_session_lasts_until_ctrl_c(cluster: LocalCluster, cli: Cli, file: Path) -> None:
    group = put(cli, file, "--model", "foreground")
    command = [sys.executable, "-m", "pinfold", "--config", str(cluster.config_file), "pin", group, "--lease", "600ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().startswith("h")
        time.sleep(1.0)  # longer than the lease: it is renewed
        assert "Pinned" in cli("evict", group, code=1).err
        holder.send_signal(signal.SIGINT)
        assert holder.wait(20) == 0
    cli("evict", group)


@pytest.mark.processes
def test_doctor_finds_a_cluster_that_is_well(cli: Cli) -> None:
    found = {line["what"]: line for line in cli("doctor", "--json").data["findings"]}
    assert found["directory"]["verdict"] == found["store"]["verdict"] == found["port"]["verdict"] == "ok"
    assert "2 of 2 nodes are ready" in found["directory"]["sentence"]


@pytest.mark.processes
def test_up_runs_a_cluster_until_it_is_asked_to_end() -> None:
    command = [sys.executable, "-m", "pinfold", "up", "--nodes", "1", "--dram", "256KiB", "--ssd", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as running:
        assert running.stdout is not None
        document = json.loads(running.stdout.readline())
        pids = [document["directory"]["pid"], *(node["pid"] for node in document["nodes"].values())]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not Path(document["data"]).exists()
