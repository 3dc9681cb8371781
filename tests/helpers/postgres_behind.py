"""PostgreSQL behind what stands in for SQL Server: its answers, kinds of columns and errors."""

import re
import struct
from dataclasses import dataclass

from labkit.shop.answers import Refused
from labkit.shop.postgres import Postgres

NUMBERS = {"40P01": 1205, "40001": 3960, "53100": 1105, "23505": 2627, "42P01": 208,
           "55P03": 1222, "42P07": 2714, "42703": 207, "42P06": 1801}  # fmt: skip
GOING = ("57P",)
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
