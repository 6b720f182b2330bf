"""When each part of a log was written: the batch script notes the length of each log now and then."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from datetime import datetime, timezone

SAMPLER = "sample.sh"
INDEX = "logs/index"

# Often while a job is young, seldom later. TERM ends it after one more look.
SAMPLE_SCRIPT = """\
export LC_ALL=C
declare -A seen
pause=0.5 round=0 last=
trap 'last=1' TERM
while :; do
  now=${EPOCHREALTIME:-$(date +%s.%N)}
  while read -r size file; do
    [ "${seen[$file]-}" = "$size" ] || echo "$now $file $size"
    seen[$file]=$size
  done < <(stat -c '%s %n' logs/*.log)
  [ -z "$last" ] || exit 0
  round=$((round + 1))
  [ $round != 120 ] || pause=2
  [ $round != 1800 ] || pause=10
  sleep $pause & wait $!
done >> logs/index 2>/dev/null
"""


class Timeline:
    """The notes of one job: for each file, how long it was when."""

    def __init__(self, text: str) -> None:
        self._rows: list[tuple[datetime, str, int]] = []
        self._offsets: dict[str, list[int]] = {}
        self._times: dict[str, list[datetime]] = {}
        for line in text.splitlines():
            words = line.split()
            if len(words) == 3 and words[2].isdecimal():
                self._add(datetime.fromtimestamp(float(words[0]), timezone.utc), words[1], int(words[2]))

    def _add(self, time: datetime, file: str, size: int) -> None:
        self._rows.append((time, file, size))
        self._offsets.setdefault(file, []).append(size)
        self._times.setdefault(file, []).append(time)

    def parts(self, file: str, offset: int, data: bytes) -> Iterator[tuple[datetime | None, bytes]]:
        """Bytes of a file cut where it was looked at, each part with the time at which it was first seen.

        What is newer than the last note has the last note's time.
        """
        offsets, times = self._offsets.get(file, []), self._times.get(file, [])
        while data:
            number = bisect.bisect_right(offsets, offset)
            if number >= len(offsets):
                yield (times[-1] if times else None), data
                return
            size = offsets[number] - offset
            yield times[number], data[:size]
            offset, data = offset + size, data[size:]

    def since(self, moment: datetime) -> dict[str, int]:
        """Where each file stood at the last note before `moment`."""
        found = {}
        for file, times in self._times.items():
            before = bisect.bisect_left(times, moment)
            found[file] = self._offsets[file][before - 1] if before else 0
        return found

    def slices(self, most: int) -> Iterator[dict[str, int]]:
        """Points in time, as file -> length, between which all files together grew by about `most` bytes."""
        sizes: dict[str, int] = {}
        cut = 0
        for _, file, size in self._rows:
            sizes[file] = size
            if sum(sizes.values()) - cut >= most:
                cut = sum(sizes.values())
                yield dict(sizes)
