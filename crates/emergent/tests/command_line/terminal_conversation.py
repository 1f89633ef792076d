"""Runs a command on a pseudo terminal of 24 lines and 100 columns, and types when a text appears.

    python3 terminal_conversation.py STEPS COMMAND...

STEPS is a JSON list of [text to wait for, text to type]. The exit code is that of the command, and 99 if a text
did not appear in time. What the command wrote is printed.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

PATIENCE_SECONDS = 15

steps = json.loads(sys.argv[1])
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    os.execvp(sys.argv[2], sys.argv[2:])
written, position = b"", 0
deadline = time.monotonic() + PATIENCE_SECONDS


def read():
    """Reads what there is; False when the other end is closed or time is up."""
    global written
    ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
    if not ready:
        return False
    try:
        part = os.read(terminal, 65536)
    except OSError:
        return False
    written += part
    return bool(part)


missing = None
for expected, typed in steps:
    while (found := written.find(expected.encode(), position)) < 0:
        if not read():
            missing = expected
            break
    if missing is not None:
        break
    position = found + len(expected.encode())
    os.write(terminal, typed.encode())
while missing is None and read():
    pass
sys.stdout.buffer.write(written)
sys.stdout.buffer.flush()
if missing is not None:
    print(f"this did not appear: {missing!r}", file=sys.stderr)
    os.kill(pid, signal.SIGKILL)
    sys.exit(99)
if time.monotonic() >= deadline:
    print("the command did not end", file=sys.stderr)
    os.kill(pid, signal.SIGKILL)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
