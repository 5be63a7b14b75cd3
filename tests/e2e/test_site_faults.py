"""A rank of a site that dies, stops or fails: the others end within five seconds and say who it
was; the run goes on from its last snapshot to the same bits."""
import os
import pathlib
import random
import signal
import subprocess
import time

from small_run import LONG, SKEP, RunTest, gone, main, ranks_of, wait_until

RANKS = 4
STEPS = 60
BOUND_S = 5.0
NOTICED_S = BOUND_S + 1.0  # the parent also has to wait for the last rank, on a busy machine


class SiteFaults(RunTest):
    def site(self, **settings):
        return self.folder(steps=STEPS, snapshot__every=5, batch__tokens=8 * 16,
                           batch__microbatch=1, **settings)

    def started(self, folder):
        """The launcher and its ranks' processes, by rank."""
        process = folder.start("--ranks", RANKS)
        found = {}

        def all_there():
            found.clear()
            found.update(ranks_of(process.pid))
            return len(found) == RANKS or process.poll() is not None

        self.assertTrue(wait_until(all_there, 20), folder.log())
        return process, dict(found)

    def assert_site_ends(self, process, ranks, victim, folder, stopped):
        began = time.monotonic()
        others = [pid for rank, pid in ranks.items() if rank != victim]
        self.assertTrue(wait_until(lambda: all(gone(pid) for pid in others), NOTICED_S),
                        f"rank {victim} lost, others still there\n{folder.log()}")
        took = time.monotonic() - began
        self.assertLessEqual(took, NOTICED_S)
        code = process.wait(timeout=20)
        if stopped:
            self.assertTrue(gone(ranks[victim]), "the launcher leaves no stopped process behind")
        return took, code

    def strike(self, folder, number, victim, delay):
        """One kill or stop at a random moment; seconds until the others were gone, or None when
        the run was over before."""
        process, ranks = self.started(folder)
        time.sleep(delay)
        if process.poll() is not None or gone(ranks.get(victim, -1)):
            process.wait(timeout=20)
            return None
        try:
            os.kill(ranks[victim], number)
        except ProcessLookupError:
            process.wait(timeout=20)
            return None
        took, code = self.assert_site_ends(process, ranks, victim, folder,
                                           number == signal.SIGSTOP)
        if code == 0:
            return None  # it was past its last word already
        self.assertEqual(code, 4, folder.log())
        self.assertIn(f"rank {victim}", folder.log())
        return took

    def test_a_lost_rank_is_noticed_and_the_run_goes_on_to_the_same_bits(self):
        undisturbed = self.site()
        began = time.monotonic()
        self.assert_exit(undisturbed.train("--ranks", RANKS), 0)
        usual = time.monotonic() - began
        expected = undisturbed.state()
        chance = random.Random(5)
        times, folder = [], self.site()
        wanted = 200 if LONG else 5
        for turn in range(4 * wanted):
            if len(times) == wanted:
                break
            number = signal.SIGKILL if turn % 2 == 0 else signal.SIGSTOP
            took = self.strike(folder, number, chance.randrange(RANKS), chance.uniform(0, usual))
            if took is not None:
                times.append(took)
            if len(folder.snapshots()) and folder.snapshots()[-1].name.endswith(f"{STEPS:09d}"):
                self.assertEqual(expected, folder.state())
                folder.forget()
        self.assertEqual(len(times), wanted)
        print(f"{len(times)} losses, noticed by all within {max(times):.2f} s", flush=True)
        self.assert_exit(folder.train("--ranks", RANKS), 0)
        self.assertEqual(expected, folder.state())
        segments = [path for path in pathlib.Path("/dev/shm").iterdir() if path.is_file()]
        self.assertEqual([], [path.name for path in segments if "skep" in path.name])

    def test_a_rank_that_fails_takes_the_others_with_it_and_is_named(self):
        folder = self.site()
        broken = pathlib.Path(folder.path / "broken.sh")
        # One rank alone sees a limit on file sizes: its snapshot cannot be written.
        broken.write_text(f'#!/bin/sh\n[ "$RANK" = 2 ] && ulimit -f 0\nexec {SKEP} "$@"\n')
        broken.chmod(0o755)
        port = 20000 + os.getpid() % 20000
        processes = []
        for rank in range(3):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank),
                   "LOCAL_WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            processes.append(self.background([str(broken), "train", "run.yaml"], folder, env))
        outputs = [process.communicate(timeout=60)[1] for process in processes]
        self.assertTrue(all(process.returncode != 0 for process in processes), outputs)
        self.assertTrue(all("rank 2" in text for text in outputs[:2]), outputs)

    def test_ranks_that_were_told_different_things_refuse_to_begin(self):
        folder = self.site()
        for key, values in (("optimizer.lr", ("0.01", "0.02")), ("steps", ("60", "61"))):
            port = 20000 + (os.getpid() + hash(key)) % 20000
            processes = []
            for rank, value in enumerate(values):
                env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2",
                       "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
                command = [SKEP, "train", "run.yaml", f"{key}={value}"]
                processes.append(self.background(command, folder, env))
            outputs = [process.communicate(timeout=60)[1] for process in processes]
            self.assertEqual([2, 2], [process.returncode for process in processes], outputs)
            self.assertTrue(any(key in text for text in outputs), outputs)

    @staticmethod
    def background(command, folder, env):
        return subprocess.Popen(command, cwd=folder.path, env=env, text=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def test_asking_a_site_to_stop_saves_and_ends_well(self):
        folder = self.folder(steps=100000, batch__tokens=8 * 16, batch__microbatch=1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            before = len(folder.metrics("step"))
            process, _ = self.started(folder)
            self.assertTrue(wait_until(lambda: len(folder.metrics("step")) > before, 30),
                            folder.log())
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=20), 0, folder.log())
            self.assertTrue(folder.snapshots())


if __name__ == "__main__":
    main()
