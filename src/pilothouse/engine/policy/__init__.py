"""Rules that answer questions before a person is asked."""

from .policy import Ask, Decision, Policy, PolicyFile, Rule, Verdict, dry_run

__all__ = ["Ask", "Decision", "Policy", "PolicyFile", "Rule", "Verdict", "dry_run"]
