"""The shop: whatever is killed, no order is lost or counted twice."""

import os
import random
import signal
import subprocess
import time
from contextlib import closing, contextmanager
from itertools import islice

import numpy as np
import pytest
import shops
from brought import HERE, need

from labkit.errors import BadInput, HostError
from labkit.shop import filling
from labkit.shop.answers import Listening
from labkit.shop.postgres import Postgres
from labkit.shop.stock import TABLES, Size, basket, product
from labkit.workloads import _database
from labkit.workloads.dvdstore import DvdStore

SHORT = ("--users", 4, "--warm-up", 0, "--ramp", 1000)


def kills_of_the_database(served, many):
    driver = served.driving(*SHORT, "--seconds", 2 + 5 * many, "--patience", 60)
    for _ in range(many):
        time.sleep(0.5 + random.random())
        served.kill()
        served.start()
    out, error = driver.communicate(timeout=120 + 10 * many)
    assert driver.returncode == 0, error
    assert out.count("\nlost ") >= many
    return shops.checked(out)


def kills_of_the_driver(served, many):
    served.ledger.unlink(missing_ok=True)
    keep = ("--ledger", served.ledger, *SHORT, "--seconds", 60)
    for nth in range(many):
        driver = served.driving(*keep, *(["--go-on"] if nth else []))
        time.sleep(0.5 + random.random())
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
    done = served.drive("--ledger", served.ledger, *SHORT, "--seconds", 1, "--go-on")
    assert done.returncode == 0, done.stderr
    return shops.checked(done.stdout)


@contextmanager
def serializable(served):
    def isolation(level):
        with closing(Postgres(served.at, served.secret)) as first:
            first.query(f"ALTER ROLE shop SET default_transaction_isolation TO '{level}'")

    isolation("serializable")
    try:
        yield
    finally:
        isolation("read committed")


PROGRAMS = ("nginx",)


def costly(test):
    changed = pytest.mark.when_changed("labkit/shop/", "labkit/workloads/dvdstore.py")
    return pytest.mark.slow(changed(test))


