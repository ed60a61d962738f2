// The reader's choices, the buttons for them, and the tables.

const PAGE = JSON.parse(document.getElementById("data").textContent);
const NARROW = matchMedia("(max-width: 640px)"), DARK = matchMedia("(prefers-color-scheme: dark)");
const CHAPTERS = Object.keys(PAGE.chapters);
const WORKLOADS = Object.keys(PAGE.workloads);
const chosen = { workload: WORKLOADS.reduce((a, b) => (PAGE.workloads[b] > PAGE.workloads[a] ? b : a)), off: new Set(), of: {} };
for (const name of CHAPTERS) chosen.of[name] = { figure: fullest(name), choice: 0, offForms: null };

const part = (kind, name) => document.querySelector(`[data-${kind}="${name}"]`);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const element = (tag, properties, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

// A chapter first shows the plot with the most backends, and of several such plots that with the most points.
function fullest(name) {
  const sizes = shownFigures(name).map(({ series }, k) => ({
    k, backends: new Set(series.map((one) => one.backend)).size,
    points: series.reduce((sum, one) => sum + one.points.length, 0) }));
  return sizes.sort((a, b) => b.backends - a.backends || b.points - a.points)[0]?.k ?? 0;
}

function button(words, pressed, press, swatch) {
  const made = element("button", { type: "button" });
  made.setAttribute("aria-pressed", pressed);
  if (swatch) {
    const dot = element("span", { className: "swatch" });
    dot.style.background = swatch;
    made.classList.add("swatched");
    made.append(dot);
  }
  made.append(words);
  made.addEventListener("click", () => press(made));
  return made;
}

function shownFigures(name) {
  return PAGE.chapters[name].figures.filter((one) => !one.workload || one.workload === chosen.workload);
}
function figureOf(name) {
  const figures = shownFigures(name);
  return figures[Math.min(chosen.of[name].figure, figures.length - 1)];
}
// Forms with a single optimisation crowd a plot: they start hidden if there are other forms.
function offForms(figure) {
  const forms = new Set(figure.series.map((one) => one.form).filter(Boolean));
  const single = [...forms].filter((form) => form.startsWith("only_"));
  return new Set(single.length < forms.size ? single : []);
}
function view(name) {
  const own = chosen.of[name];
  return {
    narrow: NARROW.matches, off: chosen.off, offForms: own.offForms || new Set(), choice: own.choice, css,
    ink: css("--ink"), soft: css("--soft"), grid: css("--grid"), card: css("--card"),
    color: (backend) => css(`--${PAGE.backends[backend]}`),
    part: (verdict) => css(PARTS[verdict] || "--quiet"),
  };
}

function draw(name) {
  const plot = part("plot", name), figure = figureOf(name), card = document.getElementById(name);
  if (!plot) return;
  card.classList.toggle("absent", !figure);
  card.querySelector(".missing span").textContent = ` for ${chosen.workload}`;
  if (!figure) return;
  const look = view(name), table = part("table", name);
  table.replaceChildren(table.firstElementChild, ...(table.open ? [tabulated(figure)] : []));
  plot.hidden = !visible(figure, look).length;
  const words = plot.hidden ? ["All series of this plot are hidden; switch some on above."] : figure.words;
  part("words", name).replaceChildren(...words.map((one) => element("li", {}, one)));
  if (plot.hidden) return;
  const { data, layout } = KINDS[figure.kind](figure, look);
  const axis = { gridcolor: look.grid, linecolor: look.grid, zerolinecolor: look.grid, fixedrange: look.narrow };
  Plotly.react(plot, data, {
    ...layout, showlegend: false, dragmode: look.narrow ? false : "zoom", paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)", margin: { l: look.narrow ? 8 : 12, r: look.narrow ? 12 : 24, t: 12, b: 48, pad: 2 },
    font: { family: getComputedStyle(document.body).fontFamily, size: look.narrow ? 11 : 12.5, color: look.ink },
    hoverlabel: { bgcolor: css("--card"), bordercolor: look.soft, font: { color: look.ink, size: 12 }, align: "left" },
    hovermode: "closest", xaxis: { ...axis, ...layout.xaxis }, yaxis: { ...axis, ...layout.yaxis },
  }, { displayModeBar: false, responsive: true });
  plot.setAttribute("aria-label", `${figure.title}; its data are in the table below`);
}

