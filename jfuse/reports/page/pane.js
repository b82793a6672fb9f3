// One graph as a list that scrolls: only the rows in view are elements, however many there are.

class Pane {
  constructor(root, side, onSelect) {
    Object.assign(this, {
      root,
      side,
      onSelect,
      tree: null,
      selected: -1,
      twins: new Set(),
      elements: new Map(),
      queued: false,
    });
    this.title = el("p");
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.list = el("div", { class: "rows", role: "presentation" });
    this.inner = el("div", { class: "inner", role: "presentation" }, this.canvas, this.list);
    this.scroll = el(
      "div",
      {
        class: "scroll",
        role: "tree",
        tabindex: "0",
        id: `tree-${side.name}`,
        onscroll: () => this.later(),
        onkeydown: (event) => this.key(event),
        onclick: (event) => this.click(event),
      },
      this.inner,
    );
    root.append(
      el(
        "div",
        { class: "head" },
        el("h2", {}, side.title),
        this.title,
        el("button", { type: "button", onclick: () => this.foldAll(true) }, "Fold all"),
        el("button", { type: "button", onclick: () => this.foldAll(false) }, "Unfold all"),
      ),
      this.scroll,
    );
    new ResizeObserver(() => this.later()).observe(this.scroll);
  }

  show(graph) {
    this.graph = graph;
    this.tree = new Tree(graph);
    this.selected = -1;
    this.twins = new Set();
    this.title.textContent = `${graph.name} · ${plural(graph.operations.length, "operation")}`;
    this.scroll.setAttribute("aria-label", `${this.side.title}: ${this.title.textContent}`);
    this.scroll.scrollTop = 0;
    this.rebuild();
  }

  // After rows have come or gone.
  rebuild() {
    this.elements.forEach((element) => element.remove());
    this.elements.clear();
    this.inner.style.height = `${this.tree.visible.length * ROW + 8}px`;
    this.draw();
  }

