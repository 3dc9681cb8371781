"""One test for many files: it names the one that it fails of."""


def each(things, name=str):
    """Turn a test of one thing into a test of all of these, one after another."""

    def of_all(check):
        def test():
            assert things, "there is nothing to look at"
            for thing in things:
                try:
                    check(thing)
                except BaseException as error:
                    error.add_note(f"of {name(thing)}")
                    raise

        test.__name__, test.__doc__, test.__module__ = (
            check.__name__, check.__doc__, check.__module__,
        )  # fmt: skip
        test.__qualname__, test.pytestmark = check.__qualname__, getattr(check, "pytestmark", [])
        return test

    return of_all
