"""Text stays text: every injection, wherever the page shows what somebody else has written.

Transcripts have them, a CLI that lies says and asks them, and the simulator's model says them piece
by piece. No script has run then, nothing was asked of anybody, nothing is in the page that it does
not make itself, and every text can be read.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest_asyncio
from playwright.async_api import Browser, expect

from pilothouse.engine.questions.question import question_id
from pilothouse_sim.clis import Room, SimulatedCLI
from pilothouse_sim.scenario import Scenario, gate, reply, text, thinking
from tests.support.console.browser import Viewer
from tests.support.console.house import House
from tests.support.console.injections import (
    HIDDEN,
    INJECTIONS,
    MARKUP,
    NAMES,
    WHOLE,
    Injection,
    by_family,
)
from tests.support.places import PROGRAMS, ROOT
from tests.support.server.killable import with_cli
from tests.support.server.machine import Machine
from tests.support.waiting import DEADLINE, until

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types pilothouse-sw"
)
OWN_PATHS: Final = ("/", "/healthz", "/manifest.webmanifest", "/sw.js")
OWN_FOLDERS: Final = ("/api/", "/assets/", "/console/", "/icons/")
MARKED: Final = ROOT / ".cache/console/node_modules/marked/lib/marked.umd.js"
LONGEST_LABEL: Final = 256

# What is looked for in the page

TURN: Final = f"""
    const deadline = performance.now() + {DEADLINE * 1000};
    const turn = () => new Promise((done, fail) => performance.now() < deadline
        ? setTimeout(done) : fail(new Error("what is waited for does not come")));
"""
"""Lets the page draw what has changed, until the deadline."""
FOREIGN: Final = r"""root => {
    const set = words => new Set(words.split(" "));
    const tags = set("a article aside b blockquote br button canvas circle code datalist dd del"
        + " details dialog div dl dt em fieldset figcaption figure footer form g h1 h2 h3 h4 h5 h6"
        + " header hr i img input kbd label legend li main mark meter nav ol option p path pre rect"
        + " search section select span strong summary svg table tbody td textarea th thead time"
        + " tr ul");
    const refused = set("action background codebase data formaction http-equiv is longdesc ping"
        + " poster shadowrootmode srcdoc srcset xlink:href");
    const metas = set("viewport color-scheme theme-color");
    const links = set("http: https: mailto:");
    const shipped = /^(\.?\/(assets|icons)\/|\.\/manifest\.webmanifest$|data:image\/svg\+xml,)/;
    const pictures = /^(data:image\/(png|jpeg|gif|webp);base64,|blob:|\.\/icons\/)/;
    // Of a form `attributes` could be one of its fields.
    const {get} = Object.getOwnPropertyDescriptor(Element.prototype, "attributes");
    const attributes = each => [...get.call(each)];
    const styled = ".uplot, .uplot *, .composer textarea, [popover], .question-card,"
        + " .sessions-list li[aria-hidden]";
    const ids = new Set();
    const found = new Set();
    for (const each of root.querySelectorAll("*")) {
        const tag = each.localName;
        const note = what => found.add(`${what}: ${each.outerHTML.slice(0, 200)}`);
        if (["html", "head", "body"].includes(tag)) {
            const own = /^(lang|data-theme|class)$/;
            if (attributes(each).some(({name}) => !own.test(name))) note("attribute");
            continue;
        }
        if (each.closest("head")) {
            const named = each.getAttribute(tag === "script" ? "src" : "href") ?? "";
            const at = named.replace(`${location.origin}/`, "/");
            const isOwn = tag === "title" || each.hasAttribute("charset") || metas.has(each.name)
                || (tag === "link" || tag === "script") && shipped.test(at);
            if (!isOwn || each.httpEquiv) note("element of the head");
            continue;
        }
        const isDrawn = tag === "title" && each.parentElement.namespaceURI.endsWith("/svg");
        const isOwn = tag === "noscript" && each.parentElement === root.body;
        if (!tags.has(tag) && !isDrawn && !isOwn) note("element");
        for (const {name, value} of attributes(each)) {
            if (name.startsWith("on") || refused.has(name)) note("attribute");
            if (name === "src" && tag !== "img" || name === "href" && tag !== "a") note("address");
            if (name === "style" && !each.matches(styled)) note("style");
            if (name !== "id" && name !== "name" || value.startsWith("item:")) continue;
            if (/k\d{3}k/.test(value) || value in {} || value in document) note("name");
            if (name === "id" && ids.size === ids.add(value).size) note("id of two");
        }
        const at = each.getAttribute("href");
        if (tag === "a" && at !== null && !at.startsWith("#/") && at !== "/openapi.json") {
            const isAway = each.target === "_blank" && each.relList.contains("noopener");
            if (!links.has(each.protocol) || !/^[a-z]+:/.test(at) || !isAway) note("link");
        }
        if (tag === "img" && !pictures.test(each.getAttribute("src") ?? "")) note("picture");
    }
    return [...found];
}"""
"""What is in a document or an element that the page does not make itself."""
CHANGED: Final = r"""() => {
    const found = [];
    for (const name in {}) found.push(`every object has ${name}`);
    if (window.main !== document.querySelector("main")) found.push("main is another");
    if (/[\u0000-\u001f\u007f-\u009f]/.test(document.title)) found.push(document.title);
    return found;
}"""
UNFOLD: Final = f"""async root => {{
    {TURN}
    const folded = ".fold[aria-expanded=false], .more-lines, details:not([open]) > summary";
    const closed = () => [
        ...root.querySelectorAll(folded),
        ...[...root.querySelectorAll("button.plain, .plain-action")]
            .filter(each => /^(Show all|Show \\d+ more|\\d+ more)$/.test(each.textContent.trim())),
    ];
    for (let found = closed(); found.length; found = closed()) {{
        for (const each of found) each.click();
        await turn();
        await turn();
    }}
}}"""
READ_ALL: Final = f"""async () => {{
    {TURN}
    const edge = () => document.querySelector(".scroller .list-edge")?.textContent ?? "";
    while (!edge().startsWith("The conversation begins here")) {{
        const scroller = document.querySelector(".scroller");
        if (scroller) scroller.scrollTop = 0;
        scroller?.dispatchEvent(new Event("scroll"));
        await turn();
    }}
}}"""
WORDS: Final = r"""each => [
    each.textContent,
    ...[...each.querySelectorAll("input, textarea, option")].map(field => field.value),
].join("\n")"""
"""What can be read in an element, also in its fields."""


class Watched:
    """Somebody at the page, and what it did that it does not do by itself."""

    def __init__(self, house: House, viewer: Viewer) -> None:
        self.viewer = viewer
        self.page = viewer.page
        self.ran: list[Any] = []
        self.refused: list[str] = []
        self.asked: list[str] = []
        self.opened: list[str] = []
        self._address = house.address

    @classmethod
    async def enter(cls, house: House) -> Watched:
        """Sign in, with an ear at whatever a text could bring about."""
        watched = cls(house, await house.stranger())
        context = watched.viewer.context
        await context.expose_function("canary", lambda *given: watched.ran.append(given))
        await context.expose_function("refuse", lambda what: watched.refused.append(what))
        await context.add_init_script(
            "addEventListener('securitypolicyviolation', each => "
            "refuse(`${each.effectiveDirective} ${each.blockedURI} ${each.sample}`))"
        )
        context.on("request", lambda request: watched.asked.append(request.url))
        context.on("page", lambda page: watched.opened.append(page.url))
        await watched.viewer.enter(await house.link())
        return watched

    def forget(self) -> None:
        for each in (self.ran, self.refused, self.asked, self.opened, self.viewer.complaints):
            each.clear()

    async def read(self, session: str) -> dict[str, str]:
        """All of a conversation, unfolded: the words of each item."""
        await self.viewer.see(f"session/{session}")
        items = self.page.locator(f".items a[href^='#/session/{session}/']")
        await items.first.wait_for(state="attached")
        await self.page.evaluate(READ_ALL)
        await self.unfold()
        return await self.page.evaluate(
            f"""() => Object.fromEntries([...document.querySelectorAll(".item")].map(
                each => [each.dataset.item, ({WORDS})(each)]))"""
        )

    async def unfold(self, selector: str = "main") -> None:
        await self.page.evaluate(f"each => ({UNFOLD})(document.querySelector(each))", selector)

    async def leave(self) -> None:
        """Close what is open over the page, once it was looked at."""
        await self.check()
        await self.page.keyboard.press("Escape")
        await expect(self.page.locator("dialog, .popover:popover-open")).to_have_count(0)

    async def words(self, selector: str = "main") -> str:
        return await self.page.locator(selector).first.evaluate(WORDS)

    async def check(self) -> None:
        """Nothing has happened, and nothing is there, that is not the page's own."""
        assert await self.page.evaluate(f"() => ({FOREIGN})(document)") == []
        assert await self.page.evaluate(CHANGED) == []
        assert [each for each in self.asked if not self._is_own(each)] == []
        assert (self.ran, self.refused, self.opened) == ([], [], [])
        assert self.viewer.complaints == []

    def _is_own(self, url: str) -> bool:
        path = url.removeprefix(self._address).partition("?")[0]
        is_shipped = path in OWN_PATHS or path.startswith(OWN_FOLDERS)
        return url.startswith(("data:image/", "blob:")) or (path != url and is_shipped)


