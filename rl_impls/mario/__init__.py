"""Experience from collector processes: its transport, its replay, and the learner at its end."""
