"""Each kind of item as a card: what is said, what tools did, and what happened around it."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from pilothouse_sim.clis import Room, SimulatedCLI
from pilothouse_sim.scenario import (
    ApiError,
    Branch,
    Scenario,
    Usage,
    When,
    gate,
    reply,
    thinking,
    tool,
)
from tests.support.console.browser import PHONE, Viewer
from tests.support.console.house import House
from tests.support.console.interjections import called, interjecting
from tests.support.console.scripted import house_on
from tests.support.engine.mcp_servers import PARROT, server
from tests.support.waiting import until

MARKDOWN: Final = """# The tide tables

A **bold** word, an *inclined* one, a ~~struck~~ one, `code`, and [a link](https://example.org/tides).

1. First
2. Second
   - under it

- [x] sounded
- [ ] charted

> What the pilot said.

| port | depth |
|:-----|------:|
| Bree |    12 |

---

```python
def depth(port: str) -> int:
    return 12  # fathoms
```

<b>not bold</b> &amp; ![a chart](https://example.org/chart.png)
"""
LINES: Final = "".join(f"line {at}\n" for at in range(1, 41))
PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
OTHERS: Final = "That is what the others did."
WEATHER: Final = "That was the weather."
RESETS: Final = 4_000_000_000


def of(prompt: str, *replies: Any) -> Branch:
    return Branch(when=When(prompt_contains=prompt), replies=replies)


SCENARIO: Final = Scenario(
    replies=[reply("Nobody asked for this.")],
    branches=[
        of(
            "Say it in Markdown",
            reply(
                thinking("The **lead line** is in the locker."),
                MARKDOWN,
                usage=Usage(input_tokens=1200, output_tokens=340, cache_read_input_tokens=8800),
            ),
            reply("Once more."),
        ),
        of(
            "Run the commands",
            reply(
                tool("Bash", command="seq 1 40", description="Count the soundings"),
                tool("Bash", command="echo aground >&2; exit 3"),
                tool("Bash", command="true"),
            ),
            reply("They ran."),
        ),
        of(
            "Change the files",
            reply(
                tool("Read", file_path="{{cwd}}/log.txt", offset=11, limit=4),
                tool("Read", file_path="{{cwd}}/old.py"),
            ),
            reply(
                tool("Edit", file_path="{{cwd}}/log.txt", old_string="line 20", new_string="rocks"),
                tool("Write", file_path="{{cwd}}/old.py", content="import sea\n\nDEPTH = 13\n"),
                tool("Write", file_path="{{cwd}}/new.md", content="# New\n\ntext\n"),
            ),
            reply("They are changed."),
        ),
        of("Ask the parrot", reply(tool("mcp__parrot__shout", words="ahoy")), reply("It shouted.")),
        of(
            "Give the numbers",
            reply(tool("StructuredOutput", port="Bree", depth=12)),
            reply("Given."),
        ),
        of(
            "Send a diver",
            reply(
                tool(
                    "Agent",
                    description="Look at the keel",
                    prompt="Dive and look.",
                    subagent_type="general-purpose",
                )
            ),
            reply("The keel is clean."),
        ),
        of(
            "Dive and look",
            reply(tool("Bash", command="echo barnacles", description="Scrape")),
            reply(gate("under water"), "No **barnacles** are left."),
        ),
        of("Wait for the tide", reply(tool("Bash", command="cat tide")), reply("It is here.")),
        of("Tell of others", reply(OTHERS)),
        of("Tell of the weather", reply(WEATHER)),
        of(
            "Try and try",
            ApiError(status=529, headers={"retry-after": "0"}),
            reply("At last."),
            ApiError(status=404),
        ),
        of("Deny it", reply(tool("Bash", command="rm -rf /tmp/charts")), reply("Then not.")),
        of("Make it short", reply("It was a long story.", usage=Usage(input_tokens=90_000))),
    ],
)

HIT_TEXT: Final = "harbour.py:3:depth = 12\nharbour.py:9:depth += 1"
OTHER_LINES: Final = [
    *called("g", "Grep", HIT_TEXT, {"content": HIT_TEXT, "numMatches": 2}, pattern="depth"),
    *called(
        "l",
        "Glob",
        "/sea/a.py\n/sea/b.py",
        {"filenames": ["/sea/a.py"], "numFiles": 1},
        pattern="**/*.py",
        path="/sea",
    ),
    *called(
        "t",
        "TodoWrite",
        "ok",
        None,
        todos=[
            {"content": "Sound the bay", "status": "completed"},
            {"content": "Draw the chart", "status": "in_progress"},
            {"content": "Print it", "status": "pending"},
        ],
    ),
    *called(
        "i",
        "Read",
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}],
        {"type": "image", "file": {"type": "image/png", "originalSize": 70, "base64": PIXEL}},
        file_path="/sea/chart.png",
    ),
    *called(
        "w",
        "WebFetch",
        "raw",
        {"result": "The **tide** turns at six."},
        url="https://example.org/tide",
        prompt="When?",
    ),
    *called(
        "s",
        "WebSearch",
        "Found it.",
        {"results": [{"content": [{"title": "T", "url": "https://example.org/hit"}]}]},
        query="tide tables",
    ),
]
WEATHER_LINES: Final = [
    {
        "type": "rate_limit_event",
        "uuid": "w1",
        "rate_limit_info": {
            "status": "rejected",
            "rateLimitType": "five_hour",
            "utilization": 1.0,
            "resetsAt": RESETS,
        },
    },
    {
        "type": "auth_status",
        "uuid": "w2",
        "isAuthenticating": False,
        "output": ["Open the page."],
        "error": "The code has expired",
    },
    {
        "type": "system",
        "subtype": "informational",
        "uuid": "w3",
        "level": "warning",
        "content": "Fog ahead.",
    },
]


class Cards(NamedTuple):
    """A server, the CLI of its sessions, somebody who looks at them, and those there are."""

    house: House
    cli: SimulatedCLI
    viewer: Viewer
    sessions: dict[str, str]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cards(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncIterator[Cards]:
    """One server for all of them: each prompt has a part of the scenario for itself."""
    folder = tmp_path_factory.mktemp("cards")
    cli = SimulatedCLI(Room(folder / "room"), SCENARIO, strict=False)
    lines = {OTHERS: OTHER_LINES, WEATHER: WEATHER_LINES}
    program = interjecting(cli.path, folder / "program", lines)
    async with house_on(cli, folder / "house", browser, program=program) as house:
        (house.project / "log.txt").write_text(LINES)
        (house.project / "old.py").write_text("import sea\n\nDEPTH = 12\n")
        try:
            yield Cards(house, cli, await house.viewer(), {})
        finally:
            cli.finish()


def status(house: House, session: str) -> dict[str, Any]:
    return house.ask("GET", f"/api/sessions/{session}")


async def ended(house: House, session: str, state: str = "done") -> None:
    await until(lambda: status(house, session)["state"] == state)


def tools(viewer: Viewer, name: str = "") -> Locator:
    return viewer.page.locator("[data-kind=tool]").filter(has_text=name)


async def shown(cards: Cards, prompt: str, *allowed: str, **options: Any) -> tuple[Viewer, str]:
    """A session that has done this, once for all tests, and somebody who looks at it."""
    house, viewer = cards.house, cards.viewer
    if prompt not in cards.sessions:
        options |= {"allowed_tools": list(allowed)}
        cards.sessions[prompt] = house.start(prompt, options=options)
    session = cards.sessions[prompt]
    await ended(house, session)
    await viewer.see(f"session/{session}")
    await expect(viewer.page.locator("h1")).to_have_text(prompt)
    await expect(viewer.page.locator("[data-kind=turn]")).not_to_have_count(0)
    return viewer, session


async def test_what_the_model_says_is_a_page_and_what_it_thinks_is_folded(cards: Cards):
    viewer, _ = await shown(cards, "Say it in Markdown")
    page = viewer.page
    thought = page.locator("[data-kind=thinking]")
    await expect(thought).not_to_contain_text("lead line")
    await thought.get_by_role("button", name="Thought").click()
    await expect(thought.locator("strong")).to_have_text("lead line")

    text = page.locator("[data-kind=text]")
    await expect(text.get_by_role("heading", name="The tide tables")).to_be_visible()
    for form, words in {
        "strong": "bold",
        "em": "inclined",
        "del": "struck",
        "p > code": "code",
        "ol > li:nth-child(1)": "First",
        "ol > li ul > li": "under it",
        "blockquote": "What the pilot said.",
        "td[data-align=right]": "12",
        ".literal, p": "not bold",
    }.items():
        await expect(text.locator(form).filter(has_text=words).first).to_be_visible()
    await expect(text.get_by_role("checkbox", name="Done")).to_be_checked()
    await expect(text.get_by_role("checkbox", name="To do")).not_to_be_checked()
    await expect(text.locator("hr, b, img")).to_have_count(1)
    link = text.get_by_role("link", name="a link")
    await expect(link).to_have_attribute("href", "https://example.org/tides")
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    picture = text.get_by_role("link", name="Image: a chart")
    await expect(picture).to_have_attribute("href", "https://example.org/chart.png")

    code = text.locator("figure.code[data-language=python]")
    await expect(code.locator(".hljs-keyword").first).to_have_text("def")
    await expect(code.locator(".hljs-comment")).to_have_text("# fathoms")
    assert viewer.complaints == []


async def pasted(viewer: Viewer) -> str:
    """What is on the clipboard, which the page itself may not read."""
    field = viewer.page.get_by_role("textbox", name="Message to the session")
    await field.press("Control+v")
    text = await field.input_value()
    await field.fill("")
    return text


async def test_code_and_items_are_copied_and_linked_to(cards: Cards):
    viewer, session = await shown(cards, "Say it in Markdown")
    page = viewer.page
    text = page.locator("[data-kind=text]")
    code = text.locator("figure.code")
    await code.hover()
    await code.get_by_role("button", name="Copy").click()
    await expect(code.get_by_role("button", name="Copied")).to_be_visible()
    assert await pasted(viewer) == "def depth(port: str) -> int:\n    return 12  # fathoms"
    actions = text.locator(".item-actions")
    await text.hover()
    await actions.get_by_role("button", name="Copy").click()
    await expect(actions.get_by_role("button", name="Copied")).to_be_visible()
    assert (await pasted(viewer)).startswith("# The tide tables")
    await text.hover()
    await actions.get_by_title("Link to this item").click()
    item = await text.get_attribute("data-item")
    assert item
    await expect(page).to_have_url(re.compile(f"#/session/{session}/.+"))
    await expect(page.locator(".item.marked")).to_have_attribute("data-item", item)
    await actions.get_by_role("button", name="Raw").click()
    raw = page.get_by_role("dialog", name="Raw lines")
    await expect(raw.get_by_role("heading", name="Raw lines of this text")).to_be_visible()
    await expect(raw).to_contain_text("Entry ")
    await expect(raw).to_contain_text('"stop_reason"')
    await page.keyboard.press("Escape")
    assert viewer.complaints == []


async def test_a_turns_line_has_its_cost_and_tokens_and_more_on_demand(cards: Cards):
    viewer, _ = await shown(cards, "Say it in Markdown")
    turn = viewer.page.locator("[data-kind=turn]")
    await expect(turn).to_contain_text("Turn finished · $0.01 · 10k in, 340 out · 88% from cache")
    await turn.get_by_role("button", name=re.compile("Turn finished")).click()
    rows = turn.get_by_role("row")
    await expect(rows.nth(1)).to_contain_text("claude-opus-5-5")
    await expect(rows.nth(1)).to_contain_text("1,2008,8000340$0.0134")
    await expect(rows.nth(2)).to_contain_text("This conversation")
    await expect(turn).to_contain_text("in 1 step.")


async def test_a_denied_call_says_why_and_the_turn_counts_it(cards: Cards):
    session = cards.house.start("Deny it")
    viewer = cards.viewer
    await viewer.see(f"session/{session}")
    card = await viewer.card()
    await card.get_by_role("button", name=re.compile("^Deny…")).click()
    await viewer.page.get_by_role("textbox", name="Why not?").fill("They are the only ones")
    await viewer.page.keyboard.press("Enter")
    await ended(cards.house, session)
    call = tools(viewer)
    await expect(call.get_by_role("img", name="denied")).to_be_visible()
    await expect(call).to_contain_text("Denied: They are the only ones")
    await expect(viewer.page.locator("[data-kind=turn]")).to_contain_text("1 denied")
    asked = viewer.page.locator("[data-kind=question]")
    await expect(asked).to_contain_text("Denied (They are the only ones) by a person")
    assert viewer.complaints == []


async def test_commands_have_their_output_and_exit_code(cards: Cards):
    viewer, _ = await shown(cards, "Run the commands", "Bash")
    counted, failed, silent = (tools(viewer).nth(each) for each in range(3))
    await expect(counted.locator(".tool-detail")).to_have_text("seq 1 40")
    await expect(counted.locator(".tool-detail")).to_have_attribute("title", "Count the soundings")
    output = counted.locator(".output pre")
    await expect(output).to_have_text(re.compile("^29\\s.*40$", re.S))
    await counted.get_by_role("button", name="Show 28 earlier lines").click()
    await expect(output).to_have_text(re.compile("^1\\s2\\s.*40$", re.S))
    await expect(failed.get_by_role("img", name="failed")).to_be_visible()
    await expect(failed.locator(".badge")).to_have_text("Exit code 3")
    await expect(failed.locator(".output")).to_contain_text("aground")
    await expect(silent).to_contain_text("No output.")
    assert viewer.complaints == []


async def test_what_was_read_has_its_lines_numbers(cards: Cards):
    viewer, _ = await shown(cards, "Change the files", "Read", "Write", "Edit")
    read = tools(viewer, "Read").first
    await expect(read).to_contain_text("4 of 41 lines")
    await expect(read.locator(".code")).to_have_count(0)
    await read.locator(".tool-head").click()
    await expect(read.locator(".line-numbers")).to_have_text("11\n12\n13\n14")
    await expect(read.locator("pre:not(.line-numbers)")).to_contain_text("line 11")


async def test_edits_and_overwriting_writes_are_diffs_with_the_files_line_numbers(cards: Cards):
    viewer, _ = await shown(cards, "Change the files", "Read", "Write", "Edit")
    edit = tools(viewer, "Edit")
    await expect(edit.locator(".diff-line")).to_have_count(8)
    removed, added = edit.locator(".diff-line.removed"), edit.locator(".diff-line.added")
    await expect(removed).to_have_text("-line 20")
    await expect(removed.locator(".before")).to_have_attribute("data-number", "20")
    await expect(added).to_have_text("+rocks")
    await expect(added.locator(".after")).to_have_attribute("data-number", "20")
    await expect(edit.locator(".diff-line.same").first).to_have_text(" line 17")
    await expect(edit.get_by_label("1 lines added, 1 removed")).to_be_visible()
    await edit.get_by_role("button", name="Whole file").click()
    await expect(edit.locator(".diff-line")).to_have_count(41)
    await expect(edit.locator(".diff-line").first).to_have_text(" line 1")
    await edit.get_by_role("button", name="Only what changes").click()
    await expect(edit.locator(".diff-line")).to_have_count(8)

    over = tools(viewer, "old.py").filter(has_text="Write")
    await expect(over.locator(".diff-line.removed")).to_have_text("-DEPTH = 12")
    await expect(over.locator(".diff-line.added")).to_have_text("+DEPTH = 13")
    new = tools(viewer, "new.md")
    await expect(new.locator(".diff-line.added")).to_have_text(
        ["+# New", re.compile("^\\+"), "+text"]
    )
    await expect(new.get_by_role("button", name="Whole file")).to_have_count(0)
    assert (cards.house.project / "log.txt").read_text().splitlines()[19] == "rocks"
    assert viewer.complaints == []


async def test_a_call_of_an_mcp_server_has_its_input_and_result(cards: Cards):
    viewer, _ = await shown(
        cards, "Ask the parrot", "mcp__parrot", mcp_servers={"parrot": server(PARROT)}
    )
    card = tools(viewer)
    await expect(card.locator(".tool-name")).to_have_text("parrot: shout")
    await expect(card.locator(".tool-detail")).to_have_text("ahoy")
    await card.locator(".tool-head").click()
    await expect(card.locator("figure.code")).to_contain_text('"words": "ahoy"')
    await expect(card.get_by_role("group", name="Result")).to_have_text("AHOY")


async def test_structured_output_is_shown_as_json(cards: Cards):
    schema = {"type": "object", "properties": {"port": {"type": "string"}, "depth": {}}}
    viewer, _ = await shown(cards, "Give the numbers", json_schema=schema)
    card = tools(viewer, "Structured output")
    await expect(card.locator("figure.code[data-language=json]")).to_contain_text('"port": "Bree"')
    await expect(viewer.page.locator("[data-kind=turn] figure.code")).to_contain_text('"depth": 12')


async def test_searches_lists_images_and_pages_have_views_of_their_own(cards: Cards):
    viewer, _ = await shown(cards, "Tell of others")
    grep, glob, todo, image, page, web = (tools(viewer).nth(each) for each in range(6))
    await expect(grep).to_contain_text("2 hits")
    await grep.locator(".tool-head").click()
    await expect(grep.get_by_role("group", name="Hits")).to_contain_text("harbour.py:9:depth += 1")
    await expect(glob).to_contain_text("**/*.py in /sea")
    await glob.locator(".tool-head").click()
    await expect(glob.get_by_role("group", name="Hits")).to_have_text("/sea/a.py")
    await expect(todo).to_contain_text("1 of 3 done, now: Draw the chart")
    states = [("Done", "Sound the bay"), ("In progress", "Draw the chart"), ("To do", "Print it")]
    for each, (state, words) in enumerate(states):
        item = todo.locator(".todos > li").nth(each)
        await expect(item).to_contain_text(words)
        await expect(item.get_by_role("img", name=state)).to_be_visible()
    await image.locator(".tool-head").click()
    await image.get_by_role("button", name="Show the image").click()
    shown_image = image.get_by_role("img", name="/sea/chart.png")
    await expect(shown_image).to_have_attribute("src", f"data:image/png;base64,{PIXEL}")
    assert await shown_image.evaluate("each => each.decode().then(() => each.naturalWidth)") == 1
    await page.locator(".tool-head").click()
    await expect(page.locator("strong")).to_have_text("tide")
    address = page.get_by_role("link", name="https://example.org/tide")
    await expect(address).to_have_attribute("href", "https://example.org/tide")
    await web.locator(".tool-head").click()
    await expect(web.get_by_role("link", name="https://example.org/hit")).to_be_visible()
    await expect(web).to_contain_text("Found it.")
    assert viewer.complaints == []


async def test_a_subagent_is_a_tree_in_its_call_with_what_it_used(cards: Cards):
    house, cli = cards.house, cards.cli
    session = house.start("Send a diver", options={"allowed_tools": ["Bash", "Agent"]})
    await cli.reached("under water")
    viewer = cards.viewer
    await viewer.see(f"session/{session}")
    head = viewer.page.locator(".tool-head").filter(has_text="Look at the keel")
    await expect(head.locator(".badge").first).to_have_text("general-purpose")
    # While it runs: what it uses last, and for how long it does.
    await expect(head).to_contain_text("Bash")
    await expect(head.locator(".elapsed")).to_have_text(re.compile("^[1-9]\\d* s$"))
    inner = viewer.page.locator(".nested [data-kind=tool]")
    await expect(inner.locator(".tool-detail")).to_have_text("echo barnacles")
    await expect(inner.locator(".output")).to_have_text(re.compile("barnacles"))
    agent = viewer.page.locator(".tool").filter(has=viewer.page.locator(".agent"))
    await agent.get_by_role("button", name="What it was told").click()
    await expect(agent.locator(".agent-task")).to_contain_text("Dive and look.")
    cli.release("under water")
    await ended(house, session)
    # It folds when it is done, and what it used stays in its line.
    await expect(inner).to_have_count(0)
    await expect(head).to_contain_text(re.compile("1 tool use · .*tokens"))
    await head.click()
    await expect(agent.locator(".agent-result strong").last).to_have_text("barnacles")
    await expect(inner).to_be_visible()
    assert viewer.complaints == []


async def test_a_command_that_runs_says_for_how_long(cards: Cards):
    house = cards.house
    tide = house.project / "tide"
    os.mkfifo(tide)
    session = house.start("Wait for the tide", options={"allowed_tools": ["Bash"]})
    viewer = cards.viewer
    await viewer.see(f"session/{session}")
    card = tools(viewer, "cat tide")
    await expect(card.get_by_role("img", name="running")).to_be_visible()
    await expect(card.locator(".elapsed")).to_have_text(re.compile("^[1-9]\\d* s$"))
    tide.write_text("high\n")
    await expect(card.get_by_role("img", name="done")).to_be_visible()
    await expect(card.locator(".elapsed")).to_have_count(0)
    await expect(card.locator(".output")).to_contain_text("high")


async def test_hooks_limits_and_sign_in_trouble_stand_where_they_happened(cards: Cards):
    hook = {"hooks": [{"type": "command", "command": "echo fair winds"}]}
    viewer, _ = await shown(
        cards,
        "Tell of the weather",
        flags={"include-hook-events": None},
        settings={"hooks": {"UserPromptSubmit": [hook]}},
    )
    page = viewer.page
    line = page.locator("[data-kind=hook]")
    await line.get_by_role("button", name="Hook UserPromptSubmit: done").click()
    await expect(line.locator(".output")).to_contain_text("fair winds")
    limit = page.locator("[data-kind=limit]")
    await expect(limit).to_contain_text("The account's limit is reached (five hour). 100% used.")
    await expect(limit).to_contain_text(re.compile(r"Resets Oct 2, 2096, .*, in \d+ d"))
    sign_in = page.locator("[data-kind=sign_in]")
    await expect(sign_in).to_contain_text("Claude Code could not sign in: The code has expired")
    await expect(sign_in.locator(".output")).to_contain_text("Open the page.")
    await expect(page.locator("[data-kind=notice]")).to_contain_text("Fog ahead.")
    assert viewer.complaints == []


async def test_a_retry_and_an_error_of_the_api_stand_where_they_happened(cards: Cards):
    viewer, session = await shown(cards, "Try and try")
    page = viewer.page
    await expect(page.locator("[data-kind=retry]")).to_contain_text(
        "The API failed (529): overloaded, and was asked again: attempt 1 of 10."
    )
    cards.house.ask("POST", f"/api/sessions/{session}/messages", {"content": "Again"})
    error = page.locator("[data-kind=text]").last
    await expect(error.locator(".badge")).to_have_text("API error: model_not_found")
    await expect(page.locator("[data-kind=turn]").last).to_contain_text("Turn failed")
    assert viewer.complaints == []


async def test_a_compaction_is_a_boundary_with_what_it_saved(cards: Cards):
    viewer, session = await shown(cards, "Make it short")
    cards.house.ask("POST", f"/api/sessions/{session}/messages", {"content": "/compact"})
    line = viewer.page.locator("[data-kind=compaction]")
    boundary = line.get_by_role("button", name=re.compile(r"on request, 90k tokens to \S+"))
    await boundary.click()
    await expect(line.locator(".markdown")).to_contain_text("This session is being continued")


async def test_on_a_phone_every_button_of_the_head_is_on_the_screen(cards: Cards):
    _, session = await shown(cards, "Say it in Markdown")
    viewer = await cards.house.viewer(viewport=PHONE, has_touch=True, is_mobile=True)
    await viewer.see(f"session/{session}")
    last = viewer.page.get_by_role("button", name="Export the conversation")
    place = await last.bounding_box()
    assert place is not None
    assert place["x"] + place["width"] <= PHONE["width"]
    await last.tap()
    await expect(viewer.page.get_by_role("menu")).to_be_visible()
    await viewer.context.close()


async def test_keys_jump_from_prompt_to_prompt(cards: Cards):
    viewer, session = await shown(cards, "Say it in Markdown")
    page = viewer.page
    cards.house.ask("POST", f"/api/sessions/{session}/messages", {"content": "And again"})
    await expect(page.locator("[data-kind=turn]")).to_have_count(2)
    marked = page.locator(".item.marked")
    last = await page.locator("[data-kind=prompt]").last.get_attribute("data-item")
    await viewer.see(f"session/{session}/{last}")
    await expect(marked).to_contain_text("And again")
    await page.keyboard.press("[")
    await expect(marked).to_contain_text("Say it in Markdown")
    await page.keyboard.press("]")
    await expect(marked).to_contain_text("And again")
    await page.keyboard.press("]")
    await expect(page.get_by_text("No prompt behind this one")).to_be_visible()
    await page.keyboard.press("n")
    await expect(page.get_by_text("No question in what is loaded")).to_be_visible()