TIMES: Final = {
    **{"command": 3, "agent": 3, "unknown": 4, "hook": 4, "MCP": 6, "task": 5},
    **dict.fromkeys(("search", "page", "web search", "structure", "choice", "files"), 3),
    **dict.fromkeys(("new file", "file", "picture", "edit", "plan", "sign-in"), 2),
}
"""How often an item of this kind shows a text, where that is more than once."""


def lost(words: Mapping[str, str], kind: str, wanted: Iterable[tuple[str, Injection]]) -> list[str]:
    """The injections that are not to be read, or not as often as they should, in that item."""
    times = TIMES.get(kind, 1)
    return [
        f"{name}: {each.text!r}" for name, each in wanted if words[name].count(each.mark) < times
    ]


def unseen(words: str, wanted: Iterable[Injection] = INJECTIONS) -> list[str]:
    return [each.text for each in wanted if each.mark not in words]


def squeezed(words: str) -> str:
    return "".join(words.split())


def joined(family: Iterable[Injection]) -> str:
    return "\n".join(each.text for each in family)


# What stands in transcripts


class Call(NamedTuple):
    """A call of a tool with its result: the tool's own form of it, and what the model reads."""

    tool: str
    given: dict[str, Any]
    told: Any = None
    words: str = "done"
    is_error: bool = False


CALLS: Final[dict[str, Callable[[str], Call]]] = {
    "command": lambda it: Call(
        "Bash", {"command": f"{it}\n# end", "description": it}, {"stdout": it, "stderr": it}
    ),
    "agent": lambda it: Call(
        "Task",
        {"description": it, "prompt": it, "subagent_type": it},
        {"status": "completed", "agentId": it, "agentType": it},
        it,
    ),
    "unknown": lambda it: Call(it, {it: it}, words=it, is_error=True),
}
"""Calls with one injection each."""
FAMILY_CALLS: Final[dict[str, Callable[[str], Call]]] = {
    "MCP": lambda it: Call(f"mcp__{it}__{it}", {it: it, "list": [{"in": it}]}, words=it),
    "JSON": lambda it: Call("mcp__server__tool", {}, words=json.dumps({it: [it]})),
    "failure": lambda it: Call("Bash", {"command": "x"}, words=it, is_error=True),
    "new file": lambda it: Call("Write", {"file_path": it, "content": it}, {"type": "create"}),
    "file": lambda it: Call(
        "Read", {"file_path": it}, {"file": {"filePath": it, "content": it, "totalLines": 9}}
    ),
    "picture": lambda it: Call(
        "Read", {"file_path": it}, {"type": "image", "file": {"type": it, "base64": "R0lG"}}
    ),
    "edit": lambda it: Call(
        "Edit", {"file_path": it, "old_string": f"old\n{it}", "new_string": f"{it}\nnew"}
    ),
    "search": lambda it: Call(
        "Grep", {"pattern": it, "path": it}, {"content": it, "filenames": [it], "numFiles": 1}
    ),
    "page": lambda it: Call("WebFetch", {"url": it, "prompt": it}, {"result": it}),
    "web search": lambda it: Call(
        "WebSearch", {"query": it}, {"results": [{"content": [{"title": it, "url": it}]}]}, it
    ),
    "structure": lambda it: Call("StructuredOutput", {it: {it: it}}),
    "plan": lambda it: Call("ExitPlanMode", {"plan": it}, {"plan": it, "filePath": it}),
    "choice": lambda it: Call(
        "AskUserQuestion", {"questions": [{"question": it}]}, {"answers": {it: it}}
    ),
    "to do": lambda it: Call(
        "TodoWrite",
        {"todos": [{"content": each, "status": "in_progress"} for each in it.split("\n")]},
    ),
}
"""Calls with a family each."""


