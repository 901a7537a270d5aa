"""What a person reads of a session: items, folded from its events.

    fold         Conversation: events in, items and patches out
    tool_views   how the call of a tool is best shown
    timeline     what the time of its items went into
    patches      changes joined for slow readers
    search       where words stand in an item
    transcripts  Claude's own files, read as events of the same kind

The kinds of items are in `api.items`. Pure: no clock, no file, no process. The same events always
give the same items.
"""

from .fold import Conversation
from .patches import apply_patches, join_patches

__all__ = ["Conversation", "apply_patches", "join_patches"]
