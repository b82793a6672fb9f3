// Draws beside and behind the rows that are in view: the blocks as outlines, the values as lanes.

const ROW = 24;
const LANE = 11;
const INDENT = 15;
const GUTTER = 16;

const gutterOf = (graph) => GUTTER + graph.lanes * LANE;
const laneX = (column) => GUTTER / 2 + 5 + column * LANE;

let palette = {};
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  for (const name of [
    "paper",
    "ink",
    "soft",
    "faint",
    "line",
    "hair",
    "accent",
    "twin",
    "fused",
    "composite",
    "bad",
    "lane",
    "block",
    "series-a",
    "series-b",
    "sans",
    "mono",
  ]) {
    palette[name] = style.getPropertyValue(`--${name}`).trim();
  }
}
readPalette();

// A canvas of the size of its place on the page, sharp on dense screens; its context, cleared.
function surface(canvas, width, height) {
  const density = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function drawPane(canvas, tree, { top, width, height, selected, twins }) {
  const context = surface(canvas, width, height);
  // A folded block stands for all of its rows, in the lane of the last one.
  const x = (index) => laneX(shownAt(tree, index).column);
  const y = (index) => tree.place[index] * ROW + ROW / 2 - top;
  drawBlocks(context, tree, top, width, height, twins);
  drawValues(context, tree, x, y, height, selected);
  drawDots(context, tree, y, height, selected, twins);
}

function shownAt(tree, index) {
  const row = tree.graph.rows[tree.visible[tree.place[index]]];
  return tree.folded.has(row.index) ? tree.graph.rows[row.end - 1] : row;
}

function drawBlocks(context, tree, top, width, height) {
  const { rows } = tree.graph;
  const left = gutterOf(tree.graph);
  for (const i of tree.visible) {
    const row = rows[i];
    if (row.end <= i + 1 || row.kind === "return") continue;
    const from = tree.place[i] * ROW - top;
    if (from > height) break;
    const to = (tree.place[row.end - 1] + 1) * ROW - top;
    if (to < 0) continue;
    const composite = row.mark === "composite" || row.badges.some((b) => b.kind === "fused");
    context.beginPath();
    context.roundRect(
      left + row.depth * INDENT - 7.5,
      from + 1.5,
      width - left - row.depth * INDENT + 3 - row.depth * 3,
      to - from - 3,
      6,
    );
    context.fillStyle = palette.block;
    context.fill();
    context.setLineDash(row.kind === "body" ? [3, 3] : []);
    context.lineWidth = composite ? 1.5 : 1;
    context.strokeStyle = composite ? (row.mark === "composite" ? palette.composite : palette.fused) : palette.line;
    context.stroke();
    context.setLineDash([]);
  }
}

function drawValues(context, tree, x, y, height, selected) {
  const { values } = tree.graph;
  const lit = [];
  const draw = (value) => {
    const start = y(value.row);
    const from = x(value.row);
    const lane = laneX(value.column);
    const end = y(value.readers.at(-1));
    context.beginPath();
    let below = start;
    if (from !== lane && end > start) {
      context.moveTo(from, start);
      context.bezierCurveTo(lane, start, lane, start + ROW * 0.3, lane, start + ROW * 0.75);
      below = start + ROW * 0.75;
    }
    const straight = x(value.readers.at(-1)) === lane ? end : Math.max(below, end - ROW * 0.75);
    context.moveTo(lane, Math.max(below, -ROW));
    context.lineTo(lane, Math.min(straight, height + ROW));
    for (const reader of value.readers) {
      const at = y(reader);
      const to = x(reader);
      if (to === lane || at < -ROW || at > height + ROW || at <= start) continue;
      const bend = Math.max(below, at - ROW * 0.75);
      context.moveTo(lane, bend);
      context.bezierCurveTo(lane, at - ROW * 0.3, lane, at, to, at);
    }
    context.stroke();
  };
  context.lineWidth = 1.25;
  context.strokeStyle = palette.lane;
  for (const value of values) {
    if (y(value.row) > height + ROW || y(value.readers.at(-1)) < -ROW) continue;
    if (tree.place[value.row] === tree.place[value.readers.at(-1)]) continue;
    if (selected >= 0 && (value.row === selected || value.readers.includes(selected))) lit.push(value);
    else draw(value);
  }
  context.lineWidth = 2;
  context.strokeStyle = palette.accent;
  lit.forEach(draw);
}

function drawDots(context, tree, y, height, selected, twins) {
  const { rows } = tree.graph;
  const first = Math.max(0, tree.place.length ? Math.floor((-y(0) + ROW / 2) / ROW) - 1 : 0);
  for (let p = first; p < tree.visible.length; p++) {
    const row = rows[tree.visible[p]];
    const at = y(row.index);
    if (at > height + ROW) break;
    const folded = tree.folded.has(row.index);
    if (row.kind === "scope" && !folded) continue;
    const over = row.errors.size > 0 && isOver(worst(row));
    context.beginPath();
    const lane = laneX(shownAt(tree, row.index).column);
    if (row.kind === "op") context.arc(lane, at, 3.6, 0, 2 * Math.PI);
    else context.rect(lane - 2.5, at - 2.5, 5, 5);
    context.fillStyle = over
      ? palette.bad
      : row.index === selected
        ? palette.accent
        : twins.has(row.index)
          ? palette.twin
          : palette.soft;
    context.strokeStyle = palette.paper;
    context.lineWidth = 2;
    context.stroke();
    context.fill();
  }
}