def session_id(number: int) -> str:
    return str(uuid.UUID(int=number))


class Transcript:
    """Lines as the CLI keeps them, each behind the one before."""

    def __init__(self, number: int, *, cwd: str = "/srv/harbour") -> None:
        self.session = session_id(number)
        self._cwd = cwd
        self._lines: list[dict[str, Any]] = []
        self.say("user", "Go.")

    def add(self, kind: str, **members: Any) -> None:
        before = self._lines[-1]["uuid"] if self._lines else None
        begun = {"type": kind, "uuid": str(uuid.uuid4()), "parentUuid": before}
        place = {"cwd": self._cwd, "sessionId": self.session, "entrypoint": "cli"}
        when = {"isSidechain": False, "timestamp": "2026-11-15T19:16:31.065Z"}
        self._lines.append(begun | place | when | members)

    def say(self, role: str, content: Any, **members: Any) -> None:
        self.add(role, message={"role": role, "content": content}, **members)

    def reply(self, name: str, block: dict[str, Any], *, model: str = "claude-x") -> None:
        message = {"id": name, "role": "assistant", "model": model, "content": [block]}
        self.add("assistant", message=message)

    def call(self, name: str, call: Call) -> None:
        asked = {"type": "tool_use", "id": name, "name": call.tool, "input": call.given}
        self.reply(f"of {name}", asked)
        result = {"type": "tool_result", "tool_use_id": name, "content": call.words}
        told = {} if call.told is None else {"toolUseResult": call.told}
        self.say("user", [result | {"is_error": call.is_error}], **told)

    def write(self, folder: Path, **named: Any) -> None:
        lines = [*self._lines, {"type": "custom-title", "sessionId": self.session, **named}]
        path = folder / f"{self.session}.jsonl"
        compact = (json.dumps(each, separators=(",", ":")) for each in lines)
        path.write_text("".join(f"{each}\n" for each in compact))


def conversations() -> dict[str, Transcript]:
    """A session for each of these kinds, with an item for each injection."""
    made = {kind: Transcript(at) for at, kind in enumerate((*CALLS, "text"), 1)}
    for each in WHOLE:
        for kind, call in CALLS.items():
            made[kind].call(each.mark, call(each.text))
        made["text"].reply(each.mark, {"type": "text", "text": each.text})
    return made


def family_items(number: int) -> Transcript:
    """A session with an item of each other kind for each family."""
    made = Transcript(number)
    for name, family in by_family(WHOLE).items():
        it = joined(family)
        for kind, call in FAMILY_CALLS.items():
            made.call(f"{kind} {name}", call(it))
        made.reply(f"thought {name}", {"type": "thinking", "thinking": it, "signature": ""})
        made.say("user", it, uuid=f"prompt {name}")
        noted = {"subtype": "informational", "level": "warning", "content": it}
        made.add("system", **noted, uuid=f"notice {name}")
        made.add("system", subtype="local_command", content=it, uuid=f"output {name}")
    return made


# What a CLI says that lies


def line(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, **members}


def system(subtype: str, **members: Any) -> dict[str, Any]:
    return line("system", subtype=subtype, **members)


CONTINUED: Final = "This session is being continued from a previous conversation"
HAPPENINGS: Final = (
    "hook",
    "limit",
    "sign-in",
    "failure",
    "summary",
    "files",
    "note",
    "kind",
    "task",
)
"""The items that come of these."""


def happenings(name: str, it: str) -> Iterator[dict[str, Any]]:
    """Whatever a CLI tells beside the conversation, with this text in it."""
    hook = {"hook_id": f"hook {name}", "hook_name": f"of {it}", "hook_event": it}
    yield system("hook_started", **hook)
    yield system("hook_response", **hook, output=it, outcome=it, exit_code=1)
    told = {"status": "rejected", "rateLimitType": it}
    yield line("rate_limit_event", uuid=f"limit {name}", rate_limit_info=told)
    yield line("auth_status", uuid=f"sign-in {name}", isAuthenticating=False, output=[it], error=it)
    yield system("status", uuid=f"failure {name}", status="compacting")
    yield system("status", compact_result="failed", compact_error=it)
    yield system("status", status="compacting")
    yield system("compact_boundary", uuid=f"summary {name}", compact_metadata={"trigger": "auto"})
    yield line("user", isSynthetic=True, message={"role": "user", "content": f"{CONTINUED}\n{it}"})
    failed = [{"filename": f"not {it}", "error": it}]
    yield system("files_persisted", uuid=f"files {name}", files=[{"filename": it}], failed=failed)
    yield system("notification", uuid=f"note {name}", key=it, text=it)
    yield system(it, uuid=f"kind {name}")
    yield from task(f"task {name}", it)


