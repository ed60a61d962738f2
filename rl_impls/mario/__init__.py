"""Mario by deep Q-learning from pictures."""
