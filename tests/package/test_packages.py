"""The Debian package and the archive of tools/package: what is in them, and that they train a model
on bare systems that mmdebstrap makes.

    SKEP_LONG=1 python3 tests/package/test_packages.py

It takes some minutes, and root for the bare systems. PACKAGES names a folder with packages that are
built already. UBUNTU_KEYRING names the keyring of Ubuntu's archive, for tests on Ubuntu.
"""
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
SKIPPED = 77  # as Meson reads it
ARCHIVE_BYTES_MAX = 6 << 20
PROGRAM_BYTES_MAX = 2 << 20
FLOORS = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30)}
UBUNTU = "http://archive.ubuntu.com/ubuntu"
CAN_BOOTSTRAP = os.geteuid() == 0 and shutil.which("mmdebstrap")
RUN = """model: model
init: random
steps: 40
data: {train: text.txt, validation: text.txt}
batch: {sequence: 128, microbatch: 4, tokens: 512}
optimizer.lr: 3e-3
eval.tokens: 2048
"""
TRAIN = """
cd /srv/demo
$SKEP train run.yaml
$SKEP eval run/model --data text.txt batch.sequence=128 eval.tokens=2048 --json >loss.json
$SKEP generate run/model --prompt 'It is ' --tokens 8 >/dev/null
loss=$(sed 's/.*"loss": \\([0-9]*\\).*/\\1/' loss.json)
test "$loss" -lt 5    # ln 256 is 5.5
"""
DEB = """set -e
export SKEP=skep DEBIAN_FRONTEND=noninteractive
list() { find / -xdev -path /proc -prune -o -type f -name '*skep*' -print | grep -v ^/srv || true; }
list >/srv/before
apt-get -qq install -y --no-install-recommends /srv/demo/skep.deb
dpkg -L skep | grep -v '^/\\.$' >/srv/installed
man_page=/usr/share/man/man1/skep-train.1.gz
grep -q "^$man_page$" /srv/installed
skep version
skep doctor || true
""" + TRAIN + """
apt-get -qq purge -y skep
while read -r path; do
    if [ -f "$path" ]; then echo "left behind: $path"; exit 1; fi
done </srv/installed
list >/srv/after
diff /srv/before /srv/after
echo removed cleanly
"""
ARCHIVE = """set -e
mkdir "/opt/a folder"
tar -C "/opt/a folder" -xf /srv/demo/skep.tar
mv "/opt/a folder"/skep-* /opt/skep
export SKEP=/opt/skep/bin/skep
$SKEP version
""" + TRAIN + "echo trained\n"