def task(name: str, it: str) -> Iterator[dict[str, Any]]:
    """A subagent that works in the background."""
    given = {"description": it, "prompt": it, "subagent_type": it}
    yield said(name, {"type": "tool_use", "id": name, "name": "Agent", "input": given})
    own = {"task_id": name, "tool_use_id": name}
    yield system("task_started", **own, subagent_type=it, description=it, is_backgrounded=True)
    yield said(f"in {name}", {"type": "text", "text": it}, parent_tool_use_id=name)
    yield system("task_progress", **own, last_tool_name=it)
    yield system("task_notification", **own, status=it, summary=it)


def said(name: str, block: dict[str, Any], **members: Any) -> dict[str, Any]:
    message = {"id": f"of {name}", "role": "assistant", "model": "claude-x", "content": [block]}
    return line("assistant", uuid=f"line of {name}", message=message, **members)


def whole_turn() -> Iterator[dict[str, Any]]:
    """A turn that begins, fails and costs in all texts at once."""
    every = [each.text for each in INJECTIONS]
    named = [{"name": each, "status": each, "path": each} for each in every]
    lists = dict.fromkeys(("tools", "agents", "skills", "slash_commands"), every)
    yield system(
        "init", model=every[0], permissionMode=NAMES[1], **lists, mcp_servers=named, plugins=named
    )
    for name, family in by_family().items():
        yield from happenings(name, joined(family))
    yield system("api_retry", uuid="retry", attempt=1, max_retries=2, error="\n".join(every))
    yield line(
        "result",
        uuid="result",
        subtype="error_during_execution",
        is_error=True,
        errors=every,
        total_cost_usd=1.0,
        modelUsage={each: {"inputTokens": 9, "costUSD": 0.01} for each in every},
        structured_output={each: [each] for each in every} | dict.fromkeys(NAMES, "own"),
    )


def answers() -> dict[str, Any]:
    """What such a CLI says of itself when it is asked."""
    every = [each.text for each in INJECTIONS]
    named = [{"name": each, "description": each, "argumentHint": each} for each in every]
    servers: list[dict[str, Any]] = [
        {"name": each, "status": each, "error": each, "scope": each} for each in every
    ]
    servers[0]["tools"] = named
    about = {
        "commands": named,
        "models": [{"value": each, "displayName": each, "description": each} for each in every],
        "agents": named,
        "account": dict.fromkeys(every, "own"),
        "output_style": every[0],
        "available_output_styles": every,
    }
    return {"initialize": about, "mcp_status": {"mcpServers": servers}}


# What it asks


def asked(name: str, tool: str, given: dict[str, Any], **members: Any) -> dict[str, Any]:
    request = {"subtype": "can_use_tool", "tool_name": tool, "input": given, "tool_use_id": name}
    return line("control_request", request_id=name, request=request | members)


def elicited(name: str, **members: Any) -> dict[str, Any]:
    return line("control_request", request_id=name, request={"subtype": "elicitation", **members})


def circumstances(it: str) -> dict[str, Any]:
    """All that is said of a call beside its input."""
    rules = [{"toolName": it, "ruleContent": it}]
    kept = {"type": "addRules", "rules": rules, "behavior": "allow", "destination": "localSettings"}
    return {
        **dict.fromkeys(("decision_reason", "decision_reason_type", "blocked_path"), it),
        **dict.fromkeys(("agent_id", "title", "display_name", "description"), it),
        "matched_ask_rule": {"source": it, "tool_name": it, "rule_content": it},
        "permission_suggestions": [kept],
    }


def posed(it: str) -> dict[str, Any]:
    option = {"label": it, "description": it, "preview": it}
    return {"question": it, "header": it, "options": [option], "multiSelect": False}


def form(every: Iterable[str]) -> dict[str, Any]:
    field = {"type": "string"}
    fields = {each: field | {"title": each, "description": each, "enum": [each]} for each in every}
    return {"type": "object", "properties": fields, "required": [*fields][:3]}


class Asked(NamedTuple):
    request: dict[str, Any]
    has: list[Injection]

    @property
    def name(self) -> str:
        return self.request["request_id"]


def questions() -> Iterator[Asked]:
    for name, family in by_family().items():
        it, every = joined(family), [each.text for each in family]
        allowed = [{"tool": "Bash", "prompt": each} for each in every]
        plan = {"plan": it, "planFilePath": f"/plans/{it}", "allowedPrompts": allowed}
        edit = {"file_path": it, "old_string": f"old\n{it}", "new_string": f"{it}\nnew", it: it}
        page = {"mcp_server_name": it, "message": it, "mode": "url", "url": it}
        for each in (
            asked(f"tool {name}", f"mcp__{it}__{it}", {it: it}, **circumstances(it)),
            asked(f"plan {name}", "ExitPlanMode", plan),
            asked(f"command {name}", "Bash", {"command": it, "description": it}),
            asked(f"file {name}", "Write", {"file_path": it, "content": it}),
            asked(f"edit {name}", "Edit", edit),
            asked(f"page {name}", "WebFetch", {"url": it, "prompt": it}),
            elicited(f"visit {name}", **page),
            elicited(f"form {name}", **page | {"mode": "form", "requested_schema": form(every)}),
            # One request has a hundred questions at most.
            asked(
                f"choice {name}", "AskUserQuestion", {"questions": [posed(each) for each in every]}
            ),
        ):
            yield Asked(each, family)
    own = asked(
        "own",
        "AskUserQuestion",
        {"questions": [posed(each) for each in NAMES]},
        **circumstances(NAMES[0]),
    )
    yield Asked(own, [])
    yield Asked(elicited("own form", message="x", requested_schema=form(NAMES)), [])


PLANS: Final = {
    "a reference": "[MARK]: http://there.example",
    "the name of a reference": "[//]: # (MARK)",
    "the title of a reference": "[there]: /x 'MARK'",
    "what stands behind a fence": "```sh MARK\nls\n```",
    "a cell too many": "| a |\n| --- |\n| b | MARK |",
    "the title of a link": "[x](http://there.example 'MARK')",
    "the address of a link": "[x](http://there.example/MARK)",
    "the address of a link that is none": "[x](javascript:MARK)",
    "a comment": "<!-- MARK -->",
    "an attribute": "<b title=MARK>x</b>",
    "the address of a picture": "![x](http://there.example/MARK)",
    "a reference of HTML": "MARK&#x202e;cod.sh",
}
"""Parts of a plan that a reader of Markdown may leave out, by what they are."""


