#!/usr/bin/env python3
"""Each rule catches a planted violation, says what to do, and leaves sound code alone."""

import contextlib
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import c_source
import commits
import rooms
import rules
import structs
import tidy

SOUND = """/* sound: nothing to find here; malloc() and printf() in a comment are words. */
#include "base/text.h"

#include <stdio.h>

static const char *const names[] = {"malloc(", "TO" "DO"};

int sound_step(struct text *text, int count) {
    for (int i = 0; i < count; i++) {
        text_add(text, "free(%d)", i);
    }
    return text->free(count);
}
"""


def messages(rule, path, text):
    return [finding.message for finding in rule(tidy.Source(path, text))]


def function_of(lines, name="planted"):
    return f"static void {name}(void) {{\n" + "    ;\n" * (lines - 2) + "}\n"


class RuleTest(unittest.TestCase):
    def assert_found(self, rule, path, text, expected):
        found = messages(rule, path, text)
        self.assertTrue(any(expected in message for message in found), found)

    def test_sound_source_has_no_findings(self):
        for rule in tidy.FILE_RULES:
            self.assertEqual(messages(rule, "runtime/model/sound.c", SOUND), [])

    def test_upward_include_is_found(self):
        for path, target in (
            ("base/text.c", "arena/arena.h"),
            ("arena/plan.c", "kernels/matmul.h"),
            ("kernels/loops/norm.c", "runtime/model/graph.h"),
            ("runtime/model/graph.c", "arena/extent.h"),
            ("runtime/schedule/lanes.c", "arena/arena.h"),
            ("runtime/program/bind.c", "runtime/train/train.h"),
            ("runtime/swarm/ledger/entry.c", "runtime/swarm/protocol/protocol.h"),
            ("targets/targets.c", "targets/os/machine.h"),
            ("runtime/cli/main.c", "tests/kernels/harness.h"),
        ):
            with self.subTest(path):
                self.assert_found(tidy.check_includes, path, f'#include "{target}"\n',
                                  f"may not include {target}")

    def test_downward_include_is_allowed(self):
        for path, target in (
            ("kernels/loops/norm.c", "kernels/norm.h"),
            ("runtime/schedule/extents.c", "arena/extent.h"),
            ("runtime/cli/main.c", "arena/arena.h"),
            ("tests/unit/arena/test_plan.c", "arena/arena.h"),
        ):
            with self.subTest(path):
                text = f'#include "{target}"\n'
                self.assertEqual(messages(tidy.check_includes, path, text), [])

    def test_include_without_folder_is_found(self):
        self.assert_found(tidy.check_includes, "base/text.c", '#include "text.h"\n',
                          "includes are from the root")

    def test_no_room_of_the_table_includes_one_below_it(self):
        order = list(rules.MAY_INCLUDE)
        for index, (room, places) in enumerate(rules.MAY_INCLUDE.items()):
            for place in places:
                with self.subTest(room, place=place):
                    above = place if place in rules.MAY_INCLUDE else rooms.room_of(place)
                    self.assertIn(above, order[:index])

    def test_unknown_folder_is_found(self):
        self.assert_found(tidy.check_includes, "novel/a.c", '#include "base/text.h"\n',
                          "not in the include table")

    def test_header_of_the_tree_in_angle_brackets_is_found(self):
        for target in ("runtime/cli/cli.h", "base/text.h", "build_config.h", "tests/support/a.h"):
            with self.subTest(target):
                self.assert_found(tidy.check_includes, "runtime/model/a.c",
                                  f"#include <{target}>\n", f'write "{target}"')
        self.assertEqual(messages(tidy.check_includes, "base/a.c", "#include <sys/file.h>\n"), [])

    def test_foreign_header_outside_its_wrapper_is_found(self):
        self.assert_found(tidy.check_includes, "runtime/model/a.c", "#include <jansson.h>\n",
                          "wrapped by base/json.c")

    def test_wrong_guard_is_found(self):
        wrong = "#ifndef SKEP_PLAN_H\n#define SKEP_PLAN_H\n#endif\n"
        right = wrong.replace("SKEP_PLAN_H", "SKEP_MODEL_PLAN_H")
        self.assert_found(tidy.check_guard, "runtime/model/plan.h", wrong, "SKEP_MODEL_PLAN_H")
        self.assertEqual(messages(tidy.check_guard, "runtime/model/plan.h", right), [])
        self.assert_found(tidy.check_guard, "runtime/model/plan.h", right + "int late;\n",
                          "nothing may follow")
        self.assert_found(tidy.check_guard, "runtime/model/plan.h", "#pragma once\n",
                          "guard the header")

    def test_every_forbidden_call_is_found_and_explained(self):
        for advice, names, _ in rules.FORBIDDEN_CALLS:
            for name in names.split():
                with self.subTest(name):
                    self.assert_found(tidy.check_calls, "runtime/shard/a.c",
                                      f"void f(void) {{\n    {name} (x);\n}}\n", advice)

    def test_forbidden_call_is_allowed_in_its_own_place_only(self):
        call = "void f(void) {\n    free(x);\n}\n"
        self.assertEqual(messages(tidy.check_calls, "base/region.c", call), [])
        self.assertNotEqual(messages(tidy.check_calls, "base/region_more.c", call), [])

    def test_empty_words_are_found_in_names(self):
        for word in rules.EMPTY_WORDS:
            with self.subTest(word):
                self.assert_found(tidy.check_names, f"base/{word}.h", "",
                                  f"file name with '{word}'")
                self.assert_found(tidy.check_names, "base/a.c", f"int plan_{word}_step;\n",
                                  f"plan_{word}_step")
        self.assertEqual(messages(tidy.check_names, "base/a.c", "/* common */ int futile;\n"), [])

    def test_typedef_of_struct_is_found(self):
        self.assert_found(tidy.check_names, "base/a.h", "typedef struct { int a; int b; } pair;\n",
                          "no typedef")
        self.assertEqual(
            messages(tidy.check_names, "base/a.h", "typedef struct { int index; } rank_id;\n"), [])

    def test_typedef_of_struct_with_several_fields_in_one_statement_is_found(self):
        for body in ("int a, b;", "struct { int a; } b;"):
            with self.subTest(body):
                self.assert_found(tidy.check_names, "base/a.h",
                                  f"typedef struct {{ {body} }} pair;\n", "no typedef")

    def test_long_line_is_found(self):
        self.assert_found(tidy.check_lengths, "base/a.c", "x" * 101 + "\n", "101 columns")
        self.assertEqual(messages(tidy.check_lengths, "base/a.c", "\u00e9" * 100 + "\n"), [])

    def test_long_file_is_found(self):
        self.assert_found(tidy.check_lengths, "base/a.c", "int a;\n" * 501, "501 lines")
        self.assertEqual(messages(tidy.check_lengths, "base/a.c", "int a;\n" * 500), [])

    def test_long_function_is_found(self):
        self.assert_found(tidy.check_lengths, "base/a.c", function_of(71), "planted has 71 lines")
        self.assertEqual(messages(tidy.check_lengths, "base/a.c", function_of(70)), [])
        kernel = "template <int N>\nDEVICE " + function_of(70)
        self.assert_found(tidy.check_lengths, "kernels/cuda/device/a.cu", kernel,
                          "planted has 71 lines")

    def test_exception_that_is_no_longer_needed_is_found(self):
        with mock.patch.dict(rules.LONG_FILES, {"base/a.c": "x"}), \
             mock.patch.dict(rules.LONG_FUNCTIONS, {("base/a.c", "planted"): "x"}):
            self.assertEqual(len(messages(tidy.check_lengths, "base/a.c", function_of(9))), 2)

    def test_recursion_is_found(self):
        self.assert_found(tidy.check_recursion, "base/a.c",
                          "int walk(int n) {\n    return n ? walk(n - 1) : 0;\n}\n",
                          "walk calls itself")
        member = "int walk(int n) {\n    return x.walk(n);\n}\n"
        self.assertEqual(messages(tidy.check_recursion, "base/a.c", member), [])

    def test_forbidden_words_are_found(self):
        for text in ("/* TO" "DO: later */", "/ho" "me/someone/skep", "#if 0",
                     "as in the is" "sue", "see the ti" "cket"):
            with self.subTest(text):
                found = messages(tidy.check_words, "docs/a.md", text + "\n")
                self.assertEqual(len(found), 1, found)

    def test_every_banned_phrase_is_found_in_each_kind_of_prose(self):
        planted = (
            "who listens there", "any rank of whomever asks", "nobody is left", "what of it is new",
            "it is told", "this tells why", "the link stands", "the round goes on", "it is gone",
            "it comes back", "it gives its place up", "a guest gives way", "it is tried again",
            "it lets them in", "it is let go", "16 and not one more", "it was not heard",
            "it is said to all", "as of late", "of the own line",
        )
        self.assertEqual(len(planted), len(rules.PHRASES))
        for (_, advice), phrase in zip(rules.PHRASES, planted, strict=True):
            for path, text in (
                ("base/a.c", f"/* Here {phrase}. */\n"),
                ("base/a.h", "/* Here\n * " + phrase.replace(" ", "\n * ") + " */\n"),
                ("base/a.c", f'const char *a = "Here {phrase}: %s\\n";\n'),
                ("base/a.c", 'f("Here ' + phrase.replace(" ", ' "\n  "') + '");\n'),
                ("base/a.md", f"Here {phrase}.\n"),
                ("base/a.md", f"| table | {phrase} |\n"),
                ("base/a.py", f'"""Here {phrase}."""\n'),
                ("base/a.py", f"def a():\n    # Here {phrase}.\n    return 1\n"),
            ):
                with self.subTest(phrase, path=path), \
                     mock.patch.object(rules, "PLAIN_FOLDERS", ("base",)):
                    self.assert_found(tidy.check_phrases, path, text, advice)

    def test_banned_phrase_names_the_line_where_it_begins(self):
        with mock.patch.object(rules, "PLAIN_FOLDERS", ("base",)):
            text = "int a;\n/* A process that\n * is\n * gone. */\n"
            found = list(tidy.check_phrases(tidy.Source("base/a.c", text)))
        self.assertEqual([(f.line, f.message.split(":")[0]) for f in found], [(3, "'is gone'")])

    def test_plain_prose_and_code_have_no_banned_phrases(self):
        with mock.patch.object(rules, "PLAIN_FOLDERS", ("base",)):
            for path, text in (
                ("base/a.c", "int who = stands; /* `who` stands for a person who reads. */\n"),
                ("base/a.c", "/* The users, who understand it, continue. */\n"),
                ("base/a.c", '#include "base/who.h"\n'),
                ("base/a.md", "Text with `who` in code.\n\n```\nwho goes on\n```\n\nMore text.\n"),
                ("base/a.py", 'TEXT = "who goes on"\n'),
            ):
                with self.subTest(text):
                    self.assertEqual(messages(tidy.check_phrases, path, text), [])

    def test_phrases_are_banned_in_listed_folders_only(self):
        text = "/* Here somebody stands. */\n"
        with mock.patch.object(rules, "PLAIN_FOLDERS", ("base", "docs/A.md")):
            self.assertEqual(len(messages(tidy.check_phrases, "base/a.c", text)), 2)
            self.assertEqual(messages(tidy.check_phrases, "baseline/a.c", text), [])

    def test_wide_prose_in_markdown_is_found(self):
        wide = "word " * 21
        with mock.patch.object(rules, "WRAPPED_DOCS", ("docs/a.md",)):
            self.assert_found(tidy.check_wrapping, "docs/a.md", wide + "\n", "105 columns")
            self.assert_found(tidy.check_wrapping, "docs/a.md", f"```\n```\n- {wide}\n", "107")
            for text in (f"| {wide} |", f"```\n{wide}\n```", "- " + "x" * 120, wide[:100]):
                with self.subTest(text):
                    self.assertEqual(messages(tidy.check_wrapping, "docs/a.md", text + "\n"), [])
            self.assertEqual(messages(tidy.check_wrapping, "docs/b.md", wide + "\n"), [])

    def test_stray_whitespace_is_found(self):
        for text in ("int a; \n", "\tint a;\n", "int a;"):
            with self.subTest(text):
                self.assertEqual(len(messages(tidy.check_whitespace, "base/a.c", text)), 1)