def newest(prefix, files):
    """The newest symbol version that the files need, as a tuple."""
    listing = subprocess.run(["objdump", "-T", *map(str, files)], capture_output=True, text=True,
                             check=True).stdout
    found = [tuple(map(int, version.split("."))) for line in listing.splitlines()
             if "*UND*" in line for version in re.findall(rf"{prefix}_([\d.]+)", line)]
    return max(found, default=(0,))


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="skep-packages-"))
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        cls.folder = pathlib.Path(os.environ.get("PACKAGES", cls.scratch / "packages"))
        if "PACKAGES" not in os.environ:
            for kind in ("tar", "deb"):
                subprocess.run([ROOT / "tools" / "package", kind, cls.folder], check=True)
        cls.archive, = cls.folder.glob("skep-*.tar.xz")
        cls.deb, = cls.folder.glob("skep_*.deb")
        subprocess.run(["tar", "-C", cls.scratch, "-xf", cls.archive], check=True)
        unpacked, = cls.scratch.glob("skep-*-linux-*")
        cls.unpacked = unpacked.rename(cls.scratch / "moved away")
        cls.demo = cls.scratch / "demo"
        (cls.demo / "model").mkdir(parents=True)
        config = re.search(r"config.json\" <<'END'\n(.*?)\nEND",
                           (ROOT / "tools" / "demo").read_text(), re.DOTALL)
        (cls.demo / "model" / "config.json").write_text(config[1])
        (cls.demo / "run.yaml").write_text(RUN)
        text = "".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))
        (cls.demo / "text.txt").write_text(text)

    def libraries(self):
        return sorted((self.unpacked / "lib" / "skep").iterdir())

    def test_the_archive_is_small(self):
        self.assertLessEqual(self.archive.stat().st_size, ARCHIVE_BYTES_MAX)
        self.assertLessEqual((self.unpacked / "bin" / "skep").stat().st_size, PROGRAM_BYTES_MAX)

    def test_no_file_needs_newer_symbols_than_the_floor(self):
        files = [self.unpacked / "bin" / "skep", *self.libraries()]
        for prefix, floor in FLOORS.items():
            self.assertLessEqual(newest(prefix, files), floor, prefix)
        self.assertGreater(newest("GLIBC", files), (2, 2), "the check sees symbols")

    def test_the_program_finds_its_libraries_after_a_move(self):
        program = self.unpacked / "bin" / "skep"
        listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
        loaded = {pathlib.Path(path).name for path in
                  re.findall(r"=> (.*) \(", listing.stdout) if str(self.unpacked) in path}
        self.assertEqual(loaded, {path.name for path in self.libraries()})
        result = subprocess.run([program, "version"], env={}, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_every_library_has_its_licence_and_is_in_the_bill_of_materials(self):
        bill = json.loads((self.unpacked / "share/doc/skep/sbom.spdx.json").read_text())
        self.assertEqual(bill["spdxVersion"], "SPDX-2.3")
        names = {package["name"] for package in bill["packages"]}
        licences = {path.parent.name for path in self.unpacked.glob("share/licenses/*/*")}
        self.assertEqual(names, licences)
        self.assertEqual(len(names), 1 + len(self.libraries()))
        related = {row["relatedSpdxElement"] for row in bill["relationships"]}
        self.assertEqual(related, {package["SPDXID"] for package in bill["packages"]})
        sums = {package["checksums"][0]["checksumValue"] for package in bill["packages"]}
        for path in [self.unpacked / "bin" / "skep", *self.libraries()]:
            digest = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True)
            self.assertIn(digest.stdout.split()[0].lstrip("\\"), sums, path.name)

    def test_the_archive_has_a_readme_of_its_own(self):
        text = (self.unpacked / "README.md").read_text()
        for name in re.findall(r"`(share/[^`]*)`", text):
            self.assertTrue((self.unpacked / name).exists(), name)
        self.assertNotIn("](", text, "no links, which lead nowhere here")
        self.assertFalse((self.unpacked / "share/doc/skep/README.md").exists())

    def test_the_changelogs_agree(self):
        unpacked = self.scratch / "deb"
        subprocess.run(["dpkg-deb", "-x", self.deb, unpacked], check=True)
        folder = unpacked / "usr/share/doc/skep"
        debian, ours = (gzip.decompress((folder / name).read_bytes()).decode()
                        for name in ("changelog.gz", "CHANGELOG.md.gz"))
        heading = re.search("^## (.*)$", ours, re.MULTILINE)[1]
        self.assertIn(f"  * {heading}: see CHANGELOG.md.\n", debian)

    def test_no_file_names_the_folder_of_the_build(self):
        for path in self.unpacked.rglob("*"):
            if path.is_file():
                self.assertNotIn(str(ROOT).encode(), path.read_bytes(), path)

    @unittest.skipUnless(shutil.which("lintian"), "lintian is not installed")
    def test_lintian_finds_nothing(self):
        result = subprocess.run(["lintian", "--allow-root", "--display-info", "--fail-on=info",
                                 self.deb], capture_output=True, text=True)
        self.assertEqual((result.stdout, result.returncode), ("", 0))
        listing = subprocess.run(["dpkg-deb", "-c", self.deb], capture_output=True, text=True)
        self.assertNotIn("lintian/overrides", listing.stdout)

    def bare_system(self, suite, script, mirror=(), options=()):
        """Runs the script in a new system, which is discarded afterwards."""
        shutil.copy(self.deb, self.demo / "skep.deb")
        with open(self.demo / "skep.tar", "wb") as out:
            subprocess.run(["xz", "-dc", self.archive], stdout=out, check=True)
        (self.demo / "check.sh").write_text(script)
        result = subprocess.run(
            ["mmdebstrap", "--variant=apt", "--format=null", "--quiet", *options,
             f"--customize-hook=copy-in {self.demo} /srv",
             "--customize-hook=chroot \"$1\" sh /srv/demo/check.sh", suite, "-", *mirror],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(result.returncode, 0, result.stdout[-4000:])
        return result.stdout

    @unittest.skipUnless(CAN_BOOTSTRAP, "needs root and mmdebstrap")
    def test_the_debian_package_installs_trains_and_is_removed(self):
        output = self.bare_system("bookworm", DEB)
        self.assertIn("removed cleanly", output)

    @unittest.skipUnless(CAN_BOOTSTRAP, "needs root and mmdebstrap")
    def test_the_archive_trains_on_debian_12(self):
        self.assertIn("trained", self.bare_system("bookworm", ARCHIVE))

    @unittest.skipUnless(CAN_BOOTSTRAP and os.environ.get("UBUNTU_KEYRING"),
                         "needs root, mmdebstrap and UBUNTU_KEYRING")
    def test_the_archive_trains_on_ubuntu(self):
        keyring = [f"--keyring={os.environ['UBUNTU_KEYRING']}"]
        for suite in ("jammy", "noble"):
            with self.subTest(suite):
                output = self.bare_system(suite, ARCHIVE, [UBUNTU], keyring)
                self.assertIn("trained", output)


if __name__ == "__main__":
    if os.environ.get("SKEP_LONG", "") in ("", "0"):
        print("set SKEP_LONG=1: building and trying packages takes minutes")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