def plans() -> Iterator[Asked]:
    for name, plan in PLANS.items():
        given = {"plan": f"# Sail\n\n{plan.replace('MARK', PART)}\n\nEnd."}
        yield Asked(asked(name, "ExitPlanMode", given), [])


PART: Final = "k999k"

# The house

PROGRAM: Final = f"""
import json, sys
sys.path.insert(0, {str(PROGRAMS)!r})
import babbler
answers = json.load(open("answers"))
plain = babbler.answer
def answer(asked, body):
    plain(asked, body | answers.get(asked["request"]["subtype"], {{}}))
babbler.answer = answer
babbler.main()
"""
"""The babbler, which says of itself what the file `answers` has."""


class Hostile(NamedTuple):
    house: House
    cli: SimulatedCLI
    """On which sessions run whose directory has no `lines`."""

    @property
    def transcripts(self) -> Path:
        return self.cli.home / ".claude/projects/-srv-harbour"

    def start(self, name: str, lines: Iterable[dict[str, Any]], prompt: str = "Go.") -> str:
        """A session whose CLI says these lines."""
        folder = self.house.project / name
        folder.mkdir(parents=True)
        for each in by_family(WHOLE)["files"]:
            (folder / each.text).touch()
        (folder / "answers").write_text(json.dumps(answers()))
        (folder / "lines").write_text("\n".join(map(json.dumps, lines)))
        return self.house.start(prompt, cwd=str(folder))

    def end(self) -> None:
        """End the CLIs while the server is there to hear of it: their relays wait for one else."""
        for each in self.house.ask("GET", "/api/sessions?limit=1000")["sessions"]:
            if each["live"]:
                self.house.ask("POST", f"/api/sessions/{each['session_id']}/stop")

    async def asking(self, questions: Iterable[Asked]) -> dict[str, Asked]:
        """A session whose CLI has asked these; its questions by their ids."""
        every = [*questions]
        session = self.start("asking", [each.request for each in every], "Go \u202eto sea.")
        path = f"/api/questions?session_id={session}"
        await until(lambda: len(self.house.ask("GET", path)) == len(every))
        return {question_id(session, each.name): each for each in every}


@pytest_asyncio.fixture(loop_scope="session")
async def hostile(tmp_path: Path, browser: Browser) -> AsyncIterator[Hostile]:
    """A server whose CLI says the `lines` of its directory; without them it plays a scenario."""
    spoken = ["\n\n".join(each.text for each in some) for some in by_family(WHOLE).values()]
    pieces = [step for it in spoken for step in (text(it, chunk=5), thinking(it, chunk=5))]
    scenario = Scenario(replies=[reply(gate("seen"), *pieces)])
    cli = SimulatedCLI(Room(tmp_path / "cli"), scenario, strict=False)
    babbler, program = tmp_path / "babbler.py", tmp_path / "claude"
    babbler.write_text(PROGRAM)
    babbling = f'exec {sys.executable} -S {babbler} "$@"'
    program.write_text(f'#!/bin/sh\n[ ! -f lines ] || {babbling}\nexec {cli.path} "$@"\n')
    program.chmod(0o700)
    machine = Machine(tmp_path)
    machine.env |= with_cli(cli, program)
    hostile = Hostile(House(machine, browser), cli)
    hostile.transcripts.mkdir(parents=True)
    try:
        await hostile.house.open()
        yield hostile
        hostile.end()
    finally:
        await hostile.house.aclose()


# Tests


async def test_the_injections_are_many_and_each_is_another():
    assert len({each.text for each in INJECTIONS}) == len(INJECTIONS) >= 200
    for each in INJECTIONS:
        assert [other.text for other in INJECTIONS if each.mark in other.text] == [each.text]


async def test_a_page_that_takes_text_for_markup_is_found_out(browser: Browser):
    page = await browser.new_page()
    await page.add_script_tag(path=MARKED)
    found = await page.evaluate(NAIVE, [each.text for each in INJECTIONS])
    await page.close()
    biting = {each for each, what in zip(INJECTIONS, found, strict=True) if what}
    for name in (*MARKUP, "styles", "links", "pictures", "blocks", "hosts"):
        family = by_family()[name]
        assert len(biting.intersection(family)) >= 0.8 * len(family), name


NAIVE: Final = f"""texts => texts.map(text => [text, marked.parse(text)].flatMap(
    markup => ({FOREIGN})(new DOMParser().parseFromString(markup, "text/html"))))"""
"""What would be in a page that put texts into its markup, as they are or as Markdown."""


async def test_every_file_of_the_page_comes_with_the_policy(house: House):
    index, policies = fetch(house, "")
    assert policies == [POLICY]
    paths = re.findall(r'(?:src|href)="\./([^"]+)"', index)
    assert any(path.endswith(".js") for path in paths)
    for path in ("sw.js", *paths):
        assert fetch(house, path)[1] == [POLICY], path


def fetch(house: House, path: str) -> tuple[str, list[str] | None]:
    """A file of the page as anybody gets it, and the policies it comes with."""
    with urllib.request.urlopen(f"{house.address}/{path}") as response:
        return response.read().decode(), response.headers.get_all("content-security-policy")


async def test_the_browser_takes_no_text_for_markup_or_script_and_tells_of_it(house: House):
    watched = await Watched.enter(house)
    await watched.check()
    assert await watched.page.evaluate(ATTEMPTS) == []
    assert watched.ran == []
    told = " ".join(watched.refused)
    for each in (
        "require-trusted-types-for",
        "trusted-types",
        "script-src",
        "style-src",
        "img-src",
    ):
        assert each in told


