"""Views for people: panels in notebooks, tables, the terminal, reports and the scorecard.

Start with `study_panel.py` or `report.py`.
"""
