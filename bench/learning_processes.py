"""Processes of one run of the learning bench: wait, stop, and measure their CPU time."""

import os
import signal
import subprocess
import time

STOP_SECONDS = 20  # skep saves within 8 s of a signal


class Interrupted(Exception):
    """The bench was asked to stop; the run continues at the next call."""


class Processes:
    """Starts processes and waits for them; measures CPU time; ends all of them on a stop."""

    def __init__(self, stop):
        self.stop = stop
        self.cpu_seconds = 0.0

    def is_running(self, process):
        if process.returncode is None:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_seconds += usage.ru_utime + usage.ru_stime
        return process.returncode is None

    def end(self, processes, how=signal.SIGTERM):
        """Signal all, wait for all, and kill those that do not end."""
        for process in processes:
            if self.is_running(process):
                process.send_signal(how)
        deadline = time.monotonic() + STOP_SECONDS
        while any([self.is_running(process) for process in processes]):
            if time.monotonic() > deadline:
                how, deadline = signal.SIGKILL, deadline + STOP_SECONDS
                for process in processes:
                    if self.is_running(process):
                        process.kill()
            time.sleep(0.05)

    def run(self, command, **options):
        """Run one command to its end; RuntimeError for another exit code than 0."""
        process = subprocess.Popen(command, **options)
        while self.is_running(process):
            if self.stop.wait(0.2):
                self.end([process])
                raise Interrupted
        if process.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))}: exit code {process.returncode}")
