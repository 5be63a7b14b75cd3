"""One site under real launchers: a private Slurm's srun and sbatch, OpenMPI's mpirun, and variables
as torchrun sets them. Whoever starts the ranks, the bits are those of `--ranks`.

What is not installed is skipped.
"""
import atexit
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import unittest

from private_slurm import NoSlurm, PrivateSlurm
from small_run import SANITIZED, SKEP, TIMEOUT_S, RunTest, main, wait_until

RANKS = 3
LOSS_S = 5 if not SANITIZED else 15  # until every rank has ended after one was killed
# 7 rows a step: 3 microbatches, and the last of 9 rows are empty.
RUN = {"steps": 6, "batch.microbatch": 1, "batch.tokens": 112}
SLOW = {"steps": 100000, "snapshot.every": 4, "schedule.kind": "constant"}
SRUN = ("srun", "-n", RANKS, "--overcommit")
MPIRUN = ("mpirun", "-n", RANKS, "--oversubscribe") + (("--allow-run-as-root",)
                                                       if os.geteuid() == 0 else ())


def inherited():
    """This process's environment without what another launcher may have left in it."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith(("SLURM_", "OMPI_", "PMIX_", "RANK", "WORLD_", "LOCAL_",
                                    "MASTER_", "SKEP_"))}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def running(folder):
    """Environments of the program's processes in a folder, by their numbers."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (os.path.samefile(entry / "exe", SKEP) and
                    os.path.samefile(entry / "cwd", folder.path)):
                lines = (entry / "environ").read_bytes().split(b"\0")
                found[int(entry.name)] = dict(line.decode().split("=", 1) for line in lines if line)
        except (OSError, ValueError):
            continue
    return found


