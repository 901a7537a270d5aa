"""Starts relays on a machine when a server elsewhere asks for them."""
