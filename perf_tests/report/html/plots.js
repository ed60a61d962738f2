"use strict";
// Plotly traces and layout for each kind of figure. A view holds the reader's choices and the colours.

const DASHES = { naive: "dash", full: "solid" }, OTHER_DASHES = ["dot", "dashdot", "longdash", "longdashdot"];
const dash = (form, others) => DASHES[form] || OTHER_DASHES[others.indexOf(form) % 4] || "solid";
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "star", "triangle-down", "hexagon"];
const PARTS = {
  holds: "--good", partly: "--warn", "not met": "--bad", refuted: "--bad", unclear: "--quiet", measured: "--soft",
  promised: "--ink",
  slower: "--bad", gone: "--bad", error: "--bad", inconclusive: "--warn", faster: "--good", ok: "--soft",
  new: "--quiet",
};
// Opacity of a phase: phases are shades of the colour of the backend.
const shade = (parts, one) => 1 - 0.75 * (parts.indexOf(one) / Math.max(parts.length - 1, 1));

function duration(seconds) {
  for (const [factor, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]])
    if (seconds >= factor * 0.9995 || unit === "µs") return `${significant(seconds / factor)} ${unit}`;
}
function quantity(value) {
  for (const [factor, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (value >= factor * 0.9995) return significant(value / factor) + prefix;
  return significant(value);
}
const significant = (value) => String(Number(value.toPrecision(3)));
const percent = (value) => `${significant(100 * value)}%`;
const times = (value) => `${significant(value)}x`;
const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;");

// Ticks and range of a logarithmic axis.
function logarithmic(values, words, narrow) {
  const known = values.filter((value) => value > 0);
  let [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [1, 10];
  if (high / low < 1.02) [low, high] = [low / 1.2, high * 1.2];
  const pad = 0.05 * Math.log10(high / low);
  const range = [Math.log10(low) - pad, Math.log10(high) + pad], most = narrow ? 5 : 9;
  const [first, last] = [10 ** range[0], 10 ** range[1]];
  let ticks = [];
  if (last / first < 5) {
    const step = [1, 2, 5, 10].map((n) => n * 10 ** Math.floor(Math.log10((last - first) / 10)));
    const chosen = step.find((one) => (last - first) / one <= most) || step[3];
    for (let k = Math.ceil(first / chosen); k * chosen <= last; k++) ticks.push(k * chosen);
  } else {
    const decades = Math.ceil(range[1] - range[0]);
    const parts = decades * 3 <= most ? [1, 2, 5] : [1], skip = Math.ceil(decades / most);
    for (let k = Math.floor(range[0]); k <= Math.ceil(range[1]); k++)
      if (k % skip === 0) for (const part of parts) ticks.push(part * 10 ** k);
    ticks = ticks.filter((tick) => tick >= first && tick <= last);
  }
  return { type: "log", range, tickvals: ticks, ticktext: ticks.map(words) };
}

// A point's value and interval, as time or as rate.
function figure(point, rate) {
  if (!rate) return [point.y, point.low, point.high];
  const over = (value) => (value ? point.items / value : null);
  return [over(point.y), over(point.high), over(point.low)];
}
function bars(found, color) {
  return {
    type: "data", symmetric: false, color, thickness: 1.2, width: 3,
    array: found.map(([y, , high]) => (high == null ? 0 : high - y)),
    arrayminus: found.map(([y, low]) => (low == null ? 0 : y - low)),
  };
}
function hoverText(point, found, words) {
  const [y, low, high] = found, between = low == null ? "" : ` (${words(low)} to ${words(high)})`;
  return `${escaped(point.id)}<br>${words(y)}${between}`;
}
const visible = (figure, view) =>
  figure.series.filter((one) => !view.off.has(one.backend) && !(one.form && view.offForms.has(one.form)));
const flat = (lists) => lists.flat().flat().filter((value) => value != null);

// Categories with points, top to bottom; labels are beside the plot, or above each row on narrow screens.
function rows(figure, shown, view) {
  const used = [...new Set(shown.flatMap((one) => one.points.map((point) => point.at)))].sort((a, b) => a - b);
  const at = new Map(used.map((one, k) => [one, k])), names = used.map((one) => figure.labels.categories[one]);
  const step = view.narrow ? 44 : 26;
  const axis = { range: [used.length - 0.5, -0.5 - 0.25 * view.narrow], zeroline: false, tickvals: names.map((_, k) => k),
    ticktext: view.narrow ? names.map(() => "") : names.map((name) => escaped(name) + " "), automargin: true };
  const annotations = !view.narrow ? [] : names.map((name, k) => ({
    x: 0, xref: "paper", xanchor: "left", y: k - 0.34, yref: "y", text: escaped(name), showarrow: false,
    font: { size: 11, color: view.ink } }));
  return { at, axis, annotations, below: view.narrow ? 0.12 : 0, height: step * used.length + 70 };
}

const KINDS = {
  lines(one, view) {
    const rate = one.labels.rate || view.choice === 1, words = rate ? quantity : duration, shown = visible(one, view);
    const forms = [...new Set(one.series.map((series) => series.form))];
    const others = forms.filter((form) => !(form in DASHES));
    const data = shown.map((series) => {
      const found = series.points.map((point) => figure(point, rate)), color = view.color(series.backend);
      return {
        type: "scatter", mode: "lines+markers", name: series.name, x: series.points.map((point) => point.x),
        y: found.map(([y]) => y), error_y: bars(found, color), hoverinfo: "text",
        text: series.points.map((point, k) => hoverText(point, found[k], words)),
        line: { color, width: 2, dash: dash(series.form, others) },
        marker: { color, size: 7, symbol: SYMBOLS[forms.indexOf(series.form) % 8] },
      };
    });
    const xs = [...new Set(one.series.flatMap((series) => series.points.map((point) => point.x)))].sort((a, b) => a - b);
    const linear = xs[0] <= 0 || one.labels.x === "threads", ends = linear ? xs : xs.map(Math.log10);
    const pad = 0.06 * (ends.at(-1) - ends[0]), gap = (ends.at(-1) - ends[0]) / (view.narrow ? 7 : 14);
    const ticks = xs.filter((_, k) => k === 0 || k === xs.length - 1 || (ends[k] - ends[k - 1] >= 0 && spaced(ends, k, gap)));
    const y = data.flatMap((trace) => trace.y.flatMap((v, k) => [v - trace.error_y.arrayminus[k], v + trace.error_y.array[k]]));
    return { data, layout: {
      height: view.narrow ? 340 : 420,
      xaxis: { title: { text: one.labels.x }, type: linear ? "linear" : "log", range: [ends[0] - pad, ends.at(-1) + pad],
        tickvals: ticks, ticktext: ticks.map(String) },
      yaxis: { title: { text: rate ? `${one.labels.unit} per second` : "time per call" },
        ...logarithmic(y, words, view.narrow), automargin: true } } };
  },

  dots(one, view) {
    const ratio = one.labels.ratio, rate = !ratio && view.choice === 1, shown = visible(one, view);
    const words = ratio ? times : rate ? quantity : duration, place = rows(one, shown, view), beside = new Map();
    for (const series of shown) for (const point of series.points)
      if (series.part !== "promised") beside.set(point.at, [...(beside.get(point.at) || []), series.name]);
    const data = shown.map((series) => {
      const found = series.points.map((point) => figure(point, rate)), promised = series.part === "promised";
      const color = series.part ? view.part(series.part) : view.color(series.backend);
      const offset = ({ at }) => promised ? 0 : spread(beside.get(at), series.name);
      return {
        type: "scatter", mode: "markers", name: series.name, x: found.map(([y]) => y),
        error_x: promised ? {} : bars(found, color),
        y: series.points.map((point) => place.at.get(point.at) + place.below + offset(point)), hoverinfo: "text",
        text: series.points.map((point, k) => hoverText(point, found[k], words)),
        marker: { color, size: promised ? 11 : 9, symbol: promised ? "diamond-open" : "circle", line: { width: promised ? 1.6 : 0 } },
      };
    });
    const values = shown.flatMap((series) => series.points.map((point) => figure(point, rate)));
    return { data, layout: { height: place.height, yaxis: place.axis, annotations: place.annotations,
      shapes: ratio ? [upright(1, view)] : [],
      xaxis: { title: { text: one.labels.x || (rate ? `${one.labels.unit} per second` : "time per call") },
        ...logarithmic([...flat(values), ...(ratio ? [1] : [])], words, view.narrow) } } };
  },

  history(one, view) {
    const change = (value) => `${value < 0.99995 ? "" : "+"}${significant(100 * (value - 1))}%`;
    const names = one.labels.commits, skip = Math.ceil(names.length / (view.narrow ? 4 : 14));
    const at = names.map((_, k) => k).filter((k) => k % skip === 0);
    const data = one.series.map((series) => {
      const found = series.points.map((point) => figure(point, false)), color = view.part(series.part);
      const curve = series.part === "ok" && series.name === "commits";
      return {
        type: "scatter", mode: curve ? "lines+markers" : "markers", name: series.name, hoverinfo: "text",
        x: series.points.map((point) => point.x), y: found.map(([y]) => y), error_y: curve ? bars(found, color) : {},
        text: series.points.map((point) => escaped(point.id)), line: { color, width: 1.5 },
        marker: { color, size: curve ? 6 : 14, symbol: curve ? "circle" : "diamond-open", line: { width: curve ? 0 : 2.5 } },
      };
    });
    const values = one.series.flatMap((series) => series.points.flatMap((point) => [point.y, point.low, point.high]));
    return { data, layout: {
      height: view.narrow ? 320 : 400,
      xaxis: { title: { text: "commits, oldest first" }, range: [-0.5, names.length - 0.5], tickvals: at,
        ticktext: at.map((k) => names[k]), zeroline: false },
      yaxis: { title: { text: one.labels.y }, ...logarithmic([...values, 0.98, 1.02], change, view.narrow), automargin: true },
      shapes: [{ type: "line", x0: 0, x1: 1, xref: "paper", y0: 1, y1: 1, layer: "below", line: { color: view.soft, width: 1 } }],
    } };
  },

  strip(one, view) {
    const shown = visible(one, view), place = rows(one, shown, view), names = shown.map((series) => series.name);
    const data = shown.map((series) => ({
      type: "scatter", mode: "markers", name: series.name, x: series.points.map((point) => point.y), hoverinfo: "text",
      y: series.points.map((point) => place.at.get(point.at) + place.below + spread(names, series.name)),
      text: series.points.map((point) => hoverText(point, [point.y], percent)),
      marker: { color: view.color(series.backend), size: 8, opacity: 0.75 },
    }));
    const values = shown.flatMap((series) => series.points.map((point) => point.y));
    return { data, layout: { height: place.height + 4 * place.at.size, yaxis: place.axis, annotations: place.annotations,
      shapes: [upright(1, view)],
      xaxis: { title: { text: "share of the machine's limit" }, ...logarithmic([...values, 1], percent, view.narrow) } } };
  },

  bars(one, view) {
    const shown = visible(one, view), place = rows(one, shown, view), share = view.choice === 0;
    const data = shown.map(({ part, backend, points }) => ({
      type: "bar", orientation: "h", name: part, x: points.map((point) => (share ? point.share : point.y)),
      y: points.map((point) => place.at.get(point.at)), textposition: "none", hoverinfo: "text",
      text: points.map((point) => `${escaped(point.id)}<br>${part}: ${percent(point.share)}, ${duration(point.y)}`),
      marker: { color: view.color(backend), opacity: shade(one.labels.parts, part),
        line: { color: view.card, width: 1 } },
      width: view.narrow ? 0.42 : 0.7, offset: view.narrow ? -0.16 : -0.35,
    }));
    const most = Math.max(...flat(data.map((trace) => trace.x)), 0), whole = shareTicks(share, sums(data));
    return { data, layout: { height: place.height, barmode: "stack", yaxis: place.axis, annotations: place.annotations,
      xaxis: { title: { text: share ? "share of the time" : "time per item" }, ...(most ? whole : {}) } } };
  },

  waterfall(one, view) {
    const { points, backend } = one.series[0], log = Math.log10, names = one.labels.categories;
    const worded = names.map((name) => {
      const point = points.find(({ at }) => names[at] === name);
      return point ? `${name}  ${point.text}` : name;
    });
    const color = ({ kind }) => kind === "no significant difference" ? view.css("--quiet") : view.color(backend);
    const opacity = points.map(({ kind }) => ({ full: 1, rest: 0.3 })[kind] ?? 0.65);
    const place = rows({ labels: { categories: worded } }, [{ points }], view);
    const thick = { width: view.narrow ? 0.42 : 0.66, offset: view.narrow ? -0.16 : -0.33 };
    const middle = (point) => point.at + (view.narrow ? 0.05 : 0);
    const data = [{
      type: "bar", orientation: "h", base: points.map((point) => log(point.start)), y: points.map((point) => point.at),
      x: points.map((point) => log(point.y) - log(point.start)), marker: { color: points.map(color), opacity },
      ...thick,
      text: points.map((point) => `${escaped(names[point.at])}<br>${escaped(point.text)}`), textposition: "none", hoverinfo: "text",
    }, {
      type: "scatter", mode: "markers", x: points.map((point) => log(point.y)), y: points.map(middle), hoverinfo: "skip",
      marker: { size: 1, color: view.ink }, error_x: bars(points.map((point) =>
        [log(point.y), point.low ? log(point.low) : null, point.high ? log(point.high) : null]), view.ink),
    }];
    const values = [1, ...points.flatMap((point) => [point.start, point.y, point.low, point.high])];
    const axis = logarithmic(values.filter(Boolean), times, view.narrow);
    return { data, layout: { height: place.height, yaxis: place.axis, annotations: place.annotations, shapes: [upright(0, view)],
      xaxis: { title: { text: "times as fast as naive" }, range: axis.range, zeroline: false,
        tickvals: axis.tickvals.map(log), ticktext: axis.ticktext } } };
  },
};

// Whether a tick is far enough from the previous one and from the last.
function spaced(ends, k, gap) {
  let kept = ends[0];
  for (let n = 1; n <= k; n++) if (ends[n] - kept >= gap && (n === ends.length - 1 || ends.at(-1) - ends[n] >= gap)) {
    kept = ends[n];
    if (n === k) return true;
  }
  return false;
}
function spread(names, name) {
  const place = names.indexOf(name) - (names.length - 1) / 2;
  return names.length > 1 ? Math.min(0.22, 0.6 / names.length) * place : 0;
}
function sums(data) {
  const found = new Map();
  for (const trace of data) trace.y.forEach((row, k) => found.set(row, (found.get(row) || 0) + trace.x[k]));
  return Math.max(...found.values(), 0);
}
function shareTicks(share, most) {
  if (share) return { range: [0, 1], tickvals: [0, 0.25, 0.5, 0.75, 1], ticktext: ["0", "25%", "50%", "75%", "100%"] };
  const step = [1, 2, 5, 10].map((n) => n * 10 ** Math.floor(Math.log10(most / 5))).find((one) => most / one <= 5);
  const ticks = Array.from({ length: Math.floor(most / step) + 1 }, (_, k) => k * step);
  return { range: [0, most * 1.02], tickvals: ticks, ticktext: ticks.map((tick) => (tick ? duration(tick) : "0")) };
}
function upright(at, view) {
  return { type: "line", x0: at, x1: at, y0: 0, y1: 1, yref: "paper", layer: "below", line: { color: view.soft, width: 1 } };
}
