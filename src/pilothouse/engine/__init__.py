"""Owns sessions: their states, questions, policy, journal, history and cost."""
