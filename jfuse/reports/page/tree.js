// Which rows are to be seen: blocks can be folded, and a hidden row then stands where its outermost folded block does.

class Tree {
  constructor(graph) {
    this.graph = graph;
    this.folded = new Set(graph.rows.filter((row) => row.folded).map((row) => row.index));
    this.update();
  }

  update() {
    const { rows } = this.graph;
    this.visible = [];
    this.place = new Int32Array(rows.length);
    for (let i = 0; i < rows.length;) {
      const next = this.folded.has(i) ? rows[i].end : i + 1;
      this.place.fill(this.visible.length, i, next);
      this.visible.push(i);
      i = next;
    }
  }

  isBlock(index) {
    return this.graph.rows[index].end > index + 1;
  }

  fold(index, folded) {
    if (!this.isBlock(index)) return;
    if (folded) this.folded.add(index);
    else this.folded.delete(index);
    this.update();
  }

  foldAll(folded) {
    this.folded = new Set(
      folded ? this.graph.rows.filter((row) => this.isBlock(row.index)).map((row) => row.index) : [],
    );
    this.update();
  }

  // Unfold everything around a row.
  reveal(index) {
    const before = this.folded.size;
    for (let i = this.graph.rows[index].parent; i >= 0; i = this.graph.rows[i].parent) this.folded.delete(i);
    if (this.folded.size !== before) this.update();
  }
}
