"""Run the fake server as a process: ``python -m tests.fakes.lepton`` prints its URL and serves until killed."""

from __future__ import annotations

import argparse
import signal

from .server import FakeLepton


def main() -> None:
    """Parse the arguments, serve, stop on SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--workspace", default="ws1")
    parser.add_argument("--token", default="fake-token-0123456789")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with FakeLepton(arguments.workspace, arguments.token, port=arguments.port) as lepton:
        print(lepton.url, flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
