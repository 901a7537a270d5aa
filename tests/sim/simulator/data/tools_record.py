"""Records what the real CLI's tools answer, call by call, into `tools.json`.

    python tests/sim/simulator/data/tools_record.py --cli PATH_OF_THE_CLI [scene ...]

A scene is a folder with some files and a list of steps: a call of the model's, or a change that
somebody else makes to a file in between. One CLI plays a scene, against a scripted model, in a
network namespace with nothing but the loopback interface.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[3]))

from pilothouse_sim.isolation import enter_network_namespace  # noqa: E402
from pilothouse_sim.scenario import (  # noqa: E402
    Computed,
    ModelRequest,
    Reply,
    Scenario,
    ToolCall,
    computed,
    reply,
)
from tests.support.raw_cli import RawCli  # noqa: E402

Step = dict[str, Any]
ENVIRONMENT = {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1", "ENABLE_TOOL_SEARCH": "false"}
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "id": "aa", "metadata": {}, "source": ["# Hi\n", "there"]},
            {
                "cell_type": "code",
                "id": "bb",
                "metadata": {},
                "execution_count": 1,
                "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}],
                "source": ["print(1)"],
            },
            {
                "cell_type": "code",
                "execution_count": None,
                "outputs": [],
                "metadata": {},
                "source": "x=2",
            },
        ],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
)
QUESTIONS = [
    {
        "question": "Which colour?",
        "header": "Colour",
        "options": [
            {"label": "Red", "description": "like a buoy"},
            {"label": "Blue", "description": "like the sea"},
        ],
        "multiSelect": False,
    },
    {
        "question": "Which food?",
        "header": "Food",
        "options": [
            {"label": "Ham", "description": "salty"},
            {"label": "Olives", "description": "salty too"},
        ],
        "multiSelect": True,
    },
]


def call(name: str, /, **arguments: Any) -> Step:
    """A call of the model's."""
    return {"call": name, "input": arguments}


def read(name: str, **more: Any) -> Step:
    """Reads a file of the folder."""
    return call("Read", file_path="{{cwd}}/" + name, **more)


def write(name: str, content: str) -> Step:
    """Writes a file of the folder."""
    return call("Write", file_path="{{cwd}}/" + name, content=content)


def edit(name: str, old: str, new: str, **more: Any) -> Step:
    """Edits a file of the folder."""
    path = "{{cwd}}/" + name
    return call("Edit", file_path=path, old_string=old, new_string=new, **more)


def cell(name: str, **more: Any) -> Step:
    """Edits a notebook of the folder."""
    return call("NotebookEdit", notebook_path="{{cwd}}/" + name, **more)


def bash(command: str, **more: Any) -> Step:
    """Runs a command."""
    return call("Bash", command=command, **more)


def other(name: str, text: str | None) -> Step:
    """Somebody else writes a file, or removes it."""
    return {"other": name, "text": text}


def ask(**added: Any) -> Step:
    """Asks both questions; the answer adds something to the input."""
    return {**call("AskUserQuestion", questions=QUESTIONS), "adds": added}


