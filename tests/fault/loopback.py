"""A network of processes on loopback."""
import os
import shutil
import subprocess


class Loopback:
    """The part of links.Network that needs no rights. A context manager: at its end the processes
    in it are dead."""

    def __init__(self):
        number = os.getpid()
        self.own_address = f"127.{64 + number // 256 % 64}.{number % 256}.1"
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

    def address(self, _name):
        """For the one node that chooses its port: no other test uses this address."""
        return self.own_address

    @staticmethod
    def listen_address(_name, _port):
        """The tracker sees every member at 127.0.0.1, so each has a port of its own."""
        return "tcp://127.0.0.1:*"

    def start(self, _name, command, **options):
        process = subprocess.Popen([*self.guard, *map(str, command)], **options)
        self.processes.append(process)
        return process
