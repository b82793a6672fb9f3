// The outputs with their verdicts, and what the conversion did.

function table(heads, rows, shape = "wide") {
  const cell = (value, i) =>
    value instanceof Node && value.tagName === "TD"
      ? value
      : el("td", { class: heads[i].startsWith("#") ? "n" : null }, value);
  return el(
    "div",
    { class: shape },
    el(
      "table",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          heads.map((head) =>
            el("th", { scope: "col", class: head.startsWith("#") ? "n" : null }, head.replace("#", "")),
          ),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((row) => el("tr", {}, row.map(cell))),
      ),
    ),
  );
}

function fillOutputs(root) {
  const { differences, notes, command, failing, seconds } = data.verification;
  root.append(el("h3", {}, "Outputs"));
  if (!differences.length) root.append(el("p", {}, "No output was compared."));
  else {
    root.append(
      table(
        [
          "Output",
          "Signature",
          "Compared",
          "Verdict",
          "#Relative",
          "#Tolerance",
          "#Absolute",
          "#ULP",
          "#Cosine",
          "#SNR",
          "#Calls",
          "Why this tolerance",
        ],
        differences.map((d) => {
          const m = d.measure ?? {};
          return [
            el("b", {}, d.output),
            d.signature,
            d.pair,
            el("td", { class: d.passed ? "within" : "over" }, d.passed ? "✓ within" : "✗ beyond"),
            small(real(d.error)),
            small(real(d.tolerance)),
            ...["absolute", "ulp", "cosine", "snr"].map((name) => shown(name, real(m[name]))),
            d.samples ? d.samples.toLocaleString("en") : "–",
            d.reason,
          ];
        }),
      ),
    );
  }
  if (data.layers?.length)
    root.append(
      el("h3", {}, "SNR by layer"),
      table(
        ["Layer", "#Tensors", "#Alone", "#As it arrives", "Worst tensor alone"],
        data.layers.map((x) => [
          el("b", {}, x.layer),
          String(x.tensors),
          shown("snr", real(x.alone)),
          shown("snr", real(x.arrives)),
          el("code", {}, x.worst),
        ]),
      ),
    );
  list(root, "Notes", notes);
  if (failing) root.append(el("h3", {}, "Input that shows it"), el("pre", {}, failing));
  if (command) root.append(el("h3", {}, "Again"), el("pre", {}, command));
  const ran = Object.entries(seconds).map(([who, time]) => `${who} ${real(time).toFixed(1)} s`);
  if (ran.length) root.append(el("h3", {}, "Time"), el("p", {}, ran.join(", ")));
}

function fillConversion(root, report, find) {
  const place = (source) => {
    const row = find(source);
    return row
      ? el("button", { type: "button", class: "link mono", onclick: () => find(source, true) }, source)
      : el("code", {}, source);
  };
  root.append(el("h3", {}, "Fused"));
  if (!report.fused.length) root.append(el("p", {}, "Nothing was fused."));
  else {
    root.append(
      table(
        ["What", "Becomes", "Where", "Rule", "#Samples", "#Largest error"],
        report.fused.map((f) => [
          [
            el("b", {}, f.cell || f.composite),
            el(
              "div",
              { class: "remedy" },
              f.recovered ? "recovered from operations that nobody marked" : f.cell ? `marked as ${f.composite}` : "",
            ),
          ],
          [el("code", {}, f.becomes.join(", ")), f.speed ? el("div", { class: "remedy" }, f.speed.text) : ""],
          place(f.source),
          el("code", {}, f.rule),
          f.samples.toLocaleString("en"),
          small(real(f.error)),
        ]),
      ),
    );
  }
  if (report.refused.length) {
    root.append(
      el("h3", {}, "Not fused"),
      table(
        ["What", "Why", "Where", "What helps"],
        report.refused.map((r) => [
          el("b", {}, r.what),
          [el("code", {}, r.condition), r.detail ? el("div", {}, r.detail) : ""],
          place(r.source),
          r.remedy,
        ]),
      ),
    );
  }
  if (report.loops.length)
    root.append(
      el("h3", {}, "Loops"),
      table(
        ["Where", "Size", "Became"],
        report.loops.map((x) => [place(x.source), x.size, x.form]),
      ),
    );
  if (report.kept.length)
    root.append(
      el("h3", {}, "Kept between calls"),
      table(
        ["State", "Type", "Where"],
        report.kept.map((k) => [el("b", {}, k.name), el("code", {}, k.type), k.where]),
      ),
    );
  if (report.custom.length) {
    root.append(
      el("h3", {}, "Custom operators"),
      table(
        ["Operator", "For", "#Count", "First at", "Needs"],
        report.custom.map((c) => [el("b", {}, c.code), c.op, String(c.count), place(c.source), c.cost]),
      ),
    );
  }
  list(root, "Assumed", [...report.assumptions, ...report.promises]);
  list(root, "Notes", report.notes);
  const operators = Object.entries(report.operators);
  if (operators.length) {
    root.append(
      el("h3", {}, "Operators"),
      table(
        ["Operator", "#Count"],
        operators.map(([name, count]) => [el("code", {}, name), count.toLocaleString("en")]),
        "wide narrow",
      ),
    );
  }
  const times = Object.entries(report.seconds)
    .filter(([, time]) => real(time) >= 0.05)
    .map(([step, time]) => `${step} ${real(time).toFixed(1)} s`);
  if (times.length) root.append(el("h3", {}, "Time"), el("p", {}, times.join(", ")));
}

function list(root, title, items) {
  if (items.length)
    root.append(
      el("h3", {}, title),
      el(
        "ul",
        {},
        items.map((item) => el("li", {}, item)),
      ),
    );
}
