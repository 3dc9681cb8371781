"""SQL Server, which cannot run here: what stands in for it speaks its protocol to any client."""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytds
import pytest
import shops
from postgres_behind import Behind
from transact_sql import NO_COMMENT, PROGRAM, steps, translated

from labkit.errors import BadInput, LabkitError
from labkit.host import Host
from labkit.lab import Lab
from labkit.machine.own_database import OwnDatabase
from labkit.shop import filling, sqlserver
from labkit.shop.answers import Listening, Refused
from labkit.shop.sqlserver import SqlServer
from labkit.transports.local import Local
from labkit.workloads.dvdstore import DvdStore

PROGRAMS = ("tsql",)

pytestmark = pytest.mark.skipif(
    not Path("/usr/lib/postgresql").exists(), reason="postgresql is not installed"
)
SCRIPT = Path(sqlserver.__file__).with_suffix(".sql").read_text()
TYPED = """SELECT 1 + 1 AS two
go
SELECT name FROM nowhere
go
exit
"""
DEADLOCK = """BEGIN TRANSACTION;
UPDATE pair SET value = value + 1 WHERE one = {0};
WAITFOR DELAY '00:00:00.700';
UPDATE pair SET value = value + 1 WHERE one = {1};
COMMIT TRANSACTION;"""


@pytest.fixture(scope="module")
def served():
    with shops.served("sqlserver") as found:
        yield found


@contextmanager
def served_so(beside, *options):
    """Another one before the same database, with other ways."""
    found = shops.ServedInStead(beside.behind.program.parent, *options)
    found.behind = beside.behind
    found.folder = beside.folder
    try:
        found.start()
        yield found
    finally:
        shops.Served.stop(found)


def asked(served, database="master"):
    return closing(SqlServer(served.at, served.secret, database))


@contextmanager
def database(served, name, words=""):
    SqlServer.make(served.at, served.secret, name)
    with asked(served, name) as found:
        found.query(words)
        yield found


def by_pytds(served, name="master"):
    at = {"dsn": "127.0.0.1", "port": served.port, "database": name}
    found = pytds.connect(**at, user="shop", password=served.secret, autocommit=True)
    return closing(found)


def test_all_that_is_asked_is_transact_sql():
    for words, given in sqlserver.ASKS.values():
        names = set(re.findall(r"@(\w+)", words)) - {"number"}
        assert names == {name for name, _ in given}
        for kind, text, *_ in steps(words):
            assert kind == "plain" and (text.split()[0] in PROCEDURAL or translated(text))
    batches = SCRIPT.split(sqlserver.SEPARATOR)
    assert len(batches) == 6
    for batch in batches:
        words = NO_COMMENT.sub("", batch)
        program = PROGRAM.match(words)
        assert steps(program[5] if program else words)


PROCEDURAL = ("DECLARE", "SET", "EXECUTE")


@pytest.mark.slow
@pytest.mark.parametrize("encryption", ["login", "all"])
def test_a_client_in_c_finds_it_a_server_of_its_kind_by_tls(served, encryption):
    with served_so(served, "--encryption", encryption) as other:
        words = ["tsql", "-o", "q", "-H", "127.0.0.1", "-p", f"{other.port}", "-U", "shop", "-P",
                 other.secret]  # fmt: skip
        done = subprocess.run(
            words, input=TYPED, capture_output=True, text=True, timeout=60,
            env={**os.environ, "TDSVER": "7.4"},
        )  # fmt: skip
        assert re.search(r"two\n2\n", done.stdout), done.stdout + done.stderr
        assert "Msg 208 (severity 16, state 1)" in done.stdout + done.stderr
        with asked(other) as own:
            assert list(own.query("SELECT 1 + 1")) == [(b"2",)]


@pytest.fixture(scope="module")
def plain(served):
    with served_so(served, "--encryption", "none") as found:
        yield found


