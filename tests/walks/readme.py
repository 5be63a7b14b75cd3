"""The commands of README.md, by section, as a reader would type them."""
import pathlib
import re

README = pathlib.Path(__file__).parents[2] / "README.md"


def blocks(section):
    """The text of each ```sh block below this heading, in their order."""
    text = README.read_text()
    flags = re.DOTALL | re.MULTILINE
    found = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, flags)
    return re.findall(r"^```sh\n(.*?)^```$", found[1], flags)


def commands(section):
    """The commands of a section, one a list entry: a line, or several with a here-document."""
    found, end = [], None
    for line in "".join(blocks(section)).splitlines():
        if end:
            found[-1] += line + "\n"
            if line == end:
                end = None
            continue
        found.append(line + "\n")
        document = re.search(r"<<'(\w+)'", line)
        end = document[1] if document else None
    return found
