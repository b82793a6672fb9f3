// The error along the graph: one point for each operation and comparison, on a scale of decades.

const LOWEST = -9; // decades; what is smaller stands on the lowest line
const HIGHEST = 1;

// 0 to 1 on the scale of decades that the bars of the rows share.
function onScale(value) {
  if (Number.isNaN(value) || value === Infinity) return 1;
  if (!(value > 0)) return 0;
  return Math.min(1, Math.max(0.02, (Math.log10(value) - LOWEST) / (HIGHEST - LOWEST)));
}

class Plot {
  constructor(onSelect) {
    Object.assign(this, {
      onSelect,
      canvas: byId("plot"),
      tip: byId("tip"),
      metric: coloured.by,
      hidden: new Set(),
      points: [],
      selected: null,
      queued: false,
    });
    const metric = byId("metric");
    for (const [name, title] of Object.entries(METRICS)) metric.append(el("option", { value: name }, title));
    metric.value = this.metric;
    metric.addEventListener("change", () => {
      this.metric = metric.value;
      this.update();
    });
    for (const [i, pair] of pairs.entries()) {
      const box = el("input", {
        type: "checkbox",
        checked: true,
        onchange: () => {
          if (box.checked) this.hidden.delete(pair);
          else this.hidden.add(pair);
          this.update();
        },
      });
      byId("pairs").append(el("label", {}, box, this.swatch(i), pair));
    }
    this.canvas.addEventListener("click", (event) => this.pick(event, true));
    this.canvas.addEventListener("mousemove", (event) => this.pick(event, false));
    this.canvas.addEventListener("mouseleave", () => this.hover(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.later()).observe(this.canvas.parentElement);
  }

  swatch(series) {
    const box = el("canvas", { width: 12, height: 12, "aria-hidden": "true" });
    this.swatches = [
      ...(this.swatches ?? []),
      () => {
        const context = box.getContext("2d");
        context.clearRect(0, 0, 12, 12);
        this.shape(context, 6, 6, 4.5, series);
      },
    ];
    return box;
  }

  show(graph) {
    this.graph = graph;
    this.selected = null;
    this.update();
  }

  update() {
    const { metric } = this;
    this.points = this.graph.operations.flatMap((row) =>
      pairs.flatMap((pair, series) => {
        const value = row.errors.get(pair)?.[metric];
        return value === undefined || value === null || this.hidden.has(pair) ? [] : [{ row, pair, series, value }];
      }),
    );
    // An operation whose error is not known has no point: it is counted, and never drawn as a zero.
    const unknown = this.graph.operations.filter((row) =>
      [...row.errors].some(([pair, error]) => error.relative === undefined && !this.hidden.has(pair)),
    ).length;
    const finite = this.points.filter((p) => p.value > 0 && Number.isFinite(p.value)).map((p) => Math.log10(p.value));
    const shownTolerance = metric === "relative" ? [Math.log10(TOLERANCE)] : [];
    this.low =
      Math.floor(Math.min(-1, ...(metric === "ulp" ? [0] : []), ...bounds(finite, Math.min), ...shownTolerance)) - 0.3;
    this.high = Math.ceil(Math.max(...bounds(finite, Math.max), ...shownTolerance, this.low + 3));
    let largest = null;
    for (const point of this.points) if (!largest || !(point.value <= largest.value)) largest = point;
    const place = byId("largest");
    place.replaceChildren();
    if (largest) {
      place.append(
        "largest ",
        el(
          "b",
          { class: metric === "relative" && isOver(largest.value) ? "over" : null },
          shown(metric, largest.value),
        ),
        " at ",
        el(
          "button",
          { type: "button", class: "link mono", onclick: () => this.onSelect(largest.row) },
          `${largest.row.label} #${largest.row.path.join(".")}`,
        ),
        ` (${largest.pair})`,
      );
    }
    if (unknown && metric !== "own") place.append(`${largest ? " · " : ""}${plural(unknown, "operation")} unknown`);
    const told = largest ? `largest ${shown(metric, largest.value)} at ${largest.row.label}` : "nothing was compared";
    this.canvas.setAttribute(
      "aria-label",
      `${METRICS[metric]} of ${plural(this.points.length, "point")}; ${told}. Arrow keys go along the operations.`,
    );
    this.draw();
  }

  later() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      if (this.graph) this.draw();
    });
  }

  x(point) {
    const count = Math.max(1, this.graph.operations.length - 1);
    return this.box.left + this.box.width * (this.graph.operations.length === 1 ? 0.5 : point.row.order / count);
  }

  y(value) {
    const { top, height } = this.box;
    if (Number.isNaN(value) || value === Infinity) return top;
    if (!(value > 0)) return top + height;
    const floor = top + height - 9;
    return floor - ((Math.log10(value) - this.low) / (this.high - this.low)) * (floor - top - 14);
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas.parentElement;
    if (!width) return;
    const context = surface(this.canvas, width, height);
    this.box = { left: 54, top: 12, width: width - 54 - 20, height: height - 12 - 16 };
    this.swatches.forEach((draw) => draw());
    context.font = `10.5px ${palette.mono}`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    const level = (y, text, colour, dash = []) => {
      context.strokeStyle = colour;
      context.lineWidth = 1;
      context.setLineDash(dash);
      context.beginPath();
      context.moveTo(this.box.left - 6, Math.round(y) + 0.5);
      context.lineTo(width - 12, Math.round(y) + 0.5);
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = palette.soft;
      context.fillText(text, this.box.left - 10, y);
    };
    level(this.y(0), "0", palette.line);
    if (this.points.some((p) => !Number.isFinite(p.value))) level(this.y(Infinity), "∞", palette.line);
    const every = Math.max(1, Math.ceil((this.high - this.low) / Math.max(2, this.box.height / 22)));
    for (let decade = Math.ceil(this.low); decade <= this.high; decade += every)
      level(this.y(10 ** decade), `1e${decade}`, palette.hair);
    const tolerated = this.metric === "relative" && data.verification.differences.length;
    if (tolerated) level(this.y(TOLERANCE), "", palette.bad, [5, 4]);
    if (this.selected) {
      const x = Math.round(this.x({ row: this.selected })) + 0.5;
      context.strokeStyle = palette.accent;
      context.beginPath();
      context.moveTo(x, 4);
      context.lineTo(x, height - 6);
      context.stroke();
    }
    const radius = this.points.length > 1500 ? 1.9 : this.points.length > 300 ? 2.5 : 3.4;
    for (const point of this.points) this.shape(context, this.x(point), this.y(point.value), radius, point.series);
    for (const point of this.points)
      if (point.row === this.selected)
        this.shape(context, this.x(point), this.y(point.value), radius + 2.2, point.series, true);
    if (tolerated) {
      context.lineWidth = 4;
      context.strokeStyle = palette.paper;
      context.fillStyle = palette.bad;
      context.strokeText("tolerance", width - 14, this.y(TOLERANCE) - 8);
      context.fillText("tolerance", width - 14, this.y(TOLERANCE) - 8);
    }
    if (!this.points.length) {
      context.fillStyle = palette.faint;
      context.textAlign = "center";
      context.font = `12.5px ${palette.sans}`;
      context.fillText("no operation of this graph was compared", this.box.left + this.box.width / 2, height / 2 - 4);
    }
  }

  // Comparisons differ in shape as well as in colour.
  shape(context, x, y, radius, series, ringed = false) {
    context.beginPath();
    if (series % 2 === 0) context.arc(x, y, radius, 0, 2 * Math.PI);
    else {
      const r = radius * 1.25;
      context.moveTo(x, y - r);
      context.lineTo(x + r, y);
      context.lineTo(x, y + r);
      context.lineTo(x - r, y);
      context.closePath();
    }
    context.fillStyle = palette[series % 2 === 0 ? "series-a" : "series-b"];
    context.globalAlpha = series > 1 ? 0.5 : ringed ? 1 : 0.85;
    context.fill();
    context.globalAlpha = 1;
    if (!ringed) return;
    context.strokeStyle = palette.ink;
    context.lineWidth = 1.5;
    context.stroke();
  }

  pick(event, select) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    let least = select ? Infinity : 28 * 28;
    for (const point of this.points) {
      // Sideways counts more: a click means the operation under the pointer, at whatever height.
      const distance = (3 * (this.x(point) - x)) ** 2 + (this.y(point.value) - y) ** 2;
      if (distance < least) [best, least] = [point, distance];
    }
    if (select && best) this.onSelect(best.row);
    if (!select) this.hover(best);
  }

  hover(point) {
    this.tip.hidden = !point;
    if (!point) return;
    const where = `${point.row.label} #${point.row.path.join(".")}`;
    this.tip.textContent = `${where} · ${point.pair} · ${shown(this.metric, point.value)}`;
    const x = this.x(point);
    const right = x > this.canvas.clientWidth / 2;
    this.tip.style.left = right ? "auto" : `${x + 12}px`;
    this.tip.style.right = right ? `${this.canvas.clientWidth - x + 12}px` : "auto";
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const rows = [...new Set(this.points.map((p) => p.row))];
    const here = rows.indexOf(this.selected);
    const to = rows[here < 0 ? 0 : Math.min(Math.max(here + step, 0), rows.length - 1)];
    if (to) this.onSelect(to);
  }

  select(row) {
    this.selected = row && row.graph === this.graph && row.kind === "op" ? row : null;
    this.draw();
  }
}

// Of many numbers the smallest or largest, as a list that may be empty.
function bounds(numbers, choose) {
  return numbers.length ? [numbers.reduce((a, b) => choose(a, b))] : [];
}
