// Everything that is known of the selected row.

class Details {
  constructor(onSelect) {
    Object.assign(this, { onSelect, root: byId("details") });
  }

  nothing(graph) {
    this.root.replaceChildren(
      ...present([
        el(
          "p",
          { class: "hint" },
          "Select an operation in a graph or a point in the plot to see its types, operands, options, source and " +
            "errors, and what it corresponds to on the other side.",
        ),
        el(
          "p",
          { class: "hint" },
          el("kbd", {}, "/"),
          " searches. ",
          el("kbd", {}, "↑"),
          " ",
          el("kbd", {}, "↓"),
          " go through a graph, ",
          el("kbd", {}, "←"),
          " ",
          el("kbd", {}, "→"),
          " fold and unfold.",
        ),
        this.largest(graph.operations, 12),
      ]),
    );
  }

  show(row, twins) {
    const at = row.path ? ` #${row.path.join(".")}` : "";
    const kind = {
      op: "operation",
      input: "input",
      output: "output",
      scope: "scope",
      body: "body",
      return: "results of a body",
    }[row.kind];
    this.root.replaceChildren(
      ...present([
        el("h2", {}, row.label),
        el("p", { class: "where" }, `${kind}${at} · ${row.graph.side.title.toLowerCase()} · ${row.graph.name}`),
        this.errors(row),
        this.within(row),
        this.section("Results", this.results(row)),
        this.section(row.kind === "op" ? "Operands" : "Values", this.operands(row)),
        this.section("Options", this.options(row)),
        this.source(row),
        this.section("On the other side", this.links(twins)),
        this.section("Read by", this.links([...new Set(row.uses)].map((i) => row.graph.rows[i]))),
      ]),
    );
    this.root.scrollTop = 0;
  }

  section(title, content) {
    return content ? [el("h3", {}, title), content] : null;
  }

  largest(rows, most) {
    const found = worstOf(rows, most);
    if (!found.length) return null;
    return this.section(
      "Largest errors",
      el(
        "ul",
        { class: "list" },
        found.map((row) =>
          el("li", {}, this.link(row), el("code", { class: isOver(worst(row)) ? "over" : null }, sized(worst(row)))),
        ),
      ),
    );
  }

  // What a block holds: how many operations of each name, and where it errs most.
  within(row) {
    const rows = row.graph.rows.slice(row.index + 1, row.end).filter((inner) => inner.kind === "op");
    if (!rows.length) return null;
    const counts = new Map();
    for (const inner of rows) counts.set(inner.label, (counts.get(inner.label) ?? 0) + 1);
    const most = [...counts].sort((a, b) => b[1] - a[1]);
    return [
      this.section(
        `Holds ${plural(rows.length, "operation")}`,
        el(
          "dl",
          {},
          most.map(([name, count]) => [el("dt", {}, el("code", {}, name)), el("dd", {}, count.toLocaleString("en"))]),
        ),
      ),
      this.largest(rows, 8),
    ];
  }

  errors(row) {
    if (!row.errors.size) return null;
    const found = [...row.errors];
    const fields = {
      relative: "relative",
      own: "own, by itself",
      absolute: "absolute",
      ulp: "ULP",
      cosine: "cosine",
      snr: "SNR",
    };
    return [
      el("h3", {}, "Error"),
      el(
        "table",
        { class: "measures" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th"),
            found.map(([pair]) => el("th", { class: "n", scope: "col" }, pair)),
          ),
        ),
        el(
          "tbody",
          {},
          Object.entries(fields).map(([name, title]) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, title),
              found.map(([, error]) =>
                el(
                  "td",
                  { class: `n ${name === "relative" && isOver(error[name]) ? "over" : ""}` },
                  name !== "own" && error[name] === undefined ? "unknown" : shown(name, error[name]),
                ),
              ),
            ),
          ),
        ),
      ),
      this.notes(found),
    ];
  }

  // What is the same for all comparisons is said once.
  notes(found) {
    const said = new Map();
    for (const [pair, error] of found)
      for (const note of error.notes) said.set(note, [...(said.get(note) ?? []), pair]);
    if (!said.size) return null;
    return el(
      "ul",
      { class: "list notes" },
      [...said].map(([note, of]) => el("li", {}, of.length === found.length ? note : `${of.join(", ")}: ${note}`)),
    );
  }

  results(row) {
    if (!row.results?.length) return null;
    return el(
      "dl",
      {},
      row.results.map((result, i) => [
        el("dt", {}, result.name || (row.results.length === 1 ? "type" : String(i))),
        el("dd", {}, result.type),
      ]),
    );
  }

  operands(row) {
    if (!row.reads?.length) return null;
    return el(
      "dl",
      {},
      row.reads.map((read, i) => [
        el("dt", {}, read.name || String(i)),
        el(
          "dd",
          {},
          read.row === undefined
            ? [el("span", {}, read.value)]
            : [this.link(row.graph.rows[read.row], read.result), " "],
          read.row === undefined ? null : el("span", { class: "type" }, read.type),
        ),
      ]),
    );
  }

  options(row) {
    if (!row.options?.length) return null;
    return el(
      "dl",
      { class: "options" },
      row.options.map((option) => [
        el("dt", {}, option.name),
        el("dd", { class: option.default ? "usual" : null }, option.value, option.default ? " (default)" : ""),
      ]),
    );
  }

  source(row) {
    const facts = Object.entries({
      node: row.source,
      layer: row.layer,
      "reads and writes": row.effects?.join(", "),
      constants: row.bytes ? `${row.bytes.toLocaleString("en")} bytes` : "",
    }).filter(([, text]) => text);
    if (!facts.length) return null;
    return [
      el("h3", {}, "Source"),
      el(
        "dl",
        { class: "source" },
        facts.map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]),
      ),
    ];
  }

  links(rows) {
    if (!rows.length) return null;
    const most = 30;
    return el(
      "ul",
      { class: "list" },
      rows.slice(0, most).map((row) => el("li", {}, this.link(row))),
      rows.length > most ? el("li", { class: "usual" }, `and ${rows.length - most} more`) : null,
    );
  }

  link(row, result) {
    const which = result ? `, result ${result}` : "";
    const at = row.path ? ` #${row.path.join(".")}` : "";
    return el(
      "button",
      { type: "button", class: "link mono", onclick: () => this.onSelect(row) },
      `${row.label}${at}${which}`,
    );
  }
}
