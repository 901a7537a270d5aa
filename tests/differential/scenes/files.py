"""The tools that read and write files."""

from __future__ import annotations

from pilothouse_sim.scenario import reply, tool
from tests.differential.driver import Scene
from tests.differential.host import PARTIAL, allow, deny, put, script, turns

WRITE = tool("Write", file_path="{{cwd}}/log.txt", content="calm\nsea\n")
READ = tool("Read", file_path="{{cwd}}/log.txt")
EDIT = tool("Edit", file_path="{{cwd}}/log.txt", old_string="calm", new_string="rough")
LOG = put(log__txt="calm\nsea\n")
EDITS = ("--permission-mode=acceptEdits",)

SCENES = {
    "write_allowed": Scene(
        script(reply(WRITE), reply("Written.")),
        turns("Keep a log."),
        (PARTIAL,),
        {"can_use_tool": allow},
        files=True,
        covers="B1",
    ),
    "write_denied": Scene(
        script(reply(WRITE), reply("Not written.")),
        turns("Keep a log."),
        answers={"can_use_tool": deny},
        files=True,
    ),
    "write_accepted": Scene(
        script(reply(WRITE), reply("Written.")), turns("Keep a log."), EDITS, files=True
    ),
    "write_over": Scene(
        script(
            reply(tool("Write", file_path="{{cwd}}/log.txt", content="unread\n")),
            reply(READ),
            reply(tool("Write", file_path="{{cwd}}/log.txt", content="calm\nland\n")),
            reply("Written."),
        ),
        turns("Keep a log."),
        EDITS,
        prepare=LOG,
        files=True,
    ),
    "edit_allowed": Scene(
        script(reply(READ), reply(EDIT), reply("Edited.")),
        turns("Mind the weather."),
        answers={"can_use_tool": allow},
        prepare=LOG,
        files=True,
    ),
    "edit_denied": Scene(
        script(reply(READ), reply(EDIT), reply("Not edited.")),
        turns("Mind the weather."),
        answers={"can_use_tool": deny},
        prepare=LOG,
        files=True,
    ),
    "edit_accepted": Scene(
        script(reply(READ), reply(EDIT), reply("Edited.")),
        turns("Mind the weather."),
        EDITS,
        prepare=LOG,
        files=True,
    ),
    "edit_fails": Scene(
        script(
            reply(EDIT),
            reply(READ),
            reply(tool("Edit", file_path="{{cwd}}/log.txt", old_string="fog", new_string="sun")),
            reply(tool("Edit", file_path="{{cwd}}/none.txt", old_string="a", new_string="b")),
            reply(tool("Edit", file_path="{{cwd}}/log.txt", old_string="a", new_string="a")),
            reply(tool("Edit", file_path="{{cwd}}/log.txt", old_string="a", new_string="b")),
            reply("It does not work."),
        ),
        turns("Mind the weather."),
        EDITS,
        {"can_use_tool": allow},
        prepare=LOG,
        files=True,
    ),
    "edit_all": Scene(
        script(
            reply(READ),
            reply(
                tool(
                    "Edit",
                    file_path="{{cwd}}/log.txt",
                    old_string="a",
                    new_string="o",
                    replace_all=True,
                )
            ),
            reply("Edited."),
        ),
        turns("Mind the weather."),
        EDITS,
        prepare=LOG,
        files=True,
    ),
    "read_file": Scene(
        script(reply(READ), reply("Read.")), turns("Read it."), (PARTIAL,), prepare=LOG
    ),
    "read_part": Scene(
        script(
            reply(tool("Read", file_path="{{cwd}}/log.txt", offset=2, limit=1)),
            reply(tool("Read", file_path="{{cwd}}/log.txt", offset=9)),
            reply("Read."),
        ),
        turns("Read it."),
        prepare=LOG,
    ),
    "read_fails": Scene(
        script(
            reply(tool("Read", file_path="{{cwd}}/none.txt")),
            reply(tool("Read", file_path="{{cwd}}")),
            reply(tool("Read", file_path="{{cwd}}/empty.txt")),
            reply(tool("Read")),
            reply("Nothing to read."),
        ),
        turns("Read it."),
        prepare=put(empty__txt=""),
    ),
    "unknown_tool": Scene(
        script(reply(tool("TodoWrite", todos=[])), reply(tool("Teleport")), reply("No.")),
        turns("Go."),
        covers="A18",
    ),
}
