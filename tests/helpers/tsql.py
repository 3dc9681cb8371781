"""Transact-SQL as the shop has it, done on PostgreSQL: what stands in for SQL Server in tests.

sqlglot translates each statement that reads or changes rows. Variables, branches, loops, procedures
and triggers are followed here. A database of SQL Server is a schema of PostgreSQL.
"""

import functools
import re
import struct
import time
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from labkit.shop.answers import Listening, Refused
from labkit.shop.postgres import Postgres

NUMBERS = {"40P01": 1205, "40001": 3960, "53100": 1105, "23505": 2627, "42P01": 208,
           "55P03": 1222, "42P07": 2714, "42703": 207, "42P06": 1801}  # fmt: skip
GOING = ("57P",)
VARIABLE = re.compile(r"\$\$?([A-Za-z_]\w*)")
NEXT = re.compile(r"NEXT\s+VALUE\s+FOR\s+(\w+)", re.I)
BEGINS = {"BEGIN", "THROW", "RETURN", "EXECUTE", "SET", "INSERT", "UPDATE", "ROLLBACK", "SELECT"}
PROGRAM = re.compile(
    r"\s*(CREATE|ALTER)\s+(PROCEDURE|TRIGGER)\s+(\w+)\s+(.*?)\s+AS\s+BEGIN\b(.*)\bEND\s*;?\s*$",
    re.I | re.S,
)
NO_COMMENT = re.compile(r"^\s*--.*$", re.M)
SETTLED = {"RECOVERY", "READ_COMMITTED_SNAPSHOT", "SINGLE_USER"}
"""Options of a database without a counterpart here."""
PRELUDE = """
CREATE SCHEMA IF NOT EXISTS tsql;
CREATE TABLE IF NOT EXISTS tsql.databases (
    name text PRIMARY KEY, state text NOT NULL DEFAULT 'ONLINE',
    durability text NOT NULL DEFAULT 'DISABLED');
CREATE OR REPLACE FUNCTION tsql.openjson(given text) RETURNS TABLE (key text, value text)
    LANGUAGE sql IMMUTABLE AS $$ SELECT (n - 1)::text, e FROM
        jsonb_array_elements_text(given::jsonb) WITH ORDINALITY AS one (e, n) $$;
CREATE OR REPLACE FUNCTION tsql.json_value_at(given text, path text) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$ SELECT
        jsonb_path_query_first(given::jsonb, path::jsonpath) #>> '{}' $$;
CREATE OR REPLACE FUNCTION tsql.string_split(given text, apart text) RETURNS TABLE (value text)
    LANGUAGE sql IMMUTABLE AS $$ SELECT unnest(string_to_array(given, apart)) $$;
CREATE OR REPLACE FUNCTION tsql.sysutcdatetime() RETURNS timestamp
    LANGUAGE sql AS $$ SELECT now() AT TIME ZONE 'utc' $$;
CREATE OR REPLACE FUNCTION tsql.databasepropertyex(given text, property text) RETURNS text
    LANGUAGE sql AS $$ SELECT state FROM tsql.databases WHERE name = given $$;
CREATE OR REPLACE FUNCTION tsql.serverproperty(given text) RETURNS text
    LANGUAGE sql AS $$ SELECT current_setting('server.' || given, true) $$;
CREATE OR REPLACE FUNCTION tsql.fulltextcatalogproperty(catalog text, property text) RETURNS int
    LANGUAGE sql AS $$ SELECT 0 $$;
CREATE OR REPLACE FUNCTION tsql.contains(words text, wanted text) RETURNS boolean
    LANGUAGE sql AS $$ SELECT string_to_array(words, ' ') @>
        (SELECT array_agg(btrim(one, '"')) FROM unnest(string_to_array(wanted, ' AND ')) one) $$;
CREATE OR REPLACE FUNCTION tsql.same(one text, other int) RETURNS boolean
    LANGUAGE sql AS $$ SELECT one = other::text $$;
DROP OPERATOR IF EXISTS tsql.= (text, int);
CREATE OPERATOR tsql.= (LEFTARG = text, RIGHTARG = int, FUNCTION = tsql.same);
INSERT INTO tsql.databases VALUES ('master') ON CONFLICT DO NOTHING;
"""


