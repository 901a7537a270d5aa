"""Commands, skills, agents, output styles and plugins that users keep in files.

<config>/ and <project>/.claude/: commands/**.md, skills/*/SKILL.md, agents/*.md,
output-styles/*.md; a plugin has the same folders and `.claude-plugin/plugin.json`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Struct

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.facts import Catalog
from pilothouse_sim.simulator.flags import BadFlag

__all__ = ["Custom", "Plugin", "gather", "own_agents", "own_commands", "read_agents"]

Entry = dict[str, Any]

_BAD_AGENTS: Final = "Error: Invalid --agents configuration:\n"


class Plugin(Struct, frozen=True, kw_only=True):
    """A plugin's folder and what its manifest says."""

    name: str
    path: Path
    version: str | None = None

    def entry(self) -> Entry:
        """The plugin as `init` lists it."""
        shown = {"name": self.name, "path": str(self.path), "source": f"{self.name}@inline"}
        return shown | ({"version": self.version} if self.version else {})


def gather(
    *,
    cwd: Path,
    config_dir: Path,
    environment: Mapping[str, str],
    sources: str | None = None,
    plugin_dirs: Iterable[str] = (),
    agents: Mapping[str, Entry] | None = None,
    safe: bool = False,
) -> Catalog:
    """Everything a session offers now."""
    own = facts.builtin_catalog(environment, safe=safe)
    roots = _roots(cwd, config_dir, sources)
    plugins = [found for folder in plugin_dirs if (found := _plugin(cwd / folder))]
    customs = own_commands(cwd, config_dir, sources)
    skills = [each.name for each in customs if each.path.name == "SKILL.md"]
    extra = [entry for plugin in plugins for entry in _plugin_commands(plugin)]
    plugged = [entry["name"] for entry in extra if "aliases" in entry]
    named = [*_agents(roots, plugins), *(_agent(*each) for each in (agents or {}).items())]
    styles = [style for _, root in roots for style in _styles(root)]
    # The CLI's research workflow stands before what plugins bring, its own commands after.
    return Catalog(
        commands=[
            *(each.entry() for each in customs),
            *own.commands[:1],
            *extra,
            *own.commands[1:],
        ],
        skills=[*skills, *own.skills[:1], *plugged, *own.skills[1:]],
        agents=sorted([*own.agents, *named], key=lambda each: _name(each).lower()),
        plugins=[*(plugin.entry() for plugin in plugins), *own.plugins],
        output_styles=[*own.output_styles, *styles],
    )


def _name(entry: Entry) -> str:
    return entry["name"]


def read_agents(given: str | None) -> dict[str, Entry]:
    """The agents of the --agents flag: JSON itself, or a file with it."""
    if not given:
        return {}
    try:
        found = msgspec.json.decode(_agents_text(given))
    except msgspec.DecodeError as error:
        raise BadFlag(f"{_BAD_AGENTS}invalid JSON: {error}") from None
    if complaints := _complaints(found):
        raise BadFlag(_BAD_AGENTS + "\n".join(complaints))
    return cast("dict[str, Entry]", found)


def _agents_text(given: str) -> bytes:
    with contextlib.suppress(msgspec.DecodeError):
        msgspec.json.decode(given)
        return given.encode()
    if given.lstrip().startswith("{"):
        return given.encode()
    path = Path.cwd() / given
    try:
        return path.read_bytes()
    except OSError:
        raise BadFlag(
            f"Error: --agents file not found: {path} "
            "(a value that is not a JSON object is read as a file path)"
        ) from None


def _complaints(found: Any) -> list[str]:
    if not isinstance(found, dict):
        return [f"Invalid input: expected record, received {_kind(found)}"]
    return [words for each in cast("Entry", found).items() for words in _agent_complaints(*each)]


def _agent_complaints(name: str, agent: Any) -> list[str]:
    if not isinstance(agent, dict):
        return [f"{name}: Invalid input: expected object, received {_kind(agent)}"]
    members = cast("Entry", agent)
    return [
        f"{name}.{key}: Invalid input: expected string, received {_kind(members.get(key, UNSET))}"
        for key in ("description", "prompt")
        if not isinstance(members.get(key), str)
    ]


def _kind(value: Any) -> str:
    if value is None or value is UNSET:
        return "null" if value is None else "undefined"
    kinds = {"dict": "object", "list": "array", "str": "string", "bool": "boolean"}
    return kinds.get(value.__class__.__name__, "number")


