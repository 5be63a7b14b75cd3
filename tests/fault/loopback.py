"""A network of processes on loopback, with an address of 127.0.0.0/8 for each node."""
import os
import shutil
import subprocess


class Loopback:
    """The part of links.Network that needs no rights. A context manager: at its end the processes
    in it are dead."""

    def __init__(self, names):
        number = os.getpid()
        prefix = f"127.{64 + number // 256 % 64}.{number % 256}"
        self.addresses = {name: f"{prefix}.{position + 1}" for position, name in enumerate(names)}
        self.processes = []
        # Processes end with this one, however it ends.
        self.guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        for process in self.processes:
            process.wait()

    def address(self, name):
        return self.addresses[name]

    def start(self, _name, command, **options):
        process = subprocess.Popen([*self.guard, *map(str, command)], **options)
        self.processes.append(process)
        return process
