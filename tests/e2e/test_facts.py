"""From text and conversations to a model that answers: made-up facts are learned from text, then
from questions and answers, by commands of the program alone, and asked with `skep generate --chat`.

Few facts here; SKEP_LONG=1 makes it 200, of which 95 % must be answered exactly, greedily, each
answer ending by itself, after at most ten minutes of training on this machine's CPUs.
"""
import json
import os
import random
import resource
import subprocess
import sys
import time

from chat_files import CHATML, write_tokenizer
from small_run import LONG, SKEP, TIMEOUT_S, RunTest, main, nested

FACTS = 200 if LONG else 10
RIGHT_SHARE = 0.95
TRAINING_LIMIT_S = 600
SEQUENCE = 128
SEED = 2026
MODEL = {"model_type": "llama", "vocab_size": 448, "hidden_size": 128, "intermediate_size": 256,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": SEQUENCE, "rms_norm_eps": 1e-5, "initializer_range": 0.02,
         "tie_word_embeddings": True, "hidden_act": "silu"}
SYLLABLES = "bra dol fen gim hul kor lis mav nek pod qua rin sol tev vum wex yar zin".split()
THINGS = "capital river queen harvest song mountain colour harbour".split()


def made_up_facts(count, seed):
    """(question, answer, sentence) of things that exist nowhere; no question is there twice."""
    chance = random.Random(seed)

    def word():
        return "".join(chance.choice(SYLLABLES) for _ in range(chance.randint(2, 3))).capitalize()

    found = {}
    while len(found) < count:
        thing, place, answer = chance.choice(THINGS), word(), word()
        found.setdefault((thing, place), answer)
    return [(f"What is the {thing} of {place}?", f"It is {answer}.",
             f"The {thing} of {place} is {answer}.") for (thing, place), answer in found.items()]


class Facts(RunTest):
    def setUp(self):
        self.path = self.folder().path
        model = self.path / "model"
        (model / "config.json").write_text(json.dumps(MODEL))
        write_tokenizer(model)
        config = model / "tokenizer_config.json"
        names = json.loads(config.read_text())
        config.write_text(json.dumps({**names, "chat_template": CHATML}))

    def skep(self, *arguments, **options):
        result = subprocess.run([SKEP, *arguments], cwd=self.path, capture_output=True, text=True,
                                timeout=2 * TIMEOUT_S, check=False, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def write_lines(self, name, objects):
        (self.path / name).write_text("".join(json.dumps(line) + "\n" for line in objects))

    def train(self, name, **settings):
        settings = {key.replace("__", "."): value for key, value in settings.items()}
        (self.path / f"{name}.yaml").write_text(nested(
            {"batch.sequence": SEQUENCE, "batch.microbatch": 2, "batch.tokens": 4 * SEQUENCE,
             "schedule.kind": "cosine", "optimizer.weight_decay": 0, **settings}))
        self.skep("train", f"{name}.yaml")

    def test_made_up_facts_are_answered(self):
        facts = made_up_facts(FACTS, SEED)
        begin, cpu_begin = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        self.write_lines("text.jsonl", ({"text": sentence} for _, _, sentence in facts))
        self.write_lines("chats.jsonl", ({"messages": [
            {"role": "user", "content": question}, {"role": "assistant", "content": answer}]}
            for question, answer, _ in facts))
        self.skep("data", "text.jsonl", "--model", "model", "-o", "text")
        self.train("read", model="model", init="random", data__train="text/train_*.bin",
                   epochs=30 if LONG else 60, optimizer__lr=3e-3)
        self.skep("data", "chats.jsonl", "--model", "model", "-o", "chats", "--chat",
                  "--sequence", str(SEQUENCE))
        self.train("tune", model="read/model", data__train="chats/train_*.bin",
                   epochs=60 if LONG else 100, optimizer__lr=2e-3)
        seconds, cpu = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        answers = self.skep("generate", "tune/model", "--chat", "--temperature", "0",
                            input="\n\n".join(question for question, _, _ in facts)).splitlines()
        self.assertEqual(len(answers), len(facts))
        right = sum(given == answer for given, (_, answer, _) in zip(answers, facts))
        print(f"{right} of {FACTS} facts are answered exactly after {seconds:.0f} s of training, "
              f"{cpu.ru_utime - cpu_begin.ru_utime:.0f} s of CPU time on {os.cpu_count()} CPUs",
              file=sys.stderr)
        self.assertGreaterEqual(right, RIGHT_SHARE * FACTS)
        self.assertLessEqual(seconds, TRAINING_LIMIT_S)


if __name__ == "__main__":
    main()
