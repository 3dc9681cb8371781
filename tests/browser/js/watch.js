() => {
  window.seen = { keys: [], longest: 0 };
  let last = performance.now();
  const frame = now => {
    seen.longest = Math.max(seen.longest, now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  new PerformanceObserver(list => list.getEntries().filter(one => one.name === "keydown")
    .forEach(one => seen.keys.push(one.duration))
  ).observe({ type: "event", durationThreshold: 16 });
}
