"""Where CLIs come in that are no child of ours: turns a socket into a transport for the engine."""
