"""`pinfold directory`, `pinfold node`: one process of a cluster. `pinfold up`: a whole one on this machine."""

from __future__ import annotations

import select
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .cli_shared import F, Given, pass_given, sets, shared
from .config import NAME
from .serving import Ending, guarded

if TYPE_CHECKING:
    from .cluster import LocalCluster

STORE = sets(
    "stores", "--store", metavar="NAME=PATH[,CAPACITY]", multiple=True, help="A directory that all nodes share, as remote store."
)


def _process_options(command: F) -> F:
    ready = click.option("--ready-file", default="", metavar="FILE", help="Write one JSON line there when it serves.")
    parent = click.option("--parent-fd", default=-1, hidden=True, help="End when this pipe is closed.")
    return STORE(ready(parent(command)))


@click.command()
@sets("directory.bind", "--bind")
@sets("directory.advertise", "--advertise")
@sets("directory.data", "--data", metavar="FOLDER")
@sets("directory.shard", "--shard", metavar="N")
@sets("directory.shards", "--shards", metavar="N")
@_process_options
@shared
@pass_given
def directory(given: Given, ready_file: str, parent_fd: int) -> int:
    """Serve one shard's directory until SIGTERM or Ctrl-C. Prints one JSON line when it is ready."""
    from .directory_process import main

    log = given.log("directory")
    return guarded(log, lambda: main(given.config.settings, log, ready_file=ready_file, parent_fd=parent_fd))


@click.command()
@sets("node.name", "--name")
@sets("node.bind", "--bind")
@sets("node.advertise", "--advertise")
@sets("node.data", "--data", metavar="FOLDER")
@sets("node.dram", "--dram", metavar="SIZE")
@sets("node.ssd", "--ssd", metavar="SIZE")
@_process_options
@shared
@pass_given
def node(given: Given, ready_file: str, parent_fd: int) -> int:
    """Serve one node until SIGTERM or Ctrl-C. Prints one JSON line when it is ready."""
    from .node_process import main

    log = given.log("node")
    return guarded(log, lambda: main(given.config.settings, log, ready_file=ready_file, parent_fd=parent_fd))


def _names(_context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    if text.isdigit():
        count = int(text)
        if not 1 <= count <= 64:
            raise click.BadParameter("1 to 64 nodes fit on one machine", param=parameter)
        return tuple(f"n{number}" for number in range(1, count + 1))
    names = tuple(text.split(","))
    if not all(NAME.fullmatch(name) for name in names) or len(set(names)) != len(names):
        raise click.BadParameter("takes a number, or names apart by commas", param=parameter)
    return names


@click.command()
@click.option(
    "--nodes", default="3", callback=_names, metavar="N|NAME,...", show_default=True, help="How many nodes, or their names."
)
@click.option("--data", type=click.Path(path_type=Path), help="Where everything is kept; a temporary folder by default.")
@sets("directory.bind", "--bind", help="The directory's endpoint; a free port by default.")
@sets("node.dram", "--dram", metavar="SIZE")
@sets("node.ssd", "--ssd", metavar="SIZE")
@STORE
@click.option("--parent-fd", default=-1, hidden=True)
@shared
@pass_given
def up(given: Given, nodes: tuple[str, ...], data: Path | None, parent_fd: int) -> int:
    """Run a whole local cluster until Ctrl-C: a directory, nodes, a shared store."""
    from .cluster import ClusterOptions, LocalCluster

    config = given.config
    log = given.log("up")
    chosen = config.origins["directory.bind"] != "default"
    options = ClusterOptions(nodes=nodes, data=data, endpoint=config.settings.directory.bind if chosen else "")
    with Ending(parent_fd) as ending:
        cluster = LocalCluster(options, config)
        with cluster:
            document = _document(cluster)
            given.data(document, lambda: _lines(document))
            log.info("serves", peer=cluster.endpoint, data=str(cluster.data))
            code = _stay(cluster, ending, log.error)
        if code == 0:
            log.info("ends", reason=ending.reason)
        return code


def _document(cluster: LocalCluster) -> dict[str, Any]:
    return {
        "ready": "cluster",
        "endpoint": cluster.endpoint,
        "config": str(cluster.config_file),
        "data": str(cluster.data),
        "directory": {"pid": cluster.directory.pid, "endpoint": cluster.endpoint},
        "nodes": {name: {"pid": member.pid, "endpoint": member.endpoint} for name, member in cluster.nodes.items()},
    }


def _lines(document: dict[str, Any]) -> list[str]:
    return [
        f"directory  {document['endpoint']}",
        *(f"{name:9}  {node['endpoint']}" for name, node in document["nodes"].items()),
        f"use it     pinfold --endpoints {document['endpoint']} status",
        f"config     {document['config']}",
    ]


def _stay(cluster: LocalCluster, ending: Ending, tell: Callable[..., None]) -> int:
    """Until asked to end, or until a member has ended by itself."""
    while not ending.reason:
        readable, _, _ = select.select(ending.fds, (), (), 0.5)
        ending.look(tuple(readable))
        gone = cluster.ended()
        if gone and not ending.reason:
            for member in gone:
                tell("a process of the cluster has ended", node=member.name, exit_code=member.exit_code, log=member.last_words())
            return 1
    return 0


COMMANDS = (up, directory, node)
