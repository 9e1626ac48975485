"""log p(tree) of many rows of tokens on the host, by one compiled walk along each."""

from __future__ import annotations

import numpy as np

from dvisr.library.compiling import compiled


@compiled
def log_prob_of_rows(rows, log_size, log_token, below, right, kinds, arities):
    """Of int8 (trees, length), complete trees padded with -1; see `Surroundings` for the places."""
    num_rows, length = rows.shape
    found = np.empty(num_rows)
    parent = np.empty(length, dtype=np.int64)  # of each position: the position above it
    waiting = np.empty(length, dtype=np.int64)  # binary operators whose right operand is to come
    for number in range(num_rows):
        row = rows[number]
        total, num_waiting, size, is_first = 0.0, 0, 0, True
        for position in range(length):
            token = row[position]
            if token < 0:
                break
            size += 1
            place = 0
            if position > 0:
                if is_first:
                    above = position - 1
                else:
                    num_waiting -= 1
                    above = waiting[num_waiting]
                parent[position] = above
                kind = 0 if above == 0 else kinds[row[parent[above]]]
                if is_first:
                    place = below[kind, row[above]]
                else:
                    place = right[kind, row[above], row[above + 1]]
            total += log_token[place, token]
            is_first = arities[token] > 0
            if arities[token] == 2:
                waiting[num_waiting] = position
                num_waiting += 1
        found[number] = total + log_size[size]
    return found
