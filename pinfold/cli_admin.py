"""`pinfold doctor`: what is wrong here. `pinfold config show`: what is set, and who said so."""

from __future__ import annotations

import attrs
import click

from .cli_shared import Given, pass_given, shared


@click.command()
@shared
@pass_given
def doctor(given: Given) -> int:
    """Look at this machine, its settings and the cluster; one line for each thing. Exit code 1 if something fails."""
    from .doctor import FAIL, examine

    timeout_ms = 1_000
    findings = examine(lambda: given.config, timeout_ms)
    failed = sum(1 for finding in findings if finding.verdict == FAIL)
    given.data(
        {"failed": failed, "findings": [attrs.asdict(finding) for finding in findings]},
        lambda: [f"{finding.verdict:4}  {finding.what:14}  {finding.sentence}" for finding in findings],
    )
    return 1 if failed else 0


@click.group()
def config() -> None:
    """Look at the settings."""


@config.command()
@click.option("--origin", is_flag=True, help="Say for each value who has set it.")
@shared
@pass_given
def show(given: Given, origin: bool) -> None:
    """Print every setting as it is now, as a file that --config can read."""
    rows = given.config.rows()
    document = [{"key": row.key, "value": row.value} | ({"origin": row.origin} if origin else {}) for row in rows]
    given.data(document, lambda: _toml(given, origin))


def _toml(given: Given, origin: bool) -> list[str]:
    """TOML, the origin as a comment behind each value."""
    config = given.config
    lines, section = [], ""
    for line in config.toml(only_set=False).splitlines():
        if line.startswith("["):
            section = line.strip("[]").replace('"', "")
        name, equals, _ = line.partition(" = ")
        said = f"{line:<48} # {config.origins[f'{section}.{name}']}" if origin and equals else line
        lines.append(said)
    return lines


COMMANDS = (doctor, config)
