"""Print how many milliseconds a fixed piece of work takes on two cores at once: how fast this machine is now.

Wall time counts, so a limit on CPU time and busy neighbours make a machine as slow as an old processor does.
"""

import hashlib
import json
import multiprocessing
import re
import time

_ROUNDS = 120


def work() -> None:
    """What the tests spend their time on: objects, text, regular expressions, digests."""
    pattern = re.compile(r"(\w+)-(\d+)")
    rows = [
        {"topic": f"orders-{number}", "rate": number * 1.5, "groups": ["a", "b"]} for number in range(500)
    ]
    for _ in range(_ROUNDS):
        text = json.dumps(rows)
        assert len(pattern.findall(text)) == len(rows) == len(json.loads(text))
        for row in rows:
            row["digest"] = hashlib.sha256(repr(row["topic"]).encode()).hexdigest()


if __name__ == "__main__":
    workers = [multiprocessing.Process(target=work) for _ in range(2)]
    began = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(round((time.monotonic() - began) * 1_000))
