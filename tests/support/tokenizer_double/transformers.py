"""In place of the package transformers: a tokenizer whose tokens are bytes, and 256 ends a text.

It refuses a folder without tokenizer.json, as the real one does."""
import os


class ByteTokenizer:
    eos_token_id = 256
    unk_token_id = None

    def __len__(self):
        return 257

    def encode(self, text, add_special_tokens=True):
        return ([self.eos_token_id] if add_special_tokens else []) + list(text.encode())

    def decode(self, ids):
        return bytes(token for token in ids if token < 256).decode(errors="replace")


class AutoTokenizer:
    @staticmethod
    def from_pretrained(name):
        if not os.path.exists(os.path.join(name, "tokenizer.json")):
            raise OSError(f"Can't load tokenizer for '{name}'.\nIf you were trying to load it from")
        return ByteTokenizer()
