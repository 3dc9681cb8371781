// Contrast of letters with what is behind them: the least of those chosen, and whose it is.
chosen => {
  const rgb = text => (text.match(/[\d.]+/g) || []).map(Number);
  const shine = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((all, v, i) => all + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = node => {
    for (; node; node = node.parentElement) {
      const [r, g, b, a = 1] = rgb(getComputedStyle(node).backgroundColor);
      if (r !== undefined && a > 0.9) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const words = [...document.querySelectorAll(chosen)]
    .filter(one => one.getClientRects().length && one.textContent.trim());
  return words.map(one => {
    const style = getComputedStyle(one);
    const colour = rgb(one instanceof SVGElement ? style.fill : style.color);
    const both = [shine(colour), shine(behind(one))].sort((a, b) => b - a);
    return [(both[0] + 0.05) / (both[1] + 0.05), one.textContent.trim().slice(0, 80)];
  }).sort((a, b) => a[0] - b[0])[0];
}
