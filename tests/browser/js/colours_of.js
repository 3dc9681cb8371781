selector => {
  const [one] = document.querySelectorAll(selector);
  const style = getComputedStyle(one);
  return [style.color, style.fill, style.backgroundColor].map(
    text => (text.match(/\d+/g) || []).slice(0, 3).map(Number));
}
