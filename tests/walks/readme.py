"""The commands of README.md by section, and of other pages, as a reader would type them."""
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).parents[2]


def blocks(section, page="README.md"):
    """The text of each ```sh block below this heading, in their order; None: of the whole page."""
    text = (ROOT / page).read_text()
    flags = re.DOTALL | re.MULTILINE
    if section is not None:
        text = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, flags)[1]
    return re.findall(r"^```sh\n(.*?)^```$", text, flags)


def commands(section, page="README.md"):
    """The commands of a section, one a list entry: a line, or several with a here-document."""
    found, end = [], None
    for line in "".join(blocks(section, page)).splitlines():
        if end:
            found[-1] += line + "\n"
            if line == end:
                end = None
            continue
        found.append(line + "\n")
        document = re.search(r"<<'(\w+)'", line)
        end = document[1] if document else None
    return found


def examples(page):
    """The texts of a page that are indented by four columns or more, without that."""
    text = (ROOT / page).read_text()
    found = re.findall(r"(?:^ {4,}\S.*\n)+", text, re.MULTILINE)
    return [textwrap.dedent(block).rstrip("\n") for block in found]
