"""Shops in which somebody kills the database or the driver, or gets in the way of customers."""

import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress

import shops

from labkit.shop import filling
from labkit.shop.answers import Refused

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
    speaks = filling.engine_of("postgresql")

    def isolation(level):
        with closing(speaks(served.at, served.secret)) as first:
            first.query(f"ALTER ROLE shop SET default_transaction_isolation TO '{level}'")

    isolation("serializable")
    try:
        yield nullcontext()
    finally:
        isolation("read committed")


@contextmanager
def locked(served):
    with closing(filling.engine_of(served.engine)(served.at, served.secret)) as first:
        first.query("SET GLOBAL innodb_lock_wait_timeout = 1")
        try:
            yield all_stock_kept(served)
        finally:
            first.query("SET GLOBAL innodb_lock_wait_timeout = 50")


# Somebody keeps all stock now and then, for longer than a purchase waits for it.
@contextmanager
def all_stock_kept(served):
    speaks = filling.engine_of(served.engine)

    def keep():
        while not over.wait(0.1):
            with closing(speaks(served.at, served.secret, filling.DATABASE)) as other:
                other.query("START TRANSACTION")
                with suppress(Refused):  # it waited too long itself
                    other.query("SELECT count(*) FROM inventory FOR UPDATE")
                    over.wait(1.5)

    over = threading.Event()
    with ThreadPoolExecutor(1) as beside:
        done = beside.submit(keep)
        try:
            yield
        finally:
            over.set()
    done.result()
