"""`python -m pilothouse.relay`: a relay without the rest of the command."""

from __future__ import annotations

import sys

from .main import main

sys.exit(main())