class SubjectTest(unittest.TestCase):
    def test_wrong_subjects_are_found(self):
        for subject, expected in (
            ("ledger: " + "add " * 17, "76 characters"),
            ("Add a ledger", "area: imperative"),
            ("ledger add a rule", "area: imperative"),
            ("ledger:add a rule", "area: imperative"),
            ("ledger: add a rule.", "full stop"),
            ("ledger: adds a rule", "'adds'"),
            ("ledger: added a rule", "'added'"),
            ("ledger: adding a rule", "'adding'"),
            ("ledger: the rule is new", "'the'"),
            ("ledger: who comes back is heard", "'who'"),
            ("ledger: no rule is left", "'no'"),
            ("ledger: 213 kills on one commit", "'213'"),
        ):
            with self.subTest(subject):
                self.assertIn(expected, commits.mistake(subject) or "")

    def test_imperative_subjects_are_allowed(self):
        for subject in ("ledger: add a rule", "tests/tidy, docs: process paths",
                        "base: embed files",
                        "messages: recognise a peer that reconnects during lookup",
                        "wire: re-encode", "member: pass, then bind", "site: focus"):
            with self.subTest(subject):
                self.assertIsNone(commits.mistake(subject))


class HistoryTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name) / "tree"
        self.root.mkdir()

    def git(self, *arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", "-C", str(self.root), *identity, *arguments],
                              capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, subject):
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def found(self, base):
        with mock.patch.object(rules, "SUBJECT_BASE", base):
            return [finding.message for finding in tidy.check_subjects(self.root)]

    def test_subjects_after_the_base_are_checked(self):
        if commits.git(".", "--version") is None:
            self.skipTest("there is no git")
        self.git("init", "-q")
        base = self.commit("Whatever was written before")
        self.assertEqual(self.found(base), [])
        self.commit("base: add a rule")
        self.commit("base: the rule stands")
        found = self.found(base)
        self.assertEqual(len(found), 1)
        self.assertIn("'base: the rule stands': 'the' is not an imperative", found[0])
        self.assertEqual(self.found("0" * 40), [])
        inner = self.root / "inner"
        inner.mkdir()
        self.assertEqual(commits.subjects(inner, base), [])

    def test_a_tree_without_git_is_skipped(self):
        self.assertEqual(self.found(rules.SUBJECT_BASE), [])