LINES = "one\ntwo\nthree\nfour\n"
SCENES: dict[str, tuple[dict[str, Any], list[Step]]] = {
    "read": (
        {
            "a.txt": "one\ntwo\nthree\n",
            "open.txt": "one\ntwo",
            "dos.txt": "one\r\ntwo\r\n",
            "empty.txt": "",
            "blank.txt": "\n",
            "long.txt": "x" * 3000 + "\ny\n",
            "many.txt": "".join(f"line {at}\n" for at in range(1, 101)),
            "large.txt": {"times": 3000, "text": "z" * 99 + "\n"},
            "config.ts": "x\n",
            "folder/deep.py": "x\n",
            "dot.png": {"base64": PICTURE},
            "bad.png": "nope",
            "raw.dat": "\x00\x01",
            "page.pdf": "%PDF-1.4\n%%EOF\n",
        },
        [
            read("a.txt"),
            read("a.txt"),
            read("open.txt"),
            read("dos.txt"),
            read("empty.txt"),
            read("blank.txt"),
            read("long.txt"),
            read("many.txt", offset=10, limit=3),
            read("many.txt", offset=300),
            read("many.txt", offset=0, limit=2),
            read("a.txt", offset=4),
            read("a.txt", offset=5),
            read("missing.txt"),
            read("config.js"),
            read("folder/missing.txt"),
            read("folder"),
            read("dot.png"),
            read("bad.png"),
            read("raw.dat"),
            read("page.pdf"),
            read("large.txt"),
            read("large.txt", limit=2500),
            call("Read", file_path="a.txt", offset="1", limit="1"),
            call("Read", file_path="a.txt"),
            call("Read", file_path="/dev/zero"),
            call("Read"),
            call("Read", file_path=3),
            call("Read", file_path="a.txt", bogus=1),
        ],
    ),
    "write": (
        {
            "a.txt": LINES,
            "unread.txt": "x\nx\ny\n",
            "dos.txt": "one\r\ntwo\r\n",
            "open.txt": "one\ntwo",
            "tabs.txt": "\ta\n\tb\n x\ty\n",
            "folder/deep.txt": "x\n",
            "b.txt": LINES,
            "c.txt": LINES,
        },
        [
            write("new.txt", "hello\nthere\n"),
            write("new.txt", "hello\nworld\n"),
            write("sub/deep/new.txt", "x"),
            write("unread.txt", "z"),
            read("a.txt"),
            write("a.txt", "one\n2\nthree\nfour\n"),
            write("dos.txt", "a\nb\n"),
            write("open.txt", "zzz"),
            write("tabs.txt", "\ta\n\tc\n x\ty\n"),
            read("b.txt"),
            other("b.txt", "other\n"),
            write("b.txt", "mine\n"),
            read("b.txt"),
            write("b.txt", "mine\n"),
            read("c.txt"),
            other("c.txt", LINES),
            write("c.txt", "mine\n"),
            other("c.txt", None),
            write("c.txt", "again\n"),
            write("folder", "q"),
            write("a.txt/below", "q"),
            read("a.txt/below"),
            write("nowhere/../up.txt", "q"),
            call("Write", file_path="~/own.txt", content="q\n"),
            call("Read", file_path="~/own.txt"),
            write("new.txt", ""),
            write("new.txt", "full\n"),
            call("Write", file_path="rel.txt", content="q"),
            call("Write", file_path="blanks.txt", content="a  \nb\t\n"),
            call("Write", file_path="blanks.md", content="a  \nb\t\n"),
            call("Write", file_path="x"),
            call("Write", file_path="x", content="c", z=1, y=2),
        ],
    ),
    "edit": (
        {
            "a.txt": LINES,
            "unread.txt": LINES,
            "part.txt": LINES,
            "b.txt": "".join(f"l{at}\n" for at in range(1, 41)),
            "dup.txt": "x\nx\ny\n",
            "dos.txt": "one\r\ntwo\r\n",
            "open.txt": "one\ntwo",
            "tabs.txt": "\tone\n\ttwo\n",
            "empty.txt": "",
            "white.txt": "\n\n",
            "folder/deep.txt": "x\n",
            "quotes.txt": "it\u2019s \u201cquoted\u201d\n",
            "stale.txt": LINES,
            "gone.txt": LINES,
            "blanks.txt": "a  \nb\n",
            "code.py": "def a():\n    return 1\n\n\ndef b():\n    return 2\n\n\ndef c():\n    0\n",
        },
        [
            edit("unread.txt", "two", "2"),
            edit("unread.txt", "three", "3"),
            read("part.txt", limit=1),
            edit("part.txt", "two", "2"),
            read("a.txt"),
            edit("a.txt", "two", "2"),
            edit("a.txt", "nope", "2"),
            edit("a.txt", "2", "2"),
            edit("a.txt", "", "2"),
            edit("a.txt", "one\n", ""),
            edit("a.txt", "four", "five\nsix"),
            edit("a.txt", "three", ""),
            edit("white.txt", "", "x\n"),
            read("b.txt"),
            edit("b.txt", "l10\n", "L10\n"),
            edit("b.txt", "l5\nl6\n", ""),
            edit("b.txt", "l30", "L30"),
            edit("b.txt", "l1", "Q"),
            edit("b.txt", "l1", "Q", replace_all=True),
            edit("b.txt", "l3", "", replace_all=True),
            edit("b.txt", "l22", ""),
            read("dup.txt"),
            edit("dup.txt", "x", "z"),
            edit("dup.txt", "x", "z", replace_all=True),
            read("dos.txt"),
            edit("dos.txt", "one\ntwo", "1\n2"),
            bash("od -c dos.txt"),
            read("open.txt"),
            edit("open.txt", "two", "2"),
            edit("open.txt", "2", "2\n"),
            read("tabs.txt"),
            edit("tabs.txt", "\tone", "\t\tone & <x>"),
            edit("made.txt", "", "fresh\n"),
            edit("made.txt", "", "fresh\n"),
            edit("nofile.txt", "a", "b"),
            edit("empty.txt", "", "filled\n"),
            edit("folder", "a", "b"),
            read("quotes.txt"),
            edit("quotes.txt", 'it\'s "quoted"', 'it\'s "done"'),
            bash("cat quotes.txt"),
            read("stale.txt"),
            other("stale.txt", LINES + "five\n"),
            edit("stale.txt", "two", "2"),
            other("stale.txt", "all\nnew\n"),
            edit("stale.txt", "three", "3"),
            read("gone.txt"),
            other("gone.txt", None),
            edit("gone.txt", "two", "2"),
            read("blanks.txt"),
            edit("blanks.txt", "a", "c  "),
            edit("blanks.txt", "b\n", "d  \ne\n"),
            bash("cat -A blanks.txt"),
            read("code.py"),
            edit("code.py", "def b():\n    return 2\n", "def b(x):\n    y = x\n    return 2\n"),
            edit("code.py", "    return 1\n\n\ndef b(x):\n", "    return 0\n"),
            call("Edit"),
            call("Edit", file_path="x", old_string=1, new_string=[], replace_all="yes"),
            call("Edit", file_path="a.txt", old_string="five", new_string="5", replace_all="true"),
        ],
    ),
    "notebook": (
        {"nb.ipynb": NOTEBOOK, "nb2.ipynb": NOTEBOOK, "bad.ipynb": "nope", "a.txt": "x\n"},
        [
            cell("nb.ipynb", cell_id="bb", new_source="print(3)"),
            read("nb.ipynb"),
            cell("nb.ipynb", cell_id="bb", new_source="print(2)"),
            cell("nb.ipynb", new_source="# top", edit_mode="insert"),
            cell("nb.ipynb", cell_id="bb", new_source="", edit_mode="delete"),
            cell("nb.ipynb", cell_id="zz", new_source="q"),
            cell("nb.ipynb", new_source="q"),
            cell("nb.ipynb", cell_id="cell-0", new_source="q\nr", cell_type="markdown"),
            cell("no.ipynb", cell_id="a", new_source="q"),
            cell("a.txt", cell_id="a", new_source="q"),
            read("bad.ipynb"),
            cell("nb.ipynb", cell_id="aa", new_source="q", edit_mode="bogus"),
            edit("nb2.ipynb", "a", "b"),
            write("nb2.ipynb", "{}"),
            read("nb.ipynb"),
        ],
    ),
    "bash": (
        {"a.txt": "one\n", "b.txt": "two\n", "sub/c.txt": "three\n"},
        [
            bash("echo hi"),
            bash("printf '\\n\\n  a\\nb\\n\\n\\n'"),
            bash("true"),
            bash("touch x"),
            bash("mv x y; cp y z; rm z"),
            bash("touch a && echo"),
            bash("touch a || true"),
            bash("touch a &"),
            bash("touch a\ntouch b"),
            bash("touch a > /dev/null"),
            bash("FOO=1 touch a"),
            bash("(touch a)"),
            bash("export X=1"),
            bash("echo $X"),
            bash("echo out; echo err >&2; echo out2"),
            bash("false"),
            bash("exit 3"),
            bash("echo out; echo err >&2; exit 4"),
            bash("nosuchcommand"),
            bash("cat a.txt | grep zzz"),
            bash("grep -q zzz a.txt && echo y"),
            bash("diff a.txt b.txt"),
            bash("cmp a.txt b.txt"),
            bash("test -f nope"),
            bash("[ -f nope ]"),
            bash("kill -9 $$"),
            bash("kill -TERM $$"),
            bash("cat"),
            bash("rm nosuch"),
            bash("echo '<b>&</b>'; printf 'a\\rb\\n'"),
            bash("echo 'unclosed"),
            bash("cat <<END\nhere $((1 + 1))\nEND"),
            bash("! true"),
            bash("python3 -c \"print('x' * 30001)\""),
            bash("python3 -c \"print('line\\n' * 8000)\""),
            bash("python3 -c \"print('line\\n' * 8000); raise SystemExit(3)\""),
            bash("echo 'data:image/png;base64," + PICTURE + "'"),
            bash("sleep 30"),
            bash("sleep 25 && echo a; echo b"),
            bash("echo x", timeout="500"),
            bash("echo x", dangerouslyDisableSandbox=True),
            bash("cd {{cwd}} && echo x"),
            bash(""),
            call("Bash"),
            call("Bash", command="echo", a=1),
            call("Bash", command=5, description=7),
        ],
    ),
    "folder": (
        {"sub/a.txt": "x\n"},
        [
            bash("cd sub"),
            bash("pwd"),
            read("missing.txt"),
            call("Read", file_path="a.txt"),
            call("Write", file_path="rel.txt", content="x\n"),
            bash("cd .. && false"),
            bash("pwd"),
            bash("cd ..; exit 0"),
            bash("pwd"),
            bash("cd /tmp; echo hi"),
            bash("pwd"),
            bash("cd nosuch"),
            bash("mkdir gone; cd gone"),
            bash("rmdir ../gone"),
            bash("pwd"),
            bash("pwd"),
        ],
    ),
    "background": (
        {},
        [
            bash("echo start", run_in_background=True, description="Begin"),
            bash("python3 -c 'import time; time.sleep(2)'", timeout=300),
            bash("echo before; python3 -c 'import time; time.sleep(2)'", timeout=900),
        ],
    ),
    "asking": (
        {},
        [
            ask(answers={"Which colour?": "Red", "Which food?": "Ham, Olives"}),
            ask(answers={"Which food?": "Ham", "Which colour?": "Red"}),
            ask(answers={"Which food?": ["Ham", "Olives"]}),
            ask(answers=["Red"]),
            ask(),
            ask(answers={"Which colour?": "Red"}, annotations={"Which colour?": {"notes": "hm"}}),
            ask(
                answers={"Which colour?": "Red"},
                annotations={"Which colour?": {"preview": "P", "notes": "n"}},
            ),
            ask(answers={"Which colour?": 'my own\n"words"'}),
            ask(answers={"Bogus?": "x"}),
            ask(answers={"Which colour?": 5}),
            ask(answers={"Which colour?": ""}),
            ask(answers={"Which food?": "Ham, Cheese"}),
            ask(answers={"Which food?": []}),
            ask(answers={"Which colour?": "Red"}, bogus=1),
            ask(response="free text"),
            ask(questions=[]),
            call("AskUserQuestion"),
            call("AskUserQuestion", questions=[]),
            call("AskUserQuestion", questions="x"),
            call("AskUserQuestion", questions=[{"question": "x?"}]),
            call("AskUserQuestion", questions=QUESTIONS[:1] * 2),
            call("AskUserQuestion", questions=[{**QUESTIONS[0], "options": ["a", "b"]}]),
            call("AskUserQuestion", questions=QUESTIONS, zz=1),
        ],
    ),
    "others": (
        {},
        [
            call("ExitPlanMode", plan="x"),
            call("EnterPlanMode", a=1),
            call("TodoWrite", todos=[]),
            call("Nope"),
            call("Glob", pattern="*"),
            call("Grep", pattern="x"),
            call("bash", command="x"),
            call("Task", description="x"),
            call("Agent"),
            call("Skill", skill="/nosuch"),
            call("Skill"),
            call("SendMessage", to="zz", message="hi"),
            call("SendMessage"),
            call("CronList"),
            call("CronDelete", id="zz"),
            call("CronCreate", cron="bogus", prompt="hi"),
            call("WebFetch", url="https://example.com/", prompt="x"),
            call("WebFetch", url="http://localhost:1/x", prompt="x"),
            call("WebFetch", url="nope", prompt="x"),
            call("WebSearch", query="x"),
            call("EnterWorktree"),
            call("ExitWorktree", action="keep"),
            call("ExitWorktree"),
            call("ReportFindings", findings=[]),
            call(
                "ReportFindings",
                findings=[{"file": "a.py", "summary": "s", "failure_scenario": "f"}],
                level="high",
            ),
            call("ReportFindings", findings=[{"file": "a.py"}]),
            call("ScheduleWakeup"),
            call("Workflow"),
            call("Workflow", name="nosuch"),
            call("Monitor"),
            call("Monitor", description="m"),
            call("TaskStop"),
            call("TaskStop", task_id="nosuch"),
        ],
    ),
}


