"""Settings: which source wins, who said what, and a sentence for everything that can't be meant."""

from pathlib import Path

import attrs
import pytest

from pinfold.config import Config, ConfigError, load
from pinfold.core.client_state import Degradation
from pinfold.core.ids import Peer, Tier
from pinfold.settings import FILLED_IN, KEYS, LIMITS
from pinfold.units import parse_duration_ms, parse_size_bytes, show_duration, show_size


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pinfold.toml"


def sentence(*arguments: object, **more: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*arguments, **more)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- who wins ------------------------------------------------------------------------------------------------


def test_flags_win_over_the_environment_over_the_file_over_the_defaults_and_each_value_knows_its_source(file: Path) -> None:
    file.write_text('[client]\ntimeout = "4s"\nlease = "40s"\nattempt = "400ms"\n[directory]\nwindow = 64\n')
    config = load({"client.timeout": "2s"}, {"PINFOLD_CLIENT_TIMEOUT": "3s", "PINFOLD_CLIENT_LEASE": "30s"}, file)
    made = config.settings.client_config(Peer("client/a"), "boot")
    assert (made.timeout_ms, made.lease_ms, made.attempt_ms, made.backoff_ms) == (2_000, 30_000, 400, 20)
    assert config.origins["client.timeout"] == "--timeout"
    assert config.origins["client.lease"] == "PINFOLD_CLIENT_LEASE"
    assert config.origins["client.attempt"] == str(file)
    assert config.origins["client.backoff"] == "default"
    assert config.settings.directory_config().window == 64


def test_the_file_may_be_named_by_the_environment(file: Path) -> None:
    file.write_text("[directory]\nwindow = 7\n")
    assert load(environment={"PINFOLD_CONFIG": str(file)}).settings.directory_config().window == 7


def test_every_limit_of_every_machine_is_a_key_or_filled_in_by_its_process() -> None:
    for section, kind in LIMITS.items():
        fields = {attribute.name for attribute in attrs.fields(kind)}
        assert fields - {key.field for key in KEYS[section].values()} <= FILLED_IN


def test_what_is_dumped_is_read_back_as_it_was(file: Path) -> None:
    flags = {
        "directory.eviction": "lfu", "directory.spill": "true", "node.dram": "8MiB", "client.endpoints": "tcp://a:1,tcp://b:2",
        "client.degradation": "recompute", "stores": "shared=/kv,5GiB;cold=/cold", "node.grace": None, "client.lease": "1500ms",
    }  # fmt: skip
    config = load(flags)
    file.write_text(config.toml())
    again = load(file=file)
    assert again.settings == config.settings
    file.write_text(config.toml(only_set=False))
    assert load(file=file).settings == config.settings
    assert config.settings.client_limits["degradation"] is Degradation.RECOMPUTE


def test_sizes_become_slots_of_one_block_and_a_tier_without_room_is_left_out() -> None:
    config = load({"blocks.bytes": "1KiB", "node.dram": "0", "node.ssd": "1MiB", "stores": "s=/kv,2MiB"})
    node = config.settings.node_config(Peer("tcp://127.0.0.1:1"))
    assert [(room.tier, room.slots, room.slab) for room in node.tiers] == [(Tier.SSD, 1_024, False)]
    assert [(store.name, store.capacity) for store in config.settings.directory_config().stores] == [("s", 2_048)]


def test_rows_show_values_as_one_would_write_them() -> None:
    rows = {row.key: (row.value, row.origin) for row in load({"node.dram": "1GiB"}).rows()}
    assert rows["node.dram"] == ("1GiB", "--dram")
    assert rows["directory.node_lease"] == ("3s", "default")
    assert rows["directory.checks"] == ("true", "default")


# ---- what is refused -----------------------------------------------------------------------------------------


def test_unknown_names_are_refused_with_the_nearest_known_one(file: Path) -> None:
    file.write_text("[directory]\nwindw = 7\n")
    assert sentence(file=file) == f"{file} [directory]: unknown key 'windw'; did you mean 'window'?"
    file.write_text("[directry]\nwindow = 7\n")
    assert "unknown section 'directry'; did you mean 'directory'?" in sentence(file=file)
    file.write_text('[stores.shared]\npath = "/kv"\ncapcity = "1GiB"\n')
    assert "unknown key 'capcity'; did you mean 'capacity'?" in sentence(file=file)
    assert "did you mean 'PINFOLD_NODE_DRAM'?" in sentence(environment={"PINFOLD_NODE_DRM": "8MiB"})
    assert "did you mean 'PINFOLD_CLIENT_TIMEOUT'?" in sentence(environment={"PINFOLD_CLENT_TIMEOUT": "1s"})


