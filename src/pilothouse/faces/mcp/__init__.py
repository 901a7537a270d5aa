"""The face for MCP clients: six tools, forms for questions, resources and prompts."""
