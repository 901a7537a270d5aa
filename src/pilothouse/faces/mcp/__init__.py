"""Any MCP client operates sessions: six tools, forms for what is asked, resources, prompts."""
