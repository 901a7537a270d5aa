"""The face for MCP clients: seven tools, forms for questions, resources and prompts."""
