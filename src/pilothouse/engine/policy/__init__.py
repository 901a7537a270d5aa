"""Rules that answer questions before a person is asked."""

from .policy import Decision, JudgedAsk, Policy, PolicyFile, Rule, Verdict, dry_run, read_policy

__all__ = [
    "Decision",
    "JudgedAsk",
    "Policy",
    "PolicyFile",
    "Rule",
    "Verdict",
    "dry_run",
    "read_policy",
]
