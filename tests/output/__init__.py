"""Text that would control a terminal."""

HOSTILE = "a\x1b]0;owned\x07\x9b2J\x7f\r\u202etxt\u2066\u2028\ud800\nforged line \U000e0001"
"""C0, C1, DEL, changes of direction, line ends, half of a character, an invisible one beyond 16 bits."""
SHOWN = r"a\x1b]0;owned\x07\x9b2J\x7f\r\u202etxt\u2066\u2028\ud800\nforged line \U000e0001"
