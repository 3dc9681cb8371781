// What has the focus: its place among the parts that are shown, its name, and whether it is seen.
parts => {
  const one = document.activeElement;
  const all = [...document.querySelectorAll(parts)].filter(part => part.checkVisibility());
  const style = getComputedStyle(one);
  const named = one.getAttribute("aria-label") || one.innerText || one.title
    || [...(one.labels || [])].map(label => label.innerText).join(" ");
  return { kind: one.tagName, place: all.indexOf(one), of: all.length, named: named.trim(),
           seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 };
}
