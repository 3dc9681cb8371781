"""The look of the front page: cards in columns, colours of the theme, a visible focus."""

# JupyterLab's own colours, so that it is light or dark with it; each has another for other pages.
STYLE = """
.labkit-front, .labkit-front .widget-html-content { line-height: 1.4;
  color: var(--jp-content-font-color1, inherit) }
.labkit-front { --lk-line: var(--jp-border-color2, #8886);
  --lk-back: var(--jp-layout-color1, transparent); --lk-dim: var(--jp-content-font-color2, inherit);
  --lk-focus: var(--jp-brand-color1, #1976d2) }
.labkit-front h2 { margin: 14px 0 4px; font-size: 18px; font-weight: 600 }
.labkit-front p { margin: 3px 0 }
.labkit-front .lk-cards { display: grid; box-sizing: border-box;
  gap: 10px; list-style: none;
  padding: 0 !important; margin: 8px 0 !important;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr)) }
.labkit-front .lk-card { border: 1px solid var(--lk-line); border-radius: 6px; margin: 0;
  padding: 8px 12px; background: var(--lk-back); overflow-wrap: break-word; min-width: 0;
  overflow: hidden; justify-content: space-between }
.labkit-front .lk-card img { width: 100%; height: 190px; object-fit: contain; background: white;
  border-radius: 4px; margin: 4px 0 }
.labkit-front .lk-card button { align-self: flex-start }
.labkit-front .lk-card h3 { margin: 0 0 2px; font-size: 15px; font-weight: 600; line-height: 1.3 }
.labkit-front .lk-dim { color: var(--lk-dim) }
.labkit-front .lk-count { white-space: nowrap; margin-right: 8px; line-height: 1.9 }
.labkit-front :is(.lk-scroll, .wide) { overflow-x: auto }
.labkit-front :is(.matrix, .claims) td { text-align: left; vertical-align: top; font-size: 12px }
.labkit-front .matrix th { text-align: left; white-space: normal }
.labkit-front .matrix th:first-child { min-width: 9em }
.labkit-front table.matrix { table-layout: auto }
.labkit-front .matrix td { white-space: nowrap; line-height: 1.8 }
.labkit-front .lk-bad { border-left: 4px solid var(--jp-error-color1, #c62828); padding-left: 8px }
.labkit-front .lk-said { white-space: pre-wrap; overflow-wrap: anywhere }
.labkit-front .lk-list { border-collapse: collapse; width: 100%; table-layout: auto }
.labkit-front .lk-list :is(th, td) { text-align: left; vertical-align: top; padding: 3px 8px;
  border-bottom: 1px solid var(--lk-line); overflow-wrap: normal }
.labkit-front .lk-scroll { container-type: inline-size }
@container (max-width: 620px) {
  .labkit-front .lk-list thead { display: none }
  .labkit-front .lk-list tr { display: flex; flex-wrap: wrap; gap: 0 14px; padding: 6px 0;
    border-bottom: 1px solid var(--lk-line) }
  .labkit-front .lk-list td { border: 0; padding: 0 4px }
  .labkit-front .lk-list td:first-child { flex-basis: 100%; font-weight: bold }
  .labkit-front .lk-list td:empty { display: none }
  .labkit-front .lk-list td:is([data-label="runs"], [data-label="report"])::before {
    content: attr(data-label) ": " }
}
.labkit-front .labkit-chart svg { max-width: 100%; height: auto;
  background: transparent !important }
.labkit-front .labkit-chart svg > rect { fill: none }
.labkit-front .labkit-chart svg :is([class*="role-axis"], [class*="role-legend"],
  [class*="role-title"], .mark-text.role-mark) text { fill: currentColor }
.labkit-front summary { cursor: pointer }
.labkit-front .jp-OutputArea-output { overflow: visible; padding: 0 }
.labkit-front .jp-OutputPrompt { display: none }
.labkit-front :is(a, button, input, summary):focus-visible {
  outline: 3px solid var(--lk-focus) !important; outline-offset: 1px }
"""


def styled(html: str) -> str:
    """HTML with the style, for a page that is not in JupyterLab."""
    return f'<style>{STYLE}</style><div class="labkit-front">{html}</div>'
