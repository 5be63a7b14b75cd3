"""Makes chat fixtures: random conversations, their texts as transformers renders them, and the byte
ranges that are trained.

    python make_fixtures.py TEMPLATES COUNT SEED >fixtures.jsonl

TEMPLATES is a folder with NAME.jinja, the text of a template, and NAME.generation.jinja, a copy
with generation tags, for each name in runtime/chat/chat_template.c. COUNT is the number of
conversations for each template. The file in this folder was made with COUNT 6 and SEED 1.
"""
import json
import pathlib
import random
import sys

import jinja2
from transformers.utils.chat_template_utils import render_jinja_template

WORDS = ("a", "bee", "builds", "its", "comb", "of", "wax", "naïve", "蜂の巣", "🐝", "\n", "\n\n",
         "  ", "\t", "\u00a0", "\u3000", '"quoted"', "back\\slash", "12.5", "</b>", "e\u0301",
         "<tool_response>", "'", "\u2028", "\u200b", "[x]", "{y}")
THOUGHTS = ("<think>\nHm.\n</think>\n\n", "<think></think>", "no start</think>\n", "<think>open")
TOOLS_UNKNOWN = ("ChatML", "Llama 3", "Qwen 2", "SmolLM 2")


def text(rng, length=12):
    words = [rng.choice(WORDS) for _ in range(rng.randrange(1, length))]
    return rng.choice(("", " ")).join(words)


def value(rng, depth=0):
    """A value of JSON."""
    scalars = (text(rng, 4), rng.randrange(-5, 10 ** rng.randrange(1, 17)), True, False, None,
               rng.random(), rng.uniform(-1, 1) * 10 ** rng.randrange(-20, 25), 0.0, -0.0, 1e16,
               123456.0)
    kind = rng.randrange(4) if depth < 3 else 3
    if kind == 0:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 1:
        return {f"{text(rng, 3)}{i}": value(rng, depth + 1) for i in range(rng.randrange(4))}
    return rng.choice(scalars)


def tool(rng):
    function = {"name": text(rng, 3), "description": text(rng), "parameters": value(rng)}
    if rng.random() < 0.3:
        function["return"] = value(rng)
    return {"type": "function", "function": function}


def call(rng, name):
    arguments = {f"k{i}": value(rng) for i in range(rng.randrange(3))}
    as_text = name.startswith("Qwen 3") and rng.random() < 0.3
    function = {"name": text(rng, 3), "arguments": json.dumps(arguments) if as_text else arguments}
    return {"type": "function", "id": f"{rng.randrange(10 ** 9):09}", "function": function}


def answers(rng, name, has_tools):
    """The messages that answer a question."""
    messages = []
    if has_tools and rng.random() < 0.5:
        count = 1 if name.startswith("Llama") else rng.randrange(1, 3)
        calls = [call(rng, name) for _ in range(count)]
        messages.append({"role": "assistant", "content": rng.choice(("", text(rng))),
                         "tool_calls": calls})
        messages += [{"role": "tool", "content": text(rng), "tool_call_id": one["id"]}
                     for one in calls]
    content = text(rng)
    answer = {"role": "assistant", "content": content}
    if name.startswith("Qwen 3"):
        if rng.random() < 0.4:
            answer["content"] = rng.choice(THOUGHTS) + content
        elif rng.random() < 0.4:
            answer["reasoning_content"] = rng.choice(("", "\n\nSo.\n", text(rng)))
    return messages + [answer]


def conversation(rng, name):
    has_tools = name not in TOOLS_UNKNOWN and rng.random() < 0.4
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": text(rng)})
    for _ in range(rng.randrange(1, 4)):
        messages.append({"role": "user", "content": text(rng)})
        messages += answers(rng, name, has_tools)
    if rng.random() < 0.2:
        messages.append({"role": "user", "content": text(rng)})
    made = {"messages": messages}
    if has_tools:
        made["tools"] = [tool(rng) for _ in range(rng.randrange(1, 3))]
    return made


def render(template, case, is_tagged):
    settings = {key: case[key] for key in ("bos_token", "eos_token", "date_string")}
    texts, ranges = render_jinja_template(
        conversations=[case["conversation"]["messages"]], chat_template=template,
        tools=case["conversation"].get("tools"), return_assistant_tokens_mask=is_tagged,
        add_generation_prompt=case["starts_answer"], enable_thinking=case["thinking"], **settings)
    return texts[0], ranges[0] if is_tagged else None


def make_case(rng, name, template, tagged):
    is_mistral = name.startswith("Mistral")
    case = {"name": name, "bos_token": "<s>" if is_mistral else "<|begin_of_text|>",
            "eos_token": "</s>", "date_string": rng.choice(("26 Jul 2024", "01 Jan 2030")),
            "thinking": rng.random() < 0.5, "starts_answer": rng.random() < 0.3,
            "conversation": conversation(rng, name)}
    case["text"], _ = render(template, case, False)
    again, ranges = render(tagged, case, True)
    assert again == case["text"], (name, again, case["text"])
    case["trained"] = [[len(again[:at].encode()) for at in pair] for pair in ranges]
    return case


def main():
    folder, count, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    for path in sorted(folder.glob("*.generation.jinja")):
        name = path.name.removesuffix(".generation.jinja")
        template = (folder / f"{name}.jinja").read_text()
        made = 0
        while made < count:
            try:
                case = make_case(rng, name, template, path.read_text())
            except jinja2.TemplateError:
                continue
            print(json.dumps(case, ensure_ascii=False))
            made += 1


if __name__ == "__main__":
    main()