ATTEMPTS: Final = """() => {
    const attempts = {
        innerHTML: () => document.body.innerHTML = "<b>",
        outerHTML: () => document.body.firstElementChild.outerHTML = "<b>",
        insertAdjacentHTML: () => document.body.insertAdjacentHTML("beforeend", "<b>"),
        write: () => document.write("<b>"),
        srcdoc: () => document.createElement("iframe").srcdoc = "<b>",
        text: () => document.createElement("script").text = "canary()",
        src: () => document.createElement("script").src = "/icons/x.js",
        handler: () => document.body.setAttribute("onclick", "canary()"),
        parser: () => new DOMParser().parseFromString("<b>", "text/html"),
        fragment: () => document.createRange().createContextualFragment("<b>"),
        timer: () => setTimeout("canary()"),
        eval: () => (0, eval)("canary()"),
        Function: () => new Function("canary()")(),
        worker: () => new Worker("/sw.js"),
        module: () => import("data:text/javascript,canary()"),
        policy: () => trustedTypes.createPolicy("own", {createHTML: text => text}),
        again: () => trustedTypes.createPolicy("pilothouse-sw", {createScriptURL: url => url}),
        style: () => {
            const made = document.createElement("p");
            made.setAttribute("style", "color: red");
            if (!made.style.color) throw new TypeError();
        },
        picture: () => new Promise((done, fail) => {
            const made = new Image();
            made.onload = done;
            made.onerror = fail;
            made.src = "http://canary.localhost:9/";
        }),
    };
    const passed = [];
    // What is evaluated for a test at once may do more than the page.
    return new Promise(done => setTimeout(async () => {
        for (const [name, attempt] of Object.entries(attempts))
            await Promise.resolve().then(attempt).then(() => passed.push(name), () => {});
        setTimeout(() => done(passed));
    }));
}"""
"""Every way from a text to markup, script or style; the names of those that are open."""


async def test_nothing_that_a_page_does_with_a_text_goes_unnoticed(house: House):
    watched = await Watched.enter(house)
    for each in DEEDS:
        await watched.check()
        async with asyncio.timeout(DEADLINE):
            while not await is_noticed(watched, each):
                continue
        await watched.page.reload()
        await watched.page.get_by_role("banner").wait_for()
        watched.forget()


async def is_noticed(watched: Watched, deed: str) -> bool:
    """Whether it is, yet: requests and windows are heard of a moment later, and a page that has
    just begun sets its own title."""
    await watched.page.evaluate(f"() => {{ {deed}; }}")
    try:
        await watched.check()
    except AssertionError:
        return True
    return False


DEEDS: Final = (
    "canary(1)",
    "Object.prototype.canary = 1",
    "document.title = 'x\\u009b'",
    "document.body.append(document.createElement('iframe'))",
    "document.head.append(document.createElement('base'))",
    "Object.assign(document.body.appendChild(document.createElement('a')), {href: 'javascript:1'})",
    "Object.assign(document.body.appendChild(document.createElement('a')), {href: 'http://x/'})",
    "Object.assign(document.body.appendChild(new Image()), {src: '/canary'})",
    "Object.assign(document.body.appendChild(document.createElement('p')), {id: 'cookie'})",
    "Object.assign(document.body.appendChild(document.createElement('p')), {id: 'k000k'})",
    "document.body.appendChild(document.createElement('p')).style.color = 'red'",
    "document.body.appendChild(document.createElement('p')).setAttribute('style', 'color: red')",
    "fetch('/canary').catch(() => {})",
    "open('about:blank')",
)
"""What a page could do that took a text for more than one."""


async def test_every_item_of_a_conversation_shows_text_as_text(hostile: Hostile):
    made = conversations()
    others = family_items(len(made) + 1)
    for each in (*made.values(), others):
        each.write(hostile.transcripts)
    watched = await Watched.enter(hostile.house)
    for kind, each in made.items():
        words = await watched.read(each.session)
        await watched.check()
        end = "/text0" if kind == "text" else ""
        whole = [each for each in WHOLE if kind != "text" or each.family in MARKUP]
        assert lost(words, kind, ((each.mark + end, each) for each in WHOLE)) == [], kind
        changed = [
            each.text
            for each in whole
            if squeezed(each.text) not in squeezed(words[each.mark + end])
        ]
        assert changed == [], kind
    words = await watched.read(others.session)
    await watched.check()
    for kind in (*FAMILY_CALLS, "prompt", "notice", "output", "thought"):
        end = "/thinking0" if kind == "thought" else ""
        names = ((f"{kind} {each.family}{end}", each) for each in WHOLE)
        assert lost(words, kind, names) == [], kind
    await watched.page.get_by_role("button", name="Search in the conversation").click()
    await watched.page.get_by_role("searchbox", name="Search in the conversation").fill("canary")
    await expect(watched.page.locator(".hits")).to_contain_text("canary")
    await watched.check()
    await watch_it_being_written(hostile, watched)


async def watch_it_being_written(hostile: Hostile, watched: Watched) -> None:
    """What a model says comes piece by piece, and is text at every moment."""
    # What is longer is cut, and says so.
    prompted = [each for each in WHOLE if each.family != "long"]
    session = hostile.house.start(joined(prompted))
    await hostile.cli.reached("seen")
    await watched.viewer.see(f"session/{session}")
    await expect(watched.page.locator("[data-kind=prompt]")).to_be_visible()
    hostile.cli.release("seen")
    await expect(watched.page.locator("[data-kind=turn]")).to_contain_text("finished")
    prompt, *said, _ = (await watched.read(session)).values()
    assert unseen(prompt, prompted) == []
    families = [family for family in by_family(WHOLE).values() for _ in ("text", "thought")]
    assert [unseen(*each) for each in zip(said, families, strict=True)] == [[]] * len(families)
    await watched.check()


