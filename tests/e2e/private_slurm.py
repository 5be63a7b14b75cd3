"""A Slurm of one machine that lives in a folder of its own and leaves nothing behind.

munged, slurmctld and slurmd run as the current user, on free ports, and end with this process even
when it is killed. Its commands (srun, sbatch) are meant by `environment`.
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

DAEMONS = ("munged", "slurmctld", "slurmd")
START_S = 20

CONFIGURATION = """\
ClusterName=private
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PropagateResourceLimits=NONE
KillWait=10
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


class NoSlurm(Exception):
    """Slurm is not here or does not start; says why."""


def program(name):
    """Daemons lie in folders that PATH often lacks."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class PrivateSlurm:
    def __init__(self):
        missing = [name for name in DAEMONS + ("srun", "sbatch") if program(name) is None]
        if missing:
            raise NoSlurm("not installed: " + ", ".join(missing))
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        self.folder.chmod(0o755)  # munged wants every user to reach its socket
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self.processes = []
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        host = socket.gethostname().partition(".")[0]
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=host, folder=self.folder, ports=free_ports(2), user=os.geteuid()))
        # Of no use here, and the one that starts where control groups cannot be written.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.launch("munged", "--foreground", "--num-threads=2", f"--key-file={key}",
                    *(f"--{option}-file={self.folder}/munge.{option}"
                      for option in ("log", "pid", "seed")),
                    f"--socket={self.folder}/munge.socket")
        self.wait_for("munged", (self.folder / "munge.socket").exists)
        self.launch("slurmctld", "-D", "-c")
        self.launch("slurmd", "-D")
        self.wait_for("slurmd", lambda: "idle" in self.run("sinfo", "-h", "-o", "%T").stdout)

    def launch(self, name, *arguments):
        with open(self.folder / f"{name}.out", "w", encoding="utf-8") as out:
            self.processes.append(subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", program(name), *arguments], stdout=out,
                stderr=out, stdin=subprocess.DEVNULL, env={**os.environ, **self.environment}))

    def wait_for(self, name, condition):
        deadline = time.monotonic() + START_S
        while not condition():
            ended = any(process.poll() is not None for process in self.processes)
            if ended or time.monotonic() > deadline:
                said = (self.folder / f"{name}.out").read_text()
                raise NoSlurm(f"{name} {'ended' if ended else 'is not ready'}: {said[-300:]}")
            time.sleep(0.05)

    def run(self, *command, **options):
        return subprocess.run(command, env={**os.environ, **self.environment}, text=True,
                              capture_output=True, check=False, timeout=60, **options)

    def owned(self):
        """Processes with this Slurm's environment: its daemons and the steps they have begun."""
        mark = f"SLURM_CONF={self.environment['SLURM_CONF']}".encode()
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def stop(self):
        for pid in self.owned():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self.processes:
            process.wait(timeout=START_S)
        shutil.rmtree(self.folder, ignore_errors=True)
