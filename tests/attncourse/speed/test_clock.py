"""Models that write in turns: what is timed, and what they wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attncourse.speed import time_generation


class Counting:
    """A writer that goes on counting, and notes how far it was asked to."""

    def __init__(self, step: int) -> None:
        self.step, self.asked = step, 0

    def generate_ids(self, token_ids: Sequence[int], num_tokens: int, /) -> Iterator[int]:
        for _ in range(num_tokens):
            self.asked += 1
            yield token_ids[-1] + self.step * self.asked


def test_each_writes_the_first_token_untimed_and_the_steps_in_turns():
    writers = {"ones": Counting(1), "threes": Counting(3)}
    ms, written = time_generation(writers, [2, 5], 7)
    assert written == {"ones": [*range(6, 14)], "threes": [*range(8, 30, 3)]}
    assert list(ms) == list(writers)
    assert all(each >= 0 for each in ms.values())
    assert [writer.asked for writer in writers.values()] == [8, 8]
