"""A kind of task that is made up is added to the table of a process of its own, not of that of the other tests."""

collect_ignore = ["made_up_kind.py"]
