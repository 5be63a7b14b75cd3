"""Texts that are hard to tokenize, for the fixtures and for comparisons with the reference."""
import random

SCALARS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
SCALARS_A_TEXT = 64  # of scalar_text
# Parts of random texts: contractions, runs of white space, marks in both orders, jamo, emoji with
# joiners, texts of added tokens, characters whose category, case or normal form is special.
PARTS = [
    "a", "B", "the", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "'s", "'S", "'re", "'LL",
    "'\u017f", "1", "22", "333", "4444", "\u0663", "\u00bd", "\u00b2", "\u216b", "\u00e9",
    "e\u0301", "\u0323\u0307", "\u0307\u0323", "\uac00", "\uac01", "\u1100\u1161\u11a8", "\u4f60",
    "\u65e5\u672c", "\U0001f917", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea", "\u2581", "\u2581\u2581", "<s>", "</s>", "<unk>", "<|endoftext|>",
    "<|im_start|>", "<|end|>", "<|user|>", " <|left|>", "<|left|> ", "word", "words", "sword",
    "NORM", "[INST]", "<tool_call>", "<think>", "caf\u00e9", "cafe\u0301", "\u00a0", "\u3000",
    "\u2028", "\u200d", "\u0085", "\x7f", "/", "//", "!", "?!", "...", "-", "_", "\u01c4",
    "\u01c5", "\u02b0", "\u00aa", "\u00df", "\u0130", "\u0131", "\u0345", "\u0344",
    "\u0f71\u0f72", "\u0915\u094d\u0937\u093f", "\u212a", "\u212b", "\u1e9b\u0323",
    "\u1e0a\u0323", "\ufb1d", "hello world", "Hello", "HELLO", "don't", "DON'T", "x=1;",
    "http://a.b/c?d=e", "<0x0A>", "\U00011de0", "\U00016ff5", "\uffff", "\U0010ffff",
]
PLAIN = [
    "It is a truth universally acknowledged, that a single man in possession of a good fortune "
    "must be in want of a wife. They'd said they'll come; we've seen 1,234 of them!",
    "def f(x):\n    if x > 0:\n        return {'a': [1, 2, 3]}  # comment\n\n\tpass\n",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u041a\u0430\u043a "
    "\u0434\u0435\u043b\u0430? \u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac "
    "\u03ba\u03b5\u03af\u03bc\u03b5\u03bd\u03b1.",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff01"
    "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c\u3002\ud55c\uad6d\uc5b4 "
    "\ud14d\uc2a4\ud2b8\uc785\ub2c8\ub2e4.",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092a\u093e\u0920, "
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0663\u0664\u0665, "
    "\u05e2\u05d1\u05e8\u05d9\u05ea",
    "na\u00efve caf\u00e9 \u00fcber \u00c5ngstr\u00f6m \U0001f917\U0001f680 \u00bd \u00a9 "
    "\u20ac5 10% #1 @x a_b C++ http://example.org/path?q=1&r=2",
]


def random_text(chance):
    return "".join(chance.choice(PARTS) for _ in range(chance.randint(0, 24)))


def hard_texts(count, seed=7):
    chance = random.Random(seed)
    runs = [character * length for character in (" ", "\n", "a", "A", "1", "!", "\u0301", "\u2581")
            for length in (1, 2, 3, 50, 300)]
    pairs = [PLAIN[0] + " " * spaces + PLAIN[1] + "\n" * lines + PLAIN[3]
             for spaces in (0, 1, 5) for lines in (0, 1, 3)]
    return ["", *PLAIN, *runs, *pairs, *(random_text(chance) for _ in range(count))]


def scalar_text(points):
    """Each character at the ends of a line, and between letters, digits, marks and spaces."""
    return "".join("{0}\na{0}b 1{0}2 {0}\u0301{0} {0}'s\n".format(chr(point)) for point in points)


def scalar_texts():
    for at in range(0, len(SCALARS), SCALARS_A_TEXT):
        yield scalar_text(SCALARS[at:at + SCALARS_A_TEXT])