function tabulated(figure) {
  const row = (tag, cells) => element("tr", {}, ...cells.map((cell) =>
    element(tag, { textContent: cell, className: cell.length > 24 ? "long" : "" })));
  const table = element("table", {}, element("thead", {}, row("th", figure.columns)),
    element("tbody", {}, ...figure.rows.map((cells) => row("td", cells))));
  return element("div", { className: "wide", tabIndex: 0 }, table);
}

function controls(name) {
  const box = part("controls", name), figures = shownFigures(name), own = chosen.of[name];
  if (!box) return;
  box.replaceChildren();
  if (figures.length > 1) {
    const select = element("select", { ariaLabel: "Benchmark" },
      ...figures.map((figure, k) => element("option", { value: k, selected: k === own.figure }, figure.title)));
    select.addEventListener("change", () => {
      own.figure = Number(select.value);
      own.offForms = null;
      forms(name, box);
      draw(name);
    });
    box.append(select);
  } else if (figures.length && !["all ops", "all claims", "all benchmarks"].includes(figures[0].title)) {
    box.append(element("span", { className: "key" }, figures[0].title));
  }
  const choices = figures.length ? PAGE.chapters[name].choices : [];
  const buttons = choices.map((words, k) => button(words, own.choice === k, () => {
    own.choice = k;
    buttons.forEach((one, n) => one.setAttribute("aria-pressed", n === k));
    draw(name);
  }));
  buttons.forEach((one) => one.classList.add("choice"));
  box.append(...buttons);
  if (figures.length) forms(name, box);
}

// Legend of the chosen plot: buttons for its forms, or a key of its parts.
function forms(name, box) {
  box.querySelectorAll(".form, .key.of").forEach((one) => one.remove());
  const own = chosen.of[name], figure = figureOf(name);
  own.offForms ??= offForms(figure);
  const found = [...new Set(figure.series.map((one) => one.form).filter(Boolean))];
  const others = found.filter((form) => !(form in DASHES));
  for (const form of found.length > 1 ? found : []) {
    const made = button(form, !own.offForms.has(form), () => {
      own.offForms.delete(form) || own.offForms.add(form);
      made.setAttribute("aria-pressed", !own.offForms.has(form));
      draw(name);
    }, "none");
    made.classList.add("form");
    made.firstElementChild.className = `line ${figure.kind === "lines" ? dash(form, others) : ""}`;
    box.append(made);
  }
  const parts = [...new Set(figure.series.map((one) => one.part).filter(Boolean))], look = view(name);
  for (const one of parts) {
    const dot = element("span", { className: "swatch" });
    dot.style.background = figure.labels.parts ? look.ink : look.part(one);
    if (figure.labels.parts) dot.style.opacity = shade(figure.labels.parts, one);
    box.append(element("span", { className: "key of" }, dot, one));
  }
}

function all() {
  for (const one of document.querySelectorAll("[data-workload]")) one.hidden = one.dataset.workload !== chosen.workload;
  document.getElementById("recommended").hidden = !PAGE.workloads[chosen.workload];
  for (const name of CHAPTERS) {
    controls(name);
    draw(name);
  }
}

function toolbar() {
  const workloads = WORKLOADS.map((name) => button(name, name === chosen.workload, (pressed) => {
    chosen.workload = name;
    for (const [one, own] of Object.entries(chosen.of)) Object.assign(own, { figure: fullest(one), offForms: null });
    workloads.forEach((one) => one.setAttribute("aria-pressed", one === pressed));
    all();
  }));
  document.getElementById("workloads").replaceChildren(...(workloads.length > 1 ? workloads : []));
  const backends = Object.keys(PAGE.backends).map((name) => {
    const made = button(name, true, () => {
      chosen.off.delete(name) || chosen.off.add(name);
      made.setAttribute("aria-pressed", !chosen.off.has(name));
      for (const chapter of CHAPTERS) draw(chapter);
    }, `var(--${PAGE.backends[name]})`);
    return made;
  });
  document.getElementById("backends").replaceChildren(...backends);
}

for (const name of CHAPTERS) part("table", name)?.addEventListener("toggle", () => draw(name));
for (const query of [NARROW, DARK]) query.addEventListener("change", all);
toolbar();
all();
performance.mark("drawn");
document.documentElement.dataset.drawn = "true";
