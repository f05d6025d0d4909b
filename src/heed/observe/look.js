// The page of a look: choosing rows or patches, scaling colours, walking through steps. All it shows is in the page.
"use strict";
(() => {
  const LEVELS = 20;
  document.documentElement.classList.add("scripted");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const level = (part) => Math.round(Math.min(1, Math.max(0, part)) * LEVELS);
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

  // The whole numbers of `page.packed`.
  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Int16Array(await new Response(stream).arrayBuffer());
  };

  const OUT = -32768; // in place of a weight: masked

  // Weights come in thousandths of the number drawn darkest, which is 1 unless they are signed.
  class MapView {
    static async make(section) {
      const data = JSON.parse(section.querySelector(".data").textContent);
      const numbers = data.packed && await unpack(data.packed);
      new MapView(section, data, numbers);
    }

    constructor(section, data, numbers) {
      this.section = section;
      Object.assign(this, data);
      if (numbers) this.fill(numbers);
      this.most = this.signed || 1;
      this.largest = this.weights.map((row) => Math.max(1, ...Array.from(row, (weight) => this.size(weight))));
      this.perRow = false;
      this.pinned = null;
      this.status = section.querySelector(".status");
      this.buttons = [...section.querySelectorAll(".queries button")];
      this.spans = [...section.querySelectorAll(".keys span")];
      const canvas = section.querySelector("canvas");
      this.picture = canvas ? new CanvasPicture(this, canvas) : new TablePicture(this, section.querySelector("table"));
      [this.least, this.end] = [".least", ".end"].map((name) => section.querySelector(name).textContent);
      const box = section.querySelector(".per-row");
      box.addEventListener("change", () => this.scale(box.checked));
      this.buttons.forEach((button, i) => {
        button.addEventListener("mouseenter", () => this.preview(i, null));
        button.addEventListener("mouseleave", () => this.leave());
        button.addEventListener("focus", () => this.preview(i, null));
        button.addEventListener("click", () => this.pin(i, null));
      });
      section.addEventListener("keydown", (event) => event.key === "Escape" && this.unpin());
      this.scale(false);
      this.leave();
    }

    // A large map: its weights, and the words that a smaller one has in the page already.
    fill(numbers) {
      this.key = this.key || this.query;
      const length = this.key.length;
      this.weights = this.query.map((_, i) => numbers.subarray(i * length, (i + 1) * length));
      const isolated = (name, label) => {
        const element = document.createElement(name);
        element.append(document.createElement("bdi"));
        element.firstChild.textContent = label;
        return element;
      };
      this.section.querySelector(".queries").append(...this.query.map((label) => {
        const button = isolated("button", label);
        button.type = "button";
        button.setAttribute("aria-pressed", "false");
        return button;
      }));
      const keys = this.section.querySelector(".keys");
      const begins = new Map((this.parts || []).map(([label, start]) => [start, label]));
      this.key.forEach((label, i) => {
        if (begins.has(i)) {
          const name = document.createElement("b");
          name.textContent = begins.get(i);
          keys.append(...(i ? ["\n", name] : [name]));
        }
        const span = this.text ? document.createElement("span") : isolated("span", label);
        if (this.text) span.textContent = this.text[i];
        keys.append(...(this.text || !i ? [span] : [" ", span]));
      });
    }

    part(i, j) { return this.weights[i][j] / (this.perRow ? this.largest[i] : 1000); }

    size(weight) { return weight === OUT ? -1 : Math.abs(weight); }

    name(i, j) {
      if (this.weights[i][j] === OUT) return "m";
      const part = this.part(i, j);
      if (!this.signed) return "w" + level(part);
      const size = Math.round(Math.min(1, Math.abs(part)) * LEVELS / 2);
      return (part < 0 && size ? "b" : "a") + size;
    }

    number(weight) {
      if (weight === OUT) return "masked";
      return (this.signed && weight > 0 ? "+" : "") + (weight * this.most / 1000).toFixed(3);
    }

    scale(perRow) {
      this.perRow = perRow;
      this.section.querySelector(".scale").textContent = perRow
        ? "Colour: each row by its own largest weight; rows cannot be compared by colour."
        : `Colour: fixed scale from ${this.least} to ${this.end}.`;
      this.section.querySelector(".end").textContent = perRow ? "largest of the row" : this.end;
      this.picture.color();
      if (this.row !== undefined) this.shade(this.row);
    }

    // Hovering previews; a pinned row comes back when the pointer leaves.
    preview(i, j) { this.choose(i, j); }

    leave() {
      if (this.pinned) this.choose(...this.pinned);
      else if (this.row === undefined && this.query.length) { this.shade(0); this.picture.mark(0, null); }
    }

    pin(i, j) {
      this.pinned = [i, j];
      this.choose(i, j);
    }

    unpin() {
      this.pinned = null;
      this.choose(this.row || 0, null);
    }

    choose(i, j) {
      this.shade(i);
      this.picture.mark(i, j);
      this.buttons.forEach((button, k) => button.setAttribute("aria-pressed", !!this.pinned && this.pinned[0] === k));
      this.say(i, j);
    }

    say(i, j) {
      const row = this.weights[i];
      const sizes = Array.from(row, (weight) => this.size(weight));
      const best = sizes.indexOf(Math.max(...sizes));
      const key = j === null ? best : j;
      const value = this.number(row[key]);
      const pin = this.pinned && this.pinned[0] === i ? " (pinned; Esc unpins it)" : "";
      // Isolates keep a right-to-left label from turning the sentence round.
      const most = j === null && sizes[best] > 0 ? ", its largest" : "";
      this.status.textContent =
        `${this.names[0]} \u2068${this.query[i]}\u2069 -> ${this.names[1]} \u2068${this.key[key]}\u2069  ${value}${most}${pin}`;
    }

    shade(i) {
      this.row = i;
      this.spans.forEach((span, j) => {
        span.className = this.name(i, j);
        span.title = this.number(this.weights[i][j]);
      });
      this.buttons.forEach((button, k) => button.classList.toggle("chosen", k === i));
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
    constructor(view, table) {
      this.view = view;
      this.rows = [...table.tBodies[0].rows];
      this.heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells].slice(1);
      this.tab = this.rows.length ? this.rows[0].cells[1] : null;
      const place = (event) => {
        const cell = event.target.closest("td");
        return cell ? [cell.parentNode.sectionRowIndex, cell.cellIndex - 1] : null;
      };
      const on = (name, act) => table.addEventListener(name, (event) => {
        const at = place(event);
        if (at) act(event, ...at);
      });
      on("mouseover", (event, i, j) => view.preview(i, j));
      table.addEventListener("mouseleave", () => view.leave());
      on("focusin", (event, i, j) => { this.rove(i, j); view.preview(i, j); });
      on("click", (event, i, j) => view.pin(i, j));
      on("keydown", (event, i, j) => {
        if (event.key === "Enter" || event.key === " ") { view.pin(i, j); event.preventDefault(); }
        const to = view.target(event, i, j);
        if (to) { this.rows[to[0]].cells[to[1] + 1].focus(); event.preventDefault(); }
      });
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

    mark(i, j) {
      this.rows.forEach((row, k) => row.classList.toggle("chosen", k === i));
      this.heads.forEach((head, k) => head.classList.toggle("chosen", k === j));
    }
  }

  // A large map: one small square per cell, drawn at once; the cursor is drawn over it.
  class CanvasPicture {
    constructor(view, canvas) {
      this.view = view;
      this.canvas = canvas;
      this.cell = clamp(Math.floor(900 / Math.max(view.key.length, 1)), 2, 10);
      canvas.width = view.key.length * this.cell;
      canvas.height = view.query.length * this.cell;
      canvas.setAttribute("aria-label",
        `${view.query.length} rows and ${view.key.length} columns; arrow keys read one cell at a time`);
      this.at = [0, 0];
      const place = (event) => {
        const box = canvas.getBoundingClientRect();
        return [
          clamp(Math.floor((event.clientY - box.top) / box.height * view.query.length), 0, view.query.length - 1),
          clamp(Math.floor((event.clientX - box.left) / box.width * view.key.length), 0, view.key.length - 1)];
      };
      canvas.addEventListener("mousemove", (event) => view.preview(...place(event)));
      canvas.addEventListener("mouseleave", () => view.leave());
      canvas.addEventListener("focus", () => view.preview(...this.at));
      canvas.addEventListener("click", (event) => view.pin(...place(event)));
      canvas.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { view.pin(...this.at); event.preventDefault(); }
        const to = view.target(event, ...this.at);
        if (to) { view.preview(...to); event.preventDefault(); }
      });
      dark.addEventListener("change", () => this.color());
    }

    color() {
      const style = getComputedStyle(document.documentElement);
      const colors = {};
      const names = this.view.signed ? ["a", "b"] : ["w"];
      for (const name of names) {
        for (let k = 0; k <= LEVELS; k++) colors[name + k] = parseInt(style.getPropertyValue(`--${name}${k}`).trim().slice(1), 16);
      }
      const base = document.createElement("canvas");
      base.width = this.canvas.width;
      base.height = this.canvas.height;
      const pen = base.getContext("2d");
      pen.fillStyle = this.hatch(pen, style);
      pen.fillRect(0, 0, base.width, base.height);
      pen.imageSmoothingEnabled = false;
      pen.drawImage(this.pixels(colors), 0, 0, base.width, base.height);
      this.base = base;
      this.marker = style.getPropertyValue("--mark");
      this.mark(...this.at);
    }

    // One pixel a cell, clear where masked.
    pixels(colors) {
      const { weights, query, key } = this.view;
      const small = document.createElement("canvas");
      small.width = Math.max(1, key.length);
      small.height = Math.max(1, query.length);
      const pen = small.getContext("2d");
      const image = pen.createImageData(small.width, small.height);
      weights.forEach((row, i) => row.forEach((weight, j) => {
        if (weight === OUT) return;
        const color = colors[this.view.name(i, j)];
        image.data.set([color >> 16, (color >> 8) & 255, color & 255, 255], 4 * (i * small.width + j));
      }));
      pen.putImageData(image, 0, 0);
      return small;
    }

    // Masked cells look as they do in a table: thin lines across the page's own colour.
    hatch(pen, style) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 5;
      const lines = tile.getContext("2d");
      lines.fillStyle = style.getPropertyValue("--page");
      lines.fillRect(0, 0, 5, 5);
      lines.fillStyle = style.getPropertyValue("--line");
      for (let k = 0; k < 5; k++) lines.fillRect(k, 4 - k, 1, 1);
      return pen.createPattern(tile, "repeat");
    }

    mark(i, j) {
      this.at = [i, j === null ? this.at[1] : j];
      const pen = this.canvas.getContext("2d");
      pen.drawImage(this.base, 0, 0);
      pen.strokeStyle = this.marker;
      pen.strokeRect(0.5, i * this.cell - 0.5, this.canvas.width - 1, this.cell + 1);
      if (j !== null) pen.strokeRect(j * this.cell - 0.5, 0.5, this.cell + 1, this.canvas.height - 1);
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

  // A picture: the attention of the patch under the pointer, drawn over it.
  const viewPicture = async (section) => {
    const data = JSON.parse(section.querySelector(".data").textContent);
    const canvas = section.querySelector("canvas"), brush = canvas.getContext("2d");
    const image = section.querySelector("img"), choice = section.querySelector("select");
    const said = section.querySelector(".status"), button = section.querySelector(".class-token");
    const [rows, columns] = data.grid, [top, left, bottom, right] = data.area, extra = data.classToken;
    const height = (bottom - top) / rows, width = (right - left) / columns;
    const shares = new Map(await Promise.all(
      Object.entries(data.weights).map(async ([name, [largest, packed]]) => [name, [largest, await unpack(packed)]])));
    const first = extra > 0 ? -1 : 0;
    let kept = first, shown = first;

    const draw = patch => {
      shown = patch;
      const [largest, levels] = shares.get(choice.value), row = patch < 0 ? 0 : patch + extra, count = rows * columns;
      brush.filter = "grayscale(1)";
      brush.globalAlpha = 1;
      brush.drawImage(image, 0, 0, canvas.width, canvas.height);
      brush.filter = "none";
      brush.globalAlpha = 0.56;
      let best = 0;
      for (let i = 0; i < count; i++) {
        const level = levels[row * count + i];
        if (level > levels[row * count + best]) best = i;
        brush.fillStyle = data.ramp[Math.round(level / 1000 * (data.ramp.length - 1))];
        const x = Math.round(left + i % columns * width), y = Math.round(top + Math.floor(i / columns) * height);
        brush.fillRect(x, y, Math.round(left + (i % columns + 1) * width) - x,
          Math.round(top + (Math.floor(i / columns) + 1) * height) - y);
      }
      brush.globalAlpha = 1;
      if (patch >= 0) {
        brush.strokeStyle = "#ff3b6b";
        brush.lineWidth = 2;
        brush.strokeRect(left + patch % columns * width + 1, top + Math.floor(patch / columns) * height + 1,
          width - 2, height - 2);
      }
      const name = patch < 0 ? "class token" : `patch in row ${Math.floor(patch / columns)}, column ${patch % columns}`;
      said.textContent = `${choice.value}, ${name}: largest weight ${largest[row].toFixed(4)} at row ` +
        `${Math.floor(best / columns)}, column ${best % columns}; colours go from 0 to that weight.`;
    };

    const patchAt = event => {
      const frame = canvas.getBoundingClientRect();
      const x = (event.clientX - frame.left) * canvas.width / frame.width;
      const y = (event.clientY - frame.top) * canvas.height / frame.height;
      const row = Math.floor((y - top) / height), column = Math.floor((x - left) / width);
      return row < 0 || column < 0 || row >= rows || column >= columns ? null : row * columns + column;
    };

    canvas.addEventListener("pointermove", event => {
      const patch = patchAt(event);
      draw(patch === null ? kept : patch);
    });
    canvas.addEventListener("pointerleave", () => draw(kept));
    canvas.addEventListener("click", event => {
      const patch = patchAt(event);
      if (patch !== null) draw(kept = patch);
    });
    canvas.addEventListener("keydown", event => {
      const moves = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns};
      if (event.key === "Escape") draw(kept = first);
      if (!(event.key in moves)) return;
      event.preventDefault();
      const next = shown < 0 ? 0 : shown + moves[event.key];
      if (next >= 0 && next < rows * columns) draw(kept = next);
    });
    choice.addEventListener("change", () => draw(kept));
    button.hidden = extra === 0;
    button.addEventListener("click", () => draw(kept = -1));
    const start = () => draw(first);
    if (image.complete) start(); else image.addEventListener("load", start);
  };

  const viewer = document.getElementById("viewer");
  if (viewer) viewPicture(viewer);
  document.querySelectorAll("section.map").forEach((section) => MapView.make(section));
  document.querySelectorAll("section.steps").forEach((section) => new Steps(section));
})();
