// Puts the parts together: one selection, shown everywhere.

const panes = {};
const { verification, conversion } = data;

function select(row) {
  openTab("graph");
  const name = row.graph.side.name;
  if (panes[name].graph !== row.graph) {
    const key = Object.keys(sides[name].signatures).find((k) => sides[name].of(k) === row.graph);
    byId("signature").value = key;
    show(key);
  }
  const other = Object.values(panes).find((pane) => pane.side.name !== name);
  const twins = counterparts(row, other?.graph);
  panes[name].highlight(row.index, []);
  other?.highlight(
    -1,
    twins.map((twin) => twin.index),
  );
  plot.select(row.graph === plot.graph ? row : (twins.find((twin) => twin.errors.size) ?? null));
  details.show(row, twins);
  const size = worst(row);
  const types = (row.results ?? []).map((result) => `, ${result.type}`).join("");
  byId("said").textContent = `${row.label}${types}${size === undefined ? "" : `, ${coloured.by === "noise" ? "SNR" : "relative error"} ${sized(size)}`}`;
}

function show(signature) {
  for (const pane of Object.values(panes)) pane.show(pane.side.of(signature));
  plot.show(sides.after.of(signature));
  details.nothing(sides.after.of(signature));
}

function openTab(name) {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const open = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(open));
    tab.tabIndex = open ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !open;
  }
}

function fillTop() {
  const { subject, reference, differences, passed, samples, backend } = verification;
  byId("subject").textContent = subject || "jfuse report";
  byId("reference").textContent = reference ? `compared with ${reference}` : "";
  document.title = subject ? `${subject} · jfuse report` : "jfuse report";
  const beyond = differences.filter((d) => !d.passed).length;
  const verdict = byId("verdict");
  verdict.className = `verdict ${differences.length ? (passed ? "good" : "bad") : "none"}`;
  verdict.textContent = !differences.length
    ? "not compared"
    : passed
      ? "✓ within tolerance"
      : `✗ ${plural(beyond, "output")} beyond tolerance`;
  const count = (side) => side.graphs.reduce((sum, graph) => sum + graph.operations.length, 0).toLocaleString("en");
  const largest = differences.reduce((a, d) => (a === null || !(real(d.error) <= a) ? real(d.error) : a), null);
  byId("figures").textContent = [
    sides.before ? `${count(sides.before)} → ${count(sides.after)} operations` : `${count(sides.after)} operations`,
    largest === null ? "" : `largest error ${small(largest)}`,
    samples ? `${plural(samples, "call")} compared` : "",
    samples ? backend : "",
    conversion?.size_bytes ? `${conversion.size_bytes.toLocaleString("en")} bytes` : "",
  ]
    .filter(Boolean)
    .join("  ·  ");
}

function rowOf(error) {
  for (const side of [sides.after, sides.before]) {
    const graph = side?.graphs[side.signatures[error.signature]];
    const row = graph?.operations.find(
      (r) => r.path.join() === error.path.join() && (r.label === error.op || r.mark === error.op),
    );
    if (row) return row;
  }
  return null;
}

function fillFirst() {
  const { first } = verification;
  if (!first) return;
  const row = rowOf(first);
  const text = `${first.op} #${first.path.join(".")}${first.source ? ` at ${first.source}` : ""}`;
  byId("first").replaceChildren(
    "First difference: ",
    row ? el("button", { type: "button", class: "link mono", onclick: () => select(row) }, text) : el("code", {}, text),
    ` (${first.pair}, ${first.measure ? small(real(first.measure.relative)) : "unknown"})`,
  );
  byId("first").hidden = false;
  if (row) select(row);
}

for (const side of Object.values(sides)) panes[side.name] = new Pane(byId(`pane-${side.name}`), side, select);
if (!sides.before) {
  byId("pane-before").remove();
  document.querySelector(".work").classList.add("single");
}
const plot = new Plot(select);
const details = new Details(select);
new Search(() => Object.values(panes).map((pane) => pane.graph), select);

for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => openTab(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const tabs = [...document.querySelectorAll("[role=tab]:not([hidden])")];
    const to = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
    openTab(to.id.slice(4));
    to.focus();
  });
}
openTab("graph");
byId("tab-conversion").hidden = !conversion;
byId("errors").hidden = !pairs.length;
const signatures = Object.keys(sides.after.signatures);
byId("signature-choice").hidden = signatures.length < 2;
byId("signature").append(...signatures.map((key) => el("option", { value: key }, key)));
byId("signature").addEventListener("change", (event) => show(event.target.value));
fillTop();
show(signatures[0]);
fillOutputs(byId("view-outputs"));
if (conversion) {
  fillConversion(byId("view-conversion"), conversion, (source, open) => {
    const rows = Object.values(sides).flatMap((side) => side.graphs.flatMap((graph) => graph.operations));
    const row = rows.find((r) => r.source === source && r.badges.length) ?? rows.find((r) => r.source === source);
    if (open && row) select(row);
    return row;
  });
}
fillFirst();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readPalette();
  Object.values(panes).forEach((pane) => pane.draw());
  plot.draw();
});
document.body.dataset.ready = "true";
