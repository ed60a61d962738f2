"""Mario: experience pipelines, from processes that collect it to the replay that a learner draws from."""
