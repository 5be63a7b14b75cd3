"""The documents of expected.json, made the same way by make.py and by the tests."""


def generator(seed):
    """Numbers below a bound, the same in every version of Python."""
    state = seed

    def below(bound):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (state >> 33) % bound

    return below


WORDS = ("the bees of a hive swarm when spring is warm and flowers open in every field near "
         "their straw skep ; it's 2026 , they've 31415 bees \n\n \n über żółć 蜂 蜂蜜 пчела 🐝 👩‍🚀 "
         "don't WE'LL naïve e\u0301 3.14 -> != <|endoftext|> <|begin|>").split(" ")


def long_text(seed, words):
    below = generator(seed)
    return " ".join(WORDS[below(len(WORDS))] for _ in range(words))


def broken_bytes(seed, count):
    """Words among bytes that are not UTF-8: all starts of characters, cut and overlong."""
    below = generator(seed)
    parts = []
    for _ in range(count):
        if below(3) == 0:
            parts.append(bytes(below(256) for _ in range(1 + below(5))))
        else:
            parts.append(WORDS[below(len(WORDS))].encode())
    return b" ".join(parts)


SHORT = [
    "It is a truth universally acknowledged",
    " leading and trailing spaces  ",
    "\n\n\t tabs\tand\r\nline ends \n",
    "numbers 1 12 123 1234 12345 and 3.14159",
    "it's they've we'll I'd DON'T",
    "über żółć naïve",
    "蜂蜜はおいしい",
    "🐝🐝 👩‍🚀 🏳️‍🌈",
    "e\u0301 \u00e9 \u1e9b\u0323",
    "a\u0000b\u001fc\u007f",
    "text <|endoftext|> with <|begin|> special tokens",
    "code: for (int i = 0; i < 10; i++) { a[i] = -1; }",
    "\ufeffbyte order mark",
    "x",
    "\U0010ffff\ufffd\ud7ff\ue000",
    "   \n   \n      indented",
]


def documents():
    """name: bytes of the document."""
    found = {f"short-{i:02}": text.encode() for i, text in enumerate(SHORT)}
    found.update({f"medium-{i}": long_text(i + 1, 300 * (i + 1)).encode() for i in range(6)})
    found["broken"] = broken_bytes(77, 4000)
    found["long"] = long_text(99, 150000).encode()
    return found