class Wrong(Exception):
    """An error as SQL Server tells one: number, state, class and words."""

    def __init__(self, number, text, state=1, kind=16):
        super().__init__(text)
        self.number, self.state, self.kind = number, state, kind


class Gone(Exception):
    """What does the work has gone away: the connection ends without a word."""


@dataclass
class Column:
    name: str
    oid: int
    size: int
    not_null: bool


@dataclass
class Result:
    columns: list
    rows: list
    many: int


class Behind(Postgres):
    """PostgreSQL, asked one statement at a time, with the names and kinds of the columns."""

    def ask(self, words):
        try:
            rows = self.query(words)
        except Refused as refused:
            if refused.code.startswith(GOING):
                raise Gone(str(refused)) from None
            number = NUMBERS.get(refused.code, 50000)
            words = f"{refused} [{words[:200]}]" if number == 50000 else str(refused)
            raise Wrong(number, words, 45 if number == 1205 else 1) from None
        except OSError as lost:
            raise Gone(str(lost)) from None
        return self._columns(rows.said), rows, _count(rows.said)

    def _columns(self, said):
        if said[:1] != b"T":
            return []
        (many,) = struct.unpack_from("!h", said, 5)
        at, found = 7, []
        for _ in range(many):
            end = said.index(b"\0", at)
            table, number, oid, size, modifier, _ = struct.unpack_from("!ihihih", said, end + 1)
            known = bool(table) and self._not_null(table, number)
            size = modifier - 4 if oid == 1043 and modifier > 0 else size
            found.append(Column(said[at:end].decode(), oid, size, known))
            at = end + 19
        return found

    # A column is what it is for as long as its table is there.
    def _not_null(self, table, number):
        known = self.__dict__.setdefault("known", {})
        if (table, number) not in known:
            asked = (
                f"SELECT attnotnull FROM pg_attribute WHERE attrelid={table} AND attnum={number}"
            )
            known[table, number] = self.query(asked)[0][0] == b"t"
        return known[table, number]


def _count(said):
    at, many = 0, 0
    while at < len(said):
        if said[at] == 67:
            many = int(re.sub(rb"\D", b"", said[at + 5 :].split(b"\0")[0].split(b" ")[-1]) or 0)
        at += 1 + struct.unpack_from("!i", said, at + 1)[0]
    return many


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