@pytest.mark.slow
def test_a_client_in_python_gives_parameters_and_loads_in_bulk_there(served, plain):
    kinds = (pytds.tds_types.IntType(), pytds.tds_types.NVarCharType(50))
    columns = [pytds.tds_base.Column(one, type=kind) for one, kind in zip("ab", kinds, strict=True)]
    made = "CREATE TABLE t (a int NOT NULL, b varchar(50) NOT NULL)"
    with database(served, "beside", made) as own, by_pytds(plain, "beside") as other:
        cursor = other.cursor()
        cursor.copy_to(data=[(1, "x"), (2, "y")], table_or_view="t", columns=columns)
        cursor.cancel()
        cursor.execute("SELECT a, b FROM t WHERE a = %s AND b = %s", (2, "y"))
        assert cursor.fetchall() == [(2, "y")]
        with pytest.raises(pytds.tds_base.DatabaseError, match="nowhere"):
            cursor.execute("SELECT a FROM nowhere")
        assert list(own.query("SELECT a, b FROM t ORDER BY a")) == [(b"1", b"x"), (b"2", b"y")]


@pytest.mark.slow
def test_both_clients_read_the_same_rows_of_all_kinds(served, plain):
    words = """SELECT g.a, CAST(NULL AS varchar(9)), CAST(NULL AS int), CAST(g.a AS smallint),
        CAST(CONCAT('row ', g.a) AS varchar(20)), CONCAT('of any length ', g.a), CAST(g.a AS bigint)
        FROM g ORDER BY g.a"""
    rows = ", ".join(f"({one})" for one in range(3_000))
    made = f"CREATE TABLE g (a int NOT NULL);\nINSERT INTO g VALUES {rows}"
    with database(served, "kinds", made) as own, by_pytds(plain, "kinds") as other:
        cursor = other.cursor()
        cursor.execute(words)
        theirs = [
            tuple(one if one is None else str(one).encode() for one in row)
            for row in cursor.fetchall()
        ]
        assert len(theirs) == 3_000 and list(own.query(words)) == theirs


@pytest.mark.slow
def test_what_is_no_encryption_and_what_is_too_old_is_named(served, plain):
    with pytest.raises(LabkitError, match="would be sent in clear text"):
        SqlServer(plain.at, plain.secret)
    with (
        served_so(served, "--version", "13") as old,
        pytest.raises(LabkitError, match="version 13, and 14 is needed"),
    ):
        SqlServer(old.at, old.secret)
    with (
        served_so(served, "--encryption", "strict") as strict,
        pytest.raises(ConnectionError, match="demands TLS from the first byte"),
    ):
        SqlServer(strict.at, strict.secret)
    with pytest.raises(ConnectionError, match="hung up before the login"):
        SqlServer(served.by_postgres, served.secret)


@pytest.mark.slow
def test_a_wrong_password_and_a_database_that_is_not_there_are_named(served):
    with pytest.raises(Refused, match="error 18456, state 1, class 14: Login failed") as no:
        SqlServer(served.at, "guessed")
    assert no.value.code == "28000"
    with pytest.raises(Refused, match="the database nowhere is not there") as no:
        SqlServer(served.at, served.secret, "nowhere")
    assert no.value.code == "3D000" and not no.value.again


@pytest.mark.slow
def test_a_database_that_just_recovers_is_waited_for(served):
    with database(served, "hurt"):
        pass
    with closing(Behind(served.by_postgres, served.secret)) as behind:
        behind.ask("UPDATE tsql.databases SET state = 'RECOVERING' WHERE name = 'hurt'")
    with pytest.raises(Refused, match="the database hurt is RECOVERING") as no:
        SqlServer(served.at, served.secret, "hurt")
    assert no.value.code == filling.STARTING


