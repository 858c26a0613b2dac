"""A real S3 server on this machine (moto), in a process of its own; prints its port and serves until it is ended."""

from __future__ import annotations

import logging
import sys
import time

from moto.server import ThreadedMotoServer

if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    sys.stdout.write(f"{server.get_host_and_port()[1]}\n")
    sys.stdout.flush()
    while True:
        time.sleep(60)