async def test_whatever_else_a_cli_tells_is_shown_as_text(hostile: Hostile):
    house = hostile.house
    session = hostile.start("<b onclick=canary(1)>/<img src=x onerror=canary(2)>", whole_turn())
    await until(lambda: house.ask("GET", f"/api/sessions/{session}")["state"] == "error")
    watched = await Watched.enter(house)
    await watched.viewer.see(f"session/{session}")
    await expect(watched.page.locator("[data-kind=turn]")).to_be_visible()
    row = await watched.words(f"[data-session='{session}']")
    assert NAMES[1] in row
    await look_into_panels(watched)
    words = await watched.read(session)
    await watched.check()
    for kind in HAPPENINGS:
        names = ((f"{kind} {each.family}", each) for each in INJECTIONS)
        assert lost(words, kind, names) == [], kind
    assert unseen(words["retry"]) == []
    assert unseen(words["turn/result"]) == []
    await look_at_views(watched)


async def look_into_panels(watched: Watched) -> None:
    """What opens over a session: all about it, its servers, its models, raw lines, commands."""
    page = watched.page
    for press in ("i", "M"):
        await page.keyboard.press(press)
        await expect(page.locator("dialog summary").first).to_be_visible()
        await watched.unfold("dialog")
        assert unseen(await watched.words("dialog")) == []
        await watched.leave()
    await page.get_by_role("button", name="Model: ").click()
    await expect(page.get_by_role("menuitemradio")).to_have_count(len(INJECTIONS))
    assert unseen(await watched.words(".popover:popover-open")) == []
    await watched.leave()
    await page.get_by_role("button", name="Timeline").click()
    await page.get_by_role("button", name="Show as table").click()
    raw = page.locator("[data-item=retry] button", has_text="Raw")
    await raw.dispatch_event("click")
    await expect(page.get_by_role("dialog", name="Raw lines")).to_be_visible()
    assert unseen(await watched.words("dialog")) == []
    await watched.leave()
    for typed in ("/<", "@<"):
        await page.get_by_role("textbox", name="Message to the session").fill(typed)
        await expect(page.get_by_role("listbox", name="Suggestions")).to_contain_text("onerror")
        await watched.check()


async def look_at_views(watched: Watched) -> None:
    """Everything that is shown of all sessions together."""
    for view, end in (
        ("overview", "Cost by model"),
        ("journal", "This is the beginning of the journal"),
        ("settings", "Settings of the server"),
        ("machines", "Machines"),
        ("new", "Label"),
    ):
        await watched.viewer.see(view)
        main = watched.page.get_by_role("main")
        if view == "journal":
            await watched.page.evaluate(ALL_EVENTS)
        await expect(main).to_contain_text(end)
        await watched.unfold()
        if view in ("overview", "journal"):
            assert unseen(await watched.words()) == []
        await watched.check()


ALL_EVENTS: Final = f"""async () => {{
    {TURN}
    const end = () => document.querySelector(".look-journal-end")?.textContent ?? "";
    while (!end().includes("the beginning of the journal")) {{
        [...document.querySelectorAll(".look-journal-end button")].at(-1)?.click();
        await turn();
    }}
}}"""


CARDS: Final = f"""async ids => {{
    {TURN}
    const cards = {{}};
    const press = (card, words) => [...card.querySelectorAll("button")]
        .find(each => each.textContent.startsWith(words));
    for (const id of ids) {{
        document.querySelector(`.question-line[data-question="${{id}}"]`)?.click();
        const card = () => document.querySelector(`.question-card[data-question="${{id}}"]`);
        while (!card()) await turn();
        await ({UNFOLD})(card());
        const seen = {{text: card().textContent, fields: "", foreign: ({FOREIGN})(card())}};
        for (const words of ["Always…", "Edit first", "Edit the plan"]) {{
            const button = press(card(), words);
            if (!button) continue;
            button.click();
            await turn();
            seen.fields += ({WORDS})(card());
            seen.foreign.push(...({FOREIGN})(card()));
            (press(card(), "Cancel") ?? press(card(), "Read the plan")).click();
            await turn();
        }}
        cards[id] = seen;
    }}
    return cards;
}}"""
"""Opens one card after the other, and each panel of it."""


async def test_every_question_shows_text_as_text_and_hides_nothing_of_it(hostile: Hostile):
    asking = await hostile.asking([*questions(), *plans()])
    watched = await Watched.enter(hostile.house)
    card = await watched.viewer.card()
    await card.get_by_role("link").first.click()
    await expect(watched.page.locator(".question-line")).to_have_count(len(asking) - 1)
    cards = await watched.page.evaluate(CARDS, [*asking])
    await watched.check()
    seen = {each.name: cards[id] for id, each in asking.items()}
    assert {name: card["foreign"] for name, card in seen.items() if card["foreign"]} == {}
    missing = [(each.name, *unseen(seen[each.name]["text"], each.has)) for each in asking.values()]
    assert [each for each in missing if len(each) > 1] == []
    for each in asking.values():
        fields = seen[each.name]["fields"]
        assert not fields or unseen(fields, each.has) == [], each.name
    assert {name for name in PLANS if PART not in seen[name]["text"]} == set()
    ids = {each.name: id for id, each in asking.items()}
    rule = await propose_rules(watched, [ids["command tags"], ids["command directions"]])
    assert (
        unseen(rule, [each for name in ("tags", "directions") for each in by_family()[name]]) == []
    )
    await watched.viewer.see("")
    origin = await watched.page.locator(".question-origin").text_content() or ""
    texts = {name: card["text"] for name, card in seen.items()}
    assert {name for name, it in texts.items() if "[object" in it} == set()
    texts |= {"rule": rule, "origin": origin}
    assert {name for name, it in texts.items() if HIDDEN.search(it)} == set()


async def propose_rules(watched: Watched, questions: Iterable[str]) -> str:
    """What the editor of the policy has after rules were made from these questions."""
    field = watched.page.get_by_label("Text of the policy")
    for at, id in enumerate(questions, 1):
        await watched.viewer.see("")
        await watched.page.evaluate("id => sessionStorage.setItem('pilothouse.rule-from', id)", id)
        await watched.viewer.see("policy")
        await expect(field).to_have_value(re.compile(rf"(\[\[rule\]\][\s\S]*){{{at}}}"))
        await expect(watched.page.get_by_role("main")).to_contain_text(
            re.compile("otherwise|as they were|:\\d+:")
        )
        await watched.check()
    return await field.input_value()