@pytest.mark.slow
def test_of_two_transactions_that_wait_for_each_other_one_may_be_tried_again(served):
    made = "CREATE TABLE pair (one int NOT NULL, value int NOT NULL);\n"
    with database(served, "pairs", made + "INSERT INTO pair VALUES (1, 0), (2, 0)") as own:

        def change(first, second):
            with asked(served, "pairs") as other:
                try:
                    other.query(DEADLOCK.format(first, second))
                except Refused as refused:
                    return refused
                return None

        with ThreadPoolExecutor(2) as both:
            ends = list(both.map(change, (1, 2), (2, 1)))
        (refused,) = [one for one in ends if one]
        assert refused.again and refused.code == "40001" and "error 1205" in str(refused)
        assert list(own.query("SELECT value FROM pair")) == [(b"1",)] * 2


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--full-text",)])
def test_words_are_found_with_full_text_search_and_without(served, options):
    before, _, after = SCRIPT.partition("-- loaded\n")
    rows = ("(1, 1, 'BACE DIFO', 'GULA MENIPO', 999, 0, 1)",
            "(2, 1, 'DIFOBA BACE', 'GULA MENI', 999, 0, 1)")  # fmt: skip
    with served_so(served, *options) as other, database(other, "words", before) as own:
        own.query(f"INSERT INTO products VALUES {', '.join(rows)}")
        own.query(after)
        found = {
            (kind, words): [int(row[0]) for row in own.query(f"EXECUTE search_{kind} '{words}', 5")]
            for kind, words in (
                ("title", "BACE"), ("title", "DIFO"), ("actor", "MENIPO GULA"), ("actor", "NI"),
            )
        }  # fmt: skip
        assert [*found.values()] == [[1, 2], [1], [1], []]
        (about,) = own.query(own.about)
        assert (b"without full-text" in about[0]) is not bool(options)


@pytest.mark.slow
def test_a_shop_of_your_own_is_filled_and_asked_and_is_as_durable_as_wanted(served, tmp_path):
    own = OwnDatabase(f"shop@{served.at}", served.folder / "secret")
    here = Host("server", "127.0.0.1", Local("server"), database=own)
    load = DvdStore("sqlserver", users=2, duration=2, warm_up=1, durability="fast")
    text = load.run({"client": here, "server": here})
    assert "without full-text search" in text
    samples = {sample.metric: sample.values for sample in load.parse(text)}
    assert samples["orders per minute"].sum() > 0
    with closing(Behind(served.by_postgres, served.secret)) as behind:
        asked = "SELECT durability FROM tsql.databases WHERE name = 'labkit_shop'"
        assert behind.query(asked)[0] == (b"FORCED",)
    assert not list(Path("/tmp").glob("labkit-shop-server-*.secret"))


@pytest.mark.slow
def test_a_host_without_a_database_of_yours_is_refused_and_says_what_to_write():
    here = Host("server", "127.0.0.1", Local("server"))
    why = DvdStore("sqlserver").lacking({"client": here, "server": here})
    assert "labkit starts none" in why and "[hosts.server] needs database" in why
    named = Host("server", "127.0.0.1", Local("server"), database=OwnDatabase("a@b:1", Path("x")))
    both = {"client": named, "server": named}
    assert "names one SQL Server" in DvdStore("sqlserver", instances=2).lacking(both)
    assert DvdStore("sqlserver").lacking(both) == ""


LAB = """[hosts.server]
control = "192.0.2.1"
database = "shop@192.0.2.1:1433"
database_password = "shop.word"
"""


def test_a_lab_names_a_database_and_keeps_its_password_in_a_file(tmp_path):
    lab, word = tmp_path / "lab.toml", tmp_path / "shop.word"
    lab.write_text(LAB)
    word.write_text("not told\n")
    own = Lab.read(lab).host("server").database
    word.chmod(0o644)
    with pytest.raises(BadInput, match="others may read the password"):
        own.word()
    word.chmod(0o600)
    assert own.word() == b"not told\n" and "word" not in repr(Lab.read(lab).host("server"))
    lab.write_text(LAB.replace('database_password = "shop.word"', ""))
    with pytest.raises(BadInput, match="needs both database and database_password"):
        Lab.read(lab)
    lab.write_text(LAB + LAB.replace("server", "guest"))
    with pytest.raises(BadInput, match="server and guest name the same database"):
        Lab.read(lab)


@pytest.mark.slow
def test_an_engine_that_is_served_elsewhere_cannot_be_told_how_durable_it_is(served):
    words = served.behind.words("fill", "--durability", "fast")
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2 and "takes no --durability" in done.stderr


def test_nothing_that_answers_is_taken_for_a_server():
    with pytest.raises(ConnectionError, match="nothing answers"):
        SqlServer(Listening("127.0.0.1", 1), "")
