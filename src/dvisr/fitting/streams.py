"""The streams of random numbers of a fit, each of its own: `default_rng([seed, stream])`.

The search itself has the seed's own stream. A form that is weighed has one of its tokens, whose
numbers are below these.
"""

from __future__ import annotations

RACED_ROWS = 1001  # rows that trees race on
NETWORK_DRAWS = 1002
READ_ROWS = 1003  # rows that the network reads
POSTERIOR_DRAWS = 1004
CHECKED_ROWS = 1005  # rows that the data are checked at, and what is replicated there