class Launched(RunTest):
    """Runs of `skep train` in small folders, compared with those that --ranks starts."""

    expected = {}

    def run_folder(self, **changes):
        return self.folder(**{**RUN, **changes})

    def state_of(self, *arguments):
        """The last snapshot's bytes after `skep train ARGUMENTS`, started by nobody else."""
        if arguments not in self.expected:
            folder = self.run_folder()
            self.launch(folder, "skep", "train", "run.yaml", *arguments)
            self.expected[arguments] = folder.state()
        return self.expected[arguments]

    def begin(self, folder, *command, environment=None):
        """A command in the background, "skep" being the program; what it says in run.log."""
        words = ["setpriv", "--pdeathsig", "TERM"]
        words += [SKEP if word == "skep" else str(word) for word in command]
        with open(folder.path / "run.log", "a", encoding="utf-8") as log:
            process = subprocess.Popen(words, cwd=folder.path, stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL, start_new_session=True,
                                       env={**inherited(), **(environment or {})})
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        """Also what a launcher that was killed leaves of its session."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait(timeout=TIMEOUT_S)

    def launch(self, folder, *command, environment=None, code=0):
        process = self.begin(folder, *command, environment=environment)
        self.assertEqual(process.wait(timeout=TIMEOUT_S), code, f"{command}\n{folder.log()}")

    def assert_source(self, folder, source, ranks):
        """Our first line among what the launcher itself may say."""
        first = next((line for line in folder.log().splitlines() if source in line), "")
        self.assertIn(str(ranks), first, folder.log())
        before = folder.log().partition(first)[0]
        self.assertNotIn("step ", before)

    def kill_rank(self, folder, variable, rank):
        """Kill one rank of a run that is under way; the instant."""
        self.assertTrue(wait_until(lambda: len(folder.metrics("step")) >= 6), folder.log())
        ranks = {int(environment[variable]): pid for pid, environment in running(folder).items()
                 if variable in environment}
        self.assertEqual(sorted(ranks), list(range(RANKS)))
        os.kill(ranks[rank], signal.SIGKILL)
        return time.monotonic()

    def assert_all_end(self, folder, killed_at):
        self.assertTrue(wait_until(lambda: not running(folder), LOSS_S), folder.log())
        self.assertLess(time.monotonic() - killed_at, LOSS_S)

    def goes_on(self, folder, *command, environment=None):
        """After a loss the same command ends as if nothing had happened."""
        done = folder.metrics("step")[-1]["step"] + 10
        self.launch(folder, *command, f"steps={done}", environment=environment)
        whole = self.run_folder(**SLOW)
        self.launch(whole, "skep", "train", "run.yaml", "--ranks", RANKS, f"steps={done}")
        self.assertTrue(folder.state() == whole.state(), "a run that lost a rank has other bits")


class Torchrun(Launched):
    """RANK and its companions, set by a loop."""

    def place(self, rank, port, **changes):
        return {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), **changes}

    def begin_ranks(self, folder, order, delay_s=0.0):
        port = free_port()
        processes = {}
        for rank in order:
            processes[rank] = self.begin(folder, "skep", "train", "run.yaml",
                                         environment=self.place(rank, port))
            time.sleep(delay_s)
        return processes

    def test_ranks_in_any_order_with_delays_have_the_bits_of_ranks(self):
        for order, delay_s in (((0, 1, 2), 0.0), ((2, 1, 0), 0.3), ((1, 0, 2), 0.7)):
            with self.subTest(order=order):
                folder = self.run_folder()
                for rank, process in self.begin_ranks(folder, order, delay_s).items():
                    self.assertEqual(process.wait(timeout=TIMEOUT_S), 0, (rank, folder.log()))
                self.assert_source(folder, "torchrun", RANKS)
                self.assertTrue(folder.state() == self.state_of("--ranks", RANKS))

    def test_when_a_rank_is_killed_the_others_exit_4(self):
        for lost in (0, 1):
            with self.subTest(lost=lost):
                folder = self.run_folder(**SLOW)
                processes = self.begin_ranks(folder, range(RANKS))
                killed_at = self.kill_rank(folder, "RANK", lost)
                self.assert_all_end(folder, killed_at)
                codes = [process.wait(timeout=TIMEOUT_S) for process in processes.values()]
                self.assertEqual(codes, [-9 if rank == lost else 4 for rank in range(RANKS)],
                                 folder.log())
                self.assertIn(f"rank {lost}", folder.log())

    def test_the_flag_beats_the_variables(self):
        folder = self.run_folder()
        environment = self.place(1, free_port(), WORLD_SIZE="9", LOCAL_WORLD_SIZE="9")
        self.launch(folder, "skep", "train", "run.yaml", "--ranks", RANKS, environment=environment)
        self.assert_source(folder, "--ranks", RANKS)
        self.assertTrue(folder.state() == self.state_of("--ranks", RANKS))


@unittest.skipIf(shutil.which("mpirun") is None, "no mpirun here")
class Mpirun(Launched):
    def test_ranks_have_the_bits_of_ranks(self):
        folder = self.run_folder()
        self.launch(folder, *MPIRUN, "skep", "train", "run.yaml")
        self.assert_source(folder, "OpenMPI", RANKS)
        self.assertTrue(folder.state() == self.state_of("--ranks", RANKS))

    def test_a_killed_rank_ends_all_and_is_reported_and_the_run_goes_on(self):
        """mpirun reports the first end that it notices: the killed rank's or another one's."""
        folder = self.run_folder(**SLOW)
        process = self.begin(folder, *MPIRUN, "skep", "train", "run.yaml")
        killed_at = self.kill_rank(folder, "OMPI_COMM_WORLD_RANK", 1)
        self.assert_all_end(folder, killed_at)
        said = {128 + signal.SIGKILL: r"process rank 1 with PID \d+ .*\s+exited on signal 9",
                4: r"Exit code: +4"}
        code = process.wait(timeout=TIMEOUT_S)
        self.assertIn(code, said, folder.log())
        self.assertRegex(folder.log(), said[code])
        self.goes_on(folder, *MPIRUN, "skep", "train", "run.yaml")

    def test_the_flag_beats_mpirun(self):
        folder = self.run_folder()
        self.launch(folder, *MPIRUN, "-n", 1, "skep", "train", "run.yaml", "--ranks", RANKS)
        self.assert_source(folder, "--ranks", RANKS)
        self.assertTrue(folder.state() == self.state_of("--ranks", RANKS))


class Slurm(Launched):
    @classmethod
    def setUpClass(cls):
        try:
            cls.slurm = PrivateSlurm()
        except NoSlurm as reason:
            raise unittest.SkipTest(str(reason)) from None
        cls.addClassCleanup(cls.slurm.stop)
        atexit.register(cls.slurm.stop)

    def launch(self, folder, *command, environment=None, code=0):
        super().launch(folder, *command, code=code,
                       environment={**self.slurm.environment, **(environment or {})})

    def submit(self, folder, script, *before):
        """A batch script for RANKS tasks, submitted by `before sbatch`, from begin to end."""
        (folder.path / "job.sh").write_text(f"#!/bin/sh\n{script}\necho $? > code\n")
        result = self.slurm.run(*map(str, before), "sbatch", "-n", str(RANKS), "--overcommit", "-o",
                                "run.log", "job.sh", cwd=folder.path)
        self.assertEqual(result.returncode, 0, result.stderr)
        code = folder.path / "code"
        self.assertTrue(wait_until(lambda: code.exists() and code.read_text(), TIMEOUT_S))
        self.assertEqual(code.read_text(), "0\n", folder.log())

    def test_steps_of_srun_have_the_bits_of_ranks(self):
        folder = self.run_folder()
        self.launch(folder, *SRUN, "skep", "train", "run.yaml")
        self.assert_source(folder, "Slurm", RANKS)
        self.assertTrue(folder.state() == self.state_of("--ranks", RANKS))

    def test_a_batch_script_alone_is_one_rank(self):
        folder = self.run_folder()
        self.submit(folder, f"{SKEP} train run.yaml")
        self.assertNotIn("Slurm", folder.log())
        self.assertTrue(folder.state() == self.state_of())

    def test_a_batch_script_submitted_from_inside_a_step_is_one_rank(self):
        folder = self.run_folder()
        self.submit(folder, f"{SKEP} train run.yaml", *SRUN, "sh", "-c",
                    'test $SLURM_PROCID != 1 || exec "$@"', "sh")
        self.assertNotIn("Slurm", folder.log())
        self.assertTrue(folder.state() == self.state_of())

    def test_srun_in_a_batch_script_has_the_bits_of_ranks(self):
        folder = self.run_folder()
        self.submit(folder, f"srun --overcommit {SKEP} train run.yaml")
        self.assert_source(folder, "Slurm", RANKS)
        self.assertTrue(folder.state() == self.state_of("--ranks", RANKS))

    def test_a_killed_rank_ends_all_and_is_reported_and_the_run_goes_on(self):
        folder = self.run_folder(**SLOW)
        process = self.begin(folder, *SRUN, "skep", "train", "run.yaml",
                             environment=self.slurm.environment)
        killed_at = self.kill_rank(folder, "SLURM_PROCID", 1)
        self.assert_all_end(folder, killed_at)
        self.assertEqual(process.wait(timeout=TIMEOUT_S), 128 + signal.SIGKILL, folder.log())
        self.assertIn("task 1: Killed", folder.log())
        self.assertIn("tasks 0,2: Exited with exit code 4", folder.log())
        self.goes_on(folder, *SRUN, "skep", "train", "run.yaml")

    def test_a_cancelled_step_saves_what_it_has_done(self):
        """Slurm sends SIGTERM, and SIGKILL only KillWait later."""
        folder = self.run_folder(**SLOW)
        process = self.begin(folder, *SRUN, "skep", "train", "run.yaml",
                             environment=self.slurm.environment)
        self.assertTrue(wait_until(lambda: len(folder.metrics("step")) >= 6), folder.log())
        job = next(iter(running(folder).values()))["SLURM_JOB_ID"]
        self.assertEqual(self.slurm.run("scancel", job).returncode, 0)
        self.assertEqual(process.wait(timeout=TIMEOUT_S), 0, folder.log())
        self.assertEqual(folder.metrics("end")[-1]["reason"], "stopped")
        last = folder.metrics("step")[-1]["step"]
        self.assertEqual(folder.snapshots()[-1].name, f"step-{last:09d}")

    def test_the_flag_beats_srun(self):
        folder = self.run_folder()
        self.launch(folder, "srun", "-n", 1, "skep", "train", "run.yaml", "--ranks", RANKS)
        self.assert_source(folder, "--ranks", RANKS)
        self.assertTrue(folder.state() == self.state_of("--ranks", RANKS))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing is left behind
    main()