def prepare(files: dict[str, Any], folder: Path) -> None:
    """Makes the files of a scene."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(text))


def content(text: Any) -> bytes:
    """What a file of a scene holds."""
    match text:
        case {"base64": str(encoded)}:
            return base64.b64decode(encoded)
        case {"text": str(words), "times": int(times)}:
            return words.encode() * times
        case _:
            return str(text).encode()


def change(step: Step, folder: Path) -> None:
    """Does what somebody else does to a file."""
    path = folder / step["other"]
    if step["text"] is None:
        path.unlink()
    else:
        path.write_text(step["text"])


def filled(value: Any, folder: Path) -> Any:
    """The value with the folder in its place."""
    return json.loads(json.dumps(value).replace("{{cwd}}", str(folder)))


def plain(value: Any, cli: RawCli, session: str) -> Any:
    """The value without what is made up anew in each run."""
    words = json.dumps(value, ensure_ascii=False)
    words = words.replace(re.sub(r"[^A-Za-z0-9]", "-", str(cli.cwd)), "{{project}}")
    words = words.replace(str(cli.cwd), "{{cwd}}").replace(str(cli.home), "{{home}}")
    words = re.sub(r"/tmp/claude-\d+", "{{tasks}}", words.replace(session, "{{session}}"))
    return json.loads(re.sub(r"\bb[a-z0-9]{8}(?=[\".),])", "{{task}}", words))


class Recording:
    """One scene on the real CLI."""

    def __init__(self, binary: Path, files: dict[str, Any], steps: list[Step]) -> None:
        self.steps = steps
        self.calls = [step for step in steps if "call" in step]
        self.asked: dict[str, Any] = {}
        self.cli = RawCli(
            binary,
            Scenario(replies=[*self._replies(), reply("Done.")]),
            env=ENVIRONMENT,
            answers={"can_use_tool": self._answer},
            prepare=lambda folder: prepare(files, folder),
        )

    def _replies(self) -> list[Computed]:
        replies: list[Computed] = []
        changes: list[Step] = []
        for step in self.steps:
            if "other" in step:
                changes.append(step)
            else:
                replies.append(computed(self._speaker(step, changes, len(replies))))
                changes = []
        return replies

    def _speaker(self, step: Step, changes: list[Step], at: int) -> Any:
        def speak(_: ModelRequest) -> Reply:
            for each in changes:
                change(each, self.cli.cwd)
            arguments = filled(step["input"], self.cli.cwd)
            return reply(ToolCall(name=step["call"], input=arguments, id=f"call_{at}"))

        return speak

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        own = request["tool_use_id"]
        self.asked[own] = request["input"]
        added = self.calls[int(own.removeprefix("call_"))].get("adds", {})
        return {"behavior": "allow", "updatedInput": {**request["input"], **added}}

    async def play(self) -> list[Step]:
        """Every step, a call with what came of it."""
        async with self.cli as cli:
            cli.prompt("Go.")
            result = await cli.result(60)
            assert result is not None
            for line in cli.seen:
                self._take(line, str(result["session_id"]))
        return self.steps

    def _take(self, line: dict[str, Any], session: str) -> None:
        for block in line.get("message", {}).get("content", ()):
            own = block.get("id") or block.get("tool_use_id") or ""
            if not own.startswith("call_"):
                continue
            step = self.calls[int(own.removeprefix("call_"))]
            if block["type"] == "tool_use":
                step["shown"] = plain(block["input"], self.cli, session)
                continue
            step |= plain(self._came_of(own, block, line), self.cli, session)

    def _came_of(self, own: str, block: dict[str, Any], line: dict[str, Any]) -> Step:
        asked = {"asked": self.asked[own]} if own in self.asked else {}
        known = {key: block[key] for key in ("content", "is_error") if key in block}
        return {**asked, **known, "result": line["tool_use_result"]}


async def record(binary: Path, names: list[str]) -> None:
    """Plays the scenes and keeps what came of them."""
    target = HERE / "tools.json"
    kept: dict[str, Any] = json.loads(target.read_text()) if target.exists() else {}
    for name in names:
        files, steps = SCENES[name]
        kept[name] = {"files": files, "steps": await Recording(binary, files, steps).play()}
        print(name, len(steps), file=sys.stderr)  # noqa: T201
    scenes = {name: kept[name] for name in SCENES if name in kept}
    target.write_text(json.dumps(scenes, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cli", type=Path, required=True)
    parser.add_argument("scenes", nargs="*", default=list(SCENES))
    options = parser.parse_args()
    enter_network_namespace()
    asyncio.run(record(options.cli.resolve(), options.scenes))


if __name__ == "__main__":
    main()