DOOR = """/* plan: lays out buffers.
 *
 * public   extent.h */
#ifndef SKEP_PLANTED_PLAN_H
#define SKEP_PLANTED_PLAN_H
struct part {
    int a, b;
};
struct plan {
    int count, used;
    struct part part;
};
#endif
"""


class RoomTest(unittest.TestCase):
    """A product of two planted rooms: `plan`, and `user`, which includes it."""

    def setUp(self):
        table = {"plan": (), "user": ("plan",)}
        for name, value in (("MAY_INCLUDE", table), ("NO_DOOR", ("user",)),
                            ("OWNED_STRUCTS", ("plan/",)), ("VALUE_STRUCTS", {})):
            patch = mock.patch.object(rules, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def found(self, check, **files):
        sources = [tidy.Source("plan/plan.h", DOOR), tidy.Source("plan/extent.h", "int a;\n"),
                   tidy.Source("plan/greedy.h", "int b;\n")]
        sources += [tidy.Source(path.replace("__", "/") + ".c", text)
                    for path, text in files.items()]
        return [message for _, _, message in check(sources)]

    def test_include_of_a_private_header_is_found(self):
        for name, count in (("plan", 0), ("extent", 0), ("greedy", 1)):
            with self.subTest(name):
                text = f'#include "plan/{name}.h"\n'
                found = self.found(rooms.check_doors, user__a=text)
                self.assertEqual(len(found), count, found)
                self.assertEqual(self.found(rooms.check_doors, plan__a=text), [])

    def test_room_without_a_door_and_door_with_a_dead_name_are_found(self):
        with mock.patch.object(rules, "NO_DOOR", ()):
            found = self.found(rooms.check_doors, user__a="int a;\n")
        self.assertEqual(found, ["no user/user.h: one header explains the room"])
        gone = DOOR.replace("extent.h", "gone.h")
        with mock.patch.dict(globals(), {"DOOR": gone}):
            self.assertIn("names plan/gone.h", self.found(rooms.check_doors)[0])

    def test_map_that_differs_from_the_table_or_is_too_long_is_found(self):
        row = "| `plan` | lays out | nothing |\n"
        for text, count in ((row + "| `user` | uses | `plan` |\n", 0),
                            (row + "| `user` | uses | nothing |\n", 1), (row, 1),
                            ("| `user` | uses | `plan` |\n" + row, 1)):
            with self.subTest(text):
                sources = [tidy.Source(rooms.MAP, text)]
                self.assertEqual(len(list(rooms.check_map(sources))), count)
        with mock.patch.object(rules, "MAP_LINES_MAX", 1):
            self.assertEqual(len(list(rooms.check_map(sources))), 2)

    def test_room_over_its_bounds_is_found(self):
        with mock.patch.object(rules, "ROOM_FILES_MAX", 2):
            self.assertIn("3 files, more than 2", self.found(rooms.check_bounds)[0])
        with mock.patch.object(rules, "ROOM_LINES_MAX", 10):
            self.assertIn("lines of code, more than 10", self.found(rooms.check_bounds)[0])
        self.assertEqual(self.found(rooms.check_bounds), [])

    def test_struct_with_too_many_fields_is_found_with_its_own_parts(self):
        with mock.patch.object(rules, "STRUCT_FIELDS_MAX", 4):
            self.assertIn("struct plan has 5 fields", self.found(rooms.check_struct_sizes)[0])
        with mock.patch.object(rules, "STRUCT_FIELDS_MAX", 5):
            self.assertEqual(self.found(rooms.check_struct_sizes), [])

    def test_locals_of_inline_methods_are_no_fields(self):
        text = ("template <int width> struct row {\n    const int &dim;\n    float a, b[2];\n\n"
                "    DEVICE void load(const void *at, float values[width]) const {\n"
                "        float x[width] = {};\n        for (int i = 0; i < dim; i++) {\n"
                "            int j = i;\n        }\n    }\n    int sum() { int c = 1; return c; }\n"
                "    union {\n        int d;\n        float e;\n    };\n};\n")
        found = list(structs.structs_of("plan/row.cu", text))
        self.assertEqual([list(struct.fields) for struct in found], [["dim", "a", "b", "d", "e"]])

    def test_field_that_two_files_assign_is_found(self):
        one = "void f(struct plan *plan) {\n    plan->count = 1;\n}\n"
        part = "void g(struct plan *plan) {\n    plan->part.a++;\n}\n"
        self.assertEqual(self.found(rooms.check_field_owners, plan__a=one, plan__b=part), [])
        for text in (one, "void f(struct plan *p) {\n    p[2].count |= 1;\n}\n",
                     "void f(void) {\n    struct plan own;\n    ++own.count;\n}\n"):
            with self.subTest(text):
                found = self.found(rooms.check_field_owners, plan__a=one, user__b=text)
                self.assertEqual(len(found), 1)
                self.assertIn("plan.count is assigned in plan/a.c:2, user/b.c:", found[0])

    def test_struct_that_another_file_overwrites_is_found(self):
        one = "void f(struct plan *plan) {\n    plan->count = 1;\n}\n"
        for text in ("    *p = (struct plan){0};\n", "    memset(p, 0, sizeof *p);\n"):
            text = "void f(struct plan *p) {\n" + text + "}\n"
            with self.subTest(text):
                found = self.found(rooms.check_field_owners, plan__a=one, user__b=text)
                self.assertEqual(len(found), 1, found)
                self.assertIn("plan is overwritten in user/b.c:2", found[0])
                self.assertEqual(self.found(rooms.check_field_owners, plan__a=one + text), [])
        local = "void f(void) {\n    struct plan own;\n    memset(&own, 0, sizeof own);\n}\n"
        self.assertEqual(self.found(rooms.check_field_owners, plan__a=one, user__b=local), [])

    def test_struct_without_a_tag_has_a_size(self):
        text = "typedef struct {\n    int a, b;\n    int c;\n} t;\n"
        with mock.patch.object(rules, "STRUCT_FIELDS_MAX", 2):
            found = self.found(rooms.check_struct_sizes, user__a=text)
        self.assertTrue(any("struct t (without a tag, line 1) has 3" in f for f in found), found)

    def test_reading_a_field_is_no_assignment(self):
        one = "void f(struct plan *plan) {\n    plan->count = 1;\n}\n"
        text = "int f(const struct plan *plan) {\n    return plan->count == 1;\n}\n"
        self.assertEqual(self.found(rooms.check_field_owners, plan__a=one, user__b=text), [])


class FunctionTest(unittest.TestCase):
    def test_functions_are_told_from_other_braces(self):
        text = (
            "struct a {\n    int b;\n};\n"
            "static const int table[] = {1, 2};\n"
            "enum { LIMIT = 3 };\n"
            '__attribute__((target("avx2"))) static void first(int a,\n    int b) {\n'
            "    if (a) {\n        second((struct c){1});\n    }\n}\n"
            "#define MACRO(x) do { x; } while (0)\n"
            "int second(void) {\n    return '{';\n}\n"
        )
        found = [(f.name, f.first_line, f.last_line) for f in c_source.functions(text)]
        self.assertEqual(found, [("first", 6, 11), ("second", 13, 15)])


class TreeTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        (self.root / "base").mkdir()
        self.patches = contextlib.ExitStack()
        self.addCleanup(self.patches.close)
        for table in (rules.LONG_FILES, rules.WIDE_FILES, rules.LONG_FUNCTIONS,
                      rules.RECURSIVE_FUNCTIONS, rules.UNBUILT_FILES):
            self.patches.enter_context(mock.patch.dict(table, clear=True))
        for name in ("PLAIN_FOLDERS", "WRAPPED_DOCS"):
            self.patches.enter_context(mock.patch.object(rules, name, ()))
        self.patches.enter_context(mock.patch.object(rules, "NO_DOOR", ("base",)))

    def write(self, path, text):
        (self.root / path).write_text(text)

    def test_source_that_nothing_builds_is_found(self):
        self.write("base/dead.c", "int dead;\n")
        self.write("base/meson.build", "library('base', 'deadline.c')\n")
        self.assertEqual([f.path for f in tidy.check_tree(self.root)], ["base/dead.c"])
        self.write("base/meson.build", "library('base', 'dead.c')\n")
        self.assertEqual(tidy.check_tree(self.root), [])

    def test_exception_for_a_file_that_is_gone_is_found(self):
        with mock.patch.dict(rules.LONG_FILES, {"base/gone.c": "x"}):
            self.assertEqual([f.path for f in tidy.check_tree(self.root)], ["base/gone.c"])

    def test_rewritten_folder_that_does_not_exist_is_found(self):
        with mock.patch.object(rules, "PLAIN_FOLDERS", ("base/moved",)):
            self.assertEqual([f.path for f in tidy.check_tree(self.root)], ["base/moved"])

    def test_build_folders_are_not_read(self):
        (self.root / "build-clang").mkdir()
        self.write("build-clang/a.c", "\tmalloc(1); \n")
        self.assertEqual(tidy.check_tree(self.root), [])


if __name__ == "__main__":
    unittest.main()
