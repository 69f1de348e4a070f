"""Align a sentence that has slips with the frame it resembles: the cheapest way to turn one into the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from wmbench.lab.index import Gap, Pattern

SKIP_WORD = 1.0  # a word of the sentence that the frame does not have
SKIP_LITERAL = 1.0  # a word of the frame that the sentence lacks
EMPTY_GAP = 1.4  # a gap with nothing in it
# At most this share of the frame and sentence may disagree before we stop believing that it is the same sentence.
BELIEVED = 0.28


@dataclass(frozen=True, slots=True)
class Alignment:
    """Cost, fillers of the gaps that could be read, and the runs of words that agree without a break."""

    cost: float
    size: int
    fillers: tuple[tuple[Gap, Any], ...]
    runs: tuple[tuple[int, int], ...]
    complete: bool  # whether every content slot was read

    @property
    def close_enough(self) -> bool:
        """Whether the sentence may be taken for this frame."""
        return self.complete and self.cost <= BELIEVED * self.size

    def shifted(self, offset: int) -> Alignment:
        """The same with runs counted from an earlier word."""
        return replace(self, runs=tuple((start + offset, end + offset) for start, end in self.runs))


def align(pattern: Pattern, tokens: list[str]) -> Alignment:
    """The cheapest alignment of a pattern with a sentence."""
    parts = pattern.parts
    rows, columns = len(parts) + 1, len(tokens) + 1
    worst = float("inf")
    cost = [[worst] * columns for _ in range(rows)]
    back: list[list[tuple[int, int, Any]]] = [[(0, 0, None)] * columns for _ in range(rows)]
    cost[0][0] = 0.0

    for row in range(rows):
        for column in range(columns):
            here = cost[row][column]
            if here == worst:
                continue
            moves: list[tuple[int, int, float, Any]] = []
            if column < len(tokens):
                moves.append((row, column + 1, SKIP_WORD, None))
            if row < len(parts):
                part = parts[row]
                if isinstance(part, str):
                    moves.append((row + 1, column, SKIP_LITERAL, None))
                    if column < len(tokens) and tokens[column] == part:
                        moves.append((row + 1, column + 1, 0.0, True))
                else:
                    moves.append((row + 1, column, EMPTY_GAP, None))
                    moves.extend((row + 1, end, 0.0, payload) for end, payload in part.ends(tokens, column))
            for to_row, to_column, price, how in moves:
                if here + price < cost[to_row][to_column]:
                    cost[to_row][to_column] = here + price
                    back[to_row][to_column] = (row, column, how)
    return trace(pattern, tokens, cost[-1][-1], back)


def trace(pattern: Pattern, tokens: list[str], cost: float, back: list[list[tuple[int, int, Any]]]) -> Alignment:
    """Walk the cheapest path back and collect what agreed."""
    row, column = len(pattern.parts), len(tokens)
    fillers: list[tuple[Gap, Any]] = []
    runs: list[tuple[int, int]] = []
    joined = False
    while row or column:
        from_row, from_column, how = back[row][column]
        if how is None:
            joined = False
        else:
            part = pattern.parts[from_row]
            if not isinstance(part, str):
                fillers.append((part, how))
            if joined and runs:
                runs[-1] = (from_column, runs[-1][1])
            else:
                runs.append((from_column, column))
            joined = True
        row, column = from_row, from_column
    read = {gap.slot.name for gap, _ in fillers if gap.slot.group is None}
    wanted = {part.slot.name for part in pattern.parts if isinstance(part, Gap) and part.slot.group is None}
    return Alignment(cost, len(tokens) + len(pattern.parts), tuple(fillers[::-1]), tuple(runs[::-1]), read >= wanted)
