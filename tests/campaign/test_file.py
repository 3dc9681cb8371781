"""A campaign file is refused with its line, or explained point by point."""

import pytest
from campaigns import written

from labkit.campaign.asked import Campaign, points
from labkit.campaign.places import MACHINE, Needs, Taken
from labkit.cli import main

STUDY = '[[study]]\nname = "lat_vmxnet3"\nlabs = ["recorded"]\n'


@pytest.mark.slow
@pytest.mark.parametrize("text, line, said", [
    ("labs = [", 2, "is not TOML"),
    ('retrys = 2\n[[study]]\nname = "lat_ping"', 2, "did you mean 'retries'"),
    ('[[study]]\nname = "lat_pong"', 3, "did you mean 'lat_ping'"), ("", 1, "names no study"),
    (f"{STUDY}[study.parameters]\nrepeats = 9\nquick = true", 7, "sets repeats = "),
    (f"{STUDY}[study.sweep]\nduration = [9, 8]\nquick = [true]", 7, "sets duration = "),
    ("study = 3", 2, "study is a list of tables"),
    ("[[study]]\nlabs = []", 2, "a study needs name"), (f"{STUDY}labs = []", 5, "is not TOML"),
    ('labs = []\n[[study]]\nname = "lat_ping"', 2, "labs is a list of places"),
    ('labs = ["bxo"]\n[[study]]\nname = "lat_ping"', 2, "unknown place"),
    ('labs = ["no.toml"]\n[[study]]\nname = "lat_ping"', 2, "no lab file"),
    (f"repetitions = 0\n{STUDY}", 2, "repetitions is a whole number from 1"),
    (f"retries = true\n{STUDY}", 2, "retries is a whole number"),
    (f'order = "random"\n{STUDY}', 2, "no such order"),
    (f"deadline = 30\n{STUDY}", 2, 'deadline = "90 min"'),
    (f'limit = "0 s"\n{STUDY}', 2, "limit is a span of time"),
    (f"{STUDY}[study.parameters]\ndurration = 2", 6, "did you mean 'duration'"),
    (f"{STUDY}[study.parameters]\nduration = 0", 6, "duration must be"),
    (f"{STUDY}[study.parameters]\nduration = [1, 2]", 6, "under [study.sweep]"),
    (f'{STUDY}[study.parameters]\nduration = "long"', 6, "must be a whole number"),
    (f'{STUDY}[study.parameters]\nwhere = "box"', 6, "labs = "),
    (f'{STUDY}[study.parameters]\nlabel = "x"', 6, "a campaign names its results"),
    (f'{STUDY}[study.parameters]\ndb_password = "x"', 6, "secret"),
    (f"{STUDY}[study.sweep]\nduration = 2", 6, "is a list of values"),
    (f"{STUDY}[study.sweep]\nduration = [1, 1]", 6, "has a value twice"),
    (f"{STUDY}[study.sweep]\nduration = [1, 0]", 6, "duration must be"),
    (f"{STUDY}sweep.api_token = [1]", 5, "secret"),
    (f"{STUDY}parameters.repeats = 1\nsweep.repeats = [1]", 6, "both swept and fixed"),
    (f"{STUDY}{STUDY}sweeps = 1", 8, "did you mean 'sweep'"),
    (f"{STUDY}{STUDY}", 1, "is there twice"),
])  # fmt: skip
def test_what_cannot_be_run_is_named_with_its_line(tmp_path, typed, text, line, said, own_out):
    path = written(tmp_path, text)
    output = typed("campaign", "check", path, code=2)
    where = f"{path}:{line}: " if line > 1 else f"{path}: "
    assert (where in output and said in output and "hint: " in output) or "secret" in output
    assert main(["campaign", "run", str(path)]) == 2
    assert not (tmp_path / "out" / "campaigns").exists()


def test_a_file_that_is_not_there_says_how_to_get_one(tmp_path, typed):
    assert "labkit campaign new x.toml" in typed("campaign", "check", tmp_path / "x.toml", code=2)


