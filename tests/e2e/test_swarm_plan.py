"""A swarm seen before joining it: the manifest a tracker makes, plans of it by file and by join
string, and what a member may say for itself."""
import json
import os
import subprocess

from small_run import RunTest, main

SWARM = {"swarm__name": "heather", "swarm__inner_steps": 5, "swarm__members_max": 3,
         "swarm__codec": "int4"}


class SwarmPlan(RunTest):
    def setUp(self):
        self.site = self.folder(**SWARM)
        self.variables = {"XDG_STATE_HOME": str(self.site.path / "state"),
                          "XDG_CONFIG_HOME": str(self.site.path / "config"),
                          "XDG_CACHE_HOME": str(self.site.path / "cache")}
        self.tracker = subprocess.Popen(
            self.site.command("track", "run.yaml", "--listen", "127.0.0.1:0", "--state", "tracker",
                              "--json"),
            cwd=self.site.path, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, **self.variables})
        self.addCleanup(self.stop)
        self.told = json.loads(self.tracker.stdout.readline())
        self.manifest = self.told["manifest"]

    def stop(self):
        self.tracker.terminate()
        self.assertEqual(self.tracker.wait(timeout=30), 0)
        self.tracker.stdout.close()

    def plan(self, *arguments):
        return self.site.run("plan", *arguments, env=self.variables)

    def refused(self, *arguments, words, code=2):
        result = self.plan(*arguments)
        self.assert_exit(result, code)
        self.assertRegex(result.stderr, r"^skep: [^\n]+: [^\n]+; [^\n]+\n$")
        for word in words:
            self.assertIn(word, result.stderr)

    def test_file_and_join_string_give_the_same_plan(self):
        by_file = self.plan(self.manifest, "--json")
        by_string = self.plan(self.told["join"], "--json")
        self.assert_exit(by_file, 0)
        self.assert_exit(by_string, 0)
        one, other = json.loads(by_file.stdout), json.loads(by_string.stdout)
        self.assertEqual(one["hash"], other["hash"])
        names = {extent["name"] for extent in one["extents"]}
        self.assertLessEqual({"outer params", "outer momentum", "error feedback", "results",
                              "contributions to own slices"}, names)
        alone = json.loads(self.plan("run.yaml", "--json").stdout)
        self.assertFalse(names <= {extent["name"] for extent in alone["extents"]})
        lines = [line["name"] for space in one["spaces"] for line in space["declared"]]
        self.assertIn("ZeroMQ", lines)

    def test_what_all_share_is_nobodys_own(self):
        self.refused(self.manifest, "swarm.codec=int8",
                     words=["swarm.codec", "int4 in the swarm heather", "int8 on the command line"])
        self.refused(self.told["join"], "optimizer.lr=1",
                     words=["optimizer.lr", "0.01", "1 on the command line"])
        self.assert_exit(self.plan(self.manifest, "batch.microbatch=4", "threads=2"), 0)

    def test_another_key_or_a_changed_manifest_is_no_swarm(self):
        key = self.site.run("keys", env=self.variables).stdout.strip()
        address = self.told["join"].split("#")[0]
        self.refused(f"{address}#{key}", words=["is signed with a key other than", "join string"])
        self.refused(f"{address}", words=["join string", "#KEY"])
        path = self.site.path / "changed.skep"
        text = (self.site.path / self.manifest).read_text()
        path.write_text(text.replace("outer_lr: 0.7", "outer_lr: 0.8"))
        self.refused(path.name, words=["signature"])
        path.write_text(text.replace("protocol: 2", "protocol: 3"))
        self.refused(path.name, words=["version 3", "a newer version of skep"])

    def test_a_manifest_tells_nothing_of_the_trackers_machine(self):
        text = (self.site.path / self.manifest).read_text()
        self.assertNotIn(str(self.site.path), text)
        for name in ("snapshot", "metrics", "threads", "target", "limits", "microbatch:"):
            self.assertNotIn(f"\n  {name}", text)

    def test_train_names_join(self):
        result = self.site.run("train", self.manifest, env=self.variables)
        self.assert_exit(result, 2)
        self.assertIn("skep join", result.stderr)


if __name__ == "__main__":
    main()