  later() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      this.draw();
    });
  }

  draw() {
    const { clientWidth: width, clientHeight: height, scrollTop: top } = this.scroll;
    if (!width || !this.tree) return;
    drawPane(this.canvas, this.tree, { top, width, height, selected: this.selected, twins: this.twins });
    const first = Math.max(0, Math.floor(top / ROW) - 6);
    const last = Math.min(this.tree.visible.length, Math.ceil((top + height) / ROW) + 6);
    const wanted = new Set(this.tree.visible.slice(first, last));
    for (const [index, element] of this.elements) {
      if (wanted.has(index)) continue;
      element.remove();
      this.elements.delete(index);
    }
    for (const index of wanted) {
      if (!this.elements.has(index)) this.add(index);
      const element = this.elements.get(index);
      element.setAttribute("aria-selected", String(index === this.selected));
      element.classList.toggle("twin", this.twins.has(index) && index !== this.selected);
    }
    const id = this.elements.get(this.selected)?.id;
    if (id) this.scroll.setAttribute("aria-activedescendant", id);
    else this.scroll.removeAttribute("aria-activedescendant");
  }

  add(index) {
    const row = this.graph.rows[index];
    const block = row.end > index + 1;
    const folded = this.tree.folded.has(index);
    const element = el(
      "div",
      {
        class: `row ${row.kind}`,
        role: "treeitem",
        id: `${this.side.name}-${index}`,
        "data-row": index,
        "aria-level": row.depth + 1,
        "aria-expanded": block ? String(!folded) : null,
        "aria-selected": "false",
        title: row.source || row.label,
      },
      block ? el("span", { class: "fold", "aria-hidden": "true" }, folded ? "▶" : "▼") : null,
      el("span", { class: "name" }, row.label),
      el("span", { class: "type" }, beside(row)),
      this.part(row),
      row.mark === "composite" ? el("span", { class: "badge composite" }, "composite") : null,
      row.badges.map((b) => el("span", { class: `badge ${b.kind}` }, b.text)),
      el("span", { class: "gap" }),
      this.bytes(row, folded),
      this.size(row, folded),
    );
    element.style.top = `${this.tree.place[index] * ROW}px`;
    element.style.paddingLeft = `${gutterOf(this.graph) + row.depth * INDENT}px`;
    this.elements.set(index, element);
    this.list.append(element);
  }

  // The scope of an operation as far as the blocks around it do not tell it.
  part(row) {
    if (row.kind !== "op" || !row.node) return null;
    const told = new Set(this.graph.shared);
    for (let i = row.parent; i >= 0; i = this.graph.rows[i].parent) {
      const around = this.graph.rows[i];
      for (const part of `${around.label}/${around.node ?? ""}`.split("/")) told.add(part);
    }
    const scope = row.node
      .split("/")
      .slice(0, -1)
      .filter((part) => !told.has(part));
    return scope.length ? el("span", { class: "part" }, scope.join("/")) : null;
  }

  // The bytes of the constants that an operation reads; of a folded block those of all within.
  bytes(row, folded) {
    let count = row.bytes ?? 0;
    if (folded) for (let i = row.index + 1; i < row.end; i++) count += this.graph.rows[i].bytes ?? 0;
    return count ? el("span", { class: "bytes", title: "bytes of constants" }, inBytes(count)) : null;
  }

  // The row's error as a bar on a scale of decades; of a folded block the largest within.
  size(row, folded) {
    let value = worst(row);
    if (folded) {
      for (let i = row.index + 1; i < row.end; i++) {
        const inner = worst(this.graph.rows[i]);
        if (inner !== undefined && !(inner <= value)) value = inner;
      }
    }
    if (value === undefined) return null;
    const bar = el("b");
    bar.style.width = `${Math.round(100 * onScale(value))}%`;
    // From green at 60 dB to red at 10 dB, beside the number that says the same.
    if (coloured.by === "noise") {
      const share = Math.min(1, Math.max(0, (-20 * Math.log10(value) - 10) / 50));
      bar.style.background = `hsl(${130 * share} 60% 45%)`;
    }
    return el(
      "span",
      { class: `size ${isOver(value) ? "over" : ""}`, title: coloured.by === "noise" ? "SNR of this operation alone" : "the largest relative error" },
      el("i", {}, bar),
      el("span", {}, sized(value)),
    );
  }

  highlight(selected, twins) {
    this.selected = selected;
    this.twins = new Set(twins);
    const index = selected >= 0 ? selected : twins[0];
    if (index === undefined) return this.draw();
    const folds = this.tree.folded.size;
    this.tree.reveal(index);
    if (this.tree.folded.size !== folds) this.rebuild();
    this.bring(index);
    this.draw();
  }

  // Scroll so that a row, or the folded block around it, can be seen.
  bring(index) {
    const y = this.tree.place[index] * ROW;
    const { scrollTop: top, clientHeight: height } = this.scroll;
    if (y < top + ROW || y > top + height - 2 * ROW) this.scroll.scrollTop = Math.max(0, y - height / 2 + ROW / 2);
  }

  click(event) {
    const element = event.target.closest(".row");
    if (!element) return;
    const index = Number(element.dataset.row);
    if (event.target.closest(".fold") || this.graph.rows[index].kind === "scope") this.toggle(index);
    this.onSelect(this.graph.rows[index]);
  }

  toggle(index, folded = !this.tree.folded.has(index)) {
    this.tree.fold(index, folded);
    this.rebuild();
  }

  foldAll(folded) {
    this.tree.foldAll(folded);
    this.rebuild();
    const marked = this.selected >= 0 ? this.selected : [...this.twins][0];
    if (marked !== undefined) this.bring(marked);
  }

  key(event) {
    const { visible, place } = this.tree;
    const here = this.selected >= 0 ? place[this.selected] : -1;
    const page = Math.max(1, Math.floor(this.scroll.clientHeight / ROW) - 2);
    const steps = {
      ArrowDown: here + 1,
      ArrowUp: here - 1,
      PageDown: here + page,
      PageUp: here - page,
      Home: 0,
      End: visible.length - 1,
    };
    const block = this.selected >= 0 && this.tree.isBlock(this.selected);
    const folded = this.tree.folded.has(this.selected);
    let to;
    if (event.key in steps) to = visible[Math.min(Math.max(steps[event.key], 0), visible.length - 1)];
    else if (event.key === "ArrowRight" && block) folded ? this.toggle(this.selected, false) : (to = this.selected + 1);
    else if (event.key === "ArrowLeft" && block && !folded) this.toggle(this.selected, true);
    else if (event.key === "ArrowLeft" && this.selected >= 0 && this.graph.rows[this.selected].parent >= 0)
      to = this.graph.rows[this.selected].parent;
    else if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
    event.preventDefault();
    if (to !== undefined) this.onSelect(this.graph.rows[to]);
  }
}
