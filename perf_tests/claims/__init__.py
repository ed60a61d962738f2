"""The ledger of claims: published statements about speed, as data in ``<workload>.toml``, and verdicts on them."""
