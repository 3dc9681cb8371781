"""A social web application on PostgreSQL: members read what their friends have posted, and post."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from labkit.shop.answers import Listening, ShopRows
from labkit.shop.postgres import Postgres
from labkit.shop.web import Pages, Web

DATABASE = "labkit_social"
MEMBERS, FRIENDS, POSTS = 500, 12, 4_000
LATEST = 20
"""Posts on a page."""
TABLES = f"""
CREATE TABLE friends (member int NOT NULL, friend int NOT NULL, PRIMARY KEY (member, friend));
CREATE TABLE posts (post int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, member int NOT NULL,
    at timestamptz NOT NULL DEFAULT now(), words text NOT NULL);
INSERT INTO friends SELECT m, 1 + (m + 7 * f) % {MEMBERS}
    FROM generate_series(1, {MEMBERS}) m, generate_series(1, {FRIENDS}) f;
INSERT INTO posts (member, words) SELECT 1 + n % {MEMBERS}, repeat(md5(n::text), 10)
    FROM generate_series(1, {POSTS}) n;
CREATE INDEX ON posts (member, post);
"""
TIMELINE = """SELECT post, member, words FROM posts WHERE member IN
    (SELECT friend FROM friends WHERE member = {}) ORDER BY post DESC LIMIT {}"""
POST = "INSERT INTO posts (member, words) VALUES ({}, '{}') RETURNING post"
PARAMETERS: Mapping[str, tuple[str, ...]] = {"timeline": ("member",), "post": ("member", "words")}


class SocialWeb(Web):
    """A connection of a member to the web server."""

    parameters = PARAMETERS


class SocialPages(Pages):
    """Answers a member's page."""

    parameters = PARAMETERS

    @staticmethod
    def page(database: Postgres, name: str, given: Mapping[str, str]) -> ShopRows:
        """The rows of a page."""
        member = int(given["member"])
        if name == "timeline":
            return database.query(TIMELINE.format(member, LATEST))
        return database.query(POST.format(member, given["words"].replace("'", "''")))


def fill(at: Listening, secret: str) -> None:
    """Make its database new, with members, their friends, and what they have posted so far."""
    Postgres.make(at, secret, DATABASE)
    with closing(Postgres(at, secret, DATABASE)) as database:
        database.query(TABLES)
