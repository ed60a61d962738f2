"""Published claims about speed, as data in ``<workload>.toml``, measured and judged here."""