async def test_lists_searches_and_rules_show_text_as_text(hostile: Hostile):
    house = hostile.house
    for at, each in enumerate(WHOLE):
        made = Transcript(OWN + at, cwd=f"/srv/{each.text}")
        it = " ".join(each.text.split())
        made.reply(each.mark, {"type": "text", "text": it}, model=each.text)
        made.write(hostile.transcripts, customTitle=each.text)
    names = labels()
    house.ask("PUT", "/api/policy", {"text": "\n".join(map(rule, range(len(names)), names))})
    for at, name in enumerate(names):
        house.ask("POST", "/api/asks", ask(house, at, name))
    watched = await Watched.enter(house)
    page = watched.page
    rows = await page.evaluate(ROWS, len(WHOLE) + len(names))
    # The title, and the last line or the directory; of those of others the title is the label.
    assert [
        each.text
        for each in WHOLE
        if rows[session_id(OWN + WHOLE.index(each))].count(each.mark) < 2
    ] == []
    of_others = "\n".join(rows[session_id(OF_OTHERS + at)] for at in range(len(names)))
    assert unseen(of_others, WHOLE) == []
    await watched.check()
    await page.get_by_role("button", name="Filters").click()
    assert unseen(await watched.words(".filter-panel"), WHOLE) == []
    await watched.leave()
    await find_everything(watched)
    await read_heads(watched)
    await watched.viewer.see("policy")
    await expect(page.get_by_text("Rules in force")).to_be_visible()
    await expect(page.get_by_text("never used")).to_have_count(0)
    await watched.unfold()
    rules = await watched.words(".look-rules")
    assert [each.text for each in WHOLE if rules.count(each.mark) < 2] == []
    await watched.check()


async def find_everything(watched: Watched) -> None:
    """Look for all sessions by their marks, and for some by all of their titles."""
    wanted: dict[str, list[str]] = {}
    for each in WHOLE:
        wanted.setdefault(each.mark[:-2], []).append(each.mark)
    for family in by_family(WHOLE).values():
        # What a field can hold.
        first = next(each for each in family if "\n" not in each.text)
        wanted[first.text] = [first.mark]
    await watched.page.keyboard.press("Control+k")
    assert await watched.page.evaluate(FIND, [".palette input", "#palette-list", wanted]) == []
    await watched.leave()
    assert await watched.page.evaluate(FIND, ["#session-search", ".sessions-list", wanted]) == []
    await watched.check()


async def read_heads(watched: Watched) -> None:
    """The title and the facts of a session of each family, and what the browser has for a title."""
    facts = watched.page.locator(".session-facts")
    raw: set[str] = set()
    hidden = [each for each in WHOLE if re.search("[\x80-\x9f\u202e]", each.text)]
    for each in (*(family[0] for family in by_family(WHOLE).values()), *hidden):
        await watched.viewer.see(f"session/{session_id(OWN + WHOLE.index(each))}")
        heading = watched.page.get_by_role("heading", level=1)
        await expect(heading).to_contain_text(each.mark)
        await expect(facts).to_contain_text(each.mark)
        await expect(watched.page).to_have_title(re.compile(each.mark))
        title = await watched.page.title()
        raw |= {each.family} if HIDDEN.search(title) else set()
    assert raw == set()
    await watched.viewer.see(f"session/{session_id(OF_OTHERS)}")
    await expect(facts.locator("[data-fact=Label]")).to_contain_text(WHOLE[0].mark)
    await watched.check()


OWN: Final = 1_000
OF_OTHERS: Final = 5_000
"""The numbers of the first sessions with a transcript, and of those that others have asked in."""


def labels() -> list[str]:
    """All texts, as many in one as a label may have; of longer ones the beginning."""
    found = [""]
    for each in WHOLE:
        longer = f"{found[-1]} {each.text[:LONGEST_LABEL]}".strip()
        if len(longer) <= LONGEST_LABEL:
            found[-1] = longer
        else:
            found.append(each.text[:LONGEST_LABEL])
    return found


def rule(at: int, name: str) -> str:
    quoted = json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
    about = f'tool = "Own{at}"\naction = "deny"\nreason = {quoted}\n'
    return f"[[rule]]\nname = {quoted}\n{about}"


def ask(house: House, at: int, label: str) -> dict[str, Any]:
    """What a CLI asks that is called so, and that the rule of its name answers."""
    own = {"session_id": session_id(OF_OTHERS + at), "cwd": str(house.project), "label": label}
    return own | {"tool_name": f"Own{at}", "tool_use_id": f"use {at}", "input": {"it": label}}


ROWS: Final = f"""async count => {{
    {TURN}
    const rows = {{}};
    while (Object.keys(rows).length < count) {{
        const drawn = document.querySelectorAll(".sessions-list [data-session]");
        for (const each of drawn) rows[each.dataset.session] = each.textContent;
        document.querySelector("button.session-more")?.click();
        // Only those near the screen are drawn.
        let scroller = document.querySelector(".sessions-list");
        while (scroller.parentElement && scroller.scrollHeight <= scroller.clientHeight)
            scroller = scroller.parentElement;
        const isEnd = scroller.scrollTop + scroller.clientHeight > scroller.scrollHeight - 9;
        scroller.scrollTop = isEnd ? 0 : scroller.scrollTop + 600;
        await turn();
    }}
    return rows;
}}"""
"""Goes through the list until so many rows were seen; the words of each."""
FIND: Final = f"""async ([name, list, wanted]) => {{
    {TURN}
    const field = document.querySelector(name);
    const type = text => {{
        field.value = text;
        field.dispatchEvent(new Event("input", {{bubbles: true}}));
        return turn();
    }};
    const missed = [];
    for (const [text, marks] of Object.entries(wanted)) {{
        await type(text);
        const found = document.querySelector(list)?.textContent ?? "";
        missed.push(...marks.filter(mark => !found.includes(mark)));
    }}
    await type("");
    return missed;
}}"""
"""Types texts into a field, one after the other; the marks that are not in the list then."""
