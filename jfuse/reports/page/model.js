// The report's data: rows with what reads them, their errors, and what stands for the same node on the other side.

const data = JSON.parse(document.getElementById("data").textContent);

// JSON has no infinities and no NaN: they come as text.
const SPECIAL = { inf: Infinity, "-inf": -Infinity, nan: NaN };
const real = (value) => (typeof value === "string" ? SPECIAL[value] : value);

const METRICS = {
  relative: "relative error",
  own: "own error",
  absolute: "absolute error",
  ulp: "ULP",
};
// By what operations are coloured: the relative errors of all comparisons, or the noise in one for each unit of signal.
const coloured = data.coloured ?? { by: "relative", pair: null };
if (coloured.by === "noise") METRICS.noise = "noise / signal";
const LEAST_DB = 20;
const TOLERANCE = coloured.by === "noise" ? 10 ** (-LEAST_DB / 20) : Math.max(0, ...data.verification.differences.map((d) => real(d.tolerance))) || 1e-5;

class Graph {
  constructor(side, index, given) {
    Object.assign(this, { side, index, name: given.name, lanes: given.lanes, rows: given.rows });
    this.values = given.values.map(([row, result, column, readers]) => ({ row, result, column, readers }));
    this.operations = [];
    this.byNode = new Map();
    const open = [];
    this.rows.forEach((row, i) => {
      Object.assign(row, { index: i, graph: this, uses: [], errors: new Map(), badges: [] });
      while (open.length && this.rows[open.at(-1)].end <= i) open.pop();
      row.parent = open.length ? open.at(-1) : -1;
      if (row.end > i + 1) open.push(i);
      for (const read of row.reads ?? []) if (read.row !== undefined) this.rows[read.row].uses.push(i);
      if (row.kind !== "op") return;
      row.order = this.operations.length;
      this.operations.push(row);
      if (!row.node) return;
      if (!this.byNode.has(row.node)) this.byNode.set(row.node, []);
      this.byNode.get(row.node).push(row);
    });
    for (const error of given.errors) {
      const numbers = { notes: error.notes };
      for (const name of ["relative", "own", "absolute", "ulp", "cosine", "snr"]) numbers[name] = real(error[name]);
      numbers.noise = numbers.snr === undefined ? undefined : 10 ** (-numbers.snr / 20);
      const row = this.rows[error.row];
      row.errors.set(error.pair, numbers);
      row.layer = error.layer || row.layer;
    }
    this.text = null;
    // Scopes around all operations need not be told at each.
    const scopes = this.operations.filter((row) => row.node).map((row) => row.node.split("/").slice(0, -1));
    this.shared = new Set((scopes[0] ?? []).filter((part, i) => scopes.every((scope) => scope[i] === part)));
  }

  // What the search looks through, made at the first search.
  searched() {
    this.text ??= this.operations.map((row) =>
      [row.label, ...(row.results ?? []).flatMap((r) => [r.type, r.name]), row.source, row.layer]
        .join(" ")
        .toLowerCase(),
    );
    return this.text;
  }
}

class Side {
  constructor(name, title, given) {
    Object.assign(this, { name, title, signatures: given.signatures });
    this.graphs = given.graphs.map((graph, i) => new Graph(this, i, graph));
  }

  of(signature) {
    return this.graphs[this.signatures[signature] ?? 0];
  }
}

const sides = {};
if (data.sides.before) sides.before = new Side("before", "Before", data.sides.before);
sides.after = new Side("after", data.sides.before ? "After" : "Graph", data.sides.after);

const pairs = [
  ...new Set(
    Object.values(sides).flatMap((s) => s.graphs.flatMap((g) => g.operations.flatMap((r) => [...r.errors.keys()]))),
  ),
].sort();

// The rows of the other graph for the same node; where there are none, for the loop or function around it.
function counterparts(row, other) {
  if (!other || !row.node) return [];
  const parts = row.node.split("/");
  for (let n = parts.length; n > 0; n--) {
    const found = other.byNode.get(parts.slice(0, n).join("/"));
    if (found) return found;
  }
  return [];
}

// The largest error of a row in one metric; undefined where nothing was compared.
function worst(row, metric = coloured.by) {
  let found;
  for (const [pair, error] of row.errors) {
    if (metric === "noise" && pair !== coloured.pair) continue;
    const value = error[metric];
    if (value === null || value === undefined) continue;
    if (found === undefined || value > found || Number.isNaN(value)) found = value;
  }
  return found;
}

// What stands beside a row's name: the types of its results, or of what it hands on.
function beside(row) {
  if (row.kind === "body") return row.node;
  return (row.kind === "output" || row.kind === "return" ? row.reads : (row.results ?? []))
    .map((r) => r.type.replace(/\{[^}]*\}/, "")) // the details have the scales
    .join(", ");
}

// The rows with the largest errors among these, worst first.
const worstOf = (rows, most) =>
  rows
    .filter((row) => worst(row) > 0)
    .sort((a, b) => worst(b) - worst(a))
    .slice(0, most);

const isOver = (value) => value > TOLERANCE || Number.isNaN(value);

// Marks of what fused and what did not, on the operations that the conversion's report names.
function mark(conversion) {
  const named = (side, source) =>
    side ? side.graphs.flatMap((g) => g.operations.filter((r) => r.source === source)) : [];
  for (const fusion of conversion.fused) {
    const from = named(sides.before, fusion.source);
    const whole = from.some((r) => r.end > r.index + 1) ? from.filter((r) => r.end > r.index + 1) : from;
    const becomes = fusion.becomes.map((name) => name.toLowerCase());
    for (const row of whole)
      row.badges.push({
        kind: "fused",
        text: `→ ${becomes[0]}${becomes.length > 1 ? ` + ${becomes.length - 1}` : ""}`,
      });
    for (const row of named(sides.after, fusion.source)) {
      if (row.label === becomes[0]) row.badges.push({ kind: "fused", text: fusion.cell || fusion.composite });
    }
  }
  for (const refusal of conversion.refused) {
    if (!refusal.source) continue;
    for (const row of named(sides.before, refusal.source)) {
      if (row.end > row.index + 1) row.badges.push({ kind: "refused", text: `not fused: ${refusal.condition}` });
    }
  }
}
if (data.conversion) mark(data.conversion);

// A row's error in the unit by which it is coloured.
const sized = (value) => (coloured.by === "noise" && value >= 0 ? shown("snr", -20 * Math.log10(value)) : small(value));

function small(value) {
  if (value === undefined || value === null) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  if (value === 0) return "0";
  return value.toExponential(1).replace("+", "");
}

function shown(name, value) {
  if (value === undefined || value === null || !Number.isFinite(value)) return small(value);
  if (name === "ulp") return Math.round(value).toLocaleString("en");
  if (name === "snr") return `${value.toFixed(1)} dB`;
  if (name !== "cosine") return small(value);
  return value === 1 || Math.abs(1 - value) > 1e-3 ? String(+value.toPrecision(4)) : `1 - ${small(1 - value)}`;
}

function inBytes(count) {
  if (count < 1000) return `${count} B`;
  return count < 1e6 ? `${+(count / 1e3).toPrecision(3)} kB` : `${+(count / 1e6).toPrecision(3)} MB`;
}

const plural = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

// An element with attributes and children; texts are never read as HTML.
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...present(children));
  return made;
}

const present = (children) =>
  children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== "");

const byId = (id) => document.getElementById(id);
