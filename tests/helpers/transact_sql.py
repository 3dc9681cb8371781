"""Words of Transact-SQL: each statement in those of PostgreSQL, and the statements of a batch."""

import functools
import re

import sqlglot
from postgres_behind import Wrong
from sqlglot import exp

VARIABLE = re.compile(r"\$\$?([A-Za-z_]\w*)")
NEXT = re.compile(r"NEXT\s+VALUE\s+FOR\s+(\w+)", re.I)
BEGINS = {"BEGIN", "THROW", "RETURN", "EXECUTE", "SET", "INSERT", "UPDATE", "ROLLBACK", "SELECT"}
PROGRAM = re.compile(
    r"\s*(CREATE|ALTER)\s+(PROCEDURE|TRIGGER)\s+(\w+)\s+(.*?)\s+AS\s+BEGIN\b(.*)\bEND\s*;?\s*$",
    re.I | re.S,
)
NO_COMMENT = re.compile(r"^\s*--.*$", re.M)


@functools.lru_cache(4096)
def translated(words):
    """A statement in the words of PostgreSQL; variables stand there as $name."""
    words = re.sub(r"\bJSON_VALUE\s*\(", "JSON_VALUE_AT(", NEXT.sub(r"nextval('\1')", words))
    (tree,) = sqlglot.parse(words, read="tsql", error_level=sqlglot.ErrorLevel.RAISE)
    if isinstance(tree, exp.Command):
        raise Wrong(102, f"not known here: {words[:100]}")
    for table in tree.find_all(exp.Table):
        if table.args.get("catalog"):
            table.set("db", table.args["catalog"])
            table.set("catalog", None)
        elif table.args.get("db") and table.text("db") == "dbo":
            table.set("db", None)
    for returned in tree.find_all(exp.Returning):
        for column in returned.find_all(exp.Column):
            column.set("table", None)
    text = tree.sql("postgres")
    return text.replace(" CLUSTERED INDEX", " INDEX"), updated(tree)


def updated(tree):
    return tree.this.name if isinstance(tree, exp.Update) else ""


@functools.lru_cache(512)
def steps(words):
    """The statements of a batch, as a tree: what each is, and its words."""
    tokens = list(sqlglot.tokenize(words, read="tsql"))
    found, at = _block(words, tokens, 0)
    if at < len(tokens):
        raise Wrong(102, f"Incorrect syntax near '{tokens[at].text}'.", kind=15)
    return found


def _block(words, tokens, at):
    found = []
    while at < len(tokens) and tokens[at].text.upper() != "END":
        if tokens[at].text == ";":
            at += 1
            continue
        step, at = _step(words, tokens, at)
        found.append(step)
    return found, at


def _step(words, tokens, at):
    word = tokens[at].text.upper()
    after = tokens[at + 1].text.upper() if at + 1 < len(tokens) else ""
    if word == "BEGIN" and after not in ("TRANSACTION", "TRAN"):
        inner, at = _block(words, tokens, at + 1)
        if at >= len(tokens):
            raise Wrong(102, "Incorrect syntax: BEGIN without END.", kind=15)
        return ("block", inner), at + 1
    if word in ("IF", "WHILE"):
        end = _until(tokens, at + 1, BEGINS)
        asked = words[tokens[at + 1].start : tokens[end].start]
        inner, at = _step(words, tokens, end)
        return (word.lower(), asked, inner), at
    end = _until(tokens, at + 1, {"END"})
    last = tokens[end - 1].end + 1
    return ("plain", words[tokens[at].start : last], word), end


# A statement ends with its semicolon, or where its block does; CASE has an END of its own.
def _until(tokens, at, stops):
    depth = 0
    while at < len(tokens):
        word = tokens[at].text.upper() if tokens[at].token_type.name != "STRING" else ""
        if word == ";" or (depth == 0 and word in stops):
            return at
        depth += (word in ("(", "CASE")) - (word in (")", "END"))
        at += 1
    return at


def literal(kind, value):
    """A value of a variable as PostgreSQL writes it."""
    if value is None:
        return f"NULL::{plain_kind(kind)}"
    if plain_kind(kind) == "text":
        quoted = str(value).replace("'", "''")
        return f"'{quoted}'::text"
    return f"{int(value)}"


def plain_kind(kind):
    """What PostgreSQL calls a kind of variable."""
    return "text" if "char" in kind.lower() else kind
