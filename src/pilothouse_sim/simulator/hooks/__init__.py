"""Hooks: callbacks in the client and commands, called where the CLI calls them."""
