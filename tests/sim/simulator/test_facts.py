"""What the simulator knows of CLI 2.1.325: models, prices, tools, and what it offers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.simulator import facts, user_extensions
from pilothouse_sim.simulator.settings import CliSettings, chosen_model, merge

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "ANTHROPIC_API_KEY": "x",
}


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        (None, "claude-opus-5-5"),
        ("default", "claude-opus-5-5"),
        ("Sonnet", "claude-sonnet-5-5"),
        ("sonnet[1m]", "claude-sonnet-5-5"),
        ("haiku", "claude-haiku-5-5"),
        ("opusplan", "claude-sonnet-5-5"),
        ("claude-opus-4-1-20250805", "claude-opus-5-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20250929"),
        ("claude-sonnet-5-5[1m]", "claude-sonnet-5-5"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_models_name_is_resolved_as_the_cli_does(given: str | None, resolved: str) -> None:
    assert facts.resolve_model(given) == resolved


@pytest.mark.parametrize(
    ("name", "canonical", "window", "output", "basis"),
    [
        ("claude-opus-5-5", "claude-opus-5-5", 1_000_000, 128_000, "list"),
        ("us.anthropic.claude-opus-5-5-v1:0", "claude-opus-5-5", 1_000_000, 128_000, "list"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4-0", 200_000, 32_000, "list"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet", 200_000, 32_000, "list"),
        ("claude-3-opus-20240229", "claude-3-opus", 200_000, 4096, "unknown"),
        ("claude-fable-5-3", "claude-fable-5-3", 1_000_000, 32_000, "unknown"),
    ],
)
def test_a_model_has_the_size_that_results_report(
    name: str, canonical: str, window: int, output: int, basis: str
) -> None:
    found = facts.model(name)
    assert (found.id, found.context_window) == (canonical, window)
    assert (found.max_output_tokens, found.cost_basis) == (output, basis)


@pytest.mark.parametrize(
    ("name", "dollars"),
    [
        ("claude-opus-5-5", 0.0060539999999999995),
        ("claude-fable-5-2", 0.012104),
        ("claude-sonnet-5-5", 0.0030269999999999997),
        ("nonsense", 0.0060539999999999995),
    ],
)
def test_a_call_costs_what_results_say(name: str, dollars: float) -> None:
    usage = {
        "input_tokens": 1000,
        "output_tokens": 100,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 20,
    }
    assert facts.price(name, usage) == pytest.approx(dollars, rel=1e-12)


def test_long_prompts_cost_more_on_the_smallest_model() -> None:
    assert facts.price("claude-haiku-5-5", {"input_tokens": 100_000}) == pytest.approx(0.01)
    assert facts.price("claude-haiku-5-5", {"input_tokens": 300_000}) == pytest.approx(0.15)


def test_two_aliases_stand_for_another_model_in_plan_mode() -> None:
    assert facts.request_model("haiku", "claude-haiku-5-5", "plan") == "claude-sonnet-5-5"
    assert facts.request_model("opusplan", "claude-sonnet-5-5", "plan") == "claude-opus-5-5"
    assert facts.request_model("haiku", "claude-haiku-5-5", "default") == "claude-haiku-5-5"


def test_a_model_of_ones_own_is_added_to_the_list() -> None:
    assert [each["value"] for each in facts.listed_models()] == [
        *("default", "opus", "fable", "sonnet", "haiku")
    ]
    assert facts.listed_models("sonnet") == facts.listed_models()
    assert facts.listed_models("nonsense")[-1]["description"] == "Custom model"
    old = facts.listed_models("claude-haiku-4-5-20251001")[-1]
    assert old["displayName"] == "Haiku 4.5"
    assert old["description"] == "Newer version available · select Haiku for Haiku 5.5"
    assert facts.listed_models("opusplan")[-1]["displayName"] == "Opus Plan Mode"


def names(**more: object) -> list[str]:
    given = {"model_name": "claude-opus-5-5", "environment": QUIET} | more
    return facts.tool_names(**given)  # pyright: ignore[reportArgumentType]


def test_tools_stand_in_the_clis_order() -> None:
    found = names(structured=True, mcp=["mcp__calc__add"])
    assert (found[0], found[-1]) == ("Task", "mcp__calc__add")
    assert found[1:-1] == sorted(found[1:-1])
    assert "StructuredOutput" in found


def test_without_a_shell_there_are_tools_to_search_with() -> None:
    assert {"Glob", "Grep"} <= set(names(denied=["Bash"]))
    assert "Monitor" not in names(denied=["Bash"])
    assert "Glob" not in names()


def test_nobody_to_ask_takes_the_asking_tools_away() -> None:
    gone = {"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"}
    assert gone.isdisjoint(names(can_ask=False))


def test_tools_follow_the_flags() -> None:
    assert names(given=["Read", "Bash", "nonsense"]) == ["Bash", "Read"]
    assert names(given=["Agent"]) == ["Task"]
    assert names(given=[]) == []
    assert names(given=["default"]) == names()
    assert names(bare=True) == ["Bash", "Edit", "Read"]
    assert "Task" not in names(denied=["Agent"])
    assert "TaskCreate" in names(model_name="claude-haiku-4-5")
    assert "ToolSearch" not in names(environment=QUIET | {"ENABLE_TOOL_SEARCH": "false"})
    assert "DesignSync" in names(environment={})


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_what_users_keep_in_files_is_offered(tmp_path: Path) -> None:
    user, cwd, plugin = tmp_path / "config", tmp_path / "cwd", tmp_path / "plugin"
    write(user / "skills/splice/SKILL.md", "---\nname: splice\ndescription: joins\n---\nJoin.")
    write(user / "commands/mine.md", "# Mine\nSay mine.")
    write(cwd / ".claude/commands/sub/ho.md", "Say ho.")
    write(cwd / ".claude/commands/hey.md", "---\ndescription: hey\nargument-hint: [who]\n---\nHey")
    write(cwd / ".claude/agents/mate.md", "---\nname: mate\ndescription: a mate\n---\nHelp.")
    write(cwd / ".claude/output-styles/p.md", "---\nname: Pirate\n---\nArr.")
    write(plugin / ".claude-plugin/plugin.json", '{"name": "rig", "version": "1.0.0"}')
    write(plugin / "commands/one.md", "one thing")
    found = user_extensions.gather(
        cwd=cwd, config_dir=user, environment=QUIET, plugin_dirs=[str(plugin)], agents={"Abe": {}}
    )
    assert [each["name"] for each in found.commands][:6] == [
        *("splice", "hey", "mine", "sub:ho", "deep-research", "rig:one")
    ]
    assert found.commands[1] == {
        "name": "hey",
        "description": "hey (project)",
        "argumentHint": "who",
    }
    assert found.skills[:2] == ["splice", "deep-research"]
    assert [each["name"] for each in found.agents][:3] == ["Abe", "claude", "Explore"]
    assert found.output_styles[-1] == "Pirate"
    assert found.plugins[0] == {
        "name": "rig",
        "path": str(plugin),
        "source": "rig@inline",
        "version": "1.0.0",
    }


def test_settings_are_merged_from_file_to_file(tmp_path: Path) -> None:
    write(tmp_path / "config/settings.json", '{"permissions": {"allow": ["A"]}, "model": "opus"}')
    write(tmp_path / ".claude/settings.json", '{"permissions": {"allow": ["B", "A"]}}')
    settings = CliSettings(tmp_path, tmp_path / "config", '{"model": "haiku"}')
    assert settings.effective() == {"permissions": {"allow": ["A", "B"]}, "model": "haiku"}
    settings.apply({"model": None})
    assert settings.effective()["model"] == "opus"
    assert list(settings.layers()) == ["userSettings", "projectSettings"]
    assert list(CliSettings(tmp_path, tmp_path / "config", None, "project").layers()) == [
        "projectSettings"
    ]
    assert chosen_model(None, {"ANTHROPIC_MODEL": "sonnet"}, settings) == "sonnet"
    assert chosen_model(None, {}, settings) == "opus"


def test_none_takes_a_setting_away() -> None:
    assert merge({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}) == {"a": {"c": 2}}


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ('{"hooks": 3, "outputStyle": "x"}', {"outputStyle": "x"}),
        ('{"hooks": [1], "env": 3, "permissions": []}', {}),
        (
            '{"permissions": {"allow": [3, "Read"], "deny": 3}}',
            {"permissions": {"allow": ["Read"]}},
        ),
        ('{"permissions": {"defaultMode": []}}', {"permissions": {}}),
        (
            '{"hooks": {"Stop": [3, {"hooks": 3}, {"hooks": [3]}]}}',
            {"hooks": {"Stop": [{"hooks": []}]}},
        ),
        ('{"model": 3, "permissions": {"allow": ["Read"]}}', {}),
        ('{"hooks": {"PreToolUse": [{"hooks": 3}]}, "permissions": {"allow": ["Read"]}}', {}),
    ],
)
def test_settings_of_another_shape_are_left_out(
    tmp_path: Path, written: str, kept: dict[str, Any]
) -> None:
    write(tmp_path / "config/settings.json", written)
    assert CliSettings(tmp_path, tmp_path / "config").effective() == kept
    assert CliSettings(tmp_path, tmp_path / "none", written).effective() == kept
