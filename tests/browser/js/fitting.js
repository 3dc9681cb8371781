// Whether every picture fits into its cell and is not distorted.
chosen => [...document.querySelectorAll(chosen)].every(drawn => {
  const [cell, size] = [drawn.closest(".jp-OutputArea-output"), drawn.getBoundingClientRect()];
  const whole = drawn.viewBox.baseVal;
  return size.width <= cell.clientWidth && cell.scrollWidth <= cell.clientWidth
    && Math.abs(size.width / size.height - whole.width / whole.height) < 0.05;
})
