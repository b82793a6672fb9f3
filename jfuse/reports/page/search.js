// Finds operations by name, type, source or layer, in both graphs; every word must occur.

const MOST = 60;

class Search {
  constructor(graphs, onSelect) {
    Object.assign(this, { graphs, onSelect, input: byId("search"), list: byId("found"), found: [], at: -1 });
    this.input.addEventListener("input", () => this.update());
    this.input.addEventListener("focus", () => this.update());
    this.input.addEventListener("blur", () => this.close());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("mousedown", (event) => {
      event.preventDefault(); // keeps the focus in the box
      const item = event.target.closest("[data-item]");
      if (item) this.choose(Number(item.dataset.item));
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName))
        return;
      event.preventDefault();
      this.input.focus();
      this.input.select();
    });
  }

  update() {
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.found = words.length
      ? this.graphs().flatMap((graph) => {
          const texts = graph.searched();
          return graph.operations.filter((row, i) => words.every((word) => texts[i].includes(word)));
        })
      : [];
    // Those whose name is meant stand first; within them the order of the graph.
    const rank = (row) => (row.label === words[0] ? 0 : row.label.includes(words[0]) ? 1 : 2);
    this.found.sort((a, b) => rank(a) - rank(b));
    this.at = this.found.length ? 0 : -1;
    this.list.hidden = !words.length;
    this.input.setAttribute("aria-expanded", String(!this.list.hidden));
    const items = this.found
      .slice(0, MOST)
      .map((row, i) =>
        el(
          "li",
          { role: "option", id: `found-${i}`, "data-item": i },
          el("i", {}, row.graph.side.title.toLowerCase()),
          el("b", {}, row.label),
          el("span", {}, `${(row.results ?? []).map((r) => r.type).join(", ")}  ${row.source}`),
        ),
      );
    const rest =
      this.found.length > MOST
        ? `${plural(this.found.length - MOST, "further operation")}`
        : this.found.length
          ? ""
          : "no operation has all these words";
    this.list.replaceChildren(...items, ...(rest ? [el("li", { class: "count" }, rest)] : []));
    byId("said").textContent = words.length ? `${plural(this.found.length, "operation")} found` : "";
    this.point();
  }

  point() {
    [...this.list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === this.at)));
    if (this.at < 0) return this.input.removeAttribute("aria-activedescendant");
    this.input.setAttribute("aria-activedescendant", `found-${this.at}`);
    this.list.children[this.at].scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const count = Math.min(this.found.length, MOST);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (count) this.at = (this.at + (event.key === "ArrowDown" ? 1 : count - 1)) % count;
      this.point();
    } else if (event.key === "Enter") this.choose(this.at);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
  }

  choose(item) {
    const row = this.found[item];
    if (!row) return;
    this.at = item;
    this.point();
    this.close();
    this.onSelect(row);
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }
}
