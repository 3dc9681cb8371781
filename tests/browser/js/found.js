// What the pages hold of their own accord; anything else came of a payload.
() => {
const LINKS = ['href', 'xlink:href', 'src', 'action', 'formaction', 'data'];
return ({
  taken: window.taken, title: document.title,
  bad: [...document.querySelectorAll('*')].filter(e =>
    [...e.attributes].some(a => /^on/i.test(a.name)
      || (LINKS.includes(a.name) && /^\s*javascript:/i.test(a.value)))
    || ['IFRAME','OBJECT','EMBED','MARQUEE','VIDEO','AUDIO','BASE'].includes(e.tagName)
    || (e.tagName === 'FORM' && e.className !== 'vega-bindings')
    || (e.tagName === 'IMG' && !e.src.startsWith('data:'))
    || e.dataset.commandlinkerCommand).map(e => e.outerHTML.slice(0, 200)),
}) }
