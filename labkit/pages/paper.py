"""Styles that pages share: the colours of a light and a dark screen, and how they are printed."""

# Colours of marks stay, as they were chosen for both; letters and lines take those of the page.
PAPER = """
:root { color-scheme: light dark; --line: #8886; --faint: #8884 }
.labkit-chart { overflow-x: auto; margin: .5em 0; padding-left: 12px }
.labkit-chart svg { max-width: 100%; height: auto; overflow: visible;
  background: transparent !important }
.labkit-chart svg > rect { fill: none }
.labkit-chart .vega-embed { display: block; padding: 0 }
.labkit-chart svg :is([class*="role-axis"], [class*="role-legend"], [class*="role-title"],
  .mark-text.role-mark) text { fill: currentColor }
.about summary { cursor: pointer; font: 13px sans-serif; opacity: .75 }
.labkit-chart svg .role-axis-grid line { stroke: var(--faint) }
@media print {
  :root { color-scheme: light }
  body { font-size: 11pt; margin: 0 }
  .labkit-chart, table.labkit tr, .chips { break-inside: avoid }
  h1, h2 { break-after: avoid }
  .on-screen { display: none }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact }
}
"""
"""The style of what labkit draws on a page of its own."""