@pytest.fixture(scope="module")
def served():
    with shops.served() as found:
        result = subprocess.run(found.words("fill"), capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        yield found


def test_sizes_grow_from_ten_megabytes_on_and_have_two_more_points():
    assert Size.of("10MB") == Size(20_000, 10_000, 12_000)
    assert Size.of("20 mb").customers == 40_000
    assert Size.of("1GB") == Size(2_000_000, 100_000, 1_200_000)
    assert Size.of("100GB") == Size(200_000_000, 1_000_000, 120_000_000)
    for text in ("9MB", "0GB", "10", "ten"):
        with pytest.raises(BadInput):
            Size.of(text)


def test_the_same_seed_makes_the_same_rows_and_another_one_others():
    def some(seed):
        return {t.name: list(islice(t.rows(Size.of("10MB"), seed), 500)) for t in TABLES}

    one, again, other = some(1), some(1), some(2)
    assert one == again
    assert [name for name in one if one[name] == other[name]] == ["categories"]


def test_every_ten_thousandth_product_is_bought_ten_times_as_often():
    draw = random.Random(1)
    bought = [product(draw, 20_000) for _ in range(200_000)]
    often = sum(1 for one in bought if one % 10_000 == 0) / 2
    assert 60 < often < 140  # of a hundred
    assert max(len(basket(draw, 20_000, 5)) for _ in range(1000)) <= 9


@pytest.mark.slow
def test_customers_buy_and_two_in_a_hundred_orders_find_too_little_stock(served):
    done = served.drive(*SHORT, "--seconds", 4)
    assert done.returncode == 0, done.stderr
    found, whole = shops.checked(done.stdout), shops.ended(done.stdout)
    assert (found["lost"], found["twice"], found["unseen"], found["wrong"]) == (0, 0, 0, [])
    assert found["seen"] == found["orders"] > 50
    assert whole["browsed"] / whole["ended"] == pytest.approx(3, rel=0.2)
    assert 0.002 < whole["short"] / whole["orders"] < 0.06


@pytest.mark.slow
def test_a_wrong_password_is_named(served, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("guessed")
    done = served.drive("--seconds", 1, secret=wrong)
    assert done.returncode == 1
    assert "refused the login" in done.stderr and "hint: check the user" in done.stderr


def test_a_database_that_does_not_answer_is_named():
    with pytest.raises(ConnectionError, match="nothing answers"):
        Postgres(Listening("127.0.0.1", 1), "")


@pytest.mark.slow
def test_a_shop_of_another_size_or_seed_or_half_loaded_is_named(served):
    where = (served.at, served.secret)
    assert filling._lacking(*where, "10MB", 1) == ""
    assert "has another size" in filling._lacking(*where, "20MB", 1)
    assert "has another seed" in filling._lacking(*where, "10MB", 2)
    with closing(Postgres(served.at, served.secret, filling.TEMPLATE)) as stock:
        stock.query("DELETE FROM loaded WHERE what = 'whole'")
        assert "only half loaded" in filling._lacking(*where, "10MB", 1)
        stock.query(f"INSERT INTO loaded VALUES ('whole', {filling.FORM}, 1)")


@costly
def test_rows_that_are_gone_are_found_when_the_shop_is_copied(served):
    with closing(Postgres(served.at, served.secret, filling.TEMPLATE)) as stock:
        stock.query("DELETE FROM orderlines WHERE orderid = 7")
    done = served.drive(*SHORT, "--seconds", 1)
    assert done.returncode == 0, done.stderr
    assert "the existing one is incomplete: orderlines has (" in done.stdout
    assert "filling" not in served.drive(*SHORT, "--seconds", 1).stdout


@costly
def test_an_order_that_vanishes_in_mid_run_fails_the_run(served):
    driver = subprocess.Popen(
        served.words("drive", *SHORT, "--seconds", 4), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    first = driver.stdout.readline()
    while not first.startswith("s "):
        first = driver.stdout.readline()
    with closing(Postgres(served.at, served.secret, filling.DATABASE)) as db:
        db.query("DELETE FROM orders WHERE ref = 1")
    out, error = driver.communicate(timeout=60)
    assert driver.returncode == 1
    assert "1 orders that were committed are gone" in error
    assert shops.checked(out)["lost"] == 1


@costly
@pytest.mark.parametrize("many", [2, pytest.param(20, marks=pytest.mark.torture)])
def test_no_order_is_lost_or_there_twice_when_the_database_is_killed(served, many):
    found = kills_of_the_database(served, many)
    assert (found["lost"], found["twice"], found["wrong"]) == (0, 0, [])
    assert found["orders"] == found["seen"] + found["unseen"]
    assert found["unseen"] <= found["unknown"] <= 4 * many


@costly
@pytest.mark.parametrize("many", [2, pytest.param(20, marks=pytest.mark.torture)])
def test_no_order_is_lost_or_there_twice_when_the_driver_is_killed(served, many):
    found = kills_of_the_driver(served, many)
    assert (found["lost"], found["twice"], found["wrong"]) == (0, 0, [])
    assert found["orders"] == found["seen"] + found["unseen"]
    assert found["unseen"] <= 4 * many


@costly
def test_a_database_that_is_not_durable_loses_orders_when_it_is_killed(served):
    served.stop()
    served.write_seldom()
    served.start("fast")
    driver = served.driving(*SHORT, "--seconds", 10, "--patience", 60)
    for _ in range(3):
        time.sleep(0.7)
        served.kill()
        served.start("fast")
    out, error = driver.communicate(timeout=120)
    served.stop()
    served.start()
    assert driver.returncode == 1 and "orders that were committed are gone" in error
    assert shops.checked(out)["lost"] > 0


@pytest.mark.slow
def test_a_driver_without_patience_says_that_the_database_went_away(served):
    driver = served.driving(*SHORT, "--seconds", 30)
    served.kill()
    _, error = driver.communicate(timeout=60)
    served.start()
    assert driver.returncode == 1 and "closed the connection during the run" in error


@pytest.mark.slow
def test_transactions_that_get_in_each_others_way_are_tried_again(served):
    with serializable(served):
        done = served.drive("--users", 16, "--warm-up", 0, "--ramp", 1000, "--seconds", 4)
    assert done.returncode == 0, done.stderr
    assert shops.ended(done.stdout)["retries"] > 0
    assert shops.checked(done.stdout)["wrong"] == []


@pytest.mark.slow
def test_an_open_loop_makes_orders_at_its_rate_and_counts_from_when_they_were_due(served):
    done = served.drive(*SHORT, "--rate", 20, "--seconds", 4)
    assert done.returncode == 0, done.stderr
    assert 40 < shops.ended(done.stdout)["orders"] < 130


@costly
def test_customers_who_think_order_as_seldom_as_that_takes(served):
    done = served.drive("--users", 8, "--warm-up", 0, "--ramp", 1000, "--think", 1, "--seconds", 4)
    assert done.returncode == 0, done.stderr
    assert 8 < shops.ended(done.stdout)["orders"] < 60  # 32 and the first of each, about


@pytest.fixture
def kept(monkeypatch):
    with shops.place() as folder:
        monkeypatch.setattr(_database, "KEPT", str(folder / "kept"))
        yield folder / f"kept-{os.geteuid()}"


@costly
def test_both_ways_in_do_the_same_orders(kept):
    need("nginx")
    load = DvdStore(users=2, duration=2, warm_up=1, buffers=32, way="web")
    text = load.run({"client": HERE, "server": HERE})
    samples = {sample.metric: sample.values for sample in load.parse(text)}
    assert samples["orders per minute"].sum() > 60


class Slow:
    """Begins with the load, and takes some seconds."""

    def __init__(self, seconds):
        self.seconds, self.since = seconds, None

    def begun(self):
        self.since = self.since or time.monotonic()

    @property
    def going(self):
        return self.since is None or time.monotonic() - self.since < self.seconds


@costly
def test_customers_go_on_until_what_happens_meanwhile_has_ended(kept):
    load = DvdStore(users=2, duration=1, warm_up=1, buffers=32)
    text = load.during({"client": HERE, "server": HERE}, Slow(4))
    at, orders = load.over_time(text)["orders per second"]
    assert 4 <= at.size <= 8 and np.diff(at) == pytest.approx(1, abs=0.2) and orders.sum() > 0
    assert load.parse(text)


@pytest.mark.slow
def test_a_database_that_does_not_come_up_says_why(kept):
    folder = kept / "postgresql-1"
    folder.mkdir(0o711, parents=True)
    kept.chmod(0o711)
    (folder / "cluster").mkdir()
    (folder / "made").touch()
    (folder / "secret").write_text("word")
    with pytest.raises(
        HostError, match=r"here: .*serve_database.* ended before it was ready"
    ) as no:
        DvdStore(users=1, duration=1).run({"client": HERE, "server": HERE})
    assert "postgresql.conf" in no.value.said


@costly
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_disk_that_is_full_in_mid_run_is_named_and_no_order_is_lost():
    with shops.small_disk(400) as disk, shops.served(disk) as served:
        keep = ("--ledger", served.ledger, *SHORT)
        assert served.drive(*keep, "--seconds", 1).returncode == 0
        ballast = disk / "ballast"
        left = os.statvfs(disk)
        ballast.write_bytes(bytes(left.f_bavail * left.f_bsize - (1 << 20)))
        done = served.drive(*keep, "--go-on", "--seconds", 60)
        assert done.returncode == 1
        assert "53100" in done.stderr + served.log.read_text()  # disk_full
        ballast.unlink()
        served.again()
        done = served.drive(*keep, "--go-on", "--seconds", 1)
    assert done.returncode == 0, done.stderr
    found = shops.checked(done.stdout)
    assert (found["lost"], found["twice"], found["wrong"]) == (0, 0, [])


@costly
def test_one_database_of_two_that_is_killed_is_named_by_its_number(served):
    with shops.served() as other:
        assert subprocess.run(other.words("fill"), capture_output=True).returncode == 0
        words = served.words("drive", *SHORT, "--seconds", 10)
        driver = subprocess.Popen(
            [*words, "--at", str(other.at), "--secret", other.folder / "secret"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while not driver.stdout.readline().startswith("2 measuring "):
            assert driver.poll() is None
        other.kill()
        _, error = driver.communicate(timeout=90)
        other.start()
    assert driver.returncode == 1
    assert (
        "shop 2: the database closed the connection during the run" in error
        and "shop 1" not in error
    )


@costly
def test_the_orders_of_all_seconds_are_those_of_the_whole(served):
    for seconds, warm_up in ((1, 0.3), (3, 1.5)):
        done = served.drive(
            "--users", 3, "--ramp", 1000, "--seconds", seconds, "--warm-up", warm_up
        )
        text = done.stdout
        orders = [int(line.split()[2]) for line in text.splitlines() if line.startswith("s ")]
        assert len(orders) == seconds
        assert sum(orders) == shops.ended(text)["orders"] > 0
        assert text.count("warm s ") == int(warm_up)
