// The page of a look: an overview of maps, one map with its views, walking through steps. All it shows is in the page.
"use strict";
(() => {
  const LEVELS = 20, MASKED = -32768;
  document.documentElement.classList.add("scripted");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const level = (part) => Math.round(Math.min(1, Math.max(0, part)) * LEVELS);
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
  const cut = (text, most) => text.length > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text;

  const made = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };

  // Data ----------------------------------------------------------------------------------------------------------

  // The bytes of `page.packed`.
  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };
  const ROOTS = Float32Array.from({ length: 256 }, (_, byte) => 1000 * (byte / 255) ** 2);
  const SIGNED = Float32Array.from({ length: 256 }, (_, byte) => 1000 * Math.sign(byte - 128) * ((byte - 128) / 127) ** 2);

  // The weights of one map of `maps_data` (draw_html.py), row by row, in thousandths of the one drawn darkest. A cell
  // that was left out is -1 - m, where m is the mean of those that were left out of its row.
  const rowsOf = async (data, map) => {
    if (Array.isArray(map.weights)) return map.weights;
    const [height, width] = [map.query, map.key].map((axis) => data.axes[axis].labels.length);
    const bytes = await unpack(map.weights), every = new Float32Array(height * width);
    const rows = Array.from({ length: height }, (_, i) => every.subarray(i * width, (i + 1) * width));
    data.bits ||= [];
    const bits = map.mask === null ? null : await (data.bits[map.mask] ||= unpack(data.masks[map.mask]));
    if (bits) for (let k = 0; k < every.length; k++) if (!(bits[k >> 3] & (128 >> (k & 7)))) every[k] = MASKED;
    rows.forEach((row, i) => {
      if (!map.kept) {
        for (let j = 0; j < width; j++) if (row[j] !== MASKED) row[j] = (map.signed ? SIGNED : ROOTS)[bytes[i * width + j]];
        return;
      }
      const count = height * map.kept, start = i * map.kept, keys = [];
      for (let k = 0, j = 0; k < map.kept; k++) keys.push(j += bytes[start + k] + 256 * bytes[count + start + k]);
      const kept = keys.map((j, k) => row[j] === MASKED ? MASKED : ROOTS[bytes[2 * count + start + k]]);
      let allowed = 0;
      for (let j = 0; j < width; j++) if (row[j] !== MASKED) allowed++;
      const left = Math.max(0, 1000 - kept.reduce((sum, weight) => sum + Math.max(0, weight), 0));
      const rest = -1 - left / Math.max(1, allowed - map.kept);
      for (let j = 0; j < width; j++) if (row[j] !== MASKED) row[j] = rest;
      keys.forEach((j, k) => { row[j] = kept[k]; });
    });
    return rows;
  };

  // The number by which a cell of an unsigned map is coloured.
  const shadeOf = (weight) => weight < 0 ? -1 - weight : weight;

  const sizeOf = (weight) => weight === MASKED ? -1 : Math.abs(weight);

  const largestOf = (row) => {
    let most = 1;
    for (const weight of row) if (weight > most) most = weight;
    return most;
  };

  // Drawing -------------------------------------------------------------------------------------------------------

  // The colours of the scheme: of each level the ground and the text on it, and those of the page.
  const colors = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue("--" + name).trim();
    const names = Array.from({ length: LEVELS + 1 }, (_, k) => ["w" + k, "t" + k]);
    for (let k = 0; k <= LEVELS / 2; k++) names.push(["a" + k, "at" + k], ["b" + k, "bt" + k]);
    const levels = Object.fromEntries(names.map(([ground, text]) => [ground, [of(ground), of(text)]]));
    return { levels, page: of("page"), text: of("text"), quiet: of("quiet"), line: of("line"), mark: of("mark") };
  };

  // A canvas of this size in the page's pixels, cleared.
  const cleared = (canvas, width, height) => {
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "12px system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif";
    pen.textBaseline = "middle";
    return pen;
  };

  // A picture with one pixel for each name of a level; clear for others.
  const pixels = (canvas, width, height, name, { levels }) => {
    const inks = Object.fromEntries(Object.entries(levels).map(([key, [color]]) =>
      [key, [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16))]));
    canvas.width = Math.max(1, width);
    canvas.height = Math.max(1, height);
    const pen = canvas.getContext("2d"), image = pen.createImageData(canvas.width, canvas.height);
    for (let k = 0; k < width * height; k++) {
      const ink = inks[name(k)];
      if (!ink) continue;
      for (let c = 0; c < 3; c++) image.data[4 * k + c] = ink[c];
      image.data[4 * k + 3] = 255;
    }
    pen.putImageData(image, 0, 0);
    return canvas;
  };

  const SIDE = 64;

  // A map in at most 64 x 64 squares, each as dark as the largest of its weights.
  const drawThumbnail = (canvas, rows, byRow, scheme) => {
    const height = Math.min(SIDE, rows.length), width = Math.min(SIDE, rows.length ? rows[0].length : 0);
    const shades = new Float32Array(height * width).fill(-1);
    rows.forEach((row, i) => {
      const start = Math.floor(i * height / rows.length) * width, most = byRow ? largestOf(row) : 1000;
      for (let j = 0; j < row.length; j++) {
        if (row[j] === MASKED) continue;
        const at = start + Math.floor(j * width / row.length), part = shadeOf(row[j]) / most;
        if (part > shades[at]) shades[at] = part;
      }
    });
    pixels(canvas, width, height, (k) => shades[k] < 0 ? "m" : "w" + level(shades[k]), scheme);
  };

  // One map -------------------------------------------------------------------------------------------------------

  class MapView {
    static async make(section) {
      const data = JSON.parse(section.querySelector(".data").textContent);
      return new MapView(section, data, data.maps[0], await rowsOf(data, data.maps[0]));
    }

    constructor(section, data, map, rows) {
      const [query, key] = [data.axes[map.query], data.axes[map.key]];
      Object.assign(this, { section, map, query: query.labels, key: key.labels, axis: key, weights: rows });
      this.names = [query.name, key.name];
      this.ground = data.ground;
      this.digits = Array.isArray(map.weights) || this.ground ? 3 : 2;
      this.largest = rows.map((row) => largestOf(map.signed ? row.map(sizeOf) : row));
      this.pinned = null;
      this.gone = new AbortController();
      this.find = (selector) => section.querySelector(selector);
      this.status = this.find(".status");
      if (!this.find(".queries button")) this.fill();
      this.buttons = [...section.querySelectorAll(".queries button")];
      this.spans = this.ground ? this.buttons : [...section.querySelectorAll(".keys span")];
      if (this.ground) this.paint();
      this.hearButtons();
      const holder = this.find(".matrix .scroll");
      this.picture = map.table ? new TablePicture(this, holder) : new CanvasPicture(this, holder);
      this.lines = map.is_distribution ? new LinesPicture(this, this.find(".lines")) : null;
      this.find(".lines").hidden = !map.is_distribution;
      this.table = new RowTable(this, this.find(".row"));
      this.ends = [this.find(".least").textContent, this.find(".end").dataset.end];
      const box = this.find(".per-row");
      box.checked = map.by_row || !!this.ground;
      box.addEventListener("change", () => this.scale(box.checked));
      section.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" || !this.pinned) return;
        event.stopPropagation();
        this.unpin();
      });
      const { signal } = this.gone;
      dark.addEventListener("change", () => this.scale(box.checked), { signal });
      addEventListener("resize", () => this.draw(), { signal });
      this.zoom();
      this.scale(box.checked);
      this.leave();
    }

    close() { this.gone.abort(); }

    // The words, which smaller maps have in the page already.
    fill() {
      this.find(".queries").append(...this.query.map((label) =>
        made("button", { type: "button", "aria-pressed": "false", dir: "auto" }, label)));
      const keys = this.find(".keys"), begins = new Map(this.axis.parts.map(([label, start]) => [start, label]));
      this.key.forEach((label, i) => {
        if (begins.has(i)) keys.append(i ? "\n" : "", made("b", {}, begins.get(i)));
        const { text } = this.axis;
        if (i && !text) keys.append(" ");
        keys.append(text ? made("span", {}, text[i]) : made("span", { dir: "auto" }, label));
      });
    }

    // Over a picture, the words are its patches: each a button in the colour of its weight.
    paint() {
      const { uri, size: [height, width], area: [top, left, bottom, right], grid: [, columns], leading } = this.ground;
      const part = (name, value, whole) => `${name}:${100 * value / whole}%;`;
      const patches = this.buttons.slice(leading);
      for (const patch of patches) { patch.setAttribute("aria-label", patch.textContent); patch.replaceChildren(); }
      const place = part("top", top, height) + part("left", left, width) + part("height", bottom - top, height) + part("width", right - left, width);
      this.find(".queries").append(made("div", { class: "ground", style: `width:${width}px` }, made("img", { alt: "", src: uri }),
        made("div", { class: "sheet", style: `--columns:${columns};` + place }, ...patches)));
      this.find(".words h3").textContent = "Picture";
      this.find(".words .hint").textContent = "Point at a patch to see where it looks; a click or Enter pins it. Arrow keys move from patch to patch.";
      this.find(".keys").hidden = true;
      this.find(".views").before(this.find(".words"));
    }

    // Tab reaches one of the query's words, arrow keys the others.
    hearButtons() {
      this.buttons.forEach((button, i) => {
        button.tabIndex = i ? -1 : 0;
        button.addEventListener("mouseenter", () => this.choose(i, null));
        button.addEventListener("mouseleave", () => this.leave());
        button.addEventListener("focus", () => this.choose(i, null));
        button.addEventListener("click", () => this.pin(i, null));
        button.addEventListener("keydown", (event) => {
          const down = this.ground ? this.ground.grid[1] : 1;
          const step = { ArrowRight: 1, ArrowDown: down, ArrowLeft: -1, ArrowUp: -down }[event.key];
          if (!step) return;
          event.preventDefault();
          this.buttons[clamp(i + step, 0, this.buttons.length - 1)].focus();
        });
      });
    }

    name(i, j) {
      const weight = this.weights[i][j], darkest = this.perRow ? this.largest[i] : 1000;
      if (weight === MASKED) return "m";
      if (!this.map.signed) return "w" + level(shadeOf(weight) / darkest);
      const size = Math.round(Math.min(1, Math.abs(weight) / darkest) * LEVELS / 2);
      return (weight < 0 && size ? "b" : "a") + size;
    }

    said(i, j, digits = this.digits) {
      const weight = this.weights[i][j], { signed, vmax, kept } = this.map;
      if (weight === MASKED) return "masked";
      if (weight < 0 && !signed) return `not among the ${kept} largest`;
      return (signed && weight > 0 ? "+" : "") + (weight * vmax / 1000).toFixed(digits);
    }

    // The share of a row's weight that the page has.
    covered(i) { return this.weights[i].reduce((sum, weight) => sum + Math.max(0, weight), 0) / 1000; }

    scale(perRow) {
      this.perRow = perRow;
      this.scheme = colors();
      this.find(".scale").textContent = perRow
        ? "Colour: each row by its own largest weight; rows cannot be compared by colour."
        : `Colour: fixed scale from ${this.ends[0]} to ${this.ends[1]}.`;
      this.find(".end").textContent = perRow ? "largest of the row" : this.ends[1];
      this.picture.color();
      this.draw();
      if (this.row !== undefined) this.shade(this.row);
    }

    draw() {
      this.picture.draw();
      if (this.lines) this.lines.draw();
    }

    // Show only some rows and columns, [from, to) each; without them all.
    zoom(rows = [0, this.query.length], columns = [0, this.key.length]) {
      const within = ([from, to], length) => {
        const size = clamp(to - from, Math.min(4, length), length), start = clamp(from, 0, length - size);
        return [start, start + size];
      };
      this.rows = within(rows, this.query.length);
      this.columns = within(columns, this.key.length);
      const all = this.rows[1] - this.rows[0] === this.query.length && this.columns[1] - this.columns[0] === this.key.length;
      this.find(".zoom .hint").textContent = all ? "Drag over a part of the map to enlarge it, or press + and - and 0."
        : `rows ${this.rows[0] + 1} to ${this.rows[1]}, columns ${this.columns[0] + 1} to ${this.columns[1]}`;
    }

    // The value of a cell beside the pointer.
    point(event, i, j) {
      const tip = this.find(".tip");
      tip.textContent = `${this.query[i]} → ${this.key[j]}  ${this.said(i, j)}`;
      tip.hidden = false;
      tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4)}px`;
      tip.style.top = `${Math.min(event.clientY + 18, innerHeight - tip.offsetHeight - 4)}px`;
    }

    // Hovering previews; a pinned row comes back when the pointer leaves.
    leave() {
      this.find(".tip").hidden = true;
      if (this.pinned) return this.choose(...this.pinned);
      if (this.row === undefined && this.query.length) { this.shade(0); this.picture.mark(0, null); this.table.show(0); }
      if (this.lines) this.lines.isolate(null, null);
    }

    pin(i, j) {
      this.pinned = [i, j];
      this.choose(i, j);
      const detail = { map: this.map.title, row: i, column: j };
      this.section.dispatchEvent(new CustomEvent("heed:pin", { bubbles: true, detail }));
    }

    unpin() {
      this.pinned = null;
      this.choose(this.row || 0, null);
      this.leave();
    }

    // Choose a row, and a key of it or null; without a row, all weights of a key.
    choose(i, j) {
      if (i === null) this.sayKey(j);
      else {
        this.shade(i);
        this.say(i, j);
        this.table.show(i);
      }
      this.picture.mark(i, j);
      if (this.lines) this.lines.isolate(i, i === null ? j : null);
      this.buttons.forEach((button, k) => button.setAttribute("aria-pressed", !!this.pinned && this.pinned[0] === k));
    }

    // Isolates keep a right-to-left label from turning the sentence round.
    place(axis, at) {
      const name = this.names[axis], label = [this.query, this.key][axis][at];
      return (label.startsWith(name + " ") ? "" : name + " ") + `\u2068${label}\u2069`;
    }

    say(i, j) {
      const sizes = this.map.signed ? this.weights[i].map(sizeOf) : this.weights[i];
      const best = sizes.indexOf(this.largest[i]), key = j === null ? Math.max(0, best) : j;
      const most = j === null && best >= 0 ? ", its largest" : "";
      const kept = this.map.kept ? `; the ${this.map.kept} largest have ${this.covered(i).toFixed(2)} of the weight` : "";
      const pin = this.pinned && this.pinned[0] === i ? " (pinned; Esc unpins it)" : "";
      this.status.textContent = `${this.place(0, i)} -> ${this.place(1, key)}  ${this.said(i, key)}${most}${kept}${pin}`;
    }

    sayKey(j) {
      const column = this.weights.map((row) => Math.max(0, row[j])), most = largestOf(column), best = column.indexOf(most);
      const from = best < 0 ? "" : `; most from ${this.place(0, best)}, ${this.said(best, j)}`;
      const mean = column.reduce((sum, weight) => sum + weight, 0) / 1000 / Math.max(1, column.length);
      const pin = this.pinned && this.pinned[0] === null ? " (pinned; Esc unpins it)" : "";
      this.status.textContent = `${this.place(1, j)} gets ${mean.toFixed(this.digits)} of a row on average${from}${pin}`;
    }

    shade(i) {
      this.row = i;
      this.spans.forEach((span, j) => {
        span.className = this.name(i, j);
        span.title = this.said(i, j);
      });
      this.buttons.forEach((button, k) => {
        button.classList.toggle("chosen", k === i);
        button.tabIndex = k === i ? 0 : -1;
      });
    }

    // Where an arrow key leads from a cell, or null for other keys.
    target(event, i, j) {
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const last = this.key.length - 1;
      if (event.key === "Home") return [i, 0];
      if (event.key === "End") return [i, last];
      if (!steps[event.key]) return null;
      return [clamp(i + steps[event.key][0], 0, this.query.length - 1), clamp(j + steps[event.key][1], 0, last)];
    }
  }

  class TablePicture {
    constructor(view, holder) {
      this.view = view;
      const table = holder.querySelector("table") || holder.appendChild(this.made());
      this.rows = [...table.tBodies[0].rows];
      this.heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells].slice(1);
      this.tab = this.rows.length && this.rows[0].cells[1];
      const on = (name, act) => table.addEventListener(name, (event) => {
        const cell = event.target.closest("td");
        if (cell) act(event, cell.parentNode.sectionRowIndex, cell.cellIndex - 1);
      });
      on("mouseover", (event, i, j) => { view.choose(i, j); view.point(event, i, j); });
      table.addEventListener("mouseleave", () => view.leave());
      on("focusin", (event, i, j) => { this.rove(i, j); view.choose(i, j); });
      on("click", (event, i, j) => view.pin(i, j));
      on("keydown", (event, i, j) => {
        if (event.key === "Enter" || event.key === " ") { view.pin(i, j); event.preventDefault(); }
        const to = view.target(event, i, j);
        if (to) { this.rows[to[0]].cells[to[1] + 1].focus(); event.preventDefault(); }
      });
    }

    // The table of a map opened from an overview; see the macro `grid` of draw.html.
    made() {
      const { view } = this, { parts } = view.axis, begins = new Set(parts.map(([, start]) => start));
      const start = (j) => begins.has(j) ? { "data-begins": "" } : {};
      const head = (label, more) => made("th", { ...more }, made("bdi", {}, label));
      const thead = made("thead");
      if (parts.length) {
        thead.append(made("tr", { class: "parts" }, made("th", { class: "corner" }), ...parts.filter(([, from, to]) => to > from)
          .map(([label, from, to]) => head(label, { scope: "colgroup", colspan: to - from, "data-begins": "", title: label }))));
      }
      thead.append(made("tr", {}, made("th", { class: "corner", "aria-label": view.map.axes }),
        ...view.key.map((label, j) => head(label, { scope: "col", ...start(j) }))));
      const rows = view.weights.map((row, i) => made("tr", {}, head(view.query[i], { scope: "row" }),
        ...Array.from(row, (weight, j) => made("td", { tabindex: i || j ? -1 : 0, ...start(j),
          "aria-label": `${view.place(0, i)} -> ${view.place(1, j)} ${view.said(i, j)}` },
          weight === MASKED ? "" : view.said(i, j, 2)))));
      const turned = view.key.some((label) => label.length > (view.key.length > 24 ? 1 : 3)) ? "turned " : "";
      const label = Math.min(24, Math.max(0, ...view.query.map((name) => name.length)));
      return made("table", { role: "grid", class: turned + "fitted", "aria-label": view.map.title,
        style: `--columns:${view.key.length};--label:${9 * label + 10}px` }, thead, made("tbody", {}, ...rows));
    }

    rove(i, j) {
      if (this.tab) this.tab.tabIndex = -1;
      this.tab = this.rows[i].cells[j + 1];
      this.tab.tabIndex = 0;
    }

    color() {
      this.rows.forEach((row, i) => {
        for (let j = 0; j < this.view.key.length; j++) row.cells[j + 1].className = this.view.name(i, j);
      });
    }

    draw() { /* it has its colours already */ }

    mark(i, j) {
      this.rows.forEach((row, k) => row.classList.toggle("chosen", k === i));
      this.heads.forEach((head, k) => head.classList.toggle("chosen", k === j));
    }
  }

  const LETTER = 6.6, LINE = 14;

  // A large map: one square a cell, and as many labels beside them as fit. It is enlarged by dragging or keys.
  class CanvasPicture {
    constructor(view, holder) {
      this.view = view;
      this.canvas = holder.appendChild(made("canvas", { tabindex: 0, role: "img", "aria-label":
        `${view.query.length} rows and ${view.key.length} columns; arrow keys read one cell at a time` }));
      this.at = [0, null];
      this.from = null;
      const { canvas } = this, on = (name, act) => canvas.addEventListener(name, act);
      on("mousemove", (event) => {
        if (this.from && event.buttons) this.to = this.cellAt(event);
        view.choose(...this.cellAt(event));
        view.point(event, ...this.cellAt(event));
      });
      on("mouseleave", () => { this.from = this.to = null; view.leave(); });
      on("mousedown", (event) => { this.from = this.cellAt(event); this.to = null; });
      on("mouseup", (event) => this.release(this.cellAt(event)));
      on("dblclick", () => this.zoom());
      on("focus", () => view.choose(this.at[0], this.at[1] || 0));
      on("keydown", (event) => {
        const [i, j] = [this.at[0], this.at[1] || 0], factor = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.key === "Enter" || event.key === " ") { view.pin(i, j); event.preventDefault(); }
        if (factor) this.magnify(factor);
        if (event.key === "0") this.zoom();
        const to = view.target(event, i, j);
        if (to) { this.follow(...to); view.choose(...to); event.preventDefault(); }
      });
      const tools = view.find(".zoom");
      tools.hidden = false;
      tools.addEventListener("click", (event) => {
        const button = event.target.closest("button");
        if (button) { if (button.value) this.magnify(Number(button.value)); else this.zoom(); }
      });
    }

    release(to) {
      const from = this.from;
      this.from = this.to = null;
      if (!from) return;
      const ends = [0, 1].map((k) => [Math.min(from[k], to[k]), Math.max(from[k], to[k]) + 1]);
      if (ends.every(([start, stop]) => stop - start > 2)) this.zoom(...ends); else this.view.pin(...to);
    }

    zoom(...window) {
      this.view.zoom(...window);
      this.view.draw();
    }

    magnify(factor) {
      const around = ([from, to], at) => {
        const size = Math.round((to - from) * factor), start = Math.round(at - size / 2);
        return [start, start + size];
      };
      this.zoom(around(this.view.rows, this.at[0]), around(this.view.columns, this.at[1] || 0));
    }

    // Scroll until a cell is in sight.
    follow(i, j) {
      const moved = ([from, to], at) => {
        const by = at < from ? at - from : at >= to ? at - to + 1 : 0;
        return [from + by, to + by];
      };
      this.view.zoom(moved(this.view.rows, i), moved(this.view.columns, j));
    }

    cellAt(event) {
      const box = this.canvas.getBoundingClientRect(), { left, top, width, height } = this.plot;
      const within = ([from, to], part) => clamp(from + Math.floor(part * (to - from)), from, to - 1);
      return [within(this.view.rows, (event.clientY - box.top - top) / height),
        within(this.view.columns, (event.clientX - box.left - left) / width)];
    }

    color() {
      const { view } = this, length = Math.max(1, view.key.length);
      const name = (k) => view.name(Math.floor(k / length), k % length);
      this.base = pixels(document.createElement("canvas"), view.key.length, view.query.length, name, view.scheme);
    }

    draw() {
      const { view, canvas } = this, room = canvas.parentNode.clientWidth - 8;
      const whole = clamp(room, 240, Math.max(720, 8 * view.key.length)), longest = (labels) => Math.max(...labels.map((label) => label.length)) * LETTER + 12;
      const left = Math.min(longest(view.query), Math.round(whole * 0.26)), top = Math.min(longest(view.key), 86);
      const width = whole - left - 4, shape = view.query.length / Math.max(1, view.key.length);
      const height = clamp(Math.round(width * shape), 60, Math.max(620, Math.round(0.85 * innerHeight)));
      this.plot = { left, top, width, height };
      const pen = this.pen = cleared(canvas, whole, top + height + 4);
      const [i, j] = [view.rows[0], view.columns[0]], rows = view.rows[1] - i, columns = view.columns[1] - j;
      pen.fillStyle = this.hatch(pen);
      pen.fillRect(left, top, width, height);
      pen.imageSmoothingEnabled = columns > width || rows > height;
      pen.drawImage(this.base, j, i, columns, rows, left, top, width, height);
      pen.strokeStyle = view.scheme.line;
      pen.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
      this.label();
      if (width / columns >= 28 && height / rows >= LINE) this.numbers();
      this.select();
    }

    // The middle of a row (0) or column (1), in pixels.
    middle(axis, at) {
      const [from, to] = axis ? this.view.columns : this.view.rows, { left, top, width, height } = this.plot;
      return axis ? left + (at - from + 0.5) * width / (to - from) : top + (at - from + 0.5) * height / (to - from);
    }

    // Labels that do not overlap, those of the chosen row and column among them.
    label() {
      const { view, plot } = this, { scheme } = view;
      [[view.rows, plot.height], [view.columns, plot.width]].forEach(([[from, to], length], axis) => {
        const step = Math.ceil(LINE * (to - from) / length), chosen = this.at[axis];
        const near = (k) => chosen !== null && chosen >= from && chosen < to && k !== chosen && Math.abs(k - chosen) < step;
        for (let k = from; k < to; k += step) if (k !== chosen && !near(k)) this.write(axis, k, scheme.text, "");
        if (chosen !== null && chosen >= from && chosen < to) this.write(axis, chosen, scheme.mark, "bold ");
      });
    }

    write(axis, at, color, weight) {
      const { pen, plot } = this, most = Math.floor(((axis ? plot.top : plot.left) - 8) / LETTER);
      const text = cut([this.view.query, this.view.key][axis][at], most);
      pen.save();
      pen.font = weight + pen.font;
      pen.fillStyle = color;
      pen.textAlign = axis ? "left" : "right";
      pen.translate(...(axis ? [this.middle(1, at), plot.top - 5] : [plot.left - 5, this.middle(0, at)]));
      if (axis) pen.rotate(-Math.PI / 2);
      pen.fillText(text, 0, 0);
      pen.restore();
    }

    numbers() {
      const { view, pen } = this;
      pen.save();
      pen.textAlign = "center";
      pen.font = pen.font.replace("12px", "11px");
      for (let i = view.rows[0]; i < view.rows[1]; i++) {
        for (let j = view.columns[0]; j < view.columns[1]; j++) {
          const weight = view.weights[i][j];
          if (weight === MASKED || weight < 0 && view.map.kept) continue;
          pen.fillStyle = view.scheme.levels[view.name(i, j)][1];
          pen.fillText(view.said(i, j, 2), this.middle(1, j), this.middle(0, i));
        }
      }
      pen.restore();
    }

    // The chosen row and column, and what is dragged over.
    select() {
      const { view, pen, plot } = this;
      const box = ([i, j], [toI, toJ]) => {
        const high = plot.height / (view.rows[1] - view.rows[0]), wide = plot.width / (view.columns[1] - view.columns[0]);
        const [x, y] = [this.middle(1, j) - wide / 2, this.middle(0, i) - high / 2];
        pen.strokeRect(x, y, (toJ - j) * wide, (toI - i) * high);
      };
      pen.save();
      pen.beginPath();
      pen.rect(plot.left - 1, plot.top - 1, plot.width + 2, plot.height + 2);
      pen.clip();
      pen.strokeStyle = view.scheme.mark;
      const [i, j] = this.at;
      if (i !== null) box([i, view.columns[0]], [i + 1, view.columns[1]]);
      if (j !== null) box([view.rows[0], j], [view.rows[1], j + 1]);
      pen.lineWidth = 2;
      if (this.from && this.to) box([0, 1].map((k) => Math.min(this.from[k], this.to[k])), [0, 1].map((k) => Math.max(this.from[k], this.to[k]) + 1));
      pen.restore();
    }

    // Masked cells look as they do in a table: thin lines across the page's own colour.
    hatch(pen) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 5;
      const lines = tile.getContext("2d");
      lines.fillStyle = this.view.scheme.page;
      lines.fillRect(0, 0, 5, 5);
      lines.fillStyle = this.view.scheme.line;
      for (let k = 0; k < 5; k++) lines.fillRect(k, 4 - k, 1, 1);
      return pen.createPattern(tile, "repeat");
    }

    mark(i, j) {
      this.at = [i === null ? this.at[0] : i, j];
      this.draw();
    }
  }

  // Queries on the left, keys on the right, a line for each weight from a threshold on; one token's lines, or all.
  class LinesPicture {
    constructor(view, holder) {
      this.view = view;
      this.canvas = holder.querySelector("canvas");
      this.chosen = [null, null];
      const { canvas } = this, slider = holder.querySelector("input"), said = holder.querySelector("output");
      const largest = view.largest.reduce((most, weight) => Math.max(most, weight), 1) / 1000;
      const limit = (value) => { this.threshold = 1000 * value; said.textContent = value.toFixed(2); this.draw(); };
      slider.value = Math.min(0.1, Math.max(0.01, largest / 4)).toFixed(2);
      this.threshold = 1000 * slider.value;
      said.textContent = Number(slider.value).toFixed(2);
      slider.addEventListener("input", () => limit(Number(slider.value)));
      canvas.addEventListener("mousemove", (event) => view.choose(...this.tokenAt(event)));
      canvas.addEventListener("mouseleave", () => view.leave());
      canvas.addEventListener("click", (event) => view.pin(...this.tokenAt(event)));
      canvas.addEventListener("keydown", (event) => this.press(event));
    }

    press(event) {
      const { view } = this, [i, j] = this.chosen, side = i === null && j !== null ? 1 : 0, at = this.chosen[side] || 0;
      const chosen = (axis, place) => axis ? [null, place] : [place, null];
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key], last = [view.query, view.key][side].length - 1;
      if (step) view.choose(...chosen(side, i === null && j === null ? 0 : clamp(at + step, 0, last)));
      else if (event.key === "ArrowRight") view.choose(null, j || 0);
      else if (event.key === "ArrowLeft") view.choose(i || 0, null);
      else if (event.key === "Enter" || event.key === " ") view.pin(...chosen(side, at));
      else return;
      event.preventDefault();
    }

    isolate(i, j) {
      this.chosen = [i, j];
      this.draw();
    }

    tokenAt(event) {
      const box = this.canvas.getBoundingClientRect(), side = event.clientX - box.left < box.width / 2 ? 0 : 1;
      const [from, to] = side ? this.view.columns : this.view.rows;
      const at = clamp(from + Math.floor((event.clientY - box.top - 8) / this.height * (to - from)), from, to - 1);
      return side ? [null, at] : [at, null];
    }

    // All weights that are drawn, as [row, column, weight].
    shown() {
      const { view, chosen: [i, j] } = this, found = [];
      for (let row = view.rows[0]; row < view.rows[1]; row++) {
        if (i !== null && row !== i) continue;
        for (let column = view.columns[0]; column < view.columns[1]; column++) {
          if (j !== null && column !== j) continue;
          const weight = view.weights[row][column];
          if (weight > 0 && weight >= this.threshold) found.push([row, column, weight]);
        }
      }
      return found;
    }

    draw() {
      const { view, canvas } = this, { scheme } = view, sides = [view.rows, view.columns], labels = [view.query, view.key];
      const width = clamp(canvas.parentNode.clientWidth - 8, 220, 460), most = Math.max(...sides.map(([from, to]) => to - from));
      const height = this.height = clamp(most * 20, 40, 620), edge = Math.round(width * 0.32);
      const pen = cleared(canvas, width, height + 16), shown = this.shown();
      const y = (side, at) => 8 + (at - sides[side][0] + 0.5) * height / (sides[side][1] - sides[side][0]);
      for (const [i, j, weight] of shown.sort((a, b) => a[2] - b[2])) {
        pen.strokeStyle = scheme.levels["w" + Math.max(3, level(weight / 1000))][0];
        pen.lineWidth = 0.6 + Math.min(3, height / most) * weight / 1000;
        pen.beginPath();
        pen.moveTo(edge, y(0, i));
        pen.lineTo(width - edge, y(1, j));
        pen.stroke();
      }
      const ends = [new Set(shown.map(([i]) => i)), new Set(shown.map(([, j]) => j))], isolated = this.chosen.some((at) => at !== null);
      sides.forEach(([from, to], side) => {
        const step = Math.ceil(LINE * (to - from) / height), font = pen.font;
        pen.textAlign = side ? "left" : "right";
        let last = -Infinity;
        for (let k = from; k < to; k++) {
          const chosen = this.chosen[side] === k;
          if (!chosen && (isolated && !ends[side].has(k) || k - last < step)) continue;
          if (!chosen) last = k;
          pen.font = chosen ? "bold " + font : font;
          pen.fillStyle = chosen ? scheme.mark : scheme.text;
          pen.fillText(cut(labels[side][k], Math.floor((edge - 8) / LETTER)), side ? width - edge + 5 : edge - 5, y(side, k));
        }
        pen.font = font;
      });
      const [i, j] = this.chosen, of = i !== null ? ` from ${view.place(0, i)}` : j !== null ? ` to ${view.place(1, j)}` : "";
      canvas.setAttribute("aria-label", `${shown.length} line${shown.length === 1 ? "" : "s"}${of}; arrow keys isolate a token, Enter pins it`);
    }
  }

  // The chosen row of a map as a table.
  class RowTable {
    constructor(view, holder) {
      Object.assign(this, { view, holder, order: holder.querySelector("select"), body: holder.querySelector("tbody"), at: null });
      holder.addEventListener("toggle", () => this.fill());
      this.order.addEventListener("change", () => this.fill());
    }

    show(i) {
      if (this.at === i) return;
      this.at = i;
      this.fill();
    }

    fill() {
      const { view, at } = this;
      if (!this.holder.open || at === null) return;
      const row = view.weights[at], inOrder = this.order.selectedIndex === 3;
      const keys = Array.from(row, (_, j) => j).filter((j) => row[j] >= 0 || row[j] !== MASKED && view.map.signed);
      if (!inOrder) keys.sort((a, b) => Math.abs(row[b]) - Math.abs(row[a]) || a - b);
      const shown = Number(this.order.value) ? keys.slice(0, Number(this.order.value)) : keys;
      const rest = view.map.is_distribution ? row.filter((weight) => weight !== MASKED).length - shown.length : 0;
      const others = Math.max(0, 1 - shown.reduce((sum, j) => sum + row[j], 0) / 1000);
      const line = (name, number, weight, kind) => made("tr", {}, made("th", { scope: "row", dir: "auto" }, name),
        made("td", { class: "number" }, number), made("td", { class: "number " + kind }, weight));
      this.holder.querySelector("summary").textContent = `Row ${at + 1} as a table: ${view.place(0, at)}`;
      this.body.replaceChildren(...shown.map((j) => line(view.key[j], String(j + 1), view.said(at, j), view.name(at, j))),
        ...(rest ? [line(`${rest} others`, "", others.toFixed(2), "")] : []));
    }
  }

  // Many maps -----------------------------------------------------------------------------------------------------

  class Overview {
    constructor(section) {
      this.section = section;
      this.data = JSON.parse(section.querySelector(".data").textContent);
      this.tables = [...section.querySelectorAll("table.heads")];
      this.open = null;
      for (const cell of section.querySelectorAll("td[data-map]")) {
        const map = this.data.maps[cell.dataset.map];
        const button = made("button", { type: "button", tabindex: -1, "aria-expanded": "false", "aria-label": cell.title },
          made("canvas", { width: 1, height: 1 }), ...cell.childNodes);
        button.addEventListener("click", () => this.show(cell));
        button.addEventListener("focus", () => this.rove(button));
        cell.append(button);
      }
      this.rove(section.querySelector("td button"));
      section.querySelector("select").addEventListener("change", (event) => this.sort(event.target.value));
      this.tables.forEach((table) => table.addEventListener("keydown", (event) => this.press(event)));
      section.addEventListener("keydown", (event) => {
        if (event.key === "Escape" && this.open) { event.preventDefault(); this.close(true); }
      });
      this.gone = new AbortController();
      dark.addEventListener("change", () => this.draw(), { signal: this.gone.signal });
      requestAnimationFrame(() => setTimeout(() => this.draw()));  // the page is painted first
      if (this.data.ground) this.show(section.querySelector("td[data-map]"), true);
    }

    async draw() {
      const scheme = colors();
      for (const cell of this.section.querySelectorAll("td[data-map]")) {
        const map = this.data.maps[cell.dataset.map];
        drawThumbnail(cell.querySelector("canvas"), await rowsOf(this.data, map), map.by_row, scheme);
      }
      this.section.dataset.drawn = "";
    }

    rove(button) {
      if (this.tab) this.tab.tabIndex = -1;
      this.tab = button;
      button.tabIndex = 0;
    }

    press(event) {
      const rows = this.tables.flatMap((table) => [...table.rows].map((row) => [...row.querySelectorAll("button")]));
      const i = rows.findIndex((row) => row.includes(event.target)), j = i < 0 ? 0 : rows[i].indexOf(event.target);
      const to = { ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1], ArrowUp: [i - 1, j], ArrowDown: [i + 1, j],
        Home: [i, 0], End: [i, Infinity] }[event.key];
      if (i < 0 || !to) return;
      event.preventDefault();
      const row = rows[clamp(to[0], 0, rows.length - 1)];
      row[clamp(to[1], 0, row.length - 1)].focus();
    }

    // The same cells in another order, each row as long as before.
    sort(measure) {
      for (const table of this.tables) {
        const cells = [...table.querySelectorAll("td")], of = (cell) => Number(cell.dataset[measure || "map"]);
        cells.sort((a, b) => of(a) - of(b) || a.dataset.map - b.dataset.map);
        const counts = [...table.rows].map((row) => row.cells.length - 1);
        counts.forEach((count, i) => table.rows[i].append(...cells.splice(0, count)));
        table.classList.toggle("sorted", measure !== "");
      }
    }

    async show(cell, quietly) {
      const map = this.data.maps[cell.dataset.map], again = this.open && this.open.cell === cell;
      this.close(again);
      if (again) return;
      const rows = await rowsOf(this.data, map);
      const section = this.section.querySelector("template").content.firstElementChild.cloneNode(true);
      const fill = (selector, text) => { section.querySelector(selector).textContent = text; };
      fill("h2", map.title);
      fill(".axes", map.axes);
      fill(".caption", map.caption);
      fill(".words .hint", map.hint);
      section.querySelector(".remarks").append(...map.remarks.map((text) => made("li", { dir: "auto" }, text)));
      section.querySelector(".keys").classList.add(this.data.axes[map.key].kind);
      section.querySelector(".close").addEventListener("click", () => this.close(true));
      cell.closest(".scroll").after(section);
      this.open = { cell, section, view: new MapView(section, this.data, map, rows) };
      cell.firstElementChild.setAttribute("aria-expanded", "true");
      if (quietly) return;
      section.focus({ preventScroll: true });
      section.scrollIntoView({ block: "nearest" });
    }

    close(focus) {
      if (!this.open) return;
      const { cell, section, view } = this.open;
      view.close();
      section.remove();
      cell.firstElementChild.setAttribute("aria-expanded", "false");
      this.open = null;
      if (focus) cell.firstElementChild.focus();
    }
  }

  class Steps {
    constructor(section) {
      this.frames = [...section.querySelectorAll(".frame")];
      this.slider = section.querySelector("input");
      this.where = section.querySelector(".where");
      this.playing = section.querySelector(".play");
      this.timer = null;
      const click = (name, act) => section.querySelector(name).addEventListener("click", act);
      click(".previous", () => this.go(this.step - 1));
      click(".next", () => this.go(this.step + 1));
      click(".play", () => (this.timer ? this.pause() : this.play()));
      this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
      addEventListener("hashchange", () => this.follow());
      document.addEventListener("keydown", (event) => {
        // Maps, scrolled tables and the slider use the arrow keys themselves.
        if (event.defaultPrevented || event.target.closest("table, canvas, input, .scroll")) return;
        if (event.altKey || event.ctrlKey || event.metaKey) return;
        if (event.key === "ArrowLeft") this.go(this.step - 1);
        if (event.key === "ArrowRight") this.go(this.step + 1);
      });
      this.show(1);
      this.follow();
    }

    follow() {
      const found = /(?:^#|&)step=(\d+)/.exec(location.hash);
      if (found) this.show(Number(found[1]));
    }

    go(step) {
      this.pause();
      this.move(step);
    }

    move(step) {
      document.documentElement.classList.add("moving");
      this.show(step);
      // Inside a notebook's frame the address belongs to someone else and may not be changed.
      try { history.replaceState(null, "", "#step=" + this.step); } catch (error) { /* the page works without */ }
    }

    show(step) {
      this.step = clamp(step, 1, this.frames.length);
      this.frames.forEach((frame, i) => frame.classList.toggle("shown", i === this.step - 1));
      this.slider.value = this.step;
      this.where.textContent = `${this.step} / ${this.frames.length}`;
    }

    play() {
      if (this.step === this.frames.length) this.move(1);
      this.playing.textContent = "Pause";
      this.playing.setAttribute("aria-pressed", "true");
      this.timer = setInterval(() => {
        this.move(this.step + 1);
        if (this.step === this.frames.length) this.pause();
      }, 900);
    }

    pause() {
      clearInterval(this.timer);
      this.timer = null;
      this.playing.textContent = "Play";
      this.playing.setAttribute("aria-pressed", "false");
    }
  }

  // The views of a part of the page. heed serve puts other looks into it, and says so by an event.
  const views = new Map();
  const attach = (root) => {
    for (const view of views.get(root) || []) view.then(({ gone }) => gone && gone.abort());
    const all = (selector, make) => [...root.querySelectorAll(selector)].map(async (section) => make(section));
    all("section.steps", (section) => new Steps(section));
    views.set(root, [...all("section.map", (section) => MapView.make(section)), ...all("section.overview", (section) => new Overview(section))]);
  };
  attach(document);
  document.addEventListener("heed:shown", (event) => attach(event.target));
})();
