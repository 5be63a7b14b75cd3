"""What ranks say when something is wrong: its reason and the rank that it is about, and once."""
import os
import pathlib
import resource
import socket
import subprocess

from small_run import RunTest, main, wait_until

ROWS = {"batch__tokens": 12 * 16, "batch__microbatch": 1}


class SiteWords(RunTest):
    def ranks(self, folder, world, own=lambda rank: (), prepare=lambda rank: None, started=range):
        """`skep train` as a foreign launcher starts it; processes of `started(world)`, by rank."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        found = {}
        for rank in started(world):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world),
                   "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world),
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port)}
            with open(folder.path / f"rank{rank}.log", "w", encoding="utf-8") as log:
                found[rank] = subprocess.Popen(
                    folder.command("train", "run.yaml", *own(rank)), cwd=folder.path, env=env,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                    preexec_fn=lambda: prepare(rank))
        return found

    def ended(self, folder, processes):
        codes = [process.wait(timeout=60) for process in processes.values()]
        logs = [(folder.path / f"rank{rank}.log").read_text() for rank in processes]
        return codes, logs

    def test_a_difference_names_one_rank_once(self):
        folder = self.folder(steps=2, **ROWS)
        codes, logs = self.ended(folder, self.ranks(
            folder, 3, lambda rank: ("optimizer.lr=0.5",) if rank == 2 else ()))
        self.assertEqual(codes, [2, 2, 2], logs)
        for rank, speaker in ((0, ""), (1, "rank 1: "), (2, "")):
            self.assertTrue(logs[rank].startswith(f"{speaker}skep: rank 2: optimizer.lr is"),
                            logs[rank])
            self.assertEqual(len(logs[rank].splitlines()), 1)

    def test_what_a_rank_finds_itself_has_its_number_once(self):
        folder = self.folder(steps=2, **ROWS)
        codes, logs = self.ended(folder, self.ranks(
            folder, 3, lambda rank: ("data.train=none.u16",) if rank == 1 else ()))
        self.assertEqual(codes, [2, 2, 2], logs)
        for log, start in zip(logs, ("skep: rank 1: ", "rank 1: skep: ", "rank 2: skep: rank 1: ")):
            self.assertTrue(log.startswith(start + "command line: data.train") or
                            log.startswith(start + "none.u16"), log)

    def test_a_rank_that_fails_alone_gives_the_others_its_reason(self):
        """Too few files may be open for the thread that watches, once the ranks have met."""
        folder = self.folder(steps=2, **ROWS)

        def few_files(rank):
            if rank == 1:
                resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))

        codes, logs = self.ended(folder, self.ranks(folder, 3, prepare=few_files))
        for log in logs:
            self.assertIn("cannot start the heartbeat thread: Too many open files", log)
            self.assertNotIn("has left", log)
        self.assertEqual(codes, [4, 1, 4])

    def test_ranks_that_diverge_end_alike(self):
        folder = self.folder(steps=60, optimizer__lr=1000, optimizer__clip_norm=0,
                             schedule__kind="constant", **ROWS)
        result = folder.train("--ranks", 3)
        self.assert_exit(result, 1)
        said = [line for line in result.stderr.splitlines() if "skep:" in line]
        self.assertEqual(len(said), 1, result.stderr)
        self.assertIn("the run has diverged", said[0])

    def test_a_disk_that_fills_up_is_told_once(self):
        """Of one rank's write, and what all agreed on is agreed on again while they clean up."""
        folder = self.folder(steps=2, **ROWS)
        disk = folder.path / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)],
                          capture_output=True, check=False).returncode != 0:
            self.skipTest("mounting is not permitted")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)], check=False)
        result = folder.train("--ranks", 3, "export=disk/model")
        self.assert_exit(result, 3)
        said = [line for line in result.stderr.splitlines() if "skep:" in line]
        self.assertEqual(len(said), 1, result.stderr)
        self.assertTrue(said[0].startswith("skep: disk/"), said[0])

    def test_too_few_open_files_for_the_ranks_are_told_briefly(self):
        folder = self.folder(steps=2, batch__tokens=16, batch__microbatch=1)
        result = folder.train("--ranks", 24, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (24, 24)))
        self.assert_exit(result, 1)
        said = [line for line in result.stderr.splitlines() if line.startswith("skep:")]
        self.assertIn("skep: rank 0: cannot accept the "
                      "connections of 24 ranks: Too many open files; "
                      "raise the limit of open files (ulimit -n)", said)
        self.assertLessEqual(len(said), 2, result.stderr)

    def test_ranks_bear_the_name_of_the_program(self):
        folder = self.folder(steps=100000, **ROWS)
        process = folder.start("--ranks", 2)
        self.assertTrue(wait_until(folder.metrics, 20))
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        names = [pathlib.Path(f"/proc/{pid}/comm").read_text() for pid in children.split()]
        process.terminate()
        process.wait(timeout=20)
        self.assertEqual(names, ["skep\n"] * 2)

    def test_a_step_of_very_many_rows_can_be_stopped(self):
        folder = self.folder(steps=3, batch__tokens="1e12", batch__microbatch=1)
        process = folder.start("--ranks", 2)
        self.assertTrue(wait_until(folder.metrics, 20))
        process.terminate()
        try:
            self.assertEqual(process.wait(timeout=10), 0, folder.log())
        finally:
            process.kill()

    def test_an_error_has_its_priority_for_the_journal(self):
        folder = self.folder(steps=2, **ROWS)
        result = folder.train("--ranks", 2, "data.train=none.u16", env={"JOURNAL_STREAM": "8:1"})
        self.assert_exit(result, 2)
        self.assertTrue(result.stderr.startswith("<3>skep: "), result.stderr)

    def test_a_closed_stream_is_not_taken_for_a_socket(self):
        folder = self.folder(steps=2, **ROWS)
        for stream, code in ((1, 1), (2, 0)):
            result = folder.run("comm", "--ranks", 2, "--test", "--json",
                                preexec_fn=lambda: os.close(stream))
            self.assert_exit(result, code)
            said = "skep: standard output: cannot be written completely: .*; .*\n" if code else ""
            self.assertRegex(result.stderr, f"^{said}$")
        self.assert_exit(folder.train("--ranks", 2, preexec_fn=lambda: os.close(2)), 0)

    def test_strangers_do_not_fill_the_log(self):
        folder = self.folder(steps=2, **ROWS)
        processes = self.ranks(folder, 2, started=lambda world: range(1))

        def knock():
            try:
                stranger = socket.create_connection(("127.0.0.1", self.port), 5)
            except OSError:
                return False
            with stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                while stranger.recv(64):
                    pass
            return True

        self.assertTrue(wait_until(knock, 20))
        for _ in range(249):
            try:
                knock()
            except ConnectionError:
                pass
        processes[0].terminate()
        processes[0].wait(timeout=20)
        said = [line for line in (folder.path / "rank0.log").read_text().splitlines()
                if "dropped" in line]
        self.assertEqual(len(said), 3, said)
        self.assertIn("dropped a connection from 127.0.0.1: it is not a rank of a site", said[0])
        self.assertIn("dropped 200 connections so far, the last from 127.0.0.1", said[2])


if __name__ == "__main__":
    main()
