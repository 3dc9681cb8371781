"""Figures that a document prints, in a table for readers."""

from labkit import find_study
from labkit.pages.tables import document_table


def test_a_range_is_one_line_and_a_relation_is_a_word():
    table = document_table(find_study("docker_netperf"))
    assert table.head == ("condition", "at", "figure", "value", "source")
    latency = [row for row in table.rows if row[0] == "Native-Docker minus Native"]
    assert [row[3] for row in latency] == ["about 9 to 10 µs"]
    assert latency[0][1] == "docker network bridge"


def test_one_metric_can_be_chosen_and_a_column_of_nothing_is_left_out():
    table = document_table(find_study("lat_ping"), "response_time_difference")
    assert [row[2:] for row in table.rows] == [
        ("response time difference, median", "2 µs", "Conclusion (Figure 3)")
    ]
    points = document_table(find_study("vcenter_ha"), "ha_time").rows
    assert len(points) == 2
    assert "at" not in document_table(find_study("ld_vmotion"), "supported_rtt_limit").head
