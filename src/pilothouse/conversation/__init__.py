"""What a person reads of a session: items, folded from its events.

    items        the kinds of items
    tool_views   how the call of a tool is best shown
    fold         Conversation: events in, items and patches out
    patches      how items change; changes joined for slow readers
    transcripts  Claude's own files, read as events of the same kind

Pure: no clock, no file, no process. The same events always give the same items.
"""

from .fold import Conversation
from .items import Item
from .patches import Patch, join_patches

__all__ = ["Conversation", "Item", "Patch", "join_patches"]
