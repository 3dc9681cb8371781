"""The options that `esxcli` reads, and the forms in which it answers or says no."""


class Refused(Exception):
    """What the tool prints before it ends with code 1; nothing has changed."""


# "-o --option" takes a value, "-a! --apply-now" does not; a last + means that it is required.
def options(words, known):
    values, letters = {}, {}
    for one in known:
        short, long = one.rstrip("+").split()
        bare = "!" in short
        letters[short.rstrip("!")] = letters[long] = (long.strip("-"), bare)
    words = [part for word in words for part in (word.split("=", 1) if word[:1] == "-" else [word])]
    while words:
        word = words.pop(0)
        if word not in letters:
            raise Refused(f"Error: Invalid option {word}")
        name, bare = letters[word]
        if not bare and not words:
            raise Refused(f"Error: Missing value for option {word}")
        values[name] = True if bare else words.pop(0)
    for one in known:
        name = one.rstrip("+").split()[1].strip("-")
        if one.endswith("+") and name not in values:
            raise Refused(f"Error: Missing required parameter {one.rstrip('+').replace(' ', '|')}")
    return values


def fields(pairs):
    return "".join(f"   {name}: {value}\n" for name, value in pairs)


def table(head, rows):
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    cut = [zip(line, widths, strict=True) for line in lines]
    return "".join("  ".join(f"{c:<{w}}" for c, w in line).rstrip() + "\n" for line in cut)


def named(kind, known, name):
    if name not in known:
        raise Refused(f"Unable to find {kind} {name}")
    return known[name]


def choice(kind, value, legal):
    if value not in legal:
        raise Refused(f"Invalid value for {kind}: {value}; valid: {', '.join(map(str, legal))}")
    return value


def number(kind, text, low, high):
    if not text.lstrip("-").isdigit() or not low <= int(text) <= high:
        raise Refused(f"Invalid value for {kind}: {text} is not between {low} and {high}")
    return int(text)
