"""Transcripts: a script of commands with what came of them below, re-run and compared (specs/scenarios.md is the manual).

    commands            one a line; `#` begins a comment
    ----
    output              up to the next blank line; written by `pytest --record`
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from pinfold.chaos.play import Play
from pinfold.chaos.sim_play import SimPlay
from pinfold.chaos.world_file import load_world
from pinfold.core import commands, events, requests
from pinfold.core.audit import audit
from pinfold.core.ids import NO_COPY, Cause, CopyId, GroupId, HoldId, MovePolicy, NodeName, Peer, Reason, SessionId, Tier
from pinfold.core.state import DirectoryConfig

from .model_based.models import MODELS
from .model_based.told import ModelPlay
from .node_world import checksums_of, content, manifest_of
from .story_world import DIRECTORY, Letter, StoryWorld, named_copy

BLOCKS = 2
LEASE_MS = 600_000
KINDS = {name: kind for name, kind in vars(commands).items() if isinstance(kind, type) and attrs.has(kind)}


@attrs.define
class Block:
    """Some lines of script and what is written below them."""

    script: list[str]
    output: list[str]


def parse(text: str) -> list[Block]:
    """Blocks are parted by blank lines; a block without `----` has no output."""
    blocks = []
    for piece in text.strip("\n").split("\n\n"):
        lines = piece.strip("\n").split("\n")
        cut = lines.index("----") if "----" in lines else len(lines)
        blocks.append(Block(lines[:cut], lines[cut + 1 :]))
    return blocks


def unparse(blocks: list[Block]) -> str:
    pieces = ["\n".join([*block.script, *(["----", *block.output] if block.output else [])]) for block in blocks]
    return "\n\n".join(pieces) + "\n"


def replay(text: str) -> list[Block]:
    """Run a script from its beginning: the same blocks with what came of them now."""
    story = Story()
    done = []
    for block in parse(text):
        for line in block.script:
            words = [] if line.startswith("#") else line.split()
            if words:
                story.do(words)
        done.append(Block(block.script, story.take()))
    return done


def compare(path: Path, record: bool) -> None:
    """Replay one file; differences fail, or are written down if `record`."""
    text = path.read_text(encoding="utf-8")
    now = unparse(replay(text))
    if record:
        path.write_text(now, encoding="utf-8")
    else:
        assert now == text, f"{path.name}: if the change is meant, write it anew with --record and read the difference"


class Story:
    """Executes the words of one line at a time."""

    def __init__(self) -> None:
        self.world: Any = None
        self.sent: dict[str, dict[int, commands.Command]] = {}
        self.sessions: dict[str, SessionId] = {}
        self.tokens = 0

    def do(self, words: list[str]) -> None:
        verb = VERBS.get(words[0])
        if isinstance(self.world, Play | SimPlay | ModelPlay):
            self.world.do(words)
        elif verb is not None:
            verb(self, words[1:])
        else:
            self.caller(words[0], words[1:])

    def take(self) -> list[str]:
        """The output since it was last taken."""
        if self.world is None:
            return []
        lines, self.world.lines = self.world.lines, []
        return [line.rstrip() for line in lines]

    # ---- the world -------------------------------------------------------------------------------------------

    def begin(self, words: list[str]) -> None:
        """world NODE=SLOTS... [store:NAME=SLOTS...] [CONFIG=VALUE...]"""
        fields = {field.name: field for field in attrs.fields(DirectoryConfig)}
        nodes, stores, config = {}, {}, {}
        for word in words:
            name, _, value = word.partition("=")
            if name in fields:
                config[name] = value if isinstance(fields[name].default, str) else type(fields[name].default)(int(value))
            elif name.startswith("store:"):
                stores[name.removeprefix("store:")] = int(value)
            else:
                nodes[name] = int(value)
        self.world = StoryWorld(nodes, stores, config)

    def explore(self, words: list[str]) -> None:
        """explore WORLD: one of specs/worlds; from here on each line is one of its steps (`pinfold.chaos.play`)."""
        self.world = Play(load_world(words[0]))

    def simulate(self, words: list[str]) -> None:
        """simulate SEED PROFILE: a simulated cluster; from here on each line is one of its actions (`pinfold.chaos.sim_play`)."""
        self.world = SimPlay(int(words[0]), words[1])

    def model(self, words: list[str]) -> None:
        """model NAME: a state machine of tests/model_based; from here on each line is one of its rules."""
        self.world = ModelPlay(MODELS[words[0]])

    def show(self, words: list[str]) -> None:
        """show GROUP... | NODE...: the record, or what a node has."""
        world = self.world
        state = world.directory.state
        for word in words or [world.names.groups[group] for group in state.groups]:
            if word in world.nodes:
                entries = world.nodes[word].node.inventory()
                listed = ", ".join(f"{world.names.copy(entry.copy)} {entry.condition.name}" for entry in entries)
                world.say(f"{word} has [{listed}]")
                continue
            group = state.groups.get(self.group(word))
            if group is None:
                world.say(f"{word} has no record")
            else:
                live = [hold for hold in state.holds.values() if hold.group == group.id and not hold.lost]
                pins = {copy.id: sum(hold.copy == copy.id for hold in live) for copy in state.copies[group.id]}
                refs = sum(hold.copy == NO_COPY for hold in live)
                line = world.names.group(group, state.copies[group.id], pins)
                world.say(line + (f" refs={refs}" if refs else ""))

    def put(self, words: list[str]) -> None:
        """put GROUP[:BLOCKS] NODE: created, written, sealed and let go by caller `a`, without a word."""
        world = self.world
        world.quiet = True
        self.caller("a", ["Create", *words])
        copy = world.directory.state.copies[self.group(words[0])][-1]
        world.run()
        name = world.names.copy(copy.id)
        self.caller("a", ["write", name])
        world.run()
        self.caller("a", ["end", name])
        world.run()
        self.caller("a", ["Unpin", f"a.{max(self.sent['a'])}"])
        world.run()
        world.quiet = False

    def rest(self, words: list[str]) -> None:
        """rest: nothing moves any more, and directory and nodes are of one mind."""
        world = self.world
        world.run()
        nodes = {NodeName(name): node.node.inventory() for name, node in world.nodes.items() if not node.crashed}
        found = audit(world.directory.state, nodes, world.config)
        world.say(*(world.names.named(f"{finding.kind}: {finding.what}") for finding in found))
        if not found:
            world.say("at rest")

    # ---- wire, work, faults ----------------------------------------------------------------------------------

    def letter(self, words: list[str]) -> Letter:
        """The oldest letter under way that has all these words."""
        for letter in self.world.wire:
            if all(word in letter.text.split() for word in words):
                assert isinstance(letter, Letter)
                return letter
        raise AssertionError(f"nothing under way has the words {words}: {[letter.text for letter in self.world.wire]}")

    def drop(self, words: list[str]) -> None:
        self.world.wire.remove(self.letter(words))

    def filter(self, verb: str, words: list[str]) -> None:
        self.world.filters.append((verb, tuple(words)))

    def free(self, words: list[str]) -> None:
        """free: the filters end, and what was kept is under way again."""
        self.world.filters.clear()
        self.world.wire += self.world.kept
        self.world.kept = []

    def work(self, name: str, words: list[str]) -> Any:
        """The oldest work of a node whose text has all these words."""
        for work in self.world.nodes[name].works.values():
            if all(word in self.world.names.message(work).split() for word in words):
                return work
        raise AssertionError(f"{name} has no such work: {words}")

    def fail(self, words: list[str]) -> None:
        """fail NODE REASON [WORDS]: a piece of byte work ends without success."""
        work = self.work(words[0], words[2:])
        instance = getattr(work, "target", None) or getattr(work, "instance", None)
        copy = instance.copy if instance is not None else NO_COPY
        self.world.finish(words[0], work, events.WorkFailed(work.job, copy, Reason[words[1]]))

    def damage(self, words: list[str]) -> None:
        """damage NODE: its bytes rot."""
        for key in list(self.world.shared):
            if key[0] == words[0]:
                self.world.shared[key] = b"rotten"

    def crash(self, words: list[str]) -> None:
        for word in words:
            if word == "directory":
                self.world.crash_directory()
            else:
                self.world.crash(word)

    def start(self, words: list[str]) -> None:
        for word in words:
            if word == "directory":
                self.world.start_directory()
            else:
                self.world.boot(word)

    # ---- callers ---------------------------------------------------------------------------------------------

    def caller(self, name: str, words: list[str]) -> None:
        """CALLER [#NUMBER[/LOW]] KIND [VALUE...] [FIELD=VALUE...], CALLER again NUMBER, CALLER write|end|read COPY [at NODE]"""
        if words[0] == "open":
            self.open(name, words[1:])
            return
        if name not in self.sessions:
            quiet, self.world.quiet = self.world.quiet, True
            self.open(name, [])
            self.world.quiet = quiet
        if words[0] in ("write", "end", "read"):
            self.to_node(name, words)
            return
        if words[0] == "again":
            self.say_to_directory(name, self.sent[name][int(words[1])])
            return
        number = low = max(self.sent[name], default=0) + 1
        if words[0].startswith("#"):
            given, _, unanswered = words[0][1:].partition("/")
            number, words = int(given), words[1:]
            low = int(unanswered or given)
        body = self.build(*words, caller=name)
        if isinstance(body, commands.Body | commands.Batch):
            body = commands.Command(Peer(f"client/{name}"), self.sessions[name], number, low, body)
            self.sent[name].setdefault(number, body)
        self.say_to_directory(name, body)

    def open(self, name: str, words: list[str]) -> None:
        """CALLER open [name=NAME] [lease_ms=N]"""
        given = dict(word.split("=") for word in words)
        event = commands.OpenSession(
            Peer(f"client/{name}"), f"{name}-{self.tokens}", given.get("name", ""), int(given.get("lease_ms", LEASE_MS))
        )
        self.tokens += 1
        before = len(self.world.inbox)
        self.say_to_directory(name, event)
        if len(self.world.inbox) > before:
            answer = self.world.inbox[-1].answer
            self.sessions[name] = answer.session
            self.sent.setdefault(name, {})

    def say_to_directory(self, name: str, event: Any) -> None:
        letter = self.world.put(f"client/{name}", DIRECTORY, event)
        if letter is not None:
            self.world.deliver(letter)

    def to_node(self, name: str, words: list[str]) -> None:
        copy = self.copy(words[1])
        group, _, _ = words[1].rpartition(".")
        node = words[3] if words[2:3] == ["at"] else self.place(copy)
        count = self.world.names.blocks[group]
        client, token = Peer(f"client/{name}"), f"{name}-{self.tokens}"
        self.tokens += 1
        blocks = tuple(range(count))
        if words[0] == "write":
            data = tuple(content(group, block) for block in blocks)
            event: Any = requests.Write(client, token, copy, blocks, checksums_of(group, count), data)
        elif words[0] == "end":
            event = requests.EndWrite(client, token, copy, manifest_of(group, count))
        else:
            event = requests.Read(client, token, copy, blocks)
        letter = self.world.put(client, f"node/{node}", event)
        if letter is not None:
            self.world.deliver(letter)

    def place(self, copy: CopyId) -> str:
        for name, node in self.world.nodes.items():
            if copy in node.node.state.copies:
                return str(name)
        raise AssertionError(f"no node has {copy}; say `at NODE`")

    # ---- values ----------------------------------------------------------------------------------------------

    def build(self, kind: str, *words: str, caller: str = "") -> Any:
        """A command or query from its words: positions follow the class's fields."""
        cls = KINDS[kind]
        fields = [field.name for field in attrs.fields(cls) if field.name not in ("client", "token", "session")]
        given: dict[str, Any] = {}
        if "token" in {field.name for field in attrs.fields(cls)}:
            self.tokens += 1
            given = {"client": Peer(f"client/{caller}"), "token": f"{caller}-{self.tokens}"}
        if any(field.name == "session" for field in attrs.fields(cls)):
            given["session"] = self.sessions[caller]
        if kind == "Explain":
            return cls(body=self.build(*words, caller=caller), **given)
        if kind == "Batch":
            items = " ".join(words).split("|")
            return cls(tuple(self.build(*item.split(), caller=caller) for item in items))
        for position, word in enumerate(words):
            field, is_named, value = word.partition("=")
            field, value = (field, value) if is_named else (fields[position], word)
            given[field] = self.value(field, value)
        return cls(**given)

    def value(self, field: str, text: str) -> Any:
        if field == "spec":
            name, _, blocks = text.partition(":")
            return self.world.names.learn_group(name, int(blocks or BLOCKS))
        if field in ("group", "after"):
            return self.group(text)
        if field == "groups":
            return tuple(self.group(name) for name in text.split(","))
        if field in ("copy", "move"):
            return self.copy(text)
        if field == "hold":
            name, number, *ordinal = text.split(".")
            return HoldId(self.sessions[name], int(number), int(ordinal[0]) if ordinal else 0)
        enums = {"policy": MovePolicy, "tier": Tier, "cause": Cause}
        if field in enums:
            return enums[field][text]
        if text in ("true", "false"):
            return text == "true"
        return int(text) if text.lstrip("-").isdigit() else text

    def group(self, name: str) -> GroupId:
        for group, known in self.world.names.groups.items():
            if known == name:
                assert isinstance(group, bytes)
                return group
        return self.world.names.learn_group(name, BLOCKS).group  # type: ignore[no-any-return]

    def copy(self, text: str) -> CopyId:
        return named_copy(self.world.names, text)


VERBS: dict[str, Callable[[Story, list[str]], None]] = {
    "world": Story.begin,
    "explore": Story.explore,
    "simulate": Story.simulate,
    "model": Story.model,
    "show": Story.show,
    "put": Story.put,
    "rest": Story.rest,
    "run": lambda story, words: story.world.run(),
    "after": lambda story, words: story.world.advance(int(words[0])),
    "tick": lambda story, words: story.world.tick(DIRECTORY if words[0] == "directory" else f"node/{words[0]}"),
    "deliver": lambda story, words: story.world.deliver(story.letter(words)),
    "drop": Story.drop,
    "repeat": lambda story, words: story.world.wire.append(story.letter(words)),
    "keep": lambda story, words: story.filter("keep", words),
    "lose": lambda story, words: story.filter("lose", words),
    "twice": lambda story, words: story.filter("twice", words),
    "free": Story.free,
    "cut": lambda story, words: story.world.cut.update(words),
    "mend": lambda story, words: story.world.cut.difference_update(words),
    "stall": lambda story, words: setattr(story.world.nodes[words[0]], "stalled", True),
    "resume": lambda story, words: setattr(story.world.nodes[words[0]], "stalled", False),
    "finish": lambda story, words: story.world.finish(words[0], story.work(words[0], words[1:])),
    "fail": Story.fail,
    "damage": Story.damage,
    "crash": Story.crash,
    "start": Story.start,
}
"""The verbs of the format. Any other first word is a caller."""