def read_front_matter(path: Path) -> tuple[Entry, str]:
    """The fields above a text, and the text."""
    text = path.read_text(errors="replace")
    if not text.startswith("---\n"):
        return {}, text
    head, _, body = text[4:].partition("\n---")
    pairs = (line.partition(":") for line in head.splitlines() if ":" in line)
    return {key.strip(): _unquoted(value.strip()) for key, _, value in pairs}, body.lstrip("-\n")


def _unquoted(value: str) -> str:
    quoted = value[:1] in "\"'[" and len(value) > 1
    # One list is a list of words; several are no YAML, and shown as they are.
    return value[1:-1] if quoted and "[" not in value[1:] else value


def _roots(cwd: Path, config_dir: Path, sources: str | None) -> list[tuple[str, Path]]:
    chosen = {"user", "project"} if sources is None else set(sources.split(","))
    both = [("user", config_dir), ("project", cwd / ".claude")]
    return [(label, root) for label, root in both if label in chosen]


class Custom(Struct, frozen=True, kw_only=True):
    """A command or a skill in a file of the user's."""

    name: str
    path: Path
    label: str
    """Whose it is: `user`, `project`, or nothing for a plugin's."""
    description: str
    hint: str = ""

    def entry(self) -> Entry:
        """The command as clients are told of it."""
        mark = f" ({self.label})" if self.label else ""
        words = {"name": self.name, "description": f"{self.description}{mark}"}
        return words | {"argumentHint": self.hint}

    @property
    def line(self) -> str:
        """What the model reads of it."""
        return f"- {self.name}: {self.description}"


def own_commands(cwd: Path, config_dir: Path, sources: str | None = None) -> list[Custom]:
    """The user's skills, then the user's commands by name."""
    roots = _roots(cwd, config_dir, sources)
    skills = [each for label, root in roots for each in _skills(root, label)]
    commands = [each for label, root in roots for each in _commands(root, label)]
    return [*skills, *sorted(commands, key=lambda each: each.name)]


def _commands(root: Path, label: str = "") -> list[Custom]:
    folder = root / "commands"
    found = sorted(folder.rglob("*.md"))
    named = [(":".join(path.relative_to(folder).with_suffix("").parts), path) for path in found]
    return [_custom(name, path, label) for name, path in named]


def _skills(root: Path, label: str = "") -> list[Custom]:
    found = sorted((root / "skills").glob("*/SKILL.md"))
    return [_custom(path.parent.name, path, label) for path in found]


def _custom(name: str, path: Path, label: str) -> Custom:
    fields, body = read_front_matter(path)
    lines = [line.strip().lstrip("# ") for line in body.splitlines() if line.strip()]
    words = fields.get("description") or (lines[0] if lines else name)
    hint = fields.get("argument-hint", "")
    return Custom(name=name, path=path, label=label, description=words, hint=hint)


def _plugin(folder: Path) -> Plugin | None:
    path = folder.resolve()
    try:
        given = msgspec.json.decode((path / ".claude-plugin/plugin.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    manifest = cast("Entry", given)
    return Plugin(name=manifest["name"], path=path, version=manifest.get("version"))


def _plugin_commands(plugin: Plugin) -> list[Entry]:
    commands = [_plugged(each, plugin) for each in _commands(plugin.path)]
    skills = _skills(plugin.path)
    return commands + [_plugged(each, plugin) | {"aliases": [each.name]} for each in skills]


def _plugged(custom: Custom, plugin: Plugin) -> Entry:
    words = f"({plugin.name}) {custom.description}"
    return custom.entry() | {"name": f"{plugin.name}:{custom.name}", "description": words}


def own_agents(cwd: Path, config_dir: Path, sources: str | None = None) -> list[Entry]:
    """The user's agents, with their files."""
    roots = _roots(cwd, config_dir, sources)
    return [
        {**fields, "path": path, "label": label}
        for label, root in roots
        for path in sorted((root / "agents").glob("*.md"))
        if "name" in (fields := read_front_matter(path)[0])
    ]


def _agents(roots: list[tuple[str, Path]], plugins: list[Plugin]) -> list[Entry]:
    folders = [("", root) for _, root in roots]
    folders += [(f"{plugin.name}:", plugin.path) for plugin in plugins]
    return [
        _agent(prefix + fields["name"], fields)
        for prefix, root in folders
        for path in sorted((root / "agents").glob("*.md"))
        if "name" in (fields := read_front_matter(path)[0])
    ]


def _agent(name: str, given: Entry) -> Entry:
    shown = {"name": name, "description": given.get("description", "")}
    return shown | ({"model": given["model"]} if given.get("model") else {})


def _styles(root: Path) -> list[str]:
    found = sorted((root / "output-styles").glob("*.md"))
    return [read_front_matter(path)[0].get("name", path.stem) for path in found]
