"""Settle: seeds are added until questions are answered, and no longer.

* `goals`: what a call asks for, by `asking` what its words mean; `until` every question of a plan of looks is settled,
  or the `best` of many arms is found;
* `spending`: what runs take, and whether they fit into a budget; `telling`: what a look found, in words.
"""
