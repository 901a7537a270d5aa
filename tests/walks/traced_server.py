"""`python traced_server.py FOLDER`: `pilothouse serve`, traced, with traced relays."""