@pytest.mark.slow
def test_the_file_that_new_writes_can_be_checked_and_stays(tmp_path, typed, capsys, own_out):
    path = tmp_path / "nightly.toml"
    assert main(["campaign", "new", str(path)]) == 0
    before = path.read_text()
    assert before.count("#") > 10
    assert main(["campaign", "new", str(path)]) == 2
    assert path.read_text() == before
    assert main(["campaign", "new", str(tmp_path / "nightly")]) == 2
    capsys.readouterr()
    output = typed("campaign", "check", path)
    assert "nightly: 3 points of 2 studies" in output and "All points take about" in output
    assert "duration=2" in output and "its plan" in output
    assert not (tmp_path / "out" / "campaigns").exists()


@pytest.mark.slow
def test_every_combination_is_a_point_in_an_order_that_the_seed_decides(tmp_path):
    sweep = "[study.sweep]\nduration = [1, 2, 3]\nrepeats = [1, 2]\n"
    text = f"repetitions = 2\nseed = {{}}\n{STUDY}{sweep}"
    one, same, other = (
        points(Campaign.read(written(tmp_path, text.format(seed)))) for seed in (7, 7, 8)
    )
    assert one == same and len(one) == 12 and len({point.key for point in one}) == 12
    assert [point.number for point in one] == list(range(1, 13))
    for repetition, some in ((1, one[:6]), (2, one[6:])):
        assert {point.repetition for point in some} == {repetition}
        assert {point.values["seed"] for point in some} == {6 + repetition}
        values = {(p.values["duration"], p.values["repeats"]) for p in some}
        assert values == {(d, r) for d in (1, 2, 3) for r in (1, 2)}
    orders = [[p.question for p in some] for some in (one[:6], one[6:], other[:6])]
    assert len({tuple(order) for order in orders}) == 3, "each repetition has its own order"


def test_points_as_written_stay_in_their_order(tmp_path):
    text = f'order = "as written"\n{STUDY}[study.sweep]\nduration = [3, 1, 2]\n'
    found = points(Campaign.read(written(tmp_path, text)))
    assert [point.values["duration"] for point in found] == [3, 1, 2]


def test_check_as_json_names_every_point_and_its_time(tmp_path, typed, own_out):
    path = written(tmp_path, '[[study]]\nname = "lat_vmxnet3"\nsweep.duration = [1, 4]\n')
    answer = typed("campaign", "check", path, "--json")
    short, long = sorted(answer["points"], key=lambda one: one["values"]["duration"])
    assert short["seconds"] < long["seconds"] and short["by"] == "its plan"
    assert answer["seconds"] == pytest.approx(short["seconds"] + long["seconds"], abs=0.1)
    assert answer["finished"] == 0 and short["name"].startswith("000")


def test_a_lab_file_counts_from_the_campaign_file_and_names_the_hosts_it_needs(tmp_path):
    host = '[hosts.{}]\ncontrol = "{}"\n'
    labs = {"one": ("192.0.2.1", "192.0.2.2"), "two": ("192.0.2.2", "192.0.2.3"),
            "three": ("192.0.2.4", "192.0.2.5"), "here": ("127.0.0.1", "192.0.2.9")}  # fmt: skip
    for name, (client, server) in labs.items():
        text = host.format("client", client) + host.format("server", server)
        (tmp_path / f"{name}.toml").write_text(text)
    text = '[[study]]\nname = "lat_ping"\nlabs = ["one.toml", "two.toml", "three.toml"]\n'
    found = points(Campaign.read(written(tmp_path, text)))
    wanted = {str(tmp_path / f"{name}.toml") for name in ("one", "two", "three")}
    assert {point.lab for point in found} == wanted
    one, two, three, here = (Needs.of(str(tmp_path / f"{name}.toml")) for name in labs)
    assert not beside(one, two), "they share a host"
    assert beside(one, three) and beside(two, three)
    assert MACHINE in here.hosts and not beside(here, three), "it measures this machine"
    box, recorded = Needs.of("box"), Needs.of("recorded")
    assert Needs.of("local") == box
    assert not beside(recorded, box) and beside(recorded, one) and Taken().leaves(box)


def beside(needs, other):
    """Whether a point with these needs may begin while one with the others is at work."""
    taken = Taken()
    taken.take(other)
    return taken.leaves(needs)
