all => all.filter(one => one.scrollWidth > one.clientWidth + 1)
  .map(one => one.innerText.slice(0, 80))
