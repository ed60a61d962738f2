"""Comparisons with other people's libraries, each a command of its own."""
