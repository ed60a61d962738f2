"""Speed over commits: each compared with a release, kept for good, searched for steps and drift.

To be read in this order: ``entries.py``, what is kept; ``releases.py``, what a commit is compared with;
``measure.py``, by pairs of the gate; ``chain.py``, ratios across releases; ``steps.py``, where they change;
``drawn.py``, what is shown. ``power.py`` measures how often that is wrong.
"""
