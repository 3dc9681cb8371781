"""Shops in which somebody kills the database or the driver, or gets in the way of customers."""

import random
import signal
import time
from contextlib import closing, contextmanager

import shops

from labkit.shop.postgres import Postgres

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
