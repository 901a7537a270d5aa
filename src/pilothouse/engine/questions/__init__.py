"""One model for all a session asks a person: tools, plans, the model's questions, MCP forms.

    pose(request, ...)        a request of the CLI's -> the question every face shows
    check(question, answer)   refuses an answer that does not fit, and says which would
    settled(request, answer)  our answer -> what the CLI is told
    elicited(answer)          the same for an MCP server's form or page
    statement(question, ...)  the message that tells a decision to a session whose CLI had died

Texts for people are escaped (see `descriptions`); `input`, `plan` and `schema` are as they came.
"""

from .answer_check import check
from .question import closed, decided, pose, same
from .settling import elicited, settled
from .statements import statement

__all__ = [
    "check",
    "closed",
    "decided",
    "elicited",
    "pose",
    "same",
    "settled",
    "statement",
]