class Session:
    """One connection: its database, its variables, and what it has begun."""

    def __init__(self, port, user, secret, database, properties):
        self.behind = Behind(Listening("127.0.0.1", port, user), secret)
        self.database = "master"
        self.rowcount, self.deep, self.fired = 0, 0, False
        for name, value in properties.items():
            self.behind.ask(f"SET server.{name} = '{value}'")
        self.use(database or "master")

    def use(self, database):
        """Ask this database from now on."""
        _, rows, _ = self.behind.ask(
            f"SELECT state, durability FROM tsql.databases WHERE name = '{database}'"
        )
        if not len(rows) or rows[0][0] != b"ONLINE":
            words = f'Cannot open database "{database}" requested by the login. The login failed.'
            raise Wrong(4060, words, kind=11)
        schema = "public" if database == "master" else database
        self.behind.ask(f"SET search_path = {schema}, tsql")
        self.behind.ask(f"SET synchronous_commit = {'off' if rows[0][1] == b'FORCED' else 'on'}")
        self.database = database

    def close(self):
        self.behind.close()

    def run(self, words, given=None):
        """Do a batch; yields the result of each statement."""
        words = NO_COMMENT.sub("", words)
        program = PROGRAM.match(words)
        try:
            if program:
                yield self._keep(program)
            else:
                yield from self._do(("block", steps(words.strip())), dict(given or {}))
        except Wrong:
            if self.deep:
                self.behind.ask("ROLLBACK")
                self.deep = 0
            raise

    def _keep(self, program):
        how, kind, name, head, body = program.groups()
        text = ", ".join(re.findall(r"@\w+\s+[\w()]+", head)) if kind.upper() == "PROCEDURE" else (
            re.search(r"\w+\s+(\w+)", head)[1])  # fmt: skip
        steps(body)
        there = len(self.behind.ask(f"SELECT 1 FROM programs WHERE name = '{name}'")[1])
        if there != (how.upper() == "ALTER"):
            raise Wrong(2714 if there else 208, f"{name} is there: {bool(there)}")
        quoted = body.replace("'", "''")
        self.behind.ask(
            f"INSERT INTO programs VALUES ('{name}', '{kind.upper()}', '{text}', '{quoted}') "
            f"ON CONFLICT (name) DO UPDATE SET head = EXCLUDED.head, body = EXCLUDED.body"
        )
        self._programs.cache_clear()
        return Result([], [], 0)

    @functools.cached_property
    def _programs(self):
        @functools.lru_cache(64)
        def found(database, name, kind):
            schema = "public" if database == "master" else database
            column = "name" if kind == "PROCEDURE" else "head"
            if schema == "public":
                return None
            _, rows, _ = self.behind.ask(f"SELECT head, body FROM {schema}.programs WHERE "
                                         f"{column} = '{name}' AND kind = '{kind}'")  # fmt: skip
            return (rows[0][0].decode(), rows[0][1].decode()) if len(rows) else None

        return found

    def _do(self, step, variables):
        if step[0] == "block":
            for one in step[1]:
                yield from self._do(one, variables)
        elif step[0] == "if":
            if self._true(step[1], variables):
                yield from self._do(step[2], variables)
        elif step[0] == "while":
            while self._true(step[1], variables):
                yield from self._do(step[2], variables)
        else:
            yield from self._plain(step[1], step[2], variables)

    def _plain(self, words, word, variables):
        special = getattr(self, f"_{word.lower()}", None) if word.isalpha() else None
        if special:
            yield from special(words, variables) or ()
        else:
            yield self._ask(words, variables)

    def _ask(self, words, variables):
        text, table = translated(words)
        text = self._filled(text, variables)
        if table and not self.fired and self._programs(self.database, table, "TRIGGER"):
            return self._triggered(text, table)
        columns, rows, many = self.behind.ask(text)
        self.rowcount = many
        return Result(columns, rows, many)

    # After a statement has changed rows, the program looks at these.
    def _triggered(self, text, table):
        self.behind.ask(f"CREATE TEMP TABLE IF NOT EXISTS inserted (LIKE {table})")
        self.behind.ask("TRUNCATE inserted")
        *_, many = self.behind.ask(
            f"WITH changed AS ({text} RETURNING *) INSERT INTO inserted SELECT * FROM changed"
        )
        self.fired = True
        try:
            body = self._programs(self.database, table, "TRIGGER")[1]
            for _ in self._do(("block", steps(body)), {}) if many else ():
                pass
        finally:
            self.fired = False
        self.rowcount = many
        return Result([], [], many)

    def _filled(self, text, variables):
        def value(found):
            if found[0].startswith("$$"):
                return {"ROWCOUNT": str(self.rowcount), "TRANCOUNT": str(self.deep)}[found[1]]
            if found[1].lower() not in variables:
                raise Wrong(137, f'Must declare the scalar variable "@{found[1]}".', 2, 15)
            return literal(*variables[found[1].lower()])

        return VARIABLE.sub(value, text)

    def _value(self, words, kind, variables):
        text = self._filled(translated(f"SELECT {words}")[0], variables)
        _, rows, _ = self.behind.ask(f"SELECT CAST(({text}) AS {plain_kind(kind)})")
        found = rows[0][0]
        return found if found is None else found.decode()

    def _true(self, words, variables):
        text = f"SELECT CASE WHEN {words} THEN 1 ELSE 0 END"
        return self.behind.ask(self._filled(translated(text)[0], variables))[1][0][0] == b"1"

    def _declare(self, words, variables):
        name, kind, rest = re.match(
            r"DECLARE\s+@(\w+)\s+(\w+(?:\s*\(\w+\))?)\s*(.*)", words, re.I | re.S
        ).groups()
        first = self._value(rest.removeprefix("="), kind, variables) if rest else None
        variables[name.lower()] = (kind, first)

    def _set(self, words, variables):
        found = re.match(r"SET\s+@(\w+)\s*=(.*)", words, re.I | re.S)
        if found:
            kind = variables[found[1].lower()][0]
            variables[found[1].lower()] = (kind, self._value(found[2], kind, variables))

    def _begin(self, words, variables):
        self.behind.ask("BEGIN")
        self.deep += 1

    def _commit(self, words, variables):
        self.behind.ask("COMMIT")
        self.deep = 0

    def _rollback(self, words, variables):
        self.behind.ask("ROLLBACK")
        self.deep = 0

    def _checkpoint(self, words, variables):
        self.behind.ask("CHECKPOINT")

    def _throw(self, words, variables):
        number, text, state = re.match(r"THROW\s+(\d+)\s*,\s*'(.*)'\s*,\s*(\d+)", words).groups()
        raise Wrong(int(number), text, int(state))

    def _waitfor(self, words, variables):
        time.sleep(float(re.search(r":(\d\d\.?\d*)'", words)[1]))

    def _use(self, words, variables):
        self.use(words.split()[1].strip("[];"))

    def _execute(self, words, variables):
        inner = re.match(r"EXECUTE\s*\((.*)\)\s*$", words, re.S | re.I)
        if inner:
            text = self._value(inner[1], "varchar(8000)", variables)
            yield from self.run(text)
            return
        name, given = re.match(r"EXECUTE\s+(\w+)\s*(.*)$", words, re.S | re.I).groups()
        program = self._programs(self.database, name, "PROCEDURE")
        if not program:
            raise Wrong(2812, f"Could not find stored procedure '{name}'.", 62)
        kinds = [one.strip().split(None, 1) for one in program[0].split(",")]
        values = [self._value(one, kind, variables) for (_, kind), one in
                  zip(kinds, given.split(","), strict=True)]  # fmt: skip
        own = {one[1:].lower(): (kind, value) for (one, kind), value in
               zip(kinds, values, strict=True)}  # fmt: skip
        yield from self._do(("block", steps(program[1])), own)

    def _create(self, words, variables):
        kind, name = words.split()[1:3]
        if kind.upper() == "DATABASE":
            self.behind.ask(f"CREATE SCHEMA {name}")
            self.behind.ask(f"CREATE TABLE {name}.programs (name text PRIMARY KEY, kind text, "
                            "head text, body text)")  # fmt: skip
            self.behind.ask(f"INSERT INTO tsql.databases VALUES ('{name}')")
        elif kind.upper() == "SEQUENCE":
            self.behind.ask(words)
        elif kind.upper() == "FULLTEXT":
            if not self._true("SERVERPROPERTY('IsFullTextInstalled') = 1", {}):
                raise Wrong(7609, "Full-Text Search is not installed.", 5, 17)
        else:
            yield self._ask(words, variables)

    def _drop(self, words, variables):
        name = words.split()[2]
        self.behind.ask(f"DROP SCHEMA {name} CASCADE")
        self.behind.ask(f"DELETE FROM tsql.databases WHERE name = '{name}'")

    def _alter(self, words, variables):
        name, option, value = re.match(
            r"ALTER\s+DATABASE\s+(\w+)\s+SET\s+(\w+)\s*=?\s*(\w*)", words, re.I
        ).groups()
        name = self.database if name.upper() == "CURRENT" else name
        if option == "DELAYED_DURABILITY":
            self.behind.ask(
                f"UPDATE tsql.databases SET durability = '{value}' WHERE name = '{name}'"
            )
        elif option not in SETTLED:
            raise Wrong(102, f"Incorrect syntax near '{option}'.", kind=15)


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
