"""The same work in several source trees, by turns; each tree in processes of its own."""

import os
import random
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.harness.jars import ROOT
from benchmarks.harness.processes import run_tool
from sluicegate.host.children import python_command

_GIT_S = 120
_BROKERS = "kafka,pulsar,danube"
"""Plugins that all trees have. What is installed names others, too."""
_LIKE = 0.05
"""Sent bytes of two trees differ by this part at most; frames of the gateway's own may be others."""


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """A folder with the tree of a commit, for as long as it is needed.

    :raises RuntimeError: if there is no such commit, or no git.
    """
    git: list[str | Path] = ["git", "-C", ROOT, "worktree"]
    with tempfile.TemporaryDirectory(prefix="sluicegate-against-") as folder:
        tree = Path(folder) / "tree"
        run_tool([*git, "add", "--detach", tree, commit], _GIT_S)
        try:
            yield tree
        finally:
            run_tool([*git, "remove", "--force", tree], _GIT_S)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one replay took."""

    cpu_ns: int
    sent_bytes: tuple[int, int]
    """To the broker and to the client."""


class ReplayProcess:
    """A process that replays a conversation in one tree; it ends with the context.

    :param tree: the root of a source tree.
    :param conversation: the file with it.
    """

    def __init__(self, tree: Path, conversation: Path) -> None:
        settings = tomllib.loads((tree / "pyproject.toml").read_text())
        folders = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["dev-mode-dirs"]
        # The tree's packages, and from this tree the program that replays.
        path = os.pathsep.join(map(str, [*(tree / folder for folder in folders), ROOT]))
        self._tree = tree
        self._process = subprocess.Popen(
            python_command("benchmarks.harness.replay_worker", str(conversation)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "SLUICEGATE_LOAD_PLUGINS": _BROKERS},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate()

    def wait_ready(self) -> None:
        """Wait until it has replayed once.

        :raises RuntimeError: if it cannot, or would replay in another tree.
        """
        loaded = Path(self._line())
        if not loaded.is_relative_to(self._tree.resolve()):
            raise RuntimeError(f"sluicegate comes from {loaded}, not from {self._tree}")

    def replay(self) -> Turn:
        """Replay once.

        :raises RuntimeError: if the relay does not take the conversation.
        """
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        cpu_ns, to_broker, to_client = map(int, self._line().split())
        return Turn(cpu_ns, (to_broker, to_client))

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the replay in {self._tree} ended; its output says why")
        return line.strip()


def ratios(trees: Mapping[str, Path], base: str, conversation: Path, turns: int) -> dict[str, list[float]]:
    """CPU time of each turn by that of a base, in one process for each tree.

    :param trees: their roots, by name.
    :param base: the name of the tree by whose time the others' are divided.
    :param turns: replays of each; their order is random.
    :raises RuntimeError: if a tree does not take the conversation, or sends much more or less than the base.
    """
    by_tree: dict[str, list[float]] = {name: [] for name in trees if name != base}
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(ReplayProcess(tree, conversation)) for name, tree in trees.items()
        }
        for process in processes.values():
            process.wait_ready()
        for _ in range(turns):
            taken = {name: processes[name].replay() for name in random.sample(list(trees), len(trees))}
            for name, of_name in by_tree.items():
                _check_alike(name, taken[name], taken[base])
                of_name.append(taken[name].cpu_ns / taken[base].cpu_ns)
    return by_tree


def _check_alike(name: str, turn: Turn, base: Turn) -> None:
    """A tree that refuses what the other one passes on is not to be compared with it."""
    for sent, expected in zip(turn.sent_bytes, base.sent_bytes, strict=True):
        if abs(sent - expected) > _LIKE * expected:
            raise RuntimeError(
                f"{name} sends {turn.sent_bytes} bytes to broker and client, not {base.sent_bytes}"
            )
