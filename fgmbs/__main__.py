"""The process of a command: it ends in order when it is interrupted, whatever it is doing."""

import os
import signal
import socket
import sys
import threading

_INTERRUPTED = 130
_AGAIN = 0.05
"""After which an interrupt that was ignored comes again [s]."""


def main() -> None:
    """Runs a command and exits with its code. Ctrl-C ends it and keeps what is reached; the second one ends it at once.

    After an interrupt the process ends without waiting for programs that are still being compiled.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        _listen()
    try:
        from fgmbs import cli  # within, so that its imports can be interrupted

        code = cli.main()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: what is left is the end of the process
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _listen() -> None:
    """Lets no interrupt be lost: neither one that an unrelated callback ignores, nor a second one that Python cannot
    look at because it compiles."""
    repeated = 0

    def again(ignored) -> None:
        nonlocal repeated
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            return sys.__unraisablehook__(ignored)
        repeated += 1
        timer = threading.Timer(_AGAIN, signal.raise_signal, [signal.SIGINT])
        timer.daemon = True
        timer.start()

    def watch() -> None:
        heard = 0
        while number := reader.recv(1):
            heard += number[0] == signal.SIGINT
            if heard - repeated > 1:
                os.write(2, b"interrupted again: nothing more is saved\n")
                os._exit(_INTERRUPTED)

    reader, writer = socket.socketpair()
    writer.setblocking(False)
    # Detached, so that it lives as long as the process.
    signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)
    sys.unraisablehook = again
    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
