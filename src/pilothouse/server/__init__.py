"""One server for each user and machine: found, started, served and ended."""
