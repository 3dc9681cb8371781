all => Math.min(...all.flatMap(drawn => {
  const scale = drawn.getBoundingClientRect().width / drawn.viewBox.baseVal.width;
  return [...drawn.querySelectorAll("text")].map(
    words => scale * parseFloat(getComputedStyle(words).fontSize));
}))