def test_variables_that_are_not_meant_for_us_are_left_alone() -> None:
    load(environment={
        "PINFOLD_DIRECTORY_SERVICE_HOST": "10.0.0.1", "PINFOLD_DIRECTORY_PORT": "tcp://10.0.0.1:7400",
        "PINFOLD_DIRECTORY_PORT_7400_TCP_ADDR": "10.0.0.1", "PINFOLD_TRACES": "data", "PINFOLD_SOMETHING": "else", "HOME": "/x",
    })  # fmt: skip


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("timeout = 5", 'client.timeout must be a duration such as "200ms", "1s" or "5m", not 5'),
        ('timeout = "5"', "must be a duration"),
        ('timeout = "5 parsecs"', "must be a duration"),
        ('timeout = "0.5ms"', "must be a duration"),
        ('timeout = "0"', 'must be at least 1ms, not "0"'),
        ('timeout = "90d"', 'must be at most 1d, not "90d"'),
        ('write_chunk = "1 MiBB"', "must be a size such as"),
        ("window = true", "client.window must be a whole number, not true"),
        ("window = 1.5", "must be a whole number, not 1.5"),
        ("window = 0", "must be at least 1, not 0"),
        ('wait_joined = "yes"', "must be true or false"),
        ("near = 3", "must be a text"),
        ('degradation = "recomput"', "did you mean 'recompute'?"),
        ('endpoints = "tcp://127.0.0.1:1"', "must be a list of texts"),
        ('endpoints = ["127.0.0.1:1"]', "must be an endpoint such as tcp://127.0.0.1:7400"),
        ('endpoints = ["tcp://127.0.0.1:99999"]', "must be an endpoint"),
        ("timeout = {}", "not a table"),
    ],
)
def test_a_value_that_can_not_be_meant_is_refused_with_what_was_expected(file: Path, line: str, expected: str) -> None:
    file.write_text(f"[client]\n{line}\n")
    said = sentence(file=file)
    assert expected in said
    assert str(file) in said


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"directory.low": "960"}, "directory.low (960) must be less than directory.high (950)"),
        ({"node.heartbeat": "3s"}, "node.heartbeat (3s) must be less than directory.node_lease (3s)"),
        ({"directory.shard": "2", "directory.shards": "2"}, "directory.shard (2) must be less than directory.shards (2)"),
        ({"node.name": "a/b"}, "node.name must be letters"),
        ({"node.dram": "0", "node.ssd": "0"}, "a node needs a tier"),
        ({"stores": "shared"}, "a store is written as name=path"),
        ({"stores": "a b=/kv"}, "is no name of a store"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(flags: dict[str, str | None], expected: str) -> None:
    assert expected in sentence(flags)


def test_a_file_that_can_not_be_read_is_one_sentence(file: Path) -> None:
    assert sentence(file=file) == f"cannot read the configuration {file}: No such file or directory"
    file.write_text("[client\n")
    assert f"{file} is not TOML" in sentence(file=file)
    file.write_bytes(b"\xff\xfe")
    assert f"{file} is not TOML" in sentence(file=file)
    file.write_text("client = 3\n")
    assert "client must be a table" in sentence(file=file)
    file.write_text("[stores]\nshared = 3\n")
    assert "stores.shared must be a table" in sentence(file=file)
    file.write_text('[stores.shared]\ncapacity = "1GiB"\n')
    assert "store 'shared' needs a path" in sentence(file=file)


# ---- units ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ms"), [("200ms", 200), ("1s", 1_000), ("1.5s", 1_500), ("5m", 300_000), ("2 h", 7_200_000), ("0", 0)]
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms
    assert parse_duration_ms(show_duration(ms)) == ms


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MiB", 2**26), ("1GiB", 2**30), ("1.5KiB", 1_536), ("10kB", 10_000), ("4kib", 4_096), ("7B", 7), ("0", 0)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size_bytes(text) == size
    assert parse_size_bytes(show_size(size)) == size


@pytest.mark.parametrize("text", ["", "5", "-1s", "1e3s", "s", "1 s s", "1ss", "9" * 40 + "s", "1.0000000001s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_duration_ms(text)


def test_a_configuration_is_equal_to_itself() -> None:
    assert isinstance(load(), Config)
    assert load() == load()
