"""Runs a command on a pseudo terminal of a given size, and prints what it wrote.

    python3 pseudo_terminal.py ROWS COLUMNS INPUT COMMAND...

INPUT is typed at the start. The exit code is that of the command.
"""

import fcntl
import os
import pty
import struct
import sys
import termios

rows, columns, typed = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
pid, terminal = pty.fork()
if pid == 0:
    # The size has to be there before the command asks for it.
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.execvp(sys.argv[4], sys.argv[4:])
if typed:
    os.write(terminal, typed.encode())
while True:
    try:
        part = os.read(terminal, 65536)
    except OSError:  # The other end is closed.
        break
    if not part:
        break
    sys.stdout.buffer.write(part)
sys.stdout.buffer.flush()
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
