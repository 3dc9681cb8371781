"""Transact-SQL as the shop has it, done on PostgreSQL: what stands in for SQL Server in tests.

Variables, branches, loops, procedures and triggers are followed here; `transact_sql` translates
each statement that reads or changes rows. A database of SQL Server is a schema of PostgreSQL.
"""

import functools
import re
import time

from postgres_behind import Behind, Result, Wrong
from transact_sql import NO_COMMENT, PROGRAM, VARIABLE, literal, plain_kind, steps, translated

from labkit.shop.answers import Listening

SETTLED = {"RECOVERY", "READ_COMMITTED_SNAPSHOT", "SINGLE_USER"}
"""Options of a database without a counterpart here."""


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
