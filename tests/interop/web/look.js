/* What a machine can see of the look of a page. */
window.look = {
  /* Texts below 12 px, but for the number in a mark, which its shape repeats. */
  small: () => [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility({ visibilityProperty: true })
  && [...one.childNodes].some((text) => text.nodeType === 3 && text.textContent.trim())
  && parseFloat(getComputedStyle(one).fontSize) < 12 && !one.closest("symbol, .mk")
).map((one) => [one.tagName, one.getAttribute("class"), one.textContent.trim().slice(0, 30)]),
  /* Texts that are cut, unless they say so by dots and have all of it in their title. A value is never cut. */
  cut: () => [...document.querySelectorAll("body *")].filter((one) => {
  const style = getComputedStyle(one);
  return one.checkVisibility({ visibilityProperty: true }) && style.overflowX === "hidden" && one.scrollWidth > one.clientWidth + 1
    && one.textContent.trim() && !one.closest(".vh, svg, .uplot") && !(style.textOverflow === "ellipsis" && one.title && !one.matches(".num, .val"));
}).map((one) => [one.tagName, one.className, one.textContent.trim().slice(0, 60), one.scrollWidth, one.clientWidth]),
  /* Texts beyond the edge of the window that nothing scrolls to. */
  outside: () => [...document.querySelectorAll("main *, header.top *, .banner *")].filter((one) => {
  const box = one.getBoundingClientRect();
  const isScrolled = (of) => of && (["auto", "scroll"].includes(getComputedStyle(of).overflowX) || isScrolled(of.parentElement));
  return one.checkVisibility({ visibilityProperty: true }) && [...one.childNodes].some((text) => text.nodeType === 3 && text.textContent.trim())
    && !one.closest(".vh, svg") && box.width && (box.right > innerWidth + 1 || box.left < -1) && !isScrolled(one.parentElement);
}).map((one) => [one.tagName, one.className, one.textContent.trim().slice(0, 60)]),
  /* Coloured shapes beside which no mark and no word says the same. */
  mute: () => [...document.querySelectorAll("main *, .banner *")].filter((one) => {
  const style = getComputedStyle(one);
  const isHue = (text) => {
    const [red, green, blue, alpha = 1] = (text.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
    return alpha > 0 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60;
  };
  const isColoured = isHue(style.backgroundColor) || (one.matches("path, rect, circle") && isHue(style.fill) && !one.matches(".pen"));
  return isColoured && one.checkVisibility() && !one.textContent.trim()
    && !one.closest("[role=row], tr, .r, section, .what, .counts span")?.querySelector(".mk, .tag, .trip");
}).map((one) => one.outerHTML.slice(0, 200)),
  /* Least contrast (WCAG 2) of texts and of marks on the grounds that they are used on. */
  contrasts: () => (() => {
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const light = (hex) => {
    const full = hex.length === 4 ? hex.replace(/[0-9a-f]/gi, "$&$&") : hex;
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(full.slice(at, at + 2), 16) / 255)
      .map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [dark, bright] = [light(token(one)), light(token(other))].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const grounds = ["ground", "panel", "field"];
  const worst = (...names) => Math.min(...grounds.map((ground) => Math.max(...names.map((name) => contrast(name, ground)))));
  return {
    text: Math.min(worst("ink"), worst("ink2"), contrast("inv", "inv-ink"), ...[1, 2, 3].map((one) => contrast(`p${one}`, `p${one}i`))),
    marks: Math.min(...[1, 2, 3].map((one) => worst(`p${one}`, "pe")), worst("edge"), contrast("run", "stop"),
      ...[1, 2, 3, 4].map((one) => contrast(`pen${one}`, "field"))),
  };
})(),
};
